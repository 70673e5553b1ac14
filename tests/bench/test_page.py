"""The page of figures is what its files say, and the one that is committed is not stale."""

import json
from pathlib import Path

import pytest

from fastif.bench.goals import GOALS, goals_table
from fastif.bench.page import make_page, write_page
from fastif.errors import StoredFileError

DOCS = Path(__file__).parents[2] / "docs"
WHERE = {"hardware": "NVIDIA H200", "threads": 16, "python": "3.12", "torch": "2.11", "fastif": "0.1", "commit": "abc"}
CASE = {"name": "bert-base", "model": "BERT", "data": "texts", "parameters": 14, "examples": 392_702, "tokens": 9}
ROW = {
    "queries": 1,
    "scan_s": 4.0,
    "first_scan_s": 9.0,
    "naive_s": 8000.0,
    "naive_s_for_each": 0.02,
    "batched_s": 100.0,
    "batched_way": "vmap(grad)",
    "ratio_to_naive": 2000.0,
    "ratio_to_batched": 25.0,
    "way": "forward mode",
    "peak_bytes": 2**34,
    "difference_to_naive": 1e-6,
}


def run_of_scan(**changed):
    check = {"examples": 10, "pearson": 0.99999, "top": 100, "overlap": 0.97}
    run = {
        "bench": "scan",
        "command": "fastif bench scan",
        "environment": WHERE,
        "case": CASE,
        "settings": {"precision": "auto", "memory_budget": None},
        "prefix": {"seconds": 1.0, "tokens": 9, "tokens_per_s": 2e6},
        "rows": [ROW],
        "sample": 200,
        "fidelity": {"same_states": check, "no_states": check},
    }
    return {**run, **changed}


def test_the_committed_page_is_what_its_files_say():
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == make_page(DOCS / "benchmarks"), (
        "docs/benchmarks.md is stale: run `fastif bench page`"
    )


def test_a_page_has_the_command_the_hardware_the_table_and_the_remarks(tmp_path):
    (tmp_path / "scan-h200.json").write_text(json.dumps(run_of_scan()))
    (tmp_path / "scan-h200.txt").write_text("Half of it is the attention.\n")
    write_page(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    for words in ("    fastif bench scan", "NVIDIA H200", "commit abc", "| 1 | 4.00 s |", "Half of it", "2,000x"):
        assert words in page


def test_files_that_are_no_figures_are_refused(tmp_path):
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(StoredFileError, match="names no benchmark"):
        make_page(tmp_path)
    (tmp_path / "odd.json").write_text("{")
    with pytest.raises(StoredFileError, match="could not be read"):
        make_page(tmp_path)


def test_goals_say_whether_they_are_reached():
    table = goals_table([run_of_scan()])
    assert "| at most 5.00 s | 4.00 s | reached |" in table
    assert "| at least 1.50 M tokens/s | 2.00 M tokens/s | reached |" in table
    assert "missed, at 99 % of the goal" in table  # the overlap
    smaller = run_of_scan(case={**CASE, "examples": 1000})
    assert goals_table([smaller]) == ""


def test_a_budget_counts_for_its_own_goal_alone():
    bounded = run_of_scan(settings={"precision": "auto", "memory_budget": 16 * 2**30})
    table = goals_table([bounded])
    assert "| at most 16.0 GiB | 16.0 GiB | reached |" in table
    assert "s_test given | at most 5.00 s | - | not measured yet |" in table


def test_every_goal_is_of_a_known_benchmark():
    assert {goal.where[0] for goal in GOALS} <= {"scan", "queries", "paper", "scaling"}

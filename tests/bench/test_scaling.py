"""`fastif bench scaling` on a tiny model: figures that make a table, bytes that obey the formula, a page of both."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from fastif.bench import scaling
from fastif.bench.goals import GOALS
from fastif.bench.page import read_runs
from fastif.bench.scaling.page import make_page
from fastif.bench.scaling.predict import Machine, check, fullest, gpu_of, predicted
from fastif.cli.app import run
from fastif.shares import Share

DOCS = Path(__file__).parents[2] / "docs"
STAGES = {
    "frozen layers",
    "LiSSA repeats, B = 1",
    "LiSSA repeats, B = 16",
    "conjugate gradients",
    "scoring",
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    file = tmp_path_factory.mktemp("scaling") / "scaling.json"
    line = ["--case", "tiny", "--examples", "48", "--processes", "1,2", "--rounds", "1", "--depth", "2"]
    assert run(["bench", "scaling", *line, "--out", str(file), "--json"]) == 0
    return json.loads(file.read_text())


def test_stages_and_bytes(measured):
    assert {(row["processes"], row["stage"]) for row in measured["rows"]} == {(n, s) for n in (1, 2) for s in STAGES}
    assert all(row["seconds"] > 0 for row in measured["rows"])
    for row in check(measured):
        assert row["bytes"] == row["formula"], row["stage"]
    assert "speed-up" in scaling.table(measured)
    assert set(measured["ceilings"]) == {"2"}


def test_a_team_of_one_is_compared_with_no_team_in_its_own_process():
    plan = scaling.Plan("tiny", 48, rounds=1, depth=2, queries=2)
    found = scaling.started(1, "fastif.bench.scaling.rank", asdict(plan), team=True)
    alone = found["alone"]
    assert set(alone) == set(found["stages"]) == STAGES
    assert all(it["seconds"] > 0 and not it["sent"] for it in alone.values())
    differences = {stage: it["difference"] for stage, it in found["stages"].items() if "difference" in it}
    assert set(differences) == STAGES - {"frozen layers"}
    assert max(differences.values()) < 1e-5


def test_a_page_is_made_of_it(measured, tmp_path):
    for path, one in read_runs(DOCS / "benchmarks"):
        if one["bench"] == "scan":
            (tmp_path / path.name).write_text(json.dumps(one))
    (tmp_path / "scaling.json").write_text(json.dumps(measured))
    assert run(["bench", "page", "--figures", str(tmp_path), "--out", str(tmp_path / "page.md")]) == 0
    page = (tmp_path / "scaling.md").read_text()
    for words in ("4 p Q T", "| scoring | 2 |", "## Predicted, not measured", "| 1e9 | 64 |", "## Measured"):
        assert words in page


def test_what_a_prediction_rests_on_is_named(measured, tmp_path, capsys):
    (tmp_path / "scaling.json").write_text(json.dumps(measured))
    assert run(["bench", "scaling", "--predict", "--figures", str(tmp_path)]) == 2
    assert "--memory-budget" in capsys.readouterr().err


def test_predictions_fall_with_gpus_and_rise_with_examples(measured):
    runs = [one for _, one in read_runs(DOCS / "benchmarks")]
    gpu = gpu_of(runs, measured)
    few, many = (predicted(gpu, Machine(), 10**8, gpus) for gpus in (4, 64))
    assert many["scan_s"] < few["scan_s"]
    assert predicted(gpu, Machine(), 10**9, 64)["scan_s"] > many["scan_s"]
    assert predicted(gpu, Machine(bandwidth=1e6), 10**6, 64)["first"].startswith("the link")


@pytest.mark.parametrize(("total", "ranks"), [(1, 1), (48, 2), (1000, 3), (1024, 3), (100_000, 7)])
def test_the_fullest_process_is_that_of_the_library(total, ranks):
    from torch import arange

    held = [len(Share(rank, ranks, total).of(arange(total))) for rank in range(ranks)]
    if total % Share(0, ranks, total).chunk == 0:
        assert fullest(total, ranks) == max(held)
    assert max(held) <= fullest(total, ranks) <= max(held) + Share(0, ranks, total).chunk


def test_goals_find_their_figures(measured):
    mine = [goal for goal in GOALS if goal.where == ("scaling", "bert-mini")]
    named = {**measured, "case": {**measured["case"], "name": "bert-mini"}}
    assert len(mine) == 3
    assert all(goal.value([named]) > 0 for goal in mine)


def test_the_committed_page_is_what_its_files_say():
    made = make_page(read_runs(DOCS / "benchmarks"))
    if made is None:
        pytest.skip("nothing of it was measured yet")
    assert (DOCS / "scaling.md").read_text(encoding="utf-8") == made, (
        "docs/scaling.md is stale: run `fastif bench page`"
    )


def test_wrong_usage(capsys):
    assert run(["bench", "scaling", "--processes", "two"]) == 2
    assert "1,2,4" in capsys.readouterr().err

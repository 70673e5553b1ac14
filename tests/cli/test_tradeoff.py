"""`fastif tradeoff` as a user runs it: what it writes, what it says, and how it fails."""

import json
from pathlib import Path

import pytest

from fastif.cli.app import run

GRID = ["--depth", "4,8", "--batch", "1,4", "--repeats", "1,2"]


def test_writes_tells_and_draws(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tradeoff"
    line = ["tradeoff", str(folder / "why"), *GRID, "-o", str(out), "--format", "png,pdf"]
    assert run(line) == 0
    seen = capsys.readouterr()
    assert "At a damping of 50, the dearest setting (J 8, B 4, T 2" in seen.out
    assert "to the converged" in seen.out
    assert "Taking 48 steps of the paper's solver" in seen.err
    assert {file.name for file in out.iterdir()} - {".lock"} == {
        "run.json",
        "result.json",
        "result.safetensors",
        "tradeoff.png",
        "tradeoff.pdf",
    }
    result = json.loads((out / "result.json").read_text())
    rows = [row for row in result["rows"] if row["group"] == "all"]
    assert len(rows) == 8
    # with so few steps what is missing is (1 - damp)^J and more of them come closer
    assert all(row["to_converged"] == pytest.approx(0.995 ** (row["depth"] + 1), abs=0.01) for row in rows)
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == result


def test_queries_without_labels_are_one_group(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tradeoff", str(folder / "unlabelled"), *GRID, "--curvature", "gauss-newton", "--json"]) == 0
    assert {row["group"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"all"}


def test_failures_are_one_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, words, status in (
        (["--depth", "ten"], "--depth takes whole numbers", 2),
        (["--repeats", "0"], "repeats must be whole numbers", 2),
        (["--damp", "0"], "damp and scale must be above 0", 2),
        (["--damp", "1e-6", "--scale", "1e-3"], "Here the damping is damp x scale", 1),
    ):
        assert run(["tradeoff", str(folder / "why"), *GRID, *change]) == status
        seen = " ".join(capsys.readouterr().err.split())
        assert words in seen
        assert "Traceback" not in seen

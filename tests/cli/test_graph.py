"""`fastif graph` as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastif.cli.app import run
from tests.cli.stored import store_run

NAMES: list[str | None] = ["a"] * 4 + ["b"] * 5 + ["c"]
TRAIN = [
    {"line": number + 2, "text": f"text {number}", "label": "xy"[number % 2], "slice": f"s{number % 3}"}
    for number in range(30)
]


def told_of(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert run(["graph", str(path), "--json", *options]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_a_picture_numbers_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES)
    told = told_of(path, capsys, "--top", "4")
    assert told["files"] == [str(path / "graph" / "graph.png")]
    assert (path / "graph" / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert told["edges"] == told["helpful"]["edges"] + told["harmful"]["edges"] == 80
    assert [it["queries"] for it in told["slices"]] == [4, 5, 1]
    assert "training points act on 10 queries in 3 slices through 80 edges" in told["summary"][0]
    assert told["rings"] == []


def test_a_file_has_the_format_of_its_name_and_a_directory_those_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store_run(tmp_path / "run", NAMES)
    assert told_of(path, capsys, "-o", str(tmp_path / "new" / "my.graph.pdf"))["files"] == [
        str(tmp_path / "new" / "my.graph.pdf")
    ]
    assert (tmp_path / "new" / "my.graph.pdf").read_bytes().startswith(b"%PDF")
    told = told_of(path, capsys, "-o", str(tmp_path / "some"), "--format", "svg,png", "--edges", "7")
    assert {Path(file).name for file in told["files"]} == {"graph.svg", "graph.png"}
    assert told["most_edges"] == 7


def test_a_picture_that_is_there_is_replaced_if_asked_or_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_run(tmp_path / "run", NAMES)
    mine = tmp_path / "graph.png"
    mine.write_text("mine")
    for place in (mine, tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr("fastif.cli.pictures.write", None)  # it is said before anything is drawn
            assert run(["graph", str(path), "-o", str(place)]) == 1
        assert "graph.png exists. Choose another name, or replace it with --force." in capsys.readouterr().err
    assert mine.read_text() == "mine"
    told_of(path, capsys, "-o", str(mine), "--force")
    assert mine.read_bytes().startswith(b"\x89PNG")
    for _ in range(2):
        told_of(path, capsys)
    told_of(path, capsys, "-o", str(path / "graph"))


def test_a_file_and_formats_that_contradict_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES)
    for formats in ("pdf", "png,pdf"):
        assert run(["graph", str(path), "-o", str(tmp_path / "b.png"), "--format", formats]) == 2
        assert f"asks for png and --format {formats} for something else" in capsys.readouterr().err
    assert not (tmp_path / "b.png").exists()
    told_of(path, capsys, "-o", str(tmp_path / "b.png"), "--format", "png")


def test_rings_by_slice_and_label_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES, train=TRAIN)
    rings = told_of(path, capsys, "--split-train", "slice")["rings"]
    assert sorted(ring["name"] for ring in rings) == ["s0", "s1", "s2"]
    assert [ring["train_points"] for ring in rings] == [10, 10, 10]
    told = told_of(path, capsys, "--split-train", "label")
    assert {ring["name"] for ring in told["rings"]} == {"x", "y"}
    sums = [ring["helpful"]["sum"] for ring in told["rings"]]
    assert sum(sums) == pytest.approx(told["helpful"]["sum"])
    assert any(words.startswith("For their number, training points of") for words in told["summary"])


def test_rings_by_another_column_of_the_training_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.csv"
    rows = [f"text {number},{'xy'[number % 2]},g{number % 4}" for number in range(30)]
    file.write_text("\n".join(["text,label,genre", *rows]) + "\n")
    given = {"train": str(file), "model": str(tmp_path)}
    path = store_run(tmp_path / "run", NAMES, train=TRAIN, arguments=given)
    told = told_of(path, capsys, "--split-train", "genre")
    assert {ring["name"] for ring in told["rings"]} == {"g0", "g1", "g2", "g3"}
    assert run(["graph", str(path), "--split-train", "gender"]) == 1
    assert "has no column 'gender', which --split-train asks for" in capsys.readouterr().err
    file.write_text("\n".join(["text,label,genre", *rows[1:], rows[0]]) + "\n")
    assert run(["graph", str(path), "--split-train", "genre"]) == 1
    assert "the training data is not what it was" in capsys.readouterr().err


def test_a_run_without_slices_of_its_training_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES)
    assert run(["graph", str(path), "--split-train", "slice"]) == 1
    assert "has no slices of its training data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("slices", "words"),
    [([None] * 3, "taken as one"), (["a"] * 3, "of one slice, a"), (["a", "a", "b"], "Slice b has")],
)
def test_few_slices_are_drawn_and_told_of(
    slices: list[str | None], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store_run(tmp_path / "run", slices)
    assert run(["graph", str(path)]) == 0
    seen = capsys.readouterr()
    assert words in seen.out
    assert "What it shows" in seen.out
    assert "graph.png" in seen.err


def test_failures_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store_run(tmp_path / "run", NAMES)
    assert run(["graph", str(path), "--format", "gif"]) == 2
    assert run(["graph", str(path), "--edges", "0"]) == 2
    assert run(["graph", str(tmp_path / "nothing")]) == 1
    (tmp_path / "file").write_text("mine")
    assert run(["graph", str(path), "-o", str(tmp_path / "file" / "x.png")]) == 1
    assert "could not be written" in capsys.readouterr().err

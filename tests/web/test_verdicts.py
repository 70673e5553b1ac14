"""Marks are taken only for the examples that they were made on, and only if they say one thing."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastif.errors import DataError
from fastif.web.marks import applied, as_parquet, mark_rows, marked_rows, read_marks
from fastif.web.names import ClassNames
from fastif.web.payload import LONGEST_TEXT, make_payload
from fastif.web.rows import read_rows
from fastif.web.source import read_run
from fastif.web.verdicts import Verdict, verdicts_of
from tests.web.runs import write_run

TRAIN = [
    {"line": 2, "text": "a dull film", "label": "0"},
    {"line": 3, "text": "a fine film", "label": "1"},
    {"line": 5, "text": "\ufefftwo\r\nlines " + "and more " * LONGEST_TEXT, "label": "1"},
    {"line": 6, "text": "half a pair \ud800", "label": "0"},
]
CLASSES = ClassNames({"0": "negative", "1": "positive"})
REMOVE = {"index": 1, "action": "remove"}


def found(*marks: Any) -> dict[int, Verdict]:
    return verdicts_of(marks, TRAIN, CLASSES, ("neutral",))


@pytest.mark.parametrize(
    "more",
    [
        {"text": "a fine film", "line": 3, "label": "positive"},
        {"text": "a fine film"},
        {"line": "3"},
        {"line": 3.0, "text": None, "label": None},
        {"line": "", "text": "", "label": ""},
        {"text": " a  fine film\n"},
    ],
)
def test_a_mark_of_the_example_with_its_index_is_taken(more: dict[str, Any]) -> None:
    assert found({**REMOVE, **more}) == {1: Verdict("remove")}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"text": "quite another text"}, "the text 'a fine film' in this run and 'quite another text' in the marks"),
        ({"line": 999}, "the line 3 in this run and 999"),
        ({"line": "three"}, "the line 3 in this run and three"),
        ({"label": "negative"}, "the label positive in this run and negative"),
        ({"line": 3, "label": "positive", "text": "a dull film"}, "made on other data"),
    ],
)
def test_a_mark_of_another_example_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        found({**REMOVE, **more})


@pytest.mark.parametrize("index", [5.7, True, None, math.inf, -math.inf, math.nan, "1.5", "one", [1], {}, 10**400, -1])
def test_an_index_that_is_none_is_refused(index: Any) -> None:
    with pytest.raises(DataError, match=r"index|has 4 of them"):
        found({**REMOVE, "index": index})


def test_what_is_no_mark_is_refused() -> None:
    with pytest.raises(DataError, match="no index of a training example; it has index;action"):
        found({"index;action": "1;remove"})
    with pytest.raises(DataError, match="it is \\[1\\]"):
        found([1])
    with pytest.raises(DataError, match="there are no marks"):
        found()


def test_marks_of_one_example_must_agree() -> None:
    assert found(REMOVE, {**REMOVE, "line": 3}) == {1: Verdict("remove")}
    with pytest.raises(DataError, match="two marks of example 1 that contradict each other: remove and relabel as neg"):
        found(REMOVE, {**REMOVE, "action": "relabel", "new_label": "negative"})


@pytest.mark.parametrize(("new", "name"), [("negative", "negative"), ("neutral", "neutral"), ("0", "0"), (0, "0")])
def test_a_new_label_is_a_class_of_the_run(new: Any, name: str) -> None:
    assert found({**REMOVE, "action": "relabel", "new_label": new}) == {1: Verdict("relabel", name)}


@pytest.mark.parametrize("new", ["zebra", ["negative"], True, {"a": 1}, 7])
def test_a_new_label_that_is_no_class_is_refused(new: Any) -> None:
    with pytest.raises(DataError, match=r"no class of this run\. Its classes are 0, 1, negative, neutral, positive"):
        found({**REMOVE, "action": "relabel", "new_label": new})


@pytest.mark.parametrize("redact", [False, True])
def test_what_the_page_writes_is_of_its_own_run(tmp_path: Path, redact: bool) -> None:
    content = read_run(write_run(tmp_path / "run", train=4))
    rows = [{**row, "label": each["label"]} for row, each in zip(TRAIN, content.train, strict=True)]
    content = replace(content, train=rows)
    payload = make_payload(content, redact=redact)
    made = mark_rows(payload, dict.fromkeys(range(4), "keep"))
    (tmp_path / "marks.parquet").write_bytes(as_parquet(made))
    marks = read_marks(tmp_path / "marks.parquet")
    assert (marks[2]["text"] is None) == redact
    if not redact:
        marks[2]["text"] = marks[2]["text"].removeprefix("\ufeff")  # as the decoder of a browser does
    left, counts = applied(rows, marks, CLASSES)
    assert (len(left), counts) == (4, {"keep": 4})


def test_files_that_a_spreadsheet_or_somebody_else_wrote(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    marks = tmp_path / "marks.csv"
    marks.write_bytes("\ufeffindex,line,action,label,new_label,text\r\n5,7,remove,,,\r\n".encode())
    assert marked_rows(run, marks)[1] == {"remove": 1}
    marks = tmp_path / "marks.jsonl"
    marks.write_text("\ufeff" + '{"index": 5, "action": "remove"}\n', encoding="utf-8")
    assert marked_rows(run, marks)[1] == {"remove": 1}
    marks.write_text("[" * 100_000)
    with pytest.raises(DataError, match="could not be read as marks"):
        read_marks(marks)
    marks.write_text('"index"\n')
    with pytest.raises(DataError, match="a line is 'index', and no object"):
        read_rows(marks, "marks")
    marks.write_text("")
    with pytest.raises(DataError, match="there are no marks"):
        marked_rows(run, marks)

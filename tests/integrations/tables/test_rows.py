"""Bad rows are named by their lines, the first three of them, and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastif import errors
from fastif.integrations.tables import TextTable, read_table


def read(path: Path, content: str, **options: Any) -> TextTable:
    path.write_bytes(content.encode())
    return read_table(path, **options)


def read_rows(folder: Path, rows: list[Any], **options: Any) -> TextTable:
    return read(folder / "a.jsonl", "\n".join(map(json.dumps, rows)), **options)


def labelled(labels: list[Any]) -> list[dict[str, Any]]:
    return [{"text": f"text {index}", "label": label} for index, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            '{"text": "a", "label": 0}\n{"text": "b", "label\n',
            r"1 row cannot be used\. line 2: broken JSON \(.*column",
        ),
        ("a.jsonl", '[{"text": "a", "label": 0}]\n', r"line 1: a list instead of an object .*must end in \.json"),
        ("a.jsonl", '[\n{"text": "a", "label": 0},\n', r"line 1: broken JSON.*a list over several lines must be in a"),
        (
            "a.jsonl",
            '{"text": "a", "label": 0}\n"b"\n3\n',
            r"2 rows cannot .* line 2: 'b' instead of an object \{\.\.\.\}; line 3: 3 instead",
        ),
        ("a.json", '[{"text": "a", "label": 0},\n{"text": "b" "label": 1}]', r"line 2: broken JSON \(.*column 14"),
        ("a.json", '[{"text": "a", "label": 0}\n{"text": "b"}]', r"line 2: broken JSON \(a comma is missing"),
        ("a.json", '[{"text": "a", "label": 0},\n3]', r"line 2: 3 instead of an object"),
        ("a.json", '[{"text": "a", "label": 0}\n\n', r"line 3: broken JSON \(the list does not end"),
        ("a.json", '[{"text": "a", "label": 0},\n]', r"line 2: broken JSON"),
        ("a.json", '[{"text": "a", "label": 0}]\n{"text": "b"}', r"line 2: broken JSON \(text after the end"),
        (
            "a.csv",
            "text,label\na,0\nb, c,1\nd\n",
            r"2 rows cannot be used\. line 3: 3 fields where the header has 2; line 4: 1 field .*must stand in quotes",
        ),
        ("a.csv", 'text,label\n"a\nb",0\n"c,1\nd,1\n', r"line 4: a quote that opens a field there is never closed"),
        ("a.csv", 'text,label\n"a" b,0\n', r"line 2: a quoted field goes on behind its closing quote"),
        ("a.csv", "text,text,label\na,b,0\n", r"line 1: the header names 'text' twice"),
        ("a.csv", "text;label\na;0\n", r"separated by semicolons"),
        ("a.csv", "text\tlabel\na\t0\n", r"separated by tabs: name the file \.tsv"),
        ("a.tsv", "text,label\na,0\n", r"separated by commas: name the file \.csv"),
        (
            "a.tsv",
            'text\tlabel\n"a\tb"\t0\n',
            r"line 2: 3 fields where the header has 2.*save texts that have these as csv or jsonl",
        ),
        (
            "a.csv",
            "text,label\n,0\na,1\n  ,0\n",
            r"2 rows cannot be used\. line 2: text is empty; line 4: text is empty\. Correct or remove them\.",
        ),
        ("a.csv", "premise,hypothesis,label\na,b,0\na,,1\n", r"line 3: hypothesis is empty"),
    ],
)
def test_broken_rows(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path / name, content)


def test_the_first_three_are_named_and_all_are_counted(tmp_path: Path) -> None:
    rows = "".join(f"{'' if number % 2 else 'words'},{number % 2}\n" for number in range(100))
    message = (
        r"50 rows cannot be used\. line 3: .*; line 5: .*; line 7: text is empty; and 47 more\. Correct or remove them"
    )
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path / "a.csv", "text,label\n" + rows)


def test_a_row_is_counted_once_and_rows_come_in_order(tmp_path: Path) -> None:
    content = "text,label\na,\n,\nb,0\n,1\n"
    with pytest.raises(
        errors.DataError, match=r"3 rows cannot .* line 2: no label; line 3: text is empty; line 5: text is"
    ):
        read(tmp_path / "a.csv", content)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "line 2: no text"),
        (7, "line 2: text is a number, 7, and not a string"),
        (["a"], r"line 2: text is a list, \['a'\]"),
        ({"a": 1}, "line 2: text is of type dict"),
        ("half \ud83d", "line 2: text has half a character"),
    ],
)
def test_texts_that_are_none(tmp_path: Path, text: Any, message: str) -> None:
    with pytest.raises(errors.DataError, match=message):
        read_rows(tmp_path, [{"text": "a", "label": 0}, {"text": text, "label": 1}])


def test_a_row_that_lacks_the_key(tmp_path: Path) -> None:
    with pytest.raises(errors.DataError, match=r"2 rows cannot be used\. line 2: no text; line 3: no label"):
        read_rows(tmp_path, [{"text": "a", "label": 0}, {"label": 1}, {"text": "b"}])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, None, 1], r"line 2: no label\. .*drop what has no label with --drop-unlabelled"),
        ([0.0, float("nan"), 1.0], r"line 2: no label"),
        (["a", " ", "b"], r"line 2: no label"),
        ([0, "one", 1], r"line 2: the label 'one' is a string where most are a number"),
        (["a", "b", 2], r"line 3: the label 2 is a number where most are a string"),
        ([1, True, 0], r"line 2: the label True is true or false where most are a number"),
        ([["a"], "b", ["c"]], r"line 2: the label 'b' is a string where most are a list"),
        ([0, {"a": 1}, 1], r"line 2: the label is of type dict, \{'a': 1\}"),
        ([0.5, float("inf"), 1], r"line 2: the label is infinite"),
        ([["a"], ["b", 1]], r"line 2: the label \['b', 1\] is no list of strings or of numbers"),
        ([[0.5], [None]], r"line 2: .*no list of"),
        ([[0.5], [float("nan")]], r"line 2: .*no list of"),
        ([[0.5], [10**400]], r"line 2: .*no list of"),
    ],
)
def test_labels_that_are_none_or_odd(tmp_path: Path, labels: list[Any], message: str) -> None:
    with pytest.raises(errors.LabelError, match=message):
        read_rows(tmp_path, labelled(labels))


def test_whole_and_broken_numbers_are_of_one_kind(tmp_path: Path) -> None:
    assert read_rows(tmp_path, labelled([1, 2.5, 3])).labels == [1, 2.5, 3]


def test_in_csv_nan_is_no_label_among_numbers_and_a_name_among_names(tmp_path: Path) -> None:
    with pytest.raises(errors.LabelError, match="line 3: no label"):
        read(tmp_path / "a.csv", "text,label\na,0.5\nb,NaN\n")
    assert read(tmp_path / "a.csv", "text,label\na,pita\nb,nan\n").labels == ["pita", "nan"]


@pytest.mark.parametrize(
    ("labels", "mark", "count"),
    [
        (["entailment", "-", "neutral", "-"], "'-'", 2),
        ([0, 1, -1, 2], "-1", 1),
        (["0", "-1", "1"], "'-1'", 1),
        ([-1, -1], "-1", 2),
        ([0.0, 1.0, -1.0], r"-1\.0", 1),
    ],
)
def test_marks_for_no_gold_label(tmp_path: Path, labels: list[Any], mark: str, count: int) -> None:
    first = next(index for index, label in enumerate(labels) if label in ("-", -1, "-1")) + 1
    message = (
        f"{count} of {len(labels)} rows have the label {mark}, which stands for no label, the first in line {first}\\."
    )
    with pytest.raises(errors.LabelError, match=message + r" Drop them with --drop-unlabelled \(in Python: drop_unlab"):
        read_rows(tmp_path, labelled(labels))
    table = read_rows(tmp_path, labelled(labels), require_label=False)
    assert table.labels == [None if label in ("-", -1, "-1") else label for label in labels]
    if count == len(labels):
        with pytest.raises(errors.EmptyDataError, match="none of the 2 rows has a label"):
            read_rows(tmp_path, labelled(labels), drop_unlabelled=True)
    else:
        table = read_rows(tmp_path, labelled(labels), drop_unlabelled=True)
        assert table.dropped == count
        assert table.labels == [label for label in labels if label not in ("-", -1, "-1")]
        assert table.lines == [index + 1 for index, label in enumerate(labels) if label not in ("-", -1, "-1")]


@pytest.mark.parametrize("labels", [["+", "-"], [-1, 1], [-2, -1, 0, 1], [0, -1, 0.5]])
def test_marks_that_are_labels(tmp_path: Path, labels: list[Any]) -> None:
    assert read_rows(tmp_path, labelled(labels)).labels == labels


def test_dropped_rows_may_lack_anything(tmp_path: Path) -> None:
    rows = [
        {"text": "a", "label": "x"},
        {"text": None, "label": "-"},
        {"text": "b", "label": None},
        {"text": "c", "label": "y"},
    ]
    table = read_rows(tmp_path, rows, drop_unlabelled=True)
    assert (table.texts, table.labels, table.lines, table.dropped) == (["a", "c"], ["x", "y"], [1, 4], 2)


def test_where_no_label_is_required(tmp_path: Path) -> None:
    assert read_rows(tmp_path, labelled([0, None, 1]), require_label=False).labels == [0, None, 1]
    assert read_rows(tmp_path, [{"text": "a"}], require_label=False).labels is None


def test_slices_are_strings(tmp_path: Path) -> None:
    rows = [{"text": str(number), "label": number % 2, "year": year} for number, year in enumerate([1999, None, ""])]
    assert read_rows(tmp_path, rows, slice="year").slices == ["1999", "(none)", "(none)"]

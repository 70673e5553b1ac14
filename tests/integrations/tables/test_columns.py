"""Which column is what: by request, by name, by looks, and never by a toss."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastif import errors
from fastif.integrations.tables import Columns, read_table

LONG = ["it rained all day long", "nobody came to the show", "a quiet walk by the sea", "the bus was late again"]


def columns_of(path: Path, columns: dict[str, list[Any]], **options: Any) -> Columns:
    count = len(next(iter(columns.values())))
    rows = [{name: values[index] for name, values in columns.items()} for index in range(count)]
    path = path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return read_table(path, **options).columns


@pytest.mark.parametrize(
    ("names", "text", "pair", "label"),
    [
        ("text label", "text", None, "label"),
        ("idx sentence label", "sentence", None, "label"),
        ("Review Sentiment", "Review", None, "Sentiment"),
        ("utterance intent", "utterance", None, "intent"),
        ("title text label label_text", "text", None, "label"),
        ("premise hypothesis label", "premise", "hypothesis", "label"),
        ("genre sentence1 sentence2 gold_label pairID", "sentence1", "sentence2", "gold_label"),
        ("sentence_A sentence_B score", "sentence_A", "sentence_B", "score"),
        ("id question1 question2 class", "question1", "question2", "class"),
        ("question sentence label", "question", "sentence", "label"),
        ("text text_pair target", "text", "text_pair", "target"),
        ("Text-A Text-B labels", "Text-A", "Text-B", "labels"),
        ("sentiment score text", "text", None, "sentiment"),
    ],
)
def test_well_known_names(tmp_path: Path, names: str, text: str, pair: str | None, label: str) -> None:
    found = columns_of(tmp_path, {name: ["a", "b"] for name in names.split()})
    assert (found.text, found.text_pair, found.label, found.slice) == (text, pair, label, None)
    roles = ("text", "label") if pair is None else ("text", "text_pair", "label")
    assert found.guessed == roles


def test_looks(tmp_path: Path) -> None:
    found = columns_of(tmp_path, {"id": [1, 2, 3, 4], "what": LONG, "how": ["good", "bad", "bad", "good"]})
    assert (found.text, found.label) == ("what", "how")
    assert str(found) == "what -> how (guessed; set them with --text, --label)"
    # beside a label, the only strings are the texts, however short
    assert columns_of(tmp_path, {"n": [1, 2], "word": ["oak", "elm"], "label": ["a", "b"]}).text == "word"


def test_what_is_asked_for_is_taken(tmp_path: Path) -> None:
    data = {"text": LONG, "premise": LONG, "hypothesis": LONG, "label": list("abab"), "kind": list("xxyy")}
    found = columns_of(tmp_path, data, text="premise", label="kind", slice="label")
    assert found == Columns("premise", None, "kind", slice="label")
    assert str(found) == "premise -> kind by label"
    found = columns_of(tmp_path, data, text_pair="hypothesis")
    assert (found.text, found.text_pair, found.guessed) == ("premise", "hypothesis", ("text", "label"))
    found = columns_of(tmp_path, data, text="text", text_pair="hypothesis")
    assert str(found) == "text + hypothesis -> label (label guessed; set it with --label)"


def test_no_label_where_none_is_required(tmp_path: Path) -> None:
    found = columns_of(tmp_path, {"text": LONG, "kind": list("xxyy")}, require_label=False)
    assert found.label is None
    assert str(found) == "text (no label) (guessed; set it with --text)"


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"txt": LONG, "label": list("abab")},
            {"text": "text"},
            r"no column 'text', which --text asks for\. It has: txt, label\. Did you mean 'txt'\?",
        ),
        ({"Gold Label": list("abab"), "text": LONG}, {"label": "gold_label"}, r"Did you mean 'Gold Label'\?"),
        (
            {"text": LONG, "label": list("abab")},
            {"slice": "region"},
            r"which --slice asks for\. It has: text, label\.$",
        ),
        (
            {"comment": LONG, "review": LONG, "label": list("abab")},
            {},
            r"text could be comment or review\. The columns are: comment, review, label\. .*--text .*text=\)",
        ),
        (
            {"text": LONG, "class": list("abab"), "target": list("abab")},
            {},
            r"label could be class or target\..*--label",
        ),
        (
            {"text": LONG, "premise": LONG, "hypothesis": LONG, "label": list("abab")},
            {},
            r"could be premise \+ hypothesis or text\.",
        ),
        (
            {"premise": LONG, "hypothesis": LONG, "text1": LONG, "text2": LONG, "label": list("abab")},
            {},
            r"premise \+ hypothesis or text1 \+ text2",
        ),
        ({"one": LONG, "two": LONG, "label": list("abab")}, {}, r"text could be one or two"),
        ({"text": LONG, "one": list("abab"), "two": list("abab")}, {}, r"label could be one or two"),
        ({"text": LONG}, {}, r"no column looks like the label\. The columns are: text\. Name it with --label"),
        ({"a": [1, 2, 3, 4], "label": list("abab")}, {}, r"no column looks like the text\."),
        (
            {"text": LONG, "label": list("abab")},
            {"slice": "label"},
            r"looks like the label\. Column 'label' is taken for --slice\. The columns are",
        ),
        (
            {"text": LONG, "label": list("abab")},
            {"slice": "text"},
            r"looks like the text\. Column 'text' is taken for --slice\. The columns are",
        ),
        (
            {"text": LONG, "label": list("abab")},
            {"text": "label", "label": "label"},
            r"'label' is taken for --text and for --label",
        ),
    ],
)
def test_what_cannot_be_told(tmp_path: Path, columns: dict[str, list[Any]], options: Any, message: str) -> None:
    with pytest.raises(errors.DataError, match=message):
        columns_of(tmp_path, columns, **options)


def test_a_file_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{text},{label}\n" for text, label in zip(LONG, ["good", "bad"] * 2, strict=True)))
    with pytest.raises(
        errors.DataError, match="first line, which should name the columns, looks like data, as 'it rained"
    ):
        read_table(path)
    path.write_text("short,good\n" + path.read_text())
    with pytest.raises(errors.DataError, match=r"looks like data, as 'good' comes again .* Put a line of names"):
        read_table(path)
    path.write_text("".join(f"{number},{number}.5\n" for number in range(4)))
    with pytest.raises(errors.DataError, match="the file has no header: put one above"):
        read_table(path)

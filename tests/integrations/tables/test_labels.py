"""What labels mean to a model: names however written, numbers where they can only be numbers, and clear refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from fastif import errors
from fastif.integrations.tables import Columns, LabelMap, TextTable, read_table

NLI = {0: "entailment", 1: "neutral", 2: "contradiction"}
STARS = {0: "1", 1: "2", 2: "3", 3: "4", 4: "5"}
PLACEHOLDERS = {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}


def table_of(labels: list[Any] | None, **options: Any) -> TextTable:
    count = len(labels or [1])
    texts = [f"text {number}" for number in range(count)]
    columns = Columns("text", label="label")
    return TextTable("a.csv", texts, None, labels, None, columns, list(range(2, count + 2)), "0" * 64, **options)


@pytest.mark.parametrize(
    ("id2label", "labels", "expected"),
    [
        (NLI, ["neutral", "entailment"], [1, 0]),
        (NLI, ["Neutral", " ENTAILMENT "], [1, 0]),
        ({0: "not_entailment", 1: "entailment"}, ["Not Entailment", "not-entailment", "entailment"], [0, 0, 1]),
        ({"0": "no", "1": "yes"}, ["yes", "no"], [1, 0]),
        (NLI, [2, 0], [2, 0]),
        (NLI, ["2", "0"], [2, 0]),
        (NLI, [2.0, 0.0], [2, 0]),
        (NLI, ["2.0", "0.0"], [2, 0]),
        (PLACEHOLDERS, ["LABEL_2", "label_0"], [2, 0]),
        (PLACEHOLDERS, [2, 0], [2, 0]),
        (PLACEHOLDERS, ["2", "0"], [2, 0]),
        ({0: "0", 1: "1"}, ["1", "0"], [1, 0]),
        ({0: "pos", 1: "POS"}, ["POS", "pos"], [1, 0]),
        (STARS, ["5", "1"], [4, 0]),  # there is no class with the number 5
        (STARS, [0, 3], [0, 3]),  # there is no class with the name 0
        ({0: "-1", 1: "1"}, [1, -1], [1, 0]),
        ({0: "False", 1: "True"}, [True, False], [1, 0]),
        ({0: "True", 1: "False"}, [True, False, True], [0, 1, 0]),
        ({0: "ham", 1: "spam"}, [True, False], [1, 0]),
        (NLI, [], []),
    ],
)
def test_one_label_each(id2label: dict[int, str], labels: list[Any], expected: list[int]) -> None:
    targets = LabelMap(id2label).encode(labels)
    assert targets == expected
    assert all(type(target) is int for target in targets)


@pytest.mark.parametrize(
    ("id2label", "labels", "message"),
    [
        (
            NLI,
            ["neutral", "entailmant"],
            r"train \(a\.csv\), line 3: the label 'entailmant' is not one of the model's, and "
            r"the model has entailment \(0\), neutral \(1\), contradiction \(2\)\. Did you mean 'entailment'\?",
        ),
        (NLI, [0, 3], r"line 3: the label 3 is not one of the model's"),
        (NLI, [0.0, 0.5], r"line 3: the label 0\.5 is not one"),
        (NLI, [0, 10**400], r"line 3: the label 1000.* is not one"),
        (NLI, ["0", "-1"], r"line 3: the label '-1' is not one"),
        (NLI, ["neutral", "-"], r"line 3: the label '-' is not one"),
        (
            NLI,
            ["neutral", "2"],
            r"line 2: the label 'neutral' is the name of a class, and '2' in line 3 the number of one\. "
            r"Write all of them one way",
        ),
        (
            STARS,
            ["1", "4"],
            r"line 2: the label '1' is the name of class 0 and the number of class '2'\. Say which with",
        ),
        (
            PLACEHOLDERS,
            ["neutral"],
            r"LABEL_0 to LABEL_2 only\. Write the labels as numbers from 0 to 2, or set id2label",
        ),
        ({0: "pos", 1: "pos"}, ["pos"], r"line 2: two classes of the model are called 'pos', .* names neither\. Give"),
        ({0: "pos", 1: "POS"}, ["Pos"], r"line 2: the label 'Pos' is not one"),
        (NLI, ["neutral", None, None], r"line 3: no label, as of 2 rows in all"),
        ({number: f"c{number}" for number in range(30)}, ["x"], r"c19 \(19\) and 10 more"),
    ],
)
def test_labels_that_the_model_does_not_have(id2label: dict[int, str], labels: list[Any], message: str) -> None:
    with pytest.raises(errors.LabelError, match=message):
        LabelMap(id2label).encode(table_of(labels))


def test_classes_of_one_name_are_named() -> None:
    LabelMap(NLI).check()
    with pytest.raises(errors.LabelError, match="two classes are called 'pos'"):
        LabelMap({0: "pos", 1: "neg", 2: "pos"}).check()


def test_whoever_says_what_numbers_are_is_believed() -> None:
    assert LabelMap(STARS, numbers="ids").encode([1, 4]) == [1, 4]
    assert LabelMap(STARS, numbers="names").encode([1, 4]) == [0, 3]
    assert LabelMap(STARS, numbers="names").encode(["1", "4"]) == [0, 3]
    with pytest.raises(errors.LabelError, match="label 2 is not one"):
        LabelMap(NLI, numbers="names").encode([2])


def test_labels_alone_are_called_by_what_is_given() -> None:
    with pytest.raises(errors.LabelError, match=r"^query, line 9: the label 'x'"):
        LabelMap(NLI).encode(["neutral", "x"], lines=[7, 9], source="query")
    with pytest.raises(errors.LabelError, match=r"^the labels, row 2: the label 'x'"):
        LabelMap(NLI).encode(["neutral", "x"])
    with pytest.raises(errors.ConfigurationError, match="2 labels and 1 line numbers"):
        LabelMap(NLI).encode(["neutral", "neutral"], lines=[7])
    with pytest.raises(errors.LabelError, match=r"train \(a\.csv\) has no labels\. Name their column with --label"):
        LabelMap(NLI).encode(table_of(None))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([["neutral"], ["Contradiction", "entailment"], []], [[0, 1, 0], [1, 0, 1], [0, 0, 0]]),
        ([[1], [2, 0], []], [[0, 1, 0], [1, 0, 1], [0, 0, 0]]),
        ([[0, 1, 0], [1, 0, 1]], [[0, 1, 0], [1, 0, 1]]),
        ([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]], [[0, 1, 0], [1, 1, 1]]),
        ([[0, 1, 2], [2, 1, 0]], [[1, 1, 1], [1, 1, 1]]),
    ],
)
def test_several_labels_each(labels: list[Any], expected: list[list[int]]) -> None:
    rows = LabelMap(NLI).encode(labels)
    assert rows == expected
    assert all(type(value) is float for row in rows for value in row)  # type: ignore[union-attr]


def test_several_labels_each_that_cannot_be_read() -> None:
    with pytest.raises(errors.LabelError, match=r"line 3: the label 'neutrl' is not one.*Did you mean 'neutral'"):
        LabelMap(NLI).encode(table_of([["neutral"], ["entailment", "neutrl"]]))
    with pytest.raises(errors.LabelError, match=r"line 2: the label \[0, 1\] could be numbers of classes, or 0 and 1"):
        LabelMap({0: "a", 1: "b"}).encode(table_of([[0, 1], [1, 0]]))
    with pytest.raises(errors.LabelError, match="is a list, and the model gives one label each"):
        LabelMap(NLI, problem="single_label_classification").encode(table_of([["neutral"]]))
    assert LabelMap(NLI, problem="multi_label_classification").encode(["neutral"]) == [[0, 1, 0]]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 0], [[0], [1], [0]]),
        ([0, 0], [[0], [0]]),
        (["1", "0"], [[1], [0]]),
        ([True, False], [[1], [0]]),
        ([[1], [0]], [[1], [0]]),
        ([[0.0], [0.0]], [[0], [0]]),
        ([["rude"], []], [[1], [0]]),
        ([[0], []], [[1], [0]]),
    ],
)
def test_the_only_label_of_several_holds_or_does_not(labels: list[Any], expected: list[list[int]]) -> None:
    assert LabelMap({0: "rude"}, problem="multi").encode(labels) == expected


def test_lists_of_zeros_for_the_only_label_could_be_its_number() -> None:
    with pytest.raises(errors.LabelError, match=r"the label \[0\] could be numbers of classes, or 0 and 1"):
        LabelMap({0: "rude"}, problem="multi").encode([[0], [0]])


def test_regression() -> None:
    assert LabelMap({0: "LABEL_0"}).encode(["3.5", "-1"]) == [3.5, -1.0]
    assert LabelMap({0: "LABEL_0"}).encode([3, 2.25]) == [3.0, 2.25]
    assert LabelMap({0: "a", 1: "b"}, problem="regression").encode([[1, 2.5]]) == [[1.0, 2.5]]
    for label in ("high", float("inf"), "nan", True, [1.0, 2.0]):
        with pytest.raises(
            errors.LabelError, match=r"line 3: the label .* is not a finite number, as a model with 1 out"
        ):
            LabelMap({0: "LABEL_0"}).encode(table_of([1.0, label]))
    with pytest.raises(errors.LabelError, match="not a list of 2 finite numbers"):
        LabelMap({0: "a", 1: "b"}, problem="regression").encode([[1.0]])


def test_a_map_is_checked_when_made() -> None:
    for id2label in ({}, {1: "a", 2: "b"}, {0: "a", 2: "b"}):
        with pytest.raises(errors.ConfigurationError, match="without a gap"):
            LabelMap(id2label)
    with pytest.raises(errors.ConfigurationError, match="must map numbers to names"):
        LabelMap({"a": 0})  # type: ignore[dict-item]
    with pytest.raises(errors.ConfigurationError, match="problem must be one of"):
        LabelMap(NLI, problem="ranking")
    with pytest.raises(errors.ConfigurationError, match="numbers must be"):
        LabelMap(NLI, numbers="both")  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------- a new classifier


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["pos", "neg", "pos"], ["neg", "pos"]),
        (["10", "9", "1"], ["1", "9", "10"]),
        ([3, 1, 2, 1], ["1", "2", "3"]),
        ([1.0, 0.0], ["0", "1"]),
        (["10", "9", "x"], ["10", "9", "x"]),
        ([True, False], ["False", "True"]),
        ([["b"], ["a", "c"], []], ["a", "b", "c"]),
        ([[3], [1, 2]], ["1", "2", "3"]),
    ],
)
def test_labels_are_learned_in_order_and_read_again(labels: list[Any], names: list[str]) -> None:
    learned = LabelMap.learn(table_of(labels))
    assert list(learned.id2label.values()) == names
    targets = learned.encode(table_of(labels))
    if isinstance(labels[0], list):
        assert [sum(row) for row in targets] == [len(label) for label in labels]  # type: ignore[arg-type]
    else:
        expected = [names.index(str(int(label)) if type(label) is float else str(label)) for label in labels]
        assert targets == expected


def test_rows_of_zero_and_one_are_learned_by_place() -> None:
    labels = [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    learned = LabelMap.learn(table_of(labels))
    assert learned.id2label == PLACEHOLDERS
    assert learned.encode(table_of(labels)) == labels


def test_what_cannot_be_learned() -> None:
    with pytest.raises(
        errors.LabelError, match="column 'label' has only the label 'a' in 3 rows; a classifier needs two"
    ):
        LabelMap.learn(table_of(["a"] * 3))
    with pytest.raises(errors.LabelError, match="has 1001 different labels, and a classifier learns at most 1000"):
        LabelMap.learn(table_of([f"name {number}" for number in range(1001)]))
    with pytest.raises(errors.LabelError, match=r"has numbers such as 2\.5 \(line 3\), which are no classes"):
        LabelMap.learn(table_of([1, 2.5]))
    with pytest.raises(errors.LabelError, match=r"line 3: no label"):
        LabelMap.learn(table_of(["a", None]))
    with pytest.raises(errors.LabelError, match="has no labels to learn"):
        LabelMap.learn(table_of(None))
    with pytest.raises(errors.LabelError, match="has no label in 2 rows"):
        LabelMap.learn(table_of([[], []]))


def test_from_file_to_targets(tmp_path: Path) -> None:
    path = tmp_path / "nli.jsonl"
    rows = [
        {"premise": "it rains", "hypothesis": "it is wet", "gold_label": "entailment"},
        {"premise": "it rains", "hypothesis": "who knows", "gold_label": "-"},
        {"premise": "it rains", "hypothesis": "it is dry", "gold_label": "contradiction"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = read_table(path, drop_unlabelled=True)
    assert LabelMap({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}).encode(table) == [2, 0]
    rows[2]["gold_label"] = "contradicts"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = read_table(path, drop_unlabelled=True)
    with pytest.raises(errors.LabelError, match=r"nli\.jsonl\), line 3: the label 'contradicts'"):
        LabelMap(NLI).encode(table)

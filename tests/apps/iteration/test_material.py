"""What may not be used together, and what a person is told of the data."""

import pytest
import torch

import fastif
from fastif.apps.iteration import check_material, keys_of, only_slice
from fastif.errors import ConfigurationError, DataError


def texts(*words: str, labels: list[int] | None = None, **columns: object) -> fastif.Examples:
    targets = torch.tensor([row % 2 for row in range(len(words))] if labels is None else labels)
    data = (torch.zeros(len(words), 2), targets)
    return fastif.Examples(data, text=words, label_names=["no", "yes"], **columns)  # type: ignore[arg-type]


TRAIN = texts("a", "b", "c", "d", source="train")
ANCHORS = texts("x", "y", source="anchors")


def test_nothing_to_say() -> None:
    assert check_material(TRAIN, ANCHORS, test=texts("t"), original=texts("o"), pool=texts("p")) == []


def test_anchors_in_the_test_set_are_an_error_whatever_their_case_and_spaces() -> None:
    with pytest.raises(DataError, match="1 anchors are in the test set too, for instance 'y'"):
        check_material(TRAIN, ANCHORS, test=texts("t", " Y "))


def test_what_measures_shares_nothing_with_what_is_chosen_from() -> None:
    with pytest.raises(DataError, match="examples of pool stand in test too, for instance 't'"):
        check_material(TRAIN, ANCHORS, test=texts("t"), pool=texts("p", "t"))
    with pytest.raises(DataError, match="examples of pool stand in anchors too"):
        check_material(TRAIN, ANCHORS, pool=texts("p", "x"))
    with pytest.raises(DataError, match="examples of pool stand in original too"):
        check_material(TRAIN, ANCHORS, original=texts("o"), pool=texts("o"))
    with pytest.raises(DataError, match="examples of anchors stand in original too"):
        check_material(TRAIN, ANCHORS, original=texts("x"))


def test_what_the_model_has_learned_already_is_told() -> None:
    notes = check_material(TRAIN, texts("a", "y"), test=texts("t", "b"), original=texts("c"), pool=texts("p", "q", "D"))
    assert [note.split(" stand")[0] for note in notes] == [
        "1 of 2 examples of anchors",
        "1 of 2 examples of test",
        "1 of 1 examples of original",
        "1 of 3 examples of pool",
    ]


def test_anchors_of_one_class_are_told_with_the_reason() -> None:
    (note,) = check_material(TRAIN, texts("x", "y", labels=[1, 1]), test=texts("t"))
    assert note.startswith("all anchors have the label yes.")
    assert "makes the model say yes more often, everywhere" in note


def test_a_slice_of_the_anchors_must_be_in_the_test_set() -> None:
    anchors = texts("x", "y", slices=["one", "two"], source="anchors")
    assert check_material(TRAIN, anchors, test=texts("t", "u", slices=["two", "one"])) == []
    with pytest.raises(DataError, match=r"test has no row of the slice 'two'.*Its slices are one \(2\)"):
        check_material(TRAIN, anchors, test=texts("t", "u", slices=["one", "one"], source="test"))


def test_the_rows_of_one_slice() -> None:
    examples = texts("x", "y", "z", slices=["one", "two", "one"], source="anchors")
    some = only_slice(examples, "one")
    assert some.text == ["x", "z"]
    assert some.slices == ["one", "one"]
    with pytest.raises(
        DataError, match=r"anchors has no row of the slice 'three'. Its slices are one \(2\), two \(1\)"
    ):
        only_slice(examples, "three")
    with pytest.raises(ConfigurationError, match="--slice"):
        only_slice(TRAIN, "one")


def test_without_texts_examples_are_known_by_their_inputs() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    first, second, third = keys_of(fastif.Examples((x, torch.tensor([0, 1, 1]))))
    assert first == third != second
    data, other = fastif.Examples((x, torch.tensor([0, 1, 1]))), fastif.Examples((x[1:2], torch.tensor([0])))
    with pytest.raises(DataError, match="test set"):
        check_material(data, data, test=other)

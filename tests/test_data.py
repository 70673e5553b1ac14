"""Examples: every form of data gives the same batches, in order, with words for people."""

from typing import Any

import numpy as np
import pandas
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from fastif import Examples, data
from fastif.errors import ConfigurationError, DataError, EmptyDataError, NonFiniteError, ShapeError

X = torch.arange(12.0).reshape(6, 2)
Y = torch.tensor([0, 1, 2, 0, 1, 2])


class Lazy(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return X[index].numpy(), int(Y[index])


@pytest.mark.parametrize("data", [(X, Y), (X.numpy(), Y.numpy()), Lazy(), [(X[i], Y[i]) for i in range(6)]])
def test_batches_cover_the_data_in_order(data: Any) -> None:
    examples = Examples(data)
    batches = list(examples.batches(4))
    assert [len(batch) for batch in batches] == [4, 2]
    assert torch.equal(torch.cat([batch.inputs[0] for batch in batches]), X)
    assert torch.equal(torch.cat([batch.targets for batch in batches]), Y)
    assert torch.equal(torch.cat([batch.ids for batch in batches]), torch.arange(6))


def test_given_ids_are_kept_in_their_order() -> None:
    batches = list(Examples(Subset(Lazy(), [1, 3, 5])).batches(2, torch.tensor([2, 0, 1])))
    assert torch.cat([batch.targets for batch in batches]).tolist() == [2, 1, 0]
    assert torch.cat([batch.ids for batch in batches]).tolist() == [2, 0, 1]


class Movable(Examples):
    def on(self, device: torch.device) -> Examples:
        return Examples((X + 100, Y))


def test_some_rows_follow_the_whole_to_a_device_again_and_again() -> None:
    some = data.Subset(Movable((X, Y)), [4, 0, 4])
    there = some.on(torch.device("meta"))
    assert there.batch([0, 1, 2]).inputs[0].tolist() == (X[[4, 0, 4]] + 100).tolist()
    assert there.batch([2]).ids.tolist() == [2]
    assert some.batch([0]).inputs[0].tolist() == X[[4]].tolist()


def test_inputs_and_targets_are_told_apart() -> None:
    several = Examples((X, X + 1, Y)).batch([0])
    assert len(several.inputs) == 2
    named = Examples({"labels": Y, "a": X, "b": X}).batch([0, 1])
    assert isinstance(named.inputs, dict)
    assert list(named.inputs) == ["a", "b"]
    alone = Examples(X).batch([3])
    assert torch.equal(alone.targets, alone.inputs[0])


def test_items_come_back_as_they_were_given() -> None:
    assert Examples(Lazy())[4][1] == 1
    assert Examples((X, Y))[-1][1] == 2
    assert Examples({"x": X, "labels": Y})[2]["labels"] == 2
    assert Examples(X)[1].tolist() == [2.0, 3.0]
    with pytest.raises(IndexError, match="no number 6"):
        Examples((X, Y))[6]


def test_a_collate_function_makes_tensors_of_anything() -> None:
    words = [("one", 0), ("three", 1)]

    def lengths(items: list[Any]) -> tuple[Tensor, Tensor]:
        return torch.tensor([[float(len(word))] for word, _ in items]), torch.tensor([label for _, label in items])

    assert Examples(words, collate=lengths).batch([1, 0]).inputs[0].tolist() == [[5.0], [3.0]]


def test_words_about_an_example() -> None:
    named = Examples((X, Y), text=["a  text\nof two lines", *["b" * 100] * 5], label_names=["cat", "dog", "cow"])
    assert named.describe(0) == "a text of two lines"
    assert named.describe(1) == "b" * 59 + "…"
    assert named.label(2) == "cow"
    assert Examples((X, Y)).label(2) == "2"
    assert Examples((X, X[:, 0])).label(1) == "2"
    assert Examples((X, X)).label(1) == "tensor of 2"
    assert Examples((X, Y)).describe(0) == ""


def test_columns_of_a_data_frame_are_taken_by_position() -> None:
    frame = pandas.DataFrame({"text": list("abcdef")}).iloc[::-1]
    examples = Examples((X, Y), text=frame["text"], label_names=np.array(["cat", "dog", "cow"]))
    assert examples.describe(0) == "f"
    assert examples.label(1) == "dog"
    assert Examples((X, Y), label_names={0: "no", 2: "yes"}).label(2) == "yes"


def test_masks_may_hold_minus_infinity() -> None:
    mask = torch.tensor([[0.0, -torch.inf]])
    assert torch.equal(Examples((mask, Y[:1])).batch([0]).inputs[0], mask)


def test_what_cannot_be_data_is_refused() -> None:
    with pytest.raises(EmptyDataError, match="queries is empty"):
        Examples([], source="queries")
    with pytest.raises(DataError, match="5 entries of text"):
        Examples((X, Y), text=["a"] * 5)
    with pytest.raises(DataError, match="column is not a tensor"):
        Examples({"x": [1, 2], "labels": Y})
    with pytest.raises(DataError, match="do not hold inputs and a target"):
        Examples((Y,)).batch([0])
    with pytest.raises(ShapeError, match="first dimension must count the examples"):
        Examples(Lazy(), collate=lambda items: (X[:1], Y[:2])).batch([0, 1])
    with pytest.raises(NonFiniteError, match=r"example 3 of data .* in the target"):
        Examples((X, torch.tensor([0.0, 1.0, 2.0, float("nan"), 0.0, 0.0]))).batch([2, 3])


def test_a_data_set_with_items_of_its_own_is_not_read_past_them() -> None:
    class Scaled(TensorDataset):
        def __getitem__(self, index: int) -> tuple[Tensor, ...]:
            x, y = super().__getitem__(index)
            return 100 * x, y

    seen = Examples(Scaled(X, Y)).batch([2, 0])
    assert torch.equal(seen.inputs[0], 100 * X[[2, 0]])
    assert torch.equal(Examples(TensorDataset(X, Y)).batch([2, 0]).inputs[0], X[[2, 0]])


@pytest.mark.parametrize("labels", [np.array(["cat"] * 6), np.array([1] * 6, dtype=object)])
def test_labels_that_are_no_numbers_are_told_to_become_some(labels: Any) -> None:
    for columns in ((X, labels), {"x": X, "labels": labels}):
        with pytest.raises(DataError, match=r"in data, .* is an array of .*label_names"):
            Examples(columns)


def test_label_names_that_have_no_number_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="label_names has the keys 'cat'"):
        Examples((X, Y), label_names={"cat": "dog"})  # type: ignore[dict-item]


def test_a_loader_is_told_apart_from_its_data() -> None:
    loader = DataLoader(TensorDataset(X, Y), batch_size=2, shuffle=True)
    with pytest.raises(DataError, match=r"train is a DataLoader.*loader\.dataset.*collate=loader\.collate_fn"):
        Examples(loader, source="train")
    assert torch.equal(Examples(loader.dataset, collate=loader.collate_fn).batch([1]).inputs[0], X[1:2])


def test_examples_are_passed_through() -> None:
    examples = Examples((X, Y))
    assert Examples.of(examples, "train") is examples

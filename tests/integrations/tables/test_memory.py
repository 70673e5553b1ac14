"""Tables of data in memory: one row or columns, and numbers of NumPy and torch as those of Python."""

from typing import Any

import numpy as np
import pytest
import torch

from fastif import errors
from fastif.integrations.tables import LabelMap, table_of

NAMES = {0: "a", 1: "b", 2: "c"}


@pytest.mark.parametrize("row", [{"text": "good"}, {"text": "the film", "label": 1}, {"text": "the", "label": ["b"]}])
def test_a_mapping_with_one_text_is_one_row(row: dict[str, Any]) -> None:
    table = table_of(row, require_label=False)
    assert table.texts == [row["text"]]
    assert table.labels == ([row["label"]] if "label" in row else None)


def test_a_number_is_no_column() -> None:
    with pytest.raises(errors.DataError, match="the column label of train is 1, a int and no list"):
        table_of({"text": ["a", "b"], "label": 1})


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 2, 1]),
        np.array([0, 2, 1], dtype=np.uint8),
        torch.tensor([0, 2, 1]),
        list(np.array([0, 2, 1])),
        list(torch.tensor([0, 2, 1])),
        np.array(["a", "c", "b"]),
    ],
)
def test_labels_of_numpy_and_torch(labels: Any) -> None:
    texts = ["one", "two", "three"]
    assert LabelMap(NAMES).encode(labels) == [0, 2, 1]
    assert LabelMap(NAMES).encode(table_of({"text": np.array(texts), "label": labels})) == [0, 2, 1]
    rows = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    assert LabelMap(NAMES).encode(table_of(rows)) == [0, 2, 1]


def test_several_labels_each_of_an_array() -> None:
    hot = np.array([[0, 1, 0], [1, 0, 1]])
    assert LabelMap(NAMES, problem="multi").encode(hot) == hot.tolist()

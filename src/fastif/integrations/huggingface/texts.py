"""Texts as examples: tokenised once, kept at their true length, padded batch by batch.

Knows tokenizers and labels as numbers; knows no model. What a person reads of an example is its text, never its tokens.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fastif.batch import TARGET_KEY, Batch, make_batch
from fastif.data import Examples
from fastif.errors import DataError, EmptyDataError
from fastif.losses import IGNORED_CLASS
from fastif.ragged import Ragged

Target = int | float | Sequence[int] | Sequence[float]
CHUNK = 4096  # texts that go to the tokenizer together
ALIGNED = 8  # few different lengths on a GPU, and those that its matrix units like
BETWEEN = " ⏐ "  # the two texts of a pair, on one line


class TokenTable:
    """Rows of token ids at their true length, side by side in one tensor for each input of the model.

    Targets are one for each row, or one for each token.
    """

    def __init__(
        self, columns: dict[str, Ragged], padding: dict[str, int], targets: Tensor | Ragged, multiple: int = 1
    ) -> None:
        self._columns = columns
        self._padding = padding
        self._multiple = multiple  # lengths of batches are rounded up to this
        self.lengths = next(iter(columns.values())).lengths
        self.targets = targets

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one row: its tokens without padding, and its target."""
        tokens = {name: column.row(index).long() for name, column in self._columns.items()}
        targets = self.targets[index] if isinstance(self.targets, Tensor) else self.targets.row(index).long()
        return {**tokens, TARGET_KEY: targets}

    def batch(self, ids: Tensor) -> dict[str, Tensor]:
        """Return some rows, padded on the right to the longest of them, and their targets."""
        length = next(iter(self._columns.values())).longest(ids, self._multiple)
        tokens = {
            name: column.batch(ids, length=length, fill=self._padding[name]).long()
            for name, column in self._columns.items()
        }
        if isinstance(self.targets, Tensor):
            return {**tokens, TARGET_KEY: self.targets[ids]}
        return {**tokens, TARGET_KEY: self.targets.batch(ids, length=length, fill=IGNORED_CLASS).long()}

    def with_targets(self, targets: Tensor) -> "TokenTable":
        """Return the same rows with other targets."""
        return TokenTable(self._columns, self._padding, targets, self._multiple)

    def on(self, device: torch.device) -> "TokenTable":
        """Return the same rows with tokens on a device; targets stay, where they can be looked at without waiting."""
        columns = {name: column.to(device) for name, column in self._columns.items()}
        return TokenTable(columns, self._padding, self.targets, ALIGNED if device.type == "cuda" else 1)


class TokenExamples(Examples):
    """Rows of tokens as examples; `source` is how messages call them."""

    def __init__(self, table: TokenTable, *, source: str = "data", **columns: Any) -> None:
        super().__init__(table, source=source, **columns)
        self.lengths = table.lengths
        self._table = table

    def batch(self, ids: Sequence[int] | Tensor) -> Batch:
        """Return the examples with these numbers as one batch."""
        chosen = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        return make_batch(self._table.batch(chosen), chosen, self.source)

    def on(self, device: torch.device) -> Self:
        """Return the same examples with their tokens on a device."""
        return self._with(self._table.on(device))

    def _with(self, table: TokenTable) -> Self:
        other = copy.copy(self)
        other._items = other._table = table
        return other


class TextExamples(TokenExamples):
    """Texts, or pairs of texts, with one label each, as examples of a model with this tokenizer.

    `truncated` counts the texts that were longer than `max_length` tokens and were cut.
    """

    def __init__(
        self,
        texts: Sequence[str],
        targets: Sequence[Target] | Tensor,
        tokenizer: Any,
        *,
        pairs: Sequence[str] | None = None,
        max_length: int,
        label_names: dict[int, str] | None = None,
        slices: Sequence[str] | None = None,
        source: str = "data",
    ) -> None:
        _check(texts, pairs, targets, source)
        table, self.truncated = tokenize(
            texts, pairs, torch.as_tensor(targets), tokenizer, max_length=max_length, source=source
        )
        self.texts, self.pairs, self.max_length = list(texts), None if pairs is None else list(pairs), max_length
        shown = self.texts if pairs is None else [f"{one}{BETWEEN}{two}" for one, two in zip(texts, pairs, strict=True)]
        super().__init__(table, text=shown, label_names=label_names, slices=slices, source=source)

    @property
    def targets(self) -> Tensor:
        """The target of every example."""
        assert isinstance(self._table.targets, Tensor)
        return self._table.targets

    def __getitem__(self, index: int) -> Any:
        """Return one example as a person reads it: its text or texts, and its label by name."""
        texts = {"text": self.texts[index]} | ({} if self.pairs is None else {"text_pair": self.pairs[index]})
        return {**texts, "label": self.name_of(self.targets[index])}

    def name_of(self, target: Tensor) -> str:
        """Return a target in words; of several labels each, those that hold."""
        if target.ndim == 1 and len(target) == len(self.label_names):
            return ", ".join(self.label_names[number] for number in (target > 0.5).nonzero()[:, 0].tolist()) or "none"
        return super().name_of(target)

    def with_predictions(self, predictions: Tensor) -> "TextExamples":
        """Return the same texts, with what a model predicts in the place of their labels."""
        other = self._with(self._table.with_targets(predictions))
        other.targets_are_predictions = True
        return other


def tokenize(
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    targets: Tensor,
    tokenizer: Any,
    *,
    max_length: int,
    source: str = "data",
) -> tuple[TokenTable, int]:
    """Return the tokens of all texts, and how many texts had to be cut."""
    parts: dict[str, list[np.ndarray]] = {}
    lengths: list[int] = []
    truncated = 0
    for start in range(0, len(texts), CHUNK):
        some = list(texts[start : start + CHUNK])
        second = None if pairs is None else list(pairs[start : start + CHUNK])
        encoded = tokenizer(some, second, truncation=True, max_length=max_length, padding=False, verbose=False)
        counts = [len(ids) for ids in encoded["input_ids"]]
        full = [row for row, count in enumerate(counts) if count >= max_length]
        if full:
            whole = tokenizer(
                [some[row] for row in full],
                None if second is None else [second[row] for row in full],
                truncation=False,
                padding=False,
                verbose=False,
            )
            truncated += sum(len(ids) > max_length for ids in whole["input_ids"])
        for name, rows in encoded.items():
            flat = np.fromiter((token for row in rows for token in row), dtype=np.int32, count=sum(counts))
            parts.setdefault(name, []).append(flat)
        if 0 in counts:
            row = start + counts.index(0)
            raise DataError(f"the text of example {row} of {source} gives no token: {texts[row]!r}. Leave it out.")
        lengths += counts
    counted = torch.tensor(lengths)
    columns = {name: Ragged(torch.from_numpy(np.concatenate(chunks)), counted) for name, chunks in parts.items()}
    padding = {name: padding_of(tokenizer, name) for name in columns}
    return TokenTable(columns, padding, targets), truncated


def padding_of(tokenizer: Any, name: str) -> int:
    """Return what an input of this name is filled up with, behind the end of a text."""
    if name == "input_ids":
        return int(tokenizer.pad_token_id)
    return int(tokenizer.pad_token_type_id) if name == "token_type_ids" else 0


def _check(texts: Sequence[str], pairs: Sequence[str] | None, targets: Any, source: str) -> None:
    if len(texts) == 0:
        raise EmptyDataError(f"{source} is empty: there is no text to work with. Pass at least one.")
    for name, column in (("second texts", pairs), ("labels", targets)):
        if column is not None and len(column) != len(texts):
            raise DataError(f"{source} has {len(texts)} texts but {len(column)} {name}: give one each.")
    require_strings({"text": texts, "second text": pairs or ()}, source)


def require_strings(columns: Mapping[str, Sequence[Any]], source: str) -> None:
    """Raise for the first that is no string, by the name of its column."""
    for name, column in columns.items():
        odd = next((row for row, text in enumerate(column) if not isinstance(text, str)), None)
        if odd is not None:
            raise DataError(f"the {name} of example {odd} of {source} is a {type(column[odd]).__name__}, not a string.")

"""Examples: one indexed view of any map-style data set, and the batches that are cut from it.

Accepted are a tuple of tensors `(x, ..., y)`, a dictionary of tensors with the key `labels`, a single tensor (input and
target at once, as for autoencoders), a torch `Dataset` or list of such items, and `Examples`. Nothing here knows of
models; what a batch must look like for a model is the model's own business.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from fastif.batch import Batch, make_batch
from fastif.errors import ConfigurationError, DataError, EmptyDataError, ShapeError
from fastif.spread import spread

ALIGNED = 8  # larger batches of examples of unequal lengths have a multiple of this, as fast kernels want it
MOST_TIMES = 4  # a batch of the shortest examples has at most so many times batch_size of them


class MapDataset(Protocol):
    """What a map-style data set must offer."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Examples:
    """An indexed view of a data set, with what a person wants to read about each example.

    Args:
        data: any of the forms named at the top of this file.
        text: one string for each example, shown in place of its tensors.
        label_names: the names of the classes, in the order of their numbers.
        slices: one name for each example, of the part of the data it belongs to.
        collate: makes a batch from a list of items; torch's `default_collate` unless given.
        source: how messages call this data ("train", "queries").

    >>> examples = Examples((torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])))
    >>> len(examples), examples.batch([2, 0]).targets
    (3, tensor([1, 0]))
    """

    def __init__(
        self,
        data: Any,
        *,
        text: Iterable[str] | None = None,
        label_names: Iterable[str] | Mapping[int, str] | None = None,
        slices: Iterable[str] | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        source: str = "data",
    ) -> None:
        self.source = source
        # as lists, since a column of a data frame would be indexed by its labels
        self.text = None if text is None else list(text)
        self.slices = None if slices is None else list(slices)
        self.label_names = _label_names(label_names)
        self.lengths: Tensor | None = None  # positions (tokens) of each example, for data of unequal lengths
        self.targets_are_predictions = False  # of queries without labels, explained by what the model says of them
        self._columns = _as_columns(data, source)
        self._items: MapDataset | None = None if self._columns is not None else _as_items(data, source)
        self._collate = collate or default_collate
        if len(self) == 0:
            raise EmptyDataError(f"{source} is empty: there is no example to work with. Pass at least one.")
        for name, column in (("text", self.text), ("slices", self.slices)):
            if column is not None and len(column) != len(self):
                raise DataError(
                    f"{source} has {len(self)} examples but {len(column)} entries of {name}: give one each."
                )

    @classmethod
    def of(cls, data: Any, source: str) -> Examples:
        """Return `data` itself if it is `Examples`, else a view of it."""
        return data if isinstance(data, Examples) else cls(data, source=source)

    def __len__(self) -> int:
        if self._columns is not None:
            return _length(self._columns)
        assert self._items is not None
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        """Return one example in the form in which it was given."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.source} has {len(self)} examples, so there is no number {index}")
        index = int(index) % len(self)
        if self._items is not None:
            return self._items[index]
        if isinstance(self._columns, dict):
            return {key: column[index] for key, column in self._columns.items()}
        if isinstance(self._columns, tuple):
            return tuple(column[index] for column in self._columns)
        assert self._columns is not None
        return self._columns[index]

    def batch(self, ids: Sequence[int] | Tensor) -> Batch:
        """Return the examples with these numbers as one batch, checked for numbers that are not finite."""
        ids = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        if self._items is not None:
            collated = self._collated([self._items[index] for index in ids.tolist()])
        else:
            collated = _take(self._columns, ids)
        return make_batch(collated, ids, self.source)

    def versions(self) -> tuple[int, ...]:
        """Return how often each tensor that batches are cut from was written to, so that writing in place is seen.

        Torch does not count what is written to a NumPy array that shares its memory. Items are read anew each time.
        """
        tensors = [] if self._columns is None else _tensors(self._columns)
        return tuple(0 if tensor.is_inference() else tensor._version for tensor in tensors)

    def few(self, count: int, ids: Tensor | None = None) -> Batch:
        """Return a few examples that stand for all, or for those with the given numbers, as one batch.

        Those that lie far apart may be of unequal lengths, which not every collate function puts together: then fewer.
        """
        among = self.everyone() if ids is None else ids
        apart = among[spread(len(among), count, None if self.lengths is None else self.lengths[among])]
        for some in (apart, among[:count]):
            with contextlib.suppress(DataError):
                return self.batch(some)
        return self.batch(among[:1])

    def _collated(self, items: list[Any]) -> Any:
        try:
            return self._collate(items)
        except (TypeError, ValueError, RuntimeError, KeyError) as error:
            raise DataError(
                f"the items of {self.source} could not be put into one batch: {error}. Items must have tensors of the "
                "same shapes, or pass fastif.Examples(data, collate=...) with a function that pads them."
            ) from error

    def batches(self, batch_size: int, ids: Tensor | None = None, *, most: int | None = None) -> Iterator[Batch]:
        """Yield all examples, or those with the given numbers, in order.

        Of examples of unequal lengths, a batch has as many padded positions as `batch_size` of a mean length have:
        fewer long ones, and more short ones; never more than `most`.
        """
        for chunk in self._cut(batch_size, self.everyone() if ids is None else ids, most or MOST_TIMES * batch_size):
            yield self.batch(chunk)

    def _cut(self, batch_size: int, ids: Tensor, most: int) -> Iterator[Tensor]:
        if self.lengths is None:
            yield from ids.split(min(batch_size, most)) if len(ids) else ()
            return
        room = batch_size * float(self.lengths.double().mean())
        start = 0
        while start < len(ids):
            longest = self.lengths[ids[start : start + most]].cummax(0).values
            positions = longest * torch.arange(1, len(longest) + 1)
            count = max(1, int((positions <= room).sum()))
            if start + count < len(ids):
                count = count // ALIGNED * ALIGNED or count
            yield ids[start : start + count]
            start += count

    @property
    def may_be_padded(self) -> bool:
        """Whether the shape of an example in a batch may depend on those beside it."""
        return self.lengths is not None or self._collate is not default_collate

    def on(self, device: torch.device) -> Examples:
        """Return these examples with what batches are cut from on a device, where they can be held there."""
        return self

    def by_length(self, ids: Tensor) -> Tensor:
        """Return positions in `ids`, those of the longest examples first, so that batches need little padding."""
        if self.lengths is None:
            return torch.arange(len(ids), device="cpu")
        return self.lengths[ids].argsort(descending=True, stable=True)

    def everyone(self) -> Tensor:
        """Return the numbers of all examples."""
        return torch.arange(len(self), device="cpu")

    def describe(self, index: int, width: int = 60) -> str:
        """Return the text of one example on one line, cut to a width; nothing where there is no text."""
        if self.text is None:
            return ""
        line = " ".join(str(self.text[index]).split())
        return line if len(line) <= width else line[: width - 1] + "…"

    def label(self, index: int) -> str:
        """Return the target of one example as a person would write it."""
        return self.labels([index])[0]

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the targets of some examples as a person would write them."""
        return [self.name_of(target) for target in self.batch(ids).targets] if len(ids) else []

    def name_of(self, target: Tensor) -> str:
        """Return a target, by the name of its class where names were given."""
        if target.numel() != 1:
            return f"tensor of {'x'.join(map(str, target.shape))}"
        if target.is_complex():
            return f"{target.item():.4g}"
        if target.is_floating_point():
            return f"{target.item():.4g}"
        number = int(target.item())
        return self.label_names.get(number, str(number))


class Subset(Examples):
    """Some of the examples of a set, numbered anew from 0.

    >>> some = Subset(Examples((torch.arange(4.0), torch.arange(4)), text="abcd"), [3, 1])
    >>> len(some), some.text, some.batch([1]).targets
    (2, ['d', 'b'], tensor([1]))
    """

    def __init__(self, examples: Examples, rows: Sequence[int] | Tensor) -> None:
        self.__dict__.update(examples.__dict__)
        self._whole, self._rows = examples, torch.as_tensor(rows, dtype=torch.int64, device="cpu")
        self._columns, self._items = None, _Chosen(examples, self._rows)
        if not len(self._rows):
            raise EmptyDataError(f"no row of {self.source} is left: there is no example to work with.")
        chosen = self._rows.tolist()
        self.lengths = None if examples.lengths is None else examples.lengths[self._rows]
        self.text = None if examples.text is None else [examples.text[row] for row in chosen]
        self.slices = None if examples.slices is None else [examples.slices[row] for row in chosen]

    def batch(self, ids: Sequence[int] | Tensor) -> Batch:
        """Return the examples with these numbers as one batch."""
        ids = torch.as_tensor(ids, dtype=torch.int64, device="cpu")
        return replace(self._whole.batch(self._rows[ids]), ids=ids)

    def name_of(self, target: Tensor) -> str:
        """Return a target as the whole set calls it."""
        return self._whole.name_of(target)

    def on(self, device: torch.device) -> Subset:
        """Return these examples with what batches are cut from on a device, where they can be held there."""
        other = copy.copy(self)
        other._whole = self._whole.on(device)
        return other


class _Chosen:
    """The items of some rows."""

    def __init__(self, examples: Examples, rows: Tensor) -> None:
        self._examples, self._rows = examples, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int, /) -> Any:
        return self._examples[int(self._rows[index])]


def _as_columns(data: Any, source: str) -> Tensor | tuple[Tensor, ...] | dict[str, Tensor] | None:
    """Return tensors with one row for each example if that is how the data came, else None."""
    if isinstance(data, TensorDataset) and type(data).__getitem__ is TensorDataset.__getitem__:
        data = tuple(data.tensors)  # of a subclass that changes its items, the tensors are not the data
    columns: Tensor | tuple[Tensor, ...] | dict[str, Tensor]
    if _is_array(data):
        columns = _as_tensor(data, "the data", source)
    elif isinstance(data, tuple) and data and all(map(_is_array, data)):
        columns = tuple(_as_tensor(column, f"column {place}", source) for place, column in enumerate(data))
    elif isinstance(data, Mapping) and data and all(map(_is_array, data.values())):
        columns = {str(key): _as_tensor(column, f"'{key}'", source) for key, column in data.items()}
    else:
        return None
    tensors = _tensors(columns)
    if any(tensor.layout != torch.strided for tensor in tensors):
        raise DataError(
            f"{source} holds a sparse tensor, which batches cannot be cut from. Give its .to_dense(), or a data set "
            "whose items are dense."
        )
    if any(tensor.ndim == 0 for tensor in tensors):
        raise ShapeError(f"{source} holds a tensor without dimensions; the first dimension must count the examples.")
    if len({tensor.shape[0] for tensor in tensors}) > 1:
        lengths = ", ".join(str(tensor.shape[0]) for tensor in tensors)
        raise ShapeError(
            f"the tensors of {source} have different lengths ({lengths}); the first dimension must count the examples. "
            "For a single example add that dimension with x[None]."
        )
    return columns


def _label_names(names: Iterable[str] | Mapping[int, str] | None) -> dict[int, str]:
    if not isinstance(names, Mapping):
        return dict(enumerate(map(str, () if names is None else names)))
    try:
        return {int(number): str(name) for number, name in names.items()}
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"label_names has the keys {', '.join(map(repr, names))}, not all of which are numbers of classes. Give a "
            'list of names in the order of their numbers, or a dictionary such as {0: "negative", 1: "positive"}.'
        ) from error


def _as_tensor(column: Any, name: str, source: str) -> Tensor:
    if isinstance(column, np.ndarray) and column.dtype != object:  # no tensor is reversed, or of another byte order
        column = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))
    try:
        return torch.as_tensor(column)
    except TypeError as error:
        raise DataError(
            f"in {source}, {name} is an array of {column.dtype}, which no tensor can hold. Give numbers: labels that "
            "are words become the numbers of their classes, and the words go to fastif.Examples(label_names=...)."
        ) from error


def _as_items(data: Any, source: str) -> MapDataset:
    if isinstance(data, DataLoader):
        raise DataError(
            f"{source} is a DataLoader, whose order and batches are its own; influence is of single examples. Pass "
            "loader.dataset, where the loader has a collate function of its own as "
            "fastif.Examples(loader.dataset, collate=loader.collate_fn)."
        )
    if hasattr(data, "to_numpy"):  # it has a length and an index too, but one of columns
        raise DataError(
            f"{source} is a {type(data).__name__}. Give its columns as arrays, (frame[inputs].to_numpy(), "
            'frame["label"].to_numpy()), with labels as the numbers of their classes.'
        )
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise DataError(
            f"{source} is a {type(data).__name__}, which cannot be indexed. Pass a tuple or dictionary of tensors, or "
            "a data set with a length and an index, such as list(your_iterable) of single examples."
        )
    if isinstance(data, Mapping):
        odd = [str(key) for key, column in data.items() if not _is_array(column)]
        raise DataError(f"{source} is a dictionary whose {', '.join(odd) or 'every'} column is not a tensor or array.")
    if isinstance(data, list | tuple) and any(map(_is_array, data)):
        kinds = ", ".join(sorted({type(each).__name__ for each in data}))
        raise DataError(
            f"{source} is a {type(data).__name__} of {kinds}. Columns come as a tuple of tensors or arrays, (x, y); "
            "for a list of single examples give (input, target) pairs, or stack them into one tensor."
        )
    items: MapDataset = data
    return items


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _tensors(columns: Tensor | tuple[Tensor, ...] | dict[str, Tensor]) -> list[Tensor]:
    if isinstance(columns, Tensor):
        return [columns]
    return list(columns.values() if isinstance(columns, dict) else columns)


def _length(columns: Tensor | tuple[Tensor, ...] | dict[str, Tensor]) -> int:
    return _tensors(columns)[0].shape[0]


def _take(columns: Any, ids: Tensor) -> Any:
    if isinstance(columns, dict):
        return {key: column[ids.to(column.device)] for key, column in columns.items()}
    if isinstance(columns, tuple):
        return tuple(column[ids.to(column.device)] for column in columns)
    return columns[ids.to(columns.device)]

r"""PrefixCache: what lies below the first trainable layer, computed once for each example and kept.

Influence is taken through some of the parameters; all that a model computes before the first of them is the same in
every product, gradient and score. A model that offers `encode(batch) -> states` and `fingerprint()`, and outputs from
batches that carry such states, is run from there. States are kept at their true length: in memory up to a budget, above
it in a file that is mapped into memory. A file's name is a hash of all that the states depend on, so that none is ever
stale. Knows models by that seam alone, and no tokenizer.
"""

import copy
import hashlib
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fastif.batch import STATES, Batch
from fastif.data import Examples
from fastif.errors import ConfigurationError, FastifError, NonFiniteError, StoredFileError
from fastif.files import replacing
from fastif.progress import Progress, silent

Storage = Literal["model", "bfloat16"]


@runtime_checkable
class PrefixModel(Protocol):
    """What a model with a frozen prefix offers."""

    @property
    def prefix(self) -> str | None:
        """In words, what is computed once; None if nothing can be."""

    def encode(self, batch: Batch) -> Tensor:
        """Return the states of a placed batch: (batch, positions, ...), or (batch, ...) for data of one length."""

    def fingerprint(self) -> str:
        """Return a hash of every weight and setting that the states depend on, other than the batch."""

    def place(self, batch: Batch) -> Batch:
        """Return the batch on the model's device."""


@dataclass(frozen=True)
class PrefixCache:
    """Where states are kept.

    Args:
        memory: bytes that states may take in memory; more goes to a file.
        directory: keep states in files here and find them again in later runs; None keeps nothing after the process.
        storage: "model" for the model's own dtype, "bfloat16" for half the memory (scores then agree with a Pearson
            correlation of .99999 or more rather than to rounding).
    """

    memory: float = 4e9
    directory: str | Path | None = None
    storage: Storage = "model"

    def __post_init__(self) -> None:
        if self.storage not in ("model", "bfloat16"):
            raise ConfigurationError(f"storage must be 'model' or 'bfloat16', not {self.storage!r}.")
        if isinstance(self.memory, bool) or not isinstance(self.memory, Real) or not self.memory >= 0:
            raise ConfigurationError(f"memory must be a number of bytes, at least 0, not {self.memory!r}.")

    def view(self, model: Any, examples: Examples, *, batch_size: int = 256, progress: Progress = silent) -> Examples:
        """Return the examples with states in their batches, made when first needed; as they are without a prefix."""
        if not isinstance(model, PrefixModel) or model.prefix is None:
            return examples
        return Prefixed(examples, lambda: self._states(model, examples, batch_size, progress))

    def _states(self, model: PrefixModel, examples: Examples, batch_size: int, progress: Progress) -> "States":
        file = None
        if self.directory is not None:
            file = Path(self.directory) / f"{self._key(model, examples)}.npy"
            if file.exists():
                return States.load(file, examples, self.storage)
        return _Encoder(self, model, examples, progress).run(batch_size, file)

    def _key(self, model: PrefixModel, examples: Examples) -> str:
        digest = hashlib.sha256(f"{model.fingerprint()} {self.storage}".encode())
        for batch in examples.batches(1024):
            for name, tensor in batch.named_inputs().items():
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:40]


class States:
    """Rows of states of all examples, one after another; `lengths` says how many rows each has."""

    def __init__(self, rows: Tensor, lengths: Tensor | None, dtype: torch.dtype, in_file: bool) -> None:
        self._rows = rows
        self._dtype = dtype
        self._starts = None if lengths is None else lengths.cumsum(0) - lengths
        self._lengths = lengths
        self.in_file = in_file

    @property
    def nbytes(self) -> int:
        """How much they take, in memory or on disk."""
        return self._rows.nbytes

    @classmethod
    def load(cls, file: Path, examples: Examples, storage: Storage) -> "States":
        """Map a file of the states of these examples into memory."""
        try:
            mapped = np.load(file, mmap_mode="c", allow_pickle=False)  # copy on write: nothing can change the file
        except (ValueError, OSError, EOFError) as error:
            raise StoredFileError(f"the file of hidden states {file} is damaged: {error}. Delete it.") from error
        rows = torch.from_numpy(mapped)
        if len(rows) != _rows_of(examples):
            raise StoredFileError(
                f"the file of hidden states {file} is damaged: it has {len(rows)} rows, not the {_rows_of(examples)} "
                f"of {examples.source}. Delete it."
            )
        if storage == "bfloat16":
            return cls(rows.view(torch.bfloat16), examples.lengths, torch.float32, in_file=True)
        return cls(rows, examples.lengths, rows.dtype, in_file=True)

    def batch(self, ids: Tensor) -> Tensor:
        """Return the states of some examples, padded with zeros to the longest of them."""
        if self._lengths is None or self._starts is None:
            return self._rows[ids].to(self._dtype)
        lengths, starts = self._lengths[ids], self._starts[ids]
        positions = torch.arange(int(lengths.max()))
        kept = positions < lengths[:, None]
        padded = torch.zeros(*kept.shape, *self._rows.shape[1:], dtype=self._dtype)
        padded[kept] = self._rows[(starts[:, None] + positions)[kept]].to(self._dtype)
        return padded


class _Encoder:
    """One pass over the examples that fills a store."""

    def __init__(self, cache: PrefixCache, model: PrefixModel, examples: Examples, progress: Progress) -> None:
        self._cache, self._model, self._examples, self._progress = cache, model, examples, progress

    def run(self, batch_size: int, file: Path | None) -> States:
        examples = self._examples
        first = self._encode(examples.batch([0]))
        shape = (_rows_of(examples), *first.shape[1 if examples.lengths is None else 2 :])
        kept = torch.bfloat16 if self._cache.storage == "bfloat16" else first.dtype
        if file is None and math.prod(shape) * kept.itemsize <= self._cache.memory:
            rows = torch.empty(shape, dtype=kept)
            self._fill(rows, batch_size)
            return States(rows, examples.lengths, first.dtype, in_file=False)
        return self._on_disk(shape, kept, batch_size, file)

    def _on_disk(self, shape: tuple[int, ...], kept: torch.dtype, batch_size: int, file: Path | None) -> States:
        scratch = file is None
        if file is None:
            handle, name = tempfile.mkstemp(prefix="fastif-states-", suffix=".npy")
            os.close(handle)
            file = Path(name)
        plain = np.dtype("int16") if kept == torch.bfloat16 else np.dtype(str(kept).removeprefix("torch."))
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(file) as temporary:
                mapped = np.lib.format.open_memmap(temporary, mode="w+", dtype=plain, shape=shape)
                rows = torch.from_numpy(mapped)
                self._fill(rows.view(torch.bfloat16) if kept == torch.bfloat16 else rows, batch_size)
                mapped.flush()
            states = States.load(file, self._examples, self._cache.storage)
        except FastifError:
            raise
        except OSError as error:
            raise StoredFileError(
                f"hidden states of {math.prod(shape) * kept.itemsize / 1e9:.1f} GB could not be written to {file}: "
                f"{error}. Make room there, give PrefixCache(directory=...) another place, or raise its memory."
            ) from error
        finally:
            if scratch and os.name == "posix":
                file.unlink(missing_ok=True)  # what is mapped stays readable until the process ends
        return states

    def _fill(self, rows: Tensor, batch_size: int) -> None:
        lengths = self._examples.lengths
        starts = None if lengths is None else lengths.cumsum(0) - lengths
        total, done = len(self._examples), 0
        everyone = self._examples.everyone()
        for batch in self._examples.batches(batch_size, everyone[self._examples.by_length(everyone)]):
            self._progress("encoding the frozen layers", done, total)
            states = self._encode(batch)
            if starts is None or lengths is None:
                rows[batch.ids] = states.to(rows.dtype)
            else:
                positions = torch.arange(states.shape[1])
                kept = positions < lengths[batch.ids][:, None]
                rows[(starts[batch.ids][:, None] + positions)[kept]] = states[kept].to(rows.dtype)
            done += len(batch)
        self._progress("encoding the frozen layers", total, total)

    def _encode(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            states = self._model.encode(self._model.place(batch)).cpu()
        if not torch.isfinite(states).all():
            row = int((~torch.isfinite(states)).nonzero()[0, 0])
            raise NonFiniteError(
                f"the hidden states of example {int(batch.ids[row])} of {batch.source} hold a NaN or an infinity. Its "
                "influence would not be a number either: look at that example."
            )
        return states


def _rows_of(examples: Examples) -> int:
    """Return how many rows of states the examples have: one a position, or one each."""
    return len(examples) if examples.lengths is None else int(examples.lengths.sum())


class Prefixed(Examples):
    """The same examples, with states in their batches."""

    def __init__(self, examples: Examples, make: Callable[[], States]) -> None:
        self.__dict__.update(copy.copy(examples).__dict__)
        self._plain = examples
        self._make = make

    @cached_property
    def states(self) -> States:
        """The states, computed when first needed."""
        return self._make()

    def batch(self, ids: Any) -> Batch:
        """Return the examples with these numbers as one batch that carries their states."""
        batch = self._plain.batch(ids)
        inputs = batch.inputs if isinstance(batch.inputs, dict) else {}  # a module of one input goes on from the states
        return Batch({**inputs, STATES: self.states.batch(batch.ids)}, batch.targets, batch.ids, batch.source)

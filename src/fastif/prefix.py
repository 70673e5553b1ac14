r"""PrefixCache: what lies below the first trainable layer, computed once for each example and kept.

Influence is taken through some of the parameters; all that a model computes before the first of them is the same in
every product, gradient and score. A model that offers `encode(batch) -> states` and `fingerprint()`, and outputs from
batches that carry such states, is run from there. States are kept at their true length: in memory up to a budget, above
it in a file that is mapped into memory. A file's name is a hash of all that can be hashed of what the states depend on;
code cannot, so that a few examples are encoded again before a file is used, and where they differ all are. Knows models
by that seam alone, and no tokenizer.
"""

import copy
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fastif import memory
from fastif.batch import STATES, Batch
from fastif.data import Examples
from fastif.errors import ConfigurationError, FastifError, NonFiniteError, StoredFileError
from fastif.evaluation import differentiated_once
from fastif.files import replacing
from fastif.progress import Progress, silent
from fastif.ragged import Ragged

Storage = Literal["model", "bfloat16"]
BFLOAT16_ON_DISK = torch.int16  # numpy has no bfloat16, and no states are whole numbers
PROBED = 8  # examples that are encoded again before a file is used
COARSE = 0.05  # what states in half precision may differ by in another batch, of their norm
OF_GPU = 0.6  # of the memory that is free on a GPU, states may take so much; they stay in main memory otherwise


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


def encoded(model: PrefixModel, batch: Batch) -> Batch:
    """Return a placed batch that carries its states, from which the model goes on."""
    with torch.no_grad(), differentiated_once():
        states = model.encode(batch)
    inputs = batch.inputs if isinstance(batch.inputs, dict) else {}
    return replace(batch, inputs={**inputs, STATES: states})


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
                device = model.place(examples.batch([0])).targets.device
                states = States.load(file, examples, device)
                if _still_given(model, examples, states):
                    return states
        return _Encoder(self, model, examples, progress).run(batch_size, file)

    def _key(self, model: PrefixModel, examples: Examples) -> str:
        precision = torch.get_float32_matmul_precision()  # states that a GPU made in tf32 are not those of float32
        digest = hashlib.sha256(f"{model.fingerprint()} {self.storage} {precision}".encode())
        for part in input_bytes(examples):
            digest.update(part)
        return digest.hexdigest()[:40]


def input_bytes(examples: Examples) -> Iterator[bytes]:
    """Yield all that the inputs of examples are known by."""
    for batch in examples.batches(1024):
        for name, tensor in batch.named_inputs().items():
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
            yield tensor.cpu().contiguous().numpy().tobytes()


class States:
    """The states of all examples, each at its true length, wherever they fit."""

    def __init__(self, rows: Tensor, examples: Examples, *, in_file: bool) -> None:
        self._rows = rows
        self._ragged = None if examples.lengths is None else Ragged(rows, examples.lengths)
        self.in_file = in_file

    @property
    def nbytes(self) -> int:
        """How much they take, in memory or on disk."""
        return self._rows.nbytes

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self._rows.device

    @classmethod
    def load(cls, file: Path, examples: Examples, device: torch.device) -> "States":
        """Map a file of the states of these examples into memory, or bring them to a GPU that has room for them."""
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
        if rows.dtype == BFLOAT16_ON_DISK:
            rows = rows.view(torch.bfloat16)
        return cls(rows.to(_place_for(rows.nbytes, device)), examples, in_file=True)

    def batch(self, ids: Tensor, length: int | None = None) -> Tensor:
        """Return the states of some examples as they are stored, padded with zeros to a length."""
        if self._ragged is None:
            return self._rows[ids.to(self._rows.device)]
        return self._ragged.batch(ids, length=length)

    def put(self, ids: Tensor, states: Tensor) -> None:
        """Write the states of some examples."""
        if self._ragged is None:
            self._rows[ids.to(self._rows.device)] = states.to(self._rows)
        else:
            self._ragged.put(ids, states)


def _still_given(model: PrefixModel, examples: Examples, states: States) -> bool:
    """Return whether a model gives these stored states for a few examples, up to rounding."""
    ids = torch.linspace(0, len(examples) - 1, min(len(examples), PROBED), device="cpu").round().long()
    batch = encoded(model, model.place(examples.batch(ids)))
    assert isinstance(batch.inputs, dict)
    fresh = batch.inputs[STATES]
    kept = states.batch(ids, None if examples.lengths is None else fresh.shape[1])
    if kept.shape != fresh.shape:
        return False
    # states that a GPU made in tf32 are as coarse as halves, whatever their dtype
    plain = fresh.device.type == "cpu" or torch.get_float32_matmul_precision() == "highest"
    rounding = min(COARSE, 100 * torch.finfo(kept.dtype).eps ** 0.75) if plain and kept.is_floating_point() else COARSE
    ends: list[int | None] = [None] * len(ids)
    if examples.lengths is None:
        fresh, kept = fresh[:, None], kept[:, None]
    else:
        ends = examples.lengths[ids].tolist()
    for new, old, end in zip(fresh.cpu().double(), kept.cpu().double(), ends, strict=True):
        if not (new[:end] - old[:end]).norm() <= rounding * old[:end].norm():
            return False
    return True


def _place_for(nbytes: int, device: torch.device) -> torch.device:
    """Return the model's GPU if states of this size leave it room to work, else the CPU."""
    on_gpu = device.type == "cuda" and nbytes <= OF_GPU * memory.available(device)
    return device if on_gpu else torch.device("cpu")


class _Encoder:
    """One pass over the examples that fills a store."""

    def __init__(self, cache: PrefixCache, model: PrefixModel, examples: Examples, progress: Progress) -> None:
        self._cache, self._model, self._examples, self._progress = cache, model, examples, progress
        self._device = torch.device("cpu")  # that states come from, known with the first of them

    def run(self, batch_size: int, file: Path | None) -> States:
        examples = self._examples
        first = self._encode(examples.batch([0]))
        shape = (_rows_of(examples), *first.shape[1 if examples.lengths is None else 2 :])
        kept = torch.bfloat16 if self._cache.storage == "bfloat16" else first.dtype
        place = _place_for(math.prod(shape) * kept.itemsize, first.device)
        if file is None and (place.type == "cuda" or math.prod(shape) * kept.itemsize <= self._cache.memory):
            states = States(torch.empty(shape, dtype=kept, device=place), examples, in_file=False)
            self._fill(states, batch_size)
            return states
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
                _reserve(temporary)
                rows = torch.from_numpy(mapped)
                rows = rows.view(torch.bfloat16) if kept == torch.bfloat16 else rows
                self._fill(States(rows, self._examples, in_file=True), batch_size)
                mapped.flush()
            states = States.load(file, self._examples, self._device)
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

    def _fill(self, states: States, batch_size: int) -> None:
        total, done = len(self._examples), 0
        examples = self._examples.on(self._device)
        everyone = examples.everyone()
        for batch in examples.batches(batch_size, everyone[examples.by_length(everyone)]):
            self._progress("encoding the frozen layers", done, total)
            states.put(batch.ids, self._encode(batch))
            done += len(batch)
        self._progress("encoding the frozen layers", total, total)

    def _encode(self, batch: Batch) -> Tensor:
        with torch.no_grad(), differentiated_once():
            states = self._model.encode(self._model.place(batch))
        self._device = states.device
        if not torch.isfinite(states).all():
            row = int((~torch.isfinite(states)).nonzero()[0, 0])
            raise NonFiniteError(
                f"the hidden states of example {int(batch.ids[row])} of {batch.source} hold a NaN or an infinity. Its "
                "influence would not be a number either: look at that example."
            )
        return states


def _reserve(file: Path) -> None:
    """Take the room on disk for a file with holes: where there is none, writing to its map would kill the process."""
    if hasattr(os, "posix_fallocate"):
        with open(file, "r+b") as stream:
            os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)


def _rows_of(examples: Examples) -> int:
    """Return how many rows of states the examples have: one a position, or one each."""
    return len(examples) if examples.lengths is None else int(examples.lengths.sum())


class Prefixed(Examples):
    """The same examples, with states in their batches."""

    def __init__(self, examples: Examples, make: Callable[[], States]) -> None:
        self.__dict__.update(copy.copy(examples).__dict__)
        self._plain = examples
        self._make = make

    def __len__(self) -> int:
        return len(self._plain)

    @cached_property
    def states(self) -> States:
        """The states, computed when first needed."""
        return self._make()

    @cached_property
    def _beside(self) -> Examples:
        """The examples themselves, on the device of the states."""
        return self._plain.on(self.states.device)

    def batch(self, ids: Any) -> Batch:
        """Return the examples with these numbers as one batch that carries their states."""
        batch = self._beside.batch(ids)
        inputs = batch.inputs if isinstance(batch.inputs, dict) else {}  # a module of one input goes on from the states
        length = None if self.lengths is None else next(iter(inputs.values())).shape[1]
        return Batch({**inputs, STATES: self.states.batch(batch.ids, length)}, batch.targets, batch.ids, batch.source)

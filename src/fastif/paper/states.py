"""SharedStates: the hidden states of frozen layers, kept in memory for every model that has them in common.

Models that are trained from one base share all below their first trained layer, so that the states of a text are made
once for a model with three labels, one with two and a simulator of either. Neither models nor texts of an experiment
are ever written to: what each is known by is found once, as every walk asks for it again.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fastif.data import Examples
from fastif.prefix import PrefixCache, Prefixed, PrefixModel, States, input_bytes
from fastif.progress import Progress, silent

HOST_BYTES = 6e10  # of main memory; on a GPU as much as it has room for


@dataclass(frozen=True)
class SharedStates(PrefixCache):
    """A prefix cache that gives the same states to all models and views that they are the same for."""

    memory: float = HOST_BYTES
    found: dict[str, States] = field(default_factory=dict, compare=False, repr=False)
    known: WeakKeyDictionary[Any, str] = field(default_factory=WeakKeyDictionary, compare=False, repr=False)

    def view(self, model: Any, examples: Examples, *, batch_size: int = 256, progress: Progress = silent) -> Examples:
        """Return the examples with states in their batches."""
        if not isinstance(model, PrefixModel) or model.prefix is None:
            return examples

        def make() -> States:
            key = self._key(model, examples)
            if key not in self.found:
                self.found[key] = self._states(model, examples, batch_size, progress)
            return self.found[key]

        return Prefixed(examples, make)

    def _key(self, model: PrefixModel, examples: Examples) -> str:
        if model not in self.known:
            self.known[model] = model.fingerprint()
        if examples not in self.known:
            digest = hashlib.sha256()
            for part in input_bytes(examples):
                digest.update(part)
            self.known[examples] = digest.hexdigest()
        # states that a GPU made in tf32 are not those of float32
        return f"{self.known[model]} {self.known[examples]} {self.storage} {torch.get_float32_matmul_precision()}"

"""SharedStates: the hidden states of frozen layers, kept in memory for every model that has them in common.

Models that are trained from one base share all below their first trained layer, so that the states of a text are made
once for a model with three labels, one with two and a simulator of either.
"""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from fastif.data import Examples
from fastif.prefix import PrefixCache, Prefixed, PrefixModel, States
from fastif.progress import Progress, silent

HOST_BYTES = 6e10  # of main memory; on a GPU as much as it has room for


@dataclass(frozen=True)
class SharedStates(PrefixCache):
    """A prefix cache that gives the same states to all models and views that they are the same for."""

    memory: float = HOST_BYTES
    found: dict[str, States] = field(default_factory=dict, compare=False, repr=False)
    # what examples are known by: those of an experiment do not change, and each walk asks for them again
    known: WeakKeyDictionary[Examples, str] = field(default_factory=WeakKeyDictionary, compare=False, repr=False)

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

    def _inputs_sha256(self, examples: Examples) -> str:
        if examples not in self.known:
            self.known[examples] = super()._inputs_sha256(examples)
        return self.known[examples]

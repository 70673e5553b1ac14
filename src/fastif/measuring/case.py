"""Case: a model, its training data and queries, ready to be measured, and what is said of them beside every figure."""

from dataclasses import dataclass
from typing import Any

import fastif
from fastif import vectors
from fastif.data import Examples


@dataclass(frozen=True)
class Case:
    """A model and its data, ready to be measured.

    Args:
        name: what it is called on the command line.
        model: on its device.
        train: the training data.
        queries: to be explained, in the form that a user would give.
        model_words: the model in words.
        data_words: the data in words.
    """

    name: str
    model: fastif.TorchModel
    train: Examples
    queries: Any
    model_words: str
    data_words: str

    @property
    def tokens(self) -> int:
        """How many tokens the training data has; examples, where it has none."""
        return len(self.train) if self.train.lengths is None else int(self.train.lengths.sum())

    def first(self, count: int) -> Any:
        """Return the first queries, in the form that a user would give."""
        if isinstance(self.queries, tuple):
            return tuple(column[:count] for column in self.queries)
        return self.queries[:count]

    def as_json(self) -> dict[str, Any]:
        """Return what belongs beside every figure."""
        return {
            "name": self.name,
            "model": self.model_words,
            "data": self.data_words,
            "parameters": vectors.size(self.model.parameters),
            "examples": len(self.train),
            "tokens": self.tokens,
        }

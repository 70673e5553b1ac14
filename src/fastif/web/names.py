"""Class names, never ids: what a label of the training file is called by the model.

A training file may say 0 and 1 where the model says negative and positive. `fastif explain` tells the listed examples
by their names, so that the two are learned from each other. Knows rows, and no model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


def name_of(value: Any) -> str | None:
    """Return a label, a prediction or a slice as words; several as a list with commas.

    >>> name_of(["a", "b"]), name_of(None), name_of(3)
    ('a, b', None, '3')
    """
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class ClassNames:
    """What the labels of the training file are called, and back."""

    names: Mapping[str, str]

    @classmethod
    def learn(cls, queries: Sequence[Mapping[str, Any]], train: Sequence[Mapping[str, Any]]) -> "ClassNames":
        """Learn the names from examples that are told by their names and stand in the file by their ids."""
        known: dict[str, str] = {}
        for query in queries:
            for each in (*(query.get("helpful") or ()), *(query.get("harmful") or ())):
                raw, name = name_of(train[each["index"]].get("label")), name_of(each.get("label"))
                if raw is not None and name is not None:
                    known.setdefault(raw, name)
        return cls(known)

    def of(self, label: Any) -> str | None:
        """Return the name of a label of the training file."""
        raw = name_of(label)
        return None if raw is None else self.names.get(raw, raw)

    def all(self, labels: Iterable[str], queries: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return all classes that are seen anywhere, for a person to choose from."""
        seen = {*labels}
        for query in queries:
            seen |= {name for key in ("label", "predicted") if (name := name_of(query.get(key))) is not None}
        return sorted(seen)

"""ClassNames: the names of a model's classes, and the class that a label of a file means.

A label is read by name (exactly, then whatever its case, then whatever its spaces, underscores and hyphens) or as the
number of a class. Which of the two is decided for a whole column, in `labels.py`; this file reads one label one way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

from fastif.errors import ConfigurationError
from fastif.integrations.tables.looks import is_number
from fastif.integrations.tables.raw import shown

PLACEHOLDER = re.compile(r"label[_ -]?(\d+)", re.IGNORECASE)
LISTED = 20  # names that a message lists


class ClassNames:
    """The names of the classes 0, 1, 2, ...

    >>> names = ClassNames({0: "Entailment", 1: "Not-Entailment"})
    >>> names.by_name("not entailment"), names.by_number("1.0"), names.by_name("1")
    (1, 1, None)
    """

    def __init__(self, id2label: Mapping[int, str]) -> None:
        try:
            numbered = {int(number): str(name) for number, name in id2label.items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"id2label must map numbers to names, not be {shown(id2label)}.") from error
        if not numbered or sorted(numbered) != list(range(len(numbered))):
            raise ConfigurationError(
                f"id2label has the numbers {shown(sorted(numbered))}; they must be 0, 1, 2, ... without a gap."
            )
        self.names = [numbered[number] for number in range(len(numbered))]
        self._ways = [(form, _unique(map(form, self.names))) for form in FORMS]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def are_placeholders(self) -> bool:
        """Whether the names are LABEL_0, LABEL_1, ..., which transformers gives where nobody gave any."""
        found = [PLACEHOLDER.fullmatch(name) for name in self.names]
        return all(match is not None and int(match[1]) == number for number, match in enumerate(found))

    def by_name(self, label: object) -> int | None:
        """Return the class of this name, or None."""
        name = written(label)
        for form, classes in self._ways:
            if form(name) in classes:
                return classes[form(name)]
        return None

    def by_number(self, label: object) -> int | None:
        """Return the class of this number, or None."""
        number = as_whole(label)
        return number if number is not None and 0 <= number < len(self) else None

    @property
    def twice(self) -> str | None:
        """The first name that two classes have, if any: a label that says it means neither."""
        return next((name for number, name in enumerate(self.names) if name in self.names[:number]), None)

    def listed(self) -> str:
        """Return what a message says of the classes that there are."""
        names = ", ".join(f"{name} ({number})" for number, name in enumerate(self.names[:LISTED]))
        return names + (f" and {len(self) - LISTED} more" if len(self) > LISTED else "")

    def closest(self, label: object) -> str | None:
        """Return the name that is most like this label, if any is."""
        alike = {_folded(name): name for name in self.names}
        found = get_close_matches(_folded(written(label)), alike, 1)
        return alike[found[0]] if found else None


def written(label: object) -> str:
    """Return a label as a name would be written.

    >>> written(3.0), written(True), written("yes")
    ('3', 'True', 'yes')
    """
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def as_whole(label: object) -> int | None:
    """Return a label as a whole number, or None if it is none.

    >>> as_whole("2"), as_whole(1.0), as_whole("1.5"), as_whole("two")
    (2, 1, None, None)
    """
    number = as_number(label)
    return int(number) if number is not None and number == int(number) else None


def as_number(label: object) -> float | None:
    """Return a label as a finite number, or None if it is none."""
    if isinstance(label, str):
        label = float(label) if is_number(label) else None
    if not isinstance(label, int | float):
        return None
    try:
        number = float(label)
    except OverflowError:  # JSON may hold a number of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _exact(name: str) -> str:
    return name


def _folded(name: str) -> str:
    return name.strip().casefold()


def _loose(name: str) -> str:
    # without its hyphen -1 would be 1, and a lone hyphen nothing at all
    plain = name if is_number(name) else "".join(letter for letter in name.casefold() if letter not in " _-")
    return plain or name


FORMS: tuple[Callable[[str], str], ...] = (_exact, _folded, _loose)


def _unique(forms: Iterable[str]) -> dict[str, int]:
    """Return the classes by a form of their names; a form that two classes share tells neither."""
    classes: dict[str, int] = {}
    shared = set()
    for number, form in enumerate(forms):
        if form in classes:
            shared.add(form)
        classes[form] = number
    return {form: number for form, number in classes.items() if form not in shared}

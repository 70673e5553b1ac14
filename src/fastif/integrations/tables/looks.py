"""What a column looks like, where its name tells nothing: texts are varied and have several words, labels are few.

Knows: values alone. Both answers can be no.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

SAMPLE = 2000  # values that decide
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
WORDS = 3  # a text has as many on average
LETTERS = 40  # a label has at most as many
CLASSES = 100  # a label has at most as many values, unless its name says that it is one


def looks_like_text(values: Sequence[object], *, short: bool = False) -> bool:
    """Whether these are strings, most of them different, of several words; `short` allows single words as well.

    >>> looks_like_text(["a film to remember", "not worth the time"]), looks_like_text(["1.5", "2.5"])
    (True, False)
    """
    present = _present(values)
    strings = [value for value in present if isinstance(value, str)]
    if not strings or len(strings) < len(present) or all(map(is_number, strings)):
        return False
    if short:
        return True
    words = sum(len(value.split()) for value in strings)
    return words >= WORDS * len(strings) and 2 * len(set(strings)) > len(strings)


def looks_like_label(values: Sequence[object]) -> bool:
    """Whether these are short strings or whole numbers, with few different ones and more than one.

    >>> looks_like_label(["good", "bad", "good", "good"]), looks_like_label(range(100))
    (True, False)
    """
    present = _present(values)
    if not all(isinstance(value, str | int) for value in present):
        return False
    distinct = {str(value) for value in present}
    if any(len(value) > LETTERS for value in distinct):
        return False
    return 2 <= len(distinct) <= max(2, min(CLASSES, len(present) // 2))


def is_number(text: str) -> bool:
    """Whether a string is a finite number as people write them.

    >>> [is_number(text) for text in ("3", "-1.5e3", "nan", "")]
    [True, True, False, False]
    """
    return NUMBER.fullmatch(text) is not None


def _present(values: Sequence[object]) -> list[object]:
    return list(islice((value for value in values if value is not None and value != ""), SAMPLE))

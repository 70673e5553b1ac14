"""What marks say of the training examples of a run: each checked against the row that it is of.

A mark has the line, the label and the text that its example had on the page. Those that it has must be those of the
row: by its index alone, a mark would remove another example of other data. Knows rows, and no files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastif.errors import DataError
from fastif.web.names import ClassNames, name_of
from fastif.web.payload import line_of, shown_text

ACTIONS = ("keep", "remove", "relabel")
ANEW = "Open the explorer of this run and mark anew."
BEGINNING = 60  # characters of a text that are enough to know it again
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What to do with an example, and the name of its new class where there is one."""

    action: str
    new_label: str | None = None


def verdicts_of(
    marks: Sequence[Any], train: Sequence[Row], classes: ClassNames, known: Iterable[str]
) -> dict[int, Verdict]:
    """Return what marks say, by the index of the training example.

    Args:
        marks: as the page writes them; line, label and text may be missing.
        train: the training examples of the run.
        classes: what their labels are called.
        known: names of classes beside those that the training examples have.
    """
    if not marks:
        raise DataError("there are no marks: the file is empty. Download them from the explorer once more.")
    names = {*known}
    for row in train:
        names |= {name for name in (name_of(row.get("label")), classes.of(row.get("label"))) if name is not None}
    found: dict[int, Verdict] = {}
    for mark in marks:
        index = _index(mark, len(train))
        _check_same(mark, index, train[index], classes)
        verdict = _verdict(mark, index, names)
        if found.setdefault(index, verdict) != verdict:
            raise DataError(
                f"there are two marks of example {index} that contradict each other: {_words(found[index])} and "
                f"{_words(verdict)}. Take one of them out."
            )
    return found


def _index(mark: Any, examples: int) -> int:
    if not isinstance(mark, Mapping) or "index" not in mark:
        seen = f"it has {', '.join(map(str, mark))}" if isinstance(mark, Mapping) else f"it is {mark!r:.100}"
        raise DataError(f"a mark has no index of a training example; {seen}. {ANEW}")
    index = _whole(mark["index"])
    if index is None:
        raise DataError(f"a mark has the index {mark['index']!r:.100}, which is no whole number. {ANEW}")
    if not 0 <= index < examples:
        raise DataError(f"there is a mark of example {index}, and the run has {examples:,} of them.")
    return index


def _whole(value: Any) -> int | None:
    """Return a whole number, also where a spreadsheet has made it 5.0; None for what is none.

    >>> [_whole(value) for value in (5, "5", 5.0, "5.0", 5.7, True, None, float("inf"), "five")]
    [5, 5, 5, 5, None, None, None, None, None]
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number.is_integer() else None
    except (OverflowError, ValueError):  # what is infinite is no whole number either
        return None


def _check_same(mark: Row, index: int, row: Row, classes: ClassNames) -> None:
    """Raise if a mark was made on another example than that with its index."""
    label, noted = classes.of(row.get("label")), name_of(mark.get("label"))
    line, noted_line = line_of(row, index), name_of(mark.get("line"))
    text, noted_text = str(row.get("text") or ""), name_of(mark.get("text"))
    if noted and label != noted:
        what = f"the label {label} in this run and {noted} in the marks"
    elif noted_line and _whole(mark["line"]) != _whole(line):
        what = f"the line {line} in this run and {noted_line} in the marks"
    elif noted_text and _bare(noted_text) not in (_bare(text), _bare(shown_text(text))):
        what = f"the text {text[:BEGINNING]!r} in this run and {noted_text[:BEGINNING]!r} in the marks"
    else:
        return
    raise DataError(f"example {index} has {what}, so that they were made on other data. {ANEW}")


def _bare(text: str) -> list[str]:
    """Return what programs leave as it is that a text goes through: its words, without a mark of the encoding."""
    return text.removeprefix("\ufeff").split()


def _verdict(mark: Row, index: int, names: set[str]) -> Verdict:
    action, new = mark.get("action"), mark.get("new_label")
    if name_of(action) is None:
        raise DataError(
            f"the mark of example {index} has nothing in the column action, which says {', '.join(ACTIONS[:-1])} or "
            f"{ACTIONS[-1]}: fill it in, or take the mark out."
        )
    if action not in ACTIONS:
        raise DataError(f"the mark of example {index} is {action!r:.100}; marks are {', '.join(ACTIONS)}.")
    if action != "relabel":
        return Verdict(str(action))
    if new is None or not str(new).strip():
        raise DataError(f"the mark of example {index} says relabel and no new_label: add it, or mark it otherwise.")
    name = name_of(new) if isinstance(new, str | int | float) and not isinstance(new, bool) else None
    if name not in names:
        raise DataError(
            f"the mark of example {index} gives it the new_label {new!r:.100}, which is no class of this run. Its "
            f"classes are {', '.join(sorted(names)[:20])}."
        )
    return Verdict("relabel", name)


def _words(verdict: Verdict) -> str:
    return verdict.action if verdict.new_label is None else f"{verdict.action} as {verdict.new_label}"

"""LabelMap: what the labels of a file mean to a model, as the targets that its loss takes.

One column is read one way. Labels are names of classes or numbers of classes, never some of each; where both readings
would work and differ (classes called "1" to "5" with the numbers 0 to 4), the error asks which. Knows: labels and the
names of classes. Does not know: files, tokenizers, tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from fastif.errors import ConfigurationError, LabelError
from fastif.integrations.tables.learn import learned_names
from fastif.integrations.tables.names import ClassNames, as_number, written
from fastif.integrations.tables.raw import plain, shown
from fastif.integrations.tables.table import TextTable

Problem = Literal["single", "multi", "regression"]
Targets = list[int] | list[float] | list[list[float]]
PROBLEMS: dict[str, Problem] = {
    "single": "single",
    "multi": "multi",
    "regression": "regression",
    "single_label_classification": "single",  # as transformers calls them
    "multi_label_classification": "multi",
}

RENAME = "Give each class a name of its own in id2label of the model's configuration"


class LabelMap:
    """The labels of a model.

    Args:
        id2label: the names of the classes by their numbers, as in the configuration of a Hugging Face model.
        problem: "single", "multi" or "regression", or transformers' `problem_type`. Unless given: regression for one
            output, else multi where labels are lists and single where they are not.
        numbers: whether a label that is a number is the number of a class ("ids") or its name ("names"). With "auto" it
            is what it can be; where it can be both and they differ, an error.

    >>> LabelMap({0: "NEGATIVE", 1: "POSITIVE"}).encode(["positive", "Negative"])
    [1, 0]
    >>> LabelMap({0: "a", 1: "b", 2: "c"}).encode([["a", "c"], []])
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        id2label: Mapping[int, str],
        *,
        problem: str | None = None,
        numbers: Literal["auto", "ids", "names"] = "auto",
    ) -> None:
        self._classes = ClassNames(id2label)
        if problem is not None and problem not in PROBLEMS:
            raise ConfigurationError(f"problem must be one of {', '.join(PROBLEMS)}, not {problem!r}.")
        if numbers not in ("auto", "ids", "names"):
            raise ConfigurationError(f"numbers must be 'auto', 'ids' or 'names', not {numbers!r}.")
        self._problem: Problem | None = None if problem is None else PROBLEMS[problem]
        if problem is None and len(self._classes) == 1:
            self._problem = "regression"
        self._numbers = numbers

    @classmethod
    def learn(cls, table: TextTable) -> LabelMap:
        """Return the map of a classifier that is to be trained on a table: its labels in order, numbers as numbers."""
        names, is_multi = learned_names(table)
        return cls(dict(enumerate(names)), problem="multi" if is_multi else "single", numbers="names")

    @property
    def id2label(self) -> dict[int, str]:
        """The names of the classes by their numbers."""
        return dict(enumerate(self._classes.names))

    def check(self) -> None:
        """Raise if two classes have one name, so that no label can mean either of them by it."""
        if self._classes.twice is not None:
            raise LabelError(
                f"two classes are called {self._classes.twice!r}, so that a label names neither. {RENAME}."
            )

    def encode(
        self,
        labels: TextTable | Sequence[object],
        *,
        lines: Sequence[int] | None = None,
        source: str = "the labels",
    ) -> Targets:
        """Return targets: numbers of classes, rows of 0.0 and 1.0 for several labels each, or floats for regression.

        Args:
            labels: a table, or the labels themselves.
            lines: of labels, the line numbers that messages give; those of a table are known.
            source: of labels, how messages call them.
        """
        names = None
        unit = "line" if lines is not None else "row"
        if isinstance(labels, TextTable):
            if labels.labels is None:
                raise LabelError(f"{labels.where} has no labels. Name their column with --label (in Python: label=).")
            lines, source, unit, names = labels.lines, labels.where, labels.unit, labels.label_names
            labels = labels.labels
        given: list[object] = plain(labels if hasattr(labels, "tolist") else list(labels))
        column = _Column(given, lines or range(1, len(given) + 1), source, unit)
        column.check_present()
        problem = self._problem or ("multi" if any(isinstance(label, list) for label in given) else "single")
        if problem == "regression":
            return self._numbers_of(column)
        if problem == "multi":
            return self._rows_of(column, names)
        for index, label in enumerate(given):
            if isinstance(label, list):
                raise column.error(index, f"the label {shown(label)} is a list, and the model gives one label each")
        return self._classes_of(column, names)

    def _classes_of(self, column: _Column, names: Sequence[str] | None) -> list[int]:
        """Read the labels by name or by number, whichever holds for all of them."""
        firsts: dict[tuple[type, object], int] = {}  # 1, 1.0 and True are equal, and not the same label
        for index, label in enumerate(column.labels):
            firsts.setdefault((type(label), label), index)
        readings = {key: self._readings(key[1], names) for key in firsts}
        by_name = {key: name for key, (name, _) in readings.items() if name is not None}
        by_number = {key: number for key, (_, number) in readings.items() if number is not None}
        for key, index in firsts.items():
            if key not in by_name and key not in by_number:
                raise column.error(index, self._unknown(key[1]))
        chosen = by_name if len(by_name) == len(firsts) else by_number
        if len(chosen) < len(firsts):
            odd = next(key for key in firsts if key not in by_number)
            number = next(key for key in firsts if key not in by_name)
            raise column.error(
                firsts[odd],
                f"the label {shown(odd[1])} is the name of a class, and {shown(number[1])} in {column.unit} "
                f"{column.lines[firsts[number]]} the number of one. Write all of them one way",
            )
        if len(by_name) == len(by_number) == len(firsts) and by_name != by_number:
            key = next(key for key in firsts if by_name[key] != by_number[key])
            raise column.error(
                firsts[key],
                f"the label {shown(key[1])} is the name of class {by_name[key]} and the number of class "
                f"{self._classes.names[by_number[key]]!r}. Say which with LabelMap(..., numbers='names' or 'ids'), or "
                "write the labels as names that are no numbers",
            )
        return [chosen[type(label), label] for label in column.labels]

    def _readings(self, label: object, names: Sequence[str] | None) -> tuple[int | None, int | None]:
        """Return the class that a label is the name of, and the class that it is the number of."""
        number = None if self._numbers == "names" else self._classes.by_number(label)
        if names is not None and not isinstance(label, str) and self._names_agree(names):
            # the file says what its numbers mean, and the model knows those names, perhaps in another order
            named = self._classes.by_name(names[label]) if isinstance(label, int) and 0 <= label < len(names) else None
            return named, None
        named = self._classes.by_name(label)
        if isinstance(label, bool):  # true is a number only where no class is called true
            return named, number if named is None else None
        is_id = self._numbers == "ids" and as_number(label) is not None
        return None if is_id else named, number

    def _names_agree(self, names: Sequence[str]) -> bool:
        """Whether the model knows all the names that the file gives to its numbers; if none, its numbers are ids."""
        known = [self._classes.by_name(name) is not None for name in names]
        if any(known) and not all(known):
            odd = names[known.index(False)]
            raise LabelError(f"the data has a class {odd!r}, and {self._has()}. Use data of the same classes.")
        return all(known)

    def _rows_of(self, column: _Column, names: Sequence[str] | None) -> list[list[float]]:
        """Read lists of labels, or rows of 0 and 1 with a place for each class."""
        count = len(self._classes)
        lists = [label if isinstance(label, list) else [label] for label in column.labels]
        hot = all(len(row) == count and all(as_number(each) in (0.0, 1.0) for each in row) for row in lists)
        if hot:
            fractional = any(isinstance(each, float) for row in lists for each in row)
            # a number that stands alone is no list of classes, and says of the only class whether it holds
            listed = count > 1 or all(isinstance(label, list) and as_number(label[0]) == 0 for label in column.labels)
            if listed and not fractional and all(len(set(row)) == count for row in lists):
                raise column.error(
                    0,
                    f"the label {shown(lists[0])} could be numbers of classes, or 0 and 1 for each class. Write names, "
                    "or 0.0 and 1.0",
                )
            return [[1.0 if as_number(each) else 0.0 for each in row] for row in lists]
        flat = [(index, each) for index, row in enumerate(lists) for each in row]
        lines = [column.lines[index] for index, _ in flat]
        members = _Column([each for _, each in flat], lines, column.source, column.unit)
        rows = [[0.0] * count for _ in lists]
        for (index, _), number in zip(flat, self._classes_of(members, names), strict=True):
            rows[index][number] = 1.0
        return rows

    def _numbers_of(self, column: _Column) -> list[float] | list[list[float]]:
        """Read numbers, or rows of numbers for several outputs."""
        count = len(self._classes)
        lists = [label if isinstance(label, list) else [label] for label in column.labels]
        values = []
        for index, row in enumerate(lists):
            numbers = [number for each in row if (number := as_number(each)) is not None and not isinstance(each, bool)]
            if len(numbers) < len(row) or len(row) != count:
                wanted = "a finite number" if count == 1 else f"a list of {count} finite numbers"
                raise column.error(
                    index,
                    f"the label {shown(column.labels[index])} is not {wanted}, as a model with {count} "
                    f"output{'' if count == 1 else 's'} for regression needs",
                )
            values.append(numbers)
        return [row[0] for row in values] if count == 1 else values

    def _unknown(self, label: object) -> str:
        if self._classes.twice is not None and written(label) == self._classes.twice:
            return f"two classes of the model are called {shown(label)}, so that it names neither. {RENAME}"
        if self._classes.are_placeholders:
            return (
                f"the label {shown(label)} is not one of the model's, which names its classes LABEL_0 to "
                f"LABEL_{len(self._classes) - 1} only. Write the labels as numbers from 0 to {len(self._classes) - 1}, "
                "or set id2label in the model's configuration"
            )
        closest = self._classes.closest(label)
        hint = f" Did you mean {closest!r}?" if closest is not None else ""
        return f"the label {shown(label)} is not one of the model's, and {self._has()}.{hint}"

    def _has(self) -> str:
        return f"the model has {self._classes.listed()}"


class _Column:
    """Labels with the places that messages give."""

    def __init__(self, labels: Sequence[object], lines: Sequence[int], source: str, unit: str) -> None:
        if len(lines) != len(labels):
            raise ConfigurationError(f"{source}: {len(labels)} labels and {len(lines)} line numbers; give one each.")
        self.labels, self.lines, self.source, self.unit = labels, lines, source, unit

    def error(self, index: int, what: str) -> LabelError:
        end = "" if what.endswith((".", "?")) else "."
        return LabelError(f"{self.source}, {self.unit} {self.lines[index]}: {what}{end}")

    def check_present(self) -> None:
        missing = [index for index, label in enumerate(self.labels) if label is None or label != label]
        if missing:
            raise self.error(missing[0], f"no label, as of {len(missing)} rows in all. Label them or leave them out")

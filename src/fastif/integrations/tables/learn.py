"""The classes of a classifier that is still to be trained: the labels that occur in a table, in order.

Knows: labels. Does not know: models.
"""

from __future__ import annotations

from fastif.errors import LabelError
from fastif.integrations.tables.names import as_number, as_whole, written
from fastif.integrations.tables.raw import shown
from fastif.integrations.tables.table import TextTable

MOST = 1000  # classes; with more, the column is likelier to be a text, a number or an id


def learned_names(table: TextTable) -> tuple[list[str], bool]:
    """Return the names of the classes, and whether an example may have several of them.

    Names that the file itself gives come in its order, also those that do not occur; else numbers come in the order of
    numbers, and names in that of the alphabet.
    """
    if table.labels is None:
        raise LabelError(f"{table.where} has no labels to learn. Name their column with --label (in Python: label=).")
    is_multi = any(isinstance(label, list) for label in table.labels)
    if is_multi and table.label_names is None and _is_hot(table):
        first = table.labels[0]
        return [f"LABEL_{number}" for number in range(len(first) if isinstance(first, list) else 0)], True
    seen: dict[str, tuple[object, int]] = {}
    for label, line in zip(table.labels, table.lines, strict=True):
        for each in label if isinstance(label, list) else [label]:
            if each is None:
                raise LabelError(f"{table.where}, {table.unit} {line}: no label. Label the row or remove it.")
            seen.setdefault(written(each), (each, line))
    _check(seen, table)
    if table.label_names is not None:
        return table.label_names, is_multi
    if all(as_whole(name) is not None for name in seen):
        return sorted(seen, key=float), is_multi
    return sorted(seen), is_multi


def _check(seen: dict[str, tuple[object, int]], table: TextTable) -> None:
    column = f"{table.where}: column {table.columns.label!r}"
    broken = next(
        (place for name, place in seen.items() if as_number(name) is not None and as_whole(name) is None), None
    )
    if broken is not None and all(as_number(name) is not None for name in seen):
        raise LabelError(
            f"{column} has numbers such as {shown(broken[0])} ({table.unit} {broken[1]}), which are no classes. Name "
            "another column, or round them to a few."
        )
    if len(seen) > MOST:
        raise LabelError(
            f"{column} has {len(seen)} different labels, and a classifier learns at most {MOST}. Is it the column?"
        )
    if len(seen) < 2:
        only = f"only the label {shown(next(iter(seen.values()))[0])}" if seen else "no label"
        raise LabelError(f"{column} has {only} in {len(table)} rows; a classifier needs two or more to learn apart.")


def _is_hot(table: TextTable) -> bool:
    """Whether the labels are rows of 0 and 1 with a place for each class."""
    rows = [label for label in table.labels or [] if isinstance(label, list)]
    same = len({len(row) for row in rows}) == 1 and len(rows) == len(table)
    zero_one = all(not isinstance(each, str) and as_number(each) in (0.0, 1.0) for row in rows for each in row)
    # as numbers of classes, none would come twice in a row
    return same and zero_one and any(len(set(row)) < len(row) or isinstance((row or [0])[0], float) for row in rows)

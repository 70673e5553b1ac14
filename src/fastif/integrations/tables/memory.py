"""A TextTable of data that is in memory already: columns, rows as dictionaries, a `datasets` set, a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastif.errors import DataError, EmptyDataError
from fastif.integrations.tables.raw import RawTable, plain, shown
from fastif.integrations.tables.read import make_table
from fastif.integrations.tables.table import TextTable


def table_of(
    data: Any,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    slice: str | None = None,
    require_label: bool = True,
    source_name: str = "train",
) -> TextTable:
    """Return a table of columns by name, of a list of dictionaries, of a `datasets` set or of a data frame.

    Columns are guessed as those of a file are.

    >>> table = table_of([{"text": "good", "label": 1}, {"text": "bad", "label": 0}])
    >>> table.texts, table.labels
    (['good', 'bad'], [1, 0])
    """
    columns = _columns(data, source_name)
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(f"the columns of {source_name} have different lengths: {sizes}.")
    count = next(iter(sizes.values()), 0)
    if count == 0:
        raise EmptyDataError(f"{source_name} is empty: there is no row in it. Give at least one example.")
    features: dict[str, Any] = dict(getattr(data, "features", None) or {})
    classes = {name: list(it.names) for name, it in features.items() if getattr(it, "names", None)}
    raw = RawTable(list(columns), lambda name: list(columns[name]), range(1, count + 1), "row", classes)
    asked = {"text": text, "text_pair": text_pair, "label": label, "slice": slice}
    return make_table(raw, asked, source="memory", name=source_name, require_label=require_label)


def _columns(data: Any, source: str) -> dict[str, Sequence[Any]]:
    if isinstance(data, Mapping):
        return _rows_or_one({str(name): plain(values) for name, values in data.items()}, source)
    if hasattr(data, "column_names") and hasattr(data, "to_dict"):  # datasets.Dataset
        return dict(data.to_dict())
    if hasattr(data, "columns") and hasattr(data, "to_dict"):  # a data frame
        return {str(name): plain(values) for name, values in data.to_dict("list").items()}
    if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
        names = list(dict.fromkeys(name for row in data for name in row))
        return {str(name): [plain(row.get(name)) for row in data] for name in names}
    raise DataError(
        f"{source} is a {type(data).__name__} that holds no columns. Give texts, a list of dictionaries such as "
        '{"text": ..., "label": ...}, a dictionary of columns, a data set, a data frame, or what model.examples() made.'
    )


def _rows_or_one(columns: dict[str, Any], source: str) -> dict[str, Sequence[Any]]:
    """Return a mapping as columns; where it has a text rather than texts, it is one row.

    >>> _rows_or_one({"text": "good", "label": 1}, "train")
    {'text': ['good'], 'label': [1]}
    """
    if any(isinstance(values, str) for values in columns.values()):
        return {name: [value] for name, value in columns.items()}
    for name, values in columns.items():
        if not isinstance(values, Sequence):
            raise DataError(
                f"the column {name} of {source} is {shown(values)}, a {type(values).__name__} and no list. Give a list "
                'with one value for each row, or one row as {"text": "...", "label": ...}.'
            )
    return columns

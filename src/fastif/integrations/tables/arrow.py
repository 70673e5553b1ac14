"""Columns of an Arrow table, which is what parquet files and data sets of the hub are.

Knows: pyarrow, imported when it is needed, and the names of classes that `datasets` keeps beside a table. Rows are
counted from 1, as there are no lines.
"""

from __future__ import annotations

import json
from typing import Any

from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.integrations.tables.decode import binary_kind
from fastif.integrations.tables.raw import RawTable


def read_parquet(content: bytes, where: str) -> RawTable:
    """Read the bytes of a parquet file; a column is unpacked when it is asked for."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigurationError(
            f"{where} is parquet, which needs pyarrow, and that is not installed: pip install 'fastif[hf]'. Without "
            "it, fastif reads jsonl, csv and tsv."
        ) from error
    if content[:4] != b"PAR1":
        kind = binary_kind(content)
        seen = f"It is {kind[0]}: {kind[1]}." if kind else "If it is text, name it .jsonl, .csv or .tsv."
        raise StoredFileError(
            f"{where} is no parquet file, whatever its name says: it does not begin with PAR1. {seen}"
        )
    try:
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise StoredFileError(
            f"{where} cannot be read as parquet, so it is damaged or was not copied whole. pyarrow said: {error}"
        ) from error
    return raw_of(table, where)


def raw_of(table: Any, where: str) -> RawTable:
    """Return the columns of a pyarrow.Table."""
    twice = next((name for name in table.column_names if table.column_names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{where} has two columns called {twice!r}; each needs a name of its own.")

    def column(name: str) -> list[object]:
        values: list[object] = table.column(name).to_pylist()
        return values

    return RawTable(
        names=[str(name) for name in table.column_names],
        column=column,
        lines=range(1, table.num_rows + 1),
        unit="row",
        class_names=_class_names(table.schema.metadata),
    )


def _class_names(metadata: dict[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return, of each column that `datasets` knows as a ClassLabel or a list of them, the names of its classes."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        found = {}
        for column, feature in features.items():
            inner = feature.get("feature", feature)
            if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
                found[str(column)] = [str(name) for name in inner["names"]]
        return found
    except (KeyError, TypeError, ValueError, AttributeError):  # others may have written there
        return {}

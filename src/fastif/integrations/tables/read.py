"""read_table: from a path or a name of the hub to a TextTable. Finds the file, picks the reader, checks every row.

Knows: paths and suffixes. The readers know one format each; `columns.py` and `rows.py` know what a table needs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from fastif.errors import ConfigurationError, EmptyDataError, StoredFileError
from fastif.integrations.tables.arrow import read_parquet
from fastif.integrations.tables.columns import Columns, choose
from fastif.integrations.tables.decode import decode
from fastif.integrations.tables.delimited import read_csv, read_tsv
from fastif.integrations.tables.hub import HubName, is_hub_name, read_hub
from fastif.integrations.tables.jsonl import read_json, read_jsonl
from fastif.integrations.tables.raw import RawTable
from fastif.integrations.tables.rows import check_rows
from fastif.integrations.tables.table import TextTable

READERS: dict[str, Callable[[str, str], RawTable]] = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
}
SUFFIXES = (*READERS, ".parquet")
# endings of files that fastif does not read: a name that has one is a file that is not there, and no name of the hub
OTHER_SUFFIXES = (".txt", ".gz", ".zip", ".bz2", ".xz", ".zst", ".xls", ".xlsx", ".arrow", ".feather", ".pkl", ".pt")


def read_table(
    source: str | Path,
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    slice: str | None = None,
    split: str | None = None,
    require_label: bool = True,
    require_slice: bool = True,
    drop_unlabelled: bool = False,
    source_name: str = "train",
) -> TextTable:
    """Read labelled text from a jsonl, json, csv, tsv or parquet file, or from a data set of the hub.

    Args:
        source: a path, whose ending tells the format; or a name of the hub: "owner/name", "owner/name:split",
            "owner/name:configuration:split". A `Path` is never taken for a name of the hub.
        text: the column of the texts; guessed unless given, as are `text_pair` and `label`.
        text_pair: the column of the second texts. None is guessed if `text` is given.
        label: the column of the labels.
        slice: the column that names the slice of each row; never guessed.
        split: of a data set of the hub. Unless given, the only one, or the one called `source_name`.
        require_label: whether a table or a row without a label is an error; else its label is None.
        require_slice: whether a table without the column `slice` is an error; else it has no slices.
        drop_unlabelled: leave out rows without a label, or with a mark ("-" or -1) for none; `TextTable.dropped` counts
            them.
        source_name: how messages call this table ("train", "query").

    Raises:
        StoredFileError: there is no such file, or it is of another kind or encoding than its name says.
        DataError: the columns cannot be told, or rows cannot be used; the text has their line numbers.
    """
    where = f"{source_name} ({source})"
    path = _file(source, where)
    sha256 = None
    if path is None:
        raw = read_hub(HubName.parsed(str(source), split), where, default=source_name)
    elif split is not None:
        raise ConfigurationError(f"{where} is a file and has no split {split!r}; splits are of data sets of the hub.")
    else:
        raw, sha256 = _read_file(path, where)
    asked = {"text": text, "text_pair": text_pair, "label": label, "slice": slice}
    return make_table(
        raw,
        asked,
        source=str(source),
        name=source_name,
        require_label=require_label,
        require_slice=require_slice,
        drop_unlabelled=drop_unlabelled,
        sha256=sha256,
    )


def make_table(
    raw: RawTable,
    asked: dict[str, str | None],
    *,
    source: str,
    name: str,
    require_label: bool = True,
    require_slice: bool = True,
    drop_unlabelled: bool = False,
    sha256: str | None = None,
) -> TextTable:
    """Find the columns that are asked for, or guess them, and check every row."""
    where = f"{name} ({source})"
    if not raw.lines:
        raise EmptyDataError(f"{where} is empty: there is no row in it. Give at least one example.")
    if not require_slice and asked.get("slice") not in raw.names:
        asked = {**asked, "slice": None}
    columns = choose(raw, asked, where, require_label=require_label)
    rows = check_rows(raw, columns, where, require_label=require_label, drop_unlabelled=drop_unlabelled)
    return TextTable(
        source=source,
        texts=rows.texts,
        pairs=rows.pairs,
        labels=rows.labels,
        slices=rows.slices,
        columns=columns,
        lines=rows.lines,
        sha256=sha256 or _content_sha256(raw, columns),
        label_names=None if columns.label is None else raw.class_names.get(columns.label),
        dropped=rows.dropped,
        name=name,
        unit=raw.unit,
    )


def _file(source: str | Path, where: str) -> Path | None:
    """Return the path of a file to read, or None for a name of the hub."""
    path = Path(source).expanduser()
    try:
        is_directory, exists, is_link = path.is_dir(), path.exists(), path.is_symlink()
    except OSError as error:
        raise StoredFileError(f"{where} cannot be opened: {error.strerror or error}.") from error
    if is_directory:
        raise StoredFileError(f"{where} is a directory. Give one file of it{_tables_in(path)}.")
    if is_link and not exists:
        raise StoredFileError(
            f"{where} is a link to {path.readlink()}, and there is no such file. Put the file there, or the link right."
        )
    suffix = path.suffix.lower()
    if not exists:
        local = isinstance(source, Path) or suffix in SUFFIXES + OTHER_SUFFIXES or not is_hub_name(str(source))
        # with a directory "data" here, "data/train" is a slip and no data set of an owner called data
        if local or ("/" in str(source) and path.parent.is_dir()):
            raise StoredFileError(f"{where}: there is no such file.{_alike(path)}")
        return None
    if suffix not in SUFFIXES:
        raise StoredFileError(
            f"{where} ends in {suffix or 'no suffix'}, which tells no format that fastif reads. "
            + ("Unpack it first." if suffix in OTHER_SUFFIXES[1:6] else f"Name it {', '.join(SUFFIXES)}, as it is.")
        )
    return path


def _read_file(path: Path, where: str) -> tuple[RawTable, str]:
    try:
        content = path.read_bytes()
    except PermissionError as error:
        raise StoredFileError(f"{where} may not be read by this user. Change its rights: chmod u+r {path}") from error
    except OSError as error:
        raise StoredFileError(f"{where} cannot be read: {error.strerror or error}.") from error
    if not content:
        raise EmptyDataError(f"{where} is empty: it has no bytes. Was the file written to the end?")
    suffix = path.suffix.lower()
    is_text = suffix in READERS
    raw = READERS[suffix](decode(content, where, path), where) if is_text else read_parquet(content, where)
    # of the bytes that were read, so that it is right even while somebody writes the file
    return raw, hashlib.sha256(content).hexdigest()


def _content_sha256(raw: RawTable, columns: Columns) -> str:
    """The hash of the columns in use, whatever files the hub keeps them in."""
    digest = hashlib.sha256()
    for name in (columns.text, columns.text_pair, columns.label, columns.slice):
        if name is not None:
            digest.update(json.dumps([name, raw.column(name)], default=str).encode())
    return digest.hexdigest()


def _tables_in(path: Path) -> str:
    names = [name for name in _names(path) if Path(name).suffix.lower() in SUFFIXES]
    return f": {', '.join(names[:10])}" if names else "; none in it ends in " + ", ".join(SUFFIXES)


def _alike(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f" There is no directory {folder} either."
    close = get_close_matches(path.name, _names(folder), 3)
    return f" Did you mean {' or '.join(str(folder / name) for name in close)}?" if close else ""


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:  # only a hint is lost
        return []

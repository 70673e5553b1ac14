"""Files that are written whole or not at all, and the hashes that tell whether they still are what was written.

Knows: paths, bytes and JSON, with the standard library alone. Does not know: what is in a file, tensors and their
format, or the errors of fastif; an OSError goes to the caller, who knows what was being written.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LEFT_BEHIND = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")  # the names that `_beside` makes


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place, whole and on disk, once the block has ended well."""
    temporary = _beside(path)
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        temporary.chmod(mode)  # safetensors makes a file for its owner alone; a result has the rights of any new file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


@contextmanager
def making_directory(path: Path) -> Iterator[Path]:
    """A temporary directory beside `path` that becomes it, whole and on disk, once the block has ended well.

    An OSError if something is at `path` by then, an empty directory apart.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        temporary.mkdir()
        yield temporary
        (temporary / ".new").touch()
        mode = (temporary / ".new").stat().st_mode
        (temporary / ".new").unlink()
        for file in (each for each in temporary.rglob("*") if each.is_file()):
            with open(file, "rb+") as stream:
                os.fsync(stream.fileno())
            file.chmod(mode)  # as in `replacing`
        if path.is_dir():
            path.rmdir()  # only if it is empty
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync_directory(path.parent)


def remove_left_behind(directory: Path) -> None:
    """Remove what writers that were killed had half written in a directory; only for who knows that none is at work."""
    found = directory.iterdir() if directory.is_dir() else ()
    for left in [each for each in found if LEFT_BEHIND.fullmatch(each.name)]:
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def _sync_directory(path: Path) -> None:
    if os.name == "posix":  # elsewhere a directory cannot be opened
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def sha256(path: Path) -> str:
    """The hash of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_sha256(content: Mapping[str, Any]) -> str:
    """The hash of what JSON makes of a mapping, whatever the order of its keys; a ValueError if it holds a NaN.

    >>> json_sha256({"a": 1, "b": 2}) == json_sha256({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()

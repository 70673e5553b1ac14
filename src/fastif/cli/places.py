"""Files that a result may take the place of: none that a person has not given up, and none that others rest on."""

import json
from collections.abc import Iterable
from pathlib import Path

from fastif.errors import StoredFileError
from fastif.store import DESCRIPTION, FORMAT


def check_replaceable(file: Path, *, force: bool, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise if a file is there that must not be replaced.

    Args:
        file: that is going to be written.
        force: whether it may be replaced.
        inputs: what the command reads, as it was named: files, or names of the hub. None of them is ever replaced.
    """
    if not file.exists():
        return
    for name in inputs:
        if name is not None and _is_same(file, Path(name).expanduser()):
            raise StoredFileError(
                f"{file} is what this command reads, and its result would take the place of it, which not even --force "
                "asks for. Choose another name."
            )
    run = _run_that_lists(file)
    if run is not None:
        raise StoredFileError(
            f"{file} belongs to the run {run}, which would be damaged without it: nothing could go on from it. Choose "
            "another name."
        )
    if not force:
        raise StoredFileError(f"{file} exists. Choose another name, or replace it with --force.")


def _is_same(file: Path, other: Path) -> bool:
    try:
        return file.samefile(other)
    except (OSError, ValueError):  # such as a name of the hub
        return False


def _run_that_lists(file: Path) -> Path | None:
    """Return the run that a file is part of, None where it lies in no run, or in one that knows nothing of it."""
    path = file.resolve()
    for directory in path.parents:
        try:
            description = json.loads((directory / DESCRIPTION).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(description, dict) and description.get("format") == FORMAT:
            name = path.relative_to(directory).as_posix()
            if name == DESCRIPTION or name in (description.get("files") or ()):
                return directory
    return None

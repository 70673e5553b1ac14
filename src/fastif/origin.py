"""Relative names in a run: they begin at the directory that the run was made from, as seen from the run itself.

So a run can be opened from another directory, and moved together with what it was made of. Knows paths alone.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAMES = ("model", "train", "query", "cache")  # the arguments that name files or directories
Arguments = Mapping[str, Any]


def origin_of(arguments: Arguments, run: Path) -> str | None:
    """Return where relative names begin, as seen from a run directory; None where no relative name is there.

    That is so of absolute names and of names of the hub, and of files on another drive than the run.
    """
    if not any(Path(name).exists() for name in _relative(arguments).values()):
        return None
    try:
        return Path(os.path.relpath(Path.cwd().resolve(), run.resolve())).as_posix()
    except ValueError:  # another drive
        return None


def located(arguments: Arguments, run: Path, origin: str | None) -> dict[str, Any]:
    """Return the arguments of a run as names that are right in the present directory."""
    if origin is None:
        return dict(arguments)
    begin = (run.resolve() / origin).resolve()
    if begin == Path.cwd().resolve():
        return dict(arguments)
    moved = {key: begin / name for key, name in _relative(arguments).items()}
    return {**arguments, **{key: str(path) for key, path in moved.items() if path.exists() or key == "cache"}}


def _relative(arguments: Arguments) -> dict[str, str]:
    named: Iterable[tuple[str, Any]] = ((key, arguments.get(key)) for key in NAMES)
    return {key: name for key, name in named if isinstance(name, str) and not Path(name).expanduser().is_absolute()}

"""Relative names in a run: they begin at the directory that the run was made from, as seen from the run itself.

So a run can be opened from another directory, and moved together with what it was made of. Knows paths alone.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

READ, MADE = ("model", "train", "query"), ("cache",)  # the arguments that name what is read, and what may be made
Arguments = Mapping[str, Any]


def seen_from(run: Path, begin: Path) -> str | None:
    """Return a directory as seen from a run; None from another drive."""
    try:
        return Path(os.path.relpath(begin.resolve(), run.resolve())).as_posix()
    except ValueError:
        return None


def located(arguments: Arguments, begin: Path | None) -> dict[str, Any]:
    """Return the arguments of a run as names that are right in the present directory.

    They begin where the run was made, all of them or none: none if nothing of what was read is there any more. A name
    that is found neither there nor here is one of the hub.
    """
    if begin is None or begin == Path.cwd().resolve():
        return dict(arguments)
    relative = {key: arguments[key] for key in (*READ, *MADE) if _is_relative(arguments.get(key))}
    if not any((begin / relative[key]).exists() for key in READ if key in relative):
        return dict(arguments)
    moved = {
        key: str(begin / name)
        for key, name in relative.items()
        if key in MADE or (begin / name).exists() or Path(name).exists()
    }
    return {**arguments, **moved}


def _is_relative(name: object) -> bool:
    return isinstance(name, str) and not name.startswith("~") and not Path(name).is_absolute()

"""What `fastif train` writes beside a checkpoint about how it was made, and what is read from there again.

Knows JSON and a directory; imports neither torch nor transformers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastif.errors import StoredFileError

RECORD = "fastif_training.json"


@dataclass(frozen=True)
class TrainedChoice:
    """Which parameters were trained: a regular expression or "all", or so many layers frozen; and in words."""

    trainable: str | None
    freeze_layers: int | None
    trained: str


def read_record(directory: str | Path) -> TrainedChoice | None:
    """Return what was trained of a checkpoint in a directory; None where nothing says it."""
    file = Path(directory) / RECORD
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        choice = TrainedChoice(content["trainable"], content["freeze_layers"], content["trained"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoredFileError(
            f"{file}, which says what was trained, is damaged: {type(error).__name__} {error}. Put it right, or delete "
            "it and choose the parameters with trainable= or freeze_layers=."
        ) from error
    if not isinstance(choice.trainable, str | None) or not isinstance(choice.freeze_layers, int | None):
        raise StoredFileError(f"{file} is damaged: trainable must be words and freeze_layers a whole number, or null.")
    return choice


def rows_trained_on(directory: str | Path, sha256: str, lines: Sequence[int]) -> list[int] | None:
    """Return which rows of a table were trained on, where a record says that not all of them were; else None.

    Args:
        directory: of the checkpoint.
        sha256: of the table; another one than was trained on has nothing to be left out.
        lines: the line of each row.
    """
    if read_record(directory) is None:
        return None
    content = json.loads((Path(directory) / RECORD).read_text(encoding="utf-8"))
    train, dev = content.get("train") or {}, content.get("dev") or {}
    if train.get("sha256") != sha256:
        return None
    if train.get("lines"):
        used = set(train["lines"])
        return [row for row, line in enumerate(lines) if line in used]
    if dev.get("kept_aside") and dev.get("lines"):
        aside = set(dev["lines"])
        return [row for row, line in enumerate(lines) if line not in aside]
    return None

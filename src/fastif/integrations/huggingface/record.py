"""What `fastif train` writes beside a checkpoint about how it was made, and what is read from there again.

Knows JSON and a directory; imports neither torch nor transformers.
"""

import json
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

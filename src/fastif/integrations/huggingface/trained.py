"""TrainedClassifier: a fine-tuned model with the record of its training, and the directory it is written to."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from fastif.errors import StoredFileError
from fastif.files import making_directory
from fastif.integrations.huggingface.checkpoint import quiet
from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.record import RECORD


@dataclass(frozen=True)
class TrainedClassifier:
    """A fine-tuned classifier.

    Args:
        model: ready to be explained.
        record: what it was trained on and how, what each epoch came to, and what is measured of the best; plain JSON.
    """

    model: TextClassifier
    record: dict[str, Any]

    @property
    def accuracy(self) -> float | None:
        """On the dev set, at the epoch that was kept; None without one, or for numbers."""
        accuracy: float | None = self.record["dev_accuracy"]
        return accuracy

    def save(self, directory: str | Path) -> Path:
        """Write a checkpoint that transformers loads, whole or not at all, and return where it is."""
        model = self.model
        return save_checkpoint(
            model.module, model.tokenizer, directory, max_length=model.max_length, files={RECORD: self.record}
        )


def save_checkpoint(
    module: Any,
    tokenizer: Any,
    directory: str | Path,
    *,
    max_length: int,
    files: Mapping[str, Mapping[str, Any]],
) -> Path:
    """Write a checkpoint that transformers loads, with files of JSON beside it, whole or not at all."""
    path = Path(directory)
    check_free(path)
    longest = tokenizer.model_max_length
    try:
        with making_directory(path) as temporary, quiet():
            module.save_pretrained(temporary)
            tokenizer.model_max_length = max_length  # whoever loads it cuts texts where training did
            tokenizer.save_pretrained(temporary)
            for name, content in files.items():
                words = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
                (temporary / name).write_text(words + "\n", encoding="utf-8")
    except (OSError, SafetensorError) as error:  # the second of a disk that becomes full under the weights
        raise StoredFileError(
            f"the checkpoint could not be written to {path}: {error}. Nothing is there. Make room, or choose another "
            "directory, and give the command once more."
        ) from error
    finally:
        tokenizer.model_max_length = longest
    return path


def check_free(path: Path) -> None:
    """Raise unless a directory of that name could be made now: better before a training than after it."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoredFileError(f"{path} is there already, and nothing is overwritten. Choose another directory.")
    parent = _parent(path)
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StoredFileError(f"{path} cannot be made: {parent} is no directory that may be written to.")


def check_room(path: Path, module: Any) -> None:
    """Raise if the weights of a module have no room on the disk: better before a training than after it."""
    parent = _parent(path)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in module.parameters())
    try:
        free = shutil.disk_usage(parent).free
    except OSError:  # of a place that tells nothing of itself
        return
    if free < weights:
        raise StoredFileError(
            f"the disk of {parent} has {free / 1e6:,.1f} MB free, and the weights of the checkpoint take "
            f"{weights / 1e6:,.1f} MB, so that the training would be lost at its end. Make room, or choose another "
            "directory."
        )


def _parent(path: Path) -> Path:
    return next(each for each in path.absolute().parents if each.exists())

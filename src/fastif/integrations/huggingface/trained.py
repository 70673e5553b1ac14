"""TrainedClassifier: a fine-tuned model with the record of its training, and the directory it is written to."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        path = Path(directory)
        check_free(path)
        module: Any = self.model.module
        tokenizer = self.model.tokenizer
        longest = tokenizer.model_max_length
        try:
            with making_directory(path) as temporary, quiet():
                module.save_pretrained(temporary)
                tokenizer.model_max_length = self.model.max_length  # whoever loads it cuts texts where training did
                tokenizer.save_pretrained(temporary)
                words = json.dumps(self.record, indent=1, ensure_ascii=False, allow_nan=False)
                (temporary / RECORD).write_text(words + "\n", encoding="utf-8")
        except OSError as error:
            raise StoredFileError(
                f"the checkpoint could not be written to {path}: {error}. Nothing is there."
            ) from error
        finally:
            tokenizer.model_max_length = longest
        return path


def check_free(path: Path) -> None:
    """Raise unless a directory of that name could be made now: better before a training than after it."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoredFileError(f"{path} is there already, and nothing is overwritten. Choose another directory.")
    parent = next(each for each in path.absolute().parents if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StoredFileError(f"{path} cannot be made: {parent} is no directory that may be written to.")

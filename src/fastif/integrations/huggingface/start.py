"""Where the training of a classifier began, and how it went on: for those who train it again.

What `fastif train` wrote beside a checkpoint says both. The base gives the encoder, and a seed draws the head, just as
they were when training began: with the seed of the record, the same start to the last bit. Knows checkpoints and their
records; the loop is elsewhere.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from fastif.apps.training_recipe import TrainingRecipe
from fastif.errors import FastifError, ModelError, StoredFileError
from fastif.files import sha256
from fastif.integrations.huggingface.checkpoint import load_base
from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.packaged import resolve
from fastif.integrations.huggingface.record import RECORD, read_record

PROBLEMS = {
    "single-label": "single_label_classification",
    "multi-label": "multi_label_classification",
    "regression": "regression",
}


@dataclass(frozen=True)
class RecordedTraining:
    """How a checkpoint was trained: from which base, with which knobs and seed, up to the epoch that was kept."""

    base: str
    base_sha256: dict[str, str] | None
    recipe: TrainingRecipe
    seed: int


def recorded_training(directory: str | Path) -> RecordedTraining | None:
    """Return how a checkpoint was trained; None where nothing says it."""
    if read_record(directory) is None:
        return None
    file = Path(directory) / RECORD
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        knobs = content["recipe"]
        recipe = TrainingRecipe(
            epochs=knobs["epochs"],
            batch_size=knobs["batch_size"],
            learning_rate=content["learning_rate"],
            weight_decay=knobs["weight_decay"],
            warm_up=knobs["warm_up"],
            clip=knobs["clip"],
            stop_after=content["best_epoch"],
        )
        return RecordedTraining(content["base"], content["base_sha256"], recipe, knobs["seed"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoredFileError(
            f"{file}, which says how the model was trained, is damaged: {type(error).__name__} {error}. Put it right, "
            "or delete it and say how to train."
        ) from error


def start_from(
    model: TextClassifier, base: str | Path, *, expected: dict[str, str] | None = None
) -> Callable[[int], dict[str, Tensor]]:
    """Return what trainings of this model begin from, by their seed: the weights of a base, and a head drawn anew.

    Args:
        model: the classifier, whose chosen parameters are to be trained.
        base: the directory or hub name of an encoder, or `minilm`.
        expected: the hashes of the base's weight files, which must be these.
    """
    try:
        where = resolve(base)
        _check_same(Path(where), expected)
    except FastifError as error:
        raise StoredFileError(
            f"the training began from {base}, which cannot be had: {error} Give the directory of the base with --base, "
            "or go on from the weights of the model itself with --warm."
        ) from error

    def start(seed: int) -> dict[str, Tensor]:
        module, _ = load_base(where, id2label=model.label_names, problem_type=PROBLEMS[model.problem], seed=seed)
        found = dict(module.named_parameters())
        wanted = model.parameters
        odd = [name for name in wanted if name not in found or found[name].shape != wanted[name].shape]
        if odd:
            raise ModelError(
                f"the base {base} has no weights {odd[0]} of the shape that the model has, so that a training cannot "
                "begin from it. Give the base that the model was made from with --base, or go on from the weights of "
                "the model itself with --warm."
            )
        return {name: found[name].detach().to(tensor) for name, tensor in wanted.items()}

    return start


def _check_same(directory: Path, expected: dict[str, str] | None) -> None:
    for name, noted in (expected or {}).items():
        file = directory / name
        if not file.is_file() or sha256(file) != noted:
            raise StoredFileError(f"{file} is not the file that the record names.")

"""The task models: trained once for an output directory, kept there, and measured on what the paper measures.

    DIR/models/<name>/          a checkpoint that transformers loads, with the record of its training
    DIR/models/accuracy.md      MNLI, HANS by heuristic and label, ANLI by round, reviews inside and outside of domains

Knows which table each model is trained on. How long texts are cut and how it is trained is in the settings.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import json_sha256, replacing
from fastif.integrations.huggingface import Recipe, TextClassifier, TextExamples, TrainedClassifier, train_classifier
from fastif.integrations.huggingface.packaged import resolve
from fastif.integrations.huggingface.record import RECORD
from fastif.integrations.tables import TextTable
from fastif.locks import made_once
from fastif.paper.accuracy import TITLE, accuracy_tables
from fastif.paper.data import Data
from fastif.paper.made_up import save_tiny_base
from fastif.paper.settings import MODELS, Model, Settings
from fastif.paper.states import SharedStates
from fastif.progress import Progress, silent

TINY = "tiny"
ACCURACY = "accuracy.md"
TRAIN: dict[Model, Callable[[Data], TextTable]] = {
    "nli-3": lambda data: data.nli_train(3),
    "nli-2": lambda data: data.nli_train(2),
    "hans": Data.hans_train,
    "sentiment": Data.reviews_train,
    "nli-3-few": Data.nli_few,
}
MEASURED: dict[Model, dict[str, Callable[[Data], TextTable]]] = {
    "nli-3": {"MNLI matched": lambda data: data.nli_dev(3), "ANLI": Data.anli_whole_test},
    "nli-2": {"MNLI matched": lambda data: data.nli_dev(2), "HANS": Data.hans_test},
    "hans": {"MNLI matched": lambda data: data.nli_dev(2), "HANS": Data.hans_test},
    "sentiment": {"reviews": Data.reviews_dev, "reviews, held-out domain": Data.reviews_test},
    "nli-3-few": {"MNLI matched": lambda data: data.nli_dev(3)},
}


@dataclass(frozen=True, eq=False)
class TaskModel:
    """A trained model with what it was trained on.

    Args:
        name: of the model.
        directory: of the checkpoint.
        classifier: the model itself, as it is in the directory.
        table: what it was trained on.
        train: the same, as examples of the model.
        record: of its training, with its accuracy.
    """

    name: str
    directory: Path
    classifier: TextClassifier
    table: TextTable
    train: TextExamples
    record: dict[str, Any]

    def examples(self, table: TextTable) -> TextExamples:
        """Return a table as examples of this model."""
        return self.classifier.from_table(table, source=table.name)

    def is_right(self, examples: TextExamples) -> Tensor:
        """Return which examples the model predicts right."""
        return self.classifier.predict(examples) == examples.targets

    def as_json(self) -> dict[str, Any]:
        """Return what belongs beside every figure."""
        record = self.record
        return {
            "name": self.name,
            "base": record["base"],
            "base_sha256": record["base_sha256"],
            "weights_sha256": self.classifier.weights_sha256(),
            "trained": record["trained"],
            "trained_parameters": record["trained_parameters"],
            "examples": len(self.table),
            "accuracy": record["accuracy"],
        }


@dataclass
class TaskModels:
    """The models of an output directory, each trained when it is first asked for.

    Args:
        directory: of all models.
        settings: of the scale.
        data: to train on and to measure on.
        device: where to compute.
        double: compute in float64.
        seed: of the trainings.
        progress: called as progress(stage, done, total).
        note: told what is being done.
    """

    directory: Path
    settings: Settings
    data: Data
    device: str = "cpu"
    double: bool = False
    seed: int = 0
    progress: Progress = silent
    note: Callable[[str], None] = lambda words: None
    states: SharedStates = field(default_factory=SharedStates)
    _open: dict[str, TaskModel] = field(default_factory=dict)
    _examples: dict[Any, TextExamples] = field(default_factory=dict)

    def get(self, name: Model, checkpoint: int = 0) -> TaskModel:
        """Return a model by its name; another `checkpoint` is the same from another seed."""
        if name not in MODELS:
            raise ConfigurationError(f"there is no model {name!r}: choose one of {', '.join(MODELS)}.")
        recipe = replace(self.settings.recipes[name], seed=self.seed + checkpoint)
        return self.fitted(_full_name(name, checkpoint), TRAIN[name](self.data), recipe=recipe, measured=MEASURED[name])

    def is_trained(self, name: Model, checkpoint: int = 0) -> bool:
        """Whether a model is there."""
        return (self.directory / _full_name(name, checkpoint) / RECORD).is_file()

    def fitted(
        self,
        name: str,
        table: TextTable,
        *,
        recipe: Recipe,
        measured: dict[str, Callable[[Data], TextTable]] | None = None,
    ) -> TaskModel:
        """Return a model that is trained on a table, from the directory where it was trained before.

        Args:
            name: of its directory.
            table: to train on.
            recipe: how.
            measured: tables to measure it on, by their names.
        """
        if name not in self._open:
            recipe = replace(recipe, device=self.device, double=self.double)
            knobs = {key: value for key, value in asdict(recipe).items() if key != "device"}
            request = {"base": self.settings.base, "recipe": knobs, "train": table_sha256(table)}
            path = self.directory / name
            with made_once(path, path / RECORD, lambda: self.note(f"Another command trains {name}.")) as missing:
                if missing:
                    self._train(path, table, recipe, measured or {}, request)
            self._open[name] = self._load(name, path, table, request)
        return self._open[name]

    def _train(
        self, path: Path, table: TextTable, recipe: Recipe, measured: dict[str, Any], request: dict[str, Any]
    ) -> None:
        self.note(f"Training {path.name} on {len(table):,} rows.")
        trained = train_classifier(self.base(), table, recipe=recipe, cache=self.states, progress=self.progress)
        accuracy = {name: self._accuracy(trained.model, make(self.data)) for name, make in measured.items()}
        record = {**trained.record, "base": self.settings.base, "accuracy": accuracy, "request": request}
        TrainedClassifier(trained.model, record).save(path)
        self.write_accuracy()

    def _load(self, name: str, path: Path, table: TextTable, request: dict[str, Any]) -> TaskModel:
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        if record.get("request") != request:
            before = record.get("request") or {}
            changed = ", ".join(sorted(key for key in request if before.get(key) != request[key]))
            raise StoredFileError(
                f"the model in {path} was trained otherwise: {changed} differ from what is asked for now. Choose "
                "another directory with -o, or delete that one."
            )
        dtype = torch.float64 if self.double else None
        classifier = TextClassifier.from_pretrained(path, device=self.device, dtype=dtype)
        # checkpoints of one model read the same texts alike, so that they are tokenised once
        alike = (request["train"], classifier.max_length, tuple(classifier.label_names.items()))
        if alike not in self._examples:
            self._examples[alike] = classifier.from_table(table)
        return TaskModel(name, path, classifier, table, self._examples[alike], record)

    def base(self) -> str | Path:
        """Return where the encoder is that all models are trained from."""
        if self.settings.base != TINY:
            return resolve(self.settings.base)
        directory = self.directory / TINY
        with made_once(directory, directory) as missing:
            return save_tiny_base(directory) if missing else directory

    def _accuracy(self, model: TextClassifier, table: TextTable) -> dict[str, Any]:
        """Return the share that is right: of all, by slice, and by slice and label."""
        some = self.data.some(table)
        examples = model.from_table(some, source=table.name)
        right = (model.predict(examples) == examples.targets).tolist()
        groups: dict[str, list[bool]] = {"all": right}
        for row, correct in enumerate(right):
            part, label = (some.slices or [""] * len(some))[row], (some.labels or [])[row]
            for key in (part, f"{part}, {label}"):
                groups.setdefault(key, []).append(correct)
        return {key: {"accuracy": sum(rows) / len(rows), "rows": len(rows)} for key, rows in sorted(groups.items())}

    def write_accuracy(self) -> None:
        """Write the table of all models that are there; of several processes, the last to end may not see all."""
        records = {
            path.parent.name: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(self.directory.glob(f"*/{RECORD}"))
            if not path.parent.name.startswith(".")  # another process is about to write it
        }
        with replacing(self.directory / ACCURACY) as temporary:
            temporary.write_text(f"# {TITLE}\n\n{accuracy_tables(records)}\n", encoding="utf-8")


def _full_name(name: Model, checkpoint: int) -> str:
    return f"{name}-{checkpoint}" if checkpoint else name


def table_sha256(table: TextTable) -> str:
    """Return a hash of the rows of a table: of where they are from, which they are, and their labels."""
    return json_sha256({"source": table.sha256, "lines": table.lines, "labels": table.labels})

"""Fine-tune a text classifier from a base checkpoint, with frozen lower layers computed once.

    from fastif.integrations.huggingface import Recipe, train_classifier

    trained = train_classifier("minilm", "train.csv", dev="dev.csv", recipe=Recipe(epochs=3))
    trained.save("runs/sentiment")

Knows tables, labels and what is recorded; the knobs are in `recipe.py`, the loop in `fitting.py`, the files in
`trained.py`.
"""

import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from fastif.data import Examples
from fastif.errors import DataError
from fastif.files import sha256
from fastif.integrations.huggingface.checkpoint import load_base
from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.fitting import Fit, Fitting, OnEpoch
from fastif.integrations.huggingface.labelling import Labelling, split_rows
from fastif.integrations.huggingface.layers import ALL, above_in_words, default_frozen
from fastif.integrations.huggingface.packaged import resolve
from fastif.integrations.huggingface.recipe import Recipe
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trained import TrainedClassifier
from fastif.integrations.tables import TextTable, read_table, table_of
from fastif.precision import Precision, matmuls
from fastif.precision import resolve as resolve_precision
from fastif.prefix import PrefixCache, Prefixed
from fastif.progress import Progress, silent
from fastif.sameness import of_many_lengths
from fastif.version import __version__


def train_classifier(
    base: str | Path,
    train: Any,
    *,
    dev: Any = None,
    recipe: Recipe | None = None,
    cache: PrefixCache | None = None,
    progress: Progress = silent,
) -> TrainedClassifier:
    """Fine-tune a classifier and return it, with the record of its training.

    Args:
        base: a directory or hub name of an encoder with safetensors weights, `minilm` or `mpnet`. It gets a new head.
        train: a `TextTable`, the path of a file, or rows or columns in memory.
        dev: the same, to measure each epoch on; unless given, a share of `train` that is then not trained on.
        recipe: the knobs.
        cache: where the states of frozen layers are kept.
        progress: called as progress(stage, done, total).
    """
    return prepare_training(base, train, dev=dev, recipe=recipe, cache=cache).run(progress=progress)


def prepare_training(
    base: str | Path, train: Any, *, dev: Any = None, recipe: Recipe | None = None, cache: PrefixCache | None = None
) -> "Training":
    """Read everything that a training needs, and find all that would stop it, before it takes any time."""
    recipe = recipe or Recipe()
    whole = _table(train, "train")
    labelling = Labelling.learn(whole, regression=recipe.regression)
    rows, aside = split_rows(whole, labelling, recipe, keep_aside=dev is None)
    table = whole.take(rows)
    dev_table = _table(dev, "dev") if dev is not None else whole.take(aside) if aside else None
    where = resolve(base)
    module, tokenizer = load_base(
        where, id2label=labelling.id2label, problem_type=labelling.problem_type, seed=recipe.seed
    )
    module.to(device=recipe.device, dtype=torch.float64 if recipe.double else torch.float32)
    trainable, freeze_layers = recipe.trainable, recipe.freeze_layers
    if trainable is None and freeze_layers is None:
        freeze_layers = default_frozen(module)
        trainable = ALL if freeze_layers is None else None
    model = TextClassifier(
        module,
        tokenizer,
        trainable=trainable,
        freeze_layers=freeze_layers,
        max_length=recipe.max_length,
        name=str(base),
    )
    model.numbers = "names"
    return Training(
        base=str(base),
        directory=Path(where) if Path(where).is_dir() else None,
        model=model,
        trainable=trainable,
        freeze_layers=freeze_layers,
        whole=whole,
        table=table,
        train=_examples(model, table, "train"),
        dev_table=dev_table,
        dev=None if dev_table is None else _examples(model, dev_table, "dev"),
        kept_aside=dev is None and bool(aside),
        recipe=recipe,
        cache=cache or PrefixCache(),
    )


@dataclass(frozen=True)
class Training:
    """A training that is about to begin: the model with its new head, and the data as tokens."""

    base: str
    directory: Path | None
    model: TextClassifier
    trainable: str | None
    freeze_layers: int | None
    whole: TextTable
    table: TextTable
    train: TextExamples
    dev_table: TextTable | None
    dev: TextExamples | None
    kept_aside: bool
    recipe: Recipe
    cache: PrefixCache

    @property
    def trained(self) -> str:
        """What is trained, in words."""
        if self.freeze_layers is not None:
            return above_in_words(self.model.module, self.freeze_layers)
        return "all parameters" if self.trainable == ALL else f"those that {self.trainable!r} finds"

    @property
    def precision(self) -> Precision:
        """Of matrix products: the one that an explainer of the model takes too."""
        return resolve_precision("auto", self.model.device, self.model.dtype)

    def known(self) -> int:
        """Return how many rows of the dev set have a text that is trained on."""
        if self.dev_table is None:
            return 0
        seen = set(_inputs(self.table))
        return sum(each in seen for each in _inputs(self.dev_table))

    def run(self, *, progress: Progress = silent, on_epoch: OnEpoch = lambda epoch: None) -> TrainedClassifier:
        """Compute the frozen layers, fit the rest, and return the model of the best epoch."""
        with matmuls(self.precision, self.model.device):
            return self._run(progress, on_epoch)

    def _run(self, progress: Progress, on_epoch: OnEpoch) -> TrainedClassifier:
        started = time.perf_counter()
        train = self._encoded(self.train, progress)
        dev = None if self.dev is None else self._encoded(self.dev, progress)
        encoded = time.perf_counter()
        fitting = Fitting(self.model, train, dev, self.recipe)
        rate, tried = self.recipe.learning_rate, None
        if rate == "auto":
            rate, tried = fitting.choose_rate(progress)
        begun = time.perf_counter()
        fit = fitting.run(rate, progress=progress, on_epoch=on_epoch)
        with torch.no_grad():
            for name, tensor in fit.parameters.items():
                self.model.module.get_parameter(name).copy_(tensor)
        seconds = {"frozen layers": encoded - started, "choice of the learning rate": begun - encoded}
        seconds["training"] = time.perf_counter() - begun
        record = {**self._record(fit), "learning_rates_tried": tried, "seconds": seconds}
        return TrainedClassifier(self.model, record)

    def _encoded(self, examples: TextExamples, progress: Progress) -> Examples:
        self.model.settle(self.model.place(examples.batch(of_many_lengths(examples))))
        view = self.cache.view(self.model, examples, progress=progress)
        if isinstance(view, Prefixed):
            view.states  # noqa: B018 - made here, so that their time is known
        return view

    def _record(self, fit: Fit) -> dict[str, Any]:
        model, dev = self.model, fit.best.dev
        numbers = sum(tensor.numel() for tensor in model.parameters.values())
        return {
            "base": self.base,
            "base_sha256": None if self.directory is None else _weights(self.directory),
            "trainable": self.trainable,
            "freeze_layers": self.freeze_layers,
            "trained": self.trained,
            "trained_parameters": numbers,
            "all_parameters": sum(parameter.numel() for parameter in model.module.parameters()),
            "frozen_prefix": model.prefix or f"none: {model.why_no_prefix}",
            "problem": model.problem,
            "labels": [] if model.problem == "regression" else list(model.label_names.values()),
            "max_length": model.max_length,
            "train": self._data(self.table, self.train),
            "dev": None if self.dev_table is None or self.dev is None else self._dev(self.dev_table, self.dev),
            "recipe": asdict(self.recipe),
            "weight_decay_on": "parameters with two dimensions or more",
            "dropout": "none: the model is in eval mode, so that the loss is the one that influence differentiates",
            "precision": self.precision,
            "learning_rate": fit.learning_rate,
            "history": [asdict(epoch) for epoch in fit.epochs],
            "best_epoch": fit.best.number,
            "dev_accuracy": None if dev is None else dev.accuracy,
            "dev_loss": None if dev is None else dev.loss,
            "dev_by_label": None if dev is None else dev.by_label,
            "versions": {
                "fastif": __version__,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "python": platform.python_version(),
            },
        }

    def _data(self, table: TextTable, examples: TextExamples) -> dict[str, Any]:
        return {
            "source": table.source,
            "sha256": table.sha256,
            "columns": str(table.columns),
            "rows": len(table),
            "rows_in_source": len(self.whole) if table is self.table else len(table),
            "cut_texts": examples.truncated,
            # which they were, where they were drawn
            "lines": sorted(table.lines) if table is self.table and self.recipe.limit is not None else None,
        }

    def _dev(self, table: TextTable, examples: TextExamples) -> dict[str, Any]:
        data = {**self._data(table, examples), "kept_aside": self.kept_aside, "texts_also_in_train": self.known()}
        if self.kept_aside:
            data |= {"rows_in_source": len(self.whole), "lines": sorted(table.lines), "unit": table.unit}
        return data


def _table(data: Any, name: str) -> TextTable:
    if isinstance(data, TextTable):
        return data
    return read_table(data, source_name=name) if isinstance(data, str | Path) else table_of(data, source_name=name)


def _examples(model: TextClassifier, table: TextTable, name: str) -> TextExamples:
    if table.labels is None:
        raise DataError(f"{table.where} has no labels, and a classifier is trained and measured on them.")
    return model.from_table(table, source=name)


def _inputs(table: TextTable) -> list[tuple[str, str]]:
    return list(zip(table.texts, table.pairs or [""] * len(table), strict=True))


def _weights(directory: Path) -> dict[str, str]:
    return {file.name: sha256(file) for file in sorted(directory.glob("*.safetensors"))}

"""TextClassifier: a fine-tuned sequence classifier of transformers as a model that can be explained.

Knows what a checkpoint says of itself: labels, and the kind of problem. Loading is in `checkpoint.py`, tokens in
`texts.py`; `text_model.py` has what other models of texts have too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fastif.data import Examples
from fastif.errors import DataError, ModelError
from fastif.integrations.huggingface import checkpoint
from fastif.integrations.huggingface.fit import checked_config
from fastif.integrations.huggingface.record import RECORD, read_record
from fastif.integrations.huggingface.text_model import TextModel
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trainer_loss import warn_of_loss
from fastif.integrations.tables import LabelMap, TextTable, table_of
from fastif.parameters import Choice, unwrap

Problem = Literal["single-label", "multi-label", "regression"]
LOSSES: dict[Problem, str] = {
    "single-label": "cross_entropy",
    "multi-label": "binary_cross_entropy_with_logits",
    "regression": "mse_loss",
}
KINDS = ("single_label_classification", "multi_label_classification", "regression")  # as transformers calls them


class TextClassifier(TextModel):
    """A sequence classifier with its tokenizer.

    Make one by `from_pretrained` or `from_trainer`; the constructor takes a module and a tokenizer that are at hand.

    Args:
        module: a transformers model for sequence classification, or a PEFT model around one.
        tokenizer: the tokenizer it was trained with.
        trainable: the parameters that influence is taken through: "all", a regular expression over their names, a
            predicate, or None: those that require a gradient if some do not, else the last two layers and the head.
        freeze_layers: instead of `trainable`, leave out the embeddings and so many layers from below.
        max_length: tokens at which a text is cut; what model and tokenizer allow unless given.
    """

    task = "sequence classification"
    numbers: Literal["auto", "names"] = "auto"  # how labels that are numbers are read; see LabelMap

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        trainable: Choice = None,
        freeze_layers: int | None = None,
        max_length: int | None = None,
        name: str | None = None,
    ) -> None:
        module = unwrap(module)
        self.problem = _problem(checked_config(module, self.task))
        super().__init__(
            module,
            tokenizer,
            LOSSES[self.problem],
            trainable=trainable,
            freeze_layers=freeze_layers,
            max_length=max_length,
            name=name,
        )
        self.label_names = {int(number): str(label) for number, label in (self.config.id2label or {}).items()}

    @classmethod
    def from_pretrained(
        cls,
        path_or_name: str | Path,
        *,
        trainable: Choice = None,
        freeze_layers: int | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        tokenizer: Any = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
    ) -> "TextClassifier":
        """Load a checkpoint directory or a hub name; weights from safetensors alone.

        Computation is in `dtype`, the checkpoint's own but at least float32 unless given. Of a checkpoint that `fastif
        train` wrote, the parameters that it trained are chosen unless others are.
        """
        module, own = checkpoint.load(path_or_name, tokenizer=tokenizer, trust_remote_code=trust_remote_code)
        module = module.to(device=device, dtype=dtype)
        record = read_record(path_or_name)
        as_trained = record is not None and trainable is None and freeze_layers is None
        if record is not None and as_trained:
            trainable, freeze_layers = record.trainable, record.freeze_layers
        model = cls(
            module,
            own,
            trainable=trainable,
            freeze_layers=freeze_layers,
            max_length=max_length,
            name=str(path_or_name),
        )
        if record is not None:
            model.numbers = "names"  # as they were learned
            model.choice = f"{record.trained} (as {RECORD} says)" if as_trained else model.choice
        return model

    @classmethod
    def from_trainer(
        cls, trainer: Any, *, trainable: Choice = None, freeze_layers: int | None = None, max_length: int | None = None
    ) -> "TextClassifier":
        """Take model and tokenizer of a transformers `Trainer`."""
        tokenizer = getattr(trainer, "processing_class", None) or getattr(trainer, "tokenizer", None)
        if tokenizer is None:
            raise ModelError(
                "the trainer has no tokenizer. Make it with Trainer(..., processing_class=tokenizer), or use "
                "TextClassifier(trainer.model, tokenizer)."
            )
        warn_of_loss(trainer)
        return cls(trainer.model, tokenizer, trainable=trainable, freeze_layers=freeze_layers, max_length=max_length)

    # --- data ---------------------------------------------------------------------------------------------------------

    def examples(
        self,
        texts: Sequence[str],
        labels: Sequence[Any] | None = None,
        *,
        pairs: Sequence[str] | None = None,
        slices: Sequence[str] | None = None,
        source: str = "train",
    ) -> TextExamples:
        """Return texts, or pairs of texts, as examples; without labels, what the model predicts is their label.

        Labels are names of the model's classes or their numbers; for several labels each a list of them, or of zeros
        and ones; for regression numbers.
        """
        targets = None if labels is None else self._label_map.encode(labels, source=f"the labels of {source}")
        return self._made(texts, targets, pairs=pairs, slices=slices, source=source)

    def _made(self, texts: Sequence[str], targets: Any, **columns: Any) -> TextExamples:
        """Return examples with these targets, or with predictions for None."""
        blank = torch.zeros(len(texts), *self._target_shape(), dtype=self._target_dtype())
        made = TextExamples(
            texts,
            blank if targets is None else torch.tensor(targets, dtype=self._target_dtype()),
            self.tokenizer,
            max_length=self.max_length,
            label_names=None if self.problem == "regression" else self.label_names,
            **columns,
        )
        return made.with_predictions(self.predict(made)) if targets is None else made

    def read(self, data: Any, source: str) -> Examples:
        """Return as examples: a text, texts, rows or columns with a text and a label, a `TextTable`, or `Examples`."""
        if isinstance(data, Examples):
            return data
        is_query = source == "queries"
        if isinstance(data, str):
            data = [data]
        if isinstance(data, Sequence) and len(data) and all(isinstance(text, str) for text in data):
            if not is_query:
                raise DataError(
                    f"{source} is a list of texts without labels. Give model.examples(texts, labels), or rows such as "
                    '{"text": ..., "label": ...}.'
                )
            return self.examples(data, source=source)
        table = data if isinstance(data, TextTable) else table_of(data, require_label=not is_query, source_name=source)
        return self.from_table(table, source=source)

    def from_table(self, table: TextTable, *, source: str = "train") -> TextExamples:
        """Return the rows of a table as examples; a table without labels gets what the model predicts."""
        labels: Any = None if table.labels is None else self._label_map.encode(table)
        return self._made(table.texts, labels, pairs=table.pairs, slices=table.slices, source=source)

    @property
    def _label_map(self) -> LabelMap:
        return LabelMap(self.label_names, problem=self.problem.removesuffix("-label"), numbers=self.numbers)

    def logits(self, examples: Examples, *, batch_size: int = 256) -> Tensor:
        """Return the outputs for every example, (examples, labels), on the CPU."""
        everyone = examples.everyone()
        order = everyone[examples.by_length(everyone)]
        rows = []
        with torch.no_grad():
            for batch in examples.batches(batch_size, order):
                rows.append(self.outputs(self.parameters, self.place(batch).inputs).cpu())
        return torch.cat(rows)[order.argsort()]

    def predict(self, examples: Examples, *, batch_size: int = 256) -> Tensor:
        """Return what the model predicts, as targets: classes, yes or no for each label, or numbers."""
        return self.as_targets(self.logits(examples, batch_size=batch_size))

    def as_targets(self, logits: Tensor) -> Tensor:
        """Return what outputs predict, in the form of targets."""
        if self.problem == "single-label":
            return logits.argmax(dim=1)
        return (logits > 0).to(logits.dtype) if self.problem == "multi-label" else logits.squeeze(-1)

    def _target_shape(self) -> tuple[int, ...]:
        return () if self.problem == "single-label" or self.config.num_labels == 1 else (self.config.num_labels,)

    def _target_dtype(self) -> torch.dtype:
        return torch.int64 if self.problem == "single-label" else self.dtype


def _problem(config: Any) -> Problem:
    kind = getattr(config, "problem_type", None)
    if kind not in (None, *KINDS):
        raise ModelError(
            f"the model's configuration has the problem_type {kind!r}, which transformers does not know, so that its "
            f"loss is not known. Set it to {', '.join(KINDS)}, or to null."
        )
    if kind == "multi_label_classification":
        return "multi-label"
    if kind == "regression" or (kind is None and config.num_labels == 1):
        return "regression"
    if config.num_labels == 1:
        raise ModelError("the model has one label only, so that its prediction never changes and has no cause.")
    return "single-label"

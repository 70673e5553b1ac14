"""TextClassifier: a fine-tuned sequence classifier of transformers as a model that can be explained.

Knows what a checkpoint says of itself (labels, kind of problem, longest text). Loading is in `checkpoint.py`, tokens in
`texts.py`, how it goes on from stored states in `middle.py`; `fit.py` sees whether model and tokenizer can be used
together.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch import Tensor, nn

from fastif.batch import STATES, Batch, Inputs
from fastif.data import Examples
from fastif.errors import DataError, ModelError
from fastif.integrations.huggingface import checkpoint
from fastif.integrations.huggingface.fit import (
    check_blocks,
    check_tokenizer,
    checked_config,
    longest_text,
    short_inputs,
)
from fastif.integrations.huggingface.layers import choose_parameters
from fastif.integrations.huggingface.middle import Middle
from fastif.integrations.huggingface.probes import attempted, moved, probes_of
from fastif.integrations.huggingface.record import RECORD, read_record
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trainer_loss import warn_of_loss
from fastif.integrations.tables import LabelMap, TextTable, table_of
from fastif.keeping import content_sha256
from fastif.model import TorchModel
from fastif.parameters import Choice, unwrap
from fastif.precision import matmuls
from fastif.snapshot import switches
from fastif.turns import in_turn

Problem = Literal["single-label", "multi-label", "regression"]
LOSSES: dict[Problem, str] = {
    "single-label": "cross_entropy",
    "multi-label": "binary_cross_entropy_with_logits",
    "regression": "mse_loss",
}
KINDS = ("single_label_classification", "multi_label_classification", "regression")  # as transformers calls them
# of a configuration, what hidden states do not depend on: a model has the states of the base it was trained from
NO_SETTINGS = (
    "_name_or_path",
    "architectures",
    "dtype",
    "id2label",
    "label2id",
    "problem_type",
    "transformers_version",
)


class TextClassifier(TorchModel):
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
        self.config = checked_config(module)
        self.problem = _problem(self.config)
        check_tokenizer(tokenizer, module)
        self.tokenizer = tokenizer
        self.max_length = longest_text(module, tokenizer, max_length)
        check_blocks(module, self.max_length)
        few = short_inputs(module, tokenizer, self.max_length)
        chosen, self.choice = choose_parameters(module, trainable, freeze_layers, few)
        super().__init__(module, LOSSES[self.problem], trainable=chosen)
        self.label_names = {int(number): str(label) for number, label in (self.config.id2label or {}).items()}
        self.name = name or getattr(self.config, "_name_or_path", "") or type(module).__name__
        with in_turn(), matmuls("float32", self.device):
            self._middle = self._found_middle(few)

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

    def __repr__(self) -> str:
        words = super().__repr__().removeprefix("TorchModel(").removesuffix(")")
        return f"TextClassifier({words}: {self.choice})"

    def parameters_in_words(self) -> str:
        """Return how many parameters influence is taken through, and which."""
        chosen = sum(tensor.numel() for tensor in self.parameters.values())
        every = chosen + sum(tensor.numel() for tensor in self._frozen.values())
        return f"{chosen:,} of {every:,} parameters: {self.choice}"

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

    # --- from stored states -------------------------------------------------------------------------------------------

    @property
    def prefix(self) -> str | None:
        """What is computed once: the embeddings and the layers below the first chosen parameter."""
        if self._middle.layers is None or self.why_no_prefix is not None:
            return None
        count = self._middle.layers.count
        return f"the embeddings and {count} frozen layer{'' if count == 1 else 's'}"

    @property
    def why_no_prefix(self) -> str | None:
        """Why nothing is computed once; None where something is."""
        return self._middle.why_not

    def encode(self, batch: Batch) -> Tensor:
        """Return the hidden states at the first layer that is not frozen, (batch, tokens, width)."""
        assert isinstance(batch.inputs, dict)
        return self._middle.encode(super().outputs, self.parameters, batch.inputs)

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the logits, from the stored states where the inputs carry them."""
        if not isinstance(inputs, dict) or STATES not in inputs:
            return super().outputs(parameters, inputs)
        return self._middle.outputs(super().outputs, parameters, inputs)

    def fingerprint(self) -> str:
        """Return a hash of the weights that are not chosen, of the configuration, and of the adapters in use."""
        settings = {name: value for name, value in self.config.to_dict().items() if name not in NO_SETTINGS}
        words = json.dumps(settings, sort_keys=True, default=str) + transformers.__version__
        words += "".join(f" {name} {value}" for name, value in switches(self._module).items())
        return hashlib.sha256(f"{words} {content_sha256({**self._frozen, **self._buffers})}".encode()).hexdigest()

    def weights_sha256(self) -> str:
        """Return a hash of all weights."""
        return content_sha256({**self._frozen, **self._parameters})

    def _found_middle(self, few: dict[str, Tensor]) -> Middle:
        """Return how the model goes on from stored states, tried with special tokens inside of texts if it takes such.

        A model of text and pictures refuses the token of a picture that is not there.
        """
        whole, points = super().outputs, [self.parameters, moved(self.parameters, self._frozen)]
        for special in (True, False):
            inputs = probes_of(few, self.tokenizer, self.max_length, special=special)
            with torch.no_grad():
                outputs = attempted(partial(_each, partial(whole, self.parameters), inputs))
            if not isinstance(outputs, Exception):
                return Middle.find(self._module, whole, points, list(zip(inputs, outputs, strict=True)))
        return Middle(f"the model does not take random tokens: {outputs}")

    def settle(self, batch: Batch) -> None:
        """Give up going on from stored states, or a short way to, where it changes the outputs for these texts."""
        if self.why_no_prefix is None and isinstance(batch.inputs, dict):
            with in_turn(), matmuls("float32", self.device), torch.no_grad():
                self._middle.settle(super().outputs, self.parameters, batch.inputs)

    def _check(self, batch: Batch) -> None:
        super()._check(batch)
        self.settle(batch)

    def _target_shape(self) -> tuple[int, ...]:
        return () if self.problem == "single-label" or self.config.num_labels == 1 else (self.config.num_labels,)

    def _target_dtype(self) -> torch.dtype:
        return torch.int64 if self.problem == "single-label" else self.dtype


def _each(function: Callable[[dict[str, Tensor]], Tensor], inputs: list[dict[str, Tensor]]) -> list[Tensor]:
    return [function(each) for each in inputs]


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

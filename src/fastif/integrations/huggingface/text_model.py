"""TextModel: what models of texts have in common, whatever they say of them.

A module with its tokenizer, the parameters that influence is taken through, and how it goes on from stored states
(`middle.py`); `fit.py` sees whether model and tokenizer can be used together, and how long a text may be.
`classifier.py` and `generator.py` say what the outputs are and what a text's target is.
"""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from fastif.batch import STATES, Batch, Inputs
from fastif.integrations.huggingface.fit import (
    LONGEST,
    check_blocks,
    check_tokenizer,
    checked_config,
    longest_text,
    short_inputs,
)
from fastif.integrations.huggingface.layers import choose_parameters
from fastif.integrations.huggingface.middle import Middle
from fastif.integrations.huggingface.probes import attempted, moved, probes_of
from fastif.keeping import content_sha256
from fastif.losses import PerExample
from fastif.model import TorchModel
from fastif.parameters import Choice
from fastif.precision import matmuls
from fastif.snapshot import switches
from fastif.turns import in_turn

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


class TextModel(TorchModel):
    """A transformers model with its tokenizer; the constructor takes both as they are at hand.

    Args:
        module: the model, or a PEFT model around one.
        tokenizer: the tokenizer it was trained with.
        loss: of one number for each text.
        trainable, freeze_layers, max_length, name: as the kinds of models say.
    """

    task = "texts"  # what the model must have been made for, in words
    unsaid_length: int | None = LONGEST  # tokens of a text where the tokenizer does not say; None for all positions

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        loss: str | PerExample,
        *,
        trainable: Choice = None,
        freeze_layers: int | None = None,
        max_length: int | None = None,
        name: str | None = None,
    ) -> None:
        self.config = checked_config(module, self.task)
        check_tokenizer(tokenizer, module)
        self.tokenizer = tokenizer
        self.max_length = longest_text(module, tokenizer, max_length, self.unsaid_length)
        check_blocks(module, self.max_length)
        few = short_inputs(module, tokenizer, self.max_length, self.task)
        chosen, self.choice = self._chosen(module, trainable, freeze_layers, few)
        super().__init__(module, loss, trainable=chosen)
        self.name = name or getattr(self.config, "_name_or_path", "") or type(module).__name__
        with in_turn(), matmuls("float32", self.device):
            self._middle = self._found_middle(few)

    def _chosen(
        self, module: nn.Module, trainable: Choice, freeze_layers: int | None, few: dict[str, Tensor]
    ) -> tuple[Choice, str]:
        """Return the choice of parameters, and the reason for it in words."""
        return choose_parameters(module, trainable, freeze_layers, few)

    def __repr__(self) -> str:
        words = super().__repr__().removeprefix("TorchModel(").removesuffix(")")
        return f"{type(self).__name__}({words}: {self.choice})"

    def parameters_in_words(self) -> str:
        """Return how many parameters influence is taken through, and which."""
        chosen = sum(tensor.numel() for tensor in self.parameters.values())
        every = chosen + sum(tensor.numel() for tensor in self._frozen.values())
        return f"{chosen:,} of {every:,} parameters: {self.choice}"

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
        return self._middle.encode(self._whole, self.parameters, batch.inputs)

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the outputs, from the stored states where the inputs carry them."""
        if not isinstance(inputs, dict) or STATES not in inputs:
            return self._whole(parameters, inputs)
        return self._middle.outputs(self._whole, parameters, inputs)

    def _whole(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the outputs of the whole model."""
        return super().outputs(parameters, inputs)

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
        points = [self.parameters, moved(self.parameters, self._frozen)]
        for special in (True, False):
            inputs = probes_of(few, self.tokenizer, self.max_length, special=special)
            with torch.no_grad():
                outputs = attempted(partial(_each, partial(self._whole, self.parameters), inputs))
            if not isinstance(outputs, Exception):
                return Middle.find(self._module, self._whole, points, list(zip(inputs, outputs, strict=True)))
        return Middle(f"the model does not take random tokens: {outputs}")

    def settle(self, batch: Batch) -> None:
        """Give up going on from stored states, or a short way to, where it changes the outputs for these texts."""
        if self.why_no_prefix is None and isinstance(batch.inputs, dict):
            with in_turn(), matmuls("float32", self.device), torch.no_grad():
                self._middle.settle(self._whole, self.parameters, batch.inputs)

    def _check(self, batch: Batch) -> None:
        super()._check(batch)
        self.settle(batch)


def _each(function: Callable[[dict[str, Tensor]], Tensor], inputs: list[dict[str, Tensor]]) -> list[Tensor]:
    return [function(each) for each in inputs]

"""TextGenerator: a language model of transformers that is asked why it says what it says.

Each text counts the same, by the mean loss of the tokens after its prompt. Loading is in `checkpoint.py`, tokens are in
`completions.py`; `text_model.py` has what classifiers of texts have too.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fastif.batch import Inputs
from fastif.data import Examples
from fastif.errors import DataError, ModelError
from fastif.integrations.huggingface import checkpoint
from fastif.integrations.huggingface.completions import Completions, Said, check_texts, columns_of
from fastif.integrations.huggingface.middle import Middle
from fastif.integrations.huggingface.probes import IDS, MASK, same
from fastif.integrations.huggingface.text_model import TextModel
from fastif.parameters import Choice, unwrap

MOST_TOKENS = 20  # of an answer of the model's own


class TextGenerator(TextModel):
    r"""A causal language model with its tokenizer.

    The loss of a text is $-\frac1n \sum_t \log p(x_t \mid x_{<t})$ over its n tokens after the prompt. Make one by
    `from_pretrained`, or of a module and a tokenizer that are at hand.

    Args:
        module: a transformers model for causal language modelling, or a PEFT model around one.
        tokenizer: the tokenizer it was trained with.
        trainable: the parameters that influence is taken through: "all", a regular expression over their names, a
            predicate, or None: those that require a gradient if some do not, else the last two layers and what comes
            after them, but for the output embeddings.
        freeze_layers: instead of `trainable`, leave out the embeddings and so many layers from below.
        max_length: tokens at which a text is cut; what model and tokenizer allow unless given.
    """

    task = "causal language modelling"

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
        super().__init__(
            unwrap(module),
            _padding(tokenizer),
            "cross_entropy",
            trainable=trainable,
            freeze_layers=freeze_layers,
            max_length=max_length,
            name=name,
        )

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
    ) -> "TextGenerator":
        """Load a checkpoint directory or a hub name; weights from safetensors alone.

        Computation is in `dtype`, the checkpoint's own but at least float32 unless given.
        """
        module, own = checkpoint.load(
            path_or_name, tokenizer=tokenizer, trust_remote_code=trust_remote_code, kind=checkpoint.GENERATOR
        )
        return cls(
            module.to(device=device, dtype=dtype),
            own,
            trainable=trainable,
            freeze_layers=freeze_layers,
            max_length=max_length,
            name=str(path_or_name),
        )

    # --- data ---------------------------------------------------------------------------------------------------------

    def examples(
        self,
        prompts: Sequence[str] | None = None,
        completions: Sequence[str] | None = None,
        *,
        special_tokens: bool = True,
        slices: Sequence[str] | None = None,
        source: str = "train",
    ) -> Completions:
        """Return prompts and what follows them as examples.

        Without prompts all of a text counts; without completions, what the model itself says next is explained. Texts
        are taken as they are: with the space between prompt and completion and, where the model was trained on it, the
        end token. For texts of a chat template, which have their special tokens, say `special_tokens=False`.
        """
        if prompts is None and completions is None:
            raise DataError(f"{source} has neither prompts nor completions: give texts of one kind at least.")
        given = prompts if prompts is not None else [""] * len(completions or ())
        if completions is None:
            check_texts(given, given, self.tokenizer, source)
            answers = [self._answer(prompt, MOST_TOKENS, special_tokens) for prompt in given]
            said, words = self._as_said(answers), [answer.words for answer in answers]
        else:
            check_texts(given, completions, self.tokenizer, source)
            said, words = Said.of(given, completions, self.tokenizer, special_tokens=special_tokens), list(completions)
        made = Completions(given, words, said, self.tokenizer, max_length=self.max_length, slices=slices, source=source)
        made.targets_are_predictions = completions is None
        return made

    def read(self, data: Any, source: str) -> Examples:
        """Return as examples: a prompt or prompts to be answered, texts to learn from, rows, or `Examples`.

        Rows have the columns prompt and completion, or text.
        """
        if isinstance(data, Examples):
            return data
        rows: list[Any] = [data] if isinstance(data, str | dict) else list(data)
        if all(isinstance(row, str) for row in rows):
            if source == "queries":
                return self.examples(rows, source=source)
            return self.examples(completions=rows, source=source)
        return self.examples(*columns_of(rows, source), source=source)

    def complete(self, prompts: Sequence[str], *, most: int = MOST_TOKENS, special_tokens: bool = True) -> list[str]:
        """Return what the model goes on with, the likeliest token each time, until its end token or so many tokens."""
        return [self._answer(prompt, most, special_tokens).words for prompt in prompts]

    @torch.no_grad()
    def _answer(self, prompt: str, most: int, special_tokens: bool) -> "_Answer":
        encoded = self.tokenizer(prompt, add_special_tokens=special_tokens, return_special_tokens_mask=True)
        behind = encoded.pop("special_tokens_mask")
        given = {name: list(column) for name, column in encoded.items()}
        while len(given[IDS]) > 1 and behind[len(given[IDS]) - 1]:
            for column in given.values():
                column.pop()  # what the tokenizer puts behind a text
        if not given[IDS]:
            raise DataError(f"the prompt {prompt!r} gives no token that the model could go on from.")
        if len(given[IDS]) >= self.max_length:
            raise DataError(
                f"the prompt {prompt[:60]!r} has {len(given[IDS])} tokens, and a text is cut at {self.max_length}, so "
                "that no answer is left of it. Give a shorter prompt, or a larger max_length=."
            )
        ids: list[int] = list(given[IDS])
        while len(ids) - len(given[IDS]) < most and len(ids) < self.max_length:
            now = torch.tensor([ids], device=self.device)
            outputs = self.outputs(self.parameters, {IDS: now, MASK: torch.ones_like(now)})
            ids.append(int(outputs[0, :, -1].argmax()))
            if ids[-1] == self.tokenizer.eos_token_id:
                break
        # of both together, as a tokenizer may leave out the space at the beginning of what it decodes
        before, whole = self.tokenizer.decode(given[IDS]), self.tokenizer.decode(ids)
        words = whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(ids[len(given[IDS]) :])
        return _Answer(given, ids, words)

    def _as_said(self, answers: Sequence["_Answer"]) -> Said:
        """Return the very tokens of some answers, as their words could be cut into others."""
        columns = {
            name: [
                answer.ids if name == IDS else [*answer.given[name], *[answer.given[name][-1]] * answer.count]
                for answer in answers
            ]
            for name in answers[0].given
        }
        return Said(columns, [len(answer.given[IDS]) for answer in answers])

    # --- how it is run ------------------------------------------------------------------------------------------------

    def _whole(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the outputs of the whole model, (batch, tokens of the vocabulary, positions)."""
        assert isinstance(inputs, dict)
        without_cache: Any = {**inputs, "use_cache": False}
        outputs = super()._whole(parameters, without_cache)
        if outputs.ndim != 3:
            raise ModelError(
                f"{type(self._module).__name__} gives outputs of shape {tuple(outputs.shape)}, and no scores for the "
                "next token at each position. Load the model with AutoModelForCausalLM."
            )
        return outputs.transpose(1, 2)

    def _chosen(
        self, module: nn.Module, trainable: Choice, freeze_layers: int | None, few: dict[str, Tensor]
    ) -> tuple[Choice, str]:
        chosen, why = super()._chosen(module, trainable, freeze_layers, few)
        if trainable is not None or not callable(chosen):
            return chosen, why
        # by themselves, as tied ones have the name of the input embeddings too
        last: Any = getattr(module, "get_output_embeddings", lambda: None)()
        ends = {id(parameter) for parameter in last.parameters()} if last is not None else set()
        every = module.named_parameters(remove_duplicate=False)
        if not any(id(parameter) in ends and chosen(name, parameter) for name, parameter in every):
            return chosen, why
        return (
            lambda name, parameter: chosen(name, parameter) and id(parameter) not in ends
        ), f"{why}, but for the output embeddings"

    def _found_middle(self, few: dict[str, Tensor]) -> Middle:
        self._require_looking_back(few)
        return super()._found_middle(few)

    @torch.no_grad()
    def _require_looking_back(self, few: dict[str, Tensor]) -> None:
        """Raise if what the model says at a position depends on tokens after it."""
        row = {name: tensor[1:2] for name, tensor in few.items()}  # the longer text, which is not padded
        other = {**row, IDS: row[IDS].clone()}
        other[IDS][0, -1] = row[IDS][0, 0] if row[IDS][0, 0] != row[IDS][0, -1] else row[IDS][0, 1]
        seen, changed = (self._whole(self.parameters, inputs)[..., :-1] for inputs in (row, other))
        if not same(changed, seen):
            raise ModelError(
                f"what {type(self._module).__name__} says at a token changes with the tokens after it, so that it does "
                "not say one token after another. Load a model for causal language modelling (AutoModelForCausalLM)."
            )


@dataclass(frozen=True)
class _Answer:
    """What a model says: the inputs that were given, the tokens of prompt and answer, and the answer in words."""

    given: dict[str, list[int]]
    ids: list[int]
    words: str

    @property
    def count(self) -> int:
        """How many tokens were said."""
        return len(self.ids) - len(self.given[IDS])


def _padding(tokenizer: Any) -> Any:
    """Return a tokenizer that can pad: what stands in the padding is seen by no token of a text."""
    if getattr(tokenizer, "pad_token_id", 0) is not None or getattr(tokenizer, "eos_token", None) is None:
        return tokenizer
    padding = copy.deepcopy(tokenizer)
    padding.pad_token = padding.eos_token
    return padding

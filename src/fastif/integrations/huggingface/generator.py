"""TextGenerator: a language model of transformers that is asked why it says what it says.

Each text counts the same, by the mean loss of the tokens after its prompt. Loading is in `checkpoint.py`, tokens are in
`completions.py`; `text_model.py` has what classifiers of texts have too.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fastif.batch import Inputs
from fastif.data import Examples
from fastif.errors import ConfigurationError, DataError, ModelError
from fastif.integrations.huggingface import checkpoint
from fastif.integrations.huggingface.completions import (
    Completions,
    Said,
    Tokens,
    check_texts,
    columns_of,
    require_one_beginning,
)
from fastif.integrations.huggingface.middle import Middle
from fastif.integrations.huggingface.probes import IDS, MASK, same
from fastif.integrations.huggingface.text_model import TextModel
from fastif.parameters import Choice, unwrap

MOST_TOKENS = 20  # of an answer of the model's own
QUERIES = "queries"  # what an explainer calls what it is asked


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
    unsaid_length = None

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
        if callable(tokenizer) and not getattr(tokenizer, "is_fast", True):
            raise ModelError(
                f"{type(tokenizer).__name__} does not tell where in a text its tokens stand, so that prompt and "
                "completion could not be told apart. Load the fast one: AutoTokenizer.from_pretrained(name)."
            )
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
        given = [""] * len(completions or ()) if prompts is None else prompts
        if completions is None:
            check_texts(given, given, source)
            said, words = self._answers(given, MOST_TOKENS, special_tokens)
        else:
            check_texts(given, completions, source)
            said = Said.of(given, completions, self.tokenizer, special_tokens=special_tokens)
            words = list(completions)
        for ids in said.columns[IDS]:
            require_one_beginning(ids, self.tokenizer, source)
        return Completions(
            given,
            words,
            said=said,
            tokenizer=self.tokenizer,
            max_length=self.max_length,
            are_own=completions is None,
            slices=slices,
            source=source,
        )

    def read(self, data: Any, source: str) -> Examples:
        """Return as examples: a prompt or prompts to be answered, texts to learn from, rows, or `Examples`.

        Rows, columns and data frames have prompt and completion, or text.
        """
        if isinstance(data, Examples):
            return data
        if not isinstance(data, Iterable):
            raise DataError(f"{source} is a {type(data).__name__}: give texts, or rows with a prompt and a completion.")
        if not isinstance(data, Mapping) and not hasattr(data, "columns"):
            data = [data] if isinstance(data, str) else list(data)
            if all(isinstance(text, str) for text in data):
                return self.examples(*((data,) if source == QUERIES else (None, data)), source=source)
        prompts, completions = columns_of(data, source)
        if completions is None and source != QUERIES:
            raise DataError(f"the rows of {source} have prompts without completions, of which nothing was learnt.")
        return self.examples(prompts, completions, source=source)

    def complete(self, prompts: Sequence[str], *, most: int = MOST_TOKENS, special_tokens: bool = True) -> list[str]:
        """Return what the model goes on with, the likeliest token each time, until an end token or so many tokens."""
        check_texts(prompts, prompts, "what is to be completed")
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ConfigurationError(f"most must be a whole number of tokens, at least 1; not {most!r}.")
        return self._answers(prompts, most, special_tokens)[1]

    def _answers(self, prompts: Sequence[str], most: int, special_tokens: bool) -> tuple[Said, list[str]]:
        """Return prompts with the model's answers: as the very tokens it says, and the answers in words."""
        columns: dict[str, list[Tokens]] = {}
        first, words = [], []
        for prompt in prompts:
            given = self._given(prompt, special_tokens)
            ids = self._gone_on(given[IDS], most)
            for name, column in given.items():
                rest = ids[len(column) :] if name == IDS else column[-1:] * (len(ids) - len(column))
                columns.setdefault(name, []).append(np.asarray([*column, *rest], dtype=np.int32))
            # of both together, as a tokenizer may leave out the space at the beginning of what it decodes
            before, whole = self.tokenizer.decode(given[IDS]), self.tokenizer.decode(ids)
            own = self.tokenizer.decode(ids[len(given[IDS]) :])
            first.append(len(given[IDS]))
            words.append(whole[len(before) :] if whole.startswith(before) else own)
        return Said(columns, first), words

    def _given(self, prompt: str, special_tokens: bool) -> dict[str, list[int]]:
        """Return the tokens of a prompt, without what the tokenizer puts behind a text."""
        encoded = self.tokenizer(
            prompt, add_special_tokens=special_tokens, return_special_tokens_mask=True, verbose=False
        )
        behind = encoded.pop("special_tokens_mask")
        end = len(behind)
        while end > 1 and behind[end - 1]:
            end -= 1
        if not 0 < end < self.max_length:
            raise DataError(
                f"the prompt {prompt[:60]!r} has {end} tokens, and a text is cut at {self.max_length}: there is none "
                "to go on from, or no room to. Give another prompt, or another max_length=."
            )
        return {name: list(column[:end]) for name, column in encoded.items()}

    @torch.no_grad()
    def _gone_on(self, given: list[int], most: int) -> list[int]:
        """Return tokens with those that the model says after them."""
        ids, ends = list(given), self._ends
        while len(ids) < min(len(given) + most, self.max_length) and (len(ids) == len(given) or ids[-1] not in ends):
            now = torch.tensor([ids], device=self.device)
            outputs = self.outputs(self.parameters, {IDS: now, MASK: torch.ones_like(now)})
            ids.append(int(outputs[0, :, -1].argmax()))
        return ids

    @property
    def _ends(self) -> set[int]:
        """The tokens with which an answer ends: the tokenizer's, and those that the model is to be stopped at."""
        own = getattr(getattr(self._module, "generation_config", None), "eos_token_id", None)
        return {*(own if isinstance(own, list | tuple) else [own]), self.tokenizer.eos_token_id} - {None}

    # --- how it is run ------------------------------------------------------------------------------------------------

    def _whole(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the outputs of the whole model, (batch, tokens of the vocabulary, positions)."""
        if not isinstance(inputs, dict):
            raise ModelError("a language model takes its inputs by name: {'input_ids': ..., 'attention_mask': ...}.")
        without_cache: Any = {**inputs, "use_cache": False}
        return super()._whole(parameters, without_cache).transpose(1, -1)

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

        def is_no_end(name: str, parameter: nn.Parameter) -> bool:
            return id(parameter) not in ends and bool(chosen(name, parameter))

        return is_no_end, f"{why}, but for the output embeddings"

    def _found_middle(self, few: dict[str, Tensor]) -> Middle:
        self._require_next_tokens(few)
        return super()._found_middle(few)

    @torch.no_grad()
    def _require_next_tokens(self, few: dict[str, Tensor]) -> None:
        """Raise unless outputs are scores of all tokens at each position, and depend on no token after it."""
        row = {name: tensor[1:2] for name, tensor in few.items()}  # the longer text, which is not padded
        other = {**row, IDS: row[IDS].clone()}
        other[IDS][0, -1] = row[IDS][0, 0] if row[IDS][0, 0] != row[IDS][0, -1] else row[IDS][0, 1]
        seen, changed = (self._whole(self.parameters, inputs) for inputs in (row, other))
        kind, shape = type(self._module).__name__, tuple(seen.shape)
        if seen.ndim != 3 or shape[2] != row[IDS].shape[1] or shape[1] <= max(self.tokenizer.get_vocab().values()):
            raise ModelError(
                f"{kind} gives no score for each token of the tokenizer at each position of a text: for "
                f"{row[IDS].shape[1]} tokens its outputs are {shape}, by example, token that is said, and position. "
                "Load a model with AutoModelForCausalLM; virtual tokens of prompt tuning are not taken."
            )
        if not same(changed[..., :-1], seen[..., :-1]):
            raise ModelError(
                f"what {kind} says at a token changes with the tokens after it: it does not say one token after "
                "another. Load a model for causal language modelling (AutoModelForCausalLM)."
            )


def _padding(tokenizer: Any) -> Any:
    """Return a tokenizer that can pad: what stands in the padding is seen by no token of a text."""
    if getattr(tokenizer, "pad_token_id", 0) is not None or getattr(tokenizer, "eos_token", None) is None:
        return tokenizer
    padding = copy.deepcopy(tokenizer)
    padding.pad_token = padding.eos_token
    return padding

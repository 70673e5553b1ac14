"""Completions: prompts and what follows them, as examples of a language model.

The target of a position is the token after it. Where that is of the prompt or of the padding, there is none (-100): a
prompt is given, and what is said in answer to it is explained. Knows tokenizers, and no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastif.errors import DataError, EmptyDataError, ModelError
from fastif.integrations.huggingface.probes import IDS
from fastif.integrations.huggingface.texts import BETWEEN, TokenExamples, TokenTable, padding_of
from fastif.losses import IGNORED_CLASS
from fastif.ragged import Ragged

PROMPT, COMPLETION, TEXT = "prompt", "completion", "text"  # columns of rows
SHOWN = 60  # letters of a completion in a line about it


@dataclass(frozen=True)
class Said:
    """Texts as tokens: a list for each input of the model and each text, and the first token that is said in each."""

    columns: dict[str, list[list[int]]]
    first: list[int]

    @classmethod
    def of(cls, prompts: Sequence[str], completions: Sequence[str], tokenizer: Any, *, special_tokens: bool) -> "Said":
        """Cut prompt and completion into tokens as one text, as in training.

        A token that begins in the prompt and ends in the completion is of the completion.
        """
        whole = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
        encoded = tokenizer(
            whole, add_special_tokens=special_tokens, padding=False, return_offsets_mapping=True, verbose=False
        )
        spans = encoded.pop("offset_mapping")
        first = [
            next((place for place, (_, end) in enumerate(spans[row]) if end > len(prompt)), len(spans[row]))
            for row, prompt in enumerate(prompts)
        ]
        return cls(dict(encoded), first)

    def targets(self, row: int) -> list[int]:
        """Return the token after each, as far as it is said; the first of a text has none before it to be said by."""
        ids, first = self.columns[IDS][row], max(1, self.first[row])
        return [*[IGNORED_CLASS] * min(first - 1, len(ids)), *ids[first:], IGNORED_CLASS][: len(ids)]


class Completions(TokenExamples):
    """Texts of which the part after the prompt counts; `truncated` counts those that were cut at `max_length` tokens.

    Args:
        prompts: what is given; nothing where a text is to be explained from its beginning.
        completions: what follows, with the space or the line between.
        said: the tokens of both.
        tokenizer: it made them.
        max_length: tokens at which a text is cut.
        slices, source: as of `Examples`.
    """

    def __init__(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        said: Said,
        tokenizer: Any,
        *,
        max_length: int,
        slices: Sequence[str] | None = None,
        source: str = "data",
    ) -> None:
        self.prompts, self.completions, self.max_length = list(prompts), list(completions), max_length
        self.truncated = sum(len(ids) > max_length for ids in said.columns[IDS])
        rows = {name: [ids[:max_length] for ids in column] for name, column in said.columns.items()}
        targets = [said.targets(row)[:max_length] for row in range(len(prompts))]
        for row, ids in enumerate(rows[IDS]):
            if len(ids) == max_length:
                targets[row][-1] = IGNORED_CLASS  # what would be said next was cut off
            if all(target == IGNORED_CLASS for target in targets[row]):
                raise DataError(_without_target(row, source, prompts[row], completions[row], max_length))
        lengths = torch.tensor([len(ids) for ids in rows[IDS]])
        table = TokenTable(
            {name: _ragged(column, lengths) for name, column in rows.items()},
            {name: padding_of(tokenizer, name) for name in rows},
            _ragged(targets, lengths),
        )
        self._tokenizer = tokenizer
        shown = [f"{one}{BETWEEN}{two}" if one else two for one, two in zip(prompts, completions, strict=True)]
        super().__init__(table, text=shown, slices=slices, source=source)

    def __getitem__(self, index: int) -> dict[str, str]:
        """Return one example as a person reads it."""
        return {PROMPT: self.prompts[index], COMPLETION: self.completions[index]}

    def name_of(self, target: Tensor) -> str:
        """Return the tokens that are to be said, in words and cut to a line."""
        words = repr(self._tokenizer.decode(target[target != IGNORED_CLASS]))
        return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


def columns_of(rows: Sequence[Any], source: str) -> tuple[list[str] | None, list[str] | None]:
    """Return the prompts and the completions of some rows, None for what they lack: a text is a completion of nothing.

    >>> columns_of([{"prompt": "1 + 1 =", "completion": " 2"}], "train")
    (['1 + 1 ='], [' 2'])
    >>> columns_of([{"text": "1 + 1 = 2"}], "train")
    (None, ['1 + 1 = 2'])
    """
    kinds = {frozenset({PROMPT, COMPLETION, TEXT} & set(row)) if isinstance(row, Mapping) else None for row in rows}
    known = set((kinds.pop() if len(kinds) == 1 else None) or ())
    if known == {TEXT}:
        return None, [row[TEXT] for row in rows]
    if known in ({PROMPT}, {PROMPT, COMPLETION}):
        return [row[PROMPT] for row in rows], [row[COMPLETION] for row in rows] if COMPLETION in known else None
    raise DataError(
        f"{source} is not made of texts: needed are rows with '{PROMPT}' and '{COMPLETION}', or with '{TEXT}', the "
        "same in each, or model.examples(prompts, completions)."
    )


def _ragged(rows: Sequence[Sequence[int]], lengths: Tensor) -> Ragged:
    flat = np.fromiter((number for row in rows for number in row), dtype=np.int32, count=int(lengths.sum()))
    return Ragged(torch.from_numpy(flat), lengths)


def check_texts(prompts: Sequence[str], completions: Sequence[str], tokenizer: Any, source: str) -> None:
    """Raise unless these are texts, one prompt for each completion, and a tokenizer that says where tokens stand."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"{type(tokenizer).__name__} does not tell where in a text its tokens stand, so that prompt and completion "
            "could not be told apart. Load the fast tokenizer of the model: AutoTokenizer.from_pretrained(name)."
        )
    if len(prompts) != len(completions):
        raise DataError(f"{source} has {len(prompts)} prompts but {len(completions)} completions: give one each.")
    if not len(prompts):
        raise EmptyDataError(f"{source} is empty: there is no text to work with. Pass at least one.")
    for name, column in (("prompt", prompts), ("completion", completions)):
        odd = next((row for row, text in enumerate(column) if not isinstance(text, str)), None)
        if odd is not None:
            raise DataError(f"the {name} of example {odd} of {source} is a {type(column[odd]).__name__}, not a string.")


def _without_target(row: int, source: str, prompt: str, completion: str, max_length: int) -> str:
    words = f"example {row} of {source} has no token to be explained: "
    if not completion:
        return words + "its completion is empty. Leave it out, or give what was said."
    return words + (
        f"its prompt and completion are {prompt[:SHOWN]!r} and {completion[:SHOWN]!r}. A text is cut at {max_length} "
        "tokens, and the first of a text has none before it to be said by. Leave it out, or give a larger max_length=."
    )

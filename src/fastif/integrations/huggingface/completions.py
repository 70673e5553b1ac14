"""Completions: prompts and what follows them, as examples of a language model.

The target of a position is the token after it. Where that is of the prompt or of the padding, there is none (-100): a
prompt is given, and what is said in answer to it is explained. Knows tokenizers, and no model.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastif.errors import DataError, EmptyDataError, FastifWarning
from fastif.integrations.huggingface.probes import IDS
from fastif.integrations.huggingface.texts import BETWEEN, CHUNK, TokenExamples, TokenTable, padding_of, require_strings
from fastif.losses import IGNORED_CLASS
from fastif.ragged import Ragged

PROMPT, COMPLETION, TEXT = "prompt", "completion", "text"  # columns of rows
SHOWN = 60  # letters of a text in a line about it
Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class Said:
    """Texts as tokens: those of each text for each input of the model, and the number of the first that is said."""

    columns: dict[str, list[Tokens]]
    first: list[int]

    @classmethod
    def of(cls, prompts: Sequence[str], completions: Sequence[str], tokenizer: Any, *, special_tokens: bool) -> "Said":
        """Cut prompt and completion into tokens as one text, as in training.

        A token that begins in the prompt and ends in the completion is of the completion.
        """
        columns: dict[str, list[Tokens]] = {}
        first: list[int] = []
        whole = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
        for start in range(0, len(whole), CHUNK):
            some = whole[start : start + CHUNK]
            encoded = tokenizer(
                some, add_special_tokens=special_tokens, padding=False, return_offsets_mapping=True, verbose=False
            )
            for prompt, spans in zip(prompts[start : start + CHUNK], encoded.pop("offset_mapping"), strict=True):
                within = (place for place, (_, end) in enumerate(spans) if end > len(prompt))
                first.append(next(within, len(spans)))
            for name, rows in encoded.items():
                columns.setdefault(name, []).extend(np.asarray(row, dtype=np.int32) for row in rows)
        return cls(columns, first)

    def targets(self, row: int, length: int) -> Tokens:
        """Return the token after each of so many, as far as it is said.

        The first of a text has none before it to be said by, and what comes after the last is cut off.
        """
        ids, first = self.columns[IDS][row][:length], max(1, self.first[row])
        targets = np.full(len(ids), IGNORED_CLASS, dtype=np.int32)
        targets[first - 1 : -1] = ids[first:]
        return targets


class Completions(TokenExamples):
    """Texts of which the part after the prompt counts; `truncated` counts those that were cut at `max_length` tokens.

    Args:
        prompts: what is given; nothing where a text is to be explained from its beginning.
        completions: what follows, with the space or the line between.
        said: the tokens of both.
        tokenizer: it made them.
        max_length: tokens at which a text is cut.
        are_own: whether completions are what the model itself says.
        slices, source: as of `Examples`.
    """

    def __init__(
        self,
        prompts: Sequence[str],
        completions: Sequence[str],
        *,
        said: Said,
        tokenizer: Any,
        max_length: int,
        are_own: bool = False,
        slices: Sequence[str] | None = None,
        source: str = "data",
    ) -> None:
        self.prompts, self.completions, self.max_length = list(prompts), list(completions), max_length
        lengths = [len(ids) for ids in said.columns[IDS]]
        self.truncated = sum(length > max_length for length in lengths)
        counted = torch.tensor(lengths).clamp_max(max_length)
        targets = [said.targets(row, max_length) for row in range(len(lengths))]
        for row, some in enumerate(targets):
            if (some == IGNORED_CLASS).all():
                raise DataError(_without_target(row, source, prompts[row], completions[row], max_length))
        table = TokenTable(
            {name: _ragged([ids[:max_length] for ids in rows], counted) for name, rows in said.columns.items()},
            {name: padding_of(tokenizer, name) for name in said.columns},
            _ragged(targets, counted),
        )
        self._tokenizer = tokenizer
        shown = [f"{one}{BETWEEN}{two}" if one else two for one, two in zip(prompts, completions, strict=True)]
        super().__init__(table, text=shown, slices=slices, source=source)
        self.targets_are_predictions = are_own
        if self.truncated:
            warnings.warn(
                f"{self.truncated} of {len(lengths)} texts of {source} have more than {max_length} tokens, and what "
                "stands behind these is left out. Give a larger max_length= if the model takes more.",
                FastifWarning,
                stacklevel=3,
            )

    def __getitem__(self, index: int) -> dict[str, str]:
        """Return one example as a person reads it."""
        return {PROMPT: self.prompts[index], COMPLETION: self.completions[index]}

    def name_of(self, target: Tensor) -> str:
        """Return the tokens that are to be said, in words and cut to a line."""
        words = repr(self._tokenizer.decode(target[target != IGNORED_CLASS]))
        return words if len(words) <= SHOWN else f"{words[: SHOWN - 1]}…"


def columns_of(data: Any, source: str) -> tuple[list[str] | None, list[str] | None]:
    """Return the prompts and the completions of rows, None for what they lack: a text is a completion of nothing.

    >>> columns_of([{"prompt": "1 + 1 =", "completion": " 2"}], "train")
    (['1 + 1 ='], [' 2'])
    >>> columns_of({"text": ["1 + 1 = 2", "1 + 2 = 3"]}, "train")
    (None, ['1 + 1 = 2', '1 + 2 = 3'])
    """
    if isinstance(data, Mapping) and data and not any(isinstance(column, str) for column in data.values()):
        columns = {str(name): list(column) for name, column in data.items()}
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # a data frame
        columns = {str(name): list(data[name]) for name in data.columns}
    else:
        rows = [data] if isinstance(data, Mapping) else list(data)
        names = {tuple(sorted(row)) if isinstance(row, Mapping) else () for row in rows}
        columns = {name: [row[name] for row in rows] for name in names.pop()} if len(names) == 1 else {}
    known = {PROMPT, COMPLETION, TEXT} & set(columns)
    if known == {TEXT}:
        return None, columns[TEXT]
    if known in ({PROMPT}, {PROMPT, COMPLETION}):
        return columns[PROMPT], columns.get(COMPLETION)
    raise DataError(
        f"{source} is not made of texts: needed are rows with '{PROMPT}' and '{COMPLETION}', or with '{TEXT}', the "
        "same in each, or model.examples(prompts, completions)."
    )


def check_texts(prompts: Sequence[str], completions: Sequence[str], source: str) -> None:
    """Raise unless these are texts, one prompt for each completion."""
    if isinstance(prompts, str) or isinstance(completions, str):
        raise DataError(f"{source} is a text by itself, which would be read letter by letter: give a list, [text].")
    if len(prompts) != len(completions):
        raise DataError(f"{source} has {len(prompts)} prompts but {len(completions)} completions: give one each.")
    if not len(prompts):
        raise EmptyDataError(f"{source} is empty: there is no text to work with. Pass at least one.")
    require_strings({PROMPT: prompts, COMPLETION: completions}, source)


def require_one_beginning(ids: Tokens, tokenizer: Any, source: str) -> None:
    """Raise for a text that begins with the first token twice: its own, and the one that the tokenizer adds."""
    first = getattr(tokenizer, "bos_token_id", None)
    if first is not None and len(ids) > 1 and ids[0] == ids[1] == first:
        raise DataError(
            f"a text of {source} begins with {tokenizer.bos_token!r}, and the tokenizer puts another before it: no "
            "text was like that in training. Texts of a chat template have their special tokens: "
            "model.examples(prompts, completions, special_tokens=False)."
        )


def _ragged(rows: Sequence[Tokens], lengths: Tensor) -> Ragged:
    return Ragged(torch.from_numpy(np.concatenate(rows)), lengths)


def _without_target(row: int, source: str, prompt: str, completion: str, max_length: int) -> str:
    words = f"example {row} of {source} has no token to be explained: "
    if not completion:
        return words + "its completion is empty. Leave it out, or give what was said."
    return words + (
        f"its prompt and completion are {prompt[:SHOWN]!r} and {completion[:SHOWN]!r}. Either the tokenizer makes none "
        f"of the completion, or it lies behind {max_length} tokens, where a text is cut, or it is the first of a text, "
        "which has none before it to be said by. Leave it out, or give a larger max_length=."
    )

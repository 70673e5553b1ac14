"""Texts as tokens, many at once: drawn at random with the lengths of real texts, or read from a file and repeated.

Time depends on how long texts are and not on what they say. A file of tokens is safetensors with `ids` (all texts one
after another), `lengths` and `labels`. Knows tokenizers and arrays, and no model.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fastif.bench.lengths import draw_lengths
from fastif.errors import StoredFileError
from fastif.ragged import Ragged

if TYPE_CHECKING:
    from fastif.integrations.huggingface.texts import TokenExamples

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
RARE = 2000  # below it a real vocabulary has signs and letters, above it words


def word_tokenizer(words: int) -> Any:
    """Return a tokenizer of made-up words, in BERT's form: [CLS] w4 w5 [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate(SPECIAL)}
    vocabulary |= {f"w{number}": number for number in range(len(SPECIAL), words)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=512, **names)


@dataclass(frozen=True)
class Tokens:
    """Texts as numbers: the ids of all of them one after another, how many each has, and a class for each."""

    ids: np.ndarray
    lengths: Tensor
    labels: Tensor

    @classmethod
    def draw(cls, tokenizer: Any, lengths: Tensor, *, classes: int, seed: int) -> "Tokens":
        """Draw texts of these lengths, in the special tokens of the tokenizer where it has them."""
        draw = np.random.default_rng(seed)
        lowest = RARE if len(tokenizer) > 2 * RARE else len(SPECIAL)
        ids = draw.integers(lowest, len(tokenizer), int(lengths.sum()), dtype=np.int32)
        ends = lengths.cumsum(0).numpy()
        for places, token in ((ends - lengths.numpy(), tokenizer.cls_token_id), (ends - 1, tokenizer.sep_token_id)):
            if token is not None:
                ids[places] = token
        return cls(ids, lengths, torch.from_numpy(draw.integers(0, classes, len(lengths))))

    @classmethod
    def read(cls, path: Path) -> "Tokens":
        """Read a file of tokens."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            found = load_file(path)
            made = cls(found["ids"].numpy().astype(np.int32), found["lengths"].long(), found["labels"].long())
        except (OSError, SafetensorError, KeyError) as error:
            raise StoredFileError(
                f"{path} could not be read as tokens: {error}. Needed is a safetensors file with ids, lengths, labels."
            ) from error
        if int(made.lengths.sum()) != len(made.ids) or len(made.lengths) != len(made.labels):
            raise StoredFileError(
                f"{path} holds {len(made.ids):,} ids for lengths that add up to {int(made.lengths.sum()):,}, and "
                f"{len(made.labels):,} labels for {len(made.lengths):,} texts. Write the file anew."
            )
        return made

    def repeated(self, count: int) -> "Tokens":
        """Return so many texts: these from the start again and again."""
        times = -(-count // len(self.lengths))
        lengths = self.lengths.repeat(times)[:count]
        ids = np.tile(self.ids, times)[: int(lengths.sum())]
        return Tokens(ids, lengths, self.labels.repeat(times)[:count])

    def examples(self, tokenizer: Any, source: str = "train", **columns: Any) -> "TokenExamples":
        """Return them as examples for a model with this tokenizer."""
        from fastif.integrations.huggingface.texts import TokenExamples, TokenTable

        values = {"attention_mask": 1, "token_type_ids": 0}
        arrays = {
            name: self.ids if name == "input_ids" else np.full(len(self.ids), values[name], dtype=np.int32)
            for name in tokenizer.model_input_names
            if name == "input_ids" or name in values
        }
        padding = {name: int(tokenizer.pad_token_id) if name == "input_ids" else 0 for name in arrays}
        rows = {name: Ragged(torch.from_numpy(array), self.lengths) for name, array in arrays.items()}
        return TokenExamples(TokenTable(rows, padding, self.labels), source=source, **columns)

    def texts(self, tokenizer: Any, count: int) -> list[str]:
        """Return the last texts in words, as a person would type them."""
        starts = (self.lengths.cumsum(0) - self.lengths).tolist()
        rows = range(max(0, len(self.lengths) - count), len(self.lengths))
        return [
            tokenizer.decode(self.ids[starts[row] : starts[row] + int(self.lengths[row])], skip_special_tokens=True)
            for row in rows
        ]


def drawn(tokenizer: Any, kind: str, count: int, *, classes: int, seed: int) -> Tokens:
    """Draw so many texts with the lengths of real ones."""
    return Tokens.draw(tokenizer, draw_lengths(kind, count, seed), classes=classes, seed=seed)

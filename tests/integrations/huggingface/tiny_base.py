"""A tiny BERT without a head, as pre-training would leave one, and sentences that are easy to tell apart."""

import csv
import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

GOOD = ["good", "fine", "great", "bright", "lovely"]
BAD = ["bad", "dull", "poor", "dark", "hateful"]
OTHER = ["the", "a", "film", "plot", "acting", "story", "was", "is", "very", "we", "found", "and", "of", "it"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = {word: number for number, word in enumerate([*SPECIAL, *GOOD, *BAD, *OTHER])}
LAYERS = 3


def tokenizer() -> Any:
    """A tokenizer of whole words."""
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=32,
    )


def save_base(directory: Path, **changes: Any) -> Path:
    """Write the encoder and its tokenizer; weights larger than usual, so that a text changes what comes out.

    Words of one kind have embeddings that are alike, as pre-training would make them.
    """
    settings = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": 32,
        "initializer_range": 0.2,
        **changes,
    }
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = BertModel(BertConfig(**settings))
        with torch.no_grad():
            for words in (GOOD, BAD):
                rows = [VOCABULARY[word] for word in words]
                model.embeddings.word_embeddings.weight[rows] += torch.randn(settings["hidden_size"])
        model.save_pretrained(directory)
    tokenizer().save_pretrained(directory)
    return directory


def sentences(count: int, seed: int = 0) -> list[dict[str, str]]:
    """Rows whose label is told by one word of them."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        label = "bright" if number % 2 else "bleak"
        words = draw.choices(OTHER, k=draw.randint(1, 9))
        words.insert(draw.randint(0, len(words)), draw.choice(GOOD if number % 2 else BAD))
        rows.append({"text": " ".join(words), "label": label})
    return rows


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows with a line of names above them."""
    with open(path, "w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path

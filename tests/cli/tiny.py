"""Tiny checkpoints for tests of the command line."""

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

WORDS = "a the it is was we day fine good bad long short film story nothing here what made yes no again".split()  # noqa: SIM905 - shorter


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def classifier(layers: int = 3) -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        num_labels=2,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    return BertForSequenceClassification(config)


def save(path: Path, module: torch.nn.Module | None = None, *, with_tokenizer: bool = True) -> Path:
    (module or classifier()).save_pretrained(path)
    if with_tokenizer:
        tokenizer().save_pretrained(path)
    return path


def table(path: Path, rows: int = 40) -> Path:
    draw = random.Random(0)
    lines = ["text\tlabel"]
    for number in range(rows):
        words = " ".join(draw.choices(WORDS, k=draw.randint(3, 12)))
        lines.append(f"{words} {number % 7}\t{('negative', 'positive')[number % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path

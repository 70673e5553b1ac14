"""What benchmarks run on: a model, its training data and queries, each by a name.

The data is real where a directory of it is named by FASTIF_DATA and the case has a use for it; otherwise texts are made
up, with the lengths of real ones. What a case says of itself goes into every table. Only benchmarks know these names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

import fastif
from fastif.bench.lengths import read_columns
from fastif.bench.small import SETTINGS
from fastif.bench.tokens import Tokens, drawn, word_tokenizer
from fastif.data import Examples
from fastif.errors import ConfigurationError
from fastif.integrations.tables import table_of
from fastif.integrations.tables.directory import data_directory
from fastif.measuring.case import Case

if TYPE_CHECKING:  # imported where a case needs it: some are plain modules
    from fastif.integrations.huggingface import TextClassifier

MULTINLI = 392_702
TRAINED_ON = 2000  # sentences, for one epoch: so that the model is one of a trained classifier
MOST_QUERIES = 400
EXAMPLES = {
    "bert-base": MULTINLI,
    "minilm-sst2": 20_000,
    "bert-mini": 4096,
    "tiny": 200,
    "mlp": 10_000,
    "cnn": 10_000,
    "transformer": 10_000,
}


@dataclass(frozen=True)
class Wanted:
    """What is asked of a case: how many examples, drawn how, on what device, with which weights and tokens."""

    examples: int | None = None
    device: str = "cpu"
    seed: int = 0
    model: str | None = None
    tokens: Path | None = None

    def count(self, case: str) -> int:
        """Return the number of examples: that which was asked for, or the usual one of the case."""
        return self.examples or EXAMPLES[case]


def make_case(name: str, wanted: Wanted) -> Case:
    """Make a case by its name."""
    if name not in CASES:
        raise ConfigurationError(f"there is no case {name!r}: choose one of {', '.join(CASES)}.")
    if name != "bert-base" and (wanted.model or wanted.tokens):
        raise ConfigurationError(f"--model and --tokens are for the case bert-base; the case {name} has its own.")
    torch.manual_seed(wanted.seed)
    return CASES[name](wanted)


def _bert(layers: int, width: int, heads: int, words: int) -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    names = {0: "contradiction", 1: "entailment", 2: "neutral"}
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        id2label=names,
        label2id={label: number for number, label in names.items()},
    )
    made: nn.Module = BertForSequenceClassification(config).eval()
    return made


def _text_case(name: str, model: "TextClassifier", wanted: Wanted, words: str, kind: str = "nli") -> Case:
    """Return a case of made-up texts, or of those in a file."""
    count, classes = wanted.count(name), len(model.label_names)
    if wanted.tokens is None:
        tokens = drawn(model.tokenizer, kind, count, classes=classes, seed=wanted.seed)
        asked = drawn(model.tokenizer, kind, MOST_QUERIES, classes=classes, seed=wanted.seed + 1)
        lengths = {"nli": "76,558 NLI pairs", "sst2": "67,349 SST-2 sentences"}[kind]
        data = f"{count:,} random texts with the lengths of {lengths}"
    else:
        asked = Tokens.read(wanted.tokens)
        tokens = asked.repeated(count)
        data = f"{count:,} texts: the {len(asked.lengths):,} of {wanted.tokens.name}, repeated"
    labels = [model.label_names[number] for number in asked.labels[-MOST_QUERIES:].tolist()]
    queries = [
        {"text": text, "label": label}
        for text, label in zip(asked.texts(model.tokenizer, MOST_QUERIES), labels, strict=True)
    ]
    train = tokens.examples(model.tokenizer, label_names=model.label_names)
    return Case(name, model, train, queries, f"{words}; {model.parameters_in_words()}", data)


def _bert_base(wanted: Wanted) -> Case:
    from fastif.integrations.huggingface import TextClassifier

    if wanted.model is not None:
        model = TextClassifier.from_pretrained(wanted.model, device=wanted.device)
        return _text_case("bert-base", model, wanted, f"weights of {Path(wanted.model).name}")
    module = _bert(12, 768, 12, 30_522).to(wanted.device)
    model = TextClassifier(module, word_tokenizer(30_522), freeze_layers=10)
    return _text_case("bert-base", model, wanted, "BERT, 12 layers of width 768, random weights")


def _bert_mini(wanted: Wanted) -> Case:
    from fastif.integrations.huggingface import TextClassifier

    model = TextClassifier(_bert(4, 256, 4, 5000).to(wanted.device), word_tokenizer(5000), freeze_layers=2)
    return _text_case("bert-mini", model, wanted, "BERT, 4 layers of width 256, random weights")


def _tiny(wanted: Wanted) -> Case:
    from fastif.integrations.huggingface import TextClassifier

    model = TextClassifier(_bert(3, 16, 2, 200).to(wanted.device), word_tokenizer(200), freeze_layers=1)
    return _text_case("tiny", model, wanted, "BERT, 3 layers of width 16, random weights")


def _minilm(wanted: Wanted) -> Case:
    from fastif.integrations.huggingface import Recipe, TextClassifier, train_classifier
    from fastif.integrations.huggingface.checkpoint import load_base
    from fastif.integrations.huggingface.packaged import resolve

    words = "all-MiniLM-L6-v2, 6 layers of width 384"
    names = {0: "negative", 1: "positive"}
    if data_directory() is None:
        module, tokenizer = load_base(
            resolve("minilm"), id2label=names, problem_type="single_label_classification", seed=wanted.seed
        )
        model = TextClassifier(module.to(wanted.device), tokenizer, freeze_layers=4)
        return _text_case("minilm-sst2", model, wanted, f"{words}, random head", kind="sst2")
    texts, labels = read_columns("sst2", ("text", "label"))
    count = wanted.count("minilm-sst2")
    if count + MOST_QUERIES > len(texts):
        raise ConfigurationError(f"SST-2 has {len(texts):,} training sentences: --examples {count} are too many.")
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(wanted.seed)).tolist()
    rows = [{"text": texts[row], "label": labels[row]} for row in order[: count + MOST_QUERIES]]
    recipe = Recipe(epochs=1, dev_share=0.0, seed=wanted.seed, device=wanted.device)
    trained = train_classifier("minilm", table_of(rows[:TRAINED_ON]), recipe=recipe).model
    words += f", trained for an epoch on {min(count, TRAINED_ON):,} of the sentences"
    train = trained.from_table(table_of(rows[:count]))
    data = f"{count:,} sentences of SST-2"
    described = f"{words}; {trained.parameters_in_words()}"
    return Case("minilm-sst2", trained, train, rows[count:], described, data)


def _small(name: str, setting: str) -> Callable[[Wanted], Case]:
    def make(wanted: Wanted) -> Case:
        module, draw, classes = SETTINGS[setting]
        built = module().to(wanted.device).eval()
        count = wanted.count(name)
        inputs, targets = draw(count + MOST_QUERIES), torch.randint(0, classes, (count + MOST_QUERIES,))
        model = fastif.TorchModel(built, loss="cross_entropy")
        train = Examples((inputs[:count].to(wanted.device), targets[:count].to(wanted.device)), source="train")
        queries = inputs[count:].to(wanted.device), targets[count:].to(wanted.device)
        return Case(name, model, train, queries, f"{setting}, random weights", f"{count:,} random examples")

    return make


CASES: dict[str, Callable[[Wanted], Case]] = {
    "bert-base": _bert_base,
    "minilm-sst2": _minilm,
    "bert-mini": _bert_mini,
    "tiny": _tiny,
    "mlp": _small("mlp", "MLP"),
    "cnn": _small("cnn", "CNN"),
    "transformer": _small("transformer", "transformer"),
}

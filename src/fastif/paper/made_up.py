"""Small data of the project's own, in the forms of the paper's sets, and a tiny encoder that reads it: for `smoke`.

The words are those of the demo. Nothing here is meant to be hard or to be learned well: it is there so that every
experiment runs from its first line to its last in seconds, without a file and without a network.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fastif.demo.words import ADJECTIVES, ALONE, PEOPLE, PLACES, TIMES, TOGETHER
from fastif.files import making_directory
from fastif.integrations.huggingface.checkpoint import quiet
from fastif.integrations.tables import TextTable, table_of
from fastif.paper.sources import CONSTITUENT, LEXICAL, SUBSEQUENCE, What

ENTAILMENT, NEUTRAL, CONTRADICTION, OTHER = "entailment", "neutral", "contradiction", "non-entailment"
Row = dict[str, str]

NLI = (  # premise, hypothesis, label
    ("The {adj} {a} {did} {where}.", "The {a} {did}.", ENTAILMENT),
    ("The {a} {met} the {b} {when}.", "Someone {met_so}.", ENTAILMENT),
    ("The {adj} {a} {did} {where}.", "The {a} {met} the {b}.", NEUTRAL),
    ("The {a} {met} the {b} {when}.", "The {adj} {a} {did}.", NEUTRAL),
    ("The {adj} {a} {did} {where}.", "The {a} never {did}.", CONTRADICTION),
    ("The {a} {met} the {b} {when}.", "Nobody {met} the {b}.", CONTRADICTION),
)
HANS = (  # heuristic, premise, hypothesis, label
    (LEXICAL, "The {a} and the {b} {met} the {c}.", "The {b} {met} the {c}.", ENTAILMENT),
    (LEXICAL, "The {a} {met} the {b} {when}.", "The {b} {met} the {a}.", OTHER),
    (SUBSEQUENCE, "The {a} {met} the {b} {where}.", "The {a} {met} the {b}.", ENTAILMENT),
    (SUBSEQUENCE, "The {a} beside the {adj} {b} {did}.", "The {b} {did}.", OTHER),
    (CONSTITUENT, "The {adj} {c} knew that the {a} {did}.", "The {a} {did}.", ENTAILMENT),
    (CONSTITUENT, "The {adj} {c} hoped that the {a} {did}.", "The {a} {did}.", OTHER),
)
ROUNDS = ("r1", "r2", "r3")
THINGS = {
    "books": ("novel", "chapter", "author"),
    "dvd": ("film", "disc", "actor"),
    "electronics": ("cable", "radio", "screen"),
    "kitchen": ("pan", "kettle", "knife"),
}
GOOD, BAD = ("great", "lovely", "excellent", "fine"), ("awful", "dull", "broken", "poor")
REVIEWS = ("the {thing} was {word} and the {other} too", "{word} {thing} , we found", "what a {word} {thing} {when}")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
COUNTS: dict[What, int] = {
    "nli-train": 240,
    "mnli-dev": 120,
    "hans-train": 120,
    "hans-evaluation": 240,
    "anli-dev": 60,
    "anli-test": 48,
    "reviews": 240,
}


class MadeUp:
    """The sets, each by its name, made from a seed."""

    name = "made up by the project"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def table(self, what: What) -> TextTable:
        """Return a set."""
        draw = random.Random(f"fastif paper {self._seed} {what}")
        rows = list(MAKERS[what](draw, COUNTS[what]))
        pairs: dict[str, Any] = (
            {"text": "text"} if what == "reviews" else {"text": "premise", "text_pair": "hypothesis"}
        )
        return table_of(rows, **pairs, label="label", slice="slice", source_name=what)

    def fingerprint(self) -> dict[str, Any]:
        """Return what the sets depend on."""
        return {"source": self.name, "seed": self._seed, "rows": dict(COUNTS)}


def save_tiny_base(directory: Path, seed: int = 0) -> Path:
    """Write a small BERT with random weights, larger than usual so that texts differ, and a tokenizer of words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *sorted(_vocabulary())))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, initializer_range=0.2, **sizes)
        model = BertModel(config)
    with making_directory(directory) as temporary, quiet():
        model.save_pretrained(temporary)
        PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=64, **names).save_pretrained(temporary)
    return directory


def _nli(draw: random.Random, count: int) -> Iterator[Row]:
    for number in range(count):
        premise, hypothesis, label = NLI[number % len(NLI)]
        yield _filled(draw, premise, hypothesis, label, "made up")


def _hans(draw: random.Random, count: int) -> Iterator[Row]:
    for number in range(count):
        heuristic, premise, hypothesis, label = HANS[number % len(HANS)]
        yield _filled(draw, premise, hypothesis, label, heuristic)


def _anli(draw: random.Random, count: int) -> Iterator[Row]:
    """Make pairs of which a few share a premise, as those of ANLI do."""
    for number in range(0, count, 3):
        filling = _filling(draw)
        premise = "The {adj} {a} {met} the {b} {when}. The {c} {did} {where}.".format(**filling)
        for text, label in (
            ("The {c} {did}.", ENTAILMENT),
            ("The {a} {did}.", NEUTRAL),
            ("No {c} {did}.", CONTRADICTION),
        ):
            hypothesis = text.format(**filling)
            yield {"premise": premise, "hypothesis": hypothesis, "label": label, "slice": ROUNDS[number // 3 % 3]}


def _reviews(draw: random.Random, count: int) -> Iterator[Row]:
    for number in range(count):
        domain = list(THINGS)[number % len(THINGS)]
        thing, other = draw.sample(THINGS[domain], 2)
        label = "positive" if number // len(THINGS) % 2 else "negative"
        word = draw.choice(GOOD if label == "positive" else BAD)
        text = draw.choice(REVIEWS).format(thing=thing, other=other, word=word, when=draw.choice(TIMES))
        yield {"text": text, "label": label, "slice": domain}


def _filled(draw: random.Random, premise: str, hypothesis: str, label: str, part: str) -> Row:
    filling = _filling(draw)
    return {
        "premise": premise.format(**filling),
        "hypothesis": hypothesis.format(**filling),
        "label": label,
        "slice": part,
    }


def _filling(draw: random.Random) -> dict[str, str]:
    a, b, c = draw.sample(PEOPLE, 3)
    met = draw.choice(list(TOGETHER))
    return {
        "a": a,
        "b": b,
        "c": c,
        "adj": draw.choice(ADJECTIVES),
        "did": draw.choice(list(ALONE)),
        "met": met,
        "met_so": TOGETHER[met],
        "where": draw.choice(PLACES),
        "when": draw.choice(TIMES),
    }


def _vocabulary() -> set[str]:
    """Return every word that the sets may hold, and their signs."""
    phrases = [*PEOPLE, *ADJECTIVES, *ALONE, *TOGETHER, *TOGETHER.values(), *PLACES, *TIMES, *GOOD, *BAD, *REVIEWS]
    phrases += [text for _, *texts, _ in HANS for text in texts] + [text for *texts, _ in NLI for text in texts]
    phrases += [word for words in THINGS.values() for word in words] + ["No", "Someone", "Nobody", ".", ","]
    spaced = " ".join(phrases).replace(".", " . ").replace(",", " , ")
    return {word for word in spaced.split() if "{" not in word}


MAKERS: dict[What, Callable[[random.Random, int], Iterator[Row]]] = {
    "nli-train": _nli,
    "mnli-dev": _nli,
    "hans-train": _hans,
    "hans-evaluation": _hans,
    "anli-dev": _anli,
    "anli-test": _anli,
    "reviews": _reviews,
}

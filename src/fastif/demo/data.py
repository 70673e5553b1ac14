"""The demo's data: pairs of sentences with a planted shortcut and some planted wrong labels. Knows no model.

In the training set a hypothesis whose words all stand in the premise nearly always follows from it. The few
counterexamples are too rare to be learned well, which is what the demo is about. Every pair of every set has a filling
of its own: no two sets share the words that a premise is filled with.
"""

import csv
import random
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from fastif.demo.words import (
    ADJECTIVES,
    ALONE,
    ENTAILMENT,
    KINDS,
    LABEL_OF,
    OTHER,
    PARAPHRASE,
    PEOPLE,
    PLACES,
    SHORTCUT_FAILS,
    SHORTCUT_HOLDS,
    SLICES,
    TIMES,
    TOGETHER,
    UNRELATED,
    Kind,
)
from fastif.files import replacing

SHARES = {SHORTCUT_HOLDS: 0.45, SHORTCUT_FAILS: 0.01, PARAPHRASE: 0.2, UNRELATED: 0.34}  # of what is trained on


@dataclass(frozen=True)
class Pair:
    """Two sentences, the label given and the true one, and where the pair comes from."""

    premise: str
    hypothesis: str
    label: str
    true_label: str
    slice: str
    kind: str

    @property
    def is_wrong(self) -> bool:
        """Whether a wrong label was planted."""
        return self.label != self.true_label


@dataclass(frozen=True)
class Size:
    """How many pairs each set has (of each slice, where it says so), and the share of wrong labels planted in train."""

    train: int = 2400
    guard_each: int = 100
    anchors: int = 60
    test_each: int = 250
    original: int = 300
    wrong: float = 0.05


@dataclass(frozen=True)
class DemoData:
    """The sets.

    Args:
        train: with planted wrong labels.
        guard: as many pairs of each slice but the one where the shortcut fails: to see, while a model is trained and
            corrected, that nothing is lost there.
        anchors: held-out pairs of the slice where the shortcut fails, to find helpful training examples for.
        test: as many pairs of each slice, to measure on; never used for a choice.
        original: of the shares of the training set, with true labels, to measure on.
    """

    train: list[Pair]
    guard: list[Pair]
    anchors: list[Pair]
    test: list[Pair]
    original: list[Pair]

    def sets(self) -> dict[str, list[Pair]]:
        """Return all sets by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def make_data(seed: int = 0, size: Size | None = None) -> DemoData:
    """Return the sets that belong to a seed."""
    size = size or Size()
    maker = _Maker(random.Random(f"fastif demo {seed}"))
    return DemoData(
        train=maker.with_wrong_labels(maker.pairs(_counts(size.train)), size.wrong),
        guard=maker.pairs({name: size.guard_each for name in SLICES if name != SHORTCUT_FAILS}),
        anchors=maker.pairs({SHORTCUT_FAILS: size.anchors}),
        test=maker.pairs(dict.fromkeys(SLICES, size.test_each)),
        original=maker.pairs(_counts(size.original)),
    )


def overlap(pair: Pair) -> float:
    """Return the share of the hypothesis's words that stand in the premise.

    >>> overlap(Pair("The cook slept.", "The cook danced.", "", "", "", ""))
    0.67
    """
    premise, hypothesis = _words(pair.premise), _words(pair.hypothesis)
    return round(sum(word in premise for word in hypothesis) / len(hypothesis), 2)


def write_csv(pairs: list[Pair], file: Path) -> None:
    """Write pairs as a table, one column a field."""
    with replacing(file) as temporary, open(temporary, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([field.name for field in fields(Pair)])
        writer.writerows(astuple(pair) for pair in pairs)


class _Maker:
    """Draws pairs, each with a filling that nothing before it had."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._used: set[frozenset[str]] = set()

    def pairs(self, counts: Mapping[str, int]) -> list[Pair]:
        """Return so many pairs of each slice, its kinds in turn, in an order drawn at random."""
        made = [self._pair(kind) for name, count in counts.items() for kind in _in_turn(name, count)]
        self._draw.shuffle(made)
        return made

    def with_wrong_labels(self, pairs: list[Pair], share: float) -> list[Pair]:
        """Return the pairs with the label of a share of them turned around."""
        chosen = set(self._draw.sample(range(len(pairs)), round(share * len(pairs))))
        return [_turned(pair) if number in chosen else pair for number, pair in enumerate(pairs)]

    def _pair(self, kind: Kind) -> Pair:
        while True:
            filling = self._filling()
            words = frozenset(filling[name] for name in filling if "{" + name + "}" in kind.premise)
            if words not in self._used:
                break
        self._used.add(words)
        label = LABEL_OF[kind.slice]
        premise, hypothesis = kind.premise.format(**filling), kind.hypothesis.format(**filling)
        return Pair(premise, hypothesis, label, label, kind.slice, kind.name)

    def _filling(self) -> dict[str, str]:
        draw = self._draw
        a, b, c = draw.sample(PEOPLE, 3)
        did, did_other = draw.sample(list(ALONE), 2)
        met, met_other = draw.sample(list(TOGETHER), 2)
        return {
            "a": a,
            "b": b,
            "c": c,
            "adj": draw.choice(ADJECTIVES),
            "where": draw.choice(PLACES),
            "when": draw.choice(TIMES),
            "did": did,
            "met": met,
            "did_so": ALONE[did],
            "met_so": TOGETHER[met],
            "did_other": ALONE[did_other],
            "met_other": TOGETHER[met_other],
        }


def _in_turn(name: str, count: int) -> Iterator[Kind]:
    kinds = [kind for kind in KINDS if kind.slice == name]
    for number in range(count):
        yield kinds[number % len(kinds)]


def _counts(total: int) -> dict[str, int]:
    """Return how many pairs of each slice there are among so many, as the training set has them."""
    counts = {name: round(share * total) for name, share in SHARES.items()}
    counts[UNRELATED] += total - sum(counts.values())
    return counts


def _turned(pair: Pair) -> Pair:
    other = OTHER if pair.label == ENTAILMENT else ENTAILMENT
    return Pair(pair.premise, pair.hypothesis, other, pair.true_label, pair.slice, pair.kind)


def _words(sentence: str) -> list[str]:
    return sentence.lower().rstrip(".").split()

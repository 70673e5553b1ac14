r"""What retrainings came to: the change of the queries' loss by what was removed, beside the noise.

The change of a query's loss is that after training without some examples, minus that after training on everything with
the same seed. The *noise* at m is the standard deviation, over random removals of m examples, of the very mean that a
line shows (over queries and seeds); as those removals are the same for all queries of a group and influential ones are
not, it is rather too wide. Knows losses and removals, and no model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastif import metrics
from fastif.apps.answers import groups, in_words
from fastif.apps.removals import INFLUENCE, Removal
from fastif.errors import DataError

CLEAR = 2.0  # so many standard deviations of the noise are called clear


@dataclass(frozen=True)
class Line:
    """What is drawn as one line: which examples are removed, by which scores or of which label."""

    kind: str
    system: str
    label: str | None

    @property
    def name(self) -> str:
        """In a few words."""
        if self.kind == "random":
            return "random" if self.label is None else f"random, {self.label}"
        return self.kind if self.system == INFLUENCE else f"{self.kind}, {self.system}"


@dataclass(frozen=True)
class Change:
    """The mean change of the loss of a group's queries without `count` examples, over seeds and draws.

    `error` is the standard error of that mean over queries, None of one query; `predicted` what influence predicts.
    """

    line: Line
    group: str
    count: int
    mean: float
    error: float | None
    queries: int
    predicted: float | None


@dataclass(frozen=True)
class Noise:
    """What random removals of `count` examples do to the mean of a group.

    `mean` and `deviation` are over removals; `single` is the standard deviation over removals and seeds of the change
    of one query in one training.
    """

    group: str
    count: int
    mean: float
    deviation: float | None
    single: float | None
    removals: int


@dataclass(frozen=True)
class Retrained:
    """Losses of queries after trainings without some examples.

    Args:
        removals: what was left out.
        losses: (seeds, 1 + removals, queries); the first of each seed is of a training on everything.
        seeds: of the trainings.
        before: the losses of the queries in the model itself.
        right: whether the model itself is right about each query.
        examples: how many there are to train on.
    """

    removals: tuple[Removal, ...]
    losses: Tensor
    seeds: tuple[int, ...]
    before: Tensor
    right: tuple[bool | None, ...]
    examples: int

    @property
    def changes(self) -> Tensor:
        """The change of each query's loss, (seeds, removals, queries)."""
        return self.losses[:, 1:] - self.losses[:, :1]

    @property
    def models(self) -> int:
        """How many different trainings that is, over all seeds."""
        return len(self.seeds) * (1 + len({frozenset(one.ids) for one in self.removals}))

    def lines(self) -> list[Change]:
        """Return the points of all lines, group by group."""
        changes = self.changes.mean(dim=0)
        return [
            change
            for group, rows in groups(self.right).items()
            for line, count, members in self._by_line()
            if (change := self._change(changes, line, group, rows, count, members)) is not None
        ]

    def noise(self) -> list[Noise]:
        """Return what random removals do, for each group and number of examples."""
        found = []
        for group, rows in groups(self.right).items():
            counts = sorted({one.count for one in self.removals if one.kind == "random"})
            for count in counts:
                members = [row for row, one in enumerate(self.removals) if one.kind == "random" and one.count == count]
                values = self.changes[:, members][:, :, rows]
                means = values.mean(dim=(0, 2))
                several = len(members) > 1
                singles = values.flatten(0, 1)
                found.append(
                    Noise(
                        group,
                        count,
                        float(means.mean()),
                        float(means.std()) if several else None,
                        float(singles.var(dim=0).mean().sqrt()) if len(singles) > 1 else None,
                        len(members),
                    )
                )
        return found

    def seed_noise(self) -> float | None:
        """Return the standard deviation of a query's loss over seeds, with nothing removed; None of one seed."""
        if len(self.seeds) < 2:
            return None
        return float(self.losses[:, 0].var(dim=0).mean().sqrt())

    def prediction(self) -> dict[str, float | int] | None:
        """Return how what influence predicts agrees with what happened, over influential removals; None of too few."""
        own = [
            (row, one) for row, one in enumerate(self.removals) if one.query is not None and one.predicted is not None
        ]
        if len(own) < 3:
            return None
        predicted = torch.tensor([one.predicted for _, one in own], dtype=torch.float64)
        changes = self.changes.mean(dim=0)
        true = torch.stack([changes[row, one.query] for row, one in own])
        try:
            pearson, spearman = metrics.pearson(predicted, true), metrics.spearman(predicted, true)
        except DataError:  # all equal
            return None
        same = float((predicted.sign() == true.sign()).double().mean())
        return {"pearson": pearson, "spearman": spearman, "same_sign": same, "removals": len(own)}

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        changes = self.changes
        return {
            "training_examples": self.examples,
            "seeds": list(self.seeds),
            "models_trained": self.models,
            "queries": [
                {"right": self.right[query], "loss": float(self.before[query]), "retrained_losses": own.tolist()}
                for query, own in enumerate(self.losses[:, 0].T)
            ],
            "lines": [{**asdict(each), "line": {**asdict(each.line), "name": each.line.name}} for each in self.lines()],
            "noise": [asdict(each) for each in self.noise()],
            "seed_noise": self.seed_noise(),
            "prediction": self.prediction(),
            "removals": [
                {
                    **asdict(one),
                    "count": one.count,
                    "changes": (changes[:, row] if one.query is None else changes[:, row, one.query]).tolist(),
                }
                for row, one in enumerate(self.removals)
            ],
            "summary": self.in_words(),
        }

    def in_words(self) -> list[str]:
        """Return in plain sentences what was seen."""
        told = [self._baseline()]
        noise = {(each.group, each.count): each for each in self.noise()}
        for group in groups(self.right):
            told += _group_in_words(group, [each for each in self.lines() if each.group == group], noise)
        agreement = self.prediction()
        if agreement is not None:
            told.append(
                f"Over the {agreement['removals']} removals of influential examples, what influence predicts and what "
                f"happened correlate at {agreement['pearson']:.2f} (Pearson) and {agreement['spearman']:.2f} "
                f"(Spearman), and have the same sign in {agreement['same_sign']:.0%}."
            )
        return told

    def _baseline(self) -> str:
        trained = float(self.losses[:, 0].mean())
        words = (
            f"Trained again on all {self.examples:,} examples, the queries' mean loss is {trained:.3f}; in the model "
            f"itself it is {float(self.before.mean()):.3f}."
        )
        seeds = self.seed_noise()
        if seeds is None:
            return f"{words} One seed was used, so that nothing is known of what the seed alone does."
        return (
            f"{words} The seed alone moves the loss of a query by {seeds:.3f} (standard deviation); every change below "
            "is between trainings of the same seed."
        )

    def _by_line(self) -> Iterator[tuple[Line, int, list[int]]]:
        found: dict[tuple[Line, int], list[int]] = {}
        for row, one in enumerate(self.removals):
            found.setdefault((Line(one.kind, one.system, one.label), one.count), []).append(row)
        for (line, count), members in found.items():
            yield line, count, members

    def _change(
        self, changes: Tensor, line: Line, group: str, rows: Tensor, count: int, members: list[int]
    ) -> Change | None:
        inside = set(rows.tolist())
        predicted: float | None = None
        if line.kind == "random":
            values = changes[members][:, rows].mean(dim=0)
        else:
            own = [(row, self.removals[row]) for row in members if self.removals[row].query in inside]
            if not own:
                return None
            values = torch.stack([changes[row, one.query] for row, one in own])
            told = [one.predicted for _, one in own if one.predicted is not None]
            predicted = sum(told) / len(told) if len(told) == len(own) else None
        error = float(values.std() / len(values) ** 0.5) if len(values) > 1 else None
        return Change(line, group, count, float(values.mean()), error, len(values), predicted)


def _group_in_words(group: str, lines: list[Change], noise: Mapping[tuple[str, int], Noise]) -> list[str]:
    """Say what the largest removal did, and from which number on a removal is clear of the noise."""
    told = []
    influential = [each for each in lines if each.line.kind != "random"]
    for line in dict.fromkeys(each.line for each in influential):
        points = [each for each in influential if each.line == line]
        last = max(points, key=lambda each: each.count)
        system = "" if line.system == INFLUENCE else f" (by {line.system})"
        beside = noise.get((group, last.count))
        words = (
            f"{in_words(group).capitalize()} ({last.queries}): without their {last.count} most {line.kind} "
            f"examples{system} the loss changes by {last.mean:+.3f}"
        )
        if beside is None:
            told.append(f"{words}.")
            continue
        spread = "" if beside.deviation is None else f" ± {beside.deviation:.3f}"
        words += f"; without {last.count} random ones by {beside.mean:+.3f}{spread}."
        told.append(words + _clear_in_words(line.kind, points, noise))
    return told


def _clear_in_words(kind: str, points: list[Change], noise: Mapping[tuple[str, int], Noise]) -> str:
    sign = 1 if kind == "helpful" else -1
    measured = [(each, noise.get((each.group, each.count))) for each in points]
    if any(beside is None or beside.deviation is None for _, beside in measured):
        return ""
    clear = [
        each.count
        for each, beside in measured
        if beside is not None
        and beside.deviation is not None
        and sign * (each.mean - beside.mean) > CLEAR * beside.deviation
    ]
    if not clear:
        return (
            f" At no number is that clear of the noise (beyond {CLEAR:g} standard deviations, in the right direction)."
        )
    listed = ", ".join(str(count) for count in sorted(clear))
    return f" That is clear of the noise, in the right direction, at {listed} example{'' if clear == [1] else 's'}."

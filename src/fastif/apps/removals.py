r"""What to leave out of a training: the examples that scores call most helpful or harmful, or random ones.

The first m of one list are removed for every m, so that a larger removal holds the smaller ones. The loss of a query is
predicted to change by $-\sum_i I_i / n$ when examples i of n are removed. Knows scores and targets, and no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fastif import ranking
from fastif.errors import ConfigurationError, DataError
from fastif.scores import Scores
from fastif.solvers.sampling import generator

Kind = Literal["helpful", "harmful", "random"]
COUNTS = (1, 5, 25, 50, 100)  # of the paper
INFLUENCE = "influence"  # how scores are called where there is one kind of them
_DRAW = 11  # a part of the key of the draw


@dataclass(frozen=True)
class Removal:
    """Training examples that are left out of one training.

    Args:
        kind: why these.
        ids: their numbers.
        query: whose influential examples they are; None for random ones, which say something of every query.
        system: by which scores they were found, where several are compared.
        label: of random ones, the label that they all have.
        draw: of random ones, which draw they are.
        predicted: by how much the query's loss is predicted to change.
    """

    kind: Kind
    ids: tuple[int, ...]
    query: int | None = None
    system: str = INFLUENCE
    label: str | None = None
    draw: int = 0
    predicted: float | None = None

    @property
    def count(self) -> int:
        """How many are removed."""
        return len(self.ids)


def check_counts(counts: Sequence[int]) -> tuple[int, ...]:
    """Return numbers of examples to remove in order, each once; raise unless they are such."""
    if not counts or any(isinstance(count, bool) or not isinstance(count, int) or count < 1 for count in counts):
        raise ConfigurationError(f"how many examples to remove must be whole numbers of at least 1, not {counts!r}.")
    return tuple(sorted(set(counts)))


def most_removable(scores: Scores) -> int:
    """Return how many examples every query has of both kinds, helpful and harmful."""
    helpful, harmful = ((scores.values * sign > 0).sum(dim=1) for sign in (-1, 1))
    return int(torch.minimum(helpful, harmful).min())


def influential(
    scores: Scores, *, counts: Sequence[int], examples: int, system: str = INFLUENCE, queries: Sequence[int] = ()
) -> list[Removal]:
    """Return, for each query, the removals of its most helpful and of its most harmful examples.

    Args:
        scores: of the queries.
        counts: how many to remove.
        examples: how many training examples there are, n.
        system: a name for the scores.
        queries: the numbers of the queries that the rows of the scores are of; 0, 1, ... unless given.

    >>> scores = Scores(torch.tensor([[-2.0, 1.0, -4.0]]), torch.tensor([[0, 1, 2]]))
    >>> [(one.kind, one.ids, one.predicted) for one in influential(scores, counts=[1], examples=4)]
    [('helpful', (2,), 1.0), ('harmful', (1,), -0.25)]
    """
    counts = check_counts(counts)
    removals = []
    for row in range(len(scores)):
        query = queries[row] if queries else row
        for kind, rank in (("helpful", ranking.helpful), ("harmful", ranking.harmful)):
            found = rank(scores.values[row], scores.train_ids[row], counts[-1])
            if len(found.ids) < counts[-1]:
                raise DataError(
                    f"query {query} has {len(found.ids)} {kind} training examples among those that were scored, and "
                    f"{counts[-1]} are to be removed. Remove fewer, or leave that query out."
                )
            total = (-found.scores.double() / examples).cumsum(0)
            for count in counts:
                ids = tuple(found.ids[:count].tolist())
                predicted = float(total[count - 1])
                removals.append(Removal(kind, ids, query, system, predicted=predicted))  # type: ignore[arg-type]
    return removals


def at_random(
    targets: Tensor,
    *,
    counts: Sequence[int],
    draws: int = 3,
    seed: int = 0,
    label_names: Mapping[int, Any] | None = None,
) -> list[Removal]:
    """Return removals of random examples, by label where targets are classes: `draws` lists of each label.

    >>> found = at_random(torch.tensor([0, 1, 0, 1, 1]), counts=[1], draws=2)
    >>> [(one.label, one.draw, one.count) for one in found]
    [('0', 0, 1), ('0', 1, 1), ('1', 0, 1), ('1', 1, 1)]
    """
    counts = check_counts(counts)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ConfigurationError(f"draws must be a whole number of at least 1, not {draws!r}.")
    removals = []
    for draw in range(draws):
        for label, order in shuffled_by_label(targets, seed=seed, draw=draw, label_names=label_names):
            if len(order) <= counts[-1]:
                whose = "" if label is None else f" of label {label}"
                raise DataError(
                    f"there are {len(order)} training examples{whose}, and {counts[-1]} are to be removed at random: "
                    "some have to be left. Remove fewer."
                )
            for count in counts:
                removals.append(Removal("random", tuple(order[:count].tolist()), label=label, draw=draw))
    return sorted(removals, key=lambda one: (one.label or "", one.draw, one.count))


def shuffled_by_label(
    targets: Tensor, *, seed: int, draw: int = 0, label_names: Mapping[int, Any] | None = None
) -> list[tuple[str | None, Tensor]]:
    """Return the examples of each label in a random order; all together, without a label, where targets are no classes.

    >>> [(label, sorted(order.tolist())) for label, order in shuffled_by_label(torch.tensor([0, 1, 0]), seed=0)]
    [('0', [0, 2]), ('1', [1])]
    """
    return [
        (label, members[torch.randperm(len(members), generator=generator(seed, _DRAW, draw, int(members[0])))])
        for label, members in _groups(targets, label_names or {})
    ]


def smallest_label(targets: Tensor) -> int:
    """Return how many examples the rarest label has; all, where targets are no classes."""
    return min(len(members) for _, members in _groups(targets, {}))


def _groups(targets: Tensor, names: Mapping[int, Any]) -> list[tuple[str | None, Tensor]]:
    if targets.ndim != 1 or targets.is_floating_point():
        return [(None, torch.arange(len(targets)))]
    return [
        (str(names.get(label, label)), (targets == label).nonzero().flatten()) for label in targets.unique().tolist()
    ]

"""Recall: how many of the truly strongest training examples a way to choose candidates finds.

The truth is a full scan: the scores of every training example. R@m is the share of its first m (most helpful, most
harmful, or of largest magnitude) that are among k candidates. A *method* is any function from k to the candidates of
all queries; here are those of `Nearest`, by features and by head gradients, both at once, and chance. Knows scores and
methods; the model is needed by the methods alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fastif import ranking
from fastif.apps.answers import ALL, groups, in_words
from fastif.candidates import Nearest, Neighbours
from fastif.data import Examples
from fastif.errors import ConfigurationError, DataError
from fastif.model import TorchModel
from fastif.progress import Progress, silent
from fastif.scores import Scores

KINDS = ("helpful", "harmful", "absolute")
FEATURES, HEAD_GRADIENT, BOTH, RANDOM = "features", "head-gradient", "both", "random"
METHODS = (FEATURES, HEAD_GRADIENT, BOTH, RANDOM)
KS = (10, 100, 1_000, 10_000, 50_000, 100_000)  # of the paper
MS = (10, 100, 1_000)
BATCH_SIZE = 256

Method = Callable[[int], Tensor]
"""The candidates of every query for a k, (queries, k)."""


@dataclass(frozen=True)
class Recalled:
    """R@m of one method with k candidates, over the queries of a group."""

    method: str
    kind: str
    m: int
    k: int
    group: str
    mean: float
    deviation: float | None
    queries: int


@dataclass(frozen=True)
class RecallTable:
    """What was found, with the number of training examples beside it: chance finds k of n."""

    rows: tuple[Recalled, ...]
    examples: int

    def row(self, method: str, *, kind: str, m: int, k: int, group: str = ALL) -> Recalled:
        """Return one of the rows."""
        wanted = (method, kind, m, k, group)
        return next(row for row in self.rows if (row.method, row.kind, row.m, row.k, row.group) == wanted)

    def values(self, name: str) -> list[Any]:
        """Return the different values of a column, in the order in which they come."""
        return list(dict.fromkeys(getattr(row, name) for row in self.rows))

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "training_examples": self.examples,
            "rows": [asdict(row) for row in self.rows],
            "summary": self.in_words(),
        }

    def in_words(self) -> list[str]:
        """Return in plain sentences what was seen: of the smallest m and, of the given k, one a line."""
        m, queries = min(self.values("m")), max(row.queries for row in self.rows)
        told = []
        for k in sorted(self.values("k")):
            found = {method: self.row(method, kind="absolute", m=m, k=k).mean for method in self.values("method")}
            listed = ", ".join(f"{method} {share:.0%}" for method, share in found.items())
            told.append(
                f"With {k:,} candidates of {self.examples:,} ({k / self.examples:.1%}), of the {m} examples of largest "
                f"influence are found: {listed} (mean over {queries} queries)."
            )
        return told + self._sides(m)

    def _sides(self, m: int) -> list[str]:
        """Compare helpful with harmful, by whether the model is right: the paper's observation."""
        k, method = sorted(self.values("k"))[len(self.values("k")) // 2], self.values("method")[0]
        told = []
        for group in (each for each in self.values("group") if each != ALL):
            helpful, harmful = (self.row(method, kind=kind, m=m, k=k, group=group) for kind in ("helpful", "harmful"))
            told.append(
                f"{in_words(group).capitalize()} ({helpful.queries}): by {method} with {k:,} candidates, "
                f"{helpful.mean:.0%} of the {m} most helpful and {harmful.mean:.0%} of the {m} most harmful are found."
            )
        return told


def recall_table(
    scores: Scores,
    methods: Mapping[str, Method],
    *,
    ks: Sequence[int],
    ms: Sequence[int],
    right: Sequence[bool | None],
    examples: int,
) -> RecallTable:
    """Measure methods against a full scan.

    Args:
        scores: of every training example for every query.
        methods: what to measure, by name.
        ks: numbers of candidates; a k beyond the training set is left out.
        ms: how many of the strongest are looked for.
        right: whether the model is right about each query; results are given for both groups, and for all.
        examples: how many training examples there are.

    >>> scores = Scores(torch.tensor([[-3.0, 1.0, -2.0, 5.0]]), torch.arange(4)[None])
    >>> first = lambda k: torch.arange(k)[None]
    >>> found = recall_table(scores, {"first": first}, ks=[2], ms=[1], right=[None], examples=4)
    >>> found.row("first", kind="helpful", m=1, k=2).mean, found.row("first", kind="absolute", m=1, k=2).mean
    (1.0, 0.0)
    """
    check_full_scan(scores, examples)
    ks, ms = _numbers("k", ks), _numbers("m", ms)
    possible = [k for k in ks if k <= examples]
    if not possible:
        raise ConfigurationError(
            f"there are {examples} training examples, so that {ks[0]} candidates are more than all."
        )
    truth = strongest(scores, ms[-1])
    several = groups(tuple(right))
    members = several if ALL in several else {**several, ALL: torch.arange(len(scores))}
    rows = []
    for name, method in methods.items():
        for k in possible:
            found = method(k)
            for kind, true in truth.items():
                hits = torch.stack([_hits(row, ids, examples) for row, ids in zip(found, true, strict=True)])
                for m in ms:
                    recalls = hits[:, :m].double().mean(dim=1)
                    rows += [_recalled(recalls[some], name, kind, m, k, group) for group, some in members.items()]
    return RecallTable(tuple(rows), examples)


def strongest(scores: Scores, m: int) -> dict[str, list[Tensor]]:
    """Return the first m training examples of each kind for each query; raise where a query has fewer."""
    found: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    for query, (values, ids) in enumerate(zip(scores.values, scores.train_ids, strict=True)):
        for kind, ranked in (
            ("helpful", ranking.helpful(values, ids, m)),
            ("harmful", ranking.harmful(values, ids, m)),
            ("absolute", ranking.harmful(values.abs(), ids, m)),
        ):
            if len(ranked.ids) < m:
                raise DataError(
                    f"query {query} has {len(ranked.ids)} {kind} training examples, so that recall@{m} has no meaning "
                    "for it. Look for fewer (m), or leave that query out."
                )
            found[kind].append(ranked.ids)
    return found


def most_of_each(scores: Scores) -> int:
    """Return the largest m for which every query has m helpful and m harmful training examples."""
    return int(torch.minimum((scores.values < 0).sum(dim=1), (scores.values > 0).sum(dim=1)).min())


def check_full_scan(scores: Scores, examples: int) -> None:
    """Raise unless every training example was scored for every query."""
    if scores.values.shape[1] == examples:
        return
    how = scores.provenance.get("candidates", "candidates")
    raise DataError(
        f"these scores are of {scores.values.shape[1]:,} of {examples:,} training examples ({how}), and recall is "
        'measured against a full scan. Score all of them: candidates="all", or fastif explain --candidates all.'
    )


def candidate_methods(
    model: TorchModel,
    train: Examples,
    queries: Examples,
    *,
    names: Sequence[str] = METHODS,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Method]:
    """Return the methods of these names, each with an index of its own that is made once for all k.

    "both" takes half of its candidates by features and fills up with those of head gradients.
    """
    unknown = set(names) - set(METHODS)
    if unknown or not names:
        raise ConfigurationError(f"candidates can be chosen by {', '.join(METHODS)}, not {', '.join(sorted(unknown))}.")
    placed = [model.place(batch) for batch in queries.batches(BATCH_SIZE)]

    def search(by: Any) -> Method:
        prepared: Neighbours = Nearest(1, by=by).prepare(model, train, progress=progress)
        return lambda k: prepared.select(placed, model.losses, k=k).ids(len(queries))

    searches = {by: search(by) for by in (FEATURES, HEAD_GRADIENT) if by in names or BOTH in names}

    def both(k: int) -> Tensor:
        near, far = searches[FEATURES](-(-k // 2)), searches[HEAD_GRADIENT](k)
        return torch.stack([_filled(one, _interleaved(other), k) for one, other in zip(near, far, strict=True)])

    def random(k: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.stack([torch.randperm(len(train), generator=generator)[:k] for _ in range(len(queries))])

    every: dict[str, Method] = {**searches, BOTH: both, RANDOM: random}
    return {name: every[name] for name in names}


def _hits(found: Tensor, true: Tensor, examples: int) -> Tensor:
    """Return for each of the true ids whether it was found."""
    marked = torch.zeros(examples, dtype=torch.bool)
    marked[found] = True
    return marked[true]


def _interleaved(ids: Tensor) -> Tensor:
    """Return the candidates of head gradients with the likely helpful and the likely harmful in turns.

    >>> _interleaved(torch.tensor([1, 2, 3, 9, 8]))
    tensor([1, 9, 2, 8, 3])
    """
    helpful = -(-len(ids) // 2)
    turn = torch.cat([2 * torch.arange(helpful), 2 * torch.arange(len(ids) - helpful) + 1])
    return ids[turn.argsort()]


def _filled(first: Tensor, second: Tensor, k: int) -> Tensor:
    """Return the first ids and, from the front of the others, those that are not there yet, k in all."""
    return torch.cat([first, second[~torch.isin(second, first)]])[:k]


def _recalled(recalls: Tensor, method: str, kind: str, m: int, k: int, group: str) -> Recalled:
    deviation = float(recalls.std()) if len(recalls) > 1 else None
    return Recalled(method, kind, m, k, group, float(recalls.mean()), deviation, len(recalls))


def _numbers(name: str, values: Sequence[int]) -> list[int]:
    if not values or any(isinstance(value, bool) or not isinstance(value, int) or value < 1 for value in values):
        raise ConfigurationError(f"{name} must be whole numbers of at least 1, not {list(values)!r}.")
    return sorted(set(values))

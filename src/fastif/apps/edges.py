"""Edges: which pairs of a training point and a query count, out of all that were scored.

A full scan scores every pair, and most of them say next to nothing. The paper kept, for every query, all of its 1,000
nearest training points, whatever their sign (`choose_edges(scores)` for scores of such candidates); after a full scan
the strongest ones take their place. A score of zero is no edge, as it neither helps nor harms. Where only the ends of
all scores were held (`scores="strongest"`), no more are chosen than are sure to be the strongest. Knows scores, and
nothing of slices or pictures.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fastif import ranking
from fastif.errors import ConfigurationError, DataError
from fastif.scores import Scores

Choice = Literal["each", "strongest"]
CHOICES = get_args(Choice)
MOST = 20_000_000  # edges, in 24 bytes each and a few times that while they are worked on

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edge e joins training point `train_ids[e]` and query `queries[e]` with the influence `values[e]`, never zero.

    `queries` are rows of the scores, `total` is how many rows there are, with edges or without. `choice` says in words
    how the edges were chosen.
    """

    queries: Integers
    train_ids: Integers
    values: Floats
    total: int
    choice: str
    equal_counts: bool = False  # whether the numbers of helpful and harmful edges were asked for, and so say nothing

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_helpful(self) -> Flags:
        """Whether each edge is helpful; the others are harmful."""
        return self.values < 0

    def helpful(self) -> "Edges":
        """Return the helpful edges."""
        return self.take(self.is_helpful)

    def harmful(self) -> "Edges":
        """Return the harmful edges."""
        return self.take(~self.is_helpful)

    def take(self, chosen: Flags | Integers) -> "Edges":
        """Return some of the edges, by a mask or by their numbers."""
        arrays = self.queries[chosen], self.train_ids[chosen], self.values[chosen]
        return Edges(*arrays, self.total, self.choice, self.equal_counts)

    def strongest(self, count: int) -> "Edges":
        """Return the `count` edges of largest |I|, or all if there are fewer, the weakest first."""
        order = np.argsort(np.abs(self.values), kind="stable")
        return self.take(order[max(0, len(order) - count) :])


def choose_edges(scores: Scores, top: int | None = None, *, by: Choice = "each") -> Edges:
    """Choose edges from scores.

    Args:
        scores: of any number of queries, over all training points or over candidates of each query.
        top: how many for each query; None takes every pair that was scored.
        by: "each": the `top` most helpful and the `top` most harmful; "strongest": the `top` of largest |I|, whatever
            their sign, so that the numbers of helpful and harmful edges say something.

    >>> scores = Scores(torch.tensor([[-3.0, 2.0, 0.0, -1.0]]), torch.arange(4)[None])
    >>> choose_edges(scores, 1).values.tolist(), choose_edges(scores, 2, by="strongest").train_ids.tolist()
    ([-3.0, 2.0], [0, 1])
    >>> len(choose_edges(scores))
    3
    """
    if by not in CHOICES:
        raise ConfigurationError(f"edges are chosen by {' or '.join(CHOICES)}, not by {by!r}.")
    held = held_of_each_end(scores)
    if top is None:
        return _all(scores, held)
    wanted, top = top, top if held is None else min(top, held)
    _check_size(len(scores) * min(top * (2 if by == "each" else 1), scores.values.shape[1]))
    ids: list[Tensor] = []
    values: list[Tensor] = []
    counts = []
    for row_values, row_ids in zip(scores.values, scores.train_ids, strict=True):
        helpful, harmful = ranking.helpful(row_values, row_ids, top), ranking.harmful(row_values, row_ids, top)
        row, kept = torch.cat([helpful.scores, harmful.scores]), torch.cat([helpful.ids, harmful.ids])
        if by == "strongest":
            # the strongest of all are among the strongest of each sign; equal ones are ordered by their ids, as there
            order = torch.argsort(kept)
            order = order[torch.argsort(row[order].abs(), descending=True, stable=True)][:top]
            row, kept = row[order], kept[order]
        ids.append(kept)
        values.append(row)
        counts.append(len(row))
    words = f"the {top:,} most helpful and the {top:,} most harmful training points of each query"
    if by == "strongest":
        words = f"the {top:,} training points of largest |I| of each query"
    if top < wanted:
        words += f" ({wanted:,} were asked for, and the run holds no more: fastif explain --top, or --scores all)"
    return Edges(
        np.repeat(np.arange(len(scores), dtype=np.int64), counts),
        _joined(ids, torch.int64).numpy(),
        _joined(values, torch.float64).numpy(),
        len(scores),
        words,
        equal_counts=by == "each",
    )


def held_of_each_end(scores: Scores) -> int | None:
    """Return how many of the lowest and of the highest scores are held of each query; None where all of them are.

    >>> held_of_each_end(Scores(torch.rand(1, 4), torch.arange(4)[None], {"held": "2 of each end"}))
    2
    """
    words = scores.provenance.get("held")
    if words is None:
        return None
    count, columns = int(str(words).split()[0]), scores.values.shape[1]
    return None if columns < 2 * count or columns == scores.provenance.get("train_examples") else count


def _all(scores: Scores, held: int | None) -> Edges:
    _check_size(scores.values.numel())
    queries, columns = scores.values.nonzero(as_tuple=True)
    values, ids = scores.values[queries, columns].double(), scores.train_ids[queries, columns]
    words = f"all of the {scores.values.shape[1]:,} training points that were scored for each query"
    if held is not None:
        words = f"the {held:,} lowest and the {held:,} highest scores of each query, which is all that the run holds"
    return Edges(queries.numpy(), ids.numpy(), values.numpy(), len(scores), words, equal_counts=held is not None)


def _joined(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    return torch.cat(parts).to(dtype) if parts else torch.empty(0, dtype=dtype)


def _check_size(count: int) -> None:
    if count > MOST:
        raise DataError(
            f"these would be up to {count:,} edges, and more than {MOST:,} do not fit into a usual memory while they "
            "are worked on. Choose fewer of each query, with top (--top)."
        )

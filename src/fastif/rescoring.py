"""The strongest scores of each query, made again in float32 after a scan in half precision.

Knows a table of scores, solutions and how to score; knows no model.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fastif import ranking, vectors
from fastif.solvers import Solution
from fastif.vectors import Block

TOGETHER = 16  # queries whose strongest examples go through the model together
NOTE = "the strongest of each query in float32"


def rescore_top(
    table: Tensor, ids: Tensor, solutions: Sequence[Solution], top: int, score: Callable[[Block, Tensor], Tensor]
) -> None:
    """Score the strongest of each query again, and those that come close to them; the table is changed in place.

    Args:
        table: (queries, examples), rows in the order of the solutions.
        ids: the number of each of these examples, of the same shape.
        solutions: of all queries, some after others.
        top: how many of each sign are to be right.
        score: (directions, numbers of examples) -> their inner products with gradients, (directions, examples).
    """
    first = 0
    for solution in solutions:
        for rows in torch.arange(len(solution.converged)).split(TOGETHER):
            mine = slice(first + int(rows[0]), first + int(rows[-1]) + 1)
            positions = [ranking.contenders(values, top) for values in table[mine]]
            numbers = [some[where] for some, where in zip(ids[mine], positions, strict=True)]
            union, places = torch.cat(numbers).unique(return_inverse=True)
            found = -score(vectors.select(solution.value, rows), union)
            by_query = places.split([len(where) for where in positions])
            for values, where, again, place in zip(table[mine], positions, found, by_query, strict=True):
                values[where] = again[place]
        first += len(solution.converged)

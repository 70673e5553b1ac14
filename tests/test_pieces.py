"""Pieces of work over examples: what was kept is not made again, and what a kill left out comes out the same."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import fastif
from fastif.keeping import Tensors
from fastif.pieces import Groups, Pieces
from tests.problems import as_block, gradients, operator_of

IDS = torch.arange(100)


class KilledError(Exception):
    """The end of a process, at any moment."""


class Shelf:
    """Keeps pieces, and is killed after so many."""

    def __init__(self) -> None:
        self.kept: dict[str, Tensors] = {}
        self.left = 10**9

    def __call__(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        if name not in self.kept:
            made = make()
            if self.left == 0:
                raise KilledError
            self.left -= 1
            self.kept[name] = made
        return self.kept[name]


def of_groups(chunks: Sequence[Tensor], before: int) -> list[Tensors]:
    """Something that depends on what goes together, as the last digits of real work do."""
    assert before == int(chunks[0][0])
    return [{"values": ids.double() + 1e-3 * float(torch.cat(list(chunks)).sum())} for ids in chunks]


def values(shelf: Shelf, together: int) -> Tensor:
    made = Pieces(shelf).over_examples("it", {}, IDS, total=len(IDS), together=together, make=of_groups)
    found = torch.full((len(IDS),), torch.nan, dtype=torch.float64)
    for positions, part in made:
        found[positions] = part["values"]
    return found


@pytest.mark.parametrize("together", [0, 20, 1000])
@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_what_a_kill_left_out_comes_out_the_same(together: int, after: int) -> None:
    expected = values(Shelf(), together)
    shelf = Shelf()
    shelf.left = after
    with pytest.raises(KilledError):
        values(shelf, together)
    assert len(shelf.kept) == after
    shelf.left = 10**9
    assert torch.equal(values(shelf, together), expected)


def test_what_is_kept_is_not_made_again_in_groups_without_a_gap() -> None:
    made = []

    def make(chunks: Sequence[Tensor], before: int) -> list[Tensors]:
        made.append([int(ids[0]) for ids in chunks])
        return of_groups(chunks, before)

    chunks = dict(enumerate(IDS.split(10)))
    groups = Groups(chunks, [4, 9], make, together=30)
    for number in (4, 9):
        groups.take(number)
    assert made == [[30, 40, 50], [90]]


@pytest.mark.parametrize("samples", [True, False])
def test_the_estimates_of_a_solution_are_held_where_they_are_wanted_alone(samples: bool) -> None:
    operator = operator_of("logistic_regression")
    solver = fastif.LiSSA.paper(depth=3, scale=50.0, repeats=2).prepare(operator)
    block = as_block(gradients("logistic_regression", "queries"), operator)
    (solution,) = Pieces().solve(solver, block, 0.5, samples=samples)
    assert (solution.samples is not None) is samples
    assert solution.standard_error is not None

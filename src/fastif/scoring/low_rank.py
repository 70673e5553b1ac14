r"""Score with each direction's weight matrices in rank r, and say what that costs in accuracy.

$S \approx S_r = U V^\top$ with the r largest singular values, the best of its rank. Then $l \cdot (S_r r) = (U^\top l)
\cdot (V^\top r)$ costs r (d_in + d_out) at every position instead of d_in d_out. By Cauchy-Schwarz the score of example
i is off by at most $\|S - S_r\| \, \|\nabla \ell_i\|$; what it is off by in fact is measured on a sample.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import vectors
from fastif.capture import Factor, Lookup, Outer
from fastif.data import Examples
from fastif.errors import ConfigurationError
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.scoring.auto import scan as exact_scan
from fastif.scoring.captured import dense_product, find_route, scan_captured
from fastif.scoring.ghost import at_once
from fastif.vectors import Block


@dataclass(frozen=True)
class LowRankScores:
    """Scores (K, examples) and the relative errors of each direction, (K,).

    `direction_error` is ||S - S_r|| / ||S|| over all parameters, exactly; `score_error` is ||error|| / ||scores|| over
    `sample` examples drawn at random, which were scored exactly as well.
    """

    values: Tensor
    direction_error: Tensor
    score_error: Tensor
    sample: int


def scan(
    model: Model,
    data: Examples,
    directions: Block,
    *,
    rank: int,
    ids: Tensor | None = None,
    batch_size: int = 256,
    progress: Progress = silent,
) -> Tensor:
    """Return scores along directions whose weight matrices are cut to a rank: (directions, examples), on the CPU."""
    return _scan(model, data, directions, rank, ids, batch_size, progress)[0]


def scan_with_error(
    model: Model,
    data: Examples,
    directions: Block,
    *,
    rank: int,
    sample: int = 128,
    seed: int = 0,
    ids: Tensor | None = None,
    batch_size: int = 256,
    progress: Progress = silent,
) -> LowRankScores:
    """Return scores along directions of low rank, with the error that this makes."""
    if sample < 1:
        raise ConfigurationError(f"sample must be at least 1, not {sample}.")
    values, error = _scan(model, data, directions, rank, ids, batch_size, progress)
    everyone = torch.arange(len(data), device="cpu") if ids is None else ids
    generator = torch.Generator("cpu").manual_seed(seed)
    drawn = torch.randperm(len(everyone), generator=generator, device="cpu")[:sample]
    exact = exact_scan(model, data, directions, ids=everyone[drawn], batch_size=batch_size)
    missed = (values[:, drawn] - exact).norm(dim=1)
    return LowRankScores(values, error, _ratio(missed, exact.norm(dim=1)), len(drawn))


def _scan(
    model: Model,
    data: Examples,
    directions: Block,
    rank: int,
    ids: Tensor | None,
    batch_size: int,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    if isinstance(rank, bool) or rank < 1:
        raise ConfigurationError(f"rank must be at least 1, not {rank!r}.")
    route = find_route(model, data, ids)
    captured = route.plan.captured if route.plan is not None else frozenset()
    factors = {name: Factors(tensor, rank) for name, tensor in directions.items() if _is_cut(name, tensor, captured)}

    def product(factor: Factor, direction: Tensor) -> Tensor:
        if factor.name in factors and isinstance(factor, Outer | Lookup):
            return factors[factor.name].product(factor)
        return dense_product(factor, direction)

    # what is not cut keeps its direction; what cannot be captured is scored along the cut direction by forward mode
    cut = {name: factors[name].dense().view_as(each) if name in factors else each for name, each in directions.items()}
    lost = vectors.norm(vectors.add(directions, cut, -1.0))
    values = scan_captured(product, model, data, cut, ids=ids, batch_size=batch_size, progress=progress, route=route)
    return values, _ratio(lost, vectors.norm(directions)).cpu()


class Factors:
    """K matrices in rank r: left (o, K, r) and right (i, K, r), the singular values in the left."""

    def __init__(self, directions: Tensor, rank: int) -> None:
        left, right = [], []
        for matrix in directions.flatten(2):
            u, s, v = torch.linalg.svd(matrix, full_matrices=False)  # one at a time: all would take thrice the memory
            left.append(u[:, :rank] * s[:rank])
            right.append(v[:rank].mT)
        self.left, self.right = torch.stack(left, dim=1), torch.stack(right, dim=1)

    def dense(self) -> Tensor:
        """Return the K matrices multiplied out, (K, o, i)."""
        return torch.einsum("okr,ikr->koi", self.left, self.right)

    def product(self, factor: Outer | Lookup) -> Tensor:
        """Return the inner products with each example's gradient: (K, B)."""
        if isinstance(factor, Outer) and factor.left.shape[2] > 1:  # matrices of one group each: cut as a whole
            return dense_product(factor, self.dense())
        right = factor.slopes.flatten(0, 1) if isinstance(factor, Lookup) else factor.right.flatten(0, 2)
        width, rank = self.left.shape[1:]
        some = at_once(right[:, :1].expand(-1, rank))
        parts = []
        for u, v in zip(self.left.split(some, dim=1), self.right.split(some, dim=1), strict=True):
            products = self._left(factor, u.flatten(1)) * (right @ v.flatten(1))
            parts.append(products.reshape(len(right), -1, rank).sum(dim=2))
        examples = len(factor.ids if isinstance(factor, Lookup) else factor.left)
        return torch.cat(parts, dim=1).reshape(examples, -1, width).sum(dim=1).T

    @staticmethod
    def _left(factor: Outer | Lookup, u: Tensor) -> Tensor:
        """Return the left vector at every position times all left factors; that of a look-up is one row of them."""
        return u[factor.ids.flatten()] if isinstance(factor, Lookup) else factor.left.flatten(0, 2) @ u


def _is_cut(name: str, direction: Tensor, captured: frozenset[str]) -> bool:
    return name in captured and direction.ndim > 2


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    return part / whole.clamp_min(torch.finfo(whole.dtype).tiny)

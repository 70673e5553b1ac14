"""From the LDS of every query to means, shares of the best, bootstrap intervals and the ceiling."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from fastif.metrics import spearman

RESAMPLES = 2000
LIMITS = torch.tensor([0.025, 0.975], dtype=torch.float64)


@dataclass(frozen=True)
class Sweep:
    """The LDS of every query for one model: on the grid of dampings (dampings, queries), and for each rule."""

    parameters: int
    rank: int
    top: float
    trace: float
    fractions: list[float]
    dimension: list[float]
    grid: Tensor
    gradient_dot: Tensor
    rule_fractions: dict[str, float]
    rules: dict[str, Tensor]


def summary(sweeps: list[Sweep]) -> dict[str, Any]:
    """Average the models of all seeds, and give each rule its share of the best with an interval."""
    grid = torch.stack([sweep.grid for sweep in sweeps]).mean(dim=0)
    best = int(grid.mean(dim=1).argmax())
    rules = []
    for name in sweeps[0].rules:
        row = torch.stack([sweep.rules[name] for sweep in sweeps]).mean(dim=0)
        rules.append(
            {
                "rule": name,
                "fractions_of_top": [sweep.rule_fractions[name] for sweep in sweeps],
                "lds": float(row.mean()),
                **share_of_best(row, grid),
            }
        )
    return {
        "parameters": sweeps[0].parameters,
        "rank": sweeps[0].rank,
        "top_eigenvalues": [sweep.top for sweep in sweeps],
        "traces": [sweep.trace for sweep in sweeps],
        "fractions_of_top": sweeps[0].fractions,
        "effective_dimension": torch.tensor([sweep.dimension for sweep in sweeps]).mean(dim=0).tolist(),
        "lds": grid.mean(dim=1).tolist(),
        "lds_interval": [interval(row) for row in grid],
        "lds_by_model": [sweep.grid.mean(dim=1).tolist() for sweep in sweeps],
        "best_fraction_of_top": sweeps[0].fractions[best],
        "best_lds": float(grid[best].mean()),
        "gradient_dot_lds": float(torch.stack([sweep.gradient_dot for sweep in sweeps]).mean()),
        "rules": rules,
    }


def resampled(queries: int) -> Tensor:
    """Return weights (resamples, queries) of a bootstrap."""
    drawn = torch.randint(0, queries, (RESAMPLES, queries), generator=torch.Generator().manual_seed(0))
    ones = torch.ones_like(drawn, dtype=torch.float64)
    return torch.zeros(RESAMPLES, queries, dtype=torch.float64).scatter_add_(1, drawn, ones) / queries


def share_of_best(row: Tensor, grid: Tensor) -> dict[str, float]:
    """Return a rule's LDS over the best of the grid, and its 95 % interval; each resample has its own best."""
    weights = resampled(len(row))
    low, high = (weights @ row / (weights @ grid.T).max(dim=1).values).quantile(LIMITS).tolist()
    return {"share_of_best": float(row.mean() / grid.mean(dim=1).max()), "low": low, "high": high}


def interval(row: Tensor) -> list[float]:
    """Return the 95 % bootstrap interval of a mean over queries."""
    limits: list[float] = (resampled(len(row)) @ row).quantile(LIMITS).tolist()
    return limits


def ceiling(by_seed: Tensor) -> dict[str, float] | None:
    """Return how well one half of the seeds predicts the other, and what Spearman-Brown makes of it for all seeds.

    `by_seed` is (seeds, queries, subsets); correlations are averaged over queries and over all ways to halve the seeds.
    """
    seeds = len(by_seed)
    if seeds < 2:
        return None
    found = []
    for left in combinations(range(seeds), seeds // 2):
        right = [seed for seed in range(seeds) if seed not in left]
        pair = by_seed[list(left)].mean(dim=0), by_seed[right].mean(dim=0)
        found += [spearman(x, y) for x, y in zip(*pair, strict=True)]
    half = sum(found) / len(found)
    return {"split_half": half, "spearman_brown": 2 * half / (1 + half)}

r"""The trade-off of the paper's inverse-Hessian-vector product: time and error over its depth J, batch size B, and T.

The error of an estimate s of $s_{test}$ is $\|s - r\| / \|r\|$ against two references r: the most expensive setting of
the grid, as in the paper, and the converged solution of $(H + \lambda I) r = v$ with $\lambda$ = damp x scale, which
the iteration tends to. The first shows how much settings agree with each other, the second how far they are from what
they estimate. Beside them stands the error of no solve at all, $v / \lambda$.

Queries share every product with H, and one run of the largest J and T gives the errors of all smaller ones; for time,
one query is solved alone in each setting. Knows models and solvers; what is made of it is in `traded.py`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastif import memory, vectors
from fastif.apps.answers import answers
from fastif.apps.traded import Traded
from fastif.curvature import CurvatureOperator, Kind
from fastif.errors import ConfigurationError, ConvergenceError, NegativeCurvatureError
from fastif.keeping import Keep, nothing_kept
from fastif.model import TorchModel
from fastif.precision import Precision
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.resources import Resources
from fastif.solvers import ConjugateGradient
from fastif.solvers.lissa import LiSSA
from fastif.vectors import Block

CPU_BYTES, OF_GPU = 2**31, 0.3  # what the estimates of the most expensive setting may take while its end is waited for


@dataclass(frozen=True)
class Grid:
    """The settings that are compared, and what all of them share.

    Args:
        depths: J, steps.
        batch_sizes: B, examples of a step.
        repeats: T, independent runs that are averaged.
        damp: what is taken off in each step.
        scale: what H is divided by; the damping is damp x scale.
        tolerance: the relative residual of the converged solution.
        seed: of all that is drawn.
    """

    depths: tuple[int, ...] = (700, 800, 900, 1000, 1100, 1200, 1300)
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    repeats: tuple[int, ...] = (1, 4)
    damp: float = 5e-3
    scale: float = 1e4
    tolerance: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("depths", "batch_sizes", "repeats"):
            values = getattr(self, name)
            if not values or any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in values):
                raise ConfigurationError(f"{name} must be whole numbers of at least 1, not {values!r}.")
            object.__setattr__(self, name, tuple(sorted(set(values))))
        if not (self.damp > 0 and self.scale > 0):
            raise ConfigurationError(f"damp and scale must be above 0, not {self.damp} and {self.scale}.")

    @property
    def damping(self) -> float:
        """The real damping, damp x scale."""
        return self.damp * self.scale


class Tradeoff:
    """The paper's solver on one model, in many settings.

    Args:
        model: a `TorchModel`, or anything with its methods.
        train: the data that H is the mean over.
        queries: whose gradients are solved for.
        curvature: "hessian", as in the paper, or "gauss-newton".
        prefix_cache: where to keep what the model computes below the first trainable layer.
        precision: of matrix products on a GPU.
        progress: called as progress(stage, done, total).
        keep: where pieces of the work are kept.
    """

    def __init__(
        self,
        model: TorchModel,
        train: Any,
        *,
        queries: Any,
        curvature: Kind = "hessian",
        prefix_cache: PrefixCache | None = None,
        precision: Precision = "auto",
        progress: Progress = silent,
        keep: Keep = nothing_kept,
    ) -> None:
        self.model = model
        self._resources = Resources(model, precision, None, None)
        self._progress, self._keep = progress, keep
        examples, asked = model.read(train, "train"), model.read(queries, "queries")
        cache = prefix_cache or PrefixCache()
        with self._resources.working():
            for data in (examples, asked):
                model.check(model.place(data.batch(range(min(len(data), 8)))))
        self._queries = cache.view(model, asked, progress=progress)
        self._labelled = not asked.targets_are_predictions
        self._operator = CurvatureOperator(
            model,
            cache.view(model, examples, progress=progress),
            kind=curvature,
            batch_size=self._resources.batch_size(examples),
        )

    def run(self, grid: Grid) -> Traded:
        """Solve in every setting of the grid."""
        grid_size = len(grid.batch_sizes)
        with self._resources.working():
            said = answers(self.model, self.model.parameters, self._queries)
            shares = torch.arange(len(self._queries)).split(self._queries_at_once(grid))
            parts = [
                self._keep(f"errors {grid} of queries {some.tolist()}", lambda some=some: self._errors(grid, some))  # type: ignore[misc]
                for some in shares
            ]
            seconds = torch.full((grid_size, len(grid.repeats), len(grid.depths)), torch.nan, dtype=torch.float64)
            for row, batch_size in enumerate(grid.batch_sizes):
                for column, repeats in enumerate(grid.repeats):
                    self._progress("timing", row * len(grid.repeats) + column, grid_size * len(grid.repeats))
                    name = f"time {grid} of B {batch_size} and T {repeats}"
                    found = self._keep(name, lambda b=batch_size, t=repeats: self._timed(grid, b, t))  # type: ignore[misc]
                    seconds[row, column] = found["seconds"]
            self._progress("timing", grid_size * len(grid.repeats), grid_size * len(grid.repeats))
        join = {name: torch.cat([part[name] for part in parts], dim=-1) for name in parts[0]}
        return Traded(
            depths=grid.depths,
            batch_sizes=grid.batch_sizes,
            repeats=grid.repeats,
            damping=grid.damping,
            examples=self._operator.examples,
            to_expensive=join["expensive"],
            to_converged=join["converged"],
            no_solve=join["no_solve"],
            seconds=seconds,
            right=said.right if self._labelled else (None,) * len(self._queries),
        )

    def _errors(self, grid: Grid, some: Tensor) -> dict[str, Tensor]:
        """Return the errors of some queries in every setting, (B, T, J, queries)."""
        block = self._gradients(some)
        exact = self._converged(grid, block)
        sizes, most = grid.batch_sizes, max(grid.repeats)
        shape = (len(sizes), len(grid.repeats), len(grid.depths), len(some))
        expensive, converged = (torch.empty(shape, dtype=torch.float64) for _ in range(2))
        reference: Block | None = None
        waiting: list[Block] = []
        for row in reversed(range(len(sizes))):  # the most expensive first: it is what the others are held to
            self._progress("solving in all settings", len(sizes) - 1 - row, len(sizes))

            def look(column: int, samples: Block, row: int = row, reference: Block | None = reference) -> None:
                converged[row, :, column] = _errors_by_repeats(samples, grid.repeats, exact)
                if reference is None:
                    waiting.append(samples)
                else:
                    expensive[row, :, column] = _errors_by_repeats(samples, grid.repeats, reference)

            last = self._iterate(grid, sizes[row], most, block, look)
            _check_finite(converged[row], grid, sizes[row])
            if reference is None:
                (reference,) = _means(last, most, len(some))
                for column, samples in enumerate(waiting):
                    expensive[row, :, column] = _errors_by_repeats(samples, grid.repeats, reference)
                waiting.clear()
        self._progress("solving in all settings", len(sizes), len(sizes))
        plain = vectors.scale(block, 1 / grid.damping)
        return {"expensive": expensive, "converged": converged, "no_solve": relative_error(plain, exact).double()}

    def _converged(self, grid: Grid, block: Block) -> Block:
        """Return the solution that the iteration tends to."""
        try:
            return ConjugateGradient(tolerance=grid.tolerance).prepare(self._operator).solve(block, grid.damping).value
        except NegativeCurvatureError as error:
            raise NegativeCurvatureError(
                f"{error} Here the damping is damp x scale, {grid.damp:g} x {grid.scale:g}: raise one of them, or take "
                "the Gauss-Newton matrix."
            ) from error

    def _iterate(
        self, grid: Grid, batch_size: int, repeats: int, block: Block, look: Callable[[int, Block], None]
    ) -> Block:
        """Run to the largest depth, and look at the estimates at each of them; return the last."""
        solver = LiSSA.paper(grid.damp, grid.scale, grid.depths[-1], batch_size, repeats, grid.seed)

        def at_depths(steps: int, samples: Callable[[], Block]) -> None:
            if steps in grid.depths:
                look(grid.depths.index(steps), samples())

        return solver.prepare(self._operator).iterate(block, at_depths)

    def _timed(self, grid: Grid, batch_size: int, repeats: int) -> dict[str, Tensor]:
        """Return how long one query alone takes to each depth."""
        block = self._gradients(torch.tensor([0]))
        seconds: list[float] = []

        def look(column: int, samples: Block) -> None:
            self._wait()
            seconds.append(time.perf_counter() - started)

        self._wait()
        started = time.perf_counter()
        self._iterate(grid, batch_size, repeats, block, look)
        return {"seconds": torch.tensor(seconds, dtype=torch.float64)}

    def _gradients(self, some: Tensor) -> Block:
        placed = self.model.place(self._queries.batch(some))
        return self._operator.jacobian.gradients(placed, self.model.losses)

    def _queries_at_once(self, grid: Grid) -> int:
        """Return how many queries are solved together: the estimates of the most expensive setting have to fit."""
        size = sum(tensor.nbytes for tensor in self.model.parameters.values())
        each = max(grid.repeats) * (len(grid.depths) + 6) * size
        return max(1, memory.share(self.model.device, OF_GPU, CPU_BYTES) // each)

    def _wait(self) -> None:
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)


def relative_error(estimate: Block, reference: Block) -> Tensor:
    """Return the norm of the difference beside that of the reference, for each vector, on the CPU."""
    return (vectors.norm(vectors.add(estimate, reference, -1.0)) / vectors.norm(reference)).cpu()


def _errors_by_repeats(samples: Block, repeats: Sequence[int], reference: Block) -> Tensor:
    """Return for each T the mean error over the groups of T repeats that the samples hold, (T, queries)."""
    width = vectors.width(reference)
    rows = []
    for count in repeats:
        errors = [relative_error(mean, reference) for mean in _means(samples, count, width)]
        rows.append(torch.stack(errors).mean(dim=0))
    return torch.stack(rows)


def _means(samples: Block, count: int, width: int) -> list[Block]:
    """Return the mean of each group of `count` repeats; samples are those of all vectors of the first repeat first."""
    grouped = {name: tensor.unflatten(0, (-1, width)) for name, tensor in samples.items()}
    return [
        {name: tensor[first : first + count].mean(dim=0) for name, tensor in grouped.items()}
        for first in range(0, vectors.width(grouped) - count + 1, count)
    ]


def _check_finite(errors: Tensor, grid: Grid, batch_size: int) -> None:
    if not bool(torch.isfinite(errors).all()):
        raise ConvergenceError(
            f"the paper's iteration diverges with batches of {batch_size} at scale {grid.scale:g}. Raise the scale, "
            f"and lower damp as much to keep the damping of {grid.damping:g}."
        )

r"""PaperLiSSA: the iteration of the paper's authors, to the letter.

$$h \leftarrow v + (1 - \mathrm{damp})\, h - H_B h / \mathrm{scale}, \quad h_0 = v,$$

for J steps over random batches without replacement, and $h / \mathrm{scale}$ averaged over T runs. Its fixed point is
$(H + \mathrm{damp} \cdot \mathrm{scale}\, I)^{-1} v$: the damping is damp x scale, whatever else the caller asks for.
Kept for comparison with the paper; `LiSSA` is the better parametrisation. A residual is reported and never raised for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.solvers.base import Solution, relative_residual, summarise_repeats
from fastif.solvers.demand import is_affordable
from fastif.solvers.kept_rows import RowsNotKeptError
from fastif.solvers.row_steps import RowSteps
from fastif.solvers.sampling import shuffled_ids
from fastif.solvers.steps import Steps
from fastif.vectors import Block

CONVERGED = 0.05  # relative residual
RESIDUAL_EXAMPLES = {"cpu": 256, "cuda": 1024}  # that it is estimated on at most
RESIDUAL_SHARE = 32  # one example for so many that are drawn, to cost little beside the steps
FEWEST = 16  # and no fewer than these

Look = Callable[[int, Callable[[], Block]], None]


@dataclass(frozen=True)
class PaperLiSSA:
    """The paper's knobs: damp, scale, J = depth, B = batch_size, T = repeats.

    And whether steps are compiled, and a residual is estimated.
    """

    damp: float
    scale: float
    depth: int
    batch_size: int
    repeats: int
    seed: int
    compile_steps: bool = False
    has_residual: bool = True

    def __post_init__(self) -> None:
        if not (self.damp >= 0 and self.scale > 0):
            raise ConfigurationError(f"damp must not be negative and scale positive, not {self.damp}, {self.scale}.")
        if min(self.depth, self.batch_size, self.repeats) < 1:
            raise ConfigurationError("depth, batch_size and repeats must be at least 1.")

    def compiled(self) -> "PaperLiSSA":
        """Return the same with steps that torch.compile makes faster on a GPU, to rounding with the same results.

        Compiling takes some minutes before the first query, and seconds where torch finds it on disk.
        """
        return replace(self, compile_steps=True)

    def unjudged(self) -> "PaperLiSSA":
        """Return the same without a residual, for who solves often and never reads it.

        It is one more product with the curvature. None of the solutions is said to have converged.
        """
        return replace(self, has_residual=False)

    def prepare(self, operator: CurvatureOperator) -> "PreparedPaperLiSSA":
        """There is nothing to prepare."""
        return PreparedPaperLiSSA(self, operator)


class PreparedPaperLiSSA:
    """The paper's iteration on one operator."""

    def __init__(self, knobs: PaperLiSSA, operator: CurvatureOperator, runs: Sequence[int] | None = None) -> None:
        self.knobs, self.operator = knobs, operator
        self.runs = range(knobs.repeats) if runs is None else runs  # of the repeats, those that are made here
        self._made: tuple[Block, Steps] | None = None

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        it = self.knobs
        return (
            f"the paper's LiSSA (damp {it.damp:g}, scale {it.scale:g}, J {it.depth}, B {it.batch_size}, T {it.repeats})"
        )

    @property
    def vectors_held(self) -> int:
        """For each right-hand side: the state of every run, its image and the one of a trial, itself, the mean."""
        return 3 * len(self.runs) + 2

    @property
    def own_damping(self) -> float:
        """The product damp x scale, which is what this iteration adds to the diagonal."""
        return self.knobs.damp * self.knobs.scale

    def spectrum(self) -> None:
        """The paper's iteration takes its knobs as given and never looks at the spectrum."""

    def solve(self, block: Block, damping: float) -> Solution:
        """Run the iteration; the damping of the caller is not used."""
        knobs, operator = self.knobs, self.operator
        operator.progress("solving", 0, knobs.depth)
        own_draws = list(self.runs) != list(range(knobs.repeats))  # which helpers know nothing of
        if operator.helpers is None or knobs.repeats == 1 or own_draws:
            found = self.iterates(block)
        else:
            found = operator.helpers.repeats(knobs, operator, block)
        operator.progress("solving", knobs.depth, knobs.depth)
        samples = vectors.scale(found, 1 / knobs.scale)
        value, error = summarise_repeats(samples, knobs.repeats)
        residual = relative_residual(self._part(value, self.own_damping), block).cpu() if knobs.has_residual else None
        # for the record alone
        converged = torch.zeros(vectors.width(block), dtype=torch.bool) if residual is None else residual <= CONVERGED
        return Solution(value, converged, residual, knobs.depth, self.description, samples, error)

    def drawn(self) -> Tensor:
        """Return the positions of all examples that the runs draw."""
        found: Tensor = torch.unique(self._ids)
        return found

    def iterates(self, block: Block) -> Block:
        """Return the last iterate of every run, those of all vectors of the first run first."""
        if self._rows_are_kept:
            try:
                return self._in_rows(block)
            except RowsNotKeptError:  # layers that depend on the data
                self._rows_are_kept = False
        return self._through_the_model(block)

    def iterate(self, block: Block, look: Look = lambda steps, samples: None) -> Block:
        """Return the estimates of all repeats, those of every vector of the first repeat first, through the model.

        `look(steps, samples)` is called after each step; `samples()` are the estimates at that point.
        """

        def told(step: int, state: Block) -> None:
            self._report(step, state)
            look(step + 1, lambda: vectors.scale(state, 1 / self.knobs.scale))

        return vectors.scale(self._through_the_model(block, told), 1 / self.knobs.scale)

    def draw_as(self, runs: Sequence[int]) -> None:
        """Take the draws of as many other repeats from now on; what a GPU recorded of the steps stays."""
        if len(runs) != len(self.runs):
            raise ValueError(f"there are {len(self.runs)} runs, and draws for {len(runs)}")
        self.runs = runs
        for known in ("_ids", "_in_space_of_rows"):
            self.__dict__.pop(known, None)

    @property
    def recordings(self) -> int:
        """How often a step was recorded on a GPU, for inputs of a new shape each time, since this was prepared."""
        return 0 if self._made is None else self._made[1].recordings

    @cached_property
    def _rows_are_kept(self) -> bool:
        """Whether the Jacobian rows of all examples that are drawn can be kept: then no step needs the model."""
        drawn = self._positions(0).unique()
        return is_affordable(self.operator.over(drawn), times=len(self.runs))

    @cached_property
    def _in_space_of_rows(self) -> list[RowSteps]:
        return [
            RowSteps(self.operator, self._positions(repeat), scale=self.knobs.scale, kept=self._kept)
            for repeat in self.runs
        ]

    @property
    def _kept(self) -> float:
        """What a step keeps of the iterate before it, apart from the curvature of the data."""
        return 1 - self.knobs.damp - self.operator.weight_decay / self.knobs.scale

    def _in_rows(self, block: Block) -> Block:
        return vectors.join([run.run(block) for run in self._in_space_of_rows])

    def _through_the_model(self, block: Block, look: Callable[[int, Block], None] | None = None) -> Block:
        right, steps = self._steps(vectors.width(block))
        for name, tensor in vectors.shared(block, len(self.runs)).items():
            right[name].copy_(tensor)
        return steps.run(vectors.repeated(block, len(self.runs)), self._ids, look or self._report)

    def _steps(self, width: int) -> tuple[Block, Steps]:
        """Return the right-hand sides of a block of this width, to be written to, and the steps that read them."""
        if self._made is None or self._made[1].width != width * len(self.runs):
            self._made = None  # before there is another, as both may not fit
            knobs, operator, runs = self.knobs, self.operator, len(self.runs)
            like = {name: tensor.new_empty(width, *tensor.shape) for name, tensor in operator.model.parameters.items()}
            right = vectors.shared(like, runs)
            kept, factor = self._kept, -runs / (self._ids.shape[1] * knobs.scale)

            def update(state: Block, image: Block) -> None:  # knows no self: a cycle would keep all of it on a GPU
                vectors.advance(state, kept, right, image, factor)

            self._made = right, Steps(operator, like, update, groups=runs, compiled=knobs.compile_steps)
        return self._made

    @cached_property
    def _ids(self) -> Tensor:
        """The positions of all steps and runs, which are the same for every query."""
        return torch.cat([self._positions(repeat) for repeat in self.runs], dim=1)

    @cached_property
    def _part(self) -> CurvatureOperator:
        """The operator over some examples, on which the residual is estimated: that is for the record alone."""
        device = next(iter(self.operator.model.parameters.values())).device.type
        drawn = self.knobs.depth * self.knobs.batch_size * self.knobs.repeats
        most = RESIDUAL_EXAMPLES.get(device, 4096)
        return self.operator.alone().subsample(max(FEWEST, min(most, drawn // RESIDUAL_SHARE)), seed=self.knobs.seed)

    def _report(self, step: int, state: Block) -> None:
        self.operator.progress("solving", step, self.knobs.depth)

    def _positions(self, repeat: int) -> Tensor:
        """Return positions for each step, (steps, size): epochs in random order, as a data loader shuffles them."""
        total, size = self.operator.examples, min(self.knobs.batch_size, self.operator.examples)
        batches: list[Tensor] = []
        epoch = 0
        while len(batches) < self.knobs.depth:
            order = shuffled_ids(total, seed=self.knobs.seed, repeat=repeat, epoch=epoch)
            used = min(total // size, self.knobs.depth - len(batches))
            batches += order[: used * size].split(size)
            epoch += 1
        return torch.stack(batches)

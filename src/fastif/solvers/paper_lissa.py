r"""PaperLiSSA: the iteration of the paper's authors, to the letter.

$$h \leftarrow v + (1 - \mathrm{damp})\, h - H_B h / \mathrm{scale}, \quad h_0 = v,$$

for J steps over random batches without replacement, and $h / \mathrm{scale}$ averaged over T runs. Its fixed point is
$(H + \mathrm{damp} \cdot \mathrm{scale}\, I)^{-1} v$: the damping is damp x scale, whatever else the caller asks for.
Kept for comparison with the paper; `LiSSA` is the better parametrisation. A residual is reported and never raised for.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.solvers.base import Solution, relative_residual, summarise_repeats
from fastif.solvers.sampling import shuffled_ids
from fastif.solvers.steps import run_steps
from fastif.vectors import Block

CONVERGED = 0.05  # relative residual
RESIDUAL_EXAMPLES = {"cpu": 256, "cuda": 4096}  # that it is estimated on: little beside the steps themselves


@dataclass(frozen=True)
class PaperLiSSA:
    """The paper's knobs: damp, scale, J = depth, B = batch_size, T = repeats."""

    damp: float
    scale: float
    depth: int
    batch_size: int
    repeats: int
    seed: int

    def __post_init__(self) -> None:
        if not (self.damp >= 0 and self.scale > 0):
            raise ConfigurationError(f"damp must not be negative and scale positive, not {self.damp}, {self.scale}.")
        if min(self.depth, self.batch_size, self.repeats) < 1:
            raise ConfigurationError("depth, batch_size and repeats must be at least 1.")

    def prepare(self, operator: CurvatureOperator) -> "PreparedPaperLiSSA":
        """There is nothing to prepare."""
        return PreparedPaperLiSSA(self, operator)


class PreparedPaperLiSSA:
    """The paper's iteration on one operator."""

    def __init__(self, knobs: PaperLiSSA, operator: CurvatureOperator) -> None:
        self.knobs, self.operator = knobs, operator

    @property
    def description(self) -> str:
        """In a few words, how it solves."""
        it = self.knobs
        return (
            f"the paper's LiSSA (damp {it.damp:g}, scale {it.scale:g}, J {it.depth}, B {it.batch_size}, T {it.repeats})"
        )

    @property
    def own_damping(self) -> float:
        """The product damp x scale, which is what this iteration adds to the diagonal."""
        return self.knobs.damp * self.knobs.scale

    def spectrum(self) -> None:
        """The paper's iteration takes its knobs as given and never looks at the spectrum."""

    def solve(self, block: Block, damping: float) -> Solution:
        """Run the iteration; the damping of the caller is not used."""
        knobs = self.knobs
        samples = vectors.scale(self.iterate(block), 1 / knobs.scale)
        value, error = summarise_repeats(samples, knobs.repeats)
        residual = relative_residual(self._part(value, self.own_damping), block).cpu()
        converged = residual <= CONVERGED  # for the record alone
        return Solution(value, converged, residual, knobs.depth, self.description, samples, error)

    def iterate(self, block: Block) -> Block:
        """Return h of every repeat after the last step, repeats first; still to be divided by scale."""
        knobs, operator = self.knobs, self.operator
        right = {name: tensor.repeat(knobs.repeats, *[1] * (tensor.ndim - 1)) for name, tensor in block.items()}
        ids = torch.cat([self._positions(repeat) for repeat in range(knobs.repeats)], dim=1)
        size = ids.shape[1] // knobs.repeats

        def update(state: Block, image: Block) -> Block:
            mean = vectors.add(vectors.scale(image, 1 / size), state, operator.weight_decay)
            return vectors.add(vectors.add(right, state, 1 - knobs.damp), mean, -1 / knobs.scale)

        operator.progress("solving", 0, knobs.depth)
        return run_steps(operator, right, ids, update, groups=knobs.repeats, look=self._report)

    @cached_property
    def _part(self) -> CurvatureOperator:
        """The operator over some examples, on which the residual is estimated: that is for the record alone."""
        device = next(iter(self.operator.model.parameters.values())).device.type
        return self.operator.subsample(RESIDUAL_EXAMPLES.get(device, 4096), seed=self.knobs.seed)

    def _report(self, step: int, state: Block) -> None:
        self.operator.progress("solving", step + 1, self.knobs.depth)

    def _positions(self, repeat: int) -> Tensor:
        """Return positions for each step, (steps, size): epochs in random order, as a data loader shuffles them."""
        total, size = self.operator.examples, min(self.knobs.batch_size, self.operator.examples)
        batches: list[Tensor] = []
        epoch = 0
        while len(batches) < self.knobs.depth:
            order = shuffled_ids(total, seed=self.knobs.seed, repeat=repeat, epoch=epoch)
            batches += order[: total // size * size].split(size)
            epoch += 1
        return torch.stack(batches[: self.knobs.depth])

r"""The paper's iteration with Gauss-Newton curvature, step by step, without a pass through the model in any of them.

$H_i = A_i^\top A_i$ with $A_i$ the few Jacobian rows of example i. So every iterate is
$h_j = \gamma_j v + A^\top \alpha_j$ over the rows A of all examples that are drawn, and a step on the batch B changes
these coefficients alone:

$$\gamma_{j+1} = 1 + \kappa \gamma_j, \qquad
\alpha_{j+1} = \kappa \alpha_j - \tfrac{1}{\mathrm{scale}\, |B|} P_B (\gamma_j A v + A A^\top \alpha_j),$$

with $P_B$ the rows of the batch. The matrix $A A^\top$ of a run is made once for all queries, as every query meets the
same draws. It is the same iteration: nothing is left out, and only the order of sums differs.
"""

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.solvers.kept_rows import KeptRows
from fastif.vectors import Block


class RowSteps:
    """One run of the iteration on one operator, with the examples that it draws.

    Args:
        operator: the curvature; its own examples do not matter.
        positions: the examples of each step, (steps, batch size), as positions among those of the operator.
        scale: of the paper.
        kept: what a step keeps of the iterate before, apart from the curvature.
    """

    def __init__(self, operator: CurvatureOperator, positions: Tensor, *, scale: float, kept: float) -> None:
        self._rows = KeptRows(operator.over(positions.unique()))
        self._gram = self._rows.gram().cpu()
        self._kept, self._share = kept, 1 / (scale * positions.shape[1])
        by_example = _places(self._rows.examples)
        self._steps = [torch.cat([by_example[example] for example in ids]) for ids in operator.ids[positions].tolist()]

    def run(self, block: Block) -> Block:
        """Return the last iterate for every vector of a block."""
        start = self._rows.times(block).T.cpu().double()  # (rows, width)
        share, weights = 1.0, torch.zeros_like(start)
        for rows in self._steps:
            products = share * start[rows] + self._gram[rows] @ weights
            weights *= self._kept
            weights[rows] -= self._share * products
            share = 1 + self._kept * share
        image = self._rows.summed(weights.T.to(next(iter(block.values()))), block)
        return vectors.add(image, block, share)


def _places(examples: Tensor) -> dict[int, Tensor]:
    """Return in which rows each example is."""
    order = examples.argsort(stable=True)
    numbers, counts = examples[order].unique_consecutive(return_counts=True)
    return dict(zip(numbers.tolist(), order.split(counts.tolist()), strict=True))

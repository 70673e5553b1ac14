r"""Multi-shift conjugate gradients: (H + lambda_s I) x_s = v for many dampings lambda_s, with one product an iteration.

The Krylov space of H and v does not depend on the shift, and the residuals of all shifted systems stay parallel:
$r_k^s = \zeta_k^s r_k$. So the system with the smallest damping is solved as usual, and the rest follow by scalar
recurrences for $\zeta$ (Jegerlehner 1996), each with a solution and a direction of its own. The larger dampings
converge sooner. No preconditioner can be used, as it would undo the shifts.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.vectors import Block


def multishift(
    operator: CurvatureOperator,
    block: Block,
    dampings: Sequence[float],
    *,
    tolerance: float,
    max_iterations: int,
    check_bend: Callable[[Tensor, float, float], float],
) -> tuple[list[Block], int]:
    """Return one block of solutions for each damping, and the number of iterations.

    `check_bend(curvatures, largest so far, damping)` raises for negative curvature and returns the new largest.
    """
    if not dampings:
        raise ConfigurationError("a sweep needs at least one damping.")
    base = min(dampings)
    shifts = [damping - base for damping in dampings]
    size = vectors.norm(block)
    values = [vectors.scale(block, 0.0) for _ in shifts]
    directions = [block for _ in shifts]
    residual, direction = block, block
    squared = vectors.dot(residual, residual)
    one = torch.ones_like(squared)
    # zeta, zeta before, and the length and ratio of the base system in the step before
    zetas, earlier = [one for _ in shifts], [one for _ in shifts]
    length_before, ratio_before = one, torch.zeros_like(one)
    steepest = 0.0
    for iteration in range(max_iterations):
        if bool((squared.sqrt() <= tolerance * size).all()):
            return values, iteration
        operator.progress("damping sweep", iteration, max_iterations)
        image = operator(direction, base)
        bend = vectors.dot(direction, image)
        # a vector that has converged to the last digit would divide zero by zero: its steps are zero from then on
        alive = squared > 0
        if bool(alive.any()):
            steepest = check_bend((bend / vectors.dot(direction, direction))[alive], steepest, base)
        length = torch.where(alive, squared / torch.where(alive, bend, one), 0)
        residual = vectors.add(residual, image, -length)
        before, squared = squared, vectors.dot(residual, residual)
        ratio = torch.where(alive, squared / torch.where(alive, before, one), 0)
        for index, shift in enumerate(shifts):
            zeta, last = zetas[index], earlier[index]
            below = length_before * last * (1 + length * shift) + length * ratio_before * (last - zeta)
            following = torch.where(below != 0, zeta * last * length_before / torch.where(below != 0, below, one), 0)
            change = torch.where(zeta != 0, following / torch.where(zeta != 0, zeta, one), 0)
            values[index] = vectors.add(values[index], directions[index], length * change)
            directions[index] = vectors.add(
                vectors.scale(residual, following), directions[index], ratio * change.square()
            )
            zetas[index], earlier[index] = following, zeta
        length_before, ratio_before = torch.where(alive, length, one), ratio
        direction = vectors.add(residual, direction, ratio)
    return values, max_iterations

r"""What the scorers from captured factors share: a plan that was checked, and the sum over factors.

The score of example b for direction S is $\sum_f \langle S_f, \nabla_f \ell_b \rangle$ over the factors of one forward
and one backward pass, whatever the number of directions, plus a general derivative through the rest.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.capture import CaptureError, Factor, Plan, Route, capture, run_forward
from fastif.capture import find_route as capture_route
from fastif.data import Examples
from fastif.derivatives import directional_derivatives
from fastif.errors import PrecisionWarning
from fastif.model import Model
from fastif.precision import wide_product
from fastif.progress import Progress, silent
from fastif.scoring.rest import Restricted, scores_through
from fastif.scoring.stream import stream
from fastif.vectors import Block

CHECKED_EXAMPLES = 8
PART = 1 / 32  # of a GPU's memory, for one intermediate result of a product
SLOPE_SCALE = 128.0  # slopes in half precision are multiplied by this, so that small ones do not vanish

Product = Callable[[Factor, Tensor], Tensor]
"""(factor, the directions of its parameter: K, ...) -> (K, B), the inner products with each example's gradient."""


def find_route(model: Model, data: Examples, ids: Tensor | None = None) -> Route:
    """Plan the capture, and compare with forward mode on a few examples along a random direction."""
    batch = model.place(data.few(CHECKED_EXAMPLES, ids))

    def compare(plan: Plan) -> tuple[Tensor, Tensor]:
        directions = vectors.random(model.parameters, 1, seed=0)
        seen = captured_scores(model, batch, directions, plan, dense_product)
        return seen, directional_derivatives(model, batch, directions)

    return capture_route(model, batch, compare, kind="losses")


class HalfDirections:
    """Directions in half precision, each part of each brought to a largest entry of one, and what that divided by."""

    def __init__(self, directions: Block, dtype: torch.dtype) -> None:
        self.sizes = {name: _largest(tensor) for name, tensor in directions.items()}
        self.block = {name: _divided(tensor, self.sizes[name], dtype) for name, tensor in directions.items()}


def half_scores(model: Model, batch: Batch, directions: HalfDirections, plan: Plan, product: Product) -> Tensor:
    """Return the scores of one placed batch by a model in half precision, (directions, len(batch)) in float32."""
    forward = run_forward(model, batch, plan)
    with torch.inference_mode(False), torch.enable_grad():
        values = model.losses(forward.outputs, batch.targets)
    total = values.new_zeros(vectors.width(directions.block), len(batch))
    for factor in forward.factors(values, torch.full_like(values, SLOPE_SCALE)):
        some = directions.block[factor.name]
        total += product(factor, some) * directions.sizes[factor.name][:, None]
    return total / SLOPE_SCALE


def _largest(tensor: Tensor) -> Tensor:
    sizes = torch.linalg.vector_norm(vectors.as_rows(tensor), ord=math.inf, dim=1)
    return torch.where(sizes > 0, sizes, 1)


def _divided(tensor: Tensor, sizes: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the directions by their sizes in a narrow dtype, which are never all there in the wide one."""
    return torch.div(tensor, sizes.view(-1, *[1] * (tensor.ndim - 1)), out=torch.empty_like(tensor, dtype=dtype))


def captured_scores(model: Model, batch: Batch, directions: Block, plan: Plan, product: Product) -> Tensor:
    """Return the scores of one placed batch, (directions, len(batch))."""
    total = batch_zeros(directions, batch)
    for factor in capture(model, batch, plan):
        total += product(factor, directions[factor.name])
    if plan.rest:
        some = {name: directions[name] for name in plan.rest}
        total += scores_through(Restricted(model, plan.rest), batch, some)
    return total


def scan_captured(
    product: Product,
    model: Model,
    data: Examples,
    directions: Block,
    *,
    ids: Tensor | None = None,
    batch_size: int = 256,
    progress: Progress = silent,
    route: Route | None = None,
    half: Model | None = None,
) -> Tensor:
    """Return all scores by the given product; by forward mode where the model, or a batch, cannot be captured.

    `half` is the model in half precision, to be used instead wherever its scores are finite.
    """
    plan = (route or find_route(model, data, ids)).plan
    run = partial(stream, data=data, directions=directions, batch_size=batch_size, progress=progress)
    general = partial(directional_derivatives, model, directions=directions)

    def score(batch: Batch) -> Tensor:
        if plan is None:
            return general(batch)
        try:
            return captured_scores(model, batch, directions, plan, product)
        except CaptureError:  # layers that depend on the data
            return general(batch)

    if half is None or plan is None or plan.rest:
        if half is not None:
            tell_given_up("all scores", "not all of its layers can be captured")
        return run(score, model, ids=ids)
    narrow = HalfDirections(directions, vectors.dtype(half.parameters))

    def score_in_half(batch: Batch) -> Tensor:
        try:
            return half_scores(half, batch, narrow, plan, product)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # layers that depend on the data, or have no half precision
            return batch_zeros(directions, batch).fill_(torch.nan)

    values = run(score_in_half, half, ids=ids)
    wrong = (~torch.isfinite(values)).any(dim=0).nonzero()[:, 0]
    if len(wrong):  # beyond what half precision can do
        tell_given_up(
            f"the scores of {len(wrong):,} of {values.shape[1]:,} examples", "they were not finite, or had no kernel"
        )
        values[:, wrong] = run(score, model, ids=wrong if ids is None else ids[wrong])
    return values


def tell_given_up(what: str, why: str) -> None:
    """Warn that half precision was given up."""
    warnings.warn(
        f"{what} were computed in the model's own precision, not in half: {why}. That is exact, and takes longer.",
        PrecisionWarning,
        stacklevel=2,
    )


def dense_product(factor: Factor, directions: Tensor) -> Tensor:
    """Form every example's gradient, and multiply."""
    return wide_product(directions.flatten(1), factor.gradients())


def batch_zeros(directions: Block, batch: Batch) -> Tensor:
    """Return zeros of shape (directions, examples)."""
    example = next(iter(directions.values()))
    return example.new_zeros(len(example), len(batch))

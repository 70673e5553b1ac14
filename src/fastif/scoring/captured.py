r"""What the scorers from captured factors share: a plan that was checked, and the sum over factors.

The score of example b for direction S is $\sum_f \langle S_f, \nabla_f \ell_b \rangle$ over the factors of one forward
and one backward pass, whatever the number of directions, plus a general derivative through the rest.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.capture import CaptureError, Factor, Plan, Route, capture
from fastif.capture import find_route as capture_route
from fastif.data import Examples
from fastif.derivatives import directional_derivatives
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.scoring.rest import Restricted, scores_through
from fastif.scoring.stream import stream
from fastif.vectors import Block

CHECKED_EXAMPLES = 8
BYTES = 2**28  # what one intermediate result of a product may take

Product = Callable[[Factor, Tensor], Tensor]
"""(factor, the directions of its parameter: K, ...) -> (K, B), the inner products with each example's gradient."""


def find_route(model: Model, data: Examples, ids: Tensor | None = None) -> Route:
    """Plan the capture, and compare with forward mode on a few examples along a random direction."""
    few = range(min(CHECKED_EXAMPLES, len(data))) if ids is None else ids[:CHECKED_EXAMPLES]
    batch = model.place(data.batch(few))
    directions = vectors.random(model.parameters, 1, seed=0)

    def compare(plan: Plan) -> tuple[Tensor, Tensor]:
        seen = captured_scores(model, batch, directions, plan, dense_product)
        return seen, directional_derivatives(model, batch, directions)

    return capture_route(model, batch, compare)


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
) -> Tensor:
    """Return all scores by the given product; by forward mode where the model, or a batch, cannot be captured."""
    plan = (route or find_route(model, data, ids)).plan
    general = partial(directional_derivatives, model, directions=directions)

    def score(batch: Batch) -> Tensor:
        if plan is None:
            return general(batch)
        try:
            return captured_scores(model, batch, directions, plan, product)
        except CaptureError:  # layers that depend on the data
            return general(batch)

    return stream(score, model, data, directions, ids=ids, batch_size=batch_size, progress=progress)


def dense_product(factor: Factor, directions: Tensor) -> Tensor:
    """Form every example's gradient, and multiply."""
    return directions.flatten(1) @ factor.gradients().T


def batch_zeros(directions: Block, batch: Batch) -> Tensor:
    """Return zeros of shape (directions, examples)."""
    example = next(iter(directions.values()))
    return example.new_zeros(len(example), len(batch))

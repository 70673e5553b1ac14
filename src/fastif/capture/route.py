"""Route: a plan that was made and found right on a few examples, or why there is none."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.capture.forward import CaptureError, capture
from fastif.capture.plan import Plan, make_plan
from fastif.errors import FastifError
from fastif.losses import PerExample
from fastif.model import Model, TorchModel
from fastif.precision import matmuls

Comparison = Callable[[Plan], tuple[Tensor, Tensor]]
"""Returns what the plan gives on a few examples, and what a general derivative gives."""


@dataclass(frozen=True)
class Route:
    """A plan that gave the right numbers on a few examples; None, and why, where there is none."""

    plan: Plan | None
    note: str


def find_route(
    model: Model, batch: Batch, compare: Comparison, measure: PerExample | None = None, *, kind: str
) -> Route:
    """Plan the capture of a model from a few placed examples, and compare what it gives with a general derivative.

    A plan that was found right serves the model at all weights, as long as a batch goes the same way. `kind` is what is
    compared.
    """
    known = model.routes if isinstance(model, TorchModel) else {}
    name = (kind, *batch.named_inputs())
    route: Route | None = known.get(name)
    if route is None or not _goes_the_same_way(model, batch, route):
        route = _found(model, batch, compare, measure)
        if route.plan is not None:
            known[name] = route
    return route


def _goes_the_same_way(model: Model, batch: Batch, route: Route) -> bool:
    assert route.plan is not None
    try:
        capture(model, batch, route.plan)
    except CaptureError:
        return False
    return True


def _found(model: Model, batch: Batch, compare: Comparison, measure: PerExample | None) -> Route:
    try:
        plan = make_plan(model, batch, measure)
        if not any(plan.calls):
            return Route(None, "no layer of the model could be captured")
        with matmuls("float32", batch.targets.device):  # tf32 differs by more than what is looked for
            seen, expected = compare(plan)
    except (FastifError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return Route(None, f"the model could not be captured: {error}")
    tolerance = torch.finfo(seen.dtype).eps ** 0.4  # 2e-3 in float32, as convolutions may run in TF32; 5e-7 in float64
    difference = float((seen - expected).norm() / expected.norm().clamp_min(torch.finfo(seen.dtype).tiny))
    if not difference <= tolerance and not torch.equal(seen, expected):
        return Route(None, f"what was captured differs from a general derivative by {difference:.1e}")
    through = f", {', '.join(plan.rest)} by a general derivative" if plan.rest else ""
    return Route(plan, f"captured {len(plan.captured)} of {len(plan.entries)} parameters{through}")

"""One watched forward pass of a batch, and the factors of as many backward passes from it as are wanted.

This file knows a plan, and how a captured call becomes factors.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.capture.factors import Factor, Lookup, Outer, Scale, Shift
from fastif.capture.plan import Plan, PlannedCall, signatures
from fastif.capture.record import Call, entries_in_graph, slopes, watch
from fastif.losses import PerExample
from fastif.model import Model

GOLDEN = (5**0.5 - 1) / 2  # whose multiples' fractions lie apart from each other, however many there are
WEIGHT_RANGE = 20  # powers of two between the smallest and the largest weight of an example
WEIGHT_TOLERANCE = 0.003  # what tf32 may make of two equal weights; the nearest of 1,024 differ by 0.005
HALF, HALF_TOLERANCE = 1e-4, 0.1


class CaptureError(RuntimeError):
    """A batch did not run through the model as planned."""


@dataclass(frozen=True)
class Forward:
    """A forward pass that went as planned: its outputs, with their graph, and the calls of use."""

    outputs: Tensor
    calls: list[tuple[Call, PlannedCall]]

    def factors(self, values: Tensor, weights: Tensor, *, keep: bool = False) -> list[Factor]:
        """Return the factors of each example's gradient of the weighted sum of values made from the outputs.

        `keep` leaves the graph for another backward pass.
        """
        found = slopes(values, [call for call, _ in self.calls], weights, keep=keep)
        factors: list[Factor] = []
        for (call, planned), slope in zip(self.calls, found, strict=True):
            if slope is not None:
                factors += _factors(call, planned, slope, len(self.outputs))
        return factors


def run_forward(model: Model, batch: Batch, plan: Plan) -> Forward:
    """Run a placed batch through the model; raise CaptureError if it used its parameters otherwise than planned."""
    seen = watch(model, batch.inputs)
    calls = seen.calls
    if signatures(calls) != plan.signatures or entries_in_graph(seen.outputs, seen.leaves) != plan.entries:
        raise CaptureError("the model used its parameters otherwise, or in another order, than on a few examples")
    used = [(call, planned) for call, planned in zip(calls, plan.calls, strict=True) if planned is not None]
    if seen.rearranged:
        _require_own_rows(seen.outputs, used)
    return Forward(seen.outputs, used)


def capture(model: Model, batch: Batch, plan: Plan, measure: PerExample | None = None) -> list[Factor]:
    """Return the factors of each example's gradient of its loss, or of another measure of it, for a placed batch.

    One forward and one backward pass, for every captured parameter.
    """
    forward = run_forward(model, batch, plan)
    with torch.inference_mode(False), torch.enable_grad():
        values = (measure or model.losses)(forward.outputs, batch.targets)
    return forward.factors(values, torch.ones_like(values))


def _require_own_rows(outputs: Tensor, used: list[tuple[Call, PlannedCall]]) -> None:
    """Raise unless every row that a captured layer is given enters the outputs of the example it is taken for alone.

    Two backward passes, in the second of which the outputs of each example weigh as much as no other's: what the slopes
    of a row grow by tells whose it is.
    """
    examples, tolerance = len(outputs), WEIGHT_TOLERANCE
    numbers = torch.arange(1, examples + 1, dtype=torch.float64, device=outputs.device)
    powers = WEIGHT_RANGE * ((GOLDEN * numbers).frac() - 0.5)
    if torch.finfo(outputs.dtype).eps > HALF:  # where whole powers alone leave the digits as they are
        powers, tolerance = powers.round(), HALF_TOLERANCE
    weights = torch.exp2(powers).to(outputs.dtype)
    each = outputs.numel() // examples
    mixture = torch.arange(1, each + 1, device=outputs.device).cos().to(outputs.dtype).expand(examples, -1)
    calls = [call for call, _ in used]
    alike = slopes(outputs, calls, mixture.reshape(outputs.shape), keep=True)
    weighted = slopes(outputs, calls, (weights[:, None] * mixture).reshape(outputs.shape), keep=True)
    for (call, planned), one, other in zip(used, alike, weighted, strict=True):
        if one is None or other is None:
            continue
        own, seen = (_rows(call, planned, slope, examples) for slope in (one, other))
        size = own.norm(dim=2)
        missed = (seen / weights[:, None, None] - own).norm(dim=2)
        rounding = torch.finfo(own.dtype).eps ** 0.75 * size.max()
        if not bool((missed <= tolerance * size + rounding).all()):
            raise CaptureError("a layer was given rows in another order than that of the examples")


def _rows(call: Call, planned: PlannedCall, slope: Tensor, examples: int) -> Tensor:
    """Return the slopes of a call by examples and positions, (examples, positions, features)."""
    spread, layout = call.use.spread(slope), planned.layout
    rows = spread.shape[layout.axis]
    if rows % examples or (rows != examples and not layout.folded):
        raise CaptureError("a layer was given another number of rows than there are examples")
    return layout.rows(spread, examples, spread.ndim - 1)


def _factors(call: Call, planned: PlannedCall, slope: Tensor, examples: int) -> list[Factor]:
    use, layout = call.use, planned.layout
    out = _rows(call, planned, slope, examples)
    lead = use.spread(slope).ndim - 1
    factors: list[Factor] = []
    if planned.bias is not None:
        factors.append(Shift(planned.bias, out))
    if planned.weight is None or use.weight is None:
        return factors
    inputs = layout.rows(use.prepare(use.inputs.detach()), examples, lead)
    if use.kind == "scale":
        return [*factors, Scale(planned.weight, inputs, out)]
    if use.kind == "lookup":
        return [*factors, Lookup(planned.weight, inputs, out, use.weight.shape[0])]
    if use.kind == "transposed":
        return [*factors, Outer(planned.weight, inputs.unsqueeze(2), out.unsqueeze(2))]
    left = out.unflatten(-1, (use.groups, -1))
    return [*factors, Outer(planned.weight, left, inputs if inputs.ndim == 4 else inputs.unsqueeze(2))]

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
    outputs, calls, leaves = watch(model, batch.inputs)
    if signatures(calls) != plan.signatures or entries_in_graph(outputs, leaves) != plan.entries:
        raise CaptureError("the model used its parameters otherwise, or in another order, than on the first examples")
    used = [(call, planned) for call, planned in zip(calls, plan.calls, strict=True) if planned is not None]
    return Forward(outputs, used)


def capture(model: Model, batch: Batch, plan: Plan, measure: PerExample | None = None) -> list[Factor]:
    """Return the factors of each example's gradient of its loss, or of another measure of it, for a placed batch.

    One forward and one backward pass, for every captured parameter.
    """
    forward = run_forward(model, batch, plan)
    with torch.inference_mode(False), torch.enable_grad():
        values = (measure or model.losses)(forward.outputs, batch.targets)
    return forward.factors(values, torch.ones_like(values))


def _factors(call: Call, planned: PlannedCall, slope: Tensor, examples: int) -> list[Factor]:
    use, layout = call.use, planned.layout
    spread = use.spread(slope)
    lead = spread.ndim - 1
    rows = spread.shape[layout.axis]
    if rows % examples or (rows != examples and not layout.folded):
        raise CaptureError("a layer was given another number of rows than there are examples")
    out = layout.rows(spread, examples, lead)
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

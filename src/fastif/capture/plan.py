r"""Which parameters' gradients can be had from captured factors, and where the examples are in each captured call.

Found by running the model on three examples and on two of them. The dimension that changes is the one that counts
examples (in `nn.MultiheadAttention` it is the second); where it is a multiple, positions are folded into it, and that
the slope of the first example's loss is zero at all others' positions tells in which order. A parameter is *captured*
if every way in which it enters the losses, as autograd's graph has it, is a call that was understood; all others are
*the rest*: they need a general derivative.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.capture.factors import Factor, Lookup, Outer, Scale, Shift
from fastif.capture.record import Call, Recorder, Signature, entries_in_graph, slopes
from fastif.model import Model


@dataclass(frozen=True)
class Layout:
    """Where examples are counted: in dimension `axis`, before (`major`) or after positions folded into it."""

    axis: int
    major: bool = True

    def rows(self, tensor: Tensor, examples: int, lead: int) -> Tensor:
        """Return (examples, positions, features...) of a tensor whose first `lead` dimensions are positions."""
        folded = (examples, -1) if self.major else (-1, examples)
        apart: Tensor = tensor.unflatten(self.axis, folded)
        return apart.movedim(self.axis + (0 if self.major else 1), 0).flatten(1, lead)


@dataclass(frozen=True)
class PlannedCall:
    """One call: the parameters taken from it, and the layout of its positions."""

    weight: str | None
    bias: str | None
    layout: Layout


@dataclass(frozen=True)
class Plan:
    """The calls to expect, None for those of no use; how often each parameter enters; which need no other way."""

    calls: tuple[PlannedCall | None, ...]
    signatures: tuple[Signature, ...]
    entries: dict[str, int]
    captured: frozenset[str]

    @property
    def rest(self) -> tuple[str, ...]:
        """The parameters that need a general derivative."""
        return tuple(name for name in self.entries if name not in self.captured)


class CaptureError(RuntimeError):
    """A batch did not run through the model as planned."""


def capture(model: Model, batch: Batch, plan: Plan) -> list[Factor]:
    """Return the factors of every captured parameter for a placed batch, by one forward and one backward pass."""
    losses, calls, leaves = _record(model, batch)
    if _signatures(calls) != plan.signatures or entries_in_graph(losses, leaves) != plan.entries:
        raise CaptureError("the model used its parameters otherwise, or in another order, than on the first examples")
    used = [(call, planned) for call, planned in zip(calls, plan.calls, strict=True) if planned is not None]
    found = slopes(losses, [call for call, _ in used], torch.ones_like(losses))
    factors: list[Factor] = []
    for (call, planned), slope in zip(used, found, strict=True):
        if slope is not None:
            factors += _factors(call, planned, slope, len(batch))
    return factors


def make_plan(model: Model, batch: Batch) -> Plan:
    """Plan the capture of a model, from a few placed examples."""
    three = _examples(batch, [0, 1 % len(batch), 2 % len(batch)])
    losses, calls, leaves = _record(model, three)
    fewer_losses, fewer, _ = _record(model, three.rows(0, 2))
    entries = entries_in_graph(losses, leaves)
    if _signatures(calls) != _signatures(fewer):
        return Plan((), (), entries, frozenset())
    one = torch.eye(3, dtype=losses.dtype, device=losses.device)
    first = slopes(losses, calls, one[0], keep=True)
    last = slopes(losses, calls, one[2])
    small = slopes(fewer_losses, fewer, one[0, :2])
    layouts = [_layout(*each) for each in zip(calls, fewer, first, last, small, strict=True)]
    understood: Counter[str] = Counter()
    for call, layout in zip(calls, layouts, strict=True):
        if layout is not None:
            understood.update(name for name in (call.weight, call.bias) if name is not None)
    captured = frozenset(name for name, count in entries.items() if count == understood[name])
    planned = [_planned(call, layout, captured) for call, layout in zip(calls, layouts, strict=True)]
    return Plan(tuple(planned), _signatures(calls), entries, captured)


def _signatures(calls: list[Call]) -> tuple[Signature, ...]:
    return tuple(call.signature for call in calls)


def _record(model: Model, batch: Batch) -> tuple[Tensor, list[Call], dict[str, Tensor]]:
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in model.parameters.items()}
    recorder = Recorder(leaves)
    with torch.inference_mode(False), torch.enable_grad():
        with recorder:
            outputs = model.outputs(leaves, batch.inputs)
        return model.losses(outputs, batch.targets), recorder.calls, leaves


def _planned(call: Call, layout: Layout | None, captured: frozenset[str]) -> PlannedCall | None:
    weight = call.weight if call.weight in captured else None
    bias = call.bias if call.bias in captured else None
    if layout is None or (weight is None and bias is None):
        return None
    return PlannedCall(weight, bias, layout)


def _layout(call: Call, fewer: Call, first: Tensor | None, last: Tensor | None, small: Tensor | None) -> Layout | None:
    """Return the layout that the shapes with three and two examples allow and the slopes do not contradict."""
    if first is None or last is None or small is None:
        return None
    first, last, small = call.use.spread(first), call.use.spread(last), fewer.use.spread(small)
    if first.ndim != small.ndim or first.ndim < 2:
        return None
    changed = [axis for axis in range(first.ndim) if first.shape[axis] != small.shape[axis]]
    if len(changed) != 1 or changed[0] == first.ndim - 1:
        return None
    axis = changed[0]
    if first.shape[axis] * 2 != small.shape[axis] * 3:
        return None
    for layout in (Layout(axis), Layout(axis, major=False)):
        heads, tails = (layout.rows(slope, 3, first.ndim - 1) for slope in (first, last))
        if not heads[1:].any() and not tails[:2].any():
            return layout
    return None


def _factors(call: Call, planned: PlannedCall, slope: Tensor, examples: int) -> list[Factor]:
    use, layout = call.use, planned.layout
    spread = use.spread(slope)
    lead = spread.ndim - 1
    if spread.shape[layout.axis] % examples:
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


def _examples(batch: Batch, rows: list[int]) -> Batch:
    which = torch.tensor(rows, device=batch.targets.device)
    chosen = batch.map(lambda tensor: tensor[which])
    return Batch(chosen.inputs, chosen.targets, batch.ids[which.cpu()], batch.source)

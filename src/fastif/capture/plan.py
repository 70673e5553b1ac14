r"""Which parameters' gradients can be had from captured factors, and where the examples are in each captured call.

Found by running the model on three examples and on two of them. The dimension that changes is the one that counts
examples (in `nn.MultiheadAttention` it is the second); where it is a multiple, positions are folded into it, and that
the slope of the first example's loss is zero at all others' positions tells in which order. A parameter is *captured*
if every way in which it enters the outputs, as autograd's graph has it, is a call that was understood; all others are
*the rest*: they need a general derivative.
"""

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.capture.record import Call, Signature, entries_in_graph, slopes, watch
from fastif.losses import PerExample
from fastif.model import Model


@dataclass(frozen=True)
class Layout:
    """Where examples are counted: in dimension `axis`, before (`major`) or after positions if these are folded in."""

    axis: int
    major: bool = True
    folded: bool = True

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


def make_plan(model: Model, batch: Batch, measure: PerExample | None = None) -> Plan:
    """Plan the capture of a model, from a few placed examples and the slopes of their losses or another measure."""
    three = _examples(batch, [0, 1 % len(batch), 2 % len(batch)])
    two = three.rows(0, 2)
    seen, smaller = watch(model, three.inputs), watch(model, two.inputs)
    calls, fewer = seen.calls, smaller.calls
    entries = entries_in_graph(seen.outputs, seen.leaves)
    if signatures(calls) != signatures(fewer):
        return Plan((), (), entries, frozenset())
    function = measure or model.losses
    with torch.inference_mode(False), torch.enable_grad():
        values, fewer_values = function(seen.outputs, three.targets), function(smaller.outputs, two.targets)
    one = torch.eye(3, dtype=values.dtype, device=values.device)
    first = slopes(values, calls, one[0], keep=True)
    last = slopes(values, calls, one[2])
    small = slopes(fewer_values, fewer, one[0, :2])
    layouts = [_layout(*each) for each in zip(calls, fewer, first, last, small, strict=True)]
    understood: Counter[str] = Counter()
    for call, layout in zip(calls, layouts, strict=True):
        if layout is not None:
            understood.update(name for name in (call.weight, call.bias) if name is not None)
    captured = frozenset(name for name, count in entries.items() if count == understood[name])
    planned = [_planned(call, layout, captured) for call, layout in zip(calls, layouts, strict=True)]
    return Plan(tuple(planned), signatures(calls), entries, captured)


def signatures(calls: list[Call]) -> tuple[Signature, ...]:
    """Return what two runs of the model must have in common."""
    return tuple(call.signature for call in calls)


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
    folded = first.shape[axis] != 3
    if folded and not (first.any() and last.any()):  # nothing tells in which order
        return None
    for layout in (Layout(axis), Layout(axis, major=False)) if folded else (Layout(axis, folded=False),):
        heads, tails = (layout.rows(slope, 3, first.ndim - 1) for slope in (first, last))
        if not heads[1:].any() and not tails[:2].any():
            return layout
    return None


def _examples(batch: Batch, rows: list[int]) -> Batch:
    which = torch.tensor(rows, device=batch.targets.device)
    chosen = batch.map(lambda tensor: tensor[which])
    return Batch(chosen.inputs, chosen.targets, batch.ids[which.cpu()], batch.source)

"""Watch a model's own forward pass, and remember the calls that use its parameters.

A call is seen where torch dispatches functions, not by hooks on modules: the user's module is not touched at all, and
`F.linear(x, self.weight)` inside a module of the user's, or attention in `nn.MultiheadAttention`, is seen like a layer.
"""

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode

from fastif.batch import Inputs
from fastif.capture.rearranged import may_rearrange
from fastif.capture.uses import UNDERSTOOD, Use
from fastif.evaluation import differentiated_once
from fastif.model import Model
from fastif.vectors import Vector

Signature = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class Call:
    """A use of the parameters called `weight` and `bias` (None: not one of ours), and the place of its output."""

    use: Use
    weight: str | None
    bias: str | None
    output: GradientEdge  # not the tensor: an activation that works in place would change that

    @property
    def signature(self) -> Signature:
        """What must be the same in every batch."""
        return self.use.kind, self.weight, self.bias


@dataclass(frozen=True)
class Watched:
    """A run of the model: outputs, the calls that were seen, the parameters that they were made from.

    `rearranged` says that examples may have changed places on the way.
    """

    outputs: Tensor
    calls: list[Call]
    leaves: Vector
    rearranged: bool


class Recorder(TorchFunctionMode):
    """Within this context, calls of understood functions with one of the given tensors are kept in `calls`."""

    def __init__(self, leaves: Vector, examples: int) -> None:
        super().__init__()
        self._names = {id(leaf): name for name, leaf in leaves.items()}
        self._examples = examples
        self._in_order: list[Tensor] = []  # indices that leave what they pick in order
        self.calls: list[Call] = []
        self.rearranged = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and keep what it was given."""
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            before = self.rearranged
            with self:
                result = _open_attention(*args, **kwargs)
            self.rearranged = before  # what it picks are queries, keys and values
            return result
        # before the call, as one in place changes what it is given
        self.rearranged = self.rearranged or may_rearrange(func, args, kwargs, self._examples, self._in_order)
        result = func(*args, **kwargs)
        if func is torch.arange and len(args) == 1:
            self._in_order.append(result)
        read = UNDERSTOOD.get(func)
        if read is not None and isinstance(result, Tensor) and result.requires_grad:
            return self._read(read(*args, **kwargs), result)
        return result

    def _read(self, use: Use | None, result: Tensor) -> Tensor:
        """Keep the call if it is one of ours, and return its result."""
        weight, bias = (None, None) if use is None else (self._names.get(id(use.weight)), self._names.get(id(use.bias)))
        if use is None or (weight is None and bias is None):
            return result
        if result._is_view():  # else an in-place function on it would cut its output's place out of the graph
            result = torch.ops.aten._unsafe_view(result, result.shape)
        self.calls.append(Call(use, weight, bias, get_gradient_edge(result)))
        return result


# Torch's attention is one function to those who watch: this is the same code with the watching question answered by no,
# so that the linear layers inside it are seen one by one.
_open_attention = types.FunctionType(
    F.multi_head_attention_forward.__code__,
    {**vars(F), "has_torch_function": lambda _: False},
    argdefs=F.multi_head_attention_forward.__defaults__,
)


def watch(model: Model, inputs: Inputs) -> Watched:
    """Run the model, and return what was seen."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in model.parameters.items()}
    examples = len(next(iter(inputs.values() if isinstance(inputs, dict) else inputs)))
    recorder = Recorder(leaves, examples)
    with torch.inference_mode(False), torch.enable_grad():
        with recorder, differentiated_once():
            outputs = model.outputs(leaves, inputs)
        return Watched(outputs, recorder.calls, leaves, recorder.rearranged)


def entries_in_graph(outputs: Tensor, leaves: Vector) -> dict[str, int]:
    """Return how often each leaf enters the computation of the outputs, in whatever way."""
    names = {id(leaf): name for name, leaf in leaves.items()}
    counts = dict.fromkeys(leaves, 0)
    waiting: list[Node] = [outputs.grad_fn] if outputs.grad_fn is not None else []
    seen = set(waiting)
    while waiting:
        for below, _ in waiting.pop().next_functions:
            if below is None:
                continue
            name = names.get(id(getattr(below, "variable", None)))
            if name is not None:
                counts[name] += 1
            elif below not in seen:
                seen.add(below)
                waiting.append(below)
    return counts


def slopes(values: Tensor, calls: Sequence[Call], weights: Tensor, *, keep: bool = False) -> list[Tensor | None]:
    """Return the derivative of the weighted sum of the values in the output of every call; None where it has none."""
    if not calls or not values.requires_grad:
        return [None] * len(calls)
    edges = [call.output for call in calls]
    return list(torch.autograd.grad(values, edges, weights, allow_unused=True, retain_graph=keep))

"""Which torch functions are understood: for each, how its parameters' gradients follow from its input and its slope.

A function here takes the arguments of the torch function of its name, and returns a `Use`, or nothing where it does not
understand them. The slope is the derivative of the losses in the function's output. Positions come first and features
last in all that a `Use` gives; which position belongs to which example is not known here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Same = Callable[[Tensor], Tensor]


def _same(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Use:
    """One use of a weight, a bias or both.

    `prepare` makes the inputs that the weight's gradient needs, (positions..., features...), and `spread` brings the
    slope into the form (positions..., D). Both wait until the backward pass is over, as they copy.
    """

    kind: Literal["outer", "transposed", "lookup", "scale"]
    weight: Tensor | None
    bias: Tensor | None
    inputs: Tensor
    prepare: Same = _same
    spread: Same = _same
    groups: int = 1


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Use | None:
    return Use("outer", weight, bias, input) if weight.ndim == 2 and input.ndim > 1 else None


def _matmul(input: Any, other: Any) -> Use | None:
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)) or other.ndim != 2 or input.ndim < 2:
        return None
    return Use("transposed", other, None, input)


def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, **options: Any) -> Use | None:
    return None if options or input.ndim != 1 else Use("transposed", mat2, input, mat1)


def _embedding(input: Tensor, weight: Tensor, *options: Any, **more: Any) -> Use | None:
    # padding and renormalisation are taken out by PlainEmbedding before the look-up comes here; what is left is not
    # an nn.Embedding, and does not have the same derivative forwards and backwards
    special = any(value is not None and value is not False and value != 2.0 for value in (*options, *more.values()))
    return None if special else Use("lookup", weight, None, input)


def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Use:
    depth = len(normalized_shape)

    def prepare(tensor: Tensor) -> Tensor:
        return F.layer_norm(tensor, normalized_shape, eps=eps).flatten(-depth)

    return Use("scale", weight, bias, input, prepare, lambda slope: slope.flatten(-depth))


def _rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Use | None:
    depth = len(normalized_shape)

    def prepare(tensor: Tensor) -> Tensor:
        return F.rms_norm(tensor, normalized_shape, eps=eps).flatten(-depth)

    return Use("scale", weight, None, input, prepare, lambda slope: slope.flatten(-depth))


def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Use:
    def prepare(tensor: Tensor) -> Tensor:
        return F.group_norm(tensor, num_groups, eps=eps).movedim(1, -1)

    return Use("scale", weight, bias, input, prepare, lambda slope: slope.movedim(1, -1))


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Use | None:
    if training or running_mean is None or running_var is None:
        return None
    mean, variance = running_mean, running_var

    def prepare(tensor: Tensor) -> Tensor:
        return F.batch_norm(tensor, mean, variance, eps=eps).movedim(1, -1)

    return Use("scale", weight, bias, input, prepare, lambda slope: slope.movedim(1, -1))


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Use | None:
    dimensions = weight.ndim - 2
    if input.ndim != weight.ndim:
        return None  # one example without a batch
    sizes = weight.shape[2:]
    strides, dilations = _each(stride, dimensions), _each(dilation, dimensions)
    spans = [d * (k - 1) for d, k in zip(dilations, sizes, strict=True)]
    if padding == "same":
        pads = [(span // 2, span - span // 2) for span in spans]
    else:
        pads = [(pad, pad) for pad in _each(0 if padding == "valid" else padding, dimensions)]

    def prepare(tensor: Tensor) -> Tensor:
        """Return the patch under the kernel at every place of the output: (n, places, G, channels * kernel)."""
        patches = F.pad(tensor, [width for pair in reversed(pads) for width in pair])
        for axis, (span, step, dilation) in enumerate(zip(spans, strides, dilations, strict=True), start=2):
            patches = patches.unfold(axis, span + 1, step)[..., ::dilation]
        places = range(2, 2 + dimensions)
        kernel = range(2 + dimensions, 2 + 2 * dimensions)
        # the one copy is made with the places last: they are many, and lie in memory as the input does
        columns = patches.permute(0, 1, *kernel, *places).flatten(2 + dimensions).flatten(1, 1 + dimensions)
        apart: Tensor = columns.unflatten(1, (groups, -1))
        return apart.movedim(3, 1)

    return Use("outer", weight, bias, input, prepare, lambda slope: slope.flatten(2).mT, groups)


def _each(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _product(input: Any, other: Any) -> Use | None:
    """A gain written out, `weight * x` with a weight of one dimension."""
    pair = _vector_and_rest(input, other)
    return pair and Use("scale", pair[0], None, pair[1])


def _sum(input: Any, other: Any, **options: Any) -> Use | None:
    """A bias written out, `x + bias` with a bias of one dimension."""
    pair = None if options else _vector_and_rest(input, other)
    return pair and Use("scale", None, pair[0], pair[1])


def _vector_and_rest(input: Any, other: Any) -> tuple[Tensor, Tensor] | None:
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        for vector, rest in ((input, other), (other, input)):
            if vector.ndim == 1 and rest.ndim > 1 and rest.shape[-1] == len(vector):
                return vector, rest
    return None


UNDERSTOOD: dict[Any, Callable[..., Use | None]] = {
    F.linear: _linear,
    F.conv1d: _convolution,
    F.conv2d: _convolution,
    F.conv3d: _convolution,
    F.embedding: _embedding,
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
    F.batch_norm: _batch_norm,
    torch.addmm: _addmm,
    **dict.fromkeys((torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__), _matmul),
    **dict.fromkeys((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), _product),
    **dict.fromkeys((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__), _sum),
}

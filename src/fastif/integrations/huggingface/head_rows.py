"""The last layer of an encoder only for the row that the head reads.

Most classifiers read the first token alone. What the last layer makes of the others is then made for nothing, but for
the keys and values that the first one looks at. Which parts of the layer can do with one row is not told by names: each
is tried, and kept if the outputs stay what they were, at the weights and at others near by. A head that reads another
row, or several, leaves nothing to keep. Knows modules, and no data.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from fastif.integrations.huggingface.layers import replaced_forwards
from fastif.integrations.huggingface.probes import attempted, same

Outputs = Callable[[dict[str, Tensor]], Tensor]
"""The outputs for a few texts of unequal length, as a function of the chosen parameters."""


class HeadRows:
    """The parts of a layer that work on the first row of each example, each with how that is done.

    A part may give one row where it was given all; or, where what comes after counts rows, that one in place of all.
    Attention may look from the first row alone.
    """

    def __init__(self, parts: dict[nn.Module, Callable[..., Any]]) -> None:
        self.parts = parts

    @classmethod
    def find(cls, layer: nn.Module, points: Sequence[dict[str, Tensor]], outputs: Outputs) -> "HeadRows":
        """Try the parts of a layer, in the order in which it has them, and its attention, at each of some weights."""
        found = cls({})
        with torch.no_grad():
            expected = [outputs(point) for point in points]
            for part, way in _possible(layer):
                longer = cls({**found.parts, part: way})
                if part not in found.parts and all(
                    longer._gives(outputs, *pair) for pair in zip(points, expected, strict=True)
                ):
                    found = longer
        return found

    def _gives(self, outputs: Outputs, point: dict[str, Tensor], expected: Tensor) -> bool:
        with self.only():
            seen = attempted(lambda: outputs(point))  # there are shapes that a layer cannot do with
        return isinstance(seen, Tensor) and same(seen, expected)

    @contextmanager
    def only(self) -> Iterator[None]:
        """Within this context, the parts see the first row of each example."""
        with replaced_forwards({part: way(part.forward) for part, way in self.parts.items()}):
            yield


def _possible(layer: nn.Module) -> Iterator[tuple[nn.Module, Callable[..., Any]]]:
    """Yield the parts that have weights, each with what to try, and last the whole layer."""
    for part in layer.modules():
        if next(part.children(), None) is None and next(part.parameters(), None) is not None:
            yield part, _one_row
            yield part, _one_row_for_all
    yield layer, _looking_from_first_row


def _one_row(forward: Callable[..., Any]) -> Callable[..., Any]:
    def on_one_row(given: Tensor, *more: Any, **named: Any) -> Any:
        return forward(given[:, :1] if given.ndim > 2 else given, *more, **named)

    return on_one_row


def _one_row_for_all(forward: Callable[..., Any]) -> Callable[..., Any]:
    def on_one_row(given: Tensor, *more: Any, **named: Any) -> Any:
        if given.ndim < 3:
            return forward(given, *more, **named)
        return forward(given[:, :1], *more, **named).expand(-1, given.shape[1], -1)

    return on_one_row


def _looking_from_first_row(forward: Callable[..., Any]) -> Callable[..., Any]:
    def looking(*given: Any, **named: Any) -> Any:
        with _FirstQuery():
            return forward(*given, **named)

    return looking


class _FirstQuery(TorchFunctionMode):
    """Within this context, torch's attention is computed for the first position, and given for all."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the function; attention without a causal mask from the first position alone."""
        kwargs = kwargs or {}
        if func is not F.scaled_dot_product_attention or kwargs.get("is_causal") or len(args) > 3:
            return func(*args, **kwargs)
        query, *rest = args
        mask = kwargs.get("attn_mask")
        if mask is not None:
            kwargs = {**kwargs, "attn_mask": mask[..., :1, :]}
        with sdpa_kernel(SDPBackend.MATH):  # the others take as long for one position as for dozens
            return func(query[..., :1, :], *rest, **kwargs).expand(*query.shape[:-1], -1)

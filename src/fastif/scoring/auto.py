"""Choose how to score: forward mode, ghost products or gradients and one matrix product.

Counted in forward passes, K directions cost 1 + 2 K by forward mode, and about 2.5 once plus K/10 or less from captured
factors. Among these the cheaper product is taken layer by layer: a ghost product costs K T times the size of the weight
for an example with T positions, a gradient T + K times, and being written to memory, which weighs as much as some
`GHOST_POSITIONS` products do. The thresholds are measured (`fastif bench scan`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from torch import Tensor

from fastif import vectors
from fastif.capture import Factor, Outer, Route
from fastif.data import Examples
from fastif.errors import ConfigurationError
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.scoring import gemm, ghost, jvp
from fastif.scoring.captured import find_route, scan_captured, tell_given_up
from fastif.scoring.rest import DIRECTIONS_BY_GRADIENT
from fastif.vectors import Block

Method = Literal["auto", "jvp", "ghost", "gemm"]
WAYS: dict[str, Callable[..., Tensor]] = {"jvp": jvp.scan, "ghost": ghost.scan, "gemm": gemm.scan}
DIRECTIONS_BY_CAPTURE = 2  # from here on, one shared backward pass costs less than forward mode


@dataclass(frozen=True)
class Choice:
    """The way that was chosen, and why in a few words."""

    method: Literal["jvp", "capture"]
    route: Route
    note: str


def choose(
    model: Model,
    data: Examples,
    directions: Block,
    *,
    ids: Tensor | None = None,
    found: Callable[[], Route] | None = None,
) -> Choice:
    """Choose between forward mode and captured factors; `found` gives the route where one was looked for before."""
    width = vectors.width(directions)
    # one backward pass is not dearer than carrying tangents where kernels are large: on a GPU, and for texts
    at_once = data.lengths is not None or next(iter(directions.values())).is_cuda
    if width < DIRECTIONS_BY_CAPTURE and not at_once:
        note = f"forward mode, for {width} direction(s)"
        return Choice("jvp", Route(None, note), note)
    route = find_route(model, data, ids) if found is None else found()
    if route.plan is None:
        return Choice("jvp", route, f"forward mode: {route.note}")
    if route.plan.rest and width < DIRECTIONS_BY_GRADIENT:
        return Choice("jvp", route, f"forward mode, for {width} directions: {route.note}")
    return Choice("capture", route, route.note)


class Choices:
    """Choices for one model and its data, of which a route is found and checked once."""

    def __init__(self, model: Model, data: Examples) -> None:
        self._model, self._data = model, data

    def of(self, directions: Block) -> Choice:
        """Choose for so many directions."""
        return choose(self._model, self._data, directions, found=lambda: self._route)

    @cached_property
    def _route(self) -> Route:
        return find_route(self._model, self._data)


def cheaper_product(factor: Factor, directions: Tensor) -> Tensor:
    """Return the inner products of the directions with each example's gradient, in the cheaper of the two ways."""
    if isinstance(factor, Outer) and factor.is_sooner_formed(len(directions)):
        return gemm.gemm_product(factor, directions)
    return ghost.ghost_product(factor, directions)


def scan(
    model: Model,
    data: Examples,
    directions: Block,
    *,
    ids: Tensor | None = None,
    batch_size: int = 256,
    progress: Progress = silent,
    method: Method = "auto",
    choice: Choice | None = None,
    half: Model | None = None,
) -> Tensor:
    """Return the derivative of every example's loss along every direction: (directions, examples), on the CPU.

    `choice` is what `choose` gave for the same arguments, where that was asked for before. `half` is the model in half
    precision, used where factors are captured.
    """
    if method not in ("auto", *WAYS):
        raise ConfigurationError(f"method must be one of auto, {', '.join(WAYS)}, not {method!r}.")
    way = WAYS.get(method, jvp.scan)
    if method == "auto":
        choice = choice or choose(model, data, directions, ids=ids)
        if choice.method == "capture":
            way = partial(scan_captured, cheaper_product, route=choice.route, half=half)
        elif half is not None:
            tell_given_up("all scores", choice.note)
    return way(model, data, directions, ids=ids, batch_size=batch_size, progress=progress)

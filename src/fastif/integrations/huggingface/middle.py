"""Middle: how a model is run from stored hidden states, and by which short ways.

There are four: frozen layers are left out, and the embeddings with them; the mask has the form that attention takes;
the last layer works on the row that the head reads. Each is kept only where outputs and derivatives are those of the
whole model, on random tokens and near by weights as well, and given up where data of the user shows that they are not.
Knows models by a function of parameters and inputs.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fastif.batch import STATES
from fastif.integrations.huggingface.head_rows import HeadRows
from fastif.integrations.huggingface.layers import FrozenLayers
from fastif.integrations.huggingface.probes import MASK, attempted, ends_of, same, span_of
from fastif.integrations.huggingface.wide_masks import WIDE_MASKS, WideMask, may_be_wide

Tensors = dict[str, Tensor]
Probe = tuple[Tensors, Tensor]
"""Inputs, and the outputs for them."""
Whole = Callable[[Tensors, Tensors], Tensor]
"""The outputs of the whole model, as a function of parameters and inputs."""
COMPARED = 8  # of the user's texts, those with the fewest and the most tokens


class Middle:
    """Where a model goes on from, and how; `why_not` says in words why it cannot, and is None where it can."""

    def __init__(self, layers: FrozenLayers | str) -> None:
        self.layers = layers if isinstance(layers, FrozenLayers) else None
        self.why_not = layers if isinstance(layers, str) else None
        self.wide_mask: WideMask | None = None
        self.head_rows = HeadRows({})
        self._compared: tuple[int, int] | None = None  # tokens of the user's texts on which all was seen to be right

    @classmethod
    def find(cls, module: nn.Module, whole: Whole, points: list[Tensors], probes: list[Probe]) -> "Middle":
        """Find where the model can go on, and by which ways.

        Args:
            module: the model itself.
            whole: its outputs.
            points: the chosen parameters, and others near by.
            probes: inputs to try it with, and its outputs at the chosen parameters; the first has several rows.
        """
        found = attempted(lambda: FrozenLayers.of(module, points[0], probes[0][0]))
        middle = cls(_refused(found) if isinstance(found, Exception) else found)
        if middle.layers is None:
            return middle
        middle.layers.skip_embeddings()
        with torch.no_grad():
            given = attempted(lambda: [middle._with_states(whole, points[0], inputs) for inputs, _ in probes])
            if isinstance(given, Exception):
                middle.why_not = _refused(given)
                return middle
            trials = [
                *((points[0], inputs, outputs) for inputs, (_, outputs) in zip(given, probes, strict=True)),
                *((point, given[0], whole(point, probes[0][0])) for point in points[1:]),
            ]
            for trial in trials:
                middle._require(whole, *trial)
            if middle.why_not is None and MASK in given[0] and may_be_wide(module):
                middle._widen(whole, points, given)
            if middle.why_not is None and middle.layers.last is not None:
                middle._shorten(middle.layers.last, whole, points, given)
                for trial in trials:
                    middle._require(whole, *trial)
        while middle.why_not is None and not middle._has_derivatives(whole, points[0], given[0]):
            middle._give_up("running from the middle changed the derivatives")
        return middle

    def encode(self, whole: Whole, parameters: Tensors, inputs: Tensors) -> Tensor:
        """Return the hidden states at the first layer that is not frozen, (batch, tokens, width)."""
        assert self.layers is not None
        return self.layers.encode(lambda: whole(parameters, inputs))

    def outputs(self, whole: Whole, parameters: Tensors, inputs: Tensors) -> Tensor:
        """Return the outputs for inputs that carry states."""
        rest = {name: tensor for name, tensor in inputs.items() if name != STATES}
        if self.layers is None or self.why_not is not None:  # it may have been given up after states were stored
            return whole(parameters, rest)
        if self.wide_mask is not None:
            rest[MASK] = self.wide_mask(rest[MASK], inputs[STATES])
        with self.layers.skipped(inputs[STATES]), self.head_rows.only():
            return whole(parameters, rest)

    def settle(self, whole: Whole, parameters: Tensors, inputs: Tensors) -> None:
        """Give up what changes the outputs for the shortest and longest texts of a batch of the user's."""
        fewest, most = span_of(inputs)
        known = self._compared or (fewest, fewest - 1)
        if self.why_not is not None or (known[0] <= fewest and most <= known[1]):
            return
        rows = ends_of(inputs, COMPARED).to(next(iter(inputs.values())).device)
        some = {name: tensor[rows] for name, tensor in inputs.items() if name != STATES}
        given = attempted(lambda: self._with_states(whole, parameters, some))
        if isinstance(given, Exception):
            self.why_not = _refused(given)
            return
        self._require(whole, parameters, given, whole(parameters, some))
        self._compared = min(known[0], fewest), max(known[1], most)

    def _require(self, whole: Whole, parameters: Tensors, given: Tensors, expected: Tensor) -> None:
        """Give up one way after another until outputs are those of the whole model."""
        while self.why_not is None:
            seen = attempted(lambda: self.outputs(whole, parameters, given))
            if isinstance(seen, Exception):
                self._give_up(_refused(seen))
            elif same(seen, expected):
                return
            else:
                difference = float((seen - expected).abs().max()) if seen.shape == expected.shape else float("nan")
                self._give_up(f"running from the middle changed the outputs by {difference:.2g}")

    def _give_up(self, why: str) -> None:
        """Do without one of the ways, the one most likely to be wrong first."""
        assert self.layers is not None
        if self.wide_mask is not None:
            self.wide_mask = None
        elif self.head_rows.parts:
            self.head_rows = HeadRows({})
        elif self.layers.skips_embeddings:
            self.layers.keep_embeddings()
        else:
            self.why_not = why

    def _with_states(self, whole: Whole, parameters: Tensors, inputs: Tensors) -> Tensors:
        return {**inputs, STATES: self.encode(whole, parameters, inputs)}

    def _widen(self, whole: Whole, points: list[Tensors], given: list[Tensors]) -> None:
        """Take the form of a mask that gives the same states at every token, and the same outputs."""
        tries = [(point, inputs) for point in points for inputs in given]
        expected = [self._at_every_token(whole, *each) for each in tries]

        def gives_the_same() -> bool:
            seen = (self._at_every_token(whole, *each) for each in tries)
            return all(all(map(same, one, other)) for one, other in zip(seen, expected, strict=True))

        for form in WIDE_MASKS:
            self.wide_mask = form
            if attempted(gives_the_same) is True:
                return
        self.wide_mask = None

    def _at_every_token(self, whole: Whole, point: Tensors, inputs: Tensors) -> tuple[Tensor, ...]:
        """Return outputs, and what the last layer gives at every token of a text: the head may not read all of it."""
        assert self.layers is not None
        with self.layers.watched_last() as seen:
            outputs = self.outputs(whole, point, inputs)
        return outputs, *(states[inputs[MASK].bool()] for states in seen)

    def _shorten(self, last: nn.Module, whole: Whole, points: list[Tensors], given: list[Tensors]) -> None:
        """Take the parts of the last layer that can do with the first row; there are many to try, on two texts."""
        few = {name: tensor[:2] for name, tensor in given[0].items()}
        self.head_rows = HeadRows.find(last, points, lambda point: self.outputs(whole, point, few))

    def _has_derivatives(self, whole: Whole, parameters: Tensors, given: Tensors) -> bool:
        """Return whether outputs change with the parameters as those of the whole model do."""
        inputs = {name: tensor for name, tensor in given.items() if name != STATES}
        expected = _pulled_back(lambda point: whole(point, inputs), parameters)
        seen = attempted(lambda: _pulled_back(lambda point: self.outputs(whole, point, given), parameters))
        return isinstance(seen, Tensor) and bool(
            (seen - expected).norm() <= torch.finfo(expected.dtype).eps ** 0.5 * expected.norm()
        )


def _pulled_back(outputs: Callable[[Tensors], Tensor], parameters: Tensors) -> Tensor:
    """Return the derivative of the outputs, weighed at random, by all parameters in one vector."""
    with torch.inference_mode(False), torch.enable_grad():
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
        result = outputs(leaves)
        weights = torch.randn(result.shape, generator=torch.Generator("cpu").manual_seed(0)).to(result)
        slopes = torch.autograd.grad((result * weights).sum(), list(leaves.values()), materialize_grads=True)
    return torch.cat([slope.flatten() for slope in slopes])


def _refused(error: Exception) -> str:
    return f"the model could not be run from the middle: {str(error).rstrip('.') or type(error).__name__}"

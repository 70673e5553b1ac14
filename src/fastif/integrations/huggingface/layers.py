"""The layers of an encoder: which of them are taken as trainable, and how to start in the middle of them.

Everything below the first trainable layer gives the same hidden states whatever the chosen parameters are. To start
from stored states, the lower layers are told to pass on what they get and the first trainable one to take the stored
states instead; all else (masks, position biases, heads) is the model's own code. Knows modules, and no data.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fastif.errors import ConfigurationError, ModelError
from fastif.evaluation import Evaluation
from fastif.integrations.huggingface.probes import attempted
from fastif.parameters import Choice

DEFAULT_LAYERS = 2  # of a checkpoint that does not say what was trained: the last two, and what comes after them
ALL = "all"
EMBEDDINGS = ".embeddings"  # how the families call what stands before their layers


def find_layers(module: nn.Module) -> tuple[str, nn.ModuleList]:
    """Return the longest list of modules that are all of one kind, and its name: the layers of the encoder."""
    lists = [
        (name, part)
        for name, part in module.named_modules()
        if isinstance(part, nn.ModuleList) and len(part) and len({type(each) for each in part}) == 1
    ]
    if not lists:
        raise ModelError(
            f"no list of layers was found in {type(module).__name__}, so that layers cannot be counted. Choose "
            "parameters by name with trainable=, or trainable='all'."
        )
    return max(lists, key=lambda found: len(found[1]))  # the first of equals: the outermost


def choose_parameters(
    module: nn.Module, trainable: Choice, freeze_layers: int | None, few: dict[str, Tensor]
) -> tuple[Choice, str]:
    """Return the choice of parameters in the form that a `TorchModel` takes, and the reason for it in words.

    `few` are inputs of the module, on its device, to see which parameters the lower layers depend on.
    """
    if trainable is not None and freeze_layers is not None:
        raise ConfigurationError("trainable= and freeze_layers= both choose the parameters: give one of them.")
    if trainable == ALL:
        return (lambda name, parameter: True), "all parameters, as asked"
    if trainable is not None:
        return trainable, f"those that {trainable!r} finds" if isinstance(trainable, str) else "as asked"
    if freeze_layers is None and not all(parameter.requires_grad for parameter in module.parameters()):
        return None, "those that require a gradient"
    _, layers = find_layers(module)
    if _is_shared(module, layers):
        if freeze_layers:
            raise ConfigurationError("the layers of this model share their weights: freeze_layers cannot part them.")
        return (lambda name, parameter: True), "all parameters, as the layers share one set of weights"
    frozen = default_frozen(module) if freeze_layers is None else freeze_layers
    if isinstance(frozen, bool) or not isinstance(frozen, int) or not 0 <= frozen <= len(layers):
        raise ConfigurationError(
            f"freeze_layers must be 0 to {len(layers)}, as the model has that many layers; not {frozen!r}."
        )
    below = attempted(lambda: names_below(module, FrozenLayers(layers, frozen), few))
    if isinstance(below, Exception):
        raise ModelError(
            f"{type(module).__name__} could not be run up to its layer {frozen} ({below}), so that it is not known "
            "which parameters stand below. Choose parameters by name with trainable=, or trainable='all'."
        ) from below
    why = "as asked" if freeze_layers is not None else "the default, as a checkpoint does not say what was trained"
    return (lambda name, parameter: name not in below), f"{above_in_words(module, frozen)} ({why})"


def above_in_words(module: nn.Module, frozen: int) -> str:
    """Return what is left above so many frozen layers."""
    count = len(find_layers(module)[1])
    return f"layers {frozen + 1} to {count} of {count} and the head" if frozen < count else "the head"


def default_frozen(module: nn.Module) -> int | None:
    """Return how many layers are frozen where nobody says: all but the last two; None where layers share weights."""
    _, layers = find_layers(module)
    return None if _is_shared(module, layers) else max(0, len(layers) - DEFAULT_LAYERS)


def names_below(module: nn.Module, layers: "FrozenLayers", few: dict[str, Tensor]) -> frozenset[str]:
    """Return the names of all parameters that the hidden states after these layers depend on, as autograd has it.

    Names would not do: the position biases of MPNet and DeBERTa are used by all layers, and stand behind them.
    """
    given = {name: parameter for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    leaves = {name: parameter.detach().requires_grad_() for name, parameter in given.items()}
    device = next(iter(few.values())).device
    with torch.inference_mode(False), torch.enable_grad(), Evaluation(module).on(device):
        states = layers.encode(lambda: functional_call(module, leaves, (), few))
        slopes = torch.autograd.grad(states.sum(), list(leaves.values()), allow_unused=True)
    return frozenset(name for name, slope in zip(leaves, slopes, strict=True) if slope is not None)


def _is_shared(module: nn.Module, layers: nn.ModuleList) -> bool:
    """Return whether one layer is run several times, as in ALBERT."""
    count = getattr(getattr(module, "config", None), "num_hidden_layers", None)
    return isinstance(count, int) and count > len(layers)


class _Reached(Exception):  # noqa: N818 - no error, but the way out of a forward pass
    """The forward pass has come to the cut; carries the hidden states there."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class FrozenLayers:
    """The first `count` layers of a list, to be run once and then left out."""

    def __init__(self, layers: nn.ModuleList, count: int) -> None:
        self.count = count
        self._below = list(layers[:count])
        self._next = layers[count] if count < len(layers) else None
        self._last = layers[-1] if count < len(layers) else None
        self._embeddings: nn.Module | None = None  # left out too, where that was tried
        self._candidates: list[nn.Module] = []
        self._tuples: dict[nn.Module, int] = {}  # how many things a layer returns; 0 if just the states

    @classmethod
    def of(cls, module: nn.Module, chosen: Iterable[str], few: dict[str, Tensor]) -> "FrozenLayers | str":
        """Return the layers below the first chosen parameter, or why there are none."""
        try:
            name, layers = find_layers(module)
        except ModelError:
            return "no list of layers was found"
        if _is_shared(module, layers):
            return "the layers share their weights, so that none is below another"
        names = frozenset(chosen)
        inside = re.compile(rf"{re.escape(name)}\.(\d+)\.")
        count = min((int(match.group(1)) for match in map(inside.match, names) if match), default=len(layers))
        if count == 0:
            return "the first layer is among the chosen parameters"
        found = cls(layers, count)
        found._candidates = [part for where, part in module.named_modules() if where.endswith(EMBEDDINGS)]
        early = sorted(names_below(module, found, few) & names)
        if early:
            return f"{early[0]} is among the chosen parameters, and the lower layers depend on it"
        return found

    def skip_embeddings(self) -> bool:
        """Leave out the embeddings too, which only the frozen layers read; return whether there are such."""
        self._embeddings = self._candidates[0] if len(self._candidates) == 1 else None
        return self._embeddings is not None

    def keep_embeddings(self) -> None:
        """Run the embeddings after all."""
        self._embeddings = None

    @property
    def skips_embeddings(self) -> bool:
        """Whether the embeddings are left out."""
        return self._embeddings is not None

    @property
    def last(self) -> nn.Module | None:
        """The last layer, if it is not frozen."""
        return self._last

    def encode(self, forward: Callable[[], Any]) -> Tensor:
        """Return the hidden states with which a forward pass comes to the end of these layers."""
        replaced = {layer: self._watched(layer) for layer in self._below}
        if self._next is not None:
            replaced[self._next] = _stop
        else:
            last = self._below[-1]
            watched = replaced[last]
            replaced[last] = lambda *given, **named: _stop(_states(watched(*given, **named)))
        try:
            with replaced_forwards(replaced):
                forward()
        except _Reached as reached:
            return reached.states
        raise ModelError("the layers of the model were not run in its forward pass.")

    @contextmanager
    def skipped(self, states: Tensor) -> Iterator[None]:
        """Within this context, a forward pass goes on from these states; `encode` must have run before."""
        replaced = {layer: self._passing(layer) for layer in self._below}
        if self._embeddings is not None:
            replaced[self._embeddings] = lambda *given, **named: states
        if self._next is not None:
            original = self._next.forward
            replaced[self._next] = lambda *given, **named: original(*_with_states(states, given, named), **named)
        else:
            last = self._below[-1]
            replaced[last] = lambda *given, **named: self._returned(last, states)
        with replaced_forwards(replaced):
            yield

    @contextmanager
    def watched_last(self) -> Iterator[list[Tensor]]:
        """Within this context, the states that the last layer gives are put into a list, unless it is frozen."""
        seen: list[Tensor] = []
        if self._last is None:
            yield seen
            return
        original = self._last.forward

        def forward(*given: Any, **named: Any) -> Any:
            result = original(*given, **named)
            seen.append(_states(result))
            return result

        with replaced_forwards({self._last: forward}):
            yield seen

    def _watched(self, layer: nn.Module) -> Callable[..., Any]:
        """The layer's own forward, which notes the form of what it returns."""
        original = layer.forward

        def forward(*given: Any, **named: Any) -> Any:
            result = original(*given, **named)
            self._tuples[layer] = len(result) if isinstance(result, tuple | list) else 0
            return result

        return forward

    def _returned(self, layer: nn.Module, states: Tensor) -> Any:
        """States in the form in which the layer returns its own."""
        count = self._tuples[layer]
        return (states, *[None] * (count - 1)) if count else states

    def _passing(self, layer: nn.Module) -> Callable[..., Any]:
        """A forward that returns what it is given, in the form in which the layer does."""

        def forward(*given: Any, **named: Any) -> Any:
            states = given[0] if given else named["hidden_states"]
            return self._returned(layer, states)

        return forward


def _stop(*given: Any, **named: Any) -> Any:
    raise _Reached(given[0] if given else named["hidden_states"])


def _states(result: Any) -> Tensor:
    states: Tensor = result[0] if isinstance(result, tuple | list) else result
    return states


def _with_states(states: Tensor, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Put the states in the place of the first argument, by position or in `named`."""
    if given:
        return (states, *given[1:])
    named["hidden_states"] = states
    return given


@contextmanager
def replaced_forwards(replaced: dict[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Call other functions in the place of the forward of some modules."""
    before = {module: module.__dict__.get("forward") for module in replaced}
    try:
        for module, function in replaced.items():
            module.forward = function
        yield
    finally:
        for module, own in before.items():
            if own is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = own

"""Probe: reads keys off a model as it runs, by a hook on one of its modules that is gone afterwards.

This file knows models and batches, and nothing of indices.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from fastif.batch import Batch
from fastif.candidates.keys import Features, HeadGradients
from fastif.errors import ConfigurationError, ModelError, NonFiniteError
from fastif.losses import IGNORED_CLASS, PerExample
from fastif.model import TorchModel
from fastif.precision import matmuls

Hook = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Any]


class Probe:
    """Reads the input of the last `nn.Linear` that runs, the head, or the output of a named module.

    Which linear layer runs last is found with one batch; every batch after it goes through the same one.
    """

    def __init__(self, model: TorchModel, batch: Batch, module: str | None = None) -> None:
        self._model = model
        self._reads_output = module is not None
        self._name, self._part = _last_linear(model, batch) if module is None else _named(model, module)
        if len(batch) > 1:  # a module may run with its batch in another dimension, or folded into one
            with matmuls("float32", model.device):  # in less, they differ by rounding alone
                together, apart = (self.features(each).values[0] for each in (batch, batch.rows(0, 1)))
            if together.shape != apart.shape or (apart - together).norm() > 1e-3 * together.norm():
                raise self._not_one_each()

    def features(self, batch: Batch) -> Features:
        """Return what is read as one vector for each example: flattened, or the mean of positions with a target."""
        seen: list[Any] = []

        def look(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> None:
            seen.append(output if self._reads_output else _input(inputs, keywords))

        with torch.no_grad(), _hooked([self._part], look):
            self._model.outputs(self._model.parameters, batch.inputs)
        values = _without_padding(self._one_each(seen, batch), batch.targets).flatten(1).clone()
        _check_finite(values, batch, f"at {self._where}")
        return Features(values)

    def head_gradients(self, batch: Batch, measure: PerExample) -> HeadGradients:
        """Return the gradient of each example's measure in the weight and bias of the head, in its factors."""
        hidden: list[Any] = []
        leaves: list[Tensor] = []

        def cut(module: nn.Module, inputs: tuple[Any, ...], keywords: dict[str, Any], output: Tensor) -> Tensor:
            hidden.append(_input(inputs, keywords))
            leaves.append(output.detach().clone().requires_grad_())
            return leaves[-1].clone()  # which may be written to in place, as a leaf may not

        with torch.enable_grad():
            with _hooked([self._part], cut):
                outputs = self._model.outputs(self._model.parameters, batch.inputs)
            values = measure(outputs, batch.targets).sum()
            states = self._one_each(hidden, batch)
            slopes = torch.autograd.grad(values, leaves[-1], allow_unused=True)[0] if values.requires_grad else None
        if slopes is None:
            raise ModelError(
                f"the loss does not depend on the last nn.Linear that runs, {self._where}, so that it has no gradient "
                'there. Use fastif.Nearest(k, by="features", features=...) and name the module to compare by.'
            )
        states, slopes = (each.reshape(len(batch), -1, each.shape[-1]) for each in (states.detach(), slopes))
        if isinstance(self._part, nn.Linear) and self._part.bias is not None:
            states = torch.cat([states, states.new_ones(*states.shape[:2], 1)], dim=2)
        _check_finite(slopes.flatten(1), batch, f"in its gradient at {self._where}")
        return HeadGradients(slopes, states.clone())

    @property
    def _where(self) -> str:
        return f"'{self._name}'" if self._name else "the module itself"

    def _one_each(self, seen: list[Any], batch: Batch) -> Tensor:
        """Return what was read last, if it is a tensor with a row for each example."""
        if not seen:
            raise ModelError(f"{self._where} did not run on {batch.source}, so that there is nothing to compare by.")
        if not isinstance(seen[-1], Tensor):
            raise ModelError(
                f"{self._where} gives a {type(seen[-1]).__name__}; examples are compared by a tensor (batch, ...). "
                "Name with features= a module whose output is one."
            )
        value = seen[-1]
        if value.ndim < 2 or len(value) != len(batch):
            raise self._not_one_each()
        return value.to(self._model.dtype)

    def _not_one_each(self) -> ModelError:
        return ModelError(
            f"what passes {self._where} does not have a row for each example, so that examples cannot be compared by "
            "it. Its first dimension must count the examples; if the module folds other dimensions into it, or has "
            'the batch in another, use by="features" and name another module with features=.'
        )


def _last_linear(model: TorchModel, batch: Batch) -> tuple[str, nn.Module]:
    parts = model.module.named_modules()
    names: dict[nn.Module, str] = {part: name for name, part in parts if isinstance(part, nn.Linear)}
    ran: list[nn.Module] = []
    with torch.no_grad(), _hooked(list(names), lambda part, *_: ran.append(part)):
        model.outputs(model.parameters, batch.inputs)
    if not ran:
        raise ModelError(
            f"no nn.Linear runs in this {type(model.module).__name__}, whose input examples would be compared by. "
            'Name another module: fastif.Nearest(k, by="features", features=...), or score all with candidates="all".'
        )
    return names[ran[-1]], ran[-1]


def _named(model: TorchModel, name: str) -> tuple[str, nn.Module]:
    parts = dict(model.module.named_modules())
    if name not in parts:
        close = difflib.get_close_matches(name, parts) or [each for each in parts if each][-5:]
        hint = f" Did you mean one of {', '.join(close)}?" if close else ""
        raise ConfigurationError(f"features={name!r} names no module of {type(model.module).__name__}.{hint}")
    return name, parts[name]


@contextlib.contextmanager
def _hooked(parts: list[nn.Module], hook: Hook) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.callback(part.register_forward_hook(hook, with_kwargs=True).remove)
        yield


def _without_padding(values: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over the positions that have a target, if each has a class of its own."""
    if values.ndim != 3 or values.shape[:2] != targets.shape or targets.is_floating_point():
        return values
    counted = (targets != IGNORED_CLASS)[..., None]
    return values.where(counted, 0.0).sum(dim=1) / counted.sum(dim=1).clamp_min(1)


def _input(inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return inputs[0] if inputs else next(iter(keywords.values()))


def _check_finite(rows: Tensor, batch: Batch, where: str) -> None:
    wrong = ~torch.isfinite(rows).all(dim=1)
    if wrong.any():
        raise NonFiniteError(
            f"example {int(batch.ids[int(wrong.nonzero()[0])])} of {batch.source} has a NaN or an infinity {where}, so "
            "that it has no neighbours. Look at that example, or use float64."
        )

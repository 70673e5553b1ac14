"""The seam between a user's module and the engine: a `Model` is a pure function of its chosen parameters.

`TorchModel` wraps any `nn.Module`. It never changes that module: it calls it with other tensors in place of its
parameters and buffers, in eval mode, and leaves modes, hooks and random state as they were. Nothing here knows of
curvature or influence.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from fastif.batch import Batch, Inputs
from fastif.errors import LossError, ModelError, NonFiniteError, NoTrainableParametersError, ShapeError
from fastif.losses import NamedLoss, PerExample, resolve_loss

Choice = str | Callable[[str, nn.Parameter], bool] | None


class Model(Protocol):
    """What the engine asks of a model: outputs as a function of parameters, losses as a function of outputs."""

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters that influence is taken through, detached, by name."""

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return outputs (batch, ...) at these parameters; row i depends on example i alone."""

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example, shape (batch,)."""

    def place(self, batch: Batch) -> Batch:
        """Return the batch on the model's device and in its dtype, its targets checked."""


class TorchModel:
    """Any `nn.Module` with a loss of one number for each example.

    Args:
        module: the trained module. Outputs are a tensor (batch, ...) or an object with such a tensor as `.logits`.
        loss: a name such as "cross_entropy" or "mse_loss", or a function `(outputs, targets) -> (batch,)`.
        trainable: which parameters influence is taken through: those that require a gradient (None), those whose name a
            regular expression finds, or those for which `predicate(name, parameter)` holds. Tied parameters count once.

    >>> model = TorchModel(nn.Linear(2, 3), loss="cross_entropy")
    >>> model
    TorchModel(Linear, loss=cross_entropy, influence through 9 of 9 parameters)
    """

    def __init__(self, module: nn.Module, loss: str | PerExample, *, trainable: Choice = None) -> None:
        self._module = _unwrap(module)
        self._loss = resolve_loss(loss)
        with torch.inference_mode(False):  # weights that are cast here must be open to differentiation later
            self._parameters, self._frozen = _split_parameters(self._module, trainable)
        self._buffers = {name: buffer.detach() for name, buffer in self._module.named_buffers()}
        self._has_recurrent_layer = any(isinstance(part, nn.RNNBase) for part in self._module.modules())
        self._classes: int | None = None

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The chosen parameters, detached, by name."""
        return self._parameters

    @property
    def loss_name(self) -> str:
        """The name of the loss, for reports."""
        return (
            self._loss.name if isinstance(self._loss, NamedLoss) else getattr(self._loss, "__name__", repr(self._loss))
        )

    @property
    def device(self) -> torch.device:
        """Where the chosen parameters live."""
        return next(iter(self._parameters.values())).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all computation: the module's own, but at least float32."""
        return next(iter(self._parameters.values())).dtype

    def __repr__(self) -> str:
        chosen = sum(tensor.numel() for tensor in self._parameters.values())
        every = chosen + sum(tensor.numel() for tensor in self._frozen.values())
        kind = type(self._module).__name__
        return f"TorchModel({kind}, loss={self.loss_name}, influence through {chosen:,} of {every:,} parameters)"

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the module's outputs with `parameters` in place of the chosen ones."""
        # buffers are cloned, so that a module that writes to them in its forward pass writes to nobody's memory
        state = {
            **self._frozen,
            **{name: self._cast(buffer).clone() for name, buffer in self._buffers.items()},
            **parameters,
        }
        arguments, keywords = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
        with self._undisturbed():
            result = functional_call(self._module, state, arguments, keywords)
        outputs = getattr(result, "logits", result)
        if not isinstance(outputs, Tensor) or outputs.ndim == 0:
            raise ModelError(
                f"the module returned a {type(result).__name__}; needed is a tensor (batch, ...) or an object with one "
                "as .logits. Wrap the module in one that returns the tensor its loss is made from."
            )
        return outputs

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example."""
        losses = self._loss(outputs, targets)
        if not isinstance(losses, Tensor) or losses.shape != outputs.shape[:1]:
            seen = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            averaged = isinstance(losses, Tensor) and losses.ndim == 0
            raise LossError(
                f"the loss returned {seen} for a batch of {outputs.shape[0]}; one number for each example is needed, "
                f"shape ({outputs.shape[0]},). "
                + (
                    "It looks already averaged: use reduction='none'."
                    if averaged
                    else "Average over the other dimensions."
                )
            )
        return losses

    def place(self, batch: Batch) -> Batch:
        """Return the batch on the model's device, floating point numbers in its dtype, targets in range."""
        targets = batch.targets
        if isinstance(self._loss, NamedLoss):
            targets = self._loss.prepare_targets(targets, self.dtype)
            if self._classes is None:
                first = batch.rows(0, 1).map(self._send)
                outputs = self._first_outputs(first)
                self._classes = outputs.shape[1] if outputs.ndim > 1 else 1
            self._loss.check_targets(targets, self._classes, batch.ids, batch.source)
        placed = batch.map(self._send)
        return Batch(placed.inputs, self._send(targets), batch.ids, batch.source)

    def check(self, batch: Batch) -> None:
        """Raise unless a placed batch gives finite losses, each from its own example alone."""
        outputs = self._first_outputs(batch)
        if outputs.shape[0] != len(batch):
            raise ShapeError(
                f"the module gave {outputs.shape[0]} rows of outputs for {len(batch)} examples of {batch.source}. "
                "The first dimension of inputs and outputs must count the examples "
                "(recurrent layers: batch_first=True)."
            )
        losses = self.losses(outputs, batch.targets)
        if not torch.isfinite(losses).all():
            row = int((~torch.isfinite(losses)).nonzero()[0])
            raise NonFiniteError(
                f"the loss of example {int(batch.ids[row])} of {batch.source} is {losses[row].item()}. Its influence "
                "would not be a number either: look at that example, and at whether the training diverged."
            )
        alone = self.outputs(self._parameters, batch.rows(0, 1).inputs)
        difference = (alone - outputs[:1]).abs().max()
        if difference > 100 * torch.finfo(self.dtype).eps ** 0.75 * (1 + outputs[:1].abs().max()):
            raise ModelError(
                f"the outputs for an example change by {difference.item():.2g} with the examples beside it in the "
                "batch, so no influence of a single example is defined. "
                "A batch-norm without running statistics does that."
            )

    def _first_outputs(self, batch: Batch) -> Tensor:
        """Run the module on data that it has not seen yet, and say what the data looked like if it refuses."""
        try:
            return self.outputs(self._parameters, batch.inputs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, ModelError | torch.OutOfMemoryError):
                raise
            shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in batch.named_inputs().items())
            raise ShapeError(
                f"the module does not take a batch of {batch.source} with {shapes}. It said: {error}. The data must "
                "have the form that the module was trained on."
            ) from error

    def _send(self, tensor: Tensor) -> Tensor:
        return self._cast(tensor.to(self.device, non_blocking=True))

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Evaluate in a way that every kind of derivative works, and put back all that was touched."""
        modes = {part: part.training for part in self._module.modules()}
        fast_path = torch.backends.mha.get_fastpath_enabled()
        devices = [self.device] if self.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=devices))
            # the fused kernels of attention and of recurrent layers have no forward mode and no second derivative
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            if self._has_recurrent_layer:
                stack.enter_context(_without_fused_recurrence())
            stack.enter_context(torch.autocast(self.device.type, enabled=False))
            try:
                torch.backends.mha.set_fastpath_enabled(False)
                for part in modes:
                    part.training = False  # not .eval(): a module may override it with effects of its own
                yield
            finally:
                torch.backends.mha.set_fastpath_enabled(fast_path)
                for part, mode in modes.items():
                    part.training = mode


@contextlib.contextmanager
def _without_fused_recurrence() -> Iterator[None]:
    before = torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled
    try:
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        torch.backends.cudnn.enabled = False
        yield
    finally:
        torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled = before


def _unwrap(module: nn.Module) -> nn.Module:
    """Return the module inside torch.compile, DataParallel or DistributedDataParallel, and refuse what cannot work."""
    if not isinstance(module, nn.Module):
        raise ModelError(f"needed is a torch.nn.Module, not a {type(module).__name__}.")
    module = getattr(module, "_orig_mod", module)
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        module = module.module
    if isinstance(module, torch.jit.ScriptModule):
        raise ModelError(
            "a scripted module cannot be called with other parameters. Pass the Python module it was made from."
        )
    mixing = [name for name, part in module.named_modules() if _uses_batch_statistics(part)]
    if mixing:
        raise ModelError(
            f"the batch-norm {mixing[0]} keeps no running statistics, so that the outputs for one example depend on "
            "the others in its batch, and no influence of a single example is defined. Train with "
            "track_running_stats=True."
        )
    lazy = [name for name, parameter in module.named_parameters() if nn.parameter.is_lazy(parameter)]
    if lazy:
        raise ModelError(f"the parameter {lazy[0]} has no shape yet. Run the module once on a batch, then train it.")
    return module


def _uses_batch_statistics(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None


def _split_parameters(module: nn.Module, trainable: Choice) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return chosen and frozen parameters, each tied group under its first name, in one dtype of at least float32."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    floats = [parameter for parameter in names if parameter.is_floating_point()]
    dtype = torch.float32
    for parameter in floats:
        dtype = torch.promote_types(dtype, parameter.dtype)
    chosen: dict[str, Tensor] = {}
    frozen: dict[str, Tensor] = {}
    for parameter, aliases in names.items():
        tensor = parameter.detach()
        if parameter.is_floating_point():
            if not torch.isfinite(tensor).all():
                raise NonFiniteError(
                    f"the parameter {aliases[0]} holds a NaN or an infinity. The training diverged or the checkpoint "
                    "is damaged; no influence can be taken through such weights."
                )
            tensor = tensor.to(dtype)
        take = parameter.is_floating_point() and any(_is_chosen(trainable, alias, parameter) for alias in aliases)
        (chosen if take else frozen)[aliases[0]] = tensor
    if not chosen:
        every = [alias for aliases in names.values() for alias in aliases]
        shown = ", ".join(every[:6]) + (" ..." if len(every) > 6 else "")
        wanted = "requires a gradient" if trainable is None else f"is chosen by trainable={trainable!r}"
        raise NoTrainableParametersError(
            f"no parameter {wanted}, so there is nothing to take influence through. The module has: "
            f"{shown or 'none at all'}. Set trainable= to a regular expression that finds some of these names."
        )
    return chosen, frozen


def _is_chosen(trainable: Choice, name: str, parameter: nn.Parameter) -> bool:
    if trainable is None:
        return parameter.requires_grad
    if isinstance(trainable, str):
        return re.search(trainable, name) is not None
    return bool(trainable(name, parameter))

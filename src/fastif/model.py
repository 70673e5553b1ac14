"""The seam between a user's module and the engine: a `Model` is a pure function of its chosen parameters.

`TorchModel` wraps any `nn.Module`. It never changes that module: it calls it with other tensors in place of its
parameters and buffers (`evaluation.py` says how). Nothing here knows of curvature or influence.
"""

import copy
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fastif.batch import STATES, Batch, Inputs
from fastif.data import Examples
from fastif.draws import DrawWatch, require_no_draws
from fastif.errors import FastifError, LossError, ModelError, NonFiniteError, ShapeError
from fastif.evaluation import Evaluation
from fastif.front import FrozenFront
from fastif.keeping import content_sha256
from fastif.losses import NamedLoss, PerExample, resolve_loss
from fastif.parameters import Choice, split_parameters, unwrap
from fastif.precision import RoundingWatch, matmuls, wide
from fastif.snapshot import Snapshot, differing, snapshot, switches
from fastif.turns import in_turn


class Model(Protocol):
    """What the engine asks of a model: outputs as a function of parameters, losses as a function of outputs."""

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters that influence is taken through, detached, by name."""

    @property
    def bytes_per_example(self) -> int:
        """About how much memory one example takes on its way through the model; 0 if not known."""

    @property
    def loss_is_softmax(self) -> bool:
        """Whether the loss is a cross-entropy over the outputs' softmax, which does not bend along (1, ..., 1)."""

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
        trainable: which parameters influence is taken through: those that require a gradient (None), those whose name
            a regular expression finds, or those for which `predicate(name, parameter)` holds. Tied parameters count
            once.

    >>> model = TorchModel(nn.Linear(2, 3), loss="cross_entropy")
    >>> model
    TorchModel(Linear, loss=cross_entropy, influence through 9 of 9 parameters)
    """

    def __init__(self, module: nn.Module, loss: str | PerExample, *, trainable: Choice = None) -> None:
        self._module = unwrap(module)
        self._loss = resolve_loss(loss)
        with in_turn():
            with torch.inference_mode(False):  # weights that are cast here must be open to differentiation later
                self._parameters, self._frozen = split_parameters(self._module, trainable)
            self._buffers = {name: buffer.detach() for name, buffer in self._module.named_buffers()}
            self._switches = switches(self._module)
            self._evaluation = Evaluation(self._module)
            self._front = FrozenFront.of(self._module, self._parameters)
        self._classes: int | None = None
        self._checked = False  # whether examples were seen to be apart from each other
        self._examined = False  # whether they were at other weights, so that it need not be asked again
        self._is_elsewhere = False  # whether the chosen parameters are others than the module's
        self.bytes_per_example = 0
        self._bytes_by_shape: dict[tuple[torch.Size, ...], int] = {}
        # what holds at any weights, and is shared by the model `at` others: what derivatives were seen to be right for
        # (gradients, kinds of curvature), and routes of capture/ that were found right
        self.right_for: set[str] = set()
        self.routes: dict[tuple[str, ...], Any] = {}

    @property
    def module(self) -> nn.Module:
        """The module itself, to be looked at and never to be changed."""
        return self._module

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The chosen parameters, detached, by name."""
        return self._parameters

    @property
    def loss_name(self) -> str:
        """The name of the loss, for reports."""
        if isinstance(self._loss, NamedLoss):
            return self._loss.name
        return getattr(self._loss, "__name__", type(self._loss).__name__)

    @property
    def loss_is_softmax(self) -> bool:
        """Whether the loss is torch's cross-entropy over classes."""
        return isinstance(self._loss, NamedLoss) and self._loss.name == "cross_entropy"

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

    @in_turn()  # while another thread calls the module, the tensors in it are not its own
    def snapshot(self) -> Snapshot:
        """Return what all that outputs depend on is known by, as it is now."""
        return snapshot(self._live(), dict(self._module.named_buffers())) | switches(self._module)

    @in_turn()
    def require_current(self) -> None:
        """Raise if the module has other weights than this model took from it, as where it had to copy them."""
        held, live = {**self._frozen, **self._parameters}, self._live()
        odd = differing(held, live) or differing(self._buffers, dict(self._module.named_buffers()))
        if odd:
            raise ModelError(
                f"the module has another {odd[0]} than when this TorchModel was made, which still holds the old one. "
                "Make a new fastif.TorchModel after further training."
            )
        if self._switches != switches(self._module):
            raise ModelError(
                "the module uses other adapters than when this TorchModel was made, which chose its parameters for "
                "those. Make a new fastif.TorchModel for other adapters, or set them as they were."
            )

    def _live(self) -> dict[str, Tensor]:
        return {**dict(self._module.named_parameters()), **(self._parameters if self._is_elsewhere else {})}

    def in_half(self, dtype: torch.dtype) -> Self:
        """Return the same model, after `check`, with weights in half precision; losses are taken in float32."""
        other = copy.copy(self)
        other._bytes_by_shape, other.routes = {}, {}
        other._parameters = {name: tensor.to(dtype) for name, tensor in self._parameters.items()}
        other._frozen = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in self._frozen.items()
        }
        return other

    def at(self, parameters: dict[str, Tensor]) -> Self:
        """Return the same model with other values of the chosen parameters, after `check` of this one."""
        other = copy.copy(self)
        other._parameters = {name: parameters[name].detach() for name in self._parameters}
        other._examined, other._is_elsewhere = self._checked, True
        return other

    def read(self, data: Any, source: str) -> Examples:
        """Return data in any form that this model understands as examples."""
        return Examples.of(data, source)

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the module's outputs with `parameters` in place of the chosen ones, from stored states where given."""
        if self._front is not None and isinstance(inputs, dict) and STATES in inputs:
            # cloned, as in-place operations such as x.mul_(2) are right on what a layer gave, and not on what is stored
            result = self._called(self._front.above, parameters, (inputs[STATES].clone(),))
        else:
            result = self._called(self._module, parameters, inputs)
        outputs = getattr(result, "logits", result)
        if not isinstance(outputs, Tensor):
            raise ModelError(
                f"the module returned a {type(result).__name__}; needed is a tensor (batch, ...) or an object with one "
                "as .logits. Wrap the module in one that returns the tensor its loss is made from."
            )
        examples = next(iter(inputs.values() if isinstance(inputs, dict) else inputs)).shape[0]
        if outputs.shape[:1] != (examples,):
            raise ShapeError(
                f"the module gave outputs of shape {tuple(outputs.shape)} for {examples} examples. The first dimension "
                "of inputs and outputs must count the examples, also where there is one: write squeeze(-1) rather "
                "than squeeze(), and batch_first=True for recurrent layers."
            )
        return outputs

    def _called(self, module: nn.Module, parameters: dict[str, Tensor], inputs: Inputs) -> Any:
        """Return what the module, or a part of its sequence, gives for these inputs."""
        # buffers are cloned, so that a module that writes to them in its forward pass writes to nobody's memory
        wanted = wide(self.dtype)  # tables of positions and the like lose too much in half precision
        buffers = {
            name: (buffer.to(wanted) if buffer.is_floating_point() else buffer).clone()
            for name, buffer in self._buffers.items()
        }
        tensors = {**self._frozen, **buffers, **parameters}
        if module is not self._module:
            tensors = {name: tensor for name, tensor in tensors.items() if name.partition(".")[0] in module._modules}
        arguments, keywords = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
        with self._evaluation.on(self.device):
            return functional_call(module, tensors, arguments, keywords)

    @property
    def prefix(self) -> str | None:
        """What needs to be computed only once: the parts of an `nn.Sequential` before the first chosen parameter."""
        return None if self._front is None else self._front.words

    def encode(self, batch: Batch) -> Tensor:
        """Return what the frozen front gives for a placed batch: the input of the first part that is not frozen."""
        assert self._front is not None
        states: Tensor = self._called(self._front.below, self._parameters, batch.inputs)
        return states

    def _keeps_rows(self, batch: Batch) -> bool:
        """Return whether the front gives one tensor with a row for each example, the same beside any others."""
        with torch.no_grad():
            several, one = self.encode(batch), self.encode(batch.rows(0, 1))
        if not isinstance(several, Tensor) or several.shape[:1] != (len(batch),) or one.shape != several[:1].shape:
            return False
        if not one.is_floating_point():
            return torch.equal(one, several[:1])
        rounding = 100 * torch.finfo(one.dtype).eps ** 0.75
        return torch.allclose(one, several[:1], rtol=rounding, atol=rounding)

    def fingerprint(self) -> str:
        """Return a hash of the frozen front: its tensors, and how its parts are set."""
        assert self._front is not None
        return self._front.settings() + content_sha256({**self._frozen, **self._buffers})

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example."""
        losses = self._loss(outputs.to(wide(outputs.dtype)), targets)
        require_one_each(losses, outputs, "loss")
        return losses

    def place(self, batch: Batch) -> Batch:
        """Return the batch on the model's device, floating point numbers in its dtype, targets in range."""
        targets = batch.targets
        if isinstance(self._loss, NamedLoss):
            targets = self._loss.prepare_targets(targets, wide(self.dtype))
            if self._classes is None:
                outputs = self._first_outputs(batch.rows(0, 1).map(self._send))
                self._classes = outputs.shape[1] if outputs.ndim > 1 else 1
            self._loss.check_targets(targets, self._classes, batch.ids, batch.source)
        targets = self._moved(targets)
        targets = targets.to(wide(self.dtype)) if targets.is_floating_point() else targets
        return Batch(batch.map(self._send).inputs, targets, batch.ids, batch.source)

    def check(self, batch: Batch) -> None:
        """Raise unless a placed batch gives finite losses, each from its own example alone.

        The latter is not asked again of a model that was checked before `at`: modules rarely mix examples at some
        weights alone.
        """
        with in_turn(), matmuls("float32", self.device):  # tf32 rounds by more than what is looked for
            self._check(batch)

    def settle(self, batch: Batch) -> None:
        """Give up ways to go on from stored states that change the outputs for a placed batch; here there are none."""

    def _check(self, batch: Batch) -> None:
        versions = [tensor._version for tensor in batch.tensors().values() if not tensor.is_inference()]
        watch, draws = RoundingWatch(self.device), DrawWatch(self.device, is_known=self._examined)
        with torch.autocast(self.device.type, enabled=False), watch, draws:
            outputs = self._first_outputs(batch)
        if draws.drew:
            require_no_draws(lambda: self._first_outputs(batch), self.device)
        if not self._checked and not self._examined:
            watch.tell(outputs, self.dtype)
        losses = self._first_losses(outputs, batch)
        if versions != [tensor._version for tensor in batch.tensors().values() if not tensor.is_inference()]:
            raise ModelError(
                "the module writes to its inputs in place, so that a second pass over the data would see other data. "
                "Write x = x - ... rather than x -= ... where x is an input."
            )
        if not torch.isfinite(losses).all():
            row = int((~torch.isfinite(losses)).nonzero()[0])
            raise NonFiniteError(
                f"the loss of example {int(batch.ids[row])} of {batch.source} is {losses[row].item()}. Its influence "
                "would not be a number either: look at that example, and at whether the training diverged."
            )
        for row in () if self._examined else {0, len(batch) - 1}:
            alone = batch.rows(row, row + 1)
            alone_outputs = self._first_outputs(alone)
            self._require_same(alone_outputs, outputs[row : row + 1], "outputs")
            self._require_same(self._first_losses(alone_outputs, alone), losses[row : row + 1], "loss")
        from_states = isinstance(batch.inputs, dict) and STATES in batch.inputs
        if self._front is not None and not from_states and not self._keeps_rows(batch):
            self._front = None  # what it gives cannot be kept example by example
        self._checked = self._checked or len(batch) > 1
        self.bytes_per_example = self._saved_bytes(batch.rows(0, 1))

    def _require_same(self, alone: Tensor, beside: Tensor, what: str) -> None:
        difference = float((alone - beside).abs().max())
        if difference > 100 * torch.finfo(self.dtype).eps ** 0.75 * (1 + float(beside.abs().max())):
            raise ModelError(
                f"the {what} for an example changes by {difference:.2g} with the examples beside it in the batch, so "
                "that no influence of a single example is defined. Look for an operation across the batch, such as a "
                "mean over it, or targets (batch,) that are broadcast against outputs (batch, 1)."
            )

    def _saved_bytes(self, one: Batch) -> int:
        """Return the memory of all that a backward pass through one example would need, parameters apart."""
        shapes = tuple(tensor.shape for tensor in one.named_inputs().values())
        if shapes not in self._bytes_by_shape:
            self._bytes_by_shape[shapes] = self._count_saved_bytes(one)
        return self._bytes_by_shape[shapes]

    def _count_saved_bytes(self, one: Batch) -> int:
        known = {tensor.data_ptr() for tensor in (*self._parameters.values(), *self._frozen.values())}
        total = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal total
            if tensor.layout == torch.strided:  # a sparse one is a constant of the module
                total += 0 if tensor.data_ptr() in known else tensor.nbytes
            return tensor

        leaves = {name: tensor.detach().requires_grad_() for name, tensor in self._parameters.items()}
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor),
        ):
            self.outputs(leaves, one.inputs)
        return total

    def _first_outputs(self, batch: Batch) -> Tensor:
        """Run the module on data that it has not seen yet, and say what the data looked like if it refuses."""
        try:
            return self.outputs(self._parameters, batch.inputs)
        except (FastifError, torch.OutOfMemoryError):
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in batch.named_inputs().items())
            raise ShapeError(
                f"the module does not take a batch of {batch.source} with {shapes}. It said: {error}. The data must "
                "have the form that the module was trained on."
            ) from error
        except (AssertionError, LookupError, AttributeError) as error:
            raise ModelError(_refusal("the module's forward", error, batch)) from error

    def _first_losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Take the loss of data that it has not seen yet, and say what it was given if it refuses."""
        try:
            return self.losses(outputs, batch.targets)
        except (FastifError, torch.OutOfMemoryError):
            raise
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise LossError(
                f"the loss {self.loss_name} does not take outputs {tuple(outputs.shape)} of {outputs.dtype} with "
                f"targets {tuple(batch.targets.shape)} of {batch.targets.dtype}. It said: {error}. Torch's class "
                "losses want outputs (batch, classes, ...) and int64 targets (batch, ...): permute(0, 2, 1) puts "
                "classes second."
            ) from error
        except (AssertionError, LookupError, AttributeError) as error:
            raise LossError(_refusal(f"the loss {self.loss_name}", error, batch)) from error

    def _moved(self, tensor: Tensor) -> Tensor:
        if self.device.type != "cuda" or tensor.is_cuda:
            return tensor.to(self.device)
        # from pinned memory, as a copy from any other waits for all that the GPU has to do before it
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _send(self, tensor: Tensor) -> Tensor:
        sent = self._moved(tensor)
        return sent.to(self.dtype) if sent.is_floating_point() else sent


def _refusal(what: str, error: Exception, batch: Batch) -> str:
    seen = ", ".join(f"{name} {tuple(tensor.shape)} of {tensor.dtype}" for name, tensor in batch.tensors().items())
    return (
        f"{what} failed on the first batch of {batch.source} with {type(error).__name__}: {error}. Given was {seen}; "
        "a dictionary's keys become names of arguments, the columns of a tuple come in their order. Give the data "
        "the form, and the module the attributes, that it was trained with."
    )


def require_one_each(values: Tensor, outputs: Tensor, what: str) -> None:
    """Raise unless a loss or measure gave one number for each example."""
    if isinstance(values, Tensor) and values.shape == outputs.shape[:1]:
        if values.is_floating_point():
            return
        raise LossError(
            f"the {what} returned {str(values.dtype).removeprefix('torch.')} numbers, which have no derivative. Return "
            "floating point numbers that change with the outputs, as a cross-entropy does, and no count of errors."
        )
    seen = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
    averaged = isinstance(values, Tensor) and values.ndim == 0
    raise LossError(
        f"the {what} returned {seen} for a batch of {outputs.shape[0]}; one number for each example is needed, shape "
        f"({outputs.shape[0]},). "
        + ("It looks already averaged: use reduction='none'." if averaged else "Average over the other dimensions.")
    )

"""Whether an example is one thing: the same values each time it is read, and the same loss in whatever batch it is.

Asked of a few examples before any work is done. Knows models and examples, and nothing of curvature or scores.
"""

import warnings

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.data import Examples
from fastif.errors import DataError, FastifWarning, ModelError
from fastif.model import Model, TorchModel
from fastif.precision import matmuls

FEW = 8
SMALL = 0.01  # of a loss: less of it may come from padding, with a warning


class Unwritten:
    """Data that nobody writes to while something that was made of them is used."""

    def __init__(self, *data: Examples) -> None:
        self._before = [(each, each.versions()) for each in data]

    def require(self) -> None:
        """Raise if a tensor of the data was written to since."""
        for data, before in self._before:
            if data.versions() != before:
                raise DataError(
                    f"a tensor of {data.source} was written to since this explainer was made, so that the curvature it "
                    "holds belongs to other data. Make a new fastif.Explainer for changed examples or labels."
                )


def check_examples(model: TorchModel, data: Examples) -> None:
    """Raise unless the first examples can be worked with, and are the same each time and in any batch."""
    batch = data.batch(torch.arange(min(len(data), FEW), device="cpu"))
    model.check(model.place(batch))
    if data.lengths is not None:
        model.settle(model.place(data.batch(of_many_lengths(data))))
    _check_readings(batch, data.batch(batch.ids))
    if data.may_be_padded:
        with matmuls("float32", model.device), torch.no_grad():  # tf32 rounds by more than what is looked for
            _check_padding(model, data)


def _check_readings(first: Batch, second: Batch) -> None:
    """Raise if the same examples were read as something else."""
    again = second.tensors()
    for name, tensor in first.tensors().items():
        if tensor.shape == again[name].shape and torch.equal(tensor, again[name]):
            continue
        raise DataError(
            f"{first.source} gives other values in {name} each time the same examples are read. Curvature, gradients "
            "and scores would each be of other data. Switch augmentation off (random crops, noise, masking) with the "
            "transforms of evaluation, or store the examples once, as tensors."
        )


def _check_padding(model: Model, data: Examples) -> None:
    """Raise, or warn, if the loss of a short example is another beside longer ones than alone."""
    ids = of_many_lengths(data)
    try:
        together = data.batch(ids)
    except DataError:
        return  # a collate function that takes examples of one length alone: then none is padded
    row, single = min(enumerate(data.batch([number]) for number in ids), key=lambda each: _numbers(each[1]))
    if _numbers(single) * len(ids) == _numbers(together):
        return  # none is padded
    losses = _losses(model, together)
    alone, beside = float(_losses(model, single)[0]), float(losses[row])
    difference = abs(alone - beside)
    if difference <= 100 * torch.finfo(losses.dtype).eps ** 0.75 * (1 + abs(beside)):
        return
    message = (
        f"the loss of example {int(ids[row])} of {data.source} is {alone:.6g} alone and {beside:.6g} "
        "in a batch with longer ones: its padding enters the loss, so that scores depend on the batch size. Divide "
        "the loss by the number of real positions of each example rather than by all, give padded targets the class "
        "-100, and see that the module leaves padding out (an attention mask, lengths). Or let collate pad all "
        "examples to one length."
    )
    if difference > SMALL * (1 + abs(beside)):
        raise ModelError(message)
    warnings.warn(message, FastifWarning, stacklevel=4)


def of_many_lengths(data: Examples) -> Tensor:
    """Return the numbers of a few examples: the shortest and the longest where lengths are known, else any."""
    if data.lengths is not None:
        ends = sorted({int(data.lengths.argmin()), int(data.lengths.argmax())})
        return torch.tensor(ends, device="cpu")
    return torch.linspace(0, len(data) - 1, min(len(data), FEW), device="cpu").round().long()


def _losses(model: Model, batch: Batch) -> Tensor:
    placed = model.place(batch)
    return model.losses(model.outputs(model.parameters, placed.inputs), placed.targets)


def _numbers(batch: Batch) -> int:
    return sum(tensor.numel() for tensor in batch.tensors().values())

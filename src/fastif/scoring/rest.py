"""Scores through the parameters that no captured call accounts for: the general derivatives, restricted to them."""

from torch import Tensor

from fastif import vectors
from fastif.batch import Batch, Inputs
from fastif.derivatives import directional_derivatives, gradients
from fastif.model import Model
from fastif.vectors import Block

DIRECTIONS_BY_GRADIENT = 5  # from here on, forming gradients costs less than one derivative for each direction


class Restricted:
    """A model as a function of some of its parameters; the others stay what they are."""

    def __init__(self, model: Model, names: tuple[str, ...]) -> None:
        self._model = model
        self._all = model.parameters
        self.parameters = {name: model.parameters[name] for name in names}
        self.bytes_per_example = model.bytes_per_example
        self.loss_is_softmax = model.loss_is_softmax

    def outputs(self, parameters: dict[str, Tensor], inputs: Inputs) -> Tensor:
        """Return the model's outputs with these parameters in their places."""
        return self._model.outputs({**self._all, **parameters}, inputs)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each example."""
        return self._model.losses(outputs, targets)

    def place(self, batch: Batch) -> Batch:
        """Return the batch as the model wants it."""
        return self._model.place(batch)


def scores_through(model: Restricted, batch: Batch, directions: Block) -> Tensor:
    """Return the part of the scores that goes through these parameters, (directions, len(batch))."""
    if vectors.width(directions) < DIRECTIONS_BY_GRADIENT:
        return directional_derivatives(model, batch, directions)
    return vectors.flatten(directions) @ vectors.flatten(gradients(model, batch)).T

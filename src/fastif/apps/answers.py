"""What a model says of some examples: outputs, losses, and which it gets right. Knows classes as the largest output."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastif.data import Examples
from fastif.errors import ConfigurationError, DataError
from fastif.model import TorchModel

BATCH_SIZE = 256
Group = str  # "right" or "wrong", what the model is about a query; "all" where nobody knows
RIGHT, WRONG, ALL = "right", "wrong", "all"


@dataclass(frozen=True)
class Answers:
    """Outputs, losses and targets of examples, in their order, on the CPU."""

    outputs: Tensor
    losses: Tensor
    targets: Tensor

    @property
    def are_classes(self) -> bool:
        """Whether every example has one class of several."""
        return one_class_each(self.outputs, self.targets)

    @property
    def predicted(self) -> Tensor:
        """The class of the largest output of each example."""
        require_one_class_each(self.outputs, self.targets)
        return self.outputs.argmax(dim=1)

    @property
    def right(self) -> tuple[bool | None, ...]:
        """Whether each example is predicted right; None without classes."""
        return tuple((self.predicted == self.targets).tolist()) if self.are_classes else (None,) * len(self.targets)


def one_class_each(outputs: Tensor, targets: Tensor) -> bool:
    """Whether every example has one class of several."""
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    return several and targets.ndim == 1 and not targets.is_floating_point()


def require_one_class_each(outputs: Tensor, targets: Tensor) -> None:
    """Raise unless every example has one class of several."""
    if not one_class_each(outputs, targets):
        raise ConfigurationError(
            "the model does not tell one class of several apart for each example, so that it has no prediction "
            "that is right or wrong. This is made for classifiers with one label each."
        )


def answers(model: TorchModel, parameters: dict[str, Tensor], examples: Examples) -> Answers:
    """Return what the model says of all examples at these parameters."""
    everyone = examples.everyone()
    order = everyone[examples.by_length(everyone)]
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    with torch.no_grad():
        for batch in examples.batches(BATCH_SIZE, order):
            placed = model.place(batch)
            outputs = model.outputs(parameters, placed.inputs)
            losses = model.losses(outputs, placed.targets)
            parts.append((outputs.cpu(), losses.double().cpu(), placed.targets.cpu()))
    back = order.argsort()
    return Answers(*(torch.cat(column)[back] for column in zip(*parts, strict=True)))


def check_labelled(queries: Examples) -> None:
    """Raise for queries whose labels are the model's own predictions."""
    if queries.targets_are_predictions:
        raise DataError(
            "the queries have no labels, so that the model is neither right nor wrong about them, and their loss is "
            "that of its own prediction. Explain queries that have labels: fastif explain --query FILE, with a column "
            "of labels."
        )


def groups(right: tuple[bool | None, ...]) -> dict[Group, Tensor]:
    """Return the numbers of the queries that the model gets right, and of those it does not; or all as one group.

    >>> {name: rows.tolist() for name, rows in groups((True, False, True)).items()}
    {'right': [0, 2], 'wrong': [1]}
    """
    if any(each is None for each in right):
        return {ALL: torch.arange(len(right))}
    flags = torch.tensor(right, dtype=torch.bool)
    found = {RIGHT: flags.nonzero().flatten(), WRONG: (~flags).nonzero().flatten()}
    return {name: rows for name, rows in found.items() if len(rows)}


def in_words(group: Group) -> str:
    """Return what a group of queries is.

    >>> in_words("wrong")
    'queries predicted wrong'
    """
    return "all queries" if group == ALL else f"queries predicted {group}"

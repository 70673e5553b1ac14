r"""What one step does to the weights: plain gradient descent, or a Newton step.

$\theta - \eta \bar g$ and $\theta - \eta (H + \lambda I)^{-1} \bar g$, with $\bar g$ the mean gradient of the chosen
examples. The model itself is never changed: weights go in and come out. Knows no influence.
"""

from collections.abc import Callable

import torch

from fastif.apps.correction import BATCH_SIZE, Parameters
from fastif.data import Examples
from fastif.errors import ConvergenceError
from fastif.evaluation import differentiated_once
from fastif.model import TorchModel
from fastif.vectors import Vector

Solve = Callable[[Vector], Vector]


def mean_gradient(model: TorchModel, parameters: Parameters, examples: Examples) -> Vector:
    """Return the gradient of the examples' mean loss at these parameters, in eval mode.

    >>> model = TorchModel(torch.nn.Linear(1, 1, bias=False), "mse_loss")
    >>> data = Examples((torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 0.0])))
    >>> mean_gradient(model, {"weight": torch.tensor([[3.0]])}, data)  # of (9 + 36) / 2: 2 w mean(x^2)
    {'weight': tensor([[15.]])}
    """
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in parameters.items()}
    with torch.inference_mode(False), torch.enable_grad(), differentiated_once():
        for batch in examples.batches(BATCH_SIZE):
            placed = model.place(batch)
            losses = model.losses(model.outputs(leaves, placed.inputs), placed.targets)
            (losses.sum() / len(examples)).backward()
    return {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad.detach() for name, leaf in leaves.items()}


def stepped(parameters: Parameters, direction: Vector, rate: float) -> Parameters:
    """Return the parameters after a step of a rate against a direction."""
    after = {name: tensor - rate * direction[name] for name, tensor in parameters.items()}
    if not all(bool(torch.isfinite(tensor).all()) for tensor in after.values()):
        raise ConvergenceError(
            f"a step met a number that is not finite. Lower the learning rate, {rate:g} now, or raise the damping."
        )
    return after

r"""Where weight decay stands: in the curvature alone, or in the gradients of queries and training examples too.

Of an objective $\frac1n \sum_i \ell_i + \frac c2 \|\theta\|^2$ the decay adds c to the diagonal of the curvature
(curvature.py). What is asked may leave it out of the gradients, "curvature":

$$I(z_i, z_q) = -\nabla m(z_q)^\top (H + cI + \lambda I)^{-1} \nabla \ell(z_i),$$

or count it into the loss of every example, "everything":

$$I(z_i, z_q) = -(\nabla m(z_q) + c\theta)^\top (H + cI + \lambda I)^{-1} (\nabla \ell(z_i) + c\theta).$$

With s the solution for the query, the second is $-s \cdot \nabla \ell(z_i) - c\, s \cdot \theta$. Its last term is one
constant for all training examples of a query, and moves no rank; but s is another, so that ranks may change through it.
The authors of FastIF do so, but leave out biases and the weights of norms, as trainings often do: "matrices" is the
second for parameters of two dimensions and more. It leaves c out of the curvature, where it would stand on a part of
the diagonal; they have it there, 0.01 beside a damping of 50 and more.
Knows gradients and directions as blocks of vectors; neither solvers nor data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.errors import ConfigurationError
from fastif.losses import PerExample
from fastif.model import Model
from fastif.vectors import Block

DecayIn = Literal["curvature", "everything", "matrices"]
GradientsOf = Callable[[Batch, PerExample], Block]


@dataclass(frozen=True)
class WeightDecay:
    r"""c of a term $\frac c2 \|\theta\|^2$, and where it stands.

    Args:
        amount: c.
        where: "curvature", "everything" or "matrices".
        model: its parameters are $\theta$.

    >>> import torch, fastif
    >>> module = torch.nn.Linear(2, 1, bias=False)
    >>> _ = module.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
    >>> decay = WeightDecay(0.5, "everything", fastif.TorchModel(module, loss="mse_loss"))
    >>> decay.along({"weight": torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]])})  # c s . theta
    tensor([1.5000, 3.5000])
    """

    amount: float
    where: DecayIn
    model: Model

    def __post_init__(self) -> None:
        if self.where not in get_args(DecayIn):
            raise ConfigurationError(
                f"weight_decay_in must be one of {', '.join(get_args(DecayIn))}, not {self.where!r}."
            )
        if isinstance(self.amount, bool) or not isinstance(self.amount, Real):
            raise ConfigurationError(f"weight_decay must be a number, not {self.amount!r}.")
        if self.in_gradients and self.amount == 0:
            raise ConfigurationError(
                f"weight_decay_in is {self.where!r} and weight_decay is 0, so that nothing would change. Give "
                "weight_decay=c of an objective with c/2 ||theta||^2 (for wd * sum(theta^2), c is 2 wd), or leave "
                "weight_decay_in out."
            )

    @property
    def in_gradients(self) -> bool:
        """Whether gradients have it too."""
        return self.where != "curvature"

    @property
    def in_curvature(self) -> float:
        """What of it stands on the diagonal of the curvature."""
        return 0.0 if self.where == "matrices" else self.amount

    def of_queries(self, gradients_of: GradientsOf) -> GradientsOf:
        r"""Return what makes $\nabla m(z_q) + c\theta$ of each query, from what makes $\nabla m(z_q)$."""
        if not self.in_gradients:
            return gradients_of

        def with_decay(batch: Batch, measure: PerExample) -> Block:
            return vectors.add(gradients_of(batch, measure), self._theta(), self.amount)

        return with_decay

    def along(self, directions: Block) -> Tensor | None:
        r"""Return $c\, s \cdot \theta$ for each direction s; None where no gradient has weight decay.

        It is what the decay adds to the product of s with the gradient of any training example.
        """
        if not self.in_gradients:
            return None
        return self.amount * vectors.dot(directions, self._theta())

    def require_loss_alone(self, what: str) -> None:
        """Raise where gradients are not those of the loss, which is all that something knows of."""
        if self.in_gradients:
            raise ConfigurationError(
                f"{what} knows the gradient of the loss alone, and weight_decay_in is {self.where!r}, which puts "
                "weight decay into it: the two would not fit. Make a fastif.Explainer with weight_decay_in='curvature' "
                "for it."
            )

    def words(self, *, curved: bool) -> str:
        """Say where it stands, for a line that says whether there is a curvature; nothing where it is nowhere."""
        gradients = "gradients of matrices" if self.where == "matrices" else "gradients"
        places = [*["curvature"] * (curved and self.in_curvature > 0), *[gradients] * self.in_gradients]
        return f"weight decay {self.amount:.3g} in {' and '.join(places)}" if self.amount and places else ""

    def _theta(self) -> Block:
        found = {name: tensor[None] for name, tensor in self.model.parameters.items()}
        if self.where != "matrices":
            return found
        return {name: tensor if tensor.ndim > 2 else torch.zeros_like(tensor) for name, tensor in found.items()}

"""Audit: which training labels are likely wrong, and which examples the model had to learn by heart.

Every training example gets its loss, its self-influence, and what the model would say of it had it not been trained on
it: the loss of its label then, and the label that the model itself would give. Three rankings come from that; which of
them finds wrong labels best is measured by `python -m fastif.bench.audit`. Knows an explainer, and no texts or files.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from fastif.apps.answers import one_class_each
from fastif.errors import ConfigurationError
from fastif.explainer import Explainer
from fastif.keeping import Tensors
from fastif.left_out import MOST_LEVERAGE, MOST_OUTPUTS, LeftOut

Ranking = Literal["left-out", "self-influence", "loss"]
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)
DEFAULT_RANKING: Ranking = "left-out"


@dataclass(frozen=True)
class Audit:
    """What an audit found of each of n training examples; tensors of shape (n,), on the CPU.

    `losses_without` is the loss of an example's own label had the model not been trained on it, and `suggested` the
    label that the model would then give, with its probability. `predicted` is what it says now. These are None where
    there is not one label for each example. `self_influence_error` is by how much self-influence may be too large, and
    `leverage` how much of its own prediction an example makes up, from 0 to 1. `notes` says what a reader should know.
    """

    losses: Tensor
    losses_without: Tensor
    self_influence: Tensor
    self_influence_error: Tensor
    leverage: Tensor
    predicted: Tensor | None
    predicted_probability: Tensor | None
    suggested: Tensor | None
    suggested_probability: Tensor | None
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.losses)

    def values(self, by: Ranking = DEFAULT_RANKING) -> Tensor:
        """Return what a ranking goes by, one number for each example."""
        if by not in RANKINGS:
            raise ConfigurationError(f"an audit ranks by {', '.join(RANKINGS)}, not by {by!r}.")
        return {"left-out": self.losses_without, "self-influence": self.self_influence, "loss": self.losses}[by]

    def ranking(self, by: Ranking = DEFAULT_RANKING) -> Tensor:
        """Return the numbers of all examples, the most suspicious first; of equal ones the first first."""
        return self.values(by).argsort(descending=True, stable=True)

    def shared(self, top: int, first: Ranking, second: Ranking) -> int:
        """Return how many of the top examples by one ranking are among as many by another."""
        return len(set(self.ranking(first)[:top].tolist()) & set(self.ranking(second)[:top].tolist()))


def audit(explainer: Explainer) -> Audit:
    """Look at every training example of an explainer, in one pass over them.

    >>> import fastif, torch
    >>> x = torch.tensor([[-2.0], [-1.0], [-1.5], [1.0], [2.0], [1.5]])
    >>> y = torch.tensor([0, 0, 0, 1, 1, 0])  # the last is wrong
    >>> module = torch.nn.Linear(1, 2)
    >>> _ = module.load_state_dict({"weight": torch.tensor([[-1.0], [1.0]]), "bias": torch.zeros(2)})
    >>> found = audit(fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=0.1))
    >>> found.ranking()[0].item(), found.suggested.tolist()
    (5, [0, 0, 0, 1, 1, 1])
    """
    told = explainer.left_out(summary)
    return Audit(
        losses=told["losses"],
        losses_without=told["losses_without"],
        self_influence=told["self_influence"],
        self_influence_error=told["self_influence_error"],
        leverage=told["leverage"],
        predicted=told.get("predicted"),
        predicted_probability=told.get("predicted_probability"),
        suggested=told.get("suggested"),
        suggested_probability=told.get("suggested_probability"),
        notes=_notes(explainer, told["leverage"], "suggested" in told),
    )


def summary(left: LeftOut) -> Tensors:
    """Return what an audit keeps of each example."""
    names = ("losses", "losses_without", "self_influence", "self_influence_error", "leverage")
    kept = {name: getattr(left, name) for name in names}
    if not one_class_each(left.outputs, left.batch.targets):
        return kept
    for outputs, label in ((left.outputs, "predicted"), (left.outputs_without, "suggested")):
        probability, best = outputs.softmax(dim=1).max(dim=1)
        kept |= {label: best, f"{label}_probability": probability}
    return kept


def _notes(explainer: Explainer, leverage: Tensor, suggests: bool) -> tuple[str, ...]:
    notes = []
    if not suggests:
        notes.append("There is no suggested label, as examples do not have one label of several classes each.")
    outputs = explainer.outputs_per_example
    if outputs > MOST_OUTPUTS:
        notes.append(
            f"The model has {outputs:,} outputs: of each example, only those in which its loss is steepest were "
            "followed when it was left out."
        )
    beyond = int((leverage > MOST_LEVERAGE).sum())
    if beyond:
        notes.append(
            f"{beyond:,} examples make up their own prediction almost alone (leverage beyond {MOST_LEVERAGE}): what "
            "the model would say without them is not well known."
        )
    return tuple(notes)

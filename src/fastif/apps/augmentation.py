r"""Augmentation: which new labelled examples to train on, for the part where a model fails.

Examples of a pool that the model was never trained on are ranked by $-\bar g_a^\top (H + \lambda I)^{-1} g_z$, with
$\bar g_a$ the mean gradient of the anchors. H stays the mean over the data that the model *was* trained on: it says how
that data holds the weights in place, which new examples have no part in. (The authors took it over the pool.) Without
curvature the same formula is what one gradient step on z changes. Knows models and examples, and no files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from fastif import ranking
from fastif.apps.iteration.plan import Effect
from fastif.errors import ConfigurationError
from fastif.explainer import Explainer
from fastif.model import TorchModel
from fastif.ranking import Ranked
from fastif.solvers import Identity


@dataclass(frozen=True)
class RankedPool:
    """The influence of each example of a pool on the mean of the anchors, (pool,), and how it was found.

    Negative helps: training on the example lowers the anchors' loss.
    """

    scores: Tensor
    ids: Tensor
    how: str

    def best(self, top: int) -> Ranked:
        """Return the most helpful examples, the best first; fewer than `top` where fewer help."""
        return ranking.helpful(self.scores, self.ids, top)

    @property
    def helpful(self) -> int:
        """How many help."""
        return int((self.scores < 0).sum())


def rank_pool(
    model: TorchModel,
    pool: Any,
    *,
    anchors: Any,
    trained_on: Any,
    effect: Effect = "finetune-step",
    options: Mapping[str, Any] | None = None,
) -> RankedPool:
    """Rank a pool of new labelled examples by how much they help the anchors.

    Args:
        model: a `TorchModel`, or anything with its methods.
        pool: new labelled examples.
        anchors: labelled examples of the part where the model fails.
        trained_on: what the model was trained on, which curvature is taken over.
        effect: "finetune-step": by what a gradient step on an example changes now; "retrain": by what training on it,
            beside the data so far, would change.
        options: of the explainer: solver, damping, candidates and so on.

    >>> import torch, fastif
    >>> x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> _ = torch.nn.init.zeros_(module.weight)
    >>> model = fastif.TorchModel(module, "cross_entropy")
    >>> pool, anchors = (x, torch.tensor([0, 1, 0])), (x[1:2], torch.tensor([1]))
    >>> rank_pool(model, pool, anchors=anchors, trained_on=pool).best(3).ids
    tensor([1])
    """
    if effect not in ("finetune-step", "retrain"):
        raise ConfigurationError(f"effect must be 'finetune-step' or 'retrain', not {effect!r}.")
    given = dict(options or {})
    if "hessian_data" in given:
        raise ConfigurationError("hessian_data is what the model was trained on here: give it as trained_on.")
    solver: Any | Literal["auto"] = Identity() if effect == "finetune-step" else given.get("solver", "auto")
    explainer = Explainer(model, pool, hessian_data=trained_on, **{**given, "solver": solver})
    scores = explainer.scores(anchors, reduce="mean")
    return RankedPool(scores.values[0], scores.train_ids[0], explainer.summary())

"""pyDVL: the influence models of `pydvl.influence.torch`, fitted and asked as its README shows."""

from pydvl.influence.torch import (
    ArnoldiInfluence,
    CgInfluence,
    DirectInfluence,
    EkfacInfluence,
    LissaInfluence,
    NystroemSketchInfluence,
)
from pydvl.influence.torch.preconditioner import NystroemPreconditioner
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ["pyDVL"]
BATCH = 256


def fitted(given, model):
    """Fit, and return the influences; pyDVL's are positive where an example helps."""
    with given.stage("fit"):
        model = model.fit(DataLoader(TensorDataset(*given.train), batch_size=BATCH))
    with given.stage("score"):
        return -model.influences(*given.queries, *given.train)


def second_order(kind, given, **options):
    """Make one of the models that take the true Hessian and a regularization."""
    return fitted(given, kind(given.module, nn.functional.cross_entropy, regularization=given.damping, **options))


def block_cg(given, **options):
    """Conjugate gradients for all queries together, with pyDVL's own preconditioner."""
    options |= {"preconditioner": NystroemPreconditioner(rank=100), "solve_simultaneously": True}
    return second_order(CgInfluence, given, **options)


METHODS = {
    "DirectInfluence": lambda given: second_order(DirectInfluence, given),
    "CgInfluence": lambda given: second_order(CgInfluence, given),
    "CgInfluence, block and preconditioned": block_cg,
    "CgInfluence, block and preconditioned, loose": lambda given: block_cg(given, rtol=0.1),
    "LissaInfluence": lambda given: second_order(LissaInfluence, given),
    "ArnoldiInfluence": lambda given: second_order(ArnoldiInfluence, given, rank=100, use_woodbury=True),
    "NystroemSketchInfluence": lambda given: second_order(NystroemSketchInfluence, given, rank=100),
    "EkfacInfluence": lambda given: fitted(
        given, EkfacInfluence(given.module, update_diagonal=True, hessian_regularization=given.damping)
    ),
}

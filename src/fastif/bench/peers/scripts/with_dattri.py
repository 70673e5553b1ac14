"""dattri: its attributors with one batch of all training data for the curvature, as its documentation advises."""

import torch
from dattri.algorithm.influence_function import (
    IFAttributorArnoldi,
    IFAttributorCG,
    IFAttributorDataInf,
    IFAttributorEKFAC,
    IFAttributorExplicit,
    IFAttributorLiSSA,
)
from dattri.algorithm.tracin import TracInAttributor
from dattri.algorithm.trak import TRAKAttributor
from dattri.task import AttributionTask
from torch import nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ["dattri"]


def loaders(given, batch=None):
    """Return loaders of the training data and the queries; fewer batches are less work for dattri."""
    pairs = given.train, given.queries
    return [DataLoader(TensorDataset(*pair), batch_size=batch or len(pair[1]), shuffle=False) for pair in pairs]


def mean_loss(given):
    """Return the loss of a batch. LiSSA turns the labels into floats, so that they have to be turned back."""

    def loss(parameters, data):
        inputs, labels = data
        return nn.functional.cross_entropy(functional_call(given.module, parameters, inputs), labels.long())

    return loss


def one_loss(given):
    """Return the loss of a single example, for the attributors that map over examples themselves."""

    def loss(parameters, data):
        inputs, label = data
        return nn.functional.cross_entropy(functional_call(given.module, parameters, inputs[None]), label[None])

    return loss


def influence(kind, given, batch=None, **options):
    """Return the scores of an influence-function attributor; dattri's are positive where an example helps."""
    task = AttributionTask(mean_loss(given), given.module, given.module.state_dict())
    attributor = kind(task=task, device="cpu", **options)
    full, queries = loaders(given, batch)
    with given.stage("fit"):
        attributor.cache(full)
    # EK-FAC takes gradients by `backward` while it fits; all others are asked without a graph, as in the examples.
    with given.stage("score"), torch.no_grad():
        return -attributor.attribute(full, queries).T


def lissa(given, depth, batch, scaling):
    """Run LiSSA: what dattri adds to the Hessian is its damping times its scaling."""
    options = {"recursion_depth": depth, "batch_size": batch, "scaling": scaling, "damping": given.damping / scaling}
    return influence(IFAttributorLiSSA, given, **options)


def ekfac(given):
    """Run EK-FAC: its eigenvalues are of gradients of a batch's mean, smaller by the square of the batch."""
    return influence(IFAttributorEKFAC, given, damping=given.damping / len(given.train[1]) ** 2)


def tracin(given):
    """The dot product of gradients, without a projection."""
    task = AttributionTask(one_loss(given), given.module, given.module.state_dict())
    attributor = TracInAttributor(task, weight_list=torch.ones(1), normalized_grad=False, device="cpu")
    attributor.projector_kwargs = None  # the constructor fills in a projection to 512 dimensions
    with given.stage("score"), torch.no_grad():
        return -attributor.attribute(*loaders(given)).T


def trak(given, size, regularization):
    """TRAK with its random projection."""
    task = AttributionTask(margin(given), given.module, given.module.state_dict())

    def probability(parameters, data):
        return torch.exp(-one_loss(given)(parameters, data))

    options = {"projector_kwargs": {"proj_dim": size, "device": "cpu"}, "regularization": regularization}
    attributor = TRAKAttributor(task, correct_probability_func=probability, device="cpu", **options)
    full, queries = loaders(given, batch=256)
    with given.stage("fit"), torch.no_grad():
        attributor.cache(full)
    with given.stage("score"), torch.no_grad():
        return -attributor.attribute(queries).T


def margin(given):
    """Return TRAK's output function, the logit of the label's probability."""

    def output(parameters, data):
        inputs, label = data
        logits = functional_call(given.module, parameters, inputs[None])
        loss = nn.functional.cross_entropy(logits, label[None])
        return -loss - torch.log(1 - torch.exp(-loss))

    return output


METHODS = {
    "IFAttributorExplicit": lambda given: influence(IFAttributorExplicit, given, regularization=given.damping),
    "IFAttributorCG": lambda given: influence(IFAttributorCG, given, regularization=given.damping),
    "IFAttributorCG, 100 iterations": lambda given: influence(
        IFAttributorCG, given, regularization=given.damping, max_iter=100
    ),
    "IFAttributorArnoldi": lambda given: influence(IFAttributorArnoldi, given, regularization=given.damping),
    "IFAttributorLiSSA": lambda given: lissa(given, depth=5000, batch=1, scaling=50),
    "IFAttributorLiSSA, larger steps": lambda given: lissa(given, depth=3000, batch=100, scaling=2),
    "IFAttributorDataInf": lambda given: influence(IFAttributorDataInf, given, regularization=given.damping),
    "IFAttributorArnoldi, 50 of 100 dimensions": lambda given: influence(
        IFAttributorArnoldi, given, regularization=given.damping, proj_dim=50
    ),
    "IFAttributorEKFAC": ekfac,
    "TracInAttributor": tracin,
    "TRAKAttributor": lambda given: trak(given, size=512, regularization=0.0),
}

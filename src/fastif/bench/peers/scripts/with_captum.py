"""Captum: TracIn and its influence functions, as the tutorials of captum.influence use them."""

import torch
from captum.influence import NaiveInfluenceFunction, TracInCP, TracInCPFast
from captum.influence._core.arnoldi_influence_function import ArnoldiInfluenceFunction
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ["captum"]
BATCH = 256


def prepared(given):
    """Return a loader of the training data, a checkpoint on disk, and how to load it."""
    checkpoint = str(given.directory / "model.pt")
    torch.save(given.module.state_dict(), checkpoint)

    def load_checkpoint(module, path):
        module.load_state_dict(torch.load(path, weights_only=True))
        return 1.0  # the learning rate, a factor of all scores

    return DataLoader(TensorDataset(*given.train), batch_size=BATCH), checkpoint, load_checkpoint


def scored(method, given):
    """Return the scores; Captum's are positive where an example helps."""
    with given.stage("score"):
        return -method.influence(given.queries)


def tracin(given):
    """TracIn through all layers, gradients of a batch at once."""
    loader, checkpoint, load = prepared(given)
    with given.stage("fit"):
        method = TracInCP(
            given.module,
            loader,
            [checkpoint],
            checkpoints_load_func=load,
            loss_fn=nn.CrossEntropyLoss(reduction="sum"),
            sample_wise_grads_per_batch=True,
        )
    return scored(method, given)


def tracin_fast(given):
    """TracIn through the last layer."""
    loader, checkpoint, load = prepared(given)
    with given.stage("fit"):
        method = TracInCPFast(
            given.module,
            given.module[-1],
            loader,
            [checkpoint],
            checkpoints_load_func=load,
            loss_fn=nn.CrossEntropyLoss(reduction="sum"),
        )
    return scored(method, given)


def from_eigenvectors(kind, given, **options):
    """Influence from the strongest eigenvectors of the Hessian."""
    loader, checkpoint, load = prepared(given)
    with given.stage("fit"):
        method = kind(
            given.module,
            loader,
            checkpoint,
            checkpoints_load_func=load,
            loss_fn=nn.CrossEntropyLoss(reduction="sum"),
            sample_wise_grads_per_batch=True,
            # Captum adds up the Hessians of all examples, so that a damping of their mean is this much of the sum.
            hessian_reg=given.damping * len(given.train[1]),
            **options,
        )
    return scored(method, given)


METHODS = {
    "TracInCP": tracin,
    "TracInCPFast": tracin_fast,
    "ArnoldiInfluenceFunction": lambda given: from_eigenvectors(ArnoldiInfluenceFunction, given),
    "ArnoldiInfluenceFunction, rank 200": lambda given: from_eigenvectors(
        ArnoldiInfluenceFunction, given, projection_dim=200, arnoldi_dim=400, arnoldi_tol=1e-4
    ),
    "NaiveInfluenceFunction": lambda given: from_eigenvectors(
        NaiveInfluenceFunction, given, projection_dim=given.parameters
    ),
}

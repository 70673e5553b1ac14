"""Influence against the truth: remove a training point, retrain to convergence, look at the test loss."""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif import metrics

WEIGHT_DECAY = 1e-2
TRAIN, TEST, REMOVED = 1400, 20, 60


def digits() -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16), torch.tensor(labels)


def slope_at(theta: Tensor, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The gradient of sum_i weights_i loss_i + WEIGHT_DECAY/2 ||theta||^2 in the (10, 65) parameters."""
    wrong = (with_ones(x) @ theta.T).softmax(dim=1) - F.one_hot(y, 10)
    return torch.einsum("n,nc,nd->cd", weights, wrong, with_ones(x)) + WEIGHT_DECAY * theta


def hessian_at(theta: Tensor, x: Tensor, weights: Tensor) -> Tensor:
    p = (with_ones(x) @ theta.T).softmax(dim=1)
    bend = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    hessian = torch.einsum("n,nab,nc,nd->acbd", weights, bend, with_ones(x), with_ones(x)).reshape(650, 650)
    return hessian + WEIGHT_DECAY * torch.eye(650, dtype=x.dtype)


def with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


def fit(x: Tensor, y: Tensor, weights: Tensor, start: Tensor, factor: Tensor | None = None) -> Tensor:
    """Train until the gradient vanishes: Newton's method, its matrix made anew in each step unless given."""
    theta = start.clone()
    for _ in range(200):
        slope = slope_at(theta, x, y, weights)
        if slope.norm() < 1e-12:
            return theta
        cholesky = torch.linalg.cholesky(hessian_at(theta, x, weights)) if factor is None else factor
        theta = theta - torch.cholesky_solve(slope.reshape(-1, 1), cholesky).reshape(10, 65)
    raise AssertionError("the training did not converge")


def losses_at(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x @ theta[:, :64].T + theta[:, 64], y, reduction="none")


def test_influence_predicts_leaving_one_out() -> None:
    x, y = digits()
    train, test = (x[:TRAIN], y[:TRAIN]), (x[TRAIN : TRAIN + TEST], y[TRAIN : TRAIN + TEST])
    everyone = torch.full((TRAIN,), 1 / TRAIN, dtype=x.dtype)
    theta = fit(*train, everyone, torch.zeros(10, 65, dtype=x.dtype))
    module = nn.Linear(64, 10).double()
    module.load_state_dict({"weight": theta[:, :64], "bias": theta[:, 64]})
    model = fastif.TorchModel(module, loss="cross_entropy")
    options = {"damping": 0.0, "weight_decay": WEIGHT_DECAY}
    scores = fastif.Explainer(model, train, **options).scores(test).values

    # half of the points that matter most, half drawn at random from the rest
    strongest = scores.abs().mean(dim=0).argsort(descending=True)
    rest = strongest[REMOVED // 2 :][torch.randperm(TRAIN - REMOVED // 2, generator=torch.Generator().manual_seed(0))]
    removed = torch.cat([strongest[: REMOVED // 2], rest[: REMOVED // 2]])
    without = [everyone.index_fill(0, point, 0) for point in removed]
    before = losses_at(theta, *test)
    factor = torch.linalg.cholesky(hessian_at(theta, x[:TRAIN], everyone))
    changes = [losses_at(fit(*train, weights, theta, factor), *test) - before for weights in without]
    true_change = torch.stack(changes)
    predicted = -scores.T[removed] / TRAIN

    assert metrics.pearson(predicted.flatten(), true_change.flatten()) >= 0.99
    slope = (predicted * true_change).sum() / predicted.square().sum()
    assert 0.9 <= slope <= 1.1

    # the model is linear in its parameters, so that both curvatures are the same matrix
    hessian = fastif.Explainer(model, train, curvature="hessian", **options).scores(test).values
    torch.testing.assert_close(hessian, scores)

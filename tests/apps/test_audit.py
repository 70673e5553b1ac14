"""Audits against the truth: models that were retrained without an example, and labels that were planted wrong."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif import left_out, metrics
from fastif.apps.audit import RANKINGS, audit
from tests.problems import CORE_NAMES, case, model_of

DECAY = 5e-3
CLASSES, FEATURES = 4, 6


def clouds(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Points around one centre for each class, a tenth of the labels wrong; and which."""
    generator = torch.Generator().manual_seed(seed)
    centres = 1.5 * torch.randn(CLASSES, FEATURES, generator=generator, dtype=torch.float64)
    truth = torch.arange(count) % CLASSES
    x = centres[truth] + torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)
    wrong = torch.randperm(count, generator=generator)[: count // 10]
    y = truth.clone()
    y[wrong] = (y[wrong] + torch.randint(1, CLASSES, wrong.shape, generator=generator)) % CLASSES
    return x, y, y != truth


def refit(module: nn.Linear, x: Tensor, y: Tensor, weights: Tensor, loss: Any) -> nn.Linear:
    """Minimise sum_i weights_i loss_i + DECAY/2 ||theta||^2 to the end, from where the module is."""
    shape = module.weight.shape
    theta = torch.cat([module.weight, module.bias[:, None]], dim=1).detach().flatten()

    def objective(flat: Tensor) -> Tensor:
        both = flat.reshape(shape[0], -1)
        losses = loss(x @ both[:, :-1].T + both[:, -1], y)
        return (weights * losses).sum() + DECAY / 2 * flat.square().sum()

    for _ in range(50):
        slope = torch.autograd.functional.jacobian(objective, theta)
        if slope.norm() < 1e-10:
            break
        step = torch.linalg.solve(torch.autograd.functional.hessian(objective, theta), slope)
        while objective(theta - step) > objective(theta) + 1e-12:
            step = step / 2
        theta = theta - step
    else:
        raise AssertionError("the training did not converge")
    fitted = nn.Linear(shape[1], shape[0]).double()
    both = theta.reshape(shape[0], -1)
    fitted.load_state_dict({"weight": both[:, :-1], "bias": both[:, -1]})
    return fitted


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(dim=1)


def error(seen: Tensor, true: Tensor) -> float:
    """Relative, of logits without what all of an example have in common, which a softmax does not see."""
    seen, true = (each - each.mean(dim=1, keepdim=True) for each in (seen, true))
    return float((seen - true).norm() / true.norm())


def test_logits_without_an_example_are_those_of_retraining(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200
    x, y, _ = clouds(count)
    everyone = torch.full((count,), 1 / count, dtype=torch.float64)
    module = refit(nn.Linear(FEATURES, CLASSES).double(), x, y, everyone, cross_entropy)
    explainer = fastif.Explainer(
        fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=0.0, weight_decay=DECAY
    )
    found, result = explainer.left_out(), audit(explainer)
    monkeypatch.setattr("fastif.explainer.weights_in_mean", lambda *_: torch.zeros(count, dtype=torch.float64))
    first_order = explainer.left_out()["outputs_without"]  # no example is taken out of the curvature

    some = torch.cat([result.leverage.argsort(descending=True)[:20], result.ranking()[:20], torch.arange(0, count, 8)])
    true = torch.stack([refit(module, x, y, everyone.index_fill(0, i, 0), cross_entropy)(x[i]) for i in some]).detach()
    corrected, before = found["outputs_without"][some], module(x[some]).detach()
    assert error(corrected, true) < 0.05
    assert error(corrected - before, true - before) < 0.2  # of the change: what is left is that no loss is a parabola
    highest = slice(0, 20)  # leverage, where the first order understates most
    errors = [error((end - before)[highest], (true - before)[highest]) for end in (corrected, first_order[some])]
    assert errors[0] < 0.15
    assert errors[0] < 0.6 * errors[1]
    assert result.suggested is not None
    assert (result.suggested[some] == true.argmax(dim=1)).all()
    assert metrics.pearson(result.losses_without[some], cross_entropy(true, y[some])) > 0.99


def test_least_squares_is_exact() -> None:
    x, y, _ = clouds(30)
    targets = F.one_hot(y, CLASSES).double()
    everyone = torch.full((30,), 1 / 30, dtype=torch.float64)
    module = refit(nn.Linear(FEATURES, CLASSES).double(), x, targets, everyone, squares)
    explainer = fastif.Explainer(
        fastif.TorchModel(module, loss="mse_loss"), (x, targets), damping=0.0, weight_decay=DECAY
    )
    found = explainer.left_out()
    for i in range(0, 30, 3):
        without = refit(module, x, targets, everyone.index_fill(0, torch.tensor(i), 0), squares)
        torch.testing.assert_close(found["outputs_without"][i], without(x[i]).detach(), rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(
            found["losses_without"][i], squares(without(x[i])[None], targets[i : i + 1])[0].detach()
        )
    result = audit(explainer)
    assert result.suggested is None
    assert "no suggested label" in result.notes[0]
    assert result.ranking("loss").sort().values.tolist() == list(range(30))


@pytest.mark.parametrize("name", CORE_NAMES)
def test_self_influence_is_the_explainers_and_nothing_is_negative(name: str) -> None:
    it = case(name)
    for solver in (fastif.Exact(), fastif.Lanczos(rank=5)):
        explainer = fastif.Explainer(model_of(it), it.train, solver=solver, damping=0.03, batch_size=7)
        result = audit(explainer)
        values, errors = explainer.self_influence_with_error()
        torch.testing.assert_close(result.self_influence, values, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(result.self_influence_error, errors, rtol=1e-6, atol=1e-6)
        assert (result.self_influence >= 0).all()
        assert (result.leverage < 1).all()
        assert torch.isfinite(result.losses_without).all()
        assert (result.losses_without >= result.losses - 1e-9).all()  # no example is better fitted without itself


@pytest.mark.parametrize("by", RANKINGS)
def test_planted_errors_come_first(by: Any) -> None:
    x, y, wrong = clouds(400, seed=1)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, CLASSES)).double()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
    result = audit(fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y)))
    top = result.ranking(by)[: int(wrong.sum())]
    assert float(wrong[top].double().mean()) > 0.7
    assert metrics.auc(result.values(by), wrong) > 0.9
    assert result.suggested is not None
    assert float((result.suggested[wrong] != y[wrong]).double().mean()) > 0.9
    assert 0 <= result.shared(40, "loss", by) <= 40


def test_only_examples_of_the_curvature_are_taken_out_of_it() -> None:
    x, y, _ = clouds(40)
    module = refit(nn.Linear(FEATURES, CLASSES).double(), x, y, torch.full((40,), 1 / 40).double(), cross_entropy)
    model = fastif.TorchModel(module, loss="cross_entropy")
    result = audit(fastif.Explainer(model, (x, y), damping=0.01, solver=fastif.Lanczos(rank=28, subsample=25)))
    assert int((result.leverage > 1e-12).sum()) == 25
    result = audit(fastif.Explainer(model, (x, y), damping=0.01, solver=fastif.Identity()))
    assert not result.leverage.any()


def test_with_many_classes_the_steepest_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    classes, count = 40, 240
    centres = 2 * torch.randn(classes, 5, generator=generator, dtype=torch.float64)
    y = torch.arange(count) % classes
    x = centres[y] + 0.3 * torch.randn(count, 5, generator=generator, dtype=torch.float64)
    y[::24] = (y[::24] + 1) % classes
    torch.manual_seed(0)
    module = nn.Linear(5, classes).double()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
    explainer = fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), (x, y), damping=1e-3)
    some = audit(explainer)
    assert "40 outputs" in some.notes[0]
    torch.testing.assert_close(some.self_influence, explainer.self_influence(), rtol=1e-6, atol=1e-9)
    monkeypatch.setattr(left_out, "MOST_OUTPUTS", classes)
    every = audit(explainer)
    assert float((some.suggested == every.suggested).double().mean()) > 0.95
    assert metrics.spearman(some.losses_without, every.losses_without) > 0.99
    assert some.shared(10, "left-out", "left-out") == 10


def test_a_loss_that_is_not_defined_everywhere_is_expanded() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid(), nn.Flatten(0)).double()
    x, y = torch.randn(12, 2).double() * 3, (torch.arange(12) % 2).double()
    model = fastif.TorchModel(module, loss="binary_cross_entropy")
    result = audit(fastif.Explainer(model, (x, y), damping=1e-3))
    assert torch.isfinite(result.losses_without).all()
    assert (result.losses_without >= result.losses).all()


def test_a_ranking_that_there_is_not() -> None:
    it = case("logistic_regression")
    with pytest.raises(fastif.FastifError, match="ranks by left-out, self-influence, loss"):
        audit(fastif.Explainer(model_of(it), it.train, damping=0.1)).ranking("margin")  # type: ignore[arg-type]

"""The oracles against closed forms, and their own checks against deliberate mistakes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from tests import oracles
from tests.cases import CASES, Case, Factory, cnn_batchnorm, logistic_regression, regression, tied_weights
from tests.oracles import (
    check_product,
    check_symmetric,
    dense_ggn,
    dense_hessian,
    flat_parameters,
    flatten,
    influence,
    parameter_names,
    per_example_gradients,
    random_direction,
    self_influence,
    unflatten,
)

every_case = pytest.mark.parametrize("factory", [factory for _, factory in CASES], ids=[name for name, _ in CASES])
both_matrices = pytest.mark.parametrize("matrix_of", [dense_hessian, dense_ggn])
Matrix = Callable[..., Tensor]


def linear_regression(count: int = 20, width: int = 4) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A linear model without bias, outputs of shape (batch,), at a point that is not the optimum."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, width, generator=generator, dtype=torch.float64)
    targets = torch.randn(count, generator=generator, dtype=torch.float64)
    module = nn.Sequential(nn.Linear(width, 1, bias=False), nn.Flatten(0)).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.randn(1, width, generator=generator, dtype=torch.float64))
    return module, (inputs, targets)


def matrix_of_case(matrix_of: Matrix, case: Case, weight_decay: float = 0.0) -> Tensor:
    return matrix_of(case.module, case.names, case.loss, case.train, weight_decay)


# --- closed forms -----------------------------------------------------------------------------------------------------


def softmax_probabilities(case: Case) -> np.ndarray:
    inputs = case.train[0].numpy()
    logits = inputs @ case.module.weight.detach().numpy().T + case.module.bias.detach().numpy()
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@both_matrices
def test_softmax_regression_curvature_is_the_closed_form(matrix_of: Matrix) -> None:
    """H = (1/n) sum_i (diag(p) - p p^T) kron x x^T, in the blocks weight-weight, weight-bias, bias-bias."""
    case = logistic_regression()
    inputs, probabilities = case.train[0].numpy(), softmax_probabilities(case)
    expected = np.zeros((18, 18))
    for x, p in zip(inputs, probabilities, strict=True):
        outer = np.diag(p) - np.outer(p, p)
        jacobian = np.hstack([np.kron(np.eye(3), x), np.eye(3)])
        expected += jacobian.T @ outer @ jacobian / len(inputs)
    np.testing.assert_allclose(matrix_of_case(matrix_of, case).numpy(), expected, rtol=1e-10, atol=1e-14)


def test_softmax_regression_gradients_are_the_closed_form() -> None:
    """grad = (p - y) x^T for the weight, p - y for the bias."""
    case = logistic_regression()
    residuals = softmax_probabilities(case) - np.eye(3)[case.train[1].numpy()]
    weights = np.einsum("nc,nd->ncd", residuals, case.train[0].numpy()).reshape(len(residuals), -1)
    gradients = per_example_gradients(case.module, case.names, case.loss, case.train)
    np.testing.assert_allclose(gradients.numpy(), np.hstack([weights, residuals]), rtol=1e-10, atol=1e-14)


@both_matrices
def test_binary_logistic_curvature_is_the_closed_form(matrix_of: Matrix) -> None:
    """H = (1/n) sum_i p (1 - p) x x^T, outputs of shape (batch,)."""
    module, (inputs, targets) = linear_regression()
    labels = (targets > 0).double()
    logits = inputs.numpy() @ module[0].weight.detach().numpy()[0]
    variances = 1 / (1 + np.exp(-logits)) / (1 + np.exp(logits))
    expected = (inputs.numpy().T * variances) @ inputs.numpy() / len(inputs)
    matrix = matrix_of(module, ["0.weight"], "binary_cross_entropy_with_logits", (inputs, labels))
    np.testing.assert_allclose(matrix.numpy(), expected, rtol=1e-10, atol=1e-14)


@both_matrices
def test_linear_regression_curvature_is_the_closed_form(matrix_of: Matrix) -> None:
    """H = G = 2 X^T X / n, plus the weight decay on the diagonal."""
    module, (inputs, targets) = linear_regression()
    gram = 2 * inputs.T @ inputs / len(inputs)
    matrix = matrix_of(module, ["0.weight"], "mse_loss", (inputs, targets), weight_decay=0.3)
    torch.testing.assert_close(matrix, gram + 0.3 * torch.eye(4, dtype=torch.float64), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits"])
def test_ggn_is_the_hessian_of_a_model_linear_in_its_parameters(loss: str) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    targets = torch.rand(20, 3, generator=generator, dtype=torch.float64)
    module = nn.Linear(4, 3).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=generator)
    arguments = (module, parameter_names(module), loss, (inputs, targets))
    torch.testing.assert_close(dense_ggn(*arguments), dense_hessian(*arguments), rtol=1e-10, atol=1e-14)


def test_influence_is_the_response_to_upweighting_in_ridge_regression() -> None:
    """d loss(z_q) / d epsilon when epsilon loss(z_i) joins the objective, from exact solutions, sign included."""
    module, (inputs, targets) = linear_regression()
    query, damping, step = (inputs[:3] + 1, targets[:3] - 1), 0.1, 1e-5
    identity = torch.eye(4, dtype=torch.float64)

    def solution(epsilon: float = 0.0, index: int = 0) -> Tensor:
        weights = torch.full((len(inputs),), 1 / len(inputs), dtype=torch.float64)
        weights[index] += epsilon
        weighted = 2 * inputs.T * weights
        return torch.linalg.solve(weighted @ inputs + damping * identity, weighted @ targets)

    def query_losses(theta: Tensor) -> Tensor:
        return (query[0] @ theta - query[1]).square()

    columns = [
        (query_losses(solution(step, index)) - query_losses(solution(-step, index))) / (2 * step)
        for index in range(len(inputs))
    ]
    with torch.no_grad():
        module[0].weight.copy_(solution()[None])
    arguments = (module, ["0.weight"], "mse_loss")
    values = influence(
        per_example_gradients(*arguments, query),
        dense_ggn(*arguments, (inputs, targets)),
        per_example_gradients(*arguments, (inputs, targets)),
        damping,
    )
    torch.testing.assert_close(values, torch.stack(columns, dim=1), rtol=1e-6, atol=1e-8)


def test_self_influence_is_minus_the_diagonal_of_influence_and_not_negative() -> None:
    case = regression()
    gradients = per_example_gradients(case.module, case.names, case.loss, case.train)
    matrix = matrix_of_case(dense_ggn, case)
    values = self_influence(matrix, gradients, 0.01)
    torch.testing.assert_close(values, -influence(gradients, matrix, gradients, 0.01).diagonal())
    assert (values >= 0).all()


# --- every case -------------------------------------------------------------------------------------------------------


@every_case
def test_case_is_small_trained_and_left_in_train_mode(factory: Factory) -> None:
    case = factory()
    assert case.name == factory.__name__
    assert len(flat_parameters(case.module, case.names)) <= 150
    assert all(child.training for child in case.module.modules())
    assert {len(column) for column in case.train} == {24}
    assert {len(column) for column in case.queries} == {4}
    gradients = per_example_gradients(case.module, case.names, case.loss, case.train)
    assert (gradients.norm(dim=1) > 1e-5).all()


@every_case
def test_case_repeats_and_agrees_between_dtypes(factory: Factory) -> None:
    first, second, single = factory(seed=3), factory(seed=3), factory(seed=3, dtype=torch.float32)
    assert torch.equal(flat_parameters(first.module, first.names), flat_parameters(second.module, second.names))
    rows = [
        per_example_gradients(case.module, case.names, case.loss, case.queries).double() for case in (first, single)
    ]
    torch.testing.assert_close(rows[0], rows[1], rtol=1e-3, atol=1e-4)


@every_case
def test_curvature_of_every_case_passes_its_checks(factory: Factory) -> None:
    """Symmetry and a finite difference are asserted inside; convex losses give a GGN without negative eigenvalues."""
    case = factory()
    state = {name: value.clone() for name, value in case.module.state_dict().items()}
    hessian, ggn = matrix_of_case(dense_hessian, case), matrix_of_case(dense_ggn, case)
    assert hessian.shape == ggn.shape == (len(flat_parameters(case.module, case.names)),) * 2
    assert torch.linalg.eigvalsh(ggn)[0] >= -1e-12
    assert all(torch.equal(value, state[name]) for name, value in case.module.state_dict().items())
    assert all(child.training for child in case.module.modules())


@every_case
def test_mean_of_per_example_gradients_is_the_gradient_of_the_mean_loss(factory: Factory) -> None:
    case = factory()
    rows = per_example_gradients(case.module, case.names, case.loss, case.train)
    case.module.eval()
    mean = oracles.objective_gradient(case.module, case.names, case.loss, case.train, 0.0)
    torch.testing.assert_close(rows.mean(dim=0), mean, rtol=1e-10, atol=1e-13)


# --- state and parameters ---------------------------------------------------------------------------------------------


def test_modes_and_frozen_parameters_are_put_back() -> None:
    case = cnn_batchnorm()
    case.module[1].eval()
    case.module[0].weight.requires_grad_(False)
    before = torch.backends.mha.get_fastpath_enabled()
    per_example_gradients(case.module, case.names, case.loss, case.queries)
    assert [child.training for child in case.module.modules()].count(False) == 1
    assert not case.module[1].training
    assert not case.module[0].weight.requires_grad
    assert torch.backends.mha.get_fastpath_enabled() == before


def test_flatten_and_unflatten_are_inverse() -> None:
    case = regression()
    theta = flat_parameters(case.module, case.names)
    parts = unflatten(theta, case.module, case.names)
    assert list(parts) == case.names
    assert torch.equal(flatten(parts.values()), theta)


def test_tied_weights_have_one_name() -> None:
    case = tied_weights()
    assert "embedding.weight" in case.names
    assert "output.weight" not in case.names
    with pytest.raises(ValueError, match="named twice"):
        flat_parameters(case.module, ["embedding.weight", "output.weight"])


@both_matrices
def test_curvature_refuses_single_precision(matrix_of: Matrix) -> None:
    with pytest.raises(TypeError, match="float64"):
        matrix_of_case(matrix_of, regression(dtype=torch.float32))


# --- the checks fire --------------------------------------------------------------------------------------------------


class DetachedSquare(torch.autograd.Function):
    """x^2 with the right gradient, whose own derivative is silently zero."""

    @staticmethod
    def forward(context: Any, inputs: Tensor) -> Tensor:
        context.save_for_backward(inputs)
        return inputs.square()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        (inputs,) = context.saved_tensors
        return 2 * inputs.detach() * gradient


class WrongIdentity(torch.autograd.Function):
    """x, with a gradient that is a tenth too large."""

    @staticmethod
    def forward(context: Any, inputs: Tensor) -> Tensor:
        return inputs.clone()

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return 1.1 * gradient


class Apply(nn.Module):
    """A Function as a module."""

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function.apply(inputs)


def detached_mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """The squared error plus a silent mistake in its second derivative."""
    return DetachedSquare.apply(outputs - targets) + 0.1 * F.mse_loss(outputs, targets, reduction="none")


def test_hessian_notices_a_wrong_double_backward() -> None:
    module, examples = linear_regression()
    wrong = nn.Sequential(module[0], Apply(DetachedSquare), nn.Flatten(0))
    with pytest.raises(AssertionError, match="finite difference disagrees"):
        dense_hessian(wrong, ["0.weight"], "mse_loss", examples)


def test_ggn_notices_a_wrong_jacobian() -> None:
    module, examples = linear_regression()
    wrong = nn.Sequential(*module, Apply(WrongIdentity))
    with pytest.raises(AssertionError, match="finite difference disagrees"):
        dense_ggn(wrong, ["0.weight"], "mse_loss", examples)


@both_matrices
def test_curvature_notices_a_loss_with_a_wrong_second_derivative(matrix_of: Matrix) -> None:
    module, examples = linear_regression()
    with pytest.raises(AssertionError, match="finite difference disagrees"):
        matrix_of(module, ["0.weight"], detached_mse, examples)


def test_ggn_notices_a_wrong_output_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    right = oracles.output_hessian
    monkeypatch.setattr(oracles, "output_hessian", lambda *arguments: 1.00001 * right(*arguments))
    with pytest.raises(AssertionError, match="finite difference disagrees"):
        matrix_of_case(dense_ggn, logistic_regression())


def test_curvature_notices_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the module left in train mode, no finite difference could agree."""
    case = regression()
    monkeypatch.setattr(case.module, "eval", lambda: case.module)
    with pytest.raises(AssertionError):
        matrix_of_case(dense_hessian, case)


def test_checks_reject_a_perturbed_matrix() -> None:
    matrix = matrix_of_case(dense_hessian, regression())
    direction = random_direction(matrix[0])
    product = matrix @ direction
    check_symmetric(matrix)
    check_product(matrix, direction, product)
    perturbed = matrix.clone()
    perturbed[0, 1] += 1e-4 * matrix.norm()
    with pytest.raises(AssertionError, match="not symmetric"):
        check_symmetric(perturbed)
    perturbed[1, 0] = perturbed[0, 1]
    check_symmetric(perturbed)
    with pytest.raises(AssertionError, match="finite difference disagrees"):
        check_product(perturbed, direction, product)


def test_checks_reject_what_is_not_a_number() -> None:
    matrix = torch.full((3, 3), torch.nan, dtype=torch.float64)
    direction = random_direction(matrix[0])
    with pytest.raises(AssertionError):
        check_symmetric(matrix)
    with pytest.raises(AssertionError):
        check_product(matrix, direction, matrix @ direction)

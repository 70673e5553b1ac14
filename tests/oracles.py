"""Dense reference answers for the engine: gradients, Hessian, Gauss-Newton matrix and influence, on CPU.

This file knows plain autograd, one example or one matrix row at a time, and nothing of `fastif`. It is slow on purpose.
Parameters are a dict name -> tensor in the order of `names`; a flat vector is their concatenation in that order.
`examples` is a sequence of columns `(inputs..., targets)`; `loss(outputs, targets)` gives one value for each example.

Second derivatives come from double backward alone (`torch.func.hessian` is silently wrong through `layer_norm`), and
every matrix is checked, before it is returned, for symmetry and against a finite difference of first derivatives.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

Loss = Callable[[Tensor, Tensor], Tensor]
Examples = Sequence[Tensor]

SYMMETRY_TOLERANCE = 1e-9
DIFFERENCE_TOLERANCE = 1e-6
DIFFERENCE_STEP = 1e-5


# --- parameters -------------------------------------------------------------------------------------------------------


def parameter_names(module: nn.Module, pattern: str | None = None) -> list[str]:
    """The parameters in whose name `pattern` is found (None: all). Tied weights count once, by their first name."""
    return [name for name, _ in module.named_parameters() if pattern is None or re.search(pattern, name)]


def select_parameters(module: nn.Module, names: Sequence[str]) -> dict[str, Tensor]:
    """The parameters called `names`, in that order; the same tensor may not be asked for twice."""
    everything = dict(module.named_parameters(remove_duplicate=False))
    selected: dict[str, Tensor] = {name: everything[name] for name in names}
    if len({id(parameter) for parameter in selected.values()}) != len(names):
        raise ValueError(f"a parameter is named twice (tied weights have one name here): {list(names)}")
    return selected


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """Concatenate tensors into one vector."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def flat_parameters(module: nn.Module, names: Sequence[str]) -> Tensor:
    """A detached copy of theta, shape (p,)."""
    return flatten(select_parameters(module, names).values()).detach().clone()


def unflatten(vector: Tensor, module: nn.Module, names: Sequence[str]) -> dict[str, Tensor]:
    """Cut a vector of shape (p,) into tensors of the shapes of the parameters."""
    parameters = select_parameters(module, names)
    pieces = vector.split([parameter.numel() for parameter in parameters.values()])
    return {name: piece.view_as(parameters[name]) for name, piece in zip(names, pieces, strict=True)}


# --- the state in which everything is computed ------------------------------------------------------------------------


@contextmanager
def evaluation(module: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Eval mode, `names` differentiable, attention by plain mathematics; everything is put back afterwards."""
    modes = [(child, child.training) for child in module.modules()]
    parameters = select_parameters(module, names)
    required = [(parameter, parameter.requires_grad) for parameter in parameters.values()]
    fastpath = torch.backends.mha.get_fastpath_enabled()
    module.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    for parameter in parameters.values():
        parameter.requires_grad_(True)
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            yield parameters
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        for parameter, flag in required:
            parameter.requires_grad_(flag)
        for child, mode in modes:
            child.training = mode


@contextmanager
def moved(module: nn.Module, names: Sequence[str], step: Tensor) -> Iterator[None]:
    """The module at theta + step, for as long as the context lasts."""
    parameters = select_parameters(module, names)
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    try:
        with torch.no_grad():
            for name, piece in unflatten(step, module, names).items():
                parameters[name].add_(piece)
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(before[name])


# --- losses and first derivatives -------------------------------------------------------------------------------------


def resolve_loss(loss: str | Loss) -> Loss:
    """A named loss is `F.<name>(reduction="none")`, averaged over the dimensions other than the batch."""
    if callable(loss):
        return loss
    function = getattr(F, loss)

    def named(outputs: Tensor, targets: Tensor) -> Tensor:
        values = function(outputs, targets, reduction="none")
        return values.reshape(len(values), -1).mean(dim=1)

    return named


def example_at(examples: Examples, index: int) -> tuple[Tensor, ...]:
    """Example `index` as a batch of one."""
    return tuple(column[index : index + 1] for column in examples)


def losses(module: nn.Module, loss: str | Loss, examples: Examples) -> Tensor:
    """One loss for each example, shape (batch,)."""
    *inputs, targets = examples
    values = resolve_loss(loss)(module(*inputs), targets)
    if values.shape != (len(targets),):
        raise ValueError(f"the loss must have shape ({len(targets)},), not {tuple(values.shape)}")
    return values


def flat_gradient(value: Tensor, variables: Iterable[Tensor], *, create_graph: bool = False) -> Tensor:
    """d value / d variables as one vector; zero for what `value` does not depend on."""
    variables = list(variables)
    if not value.requires_grad:
        return torch.zeros_like(flatten(variables))
    gradients = torch.autograd.grad(
        value, variables, create_graph=create_graph, retain_graph=True, materialize_grads=True
    )
    return flatten(gradients)


def per_example_gradients(module: nn.Module, names: Sequence[str], loss: str | Loss, examples: Examples) -> Tensor:
    """Row i is grad_theta loss(z_i), shape (n, p), each from a batch of one. Pass a measure as `loss` for queries."""
    with evaluation(module, names) as parameters:
        rows = [
            flat_gradient(losses(module, loss, example_at(examples, index))[0], parameters.values())
            for index in range(len(examples[-1]))
        ]
    return torch.stack(rows)


# --- checks -----------------------------------------------------------------------------------------------------------


def check_symmetric(matrix: Tensor, tolerance: float = SYMMETRY_TOLERANCE) -> None:
    """Assert ||M - M^T|| <= tolerance ||M|| (a matrix with a NaN fails)."""
    asymmetry, scale = torch.linalg.norm(matrix - matrix.T), torch.linalg.norm(matrix)
    assert asymmetry <= tolerance * scale, f"not symmetric: ||M - M^T|| = {asymmetry:.2e}, ||M|| = {scale:.2e}"


def check_product(matrix: Tensor, direction: Tensor, product: Tensor, tolerance: float = DIFFERENCE_TOLERANCE) -> None:
    """Assert that `matrix @ direction` is `product`, relative to the length that a random direction would give.

    That length is ||M||_F ||v|| / sqrt(p), the root mean square of ||M v|| over directions v.
    """
    error = torch.linalg.norm(matrix @ direction - product)
    scale = torch.linalg.norm(matrix) * torch.linalg.norm(direction) / len(direction) ** 0.5
    assert error <= tolerance * scale, f"finite difference disagrees: error {error:.2e}, scale {scale:.2e}"


def random_direction(parameters: Tensor, seed: int = 0) -> Tensor:
    """A unit vector of the shape and dtype of `parameters`."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(parameters.shape, generator=generator, dtype=parameters.dtype)
    return direction / torch.linalg.norm(direction)


def require_float64(parameters: dict[str, Tensor]) -> None:
    """Second derivatives are only vouched for in double precision."""
    if any(parameter.dtype != torch.float64 for parameter in parameters.values()):
        raise TypeError("dense curvature needs a float64 module")


# --- the Hessian ------------------------------------------------------------------------------------------------------


def dense_hessian(
    module: nn.Module, names: Sequence[str], loss: str | Loss, examples: Examples, weight_decay: float = 0.0
) -> Tensor:
    """H = d^2/dtheta^2 [ (1/n) sum_i loss(z_i) + weight_decay/2 ||theta||^2 ], shape (p, p).

    Row j is the gradient of the j-th entry of the gradient.
    """
    with evaluation(module, names) as parameters:
        require_float64(parameters)
        theta = list(parameters.values())
        gradient = objective_gradient(module, names, loss, examples, weight_decay, create_graph=True)
        matrix = torch.stack([flat_gradient(entry, theta) for entry in gradient])
        direction = random_direction(matrix[0])
        product = difference_hessian_product(module, names, loss, examples, direction, weight_decay)
    check_symmetric(matrix)
    check_product(matrix, direction, product)
    return matrix


def objective_gradient(
    module: nn.Module,
    names: Sequence[str],
    loss: str | Loss,
    examples: Examples,
    weight_decay: float,
    *,
    create_graph: bool = False,
) -> Tensor:
    """The gradient of the mean loss plus weight_decay/2 ||theta||^2; call it inside `evaluation`."""
    theta = list(select_parameters(module, names).values())
    penalty = 0.5 * weight_decay * flatten(theta).square().sum()
    return flat_gradient(losses(module, loss, examples).mean() + penalty, theta, create_graph=create_graph)


def difference_hessian_product(
    module: nn.Module,
    names: Sequence[str],
    loss: str | Loss,
    examples: Examples,
    direction: Tensor,
    weight_decay: float = 0.0,
    step: float = DIFFERENCE_STEP,
) -> Tensor:
    """H v ~ [grad(theta + h v) - grad(theta - h v)] / 2h, from first derivatives alone."""
    sides = []
    for sign in (1, -1):
        with moved(module, names, sign * step * direction), evaluation(module, names):
            sides.append(objective_gradient(module, names, loss, examples, weight_decay))
    return (sides[0] - sides[1]) / (2 * step)


# --- the Gauss-Newton matrix ------------------------------------------------------------------------------------------


def dense_ggn(
    module: nn.Module, names: Sequence[str], loss: str | Loss, examples: Examples, weight_decay: float = 0.0
) -> Tensor:
    """G = (1/n) sum_i J_i^T A_i J_i + weight_decay I, shape (p, p).

    J_i = d out_i / d theta, shape (C, p), and A_i = d^2 loss_i / d out_i^2, shape (C, C). Outputs are (batch,) or
    (batch, C). G is the Hessian of the mean loss with the outputs replaced by their linearisation in theta.
    """
    with evaluation(module, names) as parameters:
        require_float64(parameters)
        matrix = weight_decay * torch.eye(flat_parameters(module, names).numel(), dtype=torch.float64)
        count = len(examples[-1])
        for index in range(count):
            *inputs, target = example_at(examples, index)
            output = module(*inputs)
            jacobian = torch.stack([flat_gradient(entry, parameters.values()) for entry in output.reshape(-1)])
            matrix += jacobian.T @ output_hessian(loss, output, target) @ jacobian / count
        direction = random_direction(matrix[0])
        product = difference_ggn_product(module, names, loss, examples, direction, weight_decay)
    check_symmetric(matrix)
    check_product(matrix, direction, product)
    return matrix


def output_hessian(loss: str | Loss, output: Tensor, target: Tensor) -> Tensor:
    """A = d^2 loss / d out^2 of one example, shape (C, C); output has shape (1,) or (1, C)."""
    output = output.detach().requires_grad_(True)
    gradient = flat_gradient(resolve_loss(loss)(output, target)[0], [output], create_graph=True)
    return torch.stack([flat_gradient(entry, [output]) for entry in gradient])


def difference_ggn_product(
    module: nn.Module,
    names: Sequence[str],
    loss: str | Loss,
    examples: Examples,
    direction: Tensor,
    weight_decay: float = 0.0,
    step: float = DIFFERENCE_STEP,
) -> Tensor:
    """G v ~ (1/n) J^T [loss'(out + h d) - loss'(out - h d)] / 2h + weight_decay v, where d = J v.

    d itself is [out(theta + h v) - out(theta - h v)] / 2h, and loss' the gradient with respect to the outputs.
    """
    *inputs, targets = examples
    sides = []
    for sign in (1, -1):
        with moved(module, names, sign * step * direction), evaluation(module, names):
            sides.append(module(*inputs).detach())
    tangent = (sides[0] - sides[1]) / (2 * step)
    with evaluation(module, names) as parameters:
        outputs = module(*inputs)
        cotangent = (
            output_gradient(loss, outputs + step * tangent, targets)
            - output_gradient(loss, outputs - step * tangent, targets)
        ) / (2 * step)
        return flat_gradient((outputs * cotangent).sum() / len(targets), parameters.values()) + weight_decay * direction


def output_gradient(loss: str | Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """d loss_i / d out_i for every example, in the shape of the outputs."""
    outputs = outputs.detach().requires_grad_(True)
    return flat_gradient(resolve_loss(loss)(outputs, targets).sum(), [outputs]).view_as(outputs)


# --- influence --------------------------------------------------------------------------------------------------------


def influence(query_gradients: Tensor, matrix: Tensor, train_gradients: Tensor, damping: float) -> Tensor:
    """I[q, i] = -g_q^T (H + damping I)^-1 g_i, shape (Q, n): negative helps, positive harms."""
    return -query_gradients @ torch.linalg.solve(add_damping(matrix, damping), train_gradients.T)


def self_influence(matrix: Tensor, train_gradients: Tensor, damping: float) -> Tensor:
    """+g_i^T (H + damping I)^-1 g_i, shape (n,)."""
    solved = torch.linalg.solve(add_damping(matrix, damping), train_gradients.T)
    return (train_gradients * solved.T).sum(dim=1)


def add_damping(matrix: Tensor, damping: float) -> Tensor:
    """H + damping I."""
    return matrix + damping * torch.eye(len(matrix), dtype=matrix.dtype)

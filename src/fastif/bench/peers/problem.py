"""The problem that fastif and every peer get: a trained classifier, its training data, queries, and the exact scores.

Knows digits and dense algebra in float64, and neither fastif's solvers nor any peer: what everyone is judged by is
written out here on its own. A problem is a directory that a program with torch and safetensors alone can read:

    problem.json          widths of the perceptron, counts, damping, what the exact scores are
    problem.safetensors   train_x, train_y, query_x, query_y, and the weights under "model."
    exact.safetensors     scores (queries, examples) in float64: "ggn" and "hessian"
"""

import copy
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vmap

Pair = tuple[Tensor, Tensor]
WIDTHS = (64, 72, 64, 10)  # 10,002 parameters: dense curvature takes 0.8 GB in float64
EPOCHS, BATCH, RATE, MOMENTUM = 10, 50, 0.1, 0.9  # with more, some queries are beyond what float32 can tell from sure
DAMPING_SHARE = 0.01  # of the largest eigenvalue of the Gauss-Newton matrix; the Hessian is then positive definite too
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Problem:
    """A perceptron in float32 with what it was trained on and what is asked about it."""

    module: nn.Sequential
    train: Pair
    queries: Pair


def perceptron(widths: tuple[int, ...] = WIDTHS) -> nn.Sequential:
    """Return linear layers with rectifiers between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits(examples: int, queries: int) -> tuple[Pair, Pair]:
    """Return handwritten digits of scikit-learn in a fixed order: training examples, then queries."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    pixels, labels = load_digits(return_X_y=True)
    if examples + queries > len(labels):
        raise ValueError(f"there are {len(labels)} digits, and {examples} + {queries} were asked for: ask for fewer.")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(pixels, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]
    asked = slice(examples, examples + queries)
    return (x[:examples], y[:examples]), (x[asked], y[asked])


def make_problem(examples: int, queries: int, *, widths: tuple[int, ...] = WIDTHS) -> Problem:
    """Train a perceptron on digits, by plain SGD with a learning rate that falls to zero."""
    train, asked = digits(examples, queries)
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = perceptron(widths)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)
    steps = EPOCHS * -(-examples // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(examples, generator=generator).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(train[0][rows]), train[1][rows]).backward()
            optimizer.step()
            schedule.step()
    return Problem(module.eval(), train, asked)


class FlatModel:
    """The perceptron in float64 as a function of one vector of all its parameters."""

    def __init__(self, module: nn.Sequential) -> None:
        self.module = copy.deepcopy(module).double()
        self.shapes = {name: tensor.shape for name, tensor in self.module.named_parameters()}
        self.theta = torch.cat([tensor.detach().reshape(-1) for tensor in self.module.parameters()])

    def outputs(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the logits."""
        parts = theta.split([shape.numel() for shape in self.shapes.values()])
        weights = {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}
        logits: Tensor = functional_call(self.module, weights, (x,))
        return logits

    def loss(self, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the cross-entropy, its mean over a batch."""
        return nn.functional.cross_entropy(self.outputs(theta, x), y)

    def gradients(self, pair: Pair) -> Tensor:
        """Return the gradient of the loss of every example, (examples, parameters)."""
        x, y = pair[0].double(), pair[1]
        one = vmap(grad(self.loss), in_dims=(None, 0, 0))
        return torch.cat([one(self.theta, a, b) for a, b in zip(x.split(100), y.split(100), strict=True)])

    def gauss_newton(self, x: Tensor) -> Tensor:
        r"""Return the mean of $J_i^\top (\mathrm{diag}(p_i) - p_i p_i^\top) J_i$, (parameters, parameters)."""
        total = self.theta.new_zeros(len(self.theta), len(self.theta))
        for few in x.double().split(ROWS_AT_ONCE):
            jacobians = vmap(jacrev(self.outputs), in_dims=(None, 0))(self.theta, few)  # (few, classes, parameters)
            p = torch.softmax(self.outputs(self.theta, few), dim=-1)
            root = torch.diag_embed(p.sqrt()) - p[:, :, None] * p.sqrt()[:, None, :]  # root @ root^T is the Hessian
            rows = (root.mT @ jacobians).flatten(end_dim=1)
            total.addmm_(rows.T, rows)
        return total / len(x)

    def hessian(self, pair: Pair) -> Tensor:
        """Return the Hessian of the mean loss, (parameters, parameters): products with the unit vectors."""
        x, y = pair[0].double(), pair[1]
        slope = grad(lambda theta: self.loss(theta, x, y))
        columns = vmap(lambda direction: jvp(slope, (self.theta,), (direction,))[1])
        size = len(self.theta)
        matrix = self.theta.new_empty(size, size)
        for first in range(0, size, ROWS_AT_ONCE):
            last = min(first + ROWS_AT_ONCE, size)
            units = self.theta.new_zeros(last - first, size)
            units[torch.arange(last - first), torch.arange(first, last)] = 1
            matrix[first:last] = columns(units)
        return matrix


def exact_scores(problem: Problem) -> tuple[dict[str, Tensor], dict[str, Any]]:
    r"""Return $-g_q^\top (C + \lambda I)^{-1} g_i$ in float64 for both curvatures C, and what is known of them.

    $\lambda$ is `DAMPING_SHARE` of the largest eigenvalue of the Gauss-Newton matrix.
    """
    flat = FlatModel(problem.module)
    train, asked = flat.gradients(problem.train), flat.gradients(problem.queries)
    matrix = flat.gauss_newton(problem.train[0])
    top = _largest(matrix)
    facts: dict[str, Any] = {"damping": DAMPING_SHARE * top, "gauss_newton_largest": top}
    scores = {"ggn": _solve(matrix, asked, train, damping=facts["damping"])}
    matrix = flat.hessian(problem.train)
    scores["hessian"] = _solve(matrix, asked, train, damping=facts["damping"])
    facts["damped_hessian_is_positive_definite"] = not int(torch.linalg.cholesky_ex(matrix).info)
    return scores, facts


def _solve(matrix: Tensor, queries: Tensor, train: Tensor, *, damping: float) -> Tensor:
    """Return the scores; the damping is added to the matrix in place."""
    matrix.diagonal().add_(damping)
    solved: Tensor = torch.linalg.solve(matrix, queries.T)
    return -solved.T @ train.T


def _largest(matrix: Tensor, iterations: int = 100) -> float:
    """Return the largest eigenvalue by power iteration with a fixed start."""
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(len(matrix), generator=generator, dtype=matrix.dtype)
    for _ in range(iterations):
        vector = matrix @ (vector / vector.norm())
    return float(vector.norm())


def write_problem(directory: Path, examples: int, queries: int, *, widths: tuple[int, ...] = WIDTHS) -> dict[str, Any]:
    """Make a problem and its exact scores, or find the same one where it was made before; return problem.json."""
    wanted: dict[str, Any] = {
        "data": "digits of scikit-learn",
        "widths": list(widths),
        "examples": examples,
        "queries": queries,
    }
    described = directory / "problem.json"
    wanted |= {"epochs": EPOCHS, "batch": BATCH, "rate": RATE, "momentum": MOMENTUM, "damping_share": DAMPING_SHARE}
    if described.exists():
        found: dict[str, Any] = json.loads(described.read_text())
        if all(found.get(key) == value for key, value in wanted.items()):
            return found
        described.unlink()
    problem = make_problem(examples, queries, widths=widths)
    scores, facts = exact_scores(problem)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {"train_x": problem.train[0], "train_y": problem.train[1]}
    tensors |= {"query_x": problem.queries[0], "query_y": problem.queries[1]}
    tensors |= {f"model.{name}": tensor for name, tensor in problem.module.state_dict().items()}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, directory / "problem.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in scores.items()}, directory / "exact.safetensors")
    accuracy = {
        f"{name}_accuracy": float((problem.module(x).argmax(dim=1) == y).double().mean())
        for name, (x, y) in (("train", problem.train), ("query", problem.queries))
    }
    parameters = sum(tensor.numel() for tensor in problem.module.parameters())
    made: dict[str, Any] = {**wanted, "parameters": parameters, **accuracy, **facts}
    described.write_text(json.dumps(made, indent=1) + "\n")  # last: a directory without it is not a problem yet
    return made


def read_exact(directory: Path) -> dict[str, Tensor]:
    """Return the exact scores of a problem."""
    return load_file(directory / "exact.safetensors")

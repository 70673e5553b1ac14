"""The cases with their dense answers, made once, and the wrapped models: what most tests start from."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

import fastif
from fastif import vectors
from fastif.curvature import CurvatureOperator
from tests import oracles
from tests.cases import CASES, Case

FACTORIES = dict(CASES)
CASE_NAMES = list(FACTORIES)
CURVATURES = ("gauss-newton", "hessian")
# the kinds of model that every route is tried on each time; the rest take every route in `make test-all`
CORE_NAMES = ("logistic_regression", "mlp_dropout", "cnn_batchnorm", "lstm", "transformer", "shared_parameter")


@cache
def case(name: str, dtype: torch.dtype = torch.float64) -> Case:
    return FACTORIES[name](dtype=dtype)


@cache
def matrix(name: str, curvature: str) -> Tensor:
    it = case(name)
    dense = oracles.dense_ggn if curvature == "gauss-newton" else oracles.dense_hessian
    return dense(it.module, it.names, it.loss, it.train)


@cache
def gradients(name: str, part: str) -> Tensor:
    """The gradients of "train" or of "queries", one row each."""
    it = case(name)
    return oracles.per_example_gradients(it.module, it.names, it.loss, getattr(it, part))


def safe_damping(name: str, curvature: str) -> float:
    """A damping at which the matrix is well away from singular."""
    bottom = float(torch.linalg.eigvalsh(matrix(name, curvature))[0])
    return max(0.0, -1.5 * bottom) + 0.03


def model_of(it: Case) -> fastif.TorchModel:
    return fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)


def operator_of(name: str, curvature: str = "gauss-newton", **options: Any) -> CurvatureOperator:
    it = case(name)
    return CurvatureOperator(model_of(it), fastif.Examples(it.train), kind=curvature, batch_size=13, **options)


def as_block(rows: Tensor, operator: CurvatureOperator) -> vectors.Block:
    return vectors.unflatten(rows, operator.model.parameters)


def relative_error(seen: Tensor, expected: Tensor) -> float:
    return float((seen - expected).norm() / expected.norm())

"""What keeping the Jacobian rows of an operator takes, told from those of a few examples before any is kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fastif import memory
from fastif.capture import Factor, Lookup, Outer
from fastif.curvature import CurvatureOperator
from fastif.factored import can_be_factored
from fastif.formed import at_once
from fastif.solvers.row_products import PART, ghost_is_sooner

FEW = 4  # examples from which the memory of all is told
# What may be kept: rows, for the sake of their eigenvectors; multiplications of the matrix of rows, so that it takes a
# minute; and bytes of factors, on a CPU and of a GPU's memory.
MOST_ROWS, MOST_PRODUCTS = {"cpu": 3000, "cuda": 10_000}, {"cpu": 1e13, "cuda": 2e15}
KEPT_BYTES, KEPT_PART = 2**30, 0.4


def can_be_kept(operator: CurvatureOperator) -> bool:
    """Whether an operator's rows have factors that can be held, all of them."""
    if operator.kind != "gauss-newton":
        return False
    plan = operator.jacobian.route.plan
    return plan is not None and can_be_factored(plan)


@dataclass(frozen=True)
class Demand:
    """What keeping all rows of an operator takes: bytes of factors, and multiplications of the matrix of products."""

    bytes: float
    products: float


def demand(operator: CurvatureOperator) -> Demand:
    """Return about what keeping an operator's rows would take, from those of a few examples."""
    few, factors = _of_few(operator)
    shared: dict[int, int] = {}  # inputs, which the rows of an example share
    each = products = 0.0
    for factor in factors:
        if isinstance(factor, Outer):
            shared[factor.right.untyped_storage().data_ptr()] = factor.right.nbytes
            each += factor.left.nbytes
            out, into = factor.left.shape[2] * factor.left.shape[3], factor.right.shape[3]
            products += out * into if not ghost_is_sooner(factor, factor) else factor.left.shape[1] ** 2 * (out + into)
        elif not isinstance(factor, Lookup):
            each += factor.slopes.nbytes
    rows = operator.rows_per_example
    held = sum(shared.values()) + rows * each
    lengths = operator.data.lengths
    times = operator.examples / len(few)
    if lengths is not None:
        times = float(lengths[operator.ids].sum()) / (float(lengths[operator.ids[few]].max()) * len(few))
    return Demand(held * times, products * (rows * operator.examples) ** 2)


def formed_bytes(operator: CurvatureOperator, width: int, rows: int) -> int:
    """Return the bytes of gradients that a product with so many vectors forms at one time, of batches of so many."""
    _, factors = _of_few(operator)
    sooner = [factor for factor in factors if isinstance(factor, Outer) and factor.is_sooner_formed(width)]
    sizes = ((at_once(factor, PART, rows), factor.right.shape[3] * factor.right.element_size()) for factor in sooner)
    return max((outputs * examples * each for (outputs, examples), each in sizes), default=0)


def _of_few(operator: CurvatureOperator) -> tuple[Tensor, Sequence[Factor]]:
    """Return the numbers of a few examples, and the factors of a row of each; none where they have none."""
    few = torch.arange(min(FEW, operator.examples), device="cpu")
    point = operator.jacobian.at(operator.batch(few))
    cotangents = torch.ones_like(point.outputs).flatten(1) if point.outputs.ndim > 1 else torch.ones_like(point.outputs)
    return few, point.factors(cotangents) or ()


def is_affordable(operator: CurvatureOperator, *, times: int = 1) -> bool:
    """Whether the Jacobian rows of so many operators like this can be kept, and the matrices of them are soon made."""
    device = next(iter(operator.model.parameters.values())).device
    kind = "cpu" if device.type == "cpu" else "cuda"
    few_enough = operator.rows_per_example * operator.examples <= min(MOST_ROWS[kind], operator.size)
    if not (few_enough and operator.model.loss_is_softmax and can_be_kept(operator)):
        return False
    if not _of_few(operator)[1]:
        return False
    needed = demand(operator)
    room = memory.share(device, KEPT_PART, KEPT_BYTES)
    return times * needed.bytes <= room and times * needed.products <= MOST_PRODUCTS[kind]

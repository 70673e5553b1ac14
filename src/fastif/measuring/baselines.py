"""What the library is compared with: the same numbers by the means of plain torch, without its algorithms.

*Naive* is the paper's own idea done fairly: one text after another at its true length, the whole model forward and
backward to the chosen parameters, no graph kept for a second derivative. *Batched* makes the gradients of all examples
of a batch at once. *Naive products* are Hessian products by double backward through the whole model, as LiSSA takes
them. Knows modules and batches, and nothing of caches.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from fastif import vectors
from fastif.batch import Batch
from fastif.measuring.case import Case
from fastif.measuring.engine import synchronize
from fastif.scoring import scan
from fastif.vectors import Block, Vector

MOST = 256  # examples whose gradients are made together, at most
GRADIENT_BYTES = {"cpu": 2**29, "cuda": 2**33}  # what those gradients may take


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute in float32, with no faster kind of product in its place."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Naive:
    """One example after another through the whole module."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._module = case.model.module
        own = dict(self._module.named_parameters())
        self.names = [name for name in case.model.parameters if name in own]
        self.chosen = [own[name] for name in self.names]

    @contextmanager
    def chosen_alone(self) -> Iterator[None]:
        """Within this context gradients are taken in the chosen parameters alone."""
        flags = {parameter: parameter.requires_grad for parameter in self._module.parameters()}
        wanted = {id(parameter) for parameter in self.chosen}
        try:
            for parameter in flags:
                parameter.requires_grad_(id(parameter) in wanted)
            yield
        finally:
            for parameter, flag in flags.items():
                parameter.requires_grad_(flag)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss of a batch, by the module itself."""
        inputs = batch.inputs
        outputs = self._module(**inputs) if isinstance(inputs, dict) else self._module(*inputs)
        return self._case.model.losses(getattr(outputs, "logits", outputs), batch.targets).mean()

    def batch(self, ids: Tensor) -> Batch:
        """Return some examples on the model's device, padded to the longest of them alone."""
        return self._case.model.place(self._case.train.batch(ids))

    def scores(self, ids: Tensor, direction: Vector) -> tuple[float, Tensor]:
        """Return the seconds for each example, and s . grad of its loss."""
        batches = [self.batch(ids[row : row + 1]) for row in range(len(ids))]
        sides = [direction[name] for name in self.names]
        with self.chosen_alone(), full_precision():
            self._score(batches[0], sides)  # torch loads what it needs
            synchronize()
            started = time.perf_counter()
            scores = torch.stack([self._score(batch, sides) for batch in batches])
            synchronize()
        return (time.perf_counter() - started) / len(ids), scores.cpu()

    def _score(self, batch: Batch, sides: list[Tensor]) -> Tensor:
        slopes = torch.autograd.grad(self.loss(batch), self.chosen)
        return torch.stack([(slope * side).sum() for slope, side in zip(slopes, sides, strict=True)]).sum()

    def product(self, ids: Tensor, direction: Vector) -> tuple[float, Vector]:
        """Return the seconds of a Hessian product with the mean loss of some examples, and that product."""
        batch = self.batch(ids)
        sides = [direction[name] for name in self.names]
        with (
            self.chosen_alone(),
            full_precision(),
            sdpa_kernel(SDPBackend.MATH),
        ):  # the others have no second derivative
            synchronize()
            started = time.perf_counter()
            slopes = torch.autograd.grad(self.loss(batch), self.chosen, create_graph=True)
            inner = torch.stack([(slope * side).sum() for slope, side in zip(slopes, sides, strict=True)]).sum()
            product = torch.autograd.grad(inner, self.chosen)
            synchronize()
        seconds = time.perf_counter() - started
        return seconds, dict(zip(self.names, [part.detach() for part in product], strict=True))

    def seconds_of_product(self, batch_size: int, direction: Vector, *, rounds: int, seed: int) -> float:
        """Return the mean seconds of a product with batches drawn at random, after one that does not count."""
        total = len(self._case.train)
        draw = torch.Generator().manual_seed(seed)
        times = [
            self.product(torch.randint(total, (min(batch_size, total),), generator=draw), direction)[0]
            for _ in range(rounds + 1)
        ]
        return sum(times[1:]) / rounds


def at_once(case: Case) -> int:
    """Return how many examples have their gradients made together."""
    return max(1, min(MOST, GRADIENT_BYTES[case.model.device.type] // (4 * vectors.size(case.model.parameters))))


def batched_scores(case: Case, directions: Block, ids: Tensor) -> tuple[float, Tensor, str]:
    """Return the seconds for each example, the scores of all directions, and how the gradients were made."""
    for way, words in ((_by_vmap, "vmap(grad)"), (_by_capture, "gradients made from captured layers")):
        try:
            with warnings.catch_warnings(), full_precision():
                warnings.filterwarnings("ignore", message="There is a performance drop", category=UserWarning)
                way(case, directions, ids[: at_once(case)])
                synchronize()
                started = time.perf_counter()
                scores = way(case, directions, ids)
                synchronize()
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue  # torch has no rule for this module
        return (time.perf_counter() - started) / len(ids), scores, words
    raise RuntimeError("no way to make the gradients of a batch works for this model")


def _by_vmap(case: Case, directions: Block, ids: Tensor) -> Tensor:
    model = case.model
    module: Any = model.module

    def loss(parameters: Vector, inputs: Any, target: Tensor) -> Tensor:
        one = {name: tensor[None] for name, tensor in inputs.items()} if isinstance(inputs, dict) else None
        rest = () if one is not None else tuple(tensor[None] for tensor in inputs)
        outputs = functional_call(module, parameters, rest, one)
        return model.losses(getattr(outputs, "logits", outputs), target[None])[0]

    parts = []
    with sdpa_kernel(SDPBackend.MATH):
        for batch in case.train.batches(at_once(case), ids):
            placed = model.place(batch)
            slopes = vmap(grad(loss), in_dims=(None, 0, 0))(model.parameters, placed.inputs, placed.targets)
            parts.append(sum(directions[name].flatten(1) @ slope.flatten(1).T for name, slope in slopes.items()).cpu())
    return torch.cat(parts, dim=1)


def _by_capture(case: Case, directions: Block, ids: Tensor) -> Tensor:
    return scan(case.model, case.train, directions, ids=ids, batch_size=at_once(case), method="gemm")

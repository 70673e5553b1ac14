r"""The rows of the Gauss-Newton matrix's root, held as the factors that they are made of.

$G = \frac1n A^\top A$, where A stacks the rows $\Lambda_i^{1/2} J_i$ of all examples. A row is as long as a model has
parameters; its factors (inputs and slopes of each layer) are as long as the activations of one example. With them in
memory, $A v$, $A^\top u$ and $A A^\top$ need no pass through the model. Knows an operator, and how factors are
multiplied; nothing of damping.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fastif import vectors
from fastif.batch import Batch
from fastif.capture import Factor, Outer
from fastif.curvature import CurvatureOperator
from fastif.errors import ConfigurationError
from fastif.factored import add_weighted_sums, inner_products
from fastif.fitting import fitting
from fastif.formed import add_formed_sums, formed_products
from fastif.solvers.row_products import PART, Piece, in_pieces, row_products
from fastif.solvers.strong_rows import Chunk, Strongest
from fastif.vectors import Block


class RowsNotKeptError(ConfigurationError):
    """The rows of some batch have no factors that could be held."""


class KeptRows:
    """All rows of an operator, in the order of its batches; or the `most` longest of them."""

    def __init__(self, operator: CurvatureOperator, most: int | None = None) -> None:
        self.operator = operator
        self._chunks: list[Chunk] = []
        examples: list[Tensor] = []
        strongest = None if most is None else Strongest(most)
        done = 0
        for batch in operator.batches():
            for ids, chunks in fitting(self._captured, batch):
                if strongest is None:
                    self._chunks += chunks
                    examples += [ids] * len(chunks)
                else:
                    operator.progress("strongest rows", done, operator.examples)
                    for chunk in chunks:
                        strongest.add(chunk, ids)
                done += len(ids)
        self.seen, self.share_of_trace = sum(map(len, examples)), 1.0
        if strongest is not None:
            operator.progress("strongest rows", done, operator.examples)
            self._chunks, examples, self.share_of_trace = strongest.finish()
            self.seen = strongest.seen
        self.examples = torch.cat(examples)  # the number of each row's example
        self.counts = [len(ids) for ids in examples]
        self.count = len(self.examples)

    def _captured(self, batch: Batch) -> tuple[Tensor, list[Chunk]]:
        jacobian = self.operator.jacobian
        point = jacobian.at(batch)
        chunks = []
        for cotangents, signs in jacobian.bends(point):
            factors = point.factors(cotangents)
            if factors is None:
                raise RowsNotKeptError("layers that depend on the data cannot be kept: use ConjugateGradient().")
            if bool((signs < 0).any()):
                raise ConfigurationError("the loss is not convex in the outputs: use fastif.ConjugateGradient().")
            chunk: Chunk = {}
            for factor in factors:
                chunk.setdefault(factor.name, []).append(factor)
            chunks.append(chunk)
        return batch.ids, chunks

    def times(self, block: Block) -> Tensor:
        """Return A v for every vector v of a block, (width, rows)."""
        products = []
        for chunk, count in zip(self._chunks, self.counts, strict=True):
            total = next(iter(block.values())).new_zeros(vectors.width(block), count)
            for factor in _factors(chunk):
                total += _multiplied(factor, block[factor.name])
            products.append(total)
        return torch.cat(products, dim=1)

    def summed(self, weights: Tensor, like: Block) -> Block:
        r"""Return $A^\top u$ for every row u of the weights, (width, rows)."""
        total = {name: tensor.new_zeros(tensor.shape) for name, tensor in like.items()}
        for chunk, theirs in zip(self._chunks, weights.split(self.counts, dim=1), strict=True):
            for factor in _factors(chunk):
                if isinstance(factor, Outer) and factor.is_sooner_formed(len(weights)):
                    add_formed_sums(total[factor.name], factor, theirs, part=PART)
                else:
                    add_weighted_sums(total, factor, theirs)
        return {name: tensor.view_as(like[name]) for name, tensor in total.items()}

    def gram(self) -> Tensor:
        r"""Return $A A^\top$, (rows, rows) in float64."""
        parameters = self.operator.model.parameters
        device = next(iter(parameters.values())).device
        gram = torch.zeros(self.count, self.count, dtype=torch.float64, device=device)
        done, size = 0, self.operator.size
        for name, tensor in parameters.items():
            self.operator.progress("curvature matrix", done, size)
            for (start, stop), (other, end), product in row_products(list(self._pieces(name))):
                gram[start:stop, other:end] += product
            done += tensor.numel()
        self.operator.progress("curvature matrix", size, size)
        return torch.tril(gram) + torch.tril(gram, -1).T

    def _pieces(self, name: str) -> Iterator[Piece]:
        """Yield all rows of one parameter."""
        start = 0
        for chunk, count in zip(self._chunks, self.counts, strict=True):
            yield from in_pieces(chunk.get(name, []), start, count)
            start += count


def _multiplied(factor: Factor, some: Tensor) -> Tensor:
    """Return the inner products of rows with vectors, (width, rows), in the sooner of the two ways."""
    if not (isinstance(factor, Outer) and factor.is_sooner_formed(len(some))):
        return inner_products(factor, some)
    return formed_products(factor, some, part=PART)


def _factors(chunk: Chunk) -> Iterator[Factor]:
    for factors in chunk.values():
        yield from factors

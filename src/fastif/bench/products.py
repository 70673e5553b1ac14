"""How fast Gauss-Newton products with many vectors are: vector by vector under vmap, and from Jacobian rows.

    python -m fastif.bench.products [--examples N] [--device cpu|cuda] [--out FILE.json]

Both ways compute the same block on the same batches; the table shows how far they differ, and which one
`CurvatureOperator` takes by its counts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import fastif
from fastif import vectors
from fastif.batch import Batch
from fastif.bench.small import SETTINGS
from fastif.bench.timing import arguments, write
from fastif.curvature import CurvatureOperator
from fastif.derivatives import gauss_newton_product
from fastif.jacobian import product_by_rows
from fastif.measuring.timing import best_time, environment
from fastif.vectors import Block

WIDTHS = (1, 2, 4, 8, 16, 64)


def total(product: Callable[[Batch, Block], Block], batches: list[Batch], block: Block) -> Tensor:
    """Return the sum of a product over the batches, as a matrix."""
    return torch.stack([vectors.flatten(product(batch, block)) for batch in batches]).sum(dim=0)


def measure(name: str, examples: int, device: str) -> list[dict[str, Any]]:
    """Time both ways on one setting, for each number of vectors."""
    torch.manual_seed(0)
    make, draw, classes = SETTINGS[name]
    model = fastif.TorchModel(make().to(device).eval(), loss="cross_entropy")
    data = fastif.Examples((draw(examples).to(device), torch.randint(0, classes, (examples,)).to(device)))
    model.check(model.place(data.batch(range(min(examples, 8)))))
    operator = CurvatureOperator(model, data)
    batches = list(operator.batches())
    rows = []
    for width in WIDTHS:
        block = vectors.random(model.parameters, width, seed=0)

        by_vectors = partial(total, partial(gauss_newton_product, model), batches, block)
        by_rows = partial(total, partial(product_by_rows, operator.jacobian), batches, block)
        by_vectors(), by_rows()  # torch loads what it needs
        slow, expected = best_time(by_vectors, device)
        fast, seen = best_time(by_rows, device)
        rows.append(
            {
                "setting": name,
                "parameters": operator.size,
                "examples": examples,
                "positions": operator.jacobian.positions,
                "rows_per_example": operator.rows_per_example,
                "vectors": width,
                "by_vectors_s": slow,
                "by_rows_s": fast,
                "ratio": slow / fast,
                "chosen": operator.way(width),
                "relative_difference": float((seen - expected).norm() / expected.norm()),
            }
        )
    return rows


def main() -> None:
    """Run all settings, print the table and write it as JSON."""
    chosen = arguments(__doc__, "out/bench/products.json", examples=1024)
    where = environment(chosen.device)
    print(f"Gauss-Newton products over {chosen.examples:,} examples, {where}")
    print("| model | positions | rows each | vectors | vector by vector | from rows | ratio | chosen | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in SETTINGS:
        for row in measure(name, chosen.examples, chosen.device):
            rows.append(row)
            print(
                f"| {name} | {row['positions']:.1f} | {row['rows_per_example']} | {row['vectors']} "
                f"| {row['by_vectors_s']:.3f} s | {row['by_rows_s']:.3f} s | {row['ratio']:.1f}x | {row['chosen']} "
                f"| {row['relative_difference']:.1e} |",
                flush=True,
            )
    write(chosen.out, where, rows)


if __name__ == "__main__":
    main()

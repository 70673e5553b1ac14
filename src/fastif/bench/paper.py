"""Table 1 of the paper on the hardware at hand, on the data of a benchmark.

    fastif bench paper

The rows are measured by `fastif.measuring.table1`; `fastif reproduce table1` has them on the paper's own kind of data.
"""

from typing import Any

from fastif.measuring.table1 import KINDS, STEPS, Plan, run
from fastif.measuring.words import markdown, ratio, seconds, size

__all__ = ["KINDS", "Plan", "run", "table"]


def table(result: dict[str, Any]) -> str:
    """Return the figures as markdown."""
    rows = []
    for row in result["rows"]:
        took = seconds(row["seconds"]) + ("" if row["spread"] is None else f" ± {seconds(row['spread'])}")
        rows.append(
            [
                "all examples" if row["k"] is None else f"kNN, k = {row['k']:,}",
                f"{row['kind']} (B = {row['B']}, T = {row['T']})",
                row["paper_1_gpu"] or "-",
                row["paper_4_gpus"] or "-",
                seconds(row["naive_s"]),
                took + (" (extrapolated)" if row["extrapolated"] else ""),
                seconds(row["first_call_s"]),
                ratio(row["ratio_to_naive"]),
            ]
        )
    columns = ["candidates", "s_test", "paper, one V100", "paper, four V100", "plain torch here (extrapolated)"]
    naive = result["naive"]
    products = ", ".join(f"B = {size_}: {seconds(each)}" for size_, each in naive["product_s"].items())
    note = (
        f"A query each, J = {STEPS:,}, states and index warm; LiSSA was timed on {result['depth']:,} steps where "
        f"that is said. Peak memory {size(result['peak_bytes'])}. Plain torch: {seconds(naive['example_s'])} for the "
        f"gradient of an example (timed on {naive['timed_on']}), and a Hessian product of {products}."
    )
    return markdown([*columns, "fastif here", "first call", "against plain torch here"], rows) + "\n\n" + note

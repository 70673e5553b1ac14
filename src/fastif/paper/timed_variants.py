"""What the paper left out of Table 1: the time of one query that is answered in another way, among the smaller k.

Another solver and damping, no curvature at all, other candidates, weight decay in the gradients. All points in place of
the nearest are cells of the table itself. Knows variants and how a query is timed.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import fastif
from fastif.measuring.case import Case
from fastif.measuring.engine import Settings as Computing
from fastif.measuring.engine import SharedCache, explain, explainer_for
from fastif.measuring.table1 import STEPS, Plan, time_queries
from fastif.measuring.words import markdown, ratio, seconds
from fastif.paper.context import Context
from fastif.paper.solver_settings import NLI_ON_MNLI
from fastif.paper.variants import Variant, damping_in_words

Row = dict[str, Any]


def time_variants(context: Context, case: Case, cache: SharedCache, plan: Plan) -> list[Row]:
    """Time queries in each of the ways, each a part that is kept."""
    wanted = context.settings.table1
    return [
        context.part(f"variant, {variant.name}", partial(_timed, context, case, cache, plan, variant))
        for variant in wanted.variants
    ]


def _timed(context: Context, case: Case, cache: SharedCache, plan: Plan, variant: Variant) -> Row:
    wanted, computing = context.settings.table1, Computing(context.precision)
    nearest = cache.nearest(case.train, min(wanted.candidates[-1], len(case.train)), variant.by)
    # states and index, which were made before unless the run was killed since
    explain(explainer_for(case, computing, cache, solver=fastif.Identity(), candidates=nearest), case.first(1))
    papers = replace(NLI_ON_MNLI, depth=plan.depth_of(NLI_ON_MNLI.batch_size, context.device))
    found = time_queries(
        case,
        computing,
        cache,
        plan,
        depth=papers.depth if variant.is_by_papers_solver else STEPS,
        candidates=nearest,
        **variant.options(papers, context.seed, curvature_examples=wanted.curvature_examples),
    )
    return {"variant": variant.name, "k": nearest.k, **found}


def table(found: dict[str, Any] | None, papers: Row, queries: int) -> list[str]:
    """Return what each way takes beside the paper's fast cell of the same k; nothing of results without them."""
    if not (found and found["rows"]):
        return []
    lines = [
        [
            row["variant"],
            row["method"],
            damping_in_words(row["damping"]),
            "-" if row["extrapolated"] else seconds(row["first_call_s"]),  # of few steps
            taken(row),
            seconds(row["solving_s"]),
            ratio(papers["seconds"] / row["seconds"]),
        ]
        for row in [{"variant": "as the paper ranks, fast s_test", **papers}, *found["rows"]]
    ]
    columns = ["ranked by", "solver", "damping", "first query", "each after it", "of that the solve"]
    return [
        f"What the paper left out, each with the {papers['k']:,} nearest: mean over {found['queries']} queries, of the "
        f"paper's own way (the cell above) over {queries}. The first query makes what the solver needs for all; states "
        "and index are there.",
        markdown([*columns, "times faster than the paper's way, each after it"], lines),
    ]


def taken(row: Row) -> str:
    """Return what a query takes, with its deviation, and whether that is extrapolated."""
    spread = "" if row["spread"] is None else f" ± {seconds(row['spread'])}"
    return f"{seconds(row['seconds'])}{spread}{', extrapolated' if row['extrapolated'] else ''}"

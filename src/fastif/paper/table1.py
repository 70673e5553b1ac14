"""Table 1: how long one query takes, with and without kNN, with the original and the fast s_test.

The paper's four GPUs run the T = 4 repeats side by side; here they go through one device as one batch, and what four
would take is predicted from the solve of one repeat, in a column of its own. Plain torch is what the authors' code
does, timed on a sample and extrapolated.
"""

import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from fastif.data import Examples, Subset
from fastif.measuring.case import Case
from fastif.measuring.engine import Settings as Computing
from fastif.measuring.engine import SharedCache
from fastif.measuring.link import Link, bytes_of, on_several
from fastif.measuring.table1 import STEPS, Plan, Row, time_naive, time_one_repeat, time_row
from fastif.measuring.words import markdown, ratio, seconds
from fastif.paper import timed_variants
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import TABLE_1, TABLE_1_EXAMPLES
from fastif.paper.models import TaskModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "table1"
title = "Table 1: time of one query"
KINDS = ("original", "fast")
PREDICTED = "ours on four GPUs, predicted"


def run(context: Context) -> dict[str, Any]:
    """Time every cell, each a part that is kept."""
    wanted = context.settings.table1
    model = context.model("nli-3")
    case, cache = _case(context, model), SharedCache()
    rows = tuple(Row(k, kind, None) for k in (None, *wanted.candidates) for kind in KINDS)
    plan = Plan(
        queries=wanted.queries,
        depth=wanted.depth,
        fast_depth=wanted.fast_depth,
        sample=wanted.sample,
        seed=context.seed,
        rows=rows,
    )
    computing = Computing(context.precision)
    rounds = [
        context.part(f"naive, {number}", partial(time_naive, case, replace(plan, seed=context.seed + number)))
        for number in range(wanted.naive_rounds)
    ]
    naive, timed = _mean(rounds), []
    for row in rows:
        make = partial(time_row, case, computing, cache, plan, row, naive)
        timed.append(_with_spread(context.part(f"{row.kind}, k {row.k}", make), rounds, len(case.train)))
    alone = context.part("one repeat", partial(time_one_repeat, case, computing, cache, plan))
    few = replace(plan, queries=min(wanted.variant_queries, wanted.queries))
    variants = timed_variants.time_variants(context, case, cache, few)
    told = case.as_json()
    return {
        "examples": len(case.train),
        "queries": wanted.queries,
        "naive": {**naive, "rounds": rounds},
        "rows": [_with_prediction(row, alone, told["parameters"]) for row in timed],
        "one_repeat": alone,
        "variants": {"queries": few.queries, "rows": variants},
        "case": told,
    }


def _mean(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of what plain torch took, over other samples."""
    sizes = rounds[0]["product_s"]
    return {
        "example_s": statistics.fmean(each["example_s"] for each in rounds),
        "product_s": {size: statistics.fmean(each["product_s"][size] for each in rounds) for size in sizes},
        "timed_on": sum(each["timed_on"] for each in rounds),
    }


def _with_spread(row: dict[str, Any], rounds: list[dict[str, Any]], examples: int) -> dict[str, Any]:
    """Return a cell with the deviation of plain torch's time over the samples that it is extrapolated from."""
    steps, scored = STEPS * row["T"], min(row["k"] or examples, examples)
    times = [steps * each["product_s"][str(row["B"])] + scored * each["example_s"] for each in rounds]
    spread = statistics.stdev(times) if len(times) > 1 else None
    return {**row, "naive_spread": spread, "naive_rounds": len(times)}


def _with_prediction(row: dict[str, Any], alone: dict[str, Any], parameters: int) -> dict[str, Any]:
    """Return a cell with what four GPUs are predicted to take, where there are four repeats to be shared among them."""
    if row["T"] == 1:
        return row
    return {**row, "predicted": on_several(row, alone["solving_s"], parameters, Link())}


def _case(context: Context, model: TaskModel) -> Case:
    wanted = context.settings.table1
    train: Examples = model.train
    words = f"{len(model.train):,} pairs"
    if wanted.examples is not None and wanted.examples != len(model.train):
        # again and again, tokenised once: what is timed depends on their lengths alone
        train = Subset(model.train, torch.arange(wanted.examples) % len(model.train))
        words = f"{wanted.examples:,} pairs: {len(model.train):,} of them, repeated"
    dev = context.data.nli_dev(3).head(wanted.queries)
    return Case(name, model.classifier, train, list(dev.rows()), model.classifier.parameters_in_words(), words)


def table(result: dict[str, Any]) -> str:
    """Return the cells of the paper and ours, side by side."""
    there = _there(result)
    rows = []
    for row in result["rows"]:
        k = there[row["k"]]
        cell, four = TABLE_1.get((k, row["kind"])), TABLE_1.get((k, f"{row['kind']}, 4 GPUs"))
        rows.append(
            [
                "all" if row["k"] is None else f"{row['k']:,} ({row['k'] / result['examples']:.2%})",
                f"{row['kind']} (B = {row['B']}, T = {row['T']})",
                "/" if cell is None else str(cell),
                "/" if four is None else str(four),
                seconds(row["naive_s"]) + _spread(row.get("naive_spread")),
                timed_variants.taken(row),
                ratio(row["ratio_to_naive"]),
                seconds(predicted_s(row)),
            ]
        )
    depths = ", ".join(f"{depth:,}" for depth in sorted({row["depth"] for row in result["rows"]}))
    columns = ["k (share of all)", "s_test", "paper, 1 V100", "paper, 4 V100", "plain torch here, extrapolated"]
    note = (
        f"{result['case']['data']}; the paper has {TABLE_1_EXAMPLES:,}. Mean and deviation over {result['queries']} "
        f"queries, one by one, states and index warm; J = {STEPS:,}, of which {depths} steps "
        "were run. The T = 4 repeats are one batch on one device: that one time stands beside both columns of the "
        "paper."
    )
    table_ = markdown([*columns, "ours", "plain torch / ours", PREDICTED], rows)
    (papers,) = [row for row in result["rows"] if (row["kind"], there[row["k"]]) == ("fast", 1000)]
    others = timed_variants.table(result.get("variants"), papers, result["queries"])
    return "\n\n".join([table_, note, *_assumed(result), *others])


def predicted_s(row: dict[str, Any]) -> float | None:
    """Return what a cell is predicted to take on four GPUs; None of one repeat, and in results of before."""
    return row["predicted"]["seconds"] if "predicted" in row else None


def _assumed(result: dict[str, Any]) -> list[str]:
    """Return what predictions rest on, in words; nothing where there are none."""
    found = [row["predicted"] for row in result["rows"] if "predicted" in row]
    if not found:
        return []
    it, alone = found[0], result["one_repeat"]
    sent = bytes_of(result["case"]["parameters"], vectors=it["gpus"])
    return [
        f"Predicted, and not run: each of {it['gpus']} GPUs solves one repeat (T = 1, timed in this run: "
        f"{seconds(alone['solving_s'])}{_spread(alone['spread'])}{', extrapolated' if alone['extrapolated'] else ''}); "
        f"one all-reduce of 4 p T = {sent / 1e6:,.1f} MB takes {seconds(it['sending_s'])}, if a link has "
        f"{it['bandwidth'] / 1e9:g} GB/s and a call takes {1e6 * it['latency']:g} us, which is assumed; each scores a "
        "quarter of the candidates in a quarter of the time; what is left of a query is as measured on one."
    ]


def _there(result: dict[str, Any]) -> dict[int | None, int | None]:
    """Return the k of the paper that each k here stands for."""
    sizes = sorted({row["k"] for row in result["rows"] if row["k"] is not None}, reverse=True)
    return {None: None, **dict(zip(sizes, (10_000, 1000), strict=True))}


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw the times as bars on a logarithmic axis: the paper's, plain torch's and ours."""
    from matplotlib.figure import Figure

    from fastif.integrations.plots.style import COLOURS

    rows, there = result["rows"][::-1], _there(result)
    figure = Figure(figsize=(7, 0.66 * len(rows) + 1.2))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        cell = TABLE_1.get((there[row["k"]], row["kind"]))
        open_bar = {"facecolor": "none", "edgecolor": COLOURS[0], "hatch": "////"}  # nothing measured
        bars: tuple[tuple[str, float | None, dict[str, Any]], ...] = (
            ("paper, one V100", None if cell is None else 60 * cell.minutes, {"color": COLOURS[6]}),
            ("plain torch here (extrapolated)", row["naive_s"], {"color": COLOURS[4]}),
            ("ours", row["seconds"], {"color": COLOURS[0]}),
            (PREDICTED, predicted_s(row), open_bar),
        )
        for number, (label, value, look) in enumerate(bars):
            if value is not None:
                height = place + 0.21 * (1.5 - number)
                axes.barh(height, value, 0.19, label=label, **look)
                axes.text(value * 1.05, height, seconds(value), va="center", fontsize=7)
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([f"{row['kind']} s_test, {_k(row)}" for row in rows])
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 3, high * 4)
    axes.set_xlabel("seconds for one query")
    axes.grid(axis="y", visible=False)
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=2)
    return {"table1": figure}


def _spread(deviation: float | None) -> str:
    return "" if deviation is None else f" ± {seconds(deviation)}"


def _k(row: dict[str, Any]) -> str:
    return "all" if row["k"] is None else f"k = {row['k']:,}"

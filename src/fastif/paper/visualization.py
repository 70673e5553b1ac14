"""Figure 5 and two tables of the appendix: which training points act on which slices of wrong predictions.

Two models are asked, one trained on NLI (two labels) and one on HANS, each about points that it predicts wrong: some of
MNLI and some of each heuristic of HANS. An edge joins a point and each of its k nearest training points. Training
points of HANS have heuristics of their own: a ring for each in the picture, and a table of who acts on whom. Other ways
to score the same points are counted beside the paper's.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import fastif
from fastif.apps.edges import Edges, choose_edges
from fastif.apps.slices import Comparison, compare_slices
from fastif.errors import DataError
from fastif.integrations.tables import TextTable
from fastif.paper.context import Context
from fastif.paper.models import TaskModel
from fastif.paper.points import some_wrong
from fastif.paper.scored import System
from fastif.paper.settings import Model, VisualizationSettings
from fastif.paper.slice_tables import table as table
from fastif.paper.solver_settings import SolverSettings
from fastif.paper.sources import CONSTITUENT, LEXICAL, SUBSEQUENCE, joined
from fastif.paper.variants import PAPERS, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "visualization"
title = "Figure 5: which training points act on which slices"
MNLI = "MNLI"
HEURISTICS = (LEXICAL, SUBSEQUENCE, CONSTITUENT)
SLICES = (*HEURISTICS, MNLI)
HANS_MODEL: Model = "hans"
MODELS: tuple[Model, ...] = ("nli-2", HANS_MODEL)
AT_ONCE = 200  # queries whose scores are one piece
Part = dict[str, Any]


def run(context: Context) -> dict[str, Any]:
    """Score the nearest training points of wrong points of each slice, for both models."""
    return {"models": {model: _of_model(context, context.model(model)) for model in MODELS}}


def _of_model(context: Context, model: TaskModel) -> Part:
    wanted = context.settings.visualization
    asked = dict(_wrong(context, model))
    if not any(map(len, asked.values())):
        raise DataError(f"{model.name} predicts everything right, so that there is no wrong point to explain.")
    part = _scored(context, model, asked, PAPERS)
    found = {**part, "comparison": comparison_of(part).as_json(), "by_train_slice": _by_train_slice(part)}
    if wanted.variants:
        ways = {variant.name: _scored(context, model, asked, variant) for variant in wanted.variants}
        found["variants"] = {name: _counted(each) for name, each in {PAPERS.name: part, **ways}.items()}
    return found


def _scored(context: Context, model: TaskModel, asked: dict[str, TextTable], variant: Variant) -> Part:
    """Score the candidates of all wrong points in one way, those that one solver serves together."""
    wanted, parts = context.settings.visualization, []
    queries: list[dict[str, Any]] = []
    k = min(wanted.k, len(model.train))
    for solver, some in _by_solver(wanted, model.name, asked):
        system = System(variant.name, solver, context.seed, k, variant)
        wrong = joined([asked[name] for name in some], "wrong")
        for start in range(0, len(wrong), AT_ONCE):
            few = wrong.take(range(start, min(start + AT_ONCE, len(wrong))))
            parts.append(system.scores(context, model, few, f"{model.name}, {some}, from {start}"))
        queries += [row for name in some for row in asked[name].rows()]
    values, ids = (torch.cat(each) for each in zip(*(_strongest(scores, k) for scores in parts), strict=True))
    rows = zip(queries, values.tolist(), ids.tolist(), strict=True)
    return {
        "k": k,
        "examples": len(model.train),
        "train_slices": model.table.slices if model.name == HANS_MODEL else None,
        # a line for each query, as there may be a thousand numbers in it
        "queries": [
            {**row, "values": _line(some, "{:.6g}"), "train_ids": _line(near, "{}")} for row, some, near in rows
        ],
    }


def _strongest(scores: fastif.Scores, k: int) -> tuple[Tensor, Tensor]:
    """Return the k strongest where all training points were scored, so that as many edges are counted as elsewhere."""
    places = scores.values.abs().topk(k, dim=1).indices.sort(dim=1).values  # in their order
    return scores.values.gather(1, places), scores.train_ids.gather(1, places)


def _counted(part: Part) -> list[dict[str, Any]]:
    """Return for each slice how many edges help a point, how strong they are, and whose they are, mean over points."""
    found, rows = by_point(part) or [], []
    for name in dict.fromkeys(each["slice"] for each in found):
        mine = [each for each in found if each["slice"] == name]
        strengths = [math.log(each["times_as_strong"]) for each in mine if each["times_as_strong"] is not None]
        rows.append(
            {
                "slice": name,
                "points": len(mine),
                "share_helpful": fmean(each["share_helpful"] for each in mine),
                "times_as_strong": math.exp(fmean(strengths)) if strengths else None,
                "share_of_influence": {
                    source: fmean(each["share_of_influence"][source] for each in mine)
                    for source in mine[0]["share_of_influence"]
                },
            }
        )
    return rows


def _wrong(context: Context, model: TaskModel) -> Iterator[tuple[str, TextTable]]:
    """Yield wrong points of each slice, none where the model is always right."""
    wanted, data = context.settings.visualization, context.data
    hans = data.some(data.hans_test())
    for part in HEURISTICS:
        rows = [row for row, heuristic in enumerate(hans.slices or []) if heuristic == part]
        yield part, some_wrong(model, hans.take(rows), wanted.hans_each, seed=context.seed)
    table = some_wrong(model, data.some(data.nli_dev(2)), wanted.mnli, seed=context.seed)
    yield MNLI, replace(table, slices=[MNLI] * len(table))


def _solver(wanted: VisualizationSettings, model: str, part: str) -> SolverSettings:
    if model == HANS_MODEL:
        return wanted.hans
    return wanted.nli_on_mnli if part == MNLI else wanted.nli_on_hans


def _by_solver(
    wanted: VisualizationSettings, model: str, asked: dict[str, TextTable]
) -> Iterator[tuple[SolverSettings, list[str]]]:
    """Yield each solver with the slices that are scored by it, of those that have points."""
    there = [name for name, wrong in asked.items() if len(wrong)]
    for solver in dict.fromkeys(_solver(wanted, model, name) for name in there):
        yield solver, [name for name in there if _solver(wanted, model, name) == solver]


def _line(numbers: list[Any], form: str) -> str:
    return " ".join(map(form.format, numbers))


def edges_of(part: Part) -> tuple[Edges, list[str]]:
    """Return the edges of a model from its result, and the slice of each query."""
    queries = part["queries"]
    values = [[float(number) for number in row["values"].split()] for row in queries]
    ids = [[int(number) for number in row["train_ids"].split()] for row in queries]
    scores = fastif.Scores(torch.tensor(values, dtype=torch.float64), torch.tensor(ids))
    return choose_edges(scores), [row["slice"] for row in queries]


def comparison_of(part: Part) -> Comparison:
    """Return the numbers of both tables of the appendix."""
    edges, slices = edges_of(part)
    return compare_slices(edges, slices, empty=SLICES)


def _by_train_slice(part: Part) -> list[dict[str, Any]]:
    """Return how much of the |I| on each slice comes from training points of each slice of theirs."""
    if part["train_slices"] is None:
        return []
    edges, slices = edges_of(part)
    of_edge, of_train = np.array(slices)[edges.queries], np.array(part["train_slices"])[edges.train_ids]
    rows = []
    for there in dict.fromkeys(slices):
        strengths = np.abs(edges.values[of_edge == there])
        for source in HEURISTICS:
            chosen = strengths[of_train[of_edge == there] == source]
            rows.append(
                {
                    "slice": there,
                    "train_slice": source,
                    "edges": len(chosen),
                    "mean": float(chosen.mean()) if len(chosen) else None,
                    "share_of_edges": len(chosen) / len(strengths),
                    "share_of_influence": float(chosen.sum() / strengths.sum()),
                }
            )
    return rows


def by_point(part: Part) -> list[dict[str, Any]] | None:
    """Return what each wrong point has: helpful edges, how strong, and whose; None where its edges are not known.

    What is published has these in place of the edges.
    """
    if "by_point" in part or not all("values" in query for query in part["queries"]):
        kept: list[dict[str, Any]] | None = part.get("by_point")
        return kept
    edges, slices = edges_of(part)
    sources = None if part["train_slices"] is None else np.array(part["train_slices"])
    rows = []
    for number, name in enumerate(slices):
        mine = edges.queries == number
        values = edges.values[mine]
        helpful, harmful = -values[values < 0], values[values > 0]
        strong = helpful.mean() / harmful.mean() if len(helpful) and len(harmful) else None
        of_edge = None if sources is None else sources[edges.train_ids[mine]]
        rows.append(
            {
                "slice": name,
                "share_helpful": len(helpful) / len(values),
                "times_as_strong": None if strong is None else float(strong),
                "share_of_influence": {}
                if of_edge is None
                else {each: float(np.abs(values[of_edge == each]).sum() / np.abs(values).sum()) for each in HEURISTICS},
            }
        )
    return rows


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw the circles of both models, rings for the heuristics of HANS' training points, and both tables."""
    from fastif.apps.graph import lay_out
    from fastif.integrations.plots.graph import draw_graph
    from fastif.integrations.plots.slices import draw_correlations, draw_slices

    figures = {}
    for (model, part), words in zip(result["models"].items(), ("NLI", "HANS"), strict=True):
        edges, slices = edges_of(part)
        graph = lay_out(edges, slices, train_slices=part["train_slices"])
        found = comparison_of(part)
        figures[f"graph-{model}"] = draw_graph(graph, title=f"Model trained on {words}: influence on its wrong points")
        figures[f"slices-{model}"] = draw_slices(found)
        figures[f"correlations-{model}"] = draw_correlations(found)
    return figures

"""How long the layout of a large graph takes, against a general solver called for one node after another.

    fastif bench layout

The graph has the size of the paper's (400 queries in four slices, 112,130 training points, 400,000 edges), with made-up
edges: every training point has one, the others go to some points more often than to others, as influence does; a
fourth of them is helpful. The time is that of `lay_out` as a whole, the shortest of a few, by the clock and of the
processor (which is less where other programs run beside it). The general solver is scipy's SLSQP within the same disc,
as the authors of the paper called it, on a sample of the nodes, extrapolated. Where the two differ, the one with the
smaller sum of weighted distances is right, and that is counted.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastif.apps.edges import Edges, Floats
from fastif.apps.graph import DISC, Graph, Side, lay_out
from fastif.errors import ConfigurationError
from fastif.measuring.timing import best_time
from fastif.measuring.words import markdown, number, ratio, seconds

SLICES = 4
GOAL = 5.0  # seconds, on two cores
POPULAR = 3  # the larger, the more edges go to a few training points


@dataclass(frozen=True)
class Plan:
    """What is measured: the size of the graph, and how many nodes a general solver places."""

    queries: int = 400
    train_points: int = 112_130
    edges: int = 400_000
    sample: int = 200
    repeats: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.train_points <= self.edges <= self.train_points * self.queries // 4:
            raise ConfigurationError(
                f"{self.edges:,} edges must be at least as many as the {self.train_points:,} training points, and at "
                f"most a fourth of all pairs with {self.queries:,} queries."
            )


def made_up_edges(plan: Plan) -> Edges:
    """Return edges of that number, no two of the same pair, at least one for each training point."""
    draw = np.random.default_rng(plan.seed)
    pairs = np.arange(plan.train_points) * plan.queries + draw.integers(0, plan.queries, plan.train_points)
    while len(pairs) < plan.edges:
        missing = plan.edges - len(pairs)
        points = (plan.train_points * draw.random(2 * missing) ** POPULAR).astype(np.int64)
        more = np.setdiff1d(points * plan.queries + draw.integers(0, plan.queries, len(points)), pairs)
        pairs = np.concatenate([pairs, draw.permutation(more)[:missing]])
    values = draw.lognormal(0, 1.5, len(pairs)) * np.where(draw.random(len(pairs)) < 0.25, -1.0, 1.0)
    return Edges(pairs % plan.queries, pairs // plan.queries, values, plan.queries, "made up")


def run(plan: Plan) -> dict[str, Any]:
    """Measure both ways."""
    edges = made_up_edges(plan)
    slices = [f"slice {query * SLICES // plan.queries}" for query in range(plan.queries)]
    busy: list[float] = []

    def lay_out_once() -> Graph:
        start = time.process_time()
        graph = lay_out(edges, slices)
        busy.append(time.process_time() - start)
        return graph

    taken, graph = best_time(lay_out_once, "cpu", plan.repeats)
    places = sum(len(side.train_ids) for side in graph.sides)
    figures: dict[str, Any] = {
        "queries": plan.queries,
        "train_points": graph.train_points,
        "edges": graph.edges,
        "places": places,
        "repeats": plan.repeats,
        "numpy": np.__version__,
        "seconds": taken,
        "processor_seconds": min(busy),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "goal_seconds": GOAL,
    }
    return {**figures, "general": _general(graph, plan, places)}


def _general(graph: Graph, plan: Plan, places: int) -> dict[str, Any] | None:
    """Place a sample of the nodes one by one; None where scipy is not installed."""
    try:
        from scipy.optimize import minimize
    except ModuleNotFoundError:
        return None
    draw = np.random.default_rng(plan.seed)
    nodes = [(side, node) for side in graph.sides for node in range(len(side.train_ids))]
    chosen = [nodes[index] for index in draw.choice(len(nodes), min(plan.sample, len(nodes)), replace=False)]
    disc = {"type": "ineq", "fun": lambda at: DISC**2 - at @ at}
    differences, better, worse, spent = [], 0, 0, 0.0
    for side, node in chosen:
        points, weights = _node(graph, side, node)
        start = time.perf_counter()
        found = minimize(_cost, (0.0, 0.0), args=(points, weights), constraints=disc).x
        spent += time.perf_counter() - start
        found = found * min(1.0, DISC / max(float(np.hypot(*found)), 1e-300))
        differences.append(float(np.hypot(*(found - side.positions[node]))))
        ours, theirs = _cost(side.positions[node], points, weights), _cost(found, points, weights)
        better, worse = better + (ours <= theirs * (1 + 1e-12)), worse + (ours > theirs * (1 + 1e-12))
    return {
        "sample": len(chosen),
        "seconds_for_sample": spent,
        "seconds_extrapolated": spent / len(chosen) * places,
        "median_distance": float(np.median(differences)),
        "largest_distance": max(differences),
        "as_good_or_better": better,
        "worse": worse,
    }


def _node(graph: Graph, side: Side, node: int) -> tuple[Floats, Floats]:
    mine = side.nodes == node
    weights = np.abs(side.edges.values[mine])
    return graph.places[side.edges.queries[mine]], weights / weights.sum()


def _cost(at: Floats, points: Floats, weights: Floats) -> float:
    return float((weights * np.hypot(points[:, 0] - at[0], points[:, 1] - at[1])).sum())


def table(result: dict[str, Any]) -> str:
    """Return the figures as a table."""
    columns = ["queries", "training points", "edges", "places", "layout", "of the processor", "goal", "one by one"]
    columns += ["against it", "distance to it, median", "largest", "sum of distances: as good or better", "worse"]
    cells = [f"{result[name]:,}" for name in ("queries", "train_points", "edges", "places")]
    cells += [
        seconds(result["seconds"]),
        seconds(result["processor_seconds"]),
        f"at most {seconds(result['goal_seconds'])}",
    ]
    other = result["general"]
    if other is None:
        cells += ["scipy is not installed", *["-"] * 5]
    else:
        cells += [f"{seconds(other['seconds_extrapolated'])} (extrapolated from {other['sample']:,})"]
        cells += [ratio(other["seconds_extrapolated"] / result["seconds"]), number(other["median_distance"])]
        cells += [number(other["largest_distance"]), f"{other['as_good_or_better']}", f"{other['worse']}"]
    return markdown(columns, [cells])

"""Figure 3 (b): time and error of the inverse-Hessian-vector product over depth J, batch size B and repeats T.

The error is the norm of the difference to the most expensive setting, as in the paper, and to the converged solution of
(H + damp x scale I) x = v, which the paper does not have. One run to the largest J passes all smaller ones. Each point
has random draws of its own, so that an interval over points has their error too.
"""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from fastif import vectors
from fastif.curvature import CurvatureOperator
from fastif.keeping import Tensors, from_tensor, to_tensor
from fastif.measuring.engine import operator_of, synchronize, working
from fastif.measuring.words import markdown, number, seconds
from fastif.paper import solved_variants
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import HVP_CLAIMS
from fastif.paper.points import KINDS, RIGHT, WRONG
from fastif.precision import matmuls
from fastif.solvers import ConjugateGradient
from fastif.solvers.paper_lissa import PaperLiSSA, PreparedPaperLiSSA
from fastif.vectors import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "hvp"
title = "Figure 3 (b): time and error of the inverse-Hessian-vector product"
Row = dict[str, Any]


def run(context: Context) -> dict[str, Any]:
    """Run every setting for every point; what is kept of each are its numbers."""
    wanted = context.settings.hvp
    model = context.model("nli-3")
    points = context.points(model, context.data.nli_dev(3), right=wanted.right, wrong=wanted.wrong)
    rows = torch.randperm(len(model.train), generator=torch.Generator().manual_seed(context.seed))
    data = model.examples(model.table.take(sorted(rows[: wanted.examples or len(rows)].tolist())))
    explainer = context.explainer(model, train=data, curvature="hessian", solver=wanted.solver.solver())
    every = model.classifier.place(points.examples.batch(range(len(points))))
    with working(explainer):
        gradients = operator_of(explainer).jacobian.gradients(every, model.classifier.losses)
        measured, converged = _every_query(context, operator_of(explainer), gradients)
    solved = {"gradients": gradients, "papers": converged}
    variants, missing = solved_variants.solve_variants(context, model, data, every, **solved)
    kinds = [RIGHT if flag else WRONG for flag in points.right.tolist()]
    return {
        "damping": wanted.solver.damping,
        "examples": len(data),
        "points": points.as_json(),
        "rows": [{**row, "prediction": kinds[row["query"]]} for row in measured],
        "variants": variants,
        "notes": missing,
    }


def _every_query(context: Context, operator: CurvatureOperator, gradients: Block) -> tuple[list[Row], Block]:
    """Return the rows of all queries, and their converged solutions."""
    runs, rows, converged = _Runs(context, operator), [], []
    for query in range(vectors.width(gradients)):
        right_side = vectors.select(gradients, slice(query, query + 1))
        work = _Work(context, runs, right_side, first_repeat=query * max(context.settings.hvp.repeats))
        converged.append(_beside(right_side, context.piece(f"converged {query}", work.converged)))
        rows += _query(context, replace(work, truths={"converged": converged[-1]}), query)
    return rows, vectors.join(converged)


def _query(context: Context, work: "_Work", query: int) -> list[Row]:
    """Return the rows of one query: a time and two errors for each setting."""
    wanted, right_side = context.settings.hvp, work.right_side
    settings = [(size, repeats) for size in wanted.batch_sizes for repeats in wanted.repeats]
    dearest = max(wanted.batch_sizes), max(wanted.repeats)
    kept = context.piece(f"dearest of point {query}", partial(work.dearest, *dearest))
    rows: list[Row] = from_tensor(kept.pop("rows"))
    work.truths["dearest"] = _beside(right_side, kept)
    for number_, setting in enumerate(settings):
        context.progress(f"settings of query {query}", number_, len(settings))
        if setting != dearest:
            rows += context.part(f"point {query}, B and T {setting}", partial(work.measured, *setting))
    context.progress(f"settings of query {query}", len(settings), len(settings))
    return [{"query": query, **row} for row in rows]


def _beside(like: Block, kept: Block) -> Block:
    """Return what was kept on the device of another block."""
    device = next(iter(like.values())).device
    return {key: tensor.to(device) for key, tensor in kept.items()}


Path = list[tuple[int, float | None, Block]]  # depth, seconds, solution


@dataclass(frozen=True)
class _Work:
    """One right-hand side, and the solutions that others are compared with."""

    context: Context
    runs: "_Runs"
    right_side: Block
    first_repeat: int  # it draws as the repeats from this one on, and so as no other point does
    truths: dict[str, Block] = field(default_factory=dict)

    def converged(self) -> Block:
        """Solve to the end, in full precision also where the steps are in less."""
        damping, device = self.context.settings.hvp.solver.damping, next(iter(self.right_side.values())).device
        with matmuls("float32", device):
            return ConjugateGradient().prepare(self.runs.operator).solve(self.right_side, damping).value

    def dearest(self, size: int, repeats: int) -> Tensors:
        """Run the most expensive setting; return where it ended, and its own rows."""
        path = self._path(size, repeats)
        self.truths["dearest"] = path[-1][2]
        return {**path[-1][2], "rows": to_tensor(self._rows(path, size, repeats))}

    def measured(self, size: int, repeats: int) -> list[Row]:
        """Run a setting, and return a row for each depth."""
        return self._rows(self._path(size, repeats), size, repeats)

    def _path(self, size: int, repeats: int) -> Path:
        return self.runs.of(size, repeats).path(self.right_side, self.first_repeat)

    def _rows(self, path: Path, size: int, repeats: int) -> list[Row]:
        rows = []
        for depth, took, value in path:
            row: Row = {"B": size, "T": repeats, "J": depth, "seconds": took}
            for name_, truth in self.truths.items():
                row[f"error_to_{name_}"] = float(vectors.norm(vectors.add(value, truth, -1.0))[0])
                row[f"relative_to_{name_}"] = row[f"error_to_{name_}"] / float(vectors.norm(truth)[0])
            rows.append(row)
        return rows


@dataclass(frozen=True)
class _Runs:
    """LiSSA in each setting, the same for all points, so that what a GPU records of its steps is recorded once."""

    context: Context
    operator: CurvatureOperator
    known: "dict[tuple[int, int], _Snapshots]" = field(default_factory=dict)

    def of(self, size: int, repeats: int) -> "_Snapshots":
        """Return the run with this B and T to the largest J."""
        wanted = self.context.settings.hvp
        if (size, repeats) not in self.known:
            it = wanted.solver
            knobs = PaperLiSSA(it.damp, it.scale, max(wanted.depths), size, repeats, self.context.seed)
            self.known[size, repeats] = _Snapshots(knobs, self.operator, wanted.depths)
        return self.known[size, repeats]


class _Snapshots(PreparedPaperLiSSA):
    """The paper's iteration, with a picture taken at some depths."""

    def __init__(self, knobs: PaperLiSSA, operator: CurvatureOperator, depths: Sequence[int]) -> None:
        super().__init__(knobs, operator)
        self._depths = set(depths)
        self._taken: Path = []
        self._started = 0.0
        self._is_warm = not next(iter(operator.model.parameters.values())).is_cuda

    def path(self, right_side: Block, first_repeat: int) -> Path:
        """Iterate, and return the pictures; without times where steps were recorded on the way.

        That is so in the first run on a GPU, and in later ones that draw longer examples than any before.
        """
        self._taken, before = [], self.recordings
        self.draw_as(range(first_repeat, first_repeat + self.knobs.repeats))
        synchronize()
        self._started = time.perf_counter()
        self.iterate(right_side)
        is_timed, self._is_warm = self._is_warm and self.recordings == before, True
        return [(depth, took if is_timed else None, value) for depth, took, value in self._taken]

    def _report(self, step: int, state: Block) -> None:
        super()._report(step, state)
        if step + 1 in self._depths:
            synchronize()
            took = time.perf_counter() - self._started
            repeats = self.knobs.repeats
            mean = {key: tensor.unflatten(0, (repeats, -1)).mean(dim=0) for key, tensor in state.items()}
            self._taken.append((step + 1, took, vectors.scale(mean, 1 / self.knobs.scale)))


def mean_of(rows: list[Row], value: str, **setting: Any) -> float | None:
    """Return the mean of a value over the rows that have this setting, and the value; None where none has."""
    found = [row[value] for row in rows if all(row[key] == wanted for key, wanted in setting.items())]
    known = [each for each in found if each is not None]
    return statistics.fmean(known) if known else None


def table(result: dict[str, Any]) -> str:
    """Return the claims of the paper beside what was seen, and the settings at the largest depth."""
    rows = result["rows"]
    sizes, depths, repeats = (sorted({row[key] for row in rows}) for key in ("B", "J", "T"))
    small, large, few, many = sizes[0], sizes[-1], repeats[0], repeats[-1]

    def change(value: str, key: str, low: int, high: int, **fixed: int) -> str:
        setting = {"T": few, "J": depths[-1], **fixed}
        means = [mean_of(rows, value, **{**setting, key: end}) for end in (low, high)]
        return f"{key} {low} → {high}: {number(means[0])} → {number(means[1])}"

    error = "relative_to_converged"
    ours = [
        f"seconds, {change('seconds', 'B', small, large)}; {change('seconds', 'J', depths[0], depths[-1], B=large)}",
        "relative error to the converged solution, "
        f"{change(error, 'B', small, large)}; {change(error, 'J', depths[0], depths[-1], B=large)}",
        f"relative error to the converged solution at B = {small}, {change(error, 'T', few, many, B=small)}",
    ]
    claims = [[claim.words, claim.where, words] for claim, words in zip(HVP_CLAIMS, ours, strict=True)]
    settings = [
        [
            str(size),
            str(repeat),
            seconds(mean_of(rows, "seconds", B=size, T=repeat, J=depths[-1])),
            number(mean_of(rows, "relative_to_dearest", B=size, T=repeat, J=depths[-1])),
            number(mean_of(rows, "relative_to_converged", B=size, T=repeat, J=depths[-1])),
        ]
        for size in sizes
        for repeat in repeats
    ]
    columns = ["B", "T", "time", "relative error to the dearest setting", "relative error to the converged solution"]
    note = (
        f"Mean over {len(result['points'])} points, at J = {depths[-1]}; H over {result['examples']:,} examples, "
        f"damping {result['damping']:g}. The T repeats go through the device as one batch{_untimed(rows)}."
    )
    parts = [markdown(["paper", "where", "ours"], claims), markdown(columns, settings), note]
    return "\n\n".join([*parts, *solved_variants.table(result.get("variants", [])), *result.get("notes", [])])


def _untimed(rows: list[Row]) -> str:
    """Say where runs have no time."""
    without = len({row["query"] for row in rows if row["seconds"] is None})
    return (
        f"; a run that recorded steps has no time, of {without} of the points in one setting or more" if without else ""
    )


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw the paper's panels, and the same errors to the converged solution."""
    return {
        "hvp": _figure(result, "error_to_dearest", "difference to the dearest setting", with_time=True),
        "hvp-converged": _figure(result, "error_to_converged", "difference to the converged solution", with_time=False),
    }


def _figure(result: dict[str, Any], error: str, words: str, *, with_time: bool) -> "Figure":
    """Draw a row of panels for each kind of prediction: time and, for each T, the error; a line for each B."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    rows = result["rows"]
    sizes, repeats = sorted({row["B"] for row in rows}), sorted({row["T"] for row in rows})
    panels: list[tuple[str, int]] = [("seconds", repeats[0])] if with_time else []
    panels += [(error, repeat) for repeat in repeats]
    figure = Figure(figsize=(3 * len(panels) + 1, 5))
    grid = figure.subplots(2, len(panels), sharex=True, squeeze=False)
    colours = colormaps["viridis"].resampled(len(sizes) + 1)
    for line, kind in enumerate(KINDS):
        for column, (value, repeat) in enumerate(panels):
            axes = grid[line][column]
            for place, size in enumerate(sizes):
                some = [row for row in rows if (row["prediction"], row["B"], row["T"]) == (kind, size, repeat)]
                depths = sorted({row["J"] for row in some})
                means = [mean_of(some, value, J=depth) for depth in depths]
                axes.plot(
                    depths,
                    [math.nan if mean is None else mean for mean in means],
                    "o-",
                    ms=3,
                    color=colours(place),
                    label=f"B = {size}",
                )
            axes.set_title(f"prediction {kind}: {'time' if value == 'seconds' else f'error, T = {repeat}'}")
            axes.set_ylabel("seconds" if value == "seconds" else "norm of the difference")
            if value == "seconds":
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter(FuncFormatter(lambda number_, _: f"{number_:.3g}"))
                axes.yaxis.set_minor_formatter(NullFormatter())
            if line == 1:
                axes.set_xlabel("depth J")
    for column in [place for place, (value, _) in enumerate(panels) if value != "seconds"]:
        for line in (0, 1):  # one scale for all T, so that they can be compared
            top = max(axes.get_ylim()[1] for axes in grid[line][1 if with_time else 0 :])
            grid[line][column].set_ylim(0, top)
    figure.suptitle(f"Error: {words}", fontsize=9)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside right center")
    return figure

"""What the steps of a correction changed: paired intervals, the table "paper | ours", and the figures.

Kinds share the anchors of a repeat, so that they are compared repeat by repeat. Where several cells are averaged
(slices of the anchors by slices of the test set), that is done within a repeat, or with several checkpoints within a
model. Knows walks, neither models nor data.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from fastif.apps.iteration import KINDS, Courses, Kind, Measure
from fastif.intervals import Interval, in_words, paired_interval
from fastif.measuring.words import markdown
from fastif.paper.endings import Ends, Group, with_rows_error
from fastif.paper.figures_of_the_paper import CORRECTION_CLAIMS, GAINS, HANS_START
from fastif.paper.joining import groups_of, whence
from fastif.paper.verdicts import is_wide

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = "all"  # anchors that are not drawn slice by slice
START: Literal["start"] = "start"
MEASURES: tuple[Measure, ...] = ("loss", "accuracy")
PAIRS: tuple[tuple[Kind, Kind | Literal["start"]], ...] = (
    *((kind, START) for kind in KINDS),
    ("helpful", "random"),
    ("helpful", "anchors"),
    ("helpful", "harmful"),
)
OWN, WHOLE, ORIGINAL = "own slice", "all slices", "original data"
TEST, VALIDATION = "test", "validation"
Cell = tuple[Courses, int]
Row = dict[str, Any]


def measured(walks: Mapping[str, Courses]) -> list[Row]:
    """Return every change after the last step: of each cell, and of the averages over cells."""
    rows: list[Row] = []
    for anchors, courses in walks.items():
        for number, part in enumerate(courses.parts):
            about = {"anchors": anchors, "set": part.set, "part": part.title, "examples": part.examples}
            rows += [{**about, **row} for row in _rows([(courses, number)])]
    for name, cells in averages(walks).items():
        about = {"anchors": None, "set": None, "part": name, "cells": len(cells)}
        rows += [{**about, **row} for row in _rows(cells)]
    return rows


def with_rows_errors(rows: list[Row], ends: Mapping[str, Ends], slices: Sequence[str] | None) -> list[Row]:
    """Return changes, those on the test set with the error that its rows make: `rows_error`."""
    everyone = list(range(next(iter(next(iter(ends.values())).values()))["loss"].shape[1]))
    by_slice: dict[str, list[int]] = {}
    for number, name in enumerate(slices or []):
        by_slice.setdefault(name, []).append(number)

    def groups(row: Row) -> list[Group]:
        if row["part"] == OWN and row["set"] is None:
            return [([name], by_slice[name]) for name in ends]
        if row["part"] == WHOLE and row["set"] is None:
            return [(list(ends), ids) for ids in by_slice.values()]
        return [([row["anchors"]], by_slice.get(row["part"], everyone))] if row["set"] == TEST else []

    return [with_rows_error(row, ends, groups(row)) for row in rows]


def summed_up(walks: Mapping[str, Courses]) -> list[Row]:
    """Return the changes that the paper tells of and those on the original data: of averages, or of the test set."""
    wanted = {OWN, WHOLE, ORIGINAL, TEST}
    return [row for row in measured(walks) if row["part"] in wanted and row["anchors"] in (None, ALL)]


def averages(walks: Mapping[str, Courses]) -> dict[str, list[Cell]]:
    """Return the cells that are averaged, by what the average is called."""
    found: dict[str, list[Cell]] = {OWN: [], WHOLE: [], ORIGINAL: []}
    for anchors, courses in walks.items():
        for number, part in enumerate(courses.parts):
            if part.set == TEST:
                found[OWN] += [(courses, number)] * (part.slice == anchors)
                found[WHOLE] += [(courses, number)] * (part.slice is not None)
            found[ORIGINAL] += [(courses, number)] * (part.set == "original")
    return {name: cells for name, cells in found.items() if cells}


def _rows(cells: list[Cell]) -> list[Row]:
    rows = []
    for measure in MEASURES:
        for first, second in PAIRS:
            one = _mean(cells, first, measure)
            other = one[:, 0] if second == START else _mean(cells, second, measure)[:, -1]
            found = paired_interval(one[:, -1], other).as_json()
            start = float(one[:, 0].mean())
            rows.append({"measure": measure, "first": first, "second": second, "start": start, **found})
    return rows


def _mean(cells: list[Cell], kind: Kind, measure: Measure) -> Tensor:
    """Return the mean over cells, (repeats or models, steps + 1)."""
    return torch.stack([courses.independent(kind, measure)[:, :, part] for courses, part in cells]).mean(dim=0)


# --- in words ---------------------------------------------------------------------------------------------------------


def pick(rows: list[Row], **setting: Any) -> list[Row]:
    """Return the rows that have this setting."""
    return [row for row in rows if all(row[key] == value for key, value in setting.items())]


def words(row: Row) -> str:
    """Return a change with its interval: accuracy in points. Numbers that are all the same have none.

    >>> words({"measure": "accuracy", "mean": 0.021, "low": -0.003, "high": 0.045, "count": 3})
    '+2.1 (-0.3 to +4.5)'
    >>> words({"measure": "accuracy", "mean": 0.021, "low": 0.021, "high": 0.021, "count": 2})
    '+2.1 (all alike)'
    """
    found = Interval.from_json(row)
    scale, form = (100.0, "+.1f") if row["measure"] == "accuracy" else (1.0, "+.4f")
    if found.low is not None and not is_wide(found):
        return f"{found.mean * scale:{form}} (all alike)"
    return in_words(found, scale=scale, form=form)


def table(result: Mapping[str, Any]) -> str:
    """Return the paper's gains beside ours, then every cell."""
    rows, name = result["changes"], result["experiment"]
    walk = next(iter(result["walks"].values()))
    plan, repeats = walk["plan"], len({one["repeat"] for one in walk["courses"]})
    parts = [
        f"{result['setting']} (trained on, steps on, measured on). {plan['steps']} gradient steps at rate "
        f"{plan['learning_rate']:g} on {plan['examples']} points for {plan['anchors']} anchors each, of the "
        f"{plan['nearest']:,} nearest; {intervals_in_words(result, repeats)}. {_sizes(result)}",
        "Accuracy after the last step, in points:",
        _gains(name, rows, is_sliced=ALL not in result["walks"]),
    ]
    parts += [f"Paper ({claim.where}): {claim.words}." for claim in CORRECTION_CLAIMS[name]]
    if "lexical_overlap" in result["walks"]:
        parts += ["Accuracy before the first step:", _starts(rows)]
    parts += ["Ours, change of accuracy after the last step, in points:", _cells(rows, "accuracy")]
    parts += ["Ours, change of the mean loss:", _cells(rows, "loss")]
    parts += _variants(result)
    parts += [*_short(result, plan["steps"] * repeats, plan["examples"]), *result["notes"]]
    return "\n\n".join([*parts, f"How points are ranked: {walk['how']}"])


def intervals_in_words(result: Mapping[str, Any], repeats: int) -> str:
    """Return how often all was repeated, from how many models, and what intervals are over."""
    models, rows = result.get("checkpoints", 1), "all on the same rows, whose error the claims' intervals alone have"
    if models == 1:
        return f"{repeats} repeats, 95 % intervals of paired differences over repeats, {rows}"
    each = f"{models} models of other seeds, {repeats // models} repeats from each"
    return f"{each}, 95 % intervals of paired differences over models, {rows}"


def _sizes(result: Mapping[str, Any]) -> str:
    sizes = result["rows_of"]
    pool = sizes["train"] if sizes["pool"] is None else sizes["pool"]
    return (
        f"Steps are on {pool:,} rows, curvature on the {sizes['train']:,} that were trained on; anchors are drawn from "
        f"{sizes['anchors']:,}, {sizes['test']:,} are measured."
    )


def _gains(name: str, rows: list[Row], *, is_sliced: bool) -> str:
    """Return the paper's averages; it does not say which of its cells they are over."""
    paper = GAINS[name]
    if is_sliced:
        groups = {"each slice of anchors on its own": {"part": OWN}, "all slices on all": {"part": WHOLE}}
    else:
        groups = {"test set": {"set": TEST, "part": TEST}}
    said: dict[tuple[str, str], str] = {
        ("helpful", START): f"more than +{paper.helpful}",
        ("helpful", "anchors"): f"about +{paper.over_anchors}",
    }
    lines = []
    for first, second in PAIRS:
        what = f"{first}, from the start" if second == START else f"{first} over {second}"
        ours = [
            " ".join(words(row) for row in pick(rows, **group, measure="accuracy", first=first, second=second))
            for group in groups.values()
        ]
        original = pick(rows, part=ORIGINAL, measure="accuracy", first=first, second=second)
        lines.append([what, said.get((first, second), "in figures alone"), *ours, words(original[0])])
    return markdown(["", f"paper ({paper.where})", *(f"ours, {each}" for each in groups), "ours, original data"], lines)


def _starts(rows: list[Row]) -> str:
    lines = []
    for part, theirs in HANS_START.items():
        ours = pick(rows, set=TEST, part=part, measure="accuracy", first="helpful", second=START)
        lines.append([part, f"{theirs:.1%}", f"{ours[0]['start']:.1%}", f"{ours[0]['examples']:,}"])
    return markdown(["slice", "paper (the authors' release)", "ours", "rows"], lines)


def _cells(rows: list[Row], measure: Measure) -> str:
    """Return a line for each slice of the anchors and each part of the test set, the original data among them."""
    names = [first if second == START else f"{first} - {second}" for first, second in PAIRS]
    some = [row for row in pick(rows, measure=measure) if row["anchors"] is not None and row["set"] != VALIDATION]
    lines = []
    for anchors, part in dict.fromkeys((row["anchors"], row["part"]) for row in some):
        each = {(row["first"], row["second"]): row for row in pick(some, anchors=anchors, part=part)}
        start = each[PAIRS[0]]["start"]
        before = f"{start:.1%}" if measure == "accuracy" else f"{start:.4f}"
        lines.append([anchors, part, before, *(words(each[pair]) for pair in PAIRS)])
    return markdown(["anchors of", "measured on", "at the start", *names], lines)


def repeats_in_words(count: int) -> str:
    """Return a number of repeats in words.

    >>> repeats_in_words(1), repeats_in_words(3)
    ('one repeat', '3 repeats')
    """
    return "one repeat" if count == 1 else f"{count} repeats"


def curvature_words(variants: Mapping[str, Any]) -> str:
    """Return over how many examples our solver takes H in walks, where that was given.

    >>> curvature_words({"curvature_examples": 512})
    '; our solver takes H over 512 examples'
    """
    count = variants.get("curvature_examples")
    return "" if count is None else f"; our solver takes H over {count:,} examples"


def _variants(result: Mapping[str, Any]) -> list[str]:
    """Return what other ways to rank points changed, beside the first: a table for each run that they are from."""
    return [part for run in groups_of(result) for part in _rankings(result, run)]


def _rankings(result: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    group = {"part": OWN} if ALL not in result["walks"] else {"set": TEST, "part": TEST}
    pairs = (("helpful", START), ("helpful", "random"), ("helpful", "anchors"), ("harmful", START))
    lines = []
    for name, rows in {"as the paper ranks, all models and repeats": result["changes"], **run["changes"]}.items():
        cells = [
            words(row)
            for measure in ("accuracy", "loss")
            for first, second in pairs
            for row in pick(rows, **group, measure=measure, first=first, second=second)
        ]
        original = pick(rows, part=ORIGINAL, measure="accuracy", first="helpful", second=START)
        lines.append([name, *cells, words(original[0])])
    names = [first if second == START else f"{first} - {second}" for first, second in pairs]
    columns = [*(f"accuracy, {name}" for name in names), *(f"loss, {name}" for name in names)]
    return [
        f"Other ways to rank points; from the second line on {whence(run)}, "
        f"{repeats_in_words(run['repeats'])} with the same draws{curvature_words(run)}:",
        markdown(["", *columns, "accuracy on original data, helpful"], lines),
        *run.get("notes", []),
    ]


def _short(result: Mapping[str, Any], steps: int, wanted: int) -> list[str]:
    return [
        f"Anchors of {anchors}: in {count} of {steps} steps fewer than {wanted} points were {kind}."
        for anchors, counts in result["short_steps"].items()
        for kind, count in counts.items()
    ]


# --- figures ----------------------------------------------------------------------------------------------------------


def seen(walk: Mapping[str, Any], *sets: str) -> dict[str, Any]:
    """Return a walk with the parts of some sets alone."""
    places = [place for place, part in enumerate(walk["parts"]) if part["set"] in sets]
    courses = [
        {**one, **{measure: [[line[place] for place in places] for line in one[measure]] for measure in MEASURES}}
        for one in walk["courses"]
    ]
    return {**walk, "parts": [walk["parts"][place] for place in places], "courses": courses}


def draw(result: Mapping[str, Any]) -> "dict[str, Figure]":
    """Draw the walks on the test set and the original data, and those on the validation set."""
    from fastif.integrations.plots.correction import bands_in_words, draw_by_slice, draw_courses

    figures: dict[str, Figure] = {}
    for ending, sets in (("", (TEST, "original")), ("-validation", (VALIDATION,))):
        models = {"models": result.get("checkpoints", 1)}  # which walks of before do not say
        walks = {anchors: {**seen(walk, *sets), **models} for anchors, walk in result["walks"].items()}
        title = result["setting"] + (", validation set" if ending else "")
        if ALL in walks:
            figures[f"courses{ending}"] = draw_courses(walks[ALL], title=title)
            continue
        bands = bands_in_words(next(iter(walks.values())))
        for measure in MEASURES:
            figures[f"{measure}{ending}"] = draw_by_slice(walks, measure=measure, title=f"{title}: {bands}")
    return figures

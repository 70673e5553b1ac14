"""The rules of Section 6: simulatability, slices, correction and augmentation. Knows what results look like."""

import math
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from fastif.apps.simulated import EXPECTED
from fastif.intervals import Interval, in_words, mean_interval, paired_interval
from fastif.paper import amazon, changes, figures_of_the_paper, visualization
from fastif.paper.points import RIGHT
from fastif.paper.simulatability import simulated
from fastif.paper.sources import LEXICAL
from fastif.paper.variants import ALL_POINTS
from fastif.paper.verdicts import (
    Outcome,
    Verdict,
    above,
    below,
    correlation_interval,
    every,
    is_wide,
    most_rows_error,
    with_rows,
    within,
)

Result = dict[str, Any]

AFTERWARDS = "the sign alone leaves it open, and that size decides was set after the first result at `full` was seen"
NO_POINTS = "The published result has no numbers by point: publish it anew."
FEW_POINTS = 10  # wrong points of a slice, below which nothing is said of it
ALIKE = 0.5  # slices that correlate by more are called alike; the lowest of the paper's is 0.67
LITTLE = min(gain.helpful for gain in figures_of_the_paper.GAINS.values())  # what the paper calls a gain, in points


def simulator_learns(result: Result, group: str) -> Verdict:
    """Change of the simulator's loss by steps on the kind the paper names, mean over all rates: below zero.

    The mean over rates is taken and not the best rate, which would be chosen by the loss that it lowers.
    """
    labels, kept = next(iter(result["variants"].items()))
    done = simulated(kept)
    rows = [row for row, right in enumerate(done.right) if right == (group == RIGHT)]
    kind = EXPECTED[group]
    if not rows:
        return Verdict(Outcome.UNKNOWN, "-", f"No point is predicted {group}.")
    change = done.changes.mean(dim=(2, 3))[rows, done.kinds.index(kind)]
    found = mean_interval(change)
    best = sum(done.best_kinds()[row] == kind for row in rows)
    return Verdict(
        below(found),
        f"{found.mean:+.3f}",
        f"Steps on {kind} points ({labels} labels) change it by {in_words(found, form='+.3f')}, mean over rates; lower "
        f"for {int((change < 0).sum())} of {len(rows)}, the best of {len(done.kinds)} kinds for {best}.",
    )


def few_helpful_edges(result: Result) -> Verdict:
    """In every slice, over its points: less than half of the edges help, and these are stronger than the others.

    Strength is compared by the logarithm of how many times the mean helpful edge of a point is its mean harmful one.
    """
    found = visualization.by_point(result["models"]["nli-2"])
    if found is None:
        return Verdict(Outcome.UNKNOWN, "-", NO_POINTS)
    shares, times = {}, {}
    for name in visualization.SLICES:
        mine = [each for each in found if each["slice"] == name]
        if len(mine) < FEW_POINTS:
            return Verdict(Outcome.UNKNOWN, "-", f"{name} has {len(mine)} wrong points, fewer than {FEW_POINTS}.")
        shares[name] = mean_interval([each["share_helpful"] for each in mine])
        known = [math.log(each["times_as_strong"]) for each in mine if each["times_as_strong"]]
        times[name] = mean_interval(known) if known else Interval(math.nan, None, None, 0)
    told = "; ".join(
        f"on {name} {in_words(shares[name], scale=100, form='.0f')} % help, {_times(times[name])} times as strong"
        for name in visualization.SLICES
    )
    few, strong = ([each.mean for each in some.values()] for some in (shares, times))
    return Verdict(
        every([*(below(each, 0.5) for each in shares.values()), *(above(each) for each in times.values())]),
        f"{min(few):.0%} to {max(few):.0%} help, {math.exp(min(strong)):.1f} to {math.exp(max(strong)):.1f} times as "
        "strong",
        f"Means over wrong points, of times as strong the geometric one: {told}.{_pooled(result['models']['nli-2'])}"
        f"{_of_all_points(result['models']['nli-2'])}",
    )


def _pooled(part: Result) -> str:
    """Say how many times as strong the mean of all helpful edges of a slice is: the paper's way, which gives two means.

    Points with strong edges outweigh others in it, and it has no interval.
    """
    times = [
        each["helpful"]["mean"] / each["harmful"]["mean"]
        for each in part["comparison"].get("slices", [])
        if each["helpful"]["mean"] and each["harmful"]["mean"]
    ]
    return f" Of all edges of a slice together, as the paper counts, {_between(times)} times." if times else ""


def _between(times: list[float]) -> str:
    return f"{min(times):.2f} to {max(times):.2f}"


def _of_all_points(part: Result) -> str:
    """Say what edges from all training points are like, where they were looked at: it decides nothing."""
    rows = [row for row in part.get("variants", {}).get(ALL_POINTS.name, []) if row["times_as_strong"]]
    if not rows:
        return ""
    shares, times = ([row[key] for row in rows] for key in ("share_helpful", "times_as_strong"))
    return (
        f" That is so of the nearest: of as many that are the strongest of all training points {min(shares):.0%} to "
        f"{max(shares):.0%} help, {_between(times)} times as strong."
    )


def _times(found: Interval) -> str:
    """Return what a mean of logarithms, and its interval, are of the numbers themselves."""
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return in_words(Interval(math.exp(found.mean), low, high, found.count), form=".2f")


def slices_alike(result: Result) -> Verdict:
    """The correlation of every two different slices: above one half."""
    pairs = result["models"]["nli-2"]["comparison"]["pairs"]
    found = {
        (pair["first"], pair["second"]): correlation_interval(pair["correlation"], pair["points"])
        for pair in pairs
        if pair["first"] != pair["second"] and pair["correlation"] is not None
    }
    outcomes = [above(each, ALIKE) for each in found.values()]
    missing = len(list(combinations(visualization.SLICES, 2))) - len(found)
    if not found:
        return Verdict(Outcome.UNKNOWN, "-", "No two slices share training points.")
    lowest = min(found, key=lambda each: found[each].mean)
    return Verdict(
        every([*outcomes, *[Outcome.UNKNOWN] * missing]),
        f"{found[lowest].mean:.2f} to {max(each.mean for each in found.values()):.2f}",
        f"The lowest is {' and '.join(lowest)}, {in_words(found[lowest], form='.2f')}, over training points that touch "
        f"both, of one model and its wrong points as they are; limit {ALIKE}.",
    )


def lexical_overlap_dominates(result: Result) -> Verdict:
    """On every slice of HANS, point by point: lexical overlap has a larger share of all influence than each other."""
    found = visualization.by_point(result["models"]["hans"])
    if found is None:
        return Verdict(Outcome.UNKNOWN, "-", NO_POINTS)
    outcomes, told, means = [], [], []
    for there in visualization.HEURISTICS:
        shares = [each["share_of_influence"] for each in found if each["slice"] == there]
        if shares:
            means.append(f"{sum(each[LEXICAL] for each in shares) / len(shares):.0%}")
        if len(shares) < FEW_POINTS:
            outcomes.append(Outcome.UNKNOWN)
            told.append(f"{there} has {len(shares)} wrong points, fewer than {FEW_POINTS}")
            continue
        more = {
            other: paired_interval([each[LEXICAL] for each in shares], [each[other] for each in shares])
            for other in visualization.HEURISTICS
            if other != LEXICAL
        }
        outcomes.append(every(map(above, more.values())))
        words = ", ".join(f"{in_words(each, scale=100, form='+.0f')} over {other}" for other, each in more.items())
        told.append(f"on {there} {words}")
    return Verdict(
        every(outcomes),
        ", ".join(means) + " of the influence on a point",
        f"Its share in points, mean over wrong points: {'; '.join(told)}.",
    )


def helpful_gains_most(result: Result, papers: figures_of_the_paper.Gain) -> Verdict:
    """Accuracy after the last step: helpful above random, and above the anchors, by paired intervals.

    Where that is open but neither of the paper's gains can be, from the start and over the anchors, it does not hold.
    Where anchors are drawn slice by slice, each slice of anchors is measured on its own. Intervals of accuracy have the
    error of the rows that it is measured on; those of the loss, which decide nothing, do not.
    """
    is_sliced = changes.ALL not in result["walks"]
    where = {"part": changes.OWN} if is_sliced else {"set": changes.TEST, "part": changes.TEST}

    def change(measure: str, second: str) -> Interval:
        (row,) = changes.pick(result["changes"], **where, measure=measure, first="helpful", second=second)
        found = Interval.from_json(row)
        if measure == "loss":
            return found
        return with_rows(found, row["rows_error"] if "rows_error" in row else _most_error(result, second))

    def told(measure: str, others: Iterable[str]) -> str:
        scale, form = (100.0, "+.1f") if measure == "accuracy" else (1.0, "+.2f")
        return ", ".join(f"{in_words(change(measure, each), scale=scale, form=form)} over {each}" for each in others)

    others = ("random", "anchors")
    gain, over_anchors = change("accuracy", changes.START), change("accuracy", "anchors")
    by_sign = every(above(change("accuracy", each)) for each in others)
    theirs = [(papers.helpful, gain), (papers.over_anchors, over_anchors)]
    beyond = [points for points, found in theirs if below(found, points / 100) is Outcome.HOLDS]
    by_size = by_sign is Outcome.UNKNOWN and len(beyond) == len(theirs)
    return Verdict(
        Outcome.FAILS if by_size else by_sign,
        f"{100 * gain.mean:+.1f} points, {100 * over_anchors.mean:+.1f} over the anchors",
        f"Accuracy of helpful: {in_words(gain, scale=100, form='+.1f')} from the start, {told('accuracy', others)}; "
        f"its loss: {in_words(change('loss', changes.START))}, {told('loss', others)}."
        + _ruled_out(beyond, decides=by_size),
    )


def _ruled_out(gains: list[float], *, decides: bool) -> str:
    """Say which gains of the paper, in points, are beyond all of ours: that may be known where the sign is not."""
    if not gains:
        return ""
    words = f" A gain as large as the paper's, {' or '.join(f'+{points}' for points in gains)}, is ruled out here"
    return words + (f", by which it does not hold; {AFTERWARDS}." if decides else ".")


def _most_error(result: Result, second: str) -> float:
    """Return the largest error that the rows of the test set can make in helpful against something else.

    Slices are of rows of their own, and their mean is what is told.
    """
    errors = []
    for anchors in result["walks"]:
        part = changes.TEST if anchors == changes.ALL else anchors
        rows = changes.pick(result["changes"], anchors=anchors, set=changes.TEST, part=part, measure="accuracy")
        gains = {row["first"]: row["mean"] for row in rows if row["second"] == changes.START}
        start, examples = rows[0]["start"], rows[0]["examples"]
        errors.append(most_rows_error(start + gains["helpful"], start + gains.get(second, 0.0), examples))
    return math.hypot(*errors) / len(errors)


def no_gain_on_reviews(result: Result) -> Verdict:
    """Harmful points lower the accuracy; helpful ones and anchors move it by less than the paper calls a gain.

    Intervals are over models, or over repeats from one, and have the error of the rows of the test set.
    """
    found = result["effects"][amazon.PAPERS]
    (part,) = [each for each in found["parts"] if each["title"] == amazon.TEST]
    number = found["parts"].index(part)

    def change(kind: str) -> Interval:
        wanted = (kind, "start", amazon.TEST, "accuracy")
        (row,) = [
            each
            for each in found["comparisons"]
            if (each["first"], each["second"], each["part"], each["measure"]) == wanted
        ]
        start, end = (amazon.mean_accuracy(found, kind, number, step) for step in (0, -1))
        error = row["rows_error"] if "rows_error" in row else most_rows_error(end, start, part["examples"])
        return with_rows(Interval.from_json(row), error)

    helpful, harmful, anchors = (change(kind) for kind in ("helpful", "harmful", "anchors"))
    told = ", ".join(
        f"{kind} {in_words(each, scale=100, form='+.1f')}{'' if is_wide(each) else ' (all end alike)'}"
        for kind, each in (("helpful", helpful), ("anchors", anchors), ("harmful", harmful))
    )
    return Verdict(
        every([within(helpful, LITTLE / 100), within(anchors, LITTLE / 100), below(harmful)]),
        f"helpful {100 * helpful.mean:+.1f}, harmful {100 * harmful.mean:+.1f} points",
        f"Accuracy in points, on {part['examples']:,} rows: {told}; little is less than {LITTLE}, the smallest gain "
        "that the paper tells of.",
    )

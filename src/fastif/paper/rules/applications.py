"""The rules of Section 6: simulatability, slices, correction and augmentation. Knows what results look like."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

from fastif.apps.simulated import EXPECTED
from fastif.intervals import Interval, mean_interval
from fastif.paper import amazon, changes, figures_of_the_paper, visualization
from fastif.paper.points import RIGHT
from fastif.paper.simulatability import simulated
from fastif.paper.sources import LEXICAL
from fastif.paper.verdicts import Outcome, Verdict, above, below, correlation_interval, every, in_words, within

Result = dict[str, Any]

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
    """In every slice fewer helpful edges than harmful ones, and stronger: in half of the slices or fewer it fails."""
    slices = [each for each in result["models"]["nli-2"]["comparison"]["slices"] if each["queries"] >= FEW_POINTS]
    if len(slices) < len(visualization.SLICES):
        return Verdict(
            Outcome.UNKNOWN,
            "-",
            f"Fewer than {FEW_POINTS} wrong points are in some of the {len(visualization.SLICES)}.",
        )
    shares = [each["helpful"]["edges"] / (each["helpful"]["edges"] + each["harmful"]["edges"]) for each in slices]
    times = [(each["helpful"]["mean"] or 0.0) / (each["harmful"]["mean"] or float("inf")) for each in slices]
    so = sum(share < 0.5 and ratio_ > 1 for share, ratio_ in zip(shares, times, strict=True))
    outcome = Outcome.HOLDS if so == len(slices) else Outcome.FAILS if so <= len(slices) / 2 else Outcome.UNKNOWN
    paper = [edges.mean_helpful / edges.mean_harmful for edges in figures_of_the_paper.EDGES.values()]
    less = ", all of them by less than in the paper" if max(times) < min(paper) else ""
    return Verdict(
        outcome,
        f"{min(shares):.0%} to {max(shares):.0%} help, {min(times):.1f} to {max(times):.1f} times as strong",
        f"Helpful edges are fewer and stronger in {so} of {len(slices)} slices{less}.",
    )


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
        f"The lowest is {' and '.join(lowest)}, {in_words(found[lowest], form='.2f')}; limit {ALIKE}.",
    )


def lexical_overlap_dominates(result: Result) -> Verdict:
    """On every slice of HANS, training points of lexical overlap have the largest share of all influence."""
    model = result["models"]["hans"]
    counts = {each["name"]: each["queries"] for each in model["comparison"]["slices"]}
    outcomes, told = [], []
    for there in visualization.HEURISTICS:
        shares = {
            row["train_slice"]: row["share_of_influence"] for row in model["by_train_slice"] if row["slice"] == there
        }
        if counts.get(there, 0) < FEW_POINTS or not shares:
            outcomes.append(Outcome.UNKNOWN)
            told.append(f"{there} has {counts.get(there, 0)} wrong points, fewer than {FEW_POINTS}")
            continue
        first = max(shares, key=lambda source: shares[source])
        outcomes.append(Outcome.HOLDS if first == LEXICAL else Outcome.FAILS)
        told.append(f"on {there} {first} has the most, {shares[first]:.0%}")
    shares_ = [
        f"{row['share_of_influence']:.0%}"
        for row in model["by_train_slice"]
        if row["train_slice"] == LEXICAL and row["slice"] in visualization.HEURISTICS
    ]
    return Verdict(every(outcomes), ", ".join(shares_) + " of all influence", "; ".join(told).capitalize() + ".")


def helpful_gains_most(result: Result) -> Verdict:
    """Accuracy after the last step: helpful above random, and above the anchors, by paired intervals.

    Where anchors are drawn slice by slice, each slice of anchors is measured on its own.
    """
    rows = result["changes"]
    is_sliced = changes.ALL not in result["walks"]
    where = {"part": changes.OWN} if is_sliced else {"set": changes.TEST, "part": changes.TEST}

    def change(measure: str, second: str) -> Interval:
        (row,) = changes.pick(rows, **where, measure=measure, first="helpful", second=second)
        return Interval(row["mean"], row["low"], row["high"], row["count"])

    def told(measure: str, others: Iterable[str]) -> str:
        scale, form = (100.0, "+.1f") if measure == "accuracy" else (1.0, "+.2f")
        return ", ".join(f"{in_words(change(measure, each), scale=scale, form=form)} over {each}" for each in others)

    others = ("random", "anchors")
    gain = change("accuracy", changes.START)
    return Verdict(
        every(above(change("accuracy", each)) for each in others),
        f"{100 * gain.mean:+.1f} points, {100 * change('accuracy', 'anchors').mean:+.1f} over the anchors",
        f"Accuracy of helpful: {in_words(gain, scale=100, form='+.1f')} from the start, {told('accuracy', others)}; "
        f"its loss: {in_words(change('loss', changes.START))}, {told('loss', others)}.",
    )


def no_gain_on_reviews(result: Result) -> Verdict:
    """Harmful points lower the accuracy; helpful ones and anchors move it by less than the paper calls a gain."""
    rows = result["effects"][amazon.PAPERS]["comparisons"]

    def change(kind: str) -> Interval:
        wanted = (kind, "start", amazon.TEST, "accuracy")
        (row,) = [each for each in rows if (each["first"], each["second"], each["part"], each["measure"]) == wanted]
        low, high = (None if row[end] is None else 100 * row[end] for end in ("low", "high"))
        return Interval(100 * row["mean"], low, high, row["count"])

    helpful, harmful, anchors = (change(kind) for kind in ("helpful", "harmful", "anchors"))
    told = ", ".join(
        f"{kind} {in_words(each, form='+.1f')}"
        for kind, each in (("helpful", helpful), ("anchors", anchors), ("harmful", harmful))
    )
    return Verdict(
        every([within(helpful, LITTLE), within(anchors, LITTLE), below(harmful)]),
        f"helpful {helpful.mean:+.1f}, harmful {harmful.mean:+.1f} points",
        f"Accuracy in points: {told}; little is less than {LITTLE}, the smallest gain that the paper tells of.",
    )

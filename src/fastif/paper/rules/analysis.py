"""The rules of Section 5: speed, recall, error of s_test, correlations, retraining. Knows what results look like."""

from dataclasses import replace
from typing import Any

from fastif.apps.retrained import Retrained
from fastif.intervals import Interval, in_words, mean_interval
from fastif.measuring.words import ratio, seconds
from fastif.paper import correlations, figures_of_the_paper, recall, retraining
from fastif.paper.points import KINDS, RIGHT
from fastif.paper.table1 import predicted_s
from fastif.paper.verdicts import Outcome, Summary, Verdict, above, below, every, within

Result = dict[str, Any]
Row = dict[str, Any]
CLOSE = 0.1  # a recall that is called the same may differ by so much
Recalls = list[tuple[int, Summary, figures_of_the_paper.Share]]  # k, recall, the paper's


# --- Table 1 ----------------------------------------------------------------------------------------------------------


def faster_than_the_original(result: Result) -> Verdict:
    """Plain torch as the original has it, against our fast query with the smallest k: above 80.

    Plain torch is timed on a sample several times, and extrapolated each time. Of results that have one time of it, the
    interval is that of our query alone, and the sentence says so. What is predicted for four GPUs decides nothing.
    """
    slow, fast = _slow_and_fast(result)
    original = _plain(slow)
    once = original.count == 1
    if once:
        original = replace(original, count=result["queries"])
    how = "extrapolated from a sample" + (" timed once, with no spread" if once else "")
    words = f"Plain torch in full ({how})"
    verdict = _faster(result, original, fast, limit=figures_of_the_paper.SPEED, words=words)
    ours = f"With our engine on both sides it is {ratio(slow['seconds'] / fast['seconds'])}"
    four = predicted_s(fast)
    predicted = "" if four is None else f"; on four GPUs {seconds(four)} are predicted, {ratio(original.mean / four)}"
    return replace(verdict, why=f"{verdict.why} {ours}{predicted}: no part of the verdict.")


def faster_by_approximation(result: Result) -> Verdict:
    """Our engine on both sides, without and with kNN and the fast s_test: above the paper's figure for one GPU.

    What it would be with plain torch on both sides, as in the paper, is told and decides nothing.
    """
    slow, fast = _slow_and_fast(result)
    original = Summary(slow["seconds"], slow["spread"] or 0.0, result["queries"])
    limit = figures_of_the_paper.TABLE_1[1000, "fast"].faster
    how = f" (extrapolated from {slow['depth']:,} steps)" if slow.get("extrapolated") else ""
    verdict = _faster(result, original, fast, limit=limit, words=f"Our own engine in full{how}")
    plain = [_plain(row) for row in (slow, fast)]
    times = plain[0].over(plain[1])
    between = "" if times.low is None else f", {ratio(times.low)} to {ratio(times.high)}"
    return replace(
        verdict,
        why=f"{verdict.why} Plain torch on both sides, as the paper has it, would take {seconds(plain[0].mean)} and "
        f"{seconds(plain[1].mean)}, by its samples, {ratio(times.mean)}{between}: no part of the verdict.",
    )


def _slow_and_fast(result: Result) -> tuple[Row, Row]:
    (slow,) = [row for row in result["rows"] if (row["k"], row["kind"]) == (None, "original")]
    fast = [row for row in result["rows"] if row["k"] is not None and row["kind"] == "fast"]
    return slow, min(fast, key=lambda row: row["k"])


def _plain(row: Row) -> Summary:
    """Return what plain torch takes for a cell, over the samples that it was timed on; of results of before, once."""
    spread = row.get("naive_spread")
    return Summary(row["naive_s"], spread or 0.0, 1 if spread is None else row["naive_rounds"])


def _faster(result: Result, slow: Summary, row: Row, *, limit: float, words: str) -> Verdict:
    fast = Summary(row["seconds"], row["spread"] or 0.0, result["queries"])
    times = slow.over(fast)
    ours = f"{ratio(times.mean)}, k = {row['k']:,}"
    told = f"{words} {seconds(slow.mean)}, ours with k = {row['k']:,} {seconds(fast.mean)}, on one device"
    examples, theirs = result["examples"], figures_of_the_paper.TABLE_1_EXAMPLES
    if examples < theirs / 2:
        return Verdict(Outcome.UNKNOWN, ours, f"{told}; times of {examples:,} examples say nothing of {theirs:,}.")
    between = "" if times.low is None else f": {ratio(times.low)} to {ratio(times.high)}"
    return Verdict(above(times, limit), ours, f"{told}{between}; limit {limit}x.")


# --- Figure 3 (a) -----------------------------------------------------------------------------------------------------


def recall_above_chance(result: Result) -> Verdict:
    """Recall of kNN by features, at the paper's two shares of the training set: above the share itself."""
    found = _recalls(result)
    outcomes = [above(each.interval, k / result["examples"]) for k, each, _ in found]
    return Verdict(every(outcomes), _recalls_in_words(found), _chance_in_words(result, found))


def recall_as_told(result: Result) -> Verdict:
    """The same recall: all of its interval within ten points of the paper's, on either side."""
    found = _recalls(result)
    more = sorted({row["m"] for row in result["rows"]})[1:]
    others = "; ".join(f"{_as_told(_recalls(result, m))} with R@{m:,}" for m in more)
    words = (
        f"{_chance_in_words(result, found)} Close is within {100 * CLOSE:.0f} points: a limit that was set after the "
        "first result at `full` was seen."
        + (f" The text does not say of how many points its recall is. By the same rule: {others}." if others else "")
    )
    return Verdict(_as_told(found), _recalls_in_words(found), words)


def _as_told(found: Recalls) -> Outcome:
    return every(within(replace(each, mean=each.mean - theirs.recall).interval, CLOSE) for _, each, theirs in found)


def _recalls(result: Result, m: int | None = None) -> Recalls:
    found = []
    for theirs in figures_of_the_paper.RECALL:
        k = max(1, round(theirs.share * result["examples"]))
        rows = _recall_rows(result, k, m, sign=recall.ABSOLUTE)
        found.append((k, rows[0] if len(rows) == 1 else rows[0].joined(rows[1]), theirs))
    return found


def _recall_rows(result: Result, k: int, m: int | None = None, **setting: str) -> list[Summary]:
    """Return the recall of the first way to choose, at the first damping and the smallest m unless another is given."""
    first = result["rows"][0]
    m = m or min(row["m"] for row in result["rows"])
    rows = recall.pick(
        result["rows"], method=first["method"], damping=next(iter(result["dampings"])), m=m, k=k, **setting
    )
    return [Summary(row["mean"], row["deviation"], row["points"]) for row in rows]


def _recalls_in_words(found: Recalls) -> str:
    return ", ".join(f"{each.mean:.0%} with {theirs.share:.1%}" for _, each, theirs in found)


def _chance_in_words(result: Result, found: Recalls) -> str:
    m = min(row["m"] for row in result["rows"])
    told = [
        f"R@{m} with k = {k:,} is {in_words(each.interval, form='.2f')}, by chance {k / result['examples']:.2f}"
        for k, each, _ in found
    ]
    return f"Over {found[0][1].count} points, {'; '.join(told)}."


def recall_by_sign(result: Result) -> Verdict:
    """Harmful minus helpful recall, at the larger share: above zero of right predictions, below zero of wrong ones.

    The two recalls of a point are a pair. Results of before have no differences, and are compared as if they were not.
    """
    k = max(1, round(figures_of_the_paper.RECALL[-1].share * result["examples"]))
    found, is_paired = {}, True
    for kind in KINDS:
        pairs, harmful, helpful = (
            _recall_rows(result, k, sign=sign, prediction=kind)
            for sign in (recall.DIFFERENCE, recall.HARMFUL, recall.HELPFUL)
        )
        if pairs:
            found[kind] = pairs[0].interval
        elif harmful and helpful:
            found[kind], is_paired = harmful[0].minus(helpful[0]), False
    outcomes = [(above if kind == RIGHT else below)(each) for kind, each in found.items()]
    told = ", ".join(f"{in_words(each)} where it is {kind}" for kind, each in found.items())
    if len(found) < len(KINDS):
        outcomes.append(Outcome.UNKNOWN)
    ours = ", ".join(f"{each.mean:+.2f} {kind}" for kind, each in found.items())
    how = "point by point" if is_paired else "of means, as if unpaired"
    return Verdict(
        every(outcomes), ours or "-", f"Harmful minus helpful recall with k = {k:,}, {how}: {told or 'none'}."
    )


# --- Figure 3 (b) and (c), Table 2 ------------------------------------------------------------------------------------


def error_falls(result: Result) -> Verdict:
    """Relative error to the converged solution, point by point: lower with more B, more J, and more T at B = 1."""
    rows = result["rows"]
    ends = {key: (min(row[key] for row in rows), max(row[key] for row in rows)) for key in ("B", "J", "T")}
    settings = {  # what grows, and what is held where
        "B": {"T": ends["T"][0], "J": ends["J"][1]},
        "J": {"T": ends["T"][0], "B": ends["B"][1]},
        "T": {"B": ends["B"][0], "J": ends["J"][1]},
    }
    found = {}
    for key, fixed in settings.items():
        low, high = (_errors(rows, **fixed, **{key: end}) for end in ends[key])
        found[key] = mean_interval([more - less for less, more in zip(low, high, strict=True)])
    told = "; ".join(
        f"{key} {ends[key][0]} to {ends[key][1]} changes it by {in_words(each, form='+.3f')}"
        for key, each in found.items()
    )
    points = next(iter(found.values())).count
    ours = ", ".join(f"{key} {each.mean:+.3f}" for key, each in found.items())
    return Verdict(every(map(below, found.values())), ours, f"Relative error over {points} points: {told}.")


def _errors(rows: list[Row], **setting: Any) -> list[float]:
    some = [row for row in rows if all(row[key] == value for key, value in setting.items())]
    return [row["relative_to_converged"] for row in sorted(some, key=lambda row: row["query"])]


def correlations_high(result: Result) -> Verdict:
    """Mean correlations of fast with full on retrieved points, two sizes of k by three measures: above 95 per cent."""

    def means(where: str) -> dict[tuple[str, str], Interval]:
        return {
            (comparison, key): mean_interval([100 * row[key] for row in _compared(result, comparison, where)])
            for comparison in (correlations.SMALLER, correlations.LARGER)
            for key in correlations.MEASURES
        }

    found, top = means("retrieved"), means("top")
    lowest = min(found, key=lambda each: found[each].mean)
    outcome = every(above(each, figures_of_the_paper.LEAST_CORRELATION) for each in found.values())
    shares = [row["top_retrieved"][0] for row in result["rows"]]
    return Verdict(
        outcome,
        f"{found[lowest].mean:.1f} % at the lowest",
        f"The lowest of six means is {lowest[1].capitalize()} of {lowest[0]}: {in_words(found[lowest], form='.1f')}. "
        f"On the true top {result['top']} it is {min(each.mean for each in top.values()):.1f}; the smaller k retrieves "
        f"{sum(shares) / len(shares):.0%} of them.",
    )


def _compared(result: Result, comparison: str, where: str) -> list[Row]:
    return [row for row in result["rows"] if (row["comparison"], row["on"]) == (comparison, where)]


def removal_moves(result: Result, kind: str) -> Verdict:
    """Change of a point's loss without its strongest points, minus that without random ones: over all systems.

    Taken point by point, of right and of wrong predictions apart as the paper has them, at the largest number removed:
    above zero for helpful points, below zero for harmful ones. What fewer come to is told and decides nothing.
    """
    done = retraining.retrained(result)
    *fewer, most = sorted({one.count for one in done.removals})
    found, pooled = _beyond_random(done, kind, most)
    told = "; ".join(
        f"{system}, " + ", ".join(f"{in_words(each, form='+.3f')} {group}" for group, each in groups.items())
        for system, groups in found.items()
    )
    both = ", ".join(in_words(each, form="+.3f") for each in pooled.values())
    of_fewer: dict[Outcome, list[str]] = {}
    for count in fewer:
        of_fewer.setdefault(_moves(_beyond_random(done, kind, count)[0], kind), []).append(str(count))
    before = "; ".join(f"{outcome} with {', '.join(counts)}" for outcome, counts in of_fewer.items())
    return Verdict(
        _moves(found, kind),
        "; ".join(", ".join(f"{each.mean:+.2f} {group}" for group, each in some.items()) for some in found.values()),
        f"Without {most} points, and beyond what random removals do, the loss of right and wrong predictions changes "
        f"by: {told}. Of all {len(done.right)} together: {both}."
        + (f" By the same rule, with fewer removed: {before}." if before else ""),
    )


def _beyond_random(
    done: Retrained, kind: str, count: int
) -> tuple[dict[str, dict[str, Interval]], dict[str, Interval]]:
    """Return the change of the loss beyond random removals by system and group of points, and by system alone."""
    moved = done.changes.mean(dim=0)
    random = [row for row, one in enumerate(done.removals) if one.query is None and one.count == count]
    beyond = moved - moved[random].mean(dim=0)
    by_system: dict[str, dict[int, float]] = {}
    for row, one in enumerate(done.removals):
        if one.query is not None and (one.kind, one.count) == (kind, count):
            by_system.setdefault(one.system, {})[one.query] = float(beyond[row, one.query])
    by_group: dict[str, dict[str, Interval]] = {}
    for system, values in by_system.items():
        for group in KINDS:
            mine = [value for query, value in values.items() if done.right[query] == (group == RIGHT)]
            if mine:
                by_group.setdefault(system, {})[group] = mean_interval(mine)
    return by_group, {system: mean_interval(list(values.values())) for system, values in by_system.items()}


def _moves(found: dict[str, dict[str, Interval]], kind: str) -> Outcome:
    side = above if retraining.DIRECTION[kind] > 0 else below
    return every(side(each) for groups in found.values() for each in groups.values())


def helpful_removal(result: Result) -> Verdict:
    """Removing helpful points raises the loss."""
    return removal_moves(result, "helpful")


def harmful_removal(result: Result) -> Verdict:
    """Removing harmful points lowers the loss."""
    return removal_moves(result, "harmful")

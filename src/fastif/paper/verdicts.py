"""What becomes of a claim: it holds, it does not, or one cannot tell; and how numbers decide between the three.

A number with its 95 % interval is compared with a limit: all of the interval beyond it decides, one that includes the
limit does not, nor do fewer than three numbers, nor numbers that are all the same: they say nothing of how they
scatter. Knows intervals, and neither the paper nor an experiment.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fastif.intervals import CONFIDENCE, Interval, student_quantile

FEWEST = 3  # numbers that an interval is taken over, below which nothing is decided
NORMAL = 1.96
ROUNDING = 1e-9  # an interval that is narrower, relative to its ends, is of numbers that are the same


class Outcome(StrEnum):
    """What can be said of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNKNOWN = "cannot tell here"


@dataclass(frozen=True)
class Verdict:
    """What was found of a claim.

    Args:
        outcome: one of the three.
        ours: the figure that was measured, beside the paper's.
        why: one sentence.
    """

    outcome: Outcome
    ours: str
    why: str


def every(outcomes: Iterable[Outcome]) -> Outcome:
    """Return whether all of them hold: one that does not is enough to say no, else one that is open leaves it open.

    >>> every([Outcome.HOLDS, Outcome.UNKNOWN]), every([])
    (<Outcome.UNKNOWN: 'cannot tell here'>, <Outcome.UNKNOWN: 'cannot tell here'>)
    """
    found = set(outcomes)
    if Outcome.FAILS in found:
        return Outcome.FAILS
    return Outcome.HOLDS if found == {Outcome.HOLDS} else Outcome.UNKNOWN


def is_wide(found: Interval) -> bool:
    """Return whether an interval is of finite numbers that are not all the same."""
    if found.low is None or found.high is None:
        return False
    widest = max(abs(found.low), abs(found.high))
    return math.isfinite(widest) and found.high - found.low > ROUNDING * widest


def above(found: Interval, limit: float = 0.0) -> Outcome:
    """Return whether the mean is above a limit; open where there is no interval, or one of no width.

    >>> above(Interval(2.0, 1.0, 3.0, 5)), above(Interval(2.0, 1.0, 3.0, 5), 4.0), above(Interval(2.0, None, None, 1))
    (<Outcome.HOLDS: 'holds'>, <Outcome.FAILS: 'does not hold'>, <Outcome.UNKNOWN: 'cannot tell here'>)
    """
    if found.low is None or found.high is None or found.count < FEWEST:
        return Outcome.UNKNOWN
    if not is_wide(found):
        return Outcome.UNKNOWN
    return Outcome.HOLDS if found.low > limit else Outcome.FAILS if found.high < limit else Outcome.UNKNOWN


def below(found: Interval, limit: float = 0.0) -> Outcome:
    """Return whether the mean is below a limit."""
    return above(_negative(found), -limit)


def within(found: Interval, limit: float) -> Outcome:
    """Return whether the mean is nearer to zero than a limit, on both sides."""
    outside = Outcome.HOLDS in (above(found, limit), below(found, -limit))
    return Outcome.FAILS if outside else every([below(found, limit), above(found, -limit)])


def _negative(found: Interval) -> Interval:
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return Interval(-found.mean, low, high, found.count)


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation of numbers that are not at hand themselves."""

    mean: float
    deviation: float
    count: int

    @property
    def interval(self) -> Interval:
        """Student's interval of the mean."""
        if self.count < 2:
            return Interval(self.mean, None, None, self.count)
        half = student_quantile(0.5 + CONFIDENCE / 2, self.count - 1) * self.deviation / math.sqrt(self.count)
        return Interval(self.mean, self.mean - half, self.mean + half, self.count)

    def joined(self, other: "Summary") -> "Summary":
        """Return the summary of both lots of numbers as one, exactly.

        >>> Summary(1.0, 0.0, 1).joined(Summary(3.0, 0.0, 1))
        Summary(mean=2.0, deviation=1.4142135623730951, count=2)
        """
        count = self.count + other.count
        mean = (self.count * self.mean + other.count * other.mean) / count
        squares = sum(
            (each.count - 1) * each.deviation**2 + each.count * (each.mean - mean) ** 2 for each in (self, other)
        )
        return Summary(mean, math.sqrt(squares / (count - 1)) if count > 1 else 0.0, count)

    def over(self, other: "Summary") -> Interval:
        """Return how many times one mean is the other, from the ends of both intervals: rather too wide.

        >>> Summary(80.0, 0.0, 3).over(Summary(2.0, 0.0, 3))
        Interval(mean=40.0, low=40.0, high=40.0, count=3)
        """
        times, count = self.mean / other.mean, min(self.count, other.count)
        one, two = self.interval, other.interval
        if one.low is None or one.high is None or two.low is None or two.high is None or two.low <= 0:
            return Interval(times, None, None, count)
        return Interval(times, one.low / two.high, one.high / two.low, count)

    def minus(self, other: "Summary") -> Interval:
        """Return the difference of the means, as if the numbers were not paired: Welch's interval.

        Its degrees of freedom are rounded down, so that it is rather too wide. Numbers that belong together in pairs
        want the interval of their differences instead, which may be wider or narrower than this.

        >>> found = Summary(1.0, 2.0, 4).minus(Summary(0.0, 0.1, 4))  # 3.01 degrees of freedom, not 6
        >>> round(found.low, 2), round(found.high, 2)
        (-2.19, 4.19)
        """
        mean, count = self.mean - other.mean, min(self.count, other.count)
        if count < 2:
            return Interval(mean, None, None, count)
        squares = [each.deviation**2 / each.count for each in (self, other)]
        if not sum(squares):
            return Interval(mean, mean, mean, count)
        parts = [square**2 / (each.count - 1) for square, each in zip(squares, (self, other), strict=True)]
        freedom = max(1, math.floor(sum(squares) ** 2 / sum(parts)))
        half = student_quantile(0.5 + CONFIDENCE / 2, freedom) * math.sqrt(sum(squares))
        return Interval(mean, mean - half, mean + half, count)


def most_rows_error(first: float, second: float, rows: int) -> float:
    """Return the largest standard error that a difference of two accuracies on the same rows can have.

    Which rows changed sides is not known: as many as the two accuracies allow.

    >>> round(most_rows_error(0.5, 0.5, 100), 3), most_rows_error(1.0, 1.0, 100)
    (0.1, 0.0)
    """
    change = first - second
    lost = min(second, 1 - first)  # rows that the second has right and the first has not, at most
    return math.sqrt(max(0.0, 2 * lost + change - change**2) / rows)


def with_rows(found: Interval, error: float) -> Interval:
    """Return an interval over models, or repeats, with the error of the rows that all of them were measured on.

    Those that end alike tell nothing of how they scatter, and leave no interval.

    >>> found = with_rows(Interval(1.0, 0.7, 1.3, 3), 0.4 / NORMAL)
    >>> round(found.low, 3), round(found.high, 3)
    (0.5, 1.5)
    >>> with_rows(Interval(1.0, 1.0, 1.0, 3), 0.1).low is None
    True
    """
    if found.low is None or found.high is None or not is_wide(found):
        return Interval(found.mean, None, None, found.count)
    half = math.hypot((found.high - found.low) / 2, NORMAL * error)
    return Interval(found.mean, found.mean - half, found.mean + half, found.count)


def correlation_interval(correlation: float, points: int) -> Interval:
    """Return Fisher's interval of Pearson's correlation.

    >>> found = correlation_interval(0.6, 103)
    >>> round(found.low, 2), round(found.high, 2)
    (0.46, 0.71)
    """
    if points < 4 or abs(correlation) >= 1:
        return Interval(correlation, None, None, points)
    middle, half = math.atanh(correlation), NORMAL / math.sqrt(points - 3)
    return Interval(correlation, math.tanh(middle - half), math.tanh(middle + half), points)

r"""How sure a mean is that was taken over a few repeats: Student's interval of paired differences.

Two ways that are tried on the same draws are compared draw by draw, so that what the draws have in common falls out.
With n differences of mean $\bar d$ and standard deviation s, the interval is $\bar d \pm t_{n-1}\, s / \sqrt n$: exact
for normal differences, and honest about three repeats where a bootstrap of three numbers is not. Knows numbers alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, DataError, EmptyDataError, ShapeError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean, and between what it lies with a confidence; the limits are None where one number alone was given."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def is_below_zero(self) -> bool:
        """Whether all of it is."""
        return self.high is not None and self.high < 0

    @property
    def is_above_zero(self) -> bool:
        """Whether all of it is."""
        return self.low is not None and self.low > 0

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "count": self.count}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Interval":
        """Return what was made JSON of, perhaps among other things."""
        return cls(row["mean"], row["low"], row["high"], row["count"])


def mean_interval(values: Sequence[float] | Tensor, *, confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of some numbers, with Student's interval of it.

    >>> found = mean_interval([1.0, 2.0, 3.0])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)  # 2 -+ 4.303 / sqrt 3
    (2.0, -0.484, 4.484)
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence must be between 0 and 1, not {confidence!r}.")
    row = torch.as_tensor(values, dtype=torch.float64)
    if row.ndim != 1:
        raise ShapeError(f"an interval needs one row of numbers, not shape {tuple(row.shape)}.")
    if not len(row):
        raise EmptyDataError("an interval of no numbers has no meaning. Give at least one.")
    if not bool(torch.isfinite(row).all()):
        raise DataError("an interval needs finite numbers, and one of these is not.")
    mean = float(row.mean())
    if len(row) == 1:
        return Interval(mean, None, None, 1)
    half = student_quantile(0.5 + confidence / 2, len(row) - 1) * float(row.std()) / math.sqrt(len(row))
    return Interval(mean, mean - half, mean + half, len(row))


def paired_interval(
    first: Sequence[float] | Tensor, second: Sequence[float] | Tensor, *, confidence: float = CONFIDENCE
) -> Interval:
    """Return by how much the first numbers exceed the second, pair by pair, with Student's interval of the mean.

    >>> found = paired_interval([0.5, 0.6, 0.7], [0.4, 0.5, 0.6])
    >>> round(found.mean, 3), round(found.high - found.low, 3)  # the same difference in every pair
    (0.1, 0.0)
    """
    one, other = (torch.as_tensor(values, dtype=torch.float64) for values in (first, second))
    if one.shape != other.shape:
        raise ShapeError(f"pairs need as many of one as of the other, not {tuple(one.shape)} and {tuple(other.shape)}.")
    return mean_interval(one - other, confidence=confidence)


def in_words(found: Interval, *, scale: float = 1.0, form: str = "+.2f") -> str:
    """Return a mean with its interval.

    >>> in_words(Interval(0.021, -0.003, 0.045, 3), scale=100, form="+.1f")
    '+2.1 (-0.3 to +4.5)'
    """
    mean = f"{scale * found.mean:{form}}"
    if found.low is None or found.high is None:
        return mean
    return f"{mean} ({scale * found.low:{form}} to {scale * found.high:{form}})"


def student_quantile(probability: float, freedom: int) -> float:
    r"""Return t with $P(T \le t)$ = probability, at least one half, for Student's T of whole degrees of freedom.

    >>> [round(student_quantile(0.975, freedom), 3) for freedom in (1, 2, 4, 30)]
    [12.706, 4.303, 2.776, 2.042]
    """
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ConfigurationError(
            "needed are a probability of at least one half and below 1, and at least one degree of freedom, not "
            f"{probability!r} and {freedom!r}."
        )
    low, high = 0.0, 1.0
    while _student(high, freedom) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _student(middle, freedom) < probability else (low, middle)
    return high


def _student(t: float, freedom: int) -> float:
    r"""Return $P(T \le t)$ for t >= 0, by the finite sums over powers of the cosine of $\arctan(t / \sqrt{\nu})$."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for number in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * number / (number + 1)
    within = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 + within) / 2

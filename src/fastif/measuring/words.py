"""Figures in words: seconds, bytes and numbers as people read them, and tables in markdown."""

from collections.abc import Iterable, Sequence


def seconds(value: float | None) -> str:
    """Return a time with three digits.

    >>> seconds(0.01234), seconds(7.5), seconds(312.0), seconds(7800.0), seconds(None)
    ('12.3 ms', '7.50 s', '312 s', '2.17 h', '-')
    """
    if value is None:
        return "-"
    if abs(value) < 0.1:
        return f"{1000 * value:.3g} ms"
    if value >= 3600:
        return f"{value / 3600:.2f} h"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def size(value: float | None) -> str:
    """Return bytes in a unit that fits.

    >>> size(3 * 2**30), size(5 * 2**20)
    ('3.0 GiB', '5 MiB')
    """
    if value is None:
        return "-"
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def ratio(value: float | None) -> str:
    """Return how many times.

    >>> ratio(3.14159), ratio(1234.5)
    ('3.1x', '1,234x')
    """
    return "-" if value is None else f"{value:.1f}x" if value < 100 else f"{value:,.0f}x"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many digits."""
    return "-" if value is None else f"{value:.{digits}g}"


def agreement(value: float | None) -> str:
    """Return a correlation near one so that what is missing to it can be read.

    >>> agreement(0.99999983), agreement(0.93)
    ('0.9999998', '0.93')
    """
    if value is None:
        return "-"
    digits = next((count for count in range(2, 7) if 1 - abs(value) >= 10.0**-count), 7)
    return f"{value:.{digits}f}"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

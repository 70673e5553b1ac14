"""Explanation: the strongest training examples of each query, as objects, as a table to read and as HTML.

Knows scores, data and how people read them; knows nothing of how scores are made. Text from the data is hostile to a
page and is escaped.
"""

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, overload

import torch
from torch import Tensor

from fastif import ranking
from fastif.data import Examples
from fastif.scores import Scores

HEADINGS = {  # by whether the target is what the model predicts, for want of a label
    False: (
        "Helpful: pushed it towards the label{target} (training on them lowers the {measure} of this query)",
        "Harmful: pushed it away from the label{target} (training on them raises the {measure} of this query)",
    ),
    True: (
        "Helpful: support this prediction{target} (training on them lowers its {measure})",
        "Harmful: speak against this prediction{target} (training on them raises its {measure})",
    ),
}


@dataclass(frozen=True)
class Influence:
    """One training example and what it did to one query: negative scores helped, positive ones harmed.

    To first order, training again without this one of n examples changes the query's measure by `-score / n`. `error`
    is the standard error of the score where the solver draws at random and repeats, else None.
    """

    index: int
    score: float
    example: Any
    label: str
    description: str
    error: float | None = None

    def with_error(self, number: str) -> str:
        """Return the score in a number format, and its standard error where there is one."""
        return format(self.score, number) + ("" if self.error is None else f" ± {self.error:{number.lstrip('+')}}")


@dataclass(frozen=True)
class QueryExplanation:
    """The strongest helpful and harmful training examples of one query.

    `target` is the label whose loss is explained, as a person writes it; `predicted` says that none was given, so that
    it is the model's own prediction.
    """

    title: str
    measure: str
    helpful: tuple[Influence, ...]
    harmful: tuple[Influence, ...]
    target: str = ""
    predicted: bool = False

    def sections(self) -> Iterator[tuple[str, tuple[Influence, ...]]]:
        """Yield heading and members of the two lists."""
        target = f" {self.target}" if self.target else ""
        for heading, members in zip(HEADINGS[self.predicted], (self.helpful, self.harmful), strict=True):
            yield heading.format(target=target, measure=self.measure), members

    def __str__(self) -> str:
        number = self._number_format()
        lines = [self.title]
        for heading, members in self.sections():
            lines += [f"  {heading}", f"  {'rank':>6} {'example':>9} {'influence':>12}  label"]
            lines += [
                f"  {rank:>6} {it.index:>9} {it.with_error(number):>12}  {it.label}  {it.description}".rstrip()
                for rank, it in enumerate(members, 1)
            ] or ["    none"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        number = self._number_format()
        head = "".join(f"<th>{name}</th>" for name in ("rank", "example", "influence", "label", "text"))
        parts = [f"<h4>{escape(self.title)}</h4>"]
        for heading, members in self.sections():
            rows = "".join(
                f"<tr><td>{rank}</td><td>{item.index}</td><td>{item.with_error(number)}</td><td>{escape(item.label)}</td>"
                f"<td style='text-align:left'>{escape(item.description)}</td></tr>"
                for rank, item in enumerate(members, 1)
            )
            parts.append(f"<p>{escape(heading)}</p><table><tr>{head}</tr>{rows}</table>")
        return "".join(parts)

    def _number_format(self) -> str:
        """Four digits for the strongest score, and as many decimals for all others, so that columns line up."""
        strongest = max((abs(item.score) for item in (*self.helpful, *self.harmful)), default=1.0)
        digits = 3 - math.floor(math.log10(strongest)) if strongest > 0 else 3
        return f"+.{digits}f" if 0 <= digits <= 8 else "+.3e"


class Explanation(Sequence[QueryExplanation]):
    """One `QueryExplanation` for each query, the scores they were read from, and how those were made."""

    def __init__(self, queries: Sequence[QueryExplanation], scores: Scores, summary: str) -> None:
        self._queries = tuple(queries)
        self.scores = scores
        self.summary = summary

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, index: int) -> QueryExplanation: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[QueryExplanation]: ...

    def __getitem__(self, index: int | slice) -> QueryExplanation | Sequence[QueryExplanation]:
        """Return the explanation of one query, or of several."""
        return self._queries[index]

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self._queries), textwrap.fill(self.summary, width=100, break_on_hyphens=False)])

    def __repr__(self) -> str:
        return f"Explanation of {len(self)} {'query' if len(self) == 1 else 'queries'}: print() it to read it"

    def _repr_html_(self) -> str:
        return "".join(query._repr_html_() for query in self._queries) + f"<p><small>{escape(self.summary)}</small></p>"


def strongest(
    scores: Scores, row: int, train: Examples, top: int, errors: Callable[[Tensor], Sequence[float | None]]
) -> tuple[tuple[Influence, ...], tuple[Influence, ...]]:
    """Return the `top` most helpful and most harmful training examples of one row, with the errors of their scores."""
    values, ids = scores.values[row], scores.train_ids[row]
    ranked = ranking.helpful(values, ids, top), ranking.harmful(values, ids, top)
    known = iter(errors(torch.cat([each.ids for each in ranked])))  # of both at once: each time is a scan

    def members(some: ranking.Ranked) -> tuple[Influence, ...]:
        numbers = some.ids.tolist()
        listed = zip(numbers, some.scores.tolist(), train.labels(numbers), strict=True)
        return tuple(
            Influence(index, score, train[index], label, train.describe(index), next(known))
            for index, score, label in listed
        )

    return members(ranked[0]), members(ranked[1])

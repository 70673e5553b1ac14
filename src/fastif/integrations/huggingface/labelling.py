"""What a table's labels make of a classifier that is to be trained on it, and which rows it is to be measured on.

Knows labels and rows; knows no model.
"""

from collections import Counter
from dataclasses import dataclass

import torch

from fastif.errors import DataError
from fastif.integrations.huggingface.recipe import Recipe
from fastif.integrations.tables import LabelMap, TextTable
from fastif.integrations.tables.learn import learned_names
from fastif.integrations.tables.names import as_number, as_whole
from fastif.solvers.sampling import generator

LIMIT, ASIDE = 4, 5  # what is drawn, as a part of the key of the draw


@dataclass(frozen=True)
class Labelling:
    """The classes of a classifier by their numbers, and its kind as transformers calls it.

    Regression is what was asked for or, where nobody said, what numbers that are not all whole are for: 1 to 5 stars
    are five classes, 3.5 stars are a number.
    """

    id2label: dict[int, str]
    problem_type: str

    @classmethod
    def learn(cls, table: TextTable, *, regression: bool | None = None) -> "Labelling":
        """Read them from a table; the labels of all its rows are checked."""
        if _are_numbers(table) if regression is None else regression:
            found = cls({0: table.columns.label or "number"}, "regression")
            LabelMap(found.id2label, problem="regression").encode(table)
            return found
        names, is_multi = learned_names(table)
        return cls(dict(enumerate(names)), f"{'multi' if is_multi else 'single'}_label_classification")


def split_rows(
    table: TextTable, labelling: Labelling, recipe: Recipe, *, keep_aside: bool
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and those that are kept aside, each in the order of the table.

    The rows are drawn by the seed: first `limit` of them, if that is given, then the share to keep aside, evenly from
    all labels. A label never loses its last row.
    """
    rows = torch.randperm(len(table), generator=generator(recipe.seed, LIMIT)).tolist()
    if recipe.limit is not None:
        rows = rows[: recipe.limit]
    share = recipe.dev_share if keep_aside else 0.0
    if not share:
        return sorted(rows), []
    labels = table.labels or []
    numbers = labelling.problem_type == "regression"
    key = {row: as_number(labels[row]) if numbers else repr(labels[row]) for row in rows}
    order = torch.randperm(len(rows), generator=generator(recipe.seed, ASIDE)).tolist()
    ordered = sorted((rows[place] for place in order), key=lambda row: key[row])  # type: ignore[arg-type,return-value]
    count = max(1, round(share * len(rows)))
    chosen = {ordered[int((number + 0.5) * len(rows) / count)] for number in range(count)}
    left = Counter(key[row] for row in rows if row not in chosen)
    aside = sorted(row for row in chosen if numbers or left[key[row]])
    if not aside or len(aside) == len(rows):
        raise DataError(
            f"{table.where} has too few rows ({len(rows)}) to keep some aside for measuring. Give a dev set (--dev), "
            "or train without one (--dev-share 0)."
        )
    return sorted(set(rows) - set(aside)), aside


def _are_numbers(table: TextTable) -> bool:
    """Whether all labels are numbers, and not all of them whole."""
    labels = table.labels or []
    numbers = all(as_number(label) is not None and not isinstance(label, bool) for label in labels)
    return numbers and any(as_whole(label) is None for label in labels)

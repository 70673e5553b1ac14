"""The splits of the experiments: what is trained on, what chooses, what measures; each drawn by a seed and disjoint.

Two-label NLI joins neutral and contradiction to "non-entailment", as HANS has it. Dev pairs whose premise is trained on
are left out. Of HANS' evaluation set one per cent is for anchors; of ANLI's dev set some pairs are a pool of new data
and the others anchors, and pool, anchors and test share no premise. Of reviews that are there more than once, one is
used. Knows tables; knows no model.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch

from fastif.errors import DataError
from fastif.integrations.tables import TextTable
from fastif.paper.settings import Sizes
from fastif.paper.sources import Source, What
from fastif.solvers.sampling import generator

ENTAILMENT, OTHER = "entailment", "non-entailment"
Labels = Literal[2, 3]


class Data:
    """The tables of the experiments, read when they are first asked for.

    Args:
        source: of the sets.
        sizes: how much of them is used.
        seed: of every draw.
    """

    def __init__(self, source: Source, sizes: Sizes, seed: int = 0) -> None:
        self.source, self.sizes, self.seed = source, sizes, seed
        self._sets: dict[What, TextTable] = {}
        self._made: dict[str, TextTable] = {}

    # --- natural language inference -----------------------------------------------------------------------------------

    def nli_train(self, labels: Labels) -> TextTable:
        """Return the pairs that NLI models are trained on; the same pairs with two labels and with three."""
        return self._labelled("nli train", labels, lambda: self._drawn(self._set("nli-train"), self.sizes.nli_train, 1))

    def nli_few(self) -> TextTable:
        """Return a few of them, with three labels, for the model that is trained again and again."""
        return self._kept("nli few", lambda: self._drawn(self.nli_train(3), self.sizes.nli_few, 2))

    def nli_dev(self, labels: Labels) -> TextTable:
        """Return the matched dev pairs of MultiNLI whose premise nobody was trained on."""

        def make() -> TextTable:
            return without_premises(self._set("mnli-dev"), self._set("nli-train"))

        return self._labelled("nli dev", labels, make)

    # --- HANS ---------------------------------------------------------------------------------------------------------

    def hans_train(self) -> TextTable:
        """Return the pairs of HANS that are trained on; slices are heuristics."""
        return self._kept("hans train", lambda: self._drawn(self._set("hans-train"), self.sizes.hans_train, 3))

    def hans_validation(self) -> TextTable:
        """Return the share of HANS' evaluation set that anchors are drawn from, evenly from heuristics and labels."""
        return self._kept("hans validation", lambda: self._hans_parts()[0])

    def hans_test(self) -> TextTable:
        """Return the rest of HANS' evaluation set."""
        return self._kept("hans test", lambda: self._hans_parts()[1])

    def _hans_parts(self) -> tuple[TextTable, TextTable]:
        table = self._set("hans-evaluation")
        groups: dict[tuple[str, Any], list[int]] = defaultdict(list)
        for row in torch.randperm(len(table), generator=generator(self.seed, 4)).tolist():
            groups[(table.slices or [])[row], (table.labels or [])[row]].append(row)
        chosen = {
            row for rows in groups.values() for row in rows[: max(1, round(self.sizes.hans_validation * len(rows)))]
        }
        validation, test = table.take(sorted(chosen)), table.take([r for r in range(len(table)) if r not in chosen])
        return replace(validation, name="hans-validation"), replace(test, name="hans-test")

    # --- ANLI ---------------------------------------------------------------------------------------------------------

    def anli_pool(self) -> TextTable:
        """Return the pairs of ANLI's dev set that are new labelled data; slices are rounds."""
        return self._kept("anli pool", lambda: self._anli_parts()[0])

    def anli_anchors(self) -> TextTable:
        """Return the other pairs of ANLI's dev set."""
        return self._kept("anli anchors", lambda: self._anli_parts()[1])

    def anli_test(self) -> TextTable:
        """Return the pairs of ANLI's test set whose premise is not in its dev set, where pool and anchors are from."""
        return self._kept("anli test", lambda: without_premises(self.anli_whole_test(), self._set("anli-dev")))

    def anli_whole_test(self) -> TextTable:
        """Return ANLI's test set as it is."""
        return self._set("anli-test")

    def _anli_parts(self) -> tuple[TextTable, TextTable]:
        """Give whole premises to the pool until it is full; those that would overfill it are anchors."""
        dev = self._set("anli-dev")
        premises: dict[str, list[int]] = defaultdict(list)
        for row, premise in enumerate(dev.texts):
            premises[plain(premise)].append(row)
        groups = list(premises.values())
        pool: list[int] = []
        anchors: list[int] = []
        for number in torch.randperm(len(groups), generator=generator(self.seed, 5)).tolist():
            fits = len(pool) + len(groups[number]) <= self.sizes.anli_pool
            (pool if fits else anchors).extend(groups[number])
        if not anchors:
            raise DataError(
                f"a pool of {self.sizes.anli_pool} takes all {len(pool)} pairs of {dev.where}, so that there are no "
                "anchors. Use a smaller pool."
            )
        parts = (
            replace(dev.take(sorted(pool)), name="anli-pool"),
            replace(dev.take(sorted(anchors)), name="anli-anchors"),
        )
        check_no_shared_premise(*parts, self.anli_test())
        return parts

    # --- reviews ------------------------------------------------------------------------------------------------------

    def reviews_train(self) -> TextTable:
        """Return reviews of all domains but the held-out one, to train on; slices are domains."""
        return self._kept("reviews train", lambda: self._reviews_parts()[0])

    def reviews_dev(self) -> TextTable:
        """Return other reviews of the same domains."""
        return self._kept("reviews dev", lambda: self._reviews_parts()[1])

    def reviews_anchors(self) -> TextTable:
        """Return reviews of the held-out domain to draw anchors from."""
        return self._kept("reviews anchors", lambda: self._reviews_parts()[2])

    def reviews_test(self) -> TextTable:
        """Return the other reviews of the held-out domain."""
        return self._kept("reviews test", lambda: self._reviews_parts()[3])

    def _reviews_parts(self) -> list[TextTable]:
        table, sizes = without_repeats(self._set("reviews")), self.sizes
        order = torch.randperm(len(table), generator=generator(self.seed, 6)).tolist()
        inside: list[int] = []
        outside: list[int] = []
        for row in order:
            (outside if (table.slices or [])[row] == sizes.held_out else inside).append(row)
        if not inside or len(outside) <= sizes.reviews_anchors:
            domains = ", ".join(sorted(set(table.slices or [])))
            raise DataError(
                f"{table.where} has {len(outside)} reviews of the held-out domain {sizes.held_out!r}, and more than "
                f"{sizes.reviews_anchors} are needed beside others. Its domains are {domains}."
            )
        train = min(sizes.reviews_train or len(inside), len(inside) * 9 // 10)  # a tenth at least is to measure on
        rows = {
            "reviews-train": inside[:train],
            "reviews-dev": inside[train:],
            "reviews-anchors": outside[: sizes.reviews_anchors],
            "reviews-test": outside[sizes.reviews_anchors :],
        }
        return [replace(table.take(sorted(some)), name=name) for name, some in rows.items()]

    # --- what all share -----------------------------------------------------------------------------------------------

    def used(self) -> dict[str, Any]:
        """Return the sets that were read so far: where each is from, its rows and its hash."""
        return {
            what: {"source": table.source, "rows": len(table), "sha256": table.sha256}
            for what, table in sorted(self._sets.items())
        }

    def some(self, table: TextTable, key: int = 0, most: int | None = None) -> TextTable:
        """Return as many rows of a table as are evaluated at this scale, or at most so many, drawn at random."""
        return self._drawn(table, most or self.sizes.evaluated, 100 + key)

    def _set(self, what: What) -> TextTable:
        if what not in self._sets:
            self._sets[what] = self.source.table(what)
        return self._sets[what]

    def _kept(self, name: str, make: Callable[[], TextTable]) -> TextTable:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def _labelled(self, name: str, labels: Labels, make: Callable[[], TextTable]) -> TextTable:
        three = self._kept(name, make)
        return three if labels == 3 else self._kept(f"{name}, two labels", lambda: two_labels(three))

    def _drawn(self, table: TextTable, count: int | None, key: int) -> TextTable:
        if count is None or count >= len(table):
            return table
        order = torch.randperm(len(table), generator=generator(self.seed, key)).tolist()
        return table.take(sorted(order[:count]))


def two_labels(table: TextTable) -> TextTable:
    """Return the same pairs with the labels entailment and non-entailment."""
    labels = table.labels or []
    return replace(table, labels=[label if label == ENTAILMENT else OTHER for label in labels], label_names=None)


def plain(text: str) -> str:
    """Return a text as it is compared with others: its letters and digits, whatever their case.

    >>> plain("The cook  slept. ")
    'thecookslept'
    """
    return "".join(sign for sign in text.casefold() if sign.isalnum()) or text


def without_premises(table: TextTable, other: TextTable) -> TextTable:
    """Return the rows of a table whose premise is not in another."""
    known = set(map(plain, other.texts))
    return table.take([row for row, premise in enumerate(table.texts) if plain(premise) not in known])


def without_repeats(table: TextTable) -> TextTable:
    """Return the first row of every text."""
    first: dict[str, int] = {}
    for row, text in enumerate(table.texts):
        first.setdefault(plain(text), row)
    return table.take(first.values())


def check_no_shared_premise(*tables: TextTable) -> None:
    """Raise if two of these tables have a premise in common: what chooses must not be what measures."""
    for number, table in enumerate(tables):
        for other in tables[number + 1 :]:
            shared = set(map(plain, table.texts)) & set(map(plain, other.texts))
            if shared:
                raise DataError(
                    f"{table.name} and {other.name} share {len(shared)} premises, for instance {min(shared)!r}: what "
                    "is measured on one would be known from the other. Give each premise to one of them."
                )

"""What `fastif correct` and `fastif augment` read: the run, the anchors, the test set, the original data, the pool.

Tables are read with the columns of the training data unless others are named; what cannot be used together is an error
here, before any long work. Knows tables and examples, and no steps.
"""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from fastif.apps.iteration import check_material
from fastif.cli.console import note, tell
from fastif.cli.loading import as_examples
from fastif.cli.opened import OpenedRun, open_run
from fastif.data import Examples, Subset
from fastif.errors import ConfigurationError, DataError
from fastif.integrations.tables import TextTable
from fastif.solvers.sampling import generator

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextExamples

ORIGINAL_SAMPLE = 1000  # training examples that stand for the original data where none is given
HELD_OUT, SAMPLE = 3, 4  # what is drawn, as a part of the key of the draw


@dataclass(frozen=True)
class Material:
    """The tables, and how they are cut."""

    opened: OpenedRun
    anchors: TextTable
    test: TextTable | None
    original: TextTable | None
    pool: TextTable | None
    hold_out: float
    seed: int

    @cached_property
    def anchor_examples(self) -> "TextExamples":
        """All anchors."""
        return as_examples(self.opened.model, self.anchors, "anchors")

    @cached_property
    def test_examples(self) -> "TextExamples | None":
        """The test set."""
        return None if self.test is None else as_examples(self.opened.model, self.test, "test")

    @cached_property
    def pool_examples(self) -> "TextExamples | None":
        """The new data."""
        return None if self.pool is None else as_examples(self.opened.model, self.pool, "pool")

    @cached_property
    def original_examples(self) -> Examples:
        """What must not be lost: the given data, or some of the training data."""
        if self.original is not None:
            return as_examples(self.opened.model, self.original, "original")
        train = self.opened.train
        rows = torch.randperm(len(train), generator=generator(self.seed, SAMPLE))[:ORIGINAL_SAMPLE]
        return Subset(train, rows.sort().values)

    @cached_property
    def split(self) -> tuple[Examples, Examples | None]:
        """The anchors that are drawn from, and those that are held out for choosing."""
        anchors = self.anchor_examples
        if not self.hold_out:
            return anchors, None
        if len(anchors) < 2:
            raise DataError(
                "there is one anchor only, and none is left to be held out for choosing. Give more anchors, or "
                "--hold-out 0, which chooses nothing."
            )
        count = min(len(anchors) - 1, max(1, round(self.hold_out * len(anchors))))
        order = torch.randperm(len(anchors), generator=generator(self.seed, HELD_OUT))
        return Subset(anchors, order[count:].sort().values), Subset(anchors, order[:count].sort().values)

    def check(self) -> list[str]:
        """Raise for what cannot be used together, and say aloud what a person should know."""
        original = None if self.original is None else self.original_examples
        notes = check_material(
            self.opened.train,
            self.anchor_examples,
            test=self.test_examples,
            original=original,
            pool=self.pool_examples,
        )
        for words in notes:
            warn(words)
        return notes

    def hashes(self) -> dict[str, Any]:
        """What the result depends on, by the hashes of what was read."""
        tables = {"anchors": self.anchors, "test": self.test, "original": self.original, "pool": self.pool}
        return {
            "model": self.opened.model.weights_sha256(),
            "train": self.opened.table.sha256,
            **{name: table.sha256 for name, table in tables.items() if table is not None},
        }

    def as_json(self) -> dict[str, Any]:
        """Say what was read."""
        told: dict[str, Any] = {"train": _told(self.opened.table), "anchors": _told(self.anchors)}
        if self.pool is not None:
            told["pool"] = _told(self.pool)
        if self.test is None:
            return told
        drawn, held_out = self.split
        told["anchors"] |= {"drawn_from": len(drawn), "held_out": 0 if held_out is None else len(held_out)}
        original = {
            **_told(self.original or self.opened.table),
            "examples": len(self.original_examples),
            "is_a_sample_of_the_training_data": self.original is None,
        }
        return {**told, "test": _told(self.test), "original": original}


def read_material(it: SimpleNamespace) -> Material:
    """Read what the arguments of a command name."""
    if it.slice is None and (it.anchors_slice is not None or it.test_slice):
        raise ConfigurationError("--anchors-slice and --test-slice need --slice, the column that holds the slices.")
    opened = open_run(it.run, trust_remote_code=it.trust_remote_code)
    given = {"text": it.text, "text_pair": it.text_pair, "label": it.label}
    columns = {name: column for name, column in given.items() if column is not None}
    columns["drop_unlabelled"] = it.drop_unlabelled

    def read(source: str | None, name: str, **more: Any) -> TextTable | None:
        return None if source is None else opened.read(source, name, **columns, **more)

    _ = opened.model  # which says first what it is
    anchors = opened.read(it.anchors, "anchors", **columns, slice=it.slice)
    anchors = anchors if it.anchors_slice is None else _only(anchors, [it.anchors_slice])
    test = read(it.test, "test", slice=it.slice)
    test = test if test is None or not it.test_slice else _only(test, it.test_slice)
    return Material(
        opened,
        anchors,
        test,
        read(it.original, "original"),
        read(it.pool, "pool"),
        it.hold_out,
        it.seed,
    )


def warn(words: str) -> None:
    """Say something that weakens the result."""
    tell("Warning:", words, style="yellow")


def _only(table: TextTable, names: list[str]) -> TextTable:
    """Return the rows of some slices, each of which must be there."""
    slices = table.slices or []
    there = sorted(set(slices))
    for name in names:
        if name not in there:
            raise DataError(f"{table.where} has no row of the slice {name!r}. Its slices are {', '.join(there[:20])}.")
    rows = [row for row, each in enumerate(slices) if each in names]
    note(f"  {len(rows):,} of them are of {', '.join(names)}.")
    return table.take(rows)


def _told(table: TextTable) -> dict[str, Any]:
    return {"source": table.source, "examples": len(table), "columns": str(table.columns), "sha256": table.sha256}

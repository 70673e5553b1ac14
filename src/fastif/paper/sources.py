"""Where the paper's data come from: files in a directory, or the hub. Each set is a table by its name.

A directory is found by the environment variable FASTIF_DATA; without it the sets are looked for on the Hugging Face
hub, which needs a network and the package `datasets`. Knows names of files and of data sets; knows no split of its own.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.files import json_sha256, sha256
from fastif.integrations.tables import TextTable, read_table
from fastif.integrations.tables.directory import data_directory

What = Literal["nli-train", "mnli-dev", "hans-train", "hans-evaluation", "anli-dev", "anli-test", "reviews"]
LEXICAL, SUBSEQUENCE, CONSTITUENT = "lexical_overlap", "subsequence", "constituent"
HEURISTICS = (LEXICAL, SUBSEQUENCE, CONSTITUENT)
PAIRS: dict[str, Any] = {"text": "premise", "text_pair": "hypothesis", "label": "label"}
FILES: dict[What, tuple[str, ...]] = {
    "nli-train": ("mnli_train_subset", "snli_train_subset", "new_protocols_nli"),
    "mnli-dev": ("mnli_dev_matched",),
    "hans-train": ("hans_train_regenerated",),
    "hans-evaluation": ("hans_evaluation",),
    "anli-dev": ("anli_dev_test",),
    "anli-test": ("anli_dev_test",),
    "reviews": ("amazon_multidomain5",),
}
SPLITS = {"new_protocols_nli": "train", "anli-dev": "dev", "anli-test": "test"}  # of files that hold more than one set
SLICES: dict[What, str] = {
    "mnli-dev": "genre",
    "hans-train": "heuristic",
    "hans-evaluation": "heuristic",
    "anli-dev": "round",
    "anli-test": "round",
    "reviews": "domain",
}
HUB: dict[What, tuple[str, ...]] = {
    "nli-train": ("nyu-mll/multi_nli:train",),
    "mnli-dev": ("nyu-mll/multi_nli:validation_matched",),
    "hans-train": ("jhu-cogsci/hans:train",),
    "hans-evaluation": ("jhu-cogsci/hans:validation",),
    "anli-dev": ("facebook/anli:dev_r1", "facebook/anli:dev_r2", "facebook/anli:dev_r3"),
    "anli-test": ("facebook/anli:test_r1", "facebook/anli:test_r2", "facebook/anli:test_r3"),
}
WHERE = (
    "Name a directory that holds the files with the environment variable FASTIF_DATA, or use --scale smoke, which "
    "makes its own data."
)


class Source(Protocol):
    """Gives the sets by name."""

    @property
    def name(self) -> str:
        """What it is, in words."""

    def table(self, what: What) -> TextTable:
        """Return a set; its slices are genres, heuristics, rounds or domains."""

    def fingerprint(self) -> dict[str, Any]:
        """Return what all sets depend on, as far as that is known before they are read."""


class Files:
    """Parquet files in a directory."""

    name = "files of FASTIF_DATA"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def table(self, what: What) -> TextTable:
        """Read a set."""
        return joined([self._read(name, what) for name in FILES[what]], what)

    def fingerprint(self) -> dict[str, Any]:
        """Return the hashes of the files that are there."""
        names = sorted({name for names in FILES.values() for name in names})
        paths = {name: self._directory / f"{name}.parquet" for name in names}
        return {"source": self.name, "files": {name: sha256(path) for name, path in paths.items() if path.is_file()}}

    def _read(self, name: str, what: What) -> TextTable:
        path = self._directory / f"{name}.parquet"
        if not path.is_file():
            raise StoredFileError(f"{what} is read from {path}, which is not there. {WHERE}")
        columns: dict[str, Any] = {"text": "text", "label": "label"} if what == "reviews" else PAIRS
        wanted = SPLITS.get(what) or SPLITS.get(name)
        table = read_table(path, **columns, slice=SLICES.get(what), source_name=what)
        if wanted is None:
            return table
        splits = read_table(path, **columns, slice="split", source_name=what).slices or []
        return table.take([row for row, split in enumerate(splits) if split == wanted])


class Hub:
    """Data sets of the Hugging Face hub."""

    name = "data sets of the hub"

    def table(self, what: What) -> TextTable:
        """Fetch a set."""
        if what not in HUB:
            raise DataError(f"no data set of the hub is known that has {what} by domain. {WHERE}")
        return joined([self._fetch(name, what) for name in HUB[what]], what)

    def fingerprint(self) -> dict[str, Any]:
        """Return the names, as nothing more is known before the sets are fetched."""
        return {"source": self.name, "names": {what: list(names) for what, names in HUB.items()}}

    def _fetch(self, name: str, what: What) -> TextTable:
        rounds = what.startswith("anli")
        try:
            table = read_table(name, **PAIRS, slice=None if rounds else SLICES.get(what), source_name=what)
        except (DataError, ConfigurationError) as error:
            raise type(error)(f"{error} {WHERE}") from error
        if table.label_names is not None and table.labels is not None:
            names = table.label_names
            table = replace(table, labels=[names[int(label)] for label in table.labels])  # type: ignore[arg-type]
        return replace(table, slices=[name.rpartition("_")[2]] * len(table)) if rounds else table


def find_source() -> Source:
    """Return the files of FASTIF_DATA where that is set, else the hub."""
    directory = data_directory()
    return Hub() if directory is None else Files(directory)


def joined(tables: list[TextTable], name: str) -> TextTable:
    """Return the rows of several tables as one, with rows counted anew; one alone stays as it is."""
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    every = [table.slices for table in tables]
    return replace(
        first,
        source=" + ".join(table.source for table in tables),
        texts=[text for table in tables for text in table.texts],
        pairs=None if first.pairs is None else [text for table in tables for text in table.pairs or []],
        labels=None if first.labels is None else [label for table in tables for label in table.labels or []],
        slices=None if None in every else [part for slices in every for part in slices or []],
        lines=list(range(1, sum(map(len, tables)) + 1)),
        sha256=json_sha256({"tables": [table.sha256 for table in tables]}),
        name=name,
        unit="row",
    )

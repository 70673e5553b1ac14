"""A finished run of `fastif explain`, opened for the commands that go on from it.

The model and the training data are loaded again with the arguments that the run was made with, and both must be what
they were then: scores of other weights or other rows would be told of the wrong examples. One argument is never taken
from a run: whether code that comes with the model is run. Who made the run is not who opens it.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastif
from fastif.cli import options
from fastif.cli import solver as solver_of
from fastif.cli.explain import recorded
from fastif.cli.loading import as_examples, load_model, load_table, only_trained_on
from fastif.cli.options import Dtype
from fastif.errors import StoredFileError
from fastif.integrations.tables import TextTable
from fastif.prefix import PrefixCache
from fastif.progress import Progress
from fastif.store import RunStore

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier, TextExamples


@dataclass(frozen=True)
class OpenedRun:
    """What a run was made of, each part loaded when it is first asked for."""

    path: Path
    store: RunStore
    trust_remote_code: bool = False

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `fastif explain`, by the names that they have in Python."""
        return {**recorded(self.store), "trust_remote_code": self.trust_remote_code}

    @cached_property
    def explanation(self) -> dict[str, Any]:
        """What was told of the queries (explanation.json)."""
        found: dict[str, Any] = self.store.json("explanation.json")
        return found

    @cached_property
    def scores(self) -> fastif.Scores:
        """The scores of all candidates for all queries."""
        return fastif.Scores.load(self.store.file("scores.json").with_suffix(""))

    @cached_property
    def model(self) -> "TextClassifier":
        """The model, with the weights that it had then."""
        given = self.arguments
        choices = {
            name: given[name] for name in ("device", "trainable", "freeze_layers", "max_length", "trust_remote_code")
        }
        model = load_model(given["model"], dtype=Dtype(given["dtype"]), **choices)
        self._check_code(model)
        self._check("model", model.weights_sha256())
        return model

    @cached_property
    def table(self) -> TextTable:
        """The training data as a table."""
        given = self.arguments
        columns = {name: given[name] for name in ("text", "text_pair", "label", "slice", "split", "drop_unlabelled")}
        table = only_trained_on(given["model"], load_table(given["train"], "train", **columns))
        self._check("train", table.sha256)
        return table

    @cached_property
    def train(self) -> "TextExamples":
        """The training data as examples of the model."""
        return as_examples(self.model, self.table, "train")

    def read(self, source: str, name: str, **columns: Any) -> TextTable:
        """Read another table of labelled texts, with the columns of the training data unless others are given."""
        given = {column: self.arguments[column] for column in ("text", "text_pair", "label")}
        return load_table(source, name, **{**given, **columns})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the run's explainer, by the names that they have in Python."""
        given = self.arguments
        return {
            **solver_of.asked(given["solver"], given["damping"], given["seed"]),
            "batch_size": given["batch_size"],
            "prefix_cache": self.prefix_cache,
            "precision": options.precision(Dtype(given["dtype"])),
            "memory_budget": options.read_bytes(given["memory_budget"]),
        }

    def explainer(self, progress: Progress, **chosen: Any) -> fastif.Explainer:
        """Return an explainer with the settings of the run, but for what is given here."""
        given = {**self.settings, "progress": progress, **chosen}
        return fastif.Explainer(self.model, given.pop("train", self.train), **given)

    @cached_property
    def prefix_cache(self) -> PrefixCache:
        """Where the states of frozen layers are kept."""
        given = self.arguments
        directory = None if given["cache"] is None else Path(given["cache"])
        return PrefixCache(directory=directory, storage=options.storage(Dtype(given["dtype"])))

    def _check_code(self, model: "TextClassifier") -> None:
        """Raise if the run was computed by code of the model's own, and another class has read the same weights now."""
        before = self.store.request["arguments"].get("trust_remote_code")
        if before and not self.trust_remote_code and getattr(model.module.config, "auto_map", None):
            raise StoredFileError(
                f"{self.path} was made with --trust-remote-code, by code that comes with {self.arguments['model']}, "
                "which is not run unless that is said each time. If you trust it, give --trust-remote-code."
            )

    def _check(self, name: str, now: str) -> None:
        if self.store.request["read"][name] != now:
            raise StoredFileError(
                f"the {name} is not what it was when {self.path} was made, so that its scores do not belong to it. "
                "Run fastif explain again, into a new directory."
            )


def open_run(path: Path, *, trust_remote_code: bool = False) -> OpenedRun:
    """Open a finished run of `fastif explain`; code that comes with its model is run only if that is said here."""
    store = RunStore.read(path)
    if store.request.get("command") != "explain":
        raise StoredFileError(f"{path} is a run of {store.request.get('command')}; give one of fastif explain.")
    return OpenedRun(path, store, trust_remote_code)

"""How an experiment is run: in a directory of its own, where it goes on if it was killed, and drawn from its result.

    DIR/models/            the task models, shared by all experiments
    DIR/<name>/result.json settings, versions, hardware, commit, hashes of data and weights, and what was measured
    DIR/<name>/*.png, *.svg, table.md    drawn from result.json, anew in each run

Knows what an experiment is, and none of them.
"""

import json
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import torch

from fastif import memory
from fastif.errors import ConfigurationError, FastifError
from fastif.files import replacing
from fastif.measuring.timing import environment
from fastif.measuring.words import seconds
from fastif.paper.clock import Clock
from fastif.paper.context import Context, UnfinishedError
from fastif.paper.data import Data
from fastif.paper.made_up import MadeUp
from fastif.paper.models import TaskModels
from fastif.paper.settings import Model, Settings
from fastif.paper.side_by_side import side_by_side
from fastif.paper.sources import find_source
from fastif.precision import Precision
from fastif.progress import Progress, silent
from fastif.store import DESCRIPTION, PARTS, RunStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT, TABLE = "result.json", "table.md"
CLOCK, WHERE = "clock.json", "where.json"  # beside the parts, which are thrown away at the end
FORMATS = ("png", "svg")


class Experiment(Protocol):
    """An experiment of the paper. A module with these names is one."""

    name: str
    """What it is called on the command line."""
    title: str
    """What it shows, and where it stands in the paper."""

    def run(self, context: Context, /) -> dict[str, Any]:
        """Do the work, in parts that are kept, and return what was measured, as JSON can hold it."""

    def draw(self, result: dict[str, Any], /) -> "dict[str, Figure]":
        """Return the figures by the names of their files."""

    def table(self, result: dict[str, Any], /) -> str:
        """Return "paper | ours" as markdown."""


@runtime_checkable
class InParts(Protocol):
    """An experiment whose work has parts that do not need each other, so that several processes can share it."""

    def parts(self, settings: Settings, /) -> Sequence[Any]:
        """Return what tells the parts from each other, long ones first."""

    def models(self, settings: Settings, /) -> Sequence[tuple[Model, int]]:
        """Return the models that parts share, each by its name and checkpoint."""

    def make(self, context: Context, part: Any, /) -> Any:
        """Do the work of a part; `run` finds what was kept of it."""


@dataclass(frozen=True)
class Attempt:
    """What became of an experiment: where its files are, and why it failed if it did."""

    name: str
    path: Path
    error: str | None = None
    table: str = ""


@dataclass
class Laboratory:
    """Runs experiments in one output directory.

    Args:
        out: the directory.
        settings: of the scale.
        device: where to compute.
        precision: of matrix products.
        double: compute in float64.
        seed: of everything that is drawn.
        processes: that share the work of an experiment, where it has parts.
        memory_budget: bytes that may be used on the device, for who runs several experiments on it; None for no bound.
        progress: called as progress(stage, done, total).
        note: told what is being done.
        stops_here: train nothing, take no step, and make results of what was finished.
        joins: results are of other rankings alone, made to join what is published (joining.py).
    """

    out: Path
    settings: Settings
    device: str = "cpu"
    precision: Precision = "auto"
    double: bool = False
    seed: int = 0
    processes: int = 1
    memory_budget: int | None = None
    progress: Progress = silent
    note: Callable[[str], None] = lambda words: None
    stops_here: bool = False
    joins: bool = False
    data: Data = field(init=False)
    models: TaskModels = field(init=False)

    def __post_init__(self) -> None:
        memory.check_budget(self.memory_budget)
        source = MadeUp(self.seed) if self.settings.source == "made-up" else find_source()
        self.data = Data(source, self.settings.sizes, self.seed)
        self.models = TaskModels(
            self.out / "models",
            self.settings,
            self.data,
            device=self.device,
            double=self.double,
            seed=self.seed,
            progress=self.progress,
            note=self.note,
        )

    def run(self, experiment: Experiment) -> Attempt:
        """Run an experiment, or go on with it; of a finished one, only figures and table are made anew."""
        path = self.out / experiment.name
        if self.stops_here and not (path / DESCRIPTION).is_file():
            raise UnfinishedError(f"{experiment.name} was not begun in {self.out}")
        with RunStore.begin(path, self._request(experiment)) as store:
            missing: list[str] = []
            if not store.is_complete:
                with memory.limited(self.memory_budget, torch.device(self.device)):
                    missing = self._measure(experiment, store)
            result = store.json(RESULT)["result"]
            words = self._present(experiment, store, result)
            if not missing:  # else it can be gone on with
                store.finish()
        return Attempt(experiment.name, path, table=words)

    def run_all(self, experiments: Iterable[Experiment]) -> list[Attempt]:
        """Run several; one that fails is told and the others go on."""
        attempts = []
        for experiment in experiments:
            self.note(f"{experiment.name}: {experiment.title}")
            try:
                attempts.append(self.run(experiment))
            except Exception as error:  # noqa: BLE001 - what one of them meets must not stop the others
                if not isinstance(error, FastifError):
                    self.note(traceback.format_exc())
                words = f"{type(error).__name__}: {error}"
                attempts.append(Attempt(experiment.name, self.out / experiment.name, error=words))
                self.note(f"{experiment.name} failed: {words}")
        return attempts

    def context(self, store: RunStore, finished: Callable[[], None] = lambda: None) -> Context:
        """Return what an experiment is given that keeps its parts in this store."""
        return Context(
            self.settings,
            self.data,
            self.models,
            store,
            seed=self.seed,
            precision=self.precision,
            progress=self.progress,
            note=self.note,
            finished=finished,
            stops_here=self.stops_here,
        )

    def _request(self, experiment: Experiment) -> dict[str, Any]:
        """Return what the result depends on; code and hardware are in the result, and may change on the way."""
        return {
            "command": "reproduce",
            "experiment": experiment.name,
            "base": self.settings.base,
            "settings": self.settings.of(experiment.name),
            "data": self.data.source.fingerprint(),
            "precision": self.precision,
            "double": self.double,
            "seed": self.seed,
            **({"joins": True} if self.joins else {}),
        }

    def _measure(self, experiment: Experiment, store: RunStore) -> list[str]:
        """Run it, and return what was missing of what was not to be made."""
        clock = Clock(store.path / PARTS / CLOCK)
        parts = experiment.parts(self.settings) if isinstance(experiment, InParts) else []
        processes = max(1, min(self.processes, len(parts)))
        file = store.path / PARTS / WHERE
        where = self._where(file, processes)

        def finished() -> None:
            clock.note()
            with replacing(file) as temporary:
                _write(temporary, json.dumps(where))

        if processes > 1 and not self.stops_here:
            self._share(experiment, parts, processes, finished)
        context = self.context(store, finished=finished)
        result = experiment.run(context)
        about = {
            "experiment": experiment.name,
            "title": experiment.title,
            "request": self._request(experiment),
            **where,
            "time": clock.as_json(),
            "data": {"source": self.data.source.name, "sets": self.data.used()},
            "models": [model.as_json() for model in context.asked],
        }
        store.add_json(RESULT, {**about, "result": result})
        return context.missing

    def _where(self, file: Path, processes: int) -> dict[str, Any]:
        """Return where and by how many processes a result is computed: by the last start that finished some of it."""
        if self.stops_here and file.is_file():
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            return found
        device = torch.device(self.device).type
        return {"environment": environment(device), "device": self.device, "processes": processes}

    def _share(self, experiment: Any, parts: Sequence[Any], processes: int, finished: Callable[[], None]) -> None:
        """Let several processes train the models and make the parts of an experiment."""
        same = (self.out, self.settings, self.device, self.precision, self.double, self.seed)

        def heard(stage: str, done: int, total: int, /) -> None:
            if done:
                finished()
            self.progress(stage, done, total)

        def share(what: Literal["models", "parts"], these: Sequence[Any]) -> None:
            self.models.states.found.clear()  # the others have their own, and the memory
            some = min(processes, len(these))
            worker = _Worker(experiment.name, what, tuple(these), same, memory.part_of(self.device, some))
            side_by_side(worker, len(these), some, what=what, progress=heard)

        missing = [model for model in experiment.models(self.settings) if not self.models.is_trained(*model)]
        if len(missing) == 1:
            self.models.get(*missing[0])
        elif missing:
            self.models.base()  # which is made once, and not by several at a time
            share("models", missing)
            self.models.write_accuracy()
        share("parts", parts)

    def _present(self, experiment: Experiment, store: RunStore, result: dict[str, Any]) -> str:
        words = f"# {experiment.title}\n\n{experiment.table(result)}\n\n{caption(store.json(RESULT))}\n"
        store.add(TABLE, lambda path: _write(path, words))
        try:
            from fastif.integrations.plots import style
        except ImportError as error:
            raise ConfigurationError(
                f"the figures of {experiment.name} need matplotlib, which is not installed: pip install "
                f"'fastif[plots]'. What was measured is in {store.path / RESULT}: give the command again to draw it."
            ) from error
        with style.look():
            for name, figure in experiment.draw(result).items():
                for file in style.save(figure, store.path / name, FORMATS):
                    store.note(file.name)
        return words


@dataclass(frozen=True)
class _Worker:
    """What another process needs to train models or make parts of an experiment.

    Args:
        experiment: its name.
        what: of the two is done.
        these: models by name and checkpoint, or parts.
        laboratory: the same.
        memory_budget: its part of the memory.
    """

    experiment: str
    what: Literal["models", "parts"]
    these: tuple[Any, ...]
    laboratory: tuple[Any, ...]
    memory_budget: int | None

    def __call__(self) -> Callable[[int], None]:
        from fastif.paper.experiments import find

        laboratory, (experiment,) = Laboratory(*self.laboratory), find(self.experiment)
        assert isinstance(experiment, InParts)
        context = laboratory.context(RunStore.joined(laboratory.out / self.experiment))

        def work(number: int) -> None:
            with memory.limited(self.memory_budget, torch.device(laboratory.device)):
                if self.what == "models":
                    laboratory.models.get(*self.these[number])
                else:
                    experiment.make(context, self.these[number])

        return work


def caption(about: Mapping[str, Any]) -> str:
    """Return what the figures of a result depend on, in a line or two."""
    where, data = about["environment"], about["data"]
    alike: dict[str, list[str]] = {}
    for each in about["models"]:
        words = f"{each['base']}, {each['trained']} ({each['trained_parameters']:,} parameters), "
        alike.setdefault(f"{words}{each['examples']:,} training examples", []).append(each["name"])
    models = "; ".join(f"{', '.join(names)}: {words}" for words, names in alike.items())
    return (
        f"Scale {about['request']['settings']['scale']}, seed {about['request']['seed']}. {models}. "
        f"Data: {data['source']}. {where['hardware']}, {where['threads']} threads, torch {where['torch']}, fastif "
        f"{where['fastif']}, commit {where['commit']}.{_took(about.get('time'))}"
    )


def _took(time: Mapping[str, Any] | None) -> str:
    """Return how long it took; results of before know of their last start alone, and say nothing."""
    if time is None:
        return ""
    starts = "" if time["starts"] == 1 else f" in {time['starts']} starts"
    return f" It took {seconds(time['seconds'])}{starts}, with the training of models that were not there yet."


def _write(path: Path, words: str) -> None:
    path.write_text(words, encoding="utf-8")

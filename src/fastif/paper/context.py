"""What an experiment is given: its settings, the data, the models, and a place where finished parts are kept."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import fastif
from fastif.errors import FastifError
from fastif.integrations.tables import TextTable
from fastif.keeping import Tensors, from_tensor, to_tensor
from fastif.paper.data import Data
from fastif.paper.models import TaskModel, TaskModels
from fastif.paper.points import Points, choose_points
from fastif.paper.settings import Settings
from fastif.precision import Precision
from fastif.progress import Progress, silent
from fastif.store import RunStore


class UnfinishedError(FastifError):
    """A piece of work is not there, and nothing is to be computed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}, and the result needs it: give the command again without --stop-here.")


@dataclass(frozen=True)
class Context:
    """Everything that an experiment works with.

    Args:
        settings: of the scale.
        data: the tables.
        models: the task models.
        store: the directory of the experiment.
        seed: of everything that is drawn.
        precision: of matrix products.
        progress: called as progress(stage, done, total).
        note: told, in a sentence, what is being done.
        finished: called after each piece that was made.
        stops_here: make no piece that is not there.
        asked: models that the result depends on.
        missing: pieces that were asked for and are not there.
    """

    settings: Settings
    data: Data
    models: TaskModels
    store: RunStore
    seed: int = 0
    precision: Precision = "auto"
    progress: Progress = silent
    note: Callable[[str], None] = lambda words: None
    finished: Callable[[], None] = lambda: None
    stops_here: bool = False
    asked: list[TaskModel] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def device(self) -> str:
        """Where models compute, "cpu" or "cuda"."""
        return torch.device(self.models.device).type

    def model(self, name: Any, checkpoint: int = 0) -> TaskModel:
        """Return a task model, and note that the result depends on it."""
        if self.stops_here and not self.models.is_trained(name, checkpoint):
            raise UnfinishedError(f"the model {name}, checkpoint {checkpoint}, is not trained")
        model = self.models.get(name, checkpoint)
        if model not in self.asked:
            self.asked.append(model)
        return model

    def points(
        self, model: TaskModel, table: TextTable, *, right: int, wrong: int, allow_fewer: bool = False
    ) -> Points:
        """Draw evaluation points from as many rows of a table as this scale looks at."""
        some = self.data.some(table)
        return choose_points(model, some, right=right, wrong=wrong, seed=self.seed, allow_fewer=allow_fewer)

    def explainer(self, model: TaskModel, **options: Any) -> fastif.Explainer:
        """Return an explainer of a model and its training data, unless options say something else."""
        usual: dict[str, Any] = {
            "prefix_cache": self.models.states,
            "precision": self.precision,
            "progress": self.progress,
        }
        return fastif.Explainer(model.classifier, options.pop("train", model.train), **{**usual, **options})

    def piece(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return tensors by name: from the file of them if they were made before, else made now and kept."""
        made = False

        def making() -> Tensors:
            nonlocal made
            if self.stops_here:
                self.missing.append(name)
                raise UnfinishedError(f"'{name}' is not finished")
            made = True
            return make()

        found = self.store.piece(name, making)
        if made:
            self.finished()
        return found

    def part(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what JSON can hold: from a file if it was made before, else made now and kept."""
        return from_tensor(self.piece(name, lambda: {"json": to_tensor(make())})["json"])

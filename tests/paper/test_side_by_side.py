"""Parts of an experiment by several processes: all are done once, errors come home, and the result is that of one."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from fastif.errors import FastifError
from fastif.paper.experiments import find
from fastif.paper.harness import InParts, Laboratory
from fastif.paper.scales import settings_for
from fastif.paper.side_by_side import side_by_side


@dataclass(frozen=True)
class Writes:
    """Writes a file for each part; one part may raise, one may take its process with it."""

    folder: Path
    raises: int = -1
    dies: int = -1

    def __call__(self):
        def work(number):
            if number == self.raises:
                raise ValueError(f"part {number} is odd")
            if number == self.dies:
                os._exit(9)
            with open(self.folder / f"{number}", "x") as file:  # twice would raise
                file.write(str(os.getpid()))

        return work


def test_every_part_is_done_once_and_told(tmp_path):
    heard = []
    side_by_side(Writes(tmp_path), 5, 2, progress=lambda *said: heard.append(said), stage="walks")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]
    assert heard == [("walks", done, 5) for done in range(6)]
    assert str(os.getpid()) not in {path.read_text() for path in tmp_path.iterdir()}


def test_what_a_part_raises_ends_all(tmp_path):
    with pytest.raises(FastifError, match="ValueError: part 1 is odd"):
        side_by_side(Writes(tmp_path, raises=1), 3, 2)


def test_a_process_that_dies_is_told(tmp_path):
    with pytest.raises(FastifError, match=r"status 9.*fewer --processes"):
        side_by_side(Writes(tmp_path, dies=0), 2, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_an_experiment_gives_the_same_by_two_processes(tmp_path):
    (experiment,) = find("augmentation-anli")
    results = []
    for processes in (1, 2):
        laboratory = Laboratory(tmp_path / f"{processes}", settings_for("smoke"), processes=processes)
        results.append(json.loads((laboratory.run(experiment).path / "result.json").read_text())["result"])
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["correction-mnli", "augmentation-hans", "augmentation-anli", "amazon"])
def test_what_walks_has_parts(name):
    (experiment,) = find(name)
    assert isinstance(experiment, InParts)
    parts = experiment.parts(settings_for("full"))
    assert len(parts) == len(set(parts)) > 7


def test_what_does_not_walk_has_none():
    assert not isinstance(find("recall")[0], InParts)

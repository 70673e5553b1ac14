"""Parts of an experiment by several processes: all are done once, errors come home, and the result is that of one."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fastif.apps.iteration.weights import AtWeights
from fastif.errors import FastifError
from fastif.paper.data import Data
from fastif.paper.experiments import find
from fastif.paper.harness import InParts, Laboratory
from fastif.paper.made_up import MadeUp
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
    side_by_side(Writes(tmp_path), 5, 2, progress=lambda *said: heard.append(said))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]
    assert heard == [("parts", done, 5) for done in range(6)]
    assert str(os.getpid()) not in {path.read_text() for path in tmp_path.iterdir()}


def test_what_a_part_raises_ends_all(tmp_path):
    with pytest.raises(FastifError, match="ValueError: part 1 is odd"):
        side_by_side(Writes(tmp_path, raises=1), 3, 2)
    assert not [child for child in multiprocessing.active_children() if child.is_alive()]


@dataclass(frozen=True)
class Sleeps:
    """Says which process it is, and sleeps."""

    folder: Path

    def __call__(self):
        def work(number):
            (self.folder / "pid").write_text(str(os.getpid()))
            time.sleep(60)

        return work


def test_processes_do_not_outlive_the_one_that_started_them(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from fastif.paper.side_by_side import side_by_side\n"
        "from tests.paper.test_side_by_side import Sleeps\n"
        f"if __name__ == '__main__': side_by_side(Sleeps(Path({str(tmp_path)!r})), 1, 1)\n"
    )
    (tmp_path / "program.py").write_text(program)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    parent = subprocess.Popen([sys.executable, tmp_path / "program.py"], env=environment)
    assert comes_true(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    parent.kill()
    parent.wait()
    assert comes_true(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists(), seconds=30.0)


def comes_true(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    return condition()


def test_a_process_that_dies_is_told(tmp_path):
    with pytest.raises(FastifError, match=r"status 9.*fewer --processes"):
        side_by_side(Writes(tmp_path, dies=0), 2, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["augmentation-anli", "amazon"])
def test_an_experiment_gives_the_same_by_two_processes(name, tmp_path, monkeypatch):
    (experiment,) = find(name)
    alone = Laboratory(tmp_path / "alone", settings_for("smoke")).run(experiment)
    monkeypatch.delattr(AtWeights, "chosen")  # in this process, which is to find all that others chose
    shared = Laboratory(tmp_path / "shared", settings_for("smoke"), processes=2).run(experiment)
    found = [json.loads((outcome.path / "result.json").read_text()) for outcome in (alone, shared)]
    assert found[0]["result"] == found[1]["result"]
    assert [each["processes"] for each in found] == [1, 2]


@pytest.mark.slow
def test_several_models_are_trained_by_other_processes(tmp_path, monkeypatch):
    smoke = settings_for("smoke")
    few = replace(smoke.augmentation_anli, checkpoints=2, steps=1, variants=())
    (experiment,) = find("augmentation-anli")
    monkeypatch.delattr("fastif.paper.models.train_classifier")  # in this process
    laboratory = Laboratory(tmp_path, replace(smoke, augmentation_anli=few), processes=2)
    outcome = laboratory.run(experiment)
    assert [laboratory.models.is_trained("nli-3", number) for number in range(3)] == [True, True, False]
    assert json.loads((outcome.path / "result.json").read_text())["result"]["checkpoints"] == 2
    words = (tmp_path / "models/accuracy.md").read_text()
    rows = [line.split("|")[1].strip() for line in words.splitlines() if line.startswith("| nli")]
    assert rows == 2 * ["nli-3", "nli-3-1"]  # on MNLI and on ANLI


@pytest.mark.parametrize("name", ["correction-mnli", "augmentation-hans", "augmentation-anli", "amazon"])
def test_what_walks_has_parts(name):
    (experiment,) = find(name)
    assert isinstance(experiment, InParts)
    parts = experiment.parts(settings_for("full"))
    assert len(parts) == len(set(parts)) > 7
    models = experiment.models(settings_for("full"))
    assert {checkpoint for _, checkpoint in models} == {checkpoint for checkpoint, *_ in parts}


@pytest.mark.parametrize("name", ["correction-mnli", "augmentation-hans", "augmentation-anli"])
def test_parts_are_of_the_slices_that_anchors_have(name):
    (experiment,) = find(name)
    anchors = experiment.anchors(Data(MadeUp(0), settings_for("smoke").sizes, 0))
    assert set(experiment.slices) == (set(anchors.slices) if experiment.slices else set())
    assert {slice_name for *_, slice_name in experiment.parts(settings_for("smoke"))} == set(
        experiment.slices or [None]
    )


def test_what_does_not_walk_has_none():
    assert not isinstance(find("recall")[0], InParts)

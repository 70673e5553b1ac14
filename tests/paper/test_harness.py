"""The harness: parts that are kept, runs that go on, failures that stop nobody else, figures drawn from the result."""

import json
import sys

import pytest
import torch

from fastif import memory
from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.integrations import plots
from fastif.paper import clock, harness
from fastif.paper.context import UnfinishedError
from fastif.paper.experiments import EXPERIMENTS, find
from fastif.paper.harness import Laboratory
from fastif.paper.scales import settings_for
from fastif.store import RunStore


class Counting:
    """An experiment of two parts, which can be told to die after the first."""

    title = "counts how often it works"

    def __init__(self, name="counting"):
        self.name = name
        self.made, self.drawn, self.dies = [], 0, True

    def run(self, context):
        return {"one": context.part("one", lambda: self._make(1)), "two": context.part("two", lambda: self._make(2))}

    def _make(self, number):
        if number == 2 and self.dies:
            raise KeyboardInterrupt
        self.made.append(number)
        return {"number": number}

    def draw(self, result):
        from matplotlib.figure import Figure

        self.drawn += 1
        figure = Figure(figsize=(1, 1))
        figure.subplots().plot([result["one"]["number"], result["two"]["number"]])
        return {self.name: figure}

    def table(self, result):
        return f"paper | {result['two']['number']}"


def laboratory_in(folder, **changes):
    return Laboratory(folder, settings_for("smoke"), **changes)


class WithAnExtra(Counting):
    """Its second part may be left out."""

    def run(self, context):
        try:
            return super().run(context)
        except UnfinishedError:
            return {"one": context.part("one", None), "two": {"number": 0}}


def test_a_run_that_stops_here_says_where_it_was_computed_and_can_be_gone_on_with(tmp_path, monkeypatch):
    experiment = WithAnExtra()
    with pytest.raises(KeyboardInterrupt):
        laboratory_in(tmp_path).run(experiment)
    where = harness.environment("cpu")
    monkeypatch.setattr(harness, "environment", lambda device: {**where, "hardware": "another machine"})
    for _ in range(2):  # the same as often as it is given
        path = laboratory_in(tmp_path, stops_here=True).run(experiment).path
        about = json.loads((path / "result.json").read_text())
        assert about["result"] == {"one": {"number": 1}, "two": {"number": 0}}
        assert about["environment"] == where
        assert experiment.made == [1]
    experiment.dies = False
    path = laboratory_in(tmp_path).run(experiment).path
    about = json.loads((path / "result.json").read_text())
    assert about["result"]["two"] == {"number": 2}
    assert about["environment"]["hardware"] == "another machine"
    assert not (path / "parts").exists()


def test_a_start_that_finished_nothing_holds_no_directory_and_is_not_where_a_result_was_computed(tmp_path, monkeypatch):
    class Failing(WithAnExtra):
        def run(self, context):
            raise DataError("the data cannot be read")

    for seed in (0, 1):  # a request of another seed is not refused
        with pytest.raises(DataError):
            laboratory_in(tmp_path, seed=seed).run(Failing())
    with pytest.raises(KeyboardInterrupt):
        laboratory_in(tmp_path).run(WithAnExtra())
    with pytest.raises(StoredFileError, match="another request: data seed was 0 and is 1; seed was 0 and is 1"):
        laboratory_in(tmp_path, seed=1).run(Failing())
    where = harness.environment("cpu")
    with monkeypatch.context() as patch:
        patch.setattr(harness, "environment", lambda device: {**where, "hardware": "another machine"})
        with pytest.raises(DataError):
            laboratory_in(tmp_path).run(Failing())
    path = laboratory_in(tmp_path, stops_here=True).run(WithAnExtra()).path
    assert json.loads((path / "result.json").read_text())["environment"] == where


@pytest.mark.parametrize("is_complete", [True, False])
def test_where_nothing_is_missing_a_run_that_stops_here_is_complete(is_complete, tmp_path):
    experiment = Counting()
    experiment.dies = False
    if is_complete:
        laboratory_in(tmp_path).run(experiment)
    else:
        laboratory = laboratory_in(tmp_path)
        with RunStore.begin(tmp_path / experiment.name, laboratory._request(experiment)) as store:
            experiment.run(laboratory.context(store))
    path = laboratory_in(tmp_path, stops_here=True).run(experiment).path
    store = RunStore.read(path)  # refuses what is not complete
    assert "paper | 2" in store.file("table.md").read_text()
    assert experiment.made == [1, 2]


def test_what_was_never_begun_is_neither_begun_nor_trained(tmp_path):
    experiment = find("augmentation-anli")[0]
    with pytest.raises(UnfinishedError, match="augmentation-anli was not begun"):
        laboratory_in(tmp_path, stops_here=True).run(experiment)
    assert not list(tmp_path.iterdir())
    laboratory = laboratory_in(tmp_path, stops_here=True)
    with RunStore.begin(tmp_path / experiment.name, laboratory._request(experiment)):
        pass  # it was killed while its model was trained
    with pytest.raises(UnfinishedError, match="model nli-3, checkpoint 0, is not trained"):
        laboratory.run(experiment)
    assert not (tmp_path / "models").exists()


def test_a_budget_holds_while_an_experiment_is_measured(tmp_path):
    class Asking(Counting):
        def run(self, context):
            seen.append(memory.available(torch.device("cpu")))
            self.dies = False
            return super().run(context)

    seen: list[int] = []
    laboratory_in(tmp_path, memory_budget=3 * 10**9).run(Asking())
    assert seen == [3 * 10**9] != [memory.available(torch.device("cpu"))]


def test_a_budget_that_holds_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="256 MiB"):
        laboratory_in(tmp_path, memory_budget=1000)


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    experiment = Counting()
    with pytest.raises(KeyboardInterrupt):
        laboratory_in(tmp_path).run(experiment)
    assert not (tmp_path / "counting/result.json").exists()
    experiment.dies = False
    outcome = laboratory_in(tmp_path).run(experiment)
    assert experiment.made == [1, 2]  # the first part was not made again
    assert "paper | 2" in outcome.table
    assert sorted(path.name for path in outcome.path.iterdir() if path.name != ".lock") == [
        "counting.png",
        "counting.svg",
        "result.json",
        "run.json",
        "table.md",
    ]
    laboratory_in(tmp_path).run(experiment)
    assert experiment.made == [1, 2]
    assert experiment.drawn == 2  # a finished run is drawn anew, and measured no more


def test_the_time_of_all_starts_is_told(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    experiment = Counting()
    make = experiment._make

    def slow(number):
        now[0] += 60  # a minute for each part, and for the one that is killed
        return make(number)

    experiment._make = slow
    with pytest.raises(KeyboardInterrupt):
        laboratory_in(tmp_path).run(experiment)
    experiment.dies = False
    attempt = laboratory_in(tmp_path).run(experiment)
    result = json.loads((attempt.path / "result.json").read_text())
    assert result["time"] == {"seconds": 120.0, "starts": 2}  # what was lost is not counted
    assert "It took 120 s in 2 starts" in attempt.table
    assert not list(attempt.path.rglob("clock.json"))


def test_the_result_says_what_it_depends_on(tmp_path):
    experiment = Counting()
    experiment.dies = False
    laboratory_in(tmp_path, seed=3).run(experiment)
    result = json.loads((tmp_path / "counting/result.json").read_text())
    assert {"hardware", "threads", "torch", "fastif", "commit"} <= set(result["environment"])
    assert result["request"]["seed"] == 3
    assert result["request"]["settings"]["scale"] == "smoke"
    assert result["data"]["source"] == "made up by the project"
    assert result["result"]["two"] == {"number": 2}


def test_another_request_is_not_mixed_with_what_is_there(tmp_path):
    experiment = Counting()
    experiment.dies = False
    laboratory_in(tmp_path).run(experiment)
    with pytest.raises(StoredFileError, match="run of another request: data seed was 0 and is 1; seed was 0 and is 1"):
        laboratory_in(tmp_path, seed=1).run(experiment)


def test_one_that_fails_does_not_stop_the_others(tmp_path):
    good, bad = Counting("good"), Counting("bad")
    good.dies = False
    bad.run = lambda context: 1 / 0
    heard = []
    outcomes = laboratory_in(tmp_path, note=heard.append).run_all([bad, good])
    assert [outcome.error is None for outcome in outcomes] == [False, True]
    assert "ZeroDivisionError" in outcomes[0].error
    assert any("bad failed" in words for words in heard)


def test_without_matplotlib_the_result_is_kept_and_can_be_drawn_later(tmp_path, monkeypatch):
    experiment = Counting()
    experiment.dies = False
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "fastif.integrations.plots.style", None)
        patched.delattr(plots, "style", raising=False)
        with pytest.raises(ConfigurationError, match=r"pip install 'fastif\[plots\]'"):
            laboratory_in(tmp_path).run(experiment)
    assert (tmp_path / "counting/result.json").exists()
    laboratory_in(tmp_path).run(experiment)
    assert experiment.made == [1, 2]


def test_experiments_are_found_by_name():
    assert [experiment.name for experiment in find("all")] == list(EXPERIMENTS)
    with pytest.raises(ConfigurationError, match="choose one of table1, recall"):
        find("table3")

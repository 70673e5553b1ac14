"""Every experiment runs on a GPU too, from data to figures, before it is run there at the paper's size."""

import json
import math
from dataclasses import replace

import pytest

from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.harness import Laboratory
from fastif.paper.scales import settings_for

pytestmark = pytest.mark.gpu

LONG = replace(settings_for("smoke").hvp.solver, depth=24)  # enough steps to be recorded


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory):
    """A laboratory whose solver takes steps that are recorded, and whose training set is repeated as at full."""
    settings = settings_for("smoke")
    changed = replace(
        settings,
        hvp=replace(settings.hvp, depths=(12, 24), solver=LONG),
        table1=replace(settings.table1, examples=200),
        correlations=replace(settings.correlations, fast=LONG),
        amazon=replace(settings.amazon, solver=LONG),
    )
    return Laboratory(tmp_path_factory.mktemp("gpu"), changed, device="cuda")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_on_a_gpu(on_gpu, name):
    outcome = on_gpu.run(EXPERIMENTS[name])
    result = json.loads((outcome.path / "result.json").read_text())
    assert result["device"] == "cuda"
    assert name != "table1" or result["result"]["examples"] == 200
    assert "paper" in outcome.table


def test_runs_that_record_their_steps_have_no_time_and_the_same_errors(on_gpu):
    path = on_gpu.run(EXPERIMENTS["hvp"]).path
    rows = json.loads((path / "result.json").read_text())["result"]["rows"]
    assert all(row["seconds"] is None for row in rows if row["query"] == 0)
    times = [row["seconds"] for row in rows if row["query"] == 1]
    assert any(times)  # None where it drew examples that are longer than any before
    assert all(each is None or each > 0 for each in times)
    assert all(math.isfinite(row["relative_to_converged"]) for row in rows)
    deep = [row["relative_to_converged"] for row in rows if row["J"] == 24]
    assert max(deep) < 0.1  # (1 - damp)^J = 0.08; on a CPU, with the same draws, 0.05 to 0.08

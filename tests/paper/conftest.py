"""A laboratory at the scale of smoke, whose models are trained once for a process, and its results."""

import json

import pytest

from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.harness import Laboratory
from fastif.paper.scales import settings_for


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory):
    return Laboratory(tmp_path_factory.mktemp("paper"), settings_for("smoke"))


@pytest.fixture(scope="session")
def results(laboratory):
    """The results of experiments, each run when it is first asked for."""
    found = {}

    def get(name):
        if name not in found:
            outcome = laboratory.run(EXPERIMENTS[name])
            found[name] = json.loads((outcome.path / "result.json").read_text())
        return found[name]

    return get

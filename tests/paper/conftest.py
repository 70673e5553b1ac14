"""A laboratory at the scale of smoke, whose models are trained once for a process."""

import pytest

from fastif.paper.harness import Laboratory
from fastif.paper.settings import settings_for


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory):
    return Laboratory(tmp_path_factory.mktemp("paper"), settings_for("smoke"))

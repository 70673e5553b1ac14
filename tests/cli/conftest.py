"""What several tests of the command line share."""

from pathlib import Path

import pytest

from tests.cli.explained import explained


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, training data, a model and finished runs of `fastif explain`, not to be written to."""
    return explained(tmp_path_factory.mktemp("explained"))

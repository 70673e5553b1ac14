"""axe-core finds nothing serious, in light and dark, wide and narrow."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import ready

pytestmark = pytest.mark.browser
PACKAGE = "axe-core@4.14.0"
LOUD = "!!! ACCESSIBILITY WAS NOT CHECKED:"


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{LOUD} npm, which fetches {PACKAGE}, is not installed")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError):
        pytest.skip(f"{LOUD} {PACKAGE} could not be fetched from npm")
    (archive,) = Path(folder).glob("*.tgz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


@pytest.mark.parametrize(
    ("width", "scheme", "state"),
    [(1280, "light", ""), (1280, "dark", "#q=1&marks=5~remove"), (390, "light", "#t=5"), (390, "dark", "#q=1")],
)
def test_nothing_serious(page: Any, exported: str, axe: str, width: int, scheme: str, state: str) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    ready(page, exported + state)
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run(document)).violations")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in serious] == []

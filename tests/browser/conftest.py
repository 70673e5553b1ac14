"""Chromium of the system, driven by Playwright, whose own browser is never downloaded; pages without a network."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fastif.web.export import write_export
from fastif.web.payload import make_payload
from fastif.web.source import read_run
from fastif.web.story import Chapter, Example, Examples, Story, Table, Words
from tests.web.runs import EVIL, write_run

PACKAGE = "axe-core@4.14.0"
UNCHECKED = "!!! ACCESSIBILITY WAS NOT CHECKED:"
LOUD = "!!! NO TEST OF THE EXPLORER IN A BROWSER WAS RUN:"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        pytest.skip(f"{LOUD} there is no Chromium here; install it (apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        pytest.skip(f"{LOUD} playwright is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page without a network; a complaint of the page is a failure of the test."""
    settings = {"offline": True, "reduced_motion": "reduce", "accept_downloads": True}
    with opened(browser, viewport={"width": 1280, "height": 800}, **settings) as made:
        yield made


@contextmanager
def opened(browser: Any, *, expected: str | None = None, **settings: Any) -> Iterator[Any]:
    """Open a page; a complaint of the page is a failure of the test, but for those that hold what is expected."""
    context = browser.new_context(**settings)
    made = context.new_page()
    complaints: list[str] = []
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield made
    context.close()
    assert [words for words in complaints if expected is None or expected not in words] == []


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a file with the explorer of an ordinary run, and an audit."""
    return export(tmp_path_factory.mktemp("ordinary"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same with hostile strings in every field."""
    return export(tmp_path_factory.mktemp("hostile"), hostile=True)


def export(folder: Path, *, hostile: bool = False) -> str:
    path = write_run(folder / ("a <b>run" if hostile else "run"), hostile=hostile)
    first = read_run(path).train[5]
    audit = folder / "audit.jsonl"
    evil = EVIL if hostile else ""
    shown = Examples(f"Some{evil}", [Example([f"a text{evil}"], [f"label{evil}"], f"odd{evil}")])
    table = Table(f"Shares{evil}", [["slice", "right"], [f"one{evil}", "12.5%"]], bars=True)
    chapter = Chapter(f"1. First{evil}", f"What was done.{evil}", [shown, table, Words(f"fastif{evil}", code=True)])
    Story(f"A title{evil}", f"A lead.{evil}", [(f"1 of 2{evil}", f"are so{evil}")], [chapter]).write(path)
    suspect = {"line": first["line"], "text": first["text"], "suggested_label": "0", "suggested_probability": 0.9}
    audit.write_text(json.dumps(suspect) + "\n")
    written = write_export(make_payload(read_run(path, audit=audit)), folder / "page.html")
    return written.file.as_uri()


def ready(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_selector("#stage:not([data-drawing])")


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{UNCHECKED} npm, which fetches {PACKAGE}, is not installed")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run([npm, "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError):
        pytest.skip(f"{UNCHECKED} {PACKAGE} could not be fetched from npm")
    (archive,) = Path(folder).glob("*.tgz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def serious(page: Any, axe: str) -> list[Any]:
    """What axe-core calls serious or critical on a page."""
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run(document)).violations")
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in grave]

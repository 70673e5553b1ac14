"""The benchmark of the explorer runs on a small graph in a real browser, and says where there is none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastif
from fastif.bench.explorer import GOALS, Plan, made_up_payload
from fastif.cli.app import run as command

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def test_the_payload_has_the_size_that_was_asked_for() -> None:
    payload = made_up_payload(Plan(40, 60, 300))
    assert len(payload.arrays["edge_value"]) == 300
    assert len(payload.arrays["train_id"]) == 60
    assert len(payload.head["queries"]) == 40


def test_without_a_browser(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command(["bench", "explorer", "--browser", "no-such-browser", "--out", str(tmp_path / "x.json")]) == 2
    assert "apt install chromium" in capfd.readouterr().err


@pytest.mark.browser
def test_the_command_writes_figures_that_the_page_is_made_of(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    if not any(map(shutil.which, BROWSERS)):
        pytest.skip("!!! THE EXPLORER WAS NOT MEASURED IN A BROWSER: there is no Chromium here")
    file = tmp_path / "figures" / "explorer.json"
    size = ["--queries", "40", "--points", "60", "--edges", "300", "--repeats", "1", "--steps", "4"]
    # in a process of its own, as Playwright may be at work in this one
    line = [sys.executable, "-m", "fastif", "bench", "explorer", *size, "--out", str(file), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1])}
    told = json.loads(subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout)
    assert told == json.loads(file.read_text())
    assert all(told[name] for name in GOALS if name != "memory")
    assert command(["bench", "page", "--figures", str(file.parent), "--out", str(tmp_path / "page.md")]) == 0
    assert "The explorer in a browser" in (tmp_path / "page.md").read_text()

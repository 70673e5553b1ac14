"""`fastif serve` in a process of its own, for as long as a test needs it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fastif


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Serve a run, and yield the address."""
    pytest.importorskip("uvicorn")
    line = [sys.executable, "-m", "fastif", "serve", *arguments, "--json"]
    places = {**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1])}
    heard = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(line, env=places, text=True, **heard) as process:
        assert process.stdout is not None
        words = ""
        while not words.endswith("}\n"):
            words += process.stdout.readline()
            assert process.poll() is None, "the server ended before it said its address"
        yield json.loads(words)["url"]
        process.terminate()

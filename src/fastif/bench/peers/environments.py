"""A virtual environment for each library that is compared, made once and used again.

Knows venv and pip, and nothing of what runs there. Where packages come from is pip's own configuration: on Linux an
index of CPU builds of torch (PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu) saves gigabytes.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from fastif.bench.peers.catalogue import SHARED, TORCH, Peer
from fastif.errors import FastifError

SECONDS_TO_INSTALL = 1800


class EnvironmentNotMadeError(FastifError):
    """A library could not be installed; the text ends with what pip said."""


def interpreter(peer: Peer, cache: Path) -> Path:
    """Return the Python that has the library, after installing it where that was not done yet."""
    if peer.requirements is None:
        return Path(sys.executable)
    directory = (cache / f"venv-{peer.name.lower()}").resolve()
    python = directory / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = [TORCH, *SHARED, *peer.requirements]
    stamp = directory / "installed-for-peers"
    contents = hashlib.sha256("\n".join([sys.version, *wanted, *peer.alone]).encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == contents:
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(directory)], peer)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *wanted], peer)
    if peer.alone:
        _run([*pip, "--no-deps", *peer.alone], peer)
    stamp.write_text(contents)
    return python


def _run(line: list[str], peer: Peer) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            line, check=False, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL, env=environment
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentNotMadeError(f"{peer.name} was not installed within {SECONDS_TO_INSTALL} s.") from None
    if done.returncode:
        said = [text for text in (done.stderr or done.stdout).strip().splitlines() if "WARNING" not in text]
        raise EnvironmentNotMadeError(f"{peer.name} could not be installed: {' '.join(said[-2:])[:500]}")

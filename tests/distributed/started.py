"""Start a script in several processes as torchrun does, and see how each of them ended."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]


@dataclass
class Started:
    """Processes of one team."""

    processes: list[subprocess.Popen[str]]

    def wait(self, seconds: float = 120) -> list[tuple[int, str, str]]:
        """Return exit status, stdout and stderr of each; none is left behind."""
        found = []
        try:
            for process in self.processes:
                out, err = process.communicate(timeout=seconds)
                found.append((process.returncode, out, err))
        finally:
            for process in self.processes:
                process.kill()
        return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(ranks: int, *arguments: str, script: Path = SCRIPT) -> Started:
    """Start so many processes, each of one thread."""
    port = free_port()
    common = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks),
    }
    return Started(
        [
            subprocess.Popen(
                [sys.executable, str(script), *arguments],
                env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
    )

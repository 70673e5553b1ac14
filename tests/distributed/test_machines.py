"""Two network namespaces with addresses of their own, as two machines: a run across them, and the link cut."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.started import ROOT, SCRIPT
from tests.distributed.test_faults import finished

pytestmark = pytest.mark.slow
SIDES = ("a", "b")
ASKED: dict[str, Any] = {"case": "mlp_dropout", "solver": "identity", "pause": 0.0}


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@dataclass
class Machines:
    """Two namespaces with a cable between them."""

    tag: str = field(default_factory=lambda: f"fi{os.getpid() % 100_000}")

    def name(self, side: str) -> str:
        return f"{self.tag}{side}"

    def address(self, side: str) -> str:
        return f"10.231.77.{1 + SIDES.index(side)}"

    def make(self) -> None:
        for side in SIDES:
            ip("netns", "add", self.name(side))
        ip("link", "add", self.name("a"), "netns", self.name("a"), "type", "veth",
           "peer", "name", self.name("b"), "netns", self.name("b"))  # fmt: skip
        for side in SIDES:
            self.inside(side, "addr", "add", f"{self.address(side)}/24", "dev", self.name(side))
            for device in ("lo", self.name(side)):
                self.inside(side, "link", "set", device, "up")

    def inside(self, side: str, *words: str) -> None:
        ip("-n", self.name(side), *words)

    def cable(self, state: str) -> None:
        self.inside("a", "link", "set", self.name("a"), state)

    def remove(self) -> None:
        for side in SIDES:
            subprocess.run(["ip", "netns", "del", self.name(side)], capture_output=True, check=False)


@pytest.fixture
def machines() -> Iterator[Machines]:
    if os.geteuid() or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need root, ip and unshare")
    made = Machines()
    try:
        made.make()
    except OSError as error:
        made.remove()
        pytest.skip(f"this kernel gives no network namespaces: {error}")
    yield made
    made.remove()


class Run:
    """torchrun on both machines."""

    def __init__(self, machines: Machines, place: Path, asked: dict[str, Any]) -> None:
        place.mkdir()
        self.files = {side: place / side for side in SIDES}
        self.processes = {}
        for side in SIDES:
            line = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
            line += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{machines.address('a')}:29400"]
            line += ["--rdzv-conf", f"is_host={int(side == 'a')}", "--local-addr", machines.address(side)]
            named = f'hostname machine-{side}; exec "$@"'
            shell = ["ip", "netns", "exec", machines.name(side), "unshare", "--uts", "sh", "-c", named, "sh"]
            environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
            environment["GLOO_SOCKET_IFNAME"] = machines.name(side)
            out, err = (Path(f"{self.files[side]}.{stream}") for stream in ("out", "err"))
            with out.open("w") as stdout, err.open("w") as stderr:
                self.processes[side] = subprocess.Popen(
                    [*shell, sys.executable, *line, str(SCRIPT), json.dumps(asked)],
                    env=environment,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )

    def said(self, side: str, stream: str = "err") -> str:
        return Path(f"{self.files[side]}.{stream}").read_text()

    def result(self) -> dict[str, Any]:
        for side, process in self.processes.items():
            assert process.wait(timeout=200) == 0, self.said(side)
        found: dict[str, Any] = json.loads(self.said("a", "out").strip().splitlines()[-1])
        return found

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()


def until(what: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


def test_a_cut_link_is_named_and_the_rerun_ends_as_it_should(machines: Machines, tmp_path: Path) -> None:
    store = tmp_path / "store"
    asked = {**ASKED, "store": str(store)}
    cut = Run(machines, tmp_path / "cut", {**asked, "pause": 0.5})
    try:
        assert until(lambda: len(finished(store)) >= 3, 120), [cut.said(side) for side in SIDES]
        machines.cable("down")
        named = {"a": "rank 1 (on machine-b)", "b": "rank 0 (machine-a)"}
        for side in SIDES:
            assert until(lambda s=side: named[s] in cut.said(s), 60), cut.said(side)
    finally:
        cut.end()
    kept = {name: (store / "parts" / name).stat().st_mtime_ns for name in finished(store)}
    machines.cable("up")
    again = Run(machines, tmp_path / "again", asked)
    try:
        found = again.result()
    finally:
        again.end()
    assert found["error"] < 1e-9
    assert found["ids"]
    assert {name: (store / "parts" / name).stat().st_mtime_ns for name in kept} == kept

"""Run one method of one library on the shared problem, and write its scores, seconds and memory.

    python measure.py SCRIPT METHOD PROBLEM OUT --threads N --memory BYTES

Runs in the environment of the library, where fastif is not: it needs torch, safetensors and the library alone. SCRIPT
has a table `METHODS` from names to functions, which take a `Given` and return scores (queries, examples) with fastif's
sign: negative helps. What is timed is that function, on a loaded model and data, after it ran once on a tiny problem:
what torch and the library import at first use is not counted.
"""

import argparse
import contextlib
import cProfile
import importlib.metadata
import importlib.util
import itertools
import json
import os
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn


@dataclass
class Given:
    """What a method gets: a trained classifier, its data, a damping, a directory to write in, and a clock."""

    module: nn.Sequential
    train: tuple[Tensor, Tensor]
    queries: tuple[Tensor, Tensor]
    damping: float
    directory: Path
    stages: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return sum(tensor.numel() for tensor in self.module.parameters())

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a part of the work under a name of its own."""
        wall, cpu = time.perf_counter(), cpu_seconds()
        yield
        self.stages[name] = {"seconds": time.perf_counter() - wall, "cpu_seconds": cpu_seconds() - cpu}


def cpu_seconds() -> float:
    """Return what this process and its children have used of the processors."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def held_bytes() -> int:
    """Return the memory that this process holds now, at its peak where the system does not tell more."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells includes what the process had before it became this program
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def load(problem: Path, directory: Path) -> Given:
    """Read a problem."""
    described = json.loads((problem / "problem.json").read_text())
    tensors = load_file(problem / "problem.safetensors")
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(described["widths"]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    module = nn.Sequential(*layers[:-1])
    module.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    train, queries = ((tensors[f"{part}_x"], tensors[f"{part}_y"]) for part in ("train", "query"))
    return Given(module.eval(), train, queries, described["damping"], directory)


def tiny(directory: Path) -> Given:
    """Return a problem of no size, to run a method on once: torch and the libraries import much at first use."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 10)).eval()
    pairs = (
        (torch.rand(count, 64, generator=generator), torch.randint(0, 10, (count,), generator=generator))
        for count in (32, 4)
    )
    return Given(module, *pairs, damping=0.1, directory=directory)


def load_script(path: Path) -> ModuleType:
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location("peer", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def versions(packages: list[str]) -> dict[str, str]:
    """Return the versions of installed packages."""
    found = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def profiled(method, given: Given) -> Tensor:
    """Return the scores, and print the functions in which most of the time is spent, with all that they call."""
    profile = cProfile.Profile()
    scores = profile.runcall(method, given)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    return scores


def main() -> None:
    """Run the method that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("method")
    parser.add_argument("problem", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True, help="bytes of data that the process may hold")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (chosen.memory, chosen.memory))
    peer = load_script(chosen.script)
    method = peer.METHODS[chosen.method]
    with tempfile.TemporaryDirectory() as directory, contextlib.suppress(Exception):
        method(tiny(Path(directory)))  # what fails here fails again below, where it is told
    with tempfile.TemporaryDirectory() as directory:
        given = load(chosen.problem, Path(directory))
        torch.manual_seed(0)
        before = held_bytes()
        wall, cpu = time.perf_counter(), cpu_seconds()
        scores = profiled(method, given) if chosen.profile else method(given)
        seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": cpu_seconds() - cpu}
    measured = {
        **seconds,
        "stages": given.stages,
        "peak_bytes": peak_bytes(),
        "added_bytes": peak_bytes() - before,
        "versions": versions(["torch", "numpy", *peer.PACKAGES]),
        "notes": getattr(peer, "NOTES", {}),
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    save_file({"scores": scores.detach().to("cpu", torch.float64).contiguous()}, chosen.out / "scores.safetensors")
    (chosen.out / "measured.json").write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()

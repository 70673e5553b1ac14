"""Forward-mode scores against the backward loop, and the memory of a long scan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fastif
from fastif import vectors
from fastif.scoring.jvp import scan
from tests import oracles
from tests.problems import CASE_NAMES, case, model_of, relative_error


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("directions", [1, 5, 40])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_a_scan_equals_the_backward_loop(name: str, directions: int, dtype: torch.dtype, tolerance: float) -> None:
    it = case(name, dtype)
    model = model_of(it)
    block = vectors.random(model.parameters, directions, seed=0)
    rows = oracles.per_example_gradients(it.module, it.names, it.loss, it.train)
    seen = scan(model, fastif.Examples(it.train), block, batch_size=7)
    assert seen.dtype == dtype
    assert relative_error(seen, vectors.flatten(block) @ rows.T) < tolerance


def test_a_scan_of_given_ids_keeps_their_order() -> None:
    it = case("mlp_dropout")
    model, data = model_of(it), fastif.Examples(it.train)
    block = vectors.random(model.parameters, 2, seed=0)
    ids = torch.tensor([9, 0, 17, 3])
    torch.testing.assert_close(scan(model, data, block, ids=ids, batch_size=3), scan(model, data, block)[:, ids])


PEAK_MEMORY = """
import resource, sys, torch, fastif
from fastif import vectors
from fastif.scoring import scan

class Endless(torch.utils.data.Dataset):
    def __len__(self): return int(sys.argv[1])
    def __getitem__(self, i):
        return torch.full((200,), (i % 97) / 97), i % 3

torch.set_num_threads(1)
module = torch.nn.Sequential(torch.nn.Linear(200, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
model = fastif.TorchModel(module, loss="cross_entropy")
values = scan(model, fastif.Examples(Endless()), vectors.random(model.parameters, 1, seed=0))
assert values.shape == (1, len(Endless()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_a_scan_of_100000_points_runs_in_flat_memory() -> None:
    """The data alone would be 80 MB; ten times the points may add the 0.4 MB of scores and some slack."""

    def peak_megabytes(points: int) -> float:
        run = subprocess.run(
            [sys.executable, "-c", PEAK_MEMORY, str(points)],
            env={**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(run.stdout) / 1024

    assert peak_megabytes(100_000) < peak_megabytes(10_000) + 10

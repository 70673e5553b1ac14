"""A process that is killed or fails: the others end soon and name it, and what was finished is not done again."""

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fastif
from fastif.scanning import Scanner
from fastif.store import RunStore
from tests.distributed.program import problem
from tests.distributed.started import Started, start

ASKED: dict[str, Any] = {"case": "mlp_dropout", "solver": "identity", "pause": 0.15, "lost": 3.0}


def finished(store: Path) -> set[str]:
    return {file.name for file in (store / "parts").glob("*.safetensors")}


def wait_for(store: Path, pieces: int, team: Started) -> None:
    until = time.monotonic() + 120
    while len(finished(store)) < pieces:
        assert time.monotonic() < until, "no piece was finished"
        assert all(process.poll() is None for process in team.processes), team.wait()
        time.sleep(0.02)


def killed_and_gone_on(store: Path, seed: int) -> dict[str, Any]:
    """Kill one of three at some moment, see the others end, and return what another number of processes ends with."""
    draw = random.Random(seed)
    victim, moment, ranks = draw.randrange(3), draw.randrange(1, 12), draw.choice([1, 2, 3])
    team = start(3, json.dumps({**ASKED, "store": str(store)}))
    wait_for(store, moment, team)
    began = time.monotonic()
    team.processes[victim].kill()
    ended = team.wait(60)
    had_given_all = victim != 0 and ended[0][0] == 0  # so late that nobody missed it
    for rank, (status, _, err) in enumerate(ended):
        if rank != victim and not had_given_all:
            assert status not in (0, None), f"rank {rank} went on"
            assert f"rank {victim}" in err, f"rank {rank} says: {err[-800:]}"
    assert time.monotonic() - began < 60
    kept = finished(store)
    stamps = {name: (store / "parts" / name).stat().st_mtime_ns for name in kept}
    again = {**ASKED, "store": str(store), "pause": 0.0, "lost": 15.0}  # nobody is to be missed here, however slow
    resumed = start(ranks, json.dumps(again)).wait()
    assert all(status == 0 for status, _, _ in resumed), resumed
    assert {name: (store / "parts" / name).stat().st_mtime_ns for name in kept} == stamps  # none was made again
    found: dict[str, Any] = json.loads(resumed[0][1])
    return found


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))])
def test_a_killed_process_is_named_and_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    found = killed_and_gone_on(tmp_path / "run", seed)
    assert found["error"] < 1e-9
    assert found["ids"]


def test_what_several_have_finished_is_found_by_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"case": "mlp_dropout", "solver": "identity", "store": str(tmp_path / "run")}
    ended = start(2, json.dumps(asked)).wait()
    assert all(status == 0 for status, _, _ in ended), ended
    by_several = json.loads(ended[0][1])["values"]
    model, train, queries = problem("mlp_dropout", torch.float64)
    monkeypatch.setattr(Scanner, "_scored", lambda *given, **more: pytest.fail("scores are made again"))
    with RunStore.begin(tmp_path / "run", {"asked": "the same"}) as store:
        explainer = fastif.Explainer(model, train, solver=fastif.Identity(), damping=0.3, keep=store.piece)
        assert explainer.scores(queries).values.sum().item() == pytest.approx(by_several, rel=1e-12)


@pytest.mark.slow
def test_a_part_of_what_was_made_together_is_made_again_to_the_bit(tmp_path: Path) -> None:
    asked = json.dumps({"case": "bert", "dtype": "float32", "solver": "identity", "store": str(tmp_path / "run")})

    def pieces() -> dict[str, list[Any]]:
        ended = start(2, asked).wait()
        assert all(status == 0 for status, _, _ in ended), ended
        files = (tmp_path / "run" / "parts").glob("*.safetensors")
        return {file.name: [tensor.tolist() for tensor in load_file(file).values()] for file in files}

    whole = pieces()
    assert len(whole) >= 4
    for name in sorted(whole)[::2]:
        (tmp_path / "run" / "parts" / name).unlink()
    assert pieces() == whole


@pytest.mark.slow
def test_who_is_gone_after_all_was_done_is_not_missed() -> None:
    asked = {"case": "mlp_dropout", "solver": "identity", "lost": 1.0, "lingers": 4.0}
    (status, out, err), (other, _, _) = start(2, json.dumps(asked)).wait()
    assert (status, other) == (0, 9), err
    assert json.loads(out)["error"] < 1e-9


def test_a_solve_that_diverges_ends_all_processes() -> None:
    ended = start(2, json.dumps({"case": "mlp_dropout", "solver": "diverging"})).wait(60)
    assert all(status not in (0, None) for status, _, _ in ended)
    assert any("LiSSA diverges" in err for _, _, err in ended)


def test_a_process_that_fails_says_why_to_the_others() -> None:
    ended = start(3, json.dumps({**ASKED, "fails": 1})).wait()
    assert all(status != 0 for status, _, _ in ended)
    for rank in (0, 2):
        assert "rank 1" in ended[rank][2]
        assert "No space left on device" in ended[rank][2]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a small disk is mounted by root alone")
def test_a_full_disk_of_one_process_is_named(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        asked = {"case": "bert", "solver": "identity", "small_disk": str(tmp_path)}
        ended = start(2, json.dumps(asked)).wait()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert all(status != 0 for status, _, _ in ended)
    assert "No space left on device" in ended[1][2]
    assert "rank 1" in ended[0][2]
    assert "could not be written" in ended[0][2]

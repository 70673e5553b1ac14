"""Several processes give the numbers of one, whatever their number and however uneven their shares."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fastif.shares import Share
from tests.distributed.started import start

ITERATIVE = {
    "cg",
    "preconditioned",
    "by rows",
}  # to a residual of 1e-10 in float64, and as far as rounding lets them in float32
EVERY: list[dict[str, Any]] = [
    {"case": case, "solver": solver, "curvature": curvature, "damping": 40.0 if case == "bert" else 0.3}
    for case in ("mlp_dropout", "bert")  # the Hessian of the second has an eigenvalue of -24
    for solver, curvature in (
        ("identity", "gauss-newton"),
        ("cg", "gauss-newton"),
        ("cg", "hessian"),
        ("preconditioned", "gauss-newton"),
        ("paper", "hessian"),
        ("paper", "gauss-newton"),
        ("lissa", "gauss-newton"),
        ("woodbury", "gauss-newton"),
        ("longest rows", "gauss-newton"),
        ("by rows", "hessian"),
    )
]
PAPER = {"case": "bert", "solver": "paper", "curvature": "hessian", "damping": 40.0}
SOME = [PAPER, {"case": "bert", "solver": "woodbury", "nearest": "features"}]  # conjugate gradients: with weight decay


def compared(ranks: int, **asked: Any) -> dict[str, Any]:
    ended = start(ranks, json.dumps(asked)).wait()
    for rank, (status, _, err) in enumerate(ended):
        assert status == 0, f"rank {rank}: {err}"
    found: dict[str, Any] = json.loads(ended[0][1])
    assert found["ids"]
    return found


@pytest.mark.parametrize("asked", SOME, ids=str)
def test_two_processes_give_the_scores_of_one(asked: dict[str, Any]) -> None:
    assert compared(2, **asked)["error"] < 1e-9


@pytest.mark.slow
def test_the_strongest_alone_are_those_of_one_process() -> None:
    assert compared(2, case="mlp_dropout", solver="cg", top=1)["error"] < 1e-9


@pytest.mark.parametrize("top", [None, pytest.param(1, marks=pytest.mark.slow)])
def test_weight_decay_in_everything_is_counted_once(top: int | None) -> None:
    assert compared(2, case="mlp_dropout", solver="cg", decay=0.2, top=top)["error"] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("asked", EVERY, ids=str)
def test_any_number_of_processes_gives_the_scores_of_one(asked: dict[str, Any], ranks: int) -> None:
    assert compared(ranks, **asked)["error"] < 1e-9
    bound = 1e-4 if asked["solver"] in ITERATIVE else 1e-5
    assert compared(ranks, dtype="float32", **asked)["error"] < bound


@pytest.mark.slow
@pytest.mark.parametrize("by", ["features", "head-gradient"])
def test_candidates_of_a_team(by: str) -> None:
    assert compared(3, case="bert", solver="identity", nearest=by)["error"] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "ranks"),
    [("features", 2), ("head-gradient", 1), ("head-gradient", 2), ("head-gradient", 3)],
)
def test_an_index_of_which_each_process_holds_a_part(by: str, ranks: int, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    asked: dict[str, Any] = {"case": "bert", "solver": "identity", "nearest": by, "shards": str(tmp_path / "index")}
    assert compared(ranks, **asked)["error"] < 1e-9
    parts = [tmp_path / "index" / f"part-{rank}-of-{ranks}" for rank in range(ranks)]
    held = [json.loads((part / "manifest.json").read_text())["counts"] for part in parts]
    assert sum(map(sum, held)) == 30
    if ranks > 1:
        assert max(map(sum, held)) < 30
    stamps = [file.stat().st_mtime_ns for file in sorted(tmp_path.rglob("*.index"))]
    assert compared(ranks, **asked)["error"] < 1e-9
    assert [file.stat().st_mtime_ns for file in sorted(tmp_path.rglob("*.index"))] == stamps  # found again


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("solver", ["identity", "cg", "paper"])
def test_a_team_of_one_gpu_gives_the_scores_of_one_process(solver: str) -> None:
    found = compared(1, case="bert", solver=solver, device="cuda")
    assert found["error"] < 1e-9
    assert found["sent"]


def test_a_process_may_have_nothing_to_do() -> None:
    assert compared(4, case="mlp_dropout", solver="cg", few=3)["error"] < 1e-9


def test_the_papers_solver_takes_one_all_reduce_for_a_query() -> None:
    found = compared(3, case="mlp_dropout", solver="paper", curvature="hessian")
    queries, repeats, number = 4, 3, 8  # bytes of a number
    sums = {kind: it for kind, it in found["sent"].items() if "all-reduce" in kind}
    assert sums == {"repeats: all-reduce": [1, repeats * queries * found["parameters"] * number]}
    assert found["sent"]["repeats: broadcast"] == [1, queries * found["parameters"] * number]


@pytest.mark.parametrize(("total", "ranks"), [(1, 1), (5, 2), (64, 3), (1000, 4), (100_000, 7)])
def test_shares_are_disjoint_and_complete(total: int, ranks: int) -> None:
    shares = [Share(rank, ranks, total) for rank in range(ranks)]
    everyone = torch.arange(total)
    assert torch.equal(torch.cat([share.of(everyone) for share in shares]).sort().values, everyone)
    chunks = list(shares[0].chunks(everyone))
    assert torch.equal(torch.cat([positions for _, positions in chunks]), everyone)
    for owner, positions in chunks:
        assert torch.equal(shares[owner].of(positions), positions)


def test_chunks_do_not_depend_on_the_number_of_processes() -> None:
    ids = torch.arange(0, 5000, 3)
    cut = [[positions.tolist() for _, positions in Share(0, ranks, 5000).chunks(ids)] for ranks in (1, 2, 5)]
    assert cut[0] == cut[1] == cut[2]

"""The runner with libraries that are made up here, each in a real process of its own."""

import json
from pathlib import Path

import pytest
import torch

from fastif.bench.peers import run as compare
from fastif.bench.peers import section, table
from fastif.bench.peers.catalogue import PEERS, SCRIPTS, Method, Peer
from fastif.bench.peers.comparison import compared, peer_rows
from fastif.bench.peers.environments import interpreter
from fastif.bench.peers.problem import read_exact, write_problem
from fastif.bench.peers.report import behind
from fastif.errors import ConfigurationError

LIBRARY = """
import time
import torch

PACKAGES = []


def dot(given):
    with given.stage("gradients"):
        def gradients(pair):
            rows = []
            for x, y in zip(*pair):
                loss = torch.nn.functional.cross_entropy(given.module(x[None]), y[None])
                slopes = torch.autograd.grad(loss, list(given.module.parameters()))
                rows.append(torch.cat([slope.reshape(-1) for slope in slopes]))
            return torch.stack(rows)
        return -gradients(given.queries) @ gradients(given.train).T


def fail(given):
    raise RuntimeError("this library has lost its way")


def eat(given):
    return torch.zeros(10**12)


METHODS = {
    "dot": dot,
    "fails": fail,
    "eats": eat,
    "sleeps": lambda given: time.sleep(600),
    "other shape": lambda given: torch.ones(2, 2),
    "not finite": lambda given: dot(given) / 0,
}
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("problem")
    write_problem(directory, 30, 3, widths=(64, 5, 10))
    return directory


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.bench.peers.comparison.REPEATS", 1)


def library(directory: Path, *methods: str) -> Peer:
    script = directory / "made_up.py"
    script.write_text(LIBRARY)
    return Peer("made up", script, None, tuple(Method(name, "gradients alone", "nothing") for name in methods))


def test_a_method_that_works_gives_seconds_memory_and_correlations(
    problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastif.bench.peers.comparison.REPEATS", 2)
    (row,) = peer_rows(library(tmp_path, "dot"), tmp_path, problem, threads=1)
    assert "failed" not in row
    assert row["seconds"] > 0
    assert row["cpu_seconds"] > 0
    assert row["stages"]["gradients"]["seconds"] <= row["seconds"]
    assert row["peak_bytes"] >= row["added_bytes"] >= 0
    assert 0 < row["pearson_ggn"] < 1
    assert row["runs"] == 2
    assert row["versions"]["torch"] == torch.__version__
    json.dumps(row)


def test_a_method_that_fails_is_a_row_that_says_why_and_the_next_one_runs(problem: Path, tmp_path: Path) -> None:
    wanted = library(tmp_path, "fails", "other shape", "not finite", "eats")
    rows = {row["method"]: row for row in peer_rows(wanted, tmp_path, problem, threads=1)}
    assert rows["fails"]["failed"] == "RuntimeError: this library has lost its way"
    assert rows["other shape"]["failed"] == "gave scores of shape (2, 2) instead of (3, 30)"
    assert rows["not finite"]["failed"] == "gave scores that are not finite for 3 of 3 queries"
    assert "more than the 6 GiB allowed" in rows["eats"]["failed"]


def test_a_method_that_takes_too_long_is_stopped(
    problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastif.bench.peers.comparison.SECONDS_ALLOWED", 1.0)
    (row,) = peer_rows(library(tmp_path, "sleeps"), tmp_path, problem, threads=1)
    assert row["failed"] == "not done within 1 s"


def test_a_library_that_cannot_be_installed_is_rows_that_say_why(
    problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    unknown = Peer("Nobody", SCRIPTS / "none.py", ("no-such-package-of-anyone==1",), (Method("all", "its own", ""),))
    (row,) = peer_rows(unknown, tmp_path, problem, threads=1)
    assert row["failed"].startswith("Nobody could not be installed")


def test_fastif_itself_is_measured_as_the_others_are(problem: Path, tmp_path: Path) -> None:
    (fastif_peer,) = [peer for peer in PEERS if peer.requirements is None]
    method = next(method for method in fastif_peer.methods if method.name == "ConjugateGradient, preconditioned")
    peer = Peer("fastif", fastif_peer.script, None, (method,))
    (row,) = peer_rows(peer, tmp_path, problem, threads=1)
    assert row["pearson_ggn"] > 0.9999


def test_exact_scores_correlate_perfectly_and_constant_ones_not_at_all(problem: Path) -> None:
    exact = read_exact(problem)
    assert compared(2 * exact["ggn"], exact)["pearson_ggn"] == pytest.approx(1)
    nothing = compared(torch.zeros_like(exact["ggn"]), exact)
    assert nothing["pearson_ggn"] == 0
    assert nothing["constant_queries"] == 3


def test_an_unknown_library_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Those that can run are fastif, Kronfluence"):
        compare(tmp_path, only=["nobody"], examples=20, queries=2)


def made_row(library: str, method: str, cpu: float, pearson: float) -> dict[str, object]:
    figures = {"cpu_seconds": cpu, "seconds": cpu, "added_bytes": 10**7, "peak_bytes": 10**8}
    quality = {"pearson_ggn": pearson, "pearson_hessian": pearson - 0.01}
    words = {"definition": "Gauss-Newton", "given": "the damping", "versions": {"torch": "2"}}
    return {"library": library, "method": method, **figures, **quality, **words}


def made_result(*rows: dict[str, object]) -> dict[str, object]:
    problem = {"widths": [64, 5, 10], "parameters": 385, "examples": 30, "queries": 3, "damping": 0.1}
    problem |= {"train_accuracy": 1.0, "query_accuracy": 0.9, "gauss_newton_largest": 10.0}
    problem |= {"damped_hessian_is_positive_definite": True}
    limits = {"threads": 1, "seconds_allowed": 900.0, "bytes_allowed": 6 * 2**30}
    words = {"hardware": "a CPU", "fastif": "1", "remarks": {"A": "nothing to say"}}
    return {"rows": list(rows), "problem": problem, **limits, **words}


def test_the_section_says_where_fastif_is_behind() -> None:
    result = made_result(
        made_row("fastif", "auto", 5.0, 1.0),
        made_row("fastif", "Identity", 0.1, 0.4),
        made_row("A", "slow and good", 50.0, 0.99),
        made_row("A", "quick", 1.0, 0.9),
        {"library": "B", "method": "x", "failed": "no wheel", "definition": "its own", "given": "nothing"},
    )
    assert behind(result) == ["A quick"]
    page = section(result)
    assert "ahead of 1 of 2 methods, and behind 1: A quick." in page
    assert "- B, x: no wheel." in table(result)
    assert "10.0x" in page


def test_a_little_less_correlation_is_not_as_good() -> None:
    ours, theirs = made_row("fastif", "loose", 1.0, 0.999), made_row("A", "exact", 50.0, 1.0)
    assert behind(made_result(ours, theirs)) == ["A exact"]
    assert behind(made_result(ours, theirs, made_row("fastif", "exact", 5.0, 1.0))) == []


def test_a_method_of_the_hessian_is_judged_by_the_hessian() -> None:
    ours = made_row("fastif", "auto", 1.0, 1.0)  # 0.99 by the Hessian
    theirs = made_row("A", "Hessian", 50.0, 0.9) | {"definition": "Hessian", "pearson_hessian": 1.0}
    assert behind(made_result(ours, theirs)) == ["A Hessian"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_environment_of_its_own_is_made_and_used_again(problem: Path, tmp_path: Path) -> None:
    peer = next(peer for peer in PEERS if peer.name == "TRAK")
    python = interpreter(peer, tmp_path)
    made = python.stat().st_mtime_ns
    assert interpreter(peer, tmp_path).stat().st_mtime_ns == made
    row = peer_rows(peer, tmp_path, problem, threads=1)[1]
    assert "failed" not in row

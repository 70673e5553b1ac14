"""The benchmarks of speed on a tiny model: figures that make a table."""

import json

import pytest

from fastif.bench import paper, queries, scan, solve
from fastif.bench.cases import Wanted, make_case
from fastif.measuring.engine import Settings


@pytest.fixture(scope="module")
def case():
    return make_case("tiny", Wanted(examples=24))


def test_scan(case):
    plan = scan.Plan(queries=(1, 2), sample=4, reference=24, uncached=10)
    result = json.loads(json.dumps(scan.run(case, Settings(), plan), allow_nan=False))
    assert [row["queries"] for row in result["rows"]] == [1, 2]
    assert max(row["difference_to_naive"] for row in result["rows"]) < 1e-4
    assert min(check["pearson"] for check in result["fidelity"].values()) > 0.99999
    assert result["fidelity"]["same_states"]["examples"] == 24
    assert result["prefix"]["tokens"] == case.tokens
    assert "naive (extrapolated)" in scan.table(result)


def test_solve(case):
    plan = solve.Plan(queries=(1, 2), depth=2, products=1, rank=2)
    result = json.loads(json.dumps(solve.run(case, Settings(), plan), allow_nan=False))
    by_name = {(row["solver"], row["queries"]): row for row in result["rows"]}
    assert by_name["automatic", 2]["residual"] < 1e-2
    assert by_name["conjugate gradients", 1]["residual"] <= plan.tolerance
    assert [row["solver"] for row in result["rows"] if row["extrapolated"]] == [
        "LiSSA, step from the spectrum, B = 16, T = 4",
        "LiSSA of the paper, B = 1, T = 4",
    ]
    assert len(result["naive"]) == 2
    assert "prepare, once" in solve.table(result)


def test_queries(case):
    plan = queries.Plan(queries=(1, 2), sample=4, nearest=24)
    result = json.loads(json.dumps(queries.run(case, Settings(), plan), allow_nan=False))
    every, near = result["rows"][:2], result["rows"][2:]
    assert {row["way"] for row in every} == {"all examples"}
    assert [row["recall_10"] for row in near] == [1.0, 1.0]  # all of them were candidates
    assert result["queries_line"]["queries"] == [1, 2]
    assert len(result["examples_line"]["examples"]) == 4
    assert "R^2" in queries.table(result)


def test_paper(case):
    plan = paper.Plan(queries=1, depth=2, sample=4, kinds=("fast",))
    result = json.loads(json.dumps(paper.run(case, Settings(), plan), allow_nan=False))
    assert [row["k"] for row in result["rows"]] == [None, 10_000, 1000]
    assert all(row["extrapolated"] and row["seconds"] > 0 for row in result["rows"])
    assert "1.46 min" in paper.table(result)

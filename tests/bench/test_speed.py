"""The benchmarks of speed on a tiny model: baselines compute the same numbers, and figures make a table."""

import json

import pytest
import torch

from fastif import vectors
from fastif.bench import paper, queries, scan, solve
from fastif.bench.cases import Wanted, make_case
from fastif.bench.timing import command_line
from fastif.curvature import CurvatureOperator
from fastif.measuring.baselines import Naive, batched_scores
from fastif.measuring.engine import Given, Settings, SharedCache, Stopwatch, explainer_for
from fastif.measuring.timing import commit, environment
from fastif.scoring import jvp


@pytest.fixture(scope="module")
def case():
    return make_case("tiny", Wanted(examples=24))


@pytest.fixture(scope="module")
def direction(case):
    return vectors.random(case.model.parameters, 2, seed=0)


def first(block):
    return {name: tensor[0] for name, tensor in block.items()}


def as_matrix(vector):
    return torch.cat([tensor.flatten() for tensor in vector.values()])


@pytest.mark.parametrize("name", ["tiny", "cnn"])
def test_baselines_give_the_scores_that_forward_mode_gives(name):
    small = make_case(name, Wanted(examples=12))
    block = vectors.random(small.model.parameters, 2, seed=0)
    ids = torch.tensor([3, 0, 7])
    truth = jvp.scan(small.model, small.train, block, ids=ids)
    before = [parameter.requires_grad for parameter in small.model.module.parameters()]
    _, naive = Naive(small).scores(ids, first(block))
    _, batched, way = batched_scores(small, block, ids)
    assert torch.allclose(naive, truth[0], rtol=1e-3, atol=1e-5)
    assert torch.allclose(batched, truth, rtol=1e-3, atol=1e-5)
    assert way == ("vmap(grad)" if name == "cnn" else "gradients made from captured layers")
    assert before == [parameter.requires_grad for parameter in small.model.module.parameters()]


def test_the_naive_product_is_that_of_the_hessian(case, direction):
    ids = torch.tensor([1, 4])
    _, product = Naive(case).product(ids, first(direction))
    operator = CurvatureOperator(case.model, case.train, kind="hessian", ids=ids)
    truth = operator({name: tensor[:1] for name, tensor in direction.items()})
    difference = as_matrix(product) - as_matrix(first({name: truth[name] for name in product}))
    assert difference.norm() < 1e-3 * as_matrix(product).norm()


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


def test_states_are_made_once_for_several_explainers(case, direction):
    cache, watch = SharedCache(), Stopwatch()
    for _ in range(2):
        watch.seconds.clear()
        explainer_for(case, Settings(), cache, solver=Given(direction), progress=watch).scores(case.first(2))
    assert watch.of("encoding the frozen layers") is None
    assert watch.of("scoring") > 0


def test_the_environment_says_what_figures_depend_on(monkeypatch, tmp_path):
    where = environment("cpu")
    assert {"hardware", "threads", "python", "torch", "fastif", "commit"} <= set(where)
    monkeypatch.setattr("fastif.__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setenv("FASTIF_COMMIT", "abc")
    assert commit() == "abc"
    monkeypatch.setattr("sys.argv", ["/somewhere/fastif", "bench", "scan"])
    assert command_line() == "fastif bench scan"

"""Plain torch as a baseline computes the same numbers; states are made once; figures say what they depend on."""

import pytest
import torch

from fastif import vectors
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

import json

import pytest
import torch

from fastif.bench.peers.problem import exact_scores, make_problem, read_exact, write_problem
from tests import oracles

WIDTHS = (64, 5, 10)


@pytest.fixture(scope="module")
def problem():
    return make_problem(60, 4, widths=WIDTHS)


@pytest.fixture(scope="module")
def exact(problem):
    return exact_scores(problem)


def test_the_same_problem_is_made_every_time(problem):
    again = make_problem(60, 4, widths=WIDTHS)
    for mine, other in zip((*problem.train, *problem.queries), (*again.train, *again.queries), strict=True):
        assert torch.equal(mine, other)
    for name, tensor in problem.module.state_dict().items():
        assert torch.equal(tensor, again.module.state_dict()[name])


def test_making_a_problem_leaves_the_global_generator_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    make_problem(20, 2, widths=WIDTHS)
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize(("kind", "dense"), [("ggn", oracles.dense_ggn), ("hessian", oracles.dense_hessian)])
def test_exact_scores_are_those_of_the_oracle(problem, exact, kind, dense):
    scores, facts = exact
    module = make_problem(60, 4, widths=WIDTHS).module.double()
    names = [name for name, _ in module.named_parameters()]
    train, queries = ((x.double(), y) for x, y in (problem.train, problem.queries))
    gradients = [oracles.per_example_gradients(module, names, "cross_entropy", pair) for pair in (queries, train)]
    matrix = dense(module, names, "cross_entropy", train)
    expected = oracles.influence(gradients[0], matrix, gradients[1], facts["damping"])
    assert torch.allclose(scores[kind], expected, rtol=1e-8, atol=1e-8 * float(expected.abs().max()))


def test_the_damping_is_a_share_of_the_largest_eigenvalue(problem, exact):
    module = make_problem(60, 4, widths=WIDTHS).module.double()
    names = [name for name, _ in module.named_parameters()]
    matrix = oracles.dense_ggn(module, names, "cross_entropy", (problem.train[0].double(), problem.train[1]))
    assert exact[1]["damping"] == pytest.approx(0.01 * float(torch.linalg.eigvalsh(matrix)[-1]), rel=1e-4)


def test_a_problem_on_disk_is_used_again_and_made_anew_for_other_numbers(tmp_path):
    first = write_problem(tmp_path, 30, 3, widths=WIDTHS)
    written = (tmp_path / "exact.safetensors").stat().st_mtime_ns
    assert write_problem(tmp_path, 30, 3, widths=WIDTHS) == first == json.loads((tmp_path / "problem.json").read_text())
    assert (tmp_path / "exact.safetensors").stat().st_mtime_ns == written
    write_problem(tmp_path, 20, 2, widths=WIDTHS)
    assert read_exact(tmp_path)["ggn"].shape == (2, 20)


def test_more_digits_than_there_are_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="1797 digits"):
        make_problem(1797, 1)

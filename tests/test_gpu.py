"""A CUDA device gives the numbers of the CPU, and is left as it was."""

import copy

import pytest
import torch

import fastif
from tests.problems import CASE_NAMES, CURVATURES, case, relative_error

pytestmark = pytest.mark.gpu

SOLVERS = {"exact": fastif.Exact(), "cg": fastif.ConjugateGradient(tolerance=1e-9)}
DRAWING = {"lissa": fastif.LiSSA(depth=30, repeats=3, batch_size=4, scale=50.0), "paper": fastif.LiSSA.paper(depth=30)}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_float64_scores_agree_with_the_cpu(name: str, curvature: str, solver: str) -> None:
    it = case(name)
    options = {"curvature": curvature, "solver": SOLVERS[solver], "batch_size": 13}
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    expected = fastif.Explainer(model, it.train, **options)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    seen = fastif.Explainer(moved, it.train, damping=expected.damping.value, **options)
    assert seen.scores(it.queries).values.device.type == "cpu"
    assert relative_error(seen.scores(it.queries).values, expected.scores(it.queries).values) < 1e-6
    assert seen.damping.top_eigenvalue == pytest.approx(expected.damping.top_eigenvalue, rel=1e-6)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_float32_scores_agree_with_the_cpu(name: str) -> None:
    it = case(name, torch.float32)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    expected = fastif.Explainer(model, it.train, damping=0.03).scores(it.queries).values
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    for train in (it.train, tuple(column.cuda() for column in it.train)):
        seen = fastif.Explainer(moved, train, damping=0.03).scores(it.queries).values
        assert relative_error(seen, expected) < 1e-3


def test_self_influence_and_the_random_state_of_the_device() -> None:
    it = case("transformer")
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    before = torch.cuda.get_rng_state()
    seen = fastif.Explainer(moved, it.train, damping=0.03).self_influence()
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert relative_error(seen, fastif.Explainer(model, it.train, damping=0.03).self_influence()) < 1e-8


@pytest.mark.parametrize("solver", DRAWING)
@pytest.mark.parametrize("name", ["mlp_dropout", "transformer"])
def test_random_draws_are_those_of_the_cpu(name: str, solver: str) -> None:
    it = case(name)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    seen, expected = (
        fastif.Explainer(each, it.train, damping=0.5, solver=DRAWING[solver]).scores(it.queries).values
        for each in (moved, model)
    )
    assert relative_error(seen, expected) < 1e-8


def test_lanczos_and_padded_embeddings() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Flatten(), torch.nn.Tanh(), torch.nn.Linear(20, 3)
    ).double()
    data = (torch.randint(0, 9, (30, 5)), torch.randint(0, 3, (30,)))
    for solver in (fastif.Lanczos(rank=40, tolerance=1e-9), fastif.Exact()):
        seen, expected = (
            fastif.Explainer(fastif.TorchModel(each, loss="cross_entropy"), data, damping=0.1, solver=solver)
            for each in (copy.deepcopy(module).cuda(), module)
        )
        assert relative_error(seen.scores(data).values, expected.scores(data).values) < 1e-6
        assert relative_error(seen.self_influence(), expected.self_influence()) < 1e-6

"""A CUDA device gives the numbers of the CPU, and is left as it was."""

import copy

import pytest
import torch

import fastif
from tests.problems import CASE_NAMES, CURVATURES, case, relative_error

pytestmark = pytest.mark.gpu

SOLVERS = {"exact": fastif.Exact(), "cg": fastif.ConjugateGradient(tolerance=1e-9)}


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

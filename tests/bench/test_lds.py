"""The measurement of the linear datamodeling score, on settings that take seconds."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from fastif.bench.lds.__main__ import main
from fastif.bench.lds.measure import measure
from fastif.bench.lds.retraining import half_subsets, member, retrain
from fastif.bench.lds.rules import Facts, of_default, of_dimension, of_learning_time, of_top, of_trace
from fastif.bench.lds.settings import SETTINGS, Pair, Recipe, Regressor, Setting, split
from fastif.bench.lds.statistics import ceiling, share_of_best
from fastif.spectrum import Spectrum


def noisy_plane(examples: int = 400, features: int = 8) -> tuple[Pair, Pair]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples + 20, features, generator=generator, dtype=torch.float64)
    x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    plane = torch.randn(features + 1, generator=generator, dtype=torch.float64)
    y = x @ plane + torch.randn(len(x), generator=generator, dtype=torch.float64)
    return split(x, y, examples, 20)


def linear_model() -> nn.Module:
    return nn.Sequential(nn.Linear(9, 1, bias=False), nn.Flatten(0))


RIDGE = Setting("plane", linear_model, "mse_loss", noisy_plane, Recipe("sgd", lr=0.02, epochs=20, batch_size=100))
SMALL = Setting(
    "small", lambda: Regressor(9), "mse_loss", noisy_plane, Recipe("adam", lr=0.01, epochs=4, batch_size=32)
)


def train_alone(setting: Setting, train: Pair, mask: torch.Tensor, seed: int) -> nn.Module:
    """Train one module in a plain loop, on batches that hold the subset's examples and no others."""
    torch.manual_seed(seed)
    module = setting.module().double()
    recipe = setting.recipe
    optimizer: torch.optim.Optimizer = torch.optim.SGD(module.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    if recipe.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), lr=recipe.lr)
    generator = torch.Generator().manual_seed(seed)
    batches = [
        rows
        for _ in range(recipe.epochs)
        for rows in torch.randperm(len(mask), generator=generator).split(recipe.batch_size)
    ]
    for step, rows in enumerate(batches):
        kept = rows[mask[rows]]
        optimizer.param_groups[0]["lr"] = recipe.lr * (1 - step / len(batches))
        optimizer.zero_grad()
        getattr(nn.functional, setting.loss)(module(train[0][kept]), train[1][kept]).backward()
        optimizer.step()
    return module


@pytest.mark.parametrize("setting", [SMALL, RIDGE], ids=["adam", "sgd"])
def test_models_trained_together_equal_models_trained_alone(setting: Setting) -> None:
    train, _ = setting.data()
    masks = half_subsets(len(train[1]), 3)
    stack = retrain(setting, train, masks, seed=5)
    for index, mask in enumerate(masks):
        alone = dict(train_alone(setting, train, mask, seed=5).named_parameters())
        for name, tensor in member(setting, stack, index).named_parameters():
            torch.testing.assert_close(tensor, alone[name], rtol=1e-5, atol=1e-5)


def test_a_subset_is_a_half_and_no_two_are_alike() -> None:
    masks = half_subsets(31, 10)
    assert masks.sum(dim=1).tolist() == [15] * 10
    assert len(masks.unique(dim=0)) == 10


def test_influence_predicts_the_retraining_of_a_linear_model() -> None:
    result = measure(RIDGE, subsets=30, seeds=2)
    assert result["best_lds"] > 0.9
    assert result["ceiling"]["split_half"] > 0.9
    assert all(rule["low"] <= rule["share_of_best"] <= rule["high"] for rule in result["rules"])


def test_the_command_writes_all_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SETTINGS, "plane", RIDGE)
    main(["--setting", "plane", "--subsets", "8", "--seeds", "2", "--out", str(tmp_path)])
    written = json.loads((tmp_path / "lds.json").read_text())
    (setting,) = written["settings"]
    assert {"hardware", "torch", "fastif"} <= set(written)
    assert len(setting["lds"]) == len(setting["lds_interval"]) == len(setting["fractions_of_top"])
    assert (tmp_path / "lds.png").stat().st_size > 0
    assert "| 0.5 % of top |" in capsys.readouterr().out


def test_rules_hold_what_they_promise() -> None:
    values = torch.logspace(-4, 1, 50, dtype=torch.float64)
    spectrum = Spectrum(values, torch.ones(50), exact=True)
    facts = Facts(spectrum, parameters=50, examples=10, rank=500, learning_time=None)
    assert of_top(0.005)(facts) == pytest.approx(0.05)
    assert spectrum.effective_dimension(of_dimension(0.02)(facts)) == pytest.approx(10)
    damping = of_trace(0.1)(facts)
    assert damping * spectrum.effective_dimension(damping) == pytest.approx(0.1 * spectrum.trace)
    assert of_default(facts) == pytest.approx((of_top(0.005)(facts) * of_dimension(0.045)(facts)) ** 0.5)
    assert of_learning_time(facts) is None


def test_statistics_on_cases_known_by_hand() -> None:
    grid = torch.tensor([[0.5, 0.5, 0.5], [0.8, 0.8, 0.8]], dtype=torch.float64)
    assert share_of_best(grid[0], grid) == pytest.approx({"share_of_best": 0.625, "low": 0.625, "high": 0.625})
    same = torch.randn(1, 4, 9, generator=torch.Generator().manual_seed(0)).expand(4, 4, 9)
    assert ceiling(same) == pytest.approx({"split_half": 1.0, "spearman_brown": 1.0})
    assert ceiling(same[:1]) is None

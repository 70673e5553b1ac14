"""Ranking a pool: against dense formulas, with the curvature of the data that was trained on."""

import pytest
import torch

import fastif
from fastif.apps.augmentation import rank_pool
from fastif.errors import ConfigurationError
from tests import oracles
from tests.apps.iteration.problem import ANCHORS, NAMES, losses
from tests.apps.test_correction import FEATURES, TRAIN, fit, pairs

POOL = pairs(60, [row % 3 == 0 for row in range(60)], 21)


@pytest.mark.parametrize("effect", ["finetune-step", "retrain"])
def test_scores_are_the_formula_with_curvature_over_the_training_data(effect: str) -> None:
    module = fit(TRAIN)
    gradients = oracles.per_example_gradients(module, NAMES, losses, POOL)
    anchor = oracles.per_example_gradients(module, NAMES, losses, ANCHORS).mean(dim=0)
    if effect == "retrain":
        curvature = oracles.dense_ggn(module, NAMES, losses, TRAIN) + 0.05 * torch.eye(2 * FEATURES).double()
        anchor = torch.linalg.solve(curvature, anchor)
    expected = -(gradients @ anchor)
    model = fastif.TorchModel(module, loss="cross_entropy")
    ranked = rank_pool(
        model,
        POOL,
        anchors=ANCHORS,
        trained_on=TRAIN,
        effect=effect,
        options={"damping": 0.05},  # type: ignore[arg-type]
    )
    torch.testing.assert_close(ranked.scores, expected)
    best = ranked.best(7)
    assert best.ids.tolist() == expected.argsort()[:7].tolist()
    assert ranked.helpful == int((expected < 0).sum())
    assert len(ranked.best(60).ids) == ranked.helpful  # those that harm are never chosen
    assert ("gradient dot product" in ranked.how) == (effect == "finetune-step")


def test_an_effect_that_there_is_not() -> None:
    model = fastif.TorchModel(fit(TRAIN), loss="cross_entropy")
    with pytest.raises(ConfigurationError, match="'finetune-step' or 'retrain'"):
        rank_pool(model, POOL, anchors=ANCHORS, trained_on=TRAIN, effect="random")  # type: ignore[arg-type]

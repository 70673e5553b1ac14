"""Simulatability: what the simulator is trained on, what a step does to it, and on which examples it helps."""

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.apps.simulatability import Simulation, log_rates
from fastif.apps.training_recipe import TrainingRecipe
from fastif.errors import ConfigurationError, ConvergenceError, DataError
from fastif.prefix import PrefixCache
from tests.apps.test_retraining import CONVERGED, DECAY, blobs, logistic
from tests.apps.test_stack import data, network

TRAIN, QUERIES = blobs(150, 0), blobs(30, 1)
SHORT = TrainingRecipe(epochs=2, batch_size=8, learning_rate=1e-2)
Data = tuple[Tensor, Tensor]


def scores_of(model: fastif.TorchModel, train: Data, queries: Data) -> fastif.Scores:
    return fastif.Explainer(model, train, damping=0.01).scores(queries)


@pytest.fixture(scope="module")
def model() -> fastif.TorchModel:
    return logistic(TRAIN)


def test_influential_examples_tell_what_the_model_will_say(model: fastif.TorchModel) -> None:
    scores = fastif.Explainer(model, TRAIN, damping=0.0, weight_decay=DECAY).scores(QUERIES)
    done = Simulation(model, TRAIN, queries=QUERIES, recipe=CONVERGED).run(scores, rates=log_rates(1e-3, 1e-1, 5))
    assert done.losses.shape == (30, 5, 10, 5)
    assert done.kinds == ("helpful", "harmful", "random, 0", "random, 1", "random, 2")
    assert done.train_agreement > 0.95
    by_group = {found["group"]: found["over_all_rates"] for found in done.by_group()}
    assert by_group["right"]["helpful"] < 0 < by_group["right"]["harmful"]
    assert by_group["wrong"]["harmful"] < 0 < by_group["wrong"]["helpful"]
    for group, kind in (("right", "helpful"), ("wrong", "harmful")):
        assert by_group[group][kind] == min(by_group[group].values())
    assert sum(found["best"][kind] for found, kind in zip(done.by_group(), ("helpful", "harmful"), strict=True)) >= 24
    words = " ".join(done.in_words())
    assert "The paper expects helpful examples to lower it most there" in words
    assert "The paper expects harmful" in words
    told = done.as_json()
    json.dumps(told, allow_nan=False)
    curve = told["queries"][0]["changes"]["helpful"]
    assert all(
        low <= mean <= high for low, mean, high in zip(curve["lowest"], curve["mean"], curve["highest"], strict=True)
    )


@pytest.mark.parametrize("labels", ["true", "predicted"])
def test_a_step_is_one_of_plain_gradient_descent(labels: Any) -> None:
    model = fastif.TorchModel(network(), loss="cross_entropy", trainable=r"^3\.")
    train, queries = data(40), data(5)
    scores = scores_of(model, train, queries)
    it = Simulation(model, train, queries=queries, recipe=SHORT, labels=labels, prefix_cache=PrefixCache())
    done = it.run(scores, points=2, rates=[0.1, 1.0], seed=3)
    simulator = it.simulator(3)
    said = model.outputs(model.parameters, (train[0],)).argmax(dim=1)
    asked = model.outputs(model.parameters, (queries[0],)).argmax(dim=1)
    number = int(fastif.ranking.harmful(scores.values[4], scores.train_ids[4], 2).ids[1])
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in simulator.items()}
    target = (train[1] if labels == "true" else said)[[number]]
    nn.functional.cross_entropy(model.outputs(leaves, (train[0][[number]],)), target).backward()
    for row, rate in enumerate(done.rates):
        after = {name: leaf.detach() - rate * leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        expected = nn.functional.cross_entropy(model.outputs(after, (queries[0][[4]],)), asked[[4]])
        assert float(done.losses[4, 1, 1, row]) == pytest.approx(float(expected), abs=1e-12)
    before = nn.functional.cross_entropy(model.outputs(simulator, (queries[0],)), asked, reduction="none")
    torch.testing.assert_close(done.before, before)


def test_the_simulator_learns_what_the_model_says_and_not_the_labels(model: fastif.TorchModel) -> None:
    x, y = TRAIN
    shifted = (x, (y + 1) % 3)  # labels that the model never says
    it = Simulation(model, shifted, queries=QUERIES, recipe=CONVERGED)
    said = model.outputs(it.simulator(), (x,)).argmax(dim=1)
    assert float((said == model.outputs(model.parameters, (x,)).argmax(dim=1)).double().mean()) > 0.95


def test_the_paper_s_rates() -> None:
    rates = log_rates()
    assert len(rates) == 50
    assert rates[0] == 1e-5
    assert rates[-1] == pytest.approx(10**-2.5, rel=1e-5)


def test_wrong_use_says_what_to_change(model: fastif.TorchModel) -> None:
    scores = scores_of(model, TRAIN, QUERIES)
    it = Simulation(model, TRAIN, queries=QUERIES, recipe=SHORT)
    with pytest.raises(DataError, match="Take fewer points"):
        it.run(scores, points=140)
    with pytest.raises(DataError, match="scores of 2 queries, and 30"):
        it.run(fastif.Scores(scores.values[:2], scores.train_ids[:2]))
    with pytest.raises(ConfigurationError, match="labels must be one of true, predicted"):
        Simulation(model, TRAIN, queries=QUERIES, recipe=SHORT, labels="made up")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="learning rates"):
        log_rates(1.0, 0.5)
    with pytest.raises(ConvergenceError, match="Lower the highest learning rate"):
        it.run(scores, points=2, rates=[1e308])
    unlabelled = fastif.Examples(QUERIES)
    unlabelled.targets_are_predictions = True
    with pytest.raises(DataError, match="the queries have no labels"):
        Simulation(model, TRAIN, queries=unlabelled, recipe=SHORT)
    square = fastif.TorchModel(nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)).double(), loss="mse_loss")
    with pytest.raises(ConfigurationError, match="one label each"):
        Simulation(square, (TRAIN[0], TRAIN[0][:, 0]), queries=(TRAIN[0], TRAIN[0][:, 0]), recipe=SHORT)

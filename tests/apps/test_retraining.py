"""Retraining: what is removed, what it does to the loss and the noise beside it, and what influence says of that."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif import metrics
from fastif.apps.removals import Removal, at_random, influential, most_removable, smallest_label
from fastif.apps.retrained import Retrained
from fastif.apps.retraining import Retraining
from fastif.apps.training_recipe import TrainingRecipe
from fastif.errors import ConfigurationError, DataError
from fastif.store import RunStore
from tests.apps.test_stack import data, network

DECAY = 0.02
CONVERGED = TrainingRecipe(
    epochs=600,
    batch_size=10_000,  # the whole training set in every step
    learning_rate=1.0,
    weight_decay=DECAY,
    optimizer="sgd",
    momentum=0.9,
    schedule="constant",
    clip=None,
    decay="all",
)
SHORT = TrainingRecipe(epochs=2, batch_size=8, learning_rate=1e-2)


def blobs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three classes that overlap."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(3, (count,), generator=draw)
    centres = torch.tensor([[1.0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=torch.float64)
    return centres[targets] + 0.7 * torch.randn(count, 6, generator=draw, dtype=torch.float64), targets


def logistic(train: tuple[Tensor, Tensor]) -> fastif.TorchModel:
    """Logistic regression with L2, trained until nothing changes."""
    module = nn.Linear(6, 3).double()
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    model = fastif.TorchModel(module, loss="cross_entropy")
    module.load_state_dict(Retraining(model, train, queries=train, recipe=CONVERGED).model_without())
    return fastif.TorchModel(module, loss="cross_entropy")


def test_influence_predicts_batched_retraining_to_convergence() -> None:
    train, queries = blobs(200, 0), blobs(10, 1)
    model = logistic(train)
    scores = fastif.Explainer(model, train, damping=0.0, weight_decay=DECAY).scores(queries)
    everyone = [Removal("random", (number,)) for number in range(0, 200, 2)]
    retraining = Retraining(model, train, queries=queries, recipe=CONVERGED)
    done = retraining.run(everyone, seeds=[0])
    assert torch.allclose(done.losses[0, 0], done.before, atol=1e-10)  # converged: training on leaves it where it was
    predicted = -scores.values.T[::2] / 200
    for query in range(10):
        assert metrics.pearson(predicted[:, query], done.changes[0, :, query]) > 0.99
    # a removal divides by one example less, which also weighs the decay less: the same for all removals of a query
    centred = done.changes[0] - done.changes[0].mean(dim=0)
    expected = predicted - predicted.mean(dim=0)
    assert 0.95 < float((centred * expected).sum() / expected.square().sum()) < 1.1


def test_helpful_and_harmful_removals_go_apart_and_random_ones_stay() -> None:
    train, queries = blobs(200, 0), blobs(12, 1)
    model = logistic(train)
    scores = fastif.Explainer(model, train, damping=0.0, weight_decay=DECAY).scores(queries)
    removals = influential(scores, counts=[1, 5, 20], examples=200)
    removals += at_random(train[1], counts=[1, 5, 20], draws=3, label_names={0: "a", 1: "b", 2: "c"})
    done = Retraining(model, train, queries=queries, recipe=CONVERGED).run(removals, seeds=[0])
    lines = {(each.group, each.line.name, each.count): each for each in done.lines()}
    noise = {(each.group, each.count): each for each in done.noise()}
    for group in ("right", "wrong"):
        helpful, harmful, random = (lines[group, name, 20].mean for name in ("helpful", "harmful", "random, a"))
        assert helpful > noise[group, 20].mean + 2 * (noise[group, 20].deviation or 0)
        assert harmful < noise[group, 20].mean
        assert harmful < random < helpful
        assert lines[group, "helpful", 20].mean > lines[group, "helpful", 5].mean > lines[group, "helpful", 1].mean > 0
    assert sum(lines[group, "helpful", 1].queries for group in ("right", "wrong")) == 12
    few = [row for row, one in enumerate(removals) if one.count <= 5]  # of a tenth, more than the first order counts
    losses = done.losses[:, [0, *(row + 1 for row in few)]]
    agreement = replace(done, removals=tuple(removals[row] for row in few), losses=losses).prediction()
    assert agreement is not None
    assert agreement["pearson"] > 0.98
    assert agreement["removals"] == 12 * 2 * 2
    words = " ".join(done.in_words())
    assert "Queries predicted right" in words
    assert "clear of the noise, in the right direction, at 1, 5, 20 examples" in words
    assert "One seed was used" in words
    assert done.seed_noise() is None
    told = done.as_json()
    json.dumps(told, allow_nan=False)
    assert told["models_trained"] == 1 + len({frozenset(one.ids) for one in removals})


def test_changes_are_between_trainings_of_one_seed() -> None:
    model = fastif.TorchModel(network(), loss="cross_entropy")
    train = data(40)

    def start(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        return {name: torch.randn_like(tensor) for name, tensor in model.parameters.items()}

    removals = [Removal("random", (3,)), Removal("random", (3,), draw=1), Removal("random", (1, 2))]
    done = Retraining(model, train, queries=data(6), recipe=SHORT, start=start).run(removals, seeds=[4, 5])
    assert done.losses.shape == (2, 4, 6)
    assert torch.equal(done.changes[:, 0], done.changes[:, 1])  # the same examples are one training
    assert done.models == 6
    assert (done.seed_noise() or 0) > 10 * float(done.changes.abs().mean())
    alone = Retraining(model, train, queries=data(6), recipe=SHORT, start=start, together=False)
    torch.testing.assert_close(alone.run(removals, seeds=[5]).losses[0], done.losses[1], rtol=1e-9, atol=1e-9)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fastif.TorchModel(network(), loss="cross_entropy")
    removals = at_random(data(40)[1], counts=[1, 2], draws=2)
    seen: list[tuple[str, int, int]] = []

    def run(keep: Any, progress: Any = lambda *_: None) -> Retrained:
        return Retraining(model, data(40), queries=data(6), recipe=SHORT, keep=keep, progress=progress).run(
            removals, seeds=[0, 1]
        )

    whole = run(lambda name, make: make(), lambda *told: seen.append(told))
    assert seen[-1][1] == seen[-1][2]
    assert all(first[1] <= second[1] for first, second in pairwise(seen))

    class StoppedError(Exception):
        pass

    def stop(stage: str, done: int, total: int) -> None:
        if done > 0.7 * total:
            raise StoppedError

    with RunStore.begin(tmp_path / "run", {"command": "test"}) as store:
        with pytest.raises(StoppedError):
            run(store.piece, stop)
        pieces = list((tmp_path / "run" / "parts").iterdir())
        assert len(pieces) == 1  # the first seed
        assert torch.equal(run(store.piece).losses, whole.losses)


def test_what_is_removed() -> None:
    values = torch.tensor([[-3.0, 1.0, -1.0, 2.0], [-1.0, -1.0, 5.0, 4.0]])
    scores = fastif.Scores(values, torch.arange(4).expand(2, -1))
    assert most_removable(scores) == 2
    found = influential(scores, counts=[2, 1, 1], examples=4, system="full", queries=[7, 9])
    assert [(one.kind, one.ids, one.query) for one in found[:4]] == [
        ("helpful", (0,), 7),
        ("helpful", (0, 2), 7),
        ("harmful", (3,), 7),
        ("harmful", (3, 1), 7),
    ]
    assert found[1].predicted == 1.0
    assert {one.system for one in found} == {"full"}
    random = at_random(torch.tensor([0, 1, 1, 1, 0, 0]), counts=[1, 2], draws=2)
    assert {(one.label, one.draw, one.count) for one in random} == {
        (label, draw, count) for label in "01" for draw in (0, 1) for count in (1, 2)
    }
    for one, more in zip(random[::2], random[1::2], strict=True):
        assert set(one.ids) < set(more.ids)  # a larger removal holds the smaller
    assert smallest_label(torch.tensor([0, 1, 1])) == 1
    assert {one.label for one in at_random(torch.tensor([0.1, 0.2, 0.3]), counts=[1], draws=1)} == {None}


def test_wrong_use_says_what_to_change() -> None:
    model = fastif.TorchModel(network(), loss="cross_entropy")
    scores = fastif.Scores(torch.tensor([[-3.0, 1.0, -1.0]]), torch.arange(3)[None])
    with pytest.raises(DataError, match=r"query 0 has 2 helpful .* and 5 are to be removed. Remove fewer"):
        influential(scores, counts=[5], examples=3)
    with pytest.raises(DataError, match="3 training examples of label 1, and 5 are to be removed"):
        at_random(torch.tensor([1, 1, 1]), counts=[5])
    with pytest.raises(ConfigurationError, match="at least 1"):
        influential(scores, counts=[0], examples=3)
    with pytest.raises(ConfigurationError, match="draws"):
        at_random(torch.tensor([1, 1, 1]), counts=[1], draws=0)
    it = Retraining(model, data(10), queries=data(2), recipe=SHORT)
    with pytest.raises(ConfigurationError, match="seed"):
        it.run([], seeds=[])
    with pytest.raises(DataError, match="twice"):
        it.run([Removal("random", (1, 1))])
    with pytest.raises(DataError, match="nothing to train on"):
        it.run([Removal("random", tuple(range(10)))])
    unlabelled = fastif.Examples(data(2))
    unlabelled.targets_are_predictions = True
    with pytest.raises(DataError, match="the queries have no labels"):
        Retraining(model, data(10), queries=unlabelled, recipe=SHORT)


def test_a_regression_has_one_group() -> None:
    module = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)).double()
    model = fastif.TorchModel(module, loss="mse_loss")
    x, _ = data(20)
    done = Retraining(model, (x, x[:, 0]), queries=(x[:4], x[:4, 0]), recipe=SHORT).run([Removal("random", (0, 1))])
    assert {each.group for each in done.lines()} == {"all"}
    assert done.noise()[0].deviation is None

"""Corrections: what is chosen, what a step does, what is kept, and that the user's model stays as it was."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.apps.correction import (
    Correction,
    Steps,
    accuracy_by,
    check_disjoint,
    corrected_module,
    judge,
)
from fastif.errors import ConfigurationError, ConvergenceError, DataError
from tests import oracles

Data = tuple[Tensor, Tensor]
FEATURES = 4  # a bias, the shortcut, the mark of a counterexample, noise


def pairs(count: int, marked: Sequence[bool], seed: int) -> Data:
    """Examples of the class that the shortcut says, but for the marked ones."""
    draw = torch.Generator().manual_seed(seed)
    said = torch.randint(2, (count,), generator=draw)
    mark = torch.tensor(marked)
    said[mark] = 1
    x = torch.stack([torch.ones(count), 2.0 * said - 1, mark.float(), 0.3 * torch.randn(count, generator=draw)], dim=1)
    return x.double(), torch.where(mark, 0, said)


def fit(data: Data) -> nn.Module:
    """Logistic regression that has not been trained for long: a few counterexamples are not learned yet."""
    module = nn.Linear(FEATURES, 2, bias=False).double()
    nn.init.zeros_(module.weight)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(data[0]), data[1]).backward()
        optimizer.step()
    module.zero_grad()
    return module


TRAIN = pairs(200, [row < 8 for row in range(200)], 0)
ANCHORS = pairs(12, [True] * 12, 1)
GUARD = pairs(100, [False] * 100, 2)
TEST = pairs(120, [row < 60 for row in range(120)], 3)
SLICES = ["fails"] * 60 + ["holds"] * 60


@pytest.fixture
def module() -> nn.Module:
    return fit(TRAIN)


class ShortOfMemory(fastif.TorchModel):
    """A model on a device that has no room for more than seven examples."""

    def outputs(self, parameters: Any, inputs: Any) -> Tensor:
        if len(inputs[0]) > 7:
            raise torch.OutOfMemoryError
        return super().outputs(parameters, inputs)


def test_what_does_not_fit_is_judged_in_parts(module: nn.Module) -> None:
    model, short = (kind(module, loss="cross_entropy") for kind in (fastif.TorchModel, ShortOfMemory))
    examples = fastif.Examples(TEST)
    for seen, expected in zip(*(judge(each, each.parameters, examples) for each in (short, model)), strict=True):
        torch.testing.assert_close(seen, expected)


def correction(module: nn.Module, **changes: Any) -> Correction:
    given: dict[str, Any] = {"examples": 8, "learning_rate": 1.0, "weight": 0.3, "most": 40, "every": 10}
    steps = Steps(**{**given, **changes.pop("steps", {})})
    model = fastif.TorchModel(module, loss="cross_entropy")
    return Correction(model, TRAIN, **{"anchors": ANCHORS, "guard": GUARD, "steps": steps, **changes})


@pytest.mark.parametrize("effect", ["retrain", "finetune-step"])
def test_helpful_examples_put_the_failing_slice_right_and_random_ones_do_not(module: nn.Module, effect: Any) -> None:
    it = correction(module)
    before = accuracy_by(SLICES, judge(it.model, it.model.parameters, fastif.Examples(TEST))[0])
    done = it.run(effect)
    after = accuracy_by(SLICES, judge(it.model, done.parameters, fastif.Examples(TEST))[0])
    assert before["fails"] < 0.1
    assert before["holds"] == 1
    assert sorted(done.train_ids.tolist()) == list(range(8))
    assert after["fails"] > 0.9
    assert after["holds"] >= 0.98
    random = it.run("random")
    assert judge(it.model, random.parameters, fastif.Examples(TEST))[0][:60].double().mean() < 0.5


def test_the_two_effects_are_the_formulas_with_and_without_curvature(module: nn.Module) -> None:
    gradients = oracles.per_example_gradients(module, ["weight"], _loss, TRAIN)
    anchor = oracles.per_example_gradients(module, ["weight"], _loss, ANCHORS).mean(dim=0)
    it = correction(module)
    dots = gradients @ anchor
    assert it.helpful("finetune-step").tolist() == [
        row for row in dots.argsort(descending=True, stable=True).tolist() if dots[row] > 0
    ]
    curvature = oracles.dense_ggn(module, ["weight"], _loss, TRAIN) + 0.01 * torch.eye(2 * FEATURES).double()
    solved = gradients @ torch.linalg.solve(curvature, anchor)
    it = correction(module)  # the oracle writes to the weights, and puts them back
    explainer = fastif.Explainer(it.model, TRAIN, damping=0.01)
    assert it.helpful("retrain", explainer)[:20].tolist() == solved.argsort(descending=True)[:20].tolist()


def test_one_small_step_changes_the_anchors_loss_as_the_gradients_say(module: nn.Module) -> None:
    rate = 1e-5
    it = correction(
        module, guard=None, steps={"examples": 1, "learning_rate": rate, "most": 1, "every": 1, "rehearsed": 0}
    )
    done = it.run("finetune-step")
    gradients = oracles.per_example_gradients(module, ["weight"], _loss, TRAIN)
    anchor = oracles.per_example_gradients(module, ["weight"], _loss, ANCHORS).mean(dim=0)
    change = done.history[1].anchor_loss - done.history[0].anchor_loss
    assert change == pytest.approx(-rate * float(anchor @ gradients[done.train_ids[0]]), rel=1e-3)


def test_the_module_stays_as_it_was_and_a_copy_has_the_new_parameters(module: nn.Module) -> None:
    before = module.weight.detach().clone()
    module.train()
    it = correction(module)
    done = it.run("anchors")
    assert torch.equal(module.weight, before)
    assert module.weight.grad is None
    assert module.training
    made = corrected_module(it.model, done.parameters)
    assert done.steps > 0
    assert not torch.equal(made.weight, before)
    assert torch.equal(made.weight, done.parameters["weight"])
    assert torch.equal(module.weight, before)


def test_steps_that_lose_too_much_on_the_guard_set_are_not_kept(module: nn.Module) -> None:
    steps = {"rehearsed": 0, "learning_rate": 30.0, "tolerance": 0.0, "every": 1, "most": 3}
    blunt = correction(module, steps=steps).run("anchors")
    assert min(look.guard_accuracy or 0 for look in blunt.history) < 0.9
    kept = next(look for look in blunt.history if look.steps == blunt.steps)
    assert kept.guard_accuracy == blunt.history[0].guard_accuracy
    unguarded = correction(module, guard=None, steps=steps).run("anchors")
    assert unguarded.steps > 0
    assert unguarded.history[0].guard_accuracy is None


def test_rejected_examples_are_passed_over_and_counted(module: nn.Module) -> None:
    it = correction(module)
    first = it.helpful("retrain")[:3].tolist()
    done = correction(module, rejected=[first[0], first[2]]).run("retrain")
    assert done.passed_over.tolist() == [first[0], first[2]]
    assert not set(done.passed_over.tolist()) & set(done.train_ids.tolist())
    assert len(done.train_ids) == 8
    assert not set(correction(module, rejected=range(100)).run("random").train_ids.tolist()) & set(range(100))
    with pytest.raises(DataError, match="not rejected helps the anchors"):
        correction(module, rejected=range(200)).run("retrain")


def test_a_run_repeats(module: nn.Module) -> None:
    one, other = (correction(module).run("random") for _ in range(2))
    assert torch.equal(one.parameters["weight"], other.parameters["weight"])
    assert one.train_ids.tolist() != correction(module, steps={"seed": 1}).run("random").train_ids.tolist()


def test_a_tiny_network_with_a_frozen_front_and_batches_of_one_class() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    model = fastif.TorchModel(network, loss="cross_entropy", trainable=r"^2\.")
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    done = Correction(model, TRAIN, anchors=ANCHORS, steps=Steps(most=4, every=2, rehearsed=0)).run("finetune-step")
    assert set(done.parameters) == {"2.weight", "2.bias"}
    assert [look.steps for look in done.history] == [0, 2, 4]
    assert done.history[-1].anchor_loss < done.history[0].anchor_loss
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


@pytest.mark.parametrize(
    "knobs",
    [
        {"examples": 0},
        {"most": 1.5},
        {"every": True},
        {"rehearsed": -1},
        {"learning_rate": 0},
        {"learning_rate": float("nan")},
        {"weight": 0.0},
        {"weight": 1.5},
        {"tolerance": -0.1},
    ],
)
def test_knobs_are_checked_when_made(knobs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Steps(**knobs)


def test_wrong_use_says_what_to_change(module: nn.Module) -> None:
    it = correction(module)
    with pytest.raises(ConfigurationError, match="retrain, finetune-step, random, anchors"):
        it.run("magic")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rank training examples"):
        it.helpful("anchors")
    with pytest.raises(DataError, match="anchors are in the test set too, for instance 'b'"):
        check_disjoint(["a", "b"], ["b", "c"])
    square = fastif.TorchModel(module, loss=lambda out, targets: (out - targets[:, None]).square().sum(dim=1))
    with pytest.raises(ConvergenceError, match="Lower the learning rate"):
        Correction(square, TRAIN, anchors=ANCHORS, steps=Steps(learning_rate=1e200)).run("anchors")


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


@pytest.mark.parametrize(
    ("outputs", "loss", "targets"),
    [
        (1, "binary_cross_entropy_with_logits", torch.arange(24) % 2),
        (2, "mse_loss", torch.zeros(24, 2)),
    ],
    ids=["one logit", "numbers"],
)
def test_without_classes_there_is_no_accuracy_to_guard(outputs: int, loss: str, targets: Tensor) -> None:
    torch.manual_seed(0)
    x, steps = torch.randn(24, 5), Steps(rehearsed=0, weight=1.0, most=10)
    model, data = fastif.TorchModel(nn.Linear(5, outputs), loss=loss), (x, targets)
    with pytest.raises(ConfigurationError, match="no prediction that is right or wrong"):
        Correction(model, data, anchors=data, guard=data, steps=steps)
    done = Correction(model, data, anchors=data, steps=steps).run("anchors")
    assert done.history[-1].anchor_loss < done.history[0].anchor_loss

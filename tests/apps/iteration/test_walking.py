"""Walks beside loops written by hand, what is chosen beside dense formulas, and what a step does to a loss."""

import copy
import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.apps.iteration import KINDS, Iteration, Plan, Sets
from fastif.apps.iteration import walking as module_under_test
from fastif.errors import ConfigurationError, ConvergenceError, EmptyDataError, ModelError
from tests import oracles
from tests.apps.iteration.problem import ANCHORS, HELD_OUT, NAMES, iteration, losses, moved, rows, sliced_test
from tests.apps.test_correction import FEATURES, GUARD, TEST, TRAIN, fit


@pytest.fixture
def module() -> nn.Module:
    return fit(TRAIN)


def hand_step(weight: Tensor, x: Tensor, y: Tensor, rate: float) -> Tensor:
    leaf = weight.detach().clone().requires_grad_()
    nn.functional.cross_entropy(x @ leaf.T, y).backward()
    assert leaf.grad is not None
    return leaf.detach() - rate * leaf.grad


@pytest.mark.parametrize("kind", ["random", "anchors"])
def test_the_baselines_are_plain_loops(module: nn.Module, kind: Any) -> None:
    it = iteration(module)
    courses = it.run([kind])
    source = ANCHORS if kind == "anchors" else TRAIN
    for course in courses.courses[kind]:
        weight = module.weight.detach().clone()
        for step in range(it.plan.steps + 1):
            logits = TEST[0] @ weight.T
            right, loss = logits.argmax(dim=1) == TEST[1], losses(logits, TEST[1])
            for part, some in enumerate((slice(0, 60), slice(60, 120), slice(None))):  # fails, holds, all
                torch.testing.assert_close(course.losses[step, part], loss[some].mean())
                torch.testing.assert_close(course.accuracies[step, part], right[some].double().mean())
            original = GUARD[0] @ weight.T
            torch.testing.assert_close(course.losses[step, 3], losses(original, GUARD[1]).mean())
            torch.testing.assert_close(course.held_out[step], losses(HELD_OUT[0] @ weight.T, HELD_OUT[1]))
            if step < it.plan.steps:
                if kind == "anchors":
                    assert torch.equal(course.chosen[step], course.anchors[step])
                weight = hand_step(weight, *rows(source, course.chosen[step]), it.plan.rate)
        torch.testing.assert_close(it.parameters_after(kind, course.chosen)["weight"], weight)
    assert [(part.title, part.examples) for part in courses.parts] == [
        ("fails", 60),
        ("holds", 60),
        ("test", 120),
        ("original", 100),
    ]


@pytest.mark.parametrize(
    ("effect", "curvature"), [("finetune-step", "each-step"), ("retrain", "each-step"), ("retrain", "start")]
)
@pytest.mark.parametrize("solver", ["auto", fastif.ConjugateGradient(preconditioner_rank=3, tolerance=1e-9)])
@pytest.mark.parametrize("kind", ["helpful", "harmful"])
def test_what_is_chosen_at_each_step_follows_from_dense_formulas(
    module: nn.Module, kind: Any, solver: Any, effect: Any, curvature: Any
) -> None:
    damping = 0.02
    knobs = {"effect": effect, "curvature": curvature, "learning_rate": 2.0, "repeats": 1}
    it = iteration(module, plan=knobs, options={"damping": damping, "solver": solver})
    (course,) = it.run([kind]).courses[kind]
    weight = module.weight.detach().clone()
    at_start = oracles.dense_ggn(module, NAMES, losses, TRAIN)
    for step, chosen in enumerate(course.chosen):
        here = moved(module, weight)
        gradients = oracles.per_example_gradients(here, NAMES, losses, TRAIN)
        anchor = oracles.per_example_gradients(here, NAMES, losses, rows(ANCHORS, course.anchors[step])).mean(dim=0)
        if effect == "retrain":
            matrix = at_start if curvature == "start" else oracles.dense_ggn(here, NAMES, losses, TRAIN)
            anchor = torch.linalg.solve(matrix + damping * torch.eye(len(matrix)).double(), anchor)
        scores = -(gradients @ anchor)
        strength = scores if kind == "helpful" else -scores
        # of equal strength, as duplicates have, either may be first
        torch.testing.assert_close(strength[chosen], strength.sort().values[: it.plan.examples])
        weight = hand_step(weight, *rows(TRAIN, chosen), it.plan.rate)
    torch.testing.assert_close(it.parameters_after(kind, course.chosen)["weight"], weight)


def test_curvature_of_each_step_differs_from_that_of_the_start(module: nn.Module) -> None:
    """Or the test above would not tell them apart."""
    knobs = {"effect": "retrain", "learning_rate": 2.0, "repeats": 1}
    chosen = [
        torch.cat(iteration(module, plan={**knobs, "curvature": at}).run(["helpful"]).courses["helpful"][0].chosen)
        for at in ("each-step", "start")
    ]
    assert not torch.equal(*chosen)


def test_the_finetune_step_score_is_the_first_order_change_of_the_anchors_loss(module: nn.Module) -> None:
    rate = 1e-6
    model = fastif.TorchModel(module, loss="cross_entropy")
    some, anchors = torch.arange(0, 200, 7), rows(ANCHORS, torch.arange(6))
    scores = fastif.Explainer(model, TRAIN, solver=fastif.Identity(), candidates=some).scores(anchors, reduce="mean")
    before = losses(module(anchors[0]), anchors[1]).mean()
    for index, score in zip(some, scores.values[0], strict=True):
        weight = hand_step(module.weight, *rows(TRAIN, index[None]), rate)
        change = losses(anchors[0] @ weight.T, anchors[1]).mean() - before
        assert float(change.detach()) == pytest.approx(rate * float(score), rel=1e-3, abs=1e-13)


def test_the_retrain_score_is_the_first_order_change_by_a_newton_step(module: nn.Module) -> None:
    rate, anchors = 1e-6, rows(ANCHORS, torch.arange(6))
    model = fastif.TorchModel(module, loss="cross_entropy")
    explainer = fastif.Explainer(model, TRAIN, solver=fastif.Exact(), damping=0.01)
    scores = explainer.scores(anchors, reduce="mean").values[0]
    knobs = {"update": "newton", "learning_rate": rate, "steps": 1, "repeats": 1, "examples": 1}
    it = iteration(module, plan=knobs, options={"damping": 0.01, "solver": fastif.Exact()})
    before = losses(module(anchors[0]), anchors[1]).mean()
    for index in (0, 3, 150):
        weight = it.parameters_after("helpful", [torch.tensor([index])])["weight"]
        change = losses(anchors[0] @ weight.T, anchors[1]).mean() - before
        assert float(change.detach()) == pytest.approx(rate * float(scores[index]), rel=1e-3)


def regression_as_classes() -> tuple[nn.Module, tuple[Tensor, Tensor], Any]:
    """A least-squares classifier: a quadratic, whose minimum is known."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(30, 3, generator=draw).double()
    y = (x[:, 0] + 0.3 * torch.randn(30, generator=draw) > 0).long()
    module = nn.Linear(3, 2, bias=False).double()

    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - nn.functional.one_hot(targets, 2)).square().sum(dim=1)

    return module, (x, y), squares


def test_one_newton_step_goes_to_the_minimum_of_a_quadratic() -> None:
    module, data, squares = regression_as_classes()
    model = fastif.TorchModel(module, loss=squares)
    plan = Plan(update="newton", steps=1, anchors=30, repeats=1)
    it = Iteration(model, Sets(pool=data, anchors=data, watched={"test": data}), plan=plan, options={"damping": 1e-10})
    (course,) = it.run(["anchors"]).courses["anchors"]
    best = torch.linalg.lstsq(data[0], nn.functional.one_hot(data[1], 2).double()).solution.T
    torch.testing.assert_close(it.parameters_after("anchors", course.chosen)["weight"], best)
    assert course.losses[1, 0] == pytest.approx(float(squares(data[0] @ best.T, data[1]).mean()))
    half = Plan(update="newton", steps=1, anchors=30, repeats=1, learning_rate=0.5)
    it = Iteration(model, Sets(pool=data, anchors=data, watched={}), plan=half, options={"damping": 1e-10})
    between = it.parameters_after("anchors", [torch.arange(30)])["weight"]
    torch.testing.assert_close(between, (module.weight.detach() + best) / 2)


def test_newton_steps_on_a_pool_take_the_curvature_of_the_training_data() -> None:
    module, data, squares = regression_as_classes()
    pool, train = (data[0][:10], data[1][:10]), (3 * data[0][10:], data[1][10:])
    model = fastif.TorchModel(module, loss=squares)
    sets = Sets(pool=pool, anchors=data, watched={}, hessian_data=train)
    it = Iteration(model, sets, plan=Plan(update="newton", steps=1, repeats=1), options={"damping": 0.1})
    chosen = torch.tensor([1, 4, 7])
    after = it.parameters_after("helpful", [chosen])["weight"]
    gradient = oracles.per_example_gradients(module, NAMES, squares, rows(pool, chosen)).mean(dim=0)
    matrix = oracles.dense_ggn(module, NAMES, squares, train) + 0.1 * torch.eye(6).double()
    expected = module.weight.detach() - torch.linalg.solve(matrix, gradient).reshape(2, 3)
    torch.testing.assert_close(after, expected)


def test_only_the_nearest_by_features_at_the_start_are_ranked(module: nn.Module) -> None:
    it = iteration(module, plan={"nearest": 30, "learning_rate": 3.0})
    courses = it.run(["helpful", "harmful", "random"])
    outside = 0
    for course in itertools.chain(*courses.courses.values()):
        for anchors, chosen in zip(course.anchors, course.chosen, strict=True):
            center = ANCHORS[0][anchors].mean(dim=0)
            near = (TRAIN[0] - center).square().sum(dim=1)
            limit = near.sort().values[29]
            if course.kind == "random":  # of all, as in the paper
                outside += int((near[chosen] > limit + 1e-9).sum())
            else:
                assert bool((near[chosen] <= limit + 1e-9).all())
    assert outside


def test_all_kinds_share_the_anchors_of_a_repeat_and_repeats_do_not(module: nn.Module) -> None:
    courses = iteration(module).run()
    assert courses.kinds == KINDS
    drawn = {kind: [torch.stack(one.anchors) for one in courses.courses[kind]] for kind in KINDS}
    for kind in KINDS[1:]:
        assert all(torch.equal(one, other) for one, other in zip(drawn[kind], drawn["helpful"], strict=True))
    first, second = drawn["helpful"]
    assert not torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    assert all(len(set(step.tolist())) == 6 for step in first)
    again, other = iteration(module).run(["random"]), iteration(module, plan={"seed": 1}).run(["random"])
    assert torch.equal(again.values("random", "loss"), courses.values("random", "loss"))
    assert not torch.equal(other.values("random", "loss"), courses.values("random", "loss"))


def test_helpful_examples_help_and_harmful_ones_harm(module: nn.Module) -> None:
    courses = iteration(module, plan={"repeats": 3, "steps": 10}).run()
    fails = {kind: courses.values(kind, "loss")[:, -1, 0].mean() for kind in KINDS}
    assert fails["helpful"] < fails["random"] < fails["harmful"]
    assert courses.difference("helpful", "harmful", part=0, measure="loss").is_below_zero
    assert courses.difference("helpful", "start", part=0, measure="loss").is_below_zero
    told = next(one for one in courses.comparisons if (one["first"], one["second"]) == ("helpful", "random"))
    assert (told["part"], told["measure"], told["count"]) == ("fails", "loss", 3)


def test_the_model_stays_as_it_was(module: nn.Module) -> None:
    before = module.weight.detach().clone()
    module.train()
    iteration(module, plan={"update": "newton", "learning_rate": 0.1}).run()
    assert torch.equal(module.weight, before)
    assert module.weight.grad is None
    assert module.training


class Kept(dict[str, Any]):
    """Pieces in memory."""

    def __call__(self, name: str, make: Any) -> Any:
        if name not in self:
            self[name] = make()
        return self[name]


@pytest.mark.parametrize("update", ["gradient", "newton"])
def test_a_run_that_was_stopped_goes_on_and_ends_the_same(
    module: nn.Module, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = {"update": update, "learning_rate": 0.3, "repeats": 1}
    whole = iteration(module, plan=plan).run()
    kept = Kept()

    def stopping(name: str, make: Any) -> Any:
        if name == "harmful, repeat 0, step 3":
            raise KeyboardInterrupt
        return kept(name, make)

    with pytest.raises(KeyboardInterrupt):
        iteration(module, plan=plan, keep=stopping).run()
    assert len(kept) == 1 + 4 + 2
    resumed = iteration(module, plan=plan, keep=kept).run()
    for kind in KINDS:
        torch.testing.assert_close(resumed.values(kind, "loss"), whole.values(kind, "loss"), rtol=1e-12, atol=0)
    monkeypatch.setattr(module_under_test, "mean_gradient", None)  # with everything kept, no step is taken again
    again = iteration(module, plan=plan, keep=kept).run()
    assert torch.equal(again.values("helpful", "loss"), resumed.values("helpful", "loss"))


def test_a_frozen_front_is_run_once_and_changes_nothing() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    calls = []
    network[0].register_forward_hook(lambda *_: calls.append(1))
    sets = Sets(pool=TRAIN, anchors=ANCHORS, watched={"test": sliced_test()})
    plan = Plan(steps=3, learning_rate=0.5, repeats=1, effect="retrain")
    model = fastif.TorchModel(network, loss="cross_entropy", trainable=r"^(2|4)\.")
    assert model.prefix is not None
    seen = Iteration(model, sets, plan=plan).run()
    used = len(calls)
    Iteration(model, sets, plan=replace(plan, steps=6)).run()
    assert len(calls) <= 2 * used  # twice as many steps run the front no more often
    model._front = None  # the same without states
    whole = Iteration(model, sets, plan=plan).run()
    assert len(calls) > 4 * used
    torch.testing.assert_close(whole.values("helpful", "loss"), seen.values("helpful", "loss"))


@pytest.mark.gpu
def test_a_walk_on_a_gpu_is_that_on_a_cpu(module: nn.Module) -> None:
    plan = {"effect": "retrain", "nearest": 60, "repeats": 1}
    here = iteration(module, plan=plan).run()
    there = iteration(copy.deepcopy(module).cuda(), plan=plan).run()
    for kind in KINDS:
        torch.testing.assert_close(there.values(kind, "loss"), here.values(kind, "loss"))


def test_fewer_helpful_examples_than_wanted_are_told_and_none_is_no_step() -> None:
    module = nn.Linear(2, 2, bias=False).double()
    nn.init.zeros_(module.weight)
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double()
    sets = Sets(
        pool=(x, torch.tensor([0, 0])), anchors=(x, torch.tensor([1, 1])), watched={"test": (x, torch.tensor([1, 0]))}
    )
    plan = Plan(steps=2, examples=2, anchors=2, repeats=1)
    courses = Iteration(fastif.TorchModel(module, "cross_entropy"), sets, plan=plan).run(["helpful", "harmful"])
    assert [len(ids) for ids in courses.courses["helpful"][0].chosen] == [0, 0]
    assert courses.short_steps() == {"helpful": 2}
    assert len(courses.values("helpful", "loss")[0, :, 0].unique()) == 1


@pytest.mark.parametrize(
    "knobs",
    [
        {"steps": 0},
        {"anchors": 1.5},
        {"examples": True},
        {"repeats": 0},
        {"nearest": 0},
        {"seed": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"update": "adam"},
        {"effect": "magic"},
        {"curvature": "never"},
    ],
)
def test_knobs_are_checked_when_made(knobs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(knobs))):
        Plan(**knobs)


def test_each_update_has_its_own_rate_and_effect() -> None:
    assert (Plan().rate, Plan().ranked_by, Plan().needs_curvature) == (1e-4, "finetune-step", False)
    newton = Plan(update="newton")
    assert (newton.rate, newton.ranked_by, newton.needs_curvature) == (1.0, "retrain", True)
    assert Plan(update="newton", effect="finetune-step").ranked_by == "finetune-step"


def test_what_cannot_be_walked_is_said(module: nn.Module) -> None:
    it = iteration(module)
    with pytest.raises(ConfigurationError, match="helpful, harmful, random, anchors, not best"):
        it.run(["best"])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="none"):
        it.run([])
    square = fastif.TorchModel(module, loss=lambda out, targets: (out - targets[:, None]).square().sum(dim=1))
    wild = Iteration(square, Sets(pool=TRAIN, anchors=ANCHORS, watched={}), plan=Plan(learning_rate=1e200))
    with pytest.raises(ConvergenceError, match="Lower the learning rate"):
        wild.run(["anchors"])
    line = fastif.TorchModel(nn.Linear(FEATURES, 1).double(), loss="mse_loss")
    numbers = (TRAIN[0], TRAIN[1].double())
    with pytest.raises(ModelError, match="one label of several"):
        Iteration(line, Sets(pool=numbers, anchors=numbers, watched={}))
    with pytest.raises(EmptyDataError):
        iteration(module, sets={"anchors": (ANCHORS[0][:0], ANCHORS[1][:0])})
    with pytest.raises(ConfigurationError, match="there are anchors"):
        it.run(["anchors"]).values("helpful", "loss")

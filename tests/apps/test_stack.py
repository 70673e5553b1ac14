"""Stacks of models: trained together as one by one, as torch trains each of them alone, and as they were trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.apps.stack import StackTraining, goes_together, member, repeated, stacked_losses
from fastif.apps.training_recipe import TrainingRecipe
from fastif.errors import ConfigurationError, ConvergenceError, ShapeError
from fastif.integrations.huggingface import Recipe, TextClassifier, train_classifier
from fastif.integrations.huggingface.start import recorded_training, start_from
from fastif.prefix import PrefixCache
from fastif.shuffling import bucketed
from tests.integrations.huggingface.tiny import FAMILIES, LABELS, TEXTS, module_of, tokenizer_of
from tests.integrations.huggingface.tiny_base import save_base, sentences, write_csv

RECIPE = TrainingRecipe(epochs=2, batch_size=4, learning_rate=1e-2, weight_decay=0.1)


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def data(count: int = 30, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(count, 5, generator=draw, dtype=torch.float64)
    return x.to(dtype), (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def without(total: int, *removed: list[int]) -> Tensor:
    weights = torch.ones(1 + len(removed), total)
    for row, ids in enumerate(removed, 1):
        weights[row, ids] = 0
    return weights


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize(
    ("family", "optimizer", "dtype", "bound"),
    [
        *((family, "adamw", torch.float64, 1e-9) for family in FAMILIES),
        *((family, optimizer, torch.float32, 1e-5) for family in ("bert", "mpnet") for optimizer in ("adamw", "sgd")),
    ],
)
def test_together_is_one_by_one_for_encoders(family: str, optimizer: Any, dtype: torch.dtype, bound: float) -> None:
    model = TextClassifier(module_of(family, dtype=dtype), tokenizer_of(family))
    train = PrefixCache().view(model, model.examples(TEXTS, LABELS))
    weights = without(len(TEXTS), [0], [1, 4, 6], [2, 3])
    recipe = replace(RECIPE, learning_rate=1e-3, optimizer=optimizer)
    together, apart = (
        StackTraining(model, train, recipe, way).fit(weights, model.parameters, seed=3) for way in (True, False)
    )
    losses = stacked_losses(model, together, train, together=True)
    torch.testing.assert_close(losses, stacked_losses(model, apart, train, together=False), rtol=bound, atol=bound)
    if dtype == torch.float64 or optimizer == "sgd":
        assert largest_difference(together, apart) < bound
    # else Adam makes full steps of what rounding leaves of a gradient that is zero, that of a bias of keys: without
    # effect on any loss


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("together", [True, False])
def test_each_model_is_what_torch_trains_alone_on_what_is_left(optimizer: Any, together: bool) -> None:
    recipe = replace(RECIPE, optimizer=optimizer, momentum=0.5 if optimizer == "sgd" else 0.0, clip=0.5)
    x, y = data()
    model = fastif.TorchModel(network(), loss="cross_entropy")
    removed = [2, 7, 8, 20]
    training = StackTraining(model, fastif.Examples((x, y)), recipe, together)
    stack = training.fit(without(30, removed, [5]), model.parameters, seed=4)
    module = network()
    matrices = [weight for weight in module.parameters() if weight.ndim > 1]
    others = [weight for weight in module.parameters() if weight.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    torch_optimizer: Any = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    made = torch_optimizer(groups, lr=1.0, **({} if optimizer == "adamw" else {"momentum": 0.5}))
    step, steps = 0, recipe.steps(30)
    for epoch in (1, 2):
        for ids in bucketed(None, 30, 4, seed=4, epoch=epoch):
            left = [number for number in ids.tolist() if number not in removed]
            for group in made.param_groups:
                group["lr"] = recipe.rate(step, steps)
            made.zero_grad()
            if left:
                nn.functional.cross_entropy(module(x[left]), y[left]).backward()
                nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            made.step()
            step += 1
    expected = {name: weight.detach() for name, weight in module.named_parameters()}
    assert largest_difference(member(stack, 1), expected) < 1e-12
    assert largest_difference(member(stack, 0), expected) > 1e-4


def test_with_nothing_removed_a_checkpoint_comes_out_again(tmp_path: Path) -> None:
    base = save_base(tmp_path / "base")
    train = write_csv(tmp_path / "train.csv", sentences(60))
    recipe = Recipe(epochs=3, learning_rate=5e-3, batch_size=16, seed=5, double=True)
    train_classifier(base, train, recipe=recipe).save(tmp_path / "model")
    recorded = recorded_training(tmp_path / "model")
    assert recorded is not None
    assert recorded.seed == 5
    model = TextClassifier.from_pretrained(tmp_path / "model", dtype=torch.float64)
    aside = sorted(_kept_aside(tmp_path / "model"))
    rows = [row for number, row in enumerate(sentences(60)) if number + 2 not in aside]
    examples = model.examples([row["text"] for row in rows], [row["label"] for row in rows])
    start = start_from(model, recorded.base, expected=recorded.base_sha256)
    training = StackTraining(model, PrefixCache().view(model, examples), recorded.recipe)
    stack = training.fit(torch.ones(1, len(examples)), start(recorded.seed), seed=recorded.seed)
    # the checkpoint was trained in float64, and is written as it was
    assert largest_difference(member(stack, 0), model.parameters) < 1e-9
    assert largest_difference(start(0), start(recorded.seed)) > 1e-3  # heads of other seeds are others
    (base / "model.safetensors").write_bytes(b"other")
    with pytest.raises(fastif.FastifError, match="--warm"):
        start_from(model, recorded.base, expected=recorded.base_sha256)


def _kept_aside(directory: Path) -> list[int]:
    import json

    lines: list[int] = json.loads((directory / "fastif_training.json").read_text())["dev"]["lines"]
    return lines


def test_a_module_that_vmap_refuses_is_trained_one_by_one() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(5, 3).double()

        def forward(self, x: Tensor) -> Tensor:
            outputs: Tensor = self.linear(x)
            return outputs if float(outputs.detach().sum()) < 1e9 else -outputs  # looks into a number

    model = fastif.TorchModel(Odd(), loss="cross_entropy")
    examples = fastif.Examples(data())
    weights = without(30, [1, 2])
    stacks = [StackTraining(model, examples, RECIPE, way).fit(weights, model.parameters) for way in (True, False)]
    assert largest_difference(*stacks) == 0.0
    losses = stacked_losses(model, stacks[0], examples, together=True)
    assert losses.shape == (2, 30)


def test_the_module_and_what_it_began_from_stay_as_they_were() -> None:
    module = network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = fastif.TorchModel(module, loss="cross_entropy", trainable=r"^3\.")
    training = StackTraining(model, PrefixCache().view(model, fastif.Examples(data())), RECIPE)
    stack = training.fit(torch.ones(2, 30), model.parameters)
    assert set(stack) == {"3.weight", "3.bias"}
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert torch.equal(stack["3.weight"][0], stack["3.weight"][1])
    assert not torch.equal(stack["3.weight"][0], before["3.weight"])


def test_small_models_go_together_and_encoders_on_a_cpu_do_not() -> None:
    small = fastif.TorchModel(network(), loss="cross_entropy")
    assert goes_together(small, 64)
    wide = fastif.TorchModel(nn.Linear(2000, 1000), loss="cross_entropy")
    assert not goes_together(wide, 64)
    training = StackTraining(wide, fastif.Examples((torch.zeros(1, 2000), torch.zeros(1).long())), RECIPE)
    assert training.models_at_once() < StackTraining(small, fastif.Examples(data()), RECIPE).models_at_once()


def test_a_repeated_stack_is_a_copy() -> None:
    start = {"w": torch.zeros(2)}
    stack = repeated(start, 3)
    stack["w"] += 1
    assert stack["w"].shape == (3, 2)
    assert float(start["w"].sum()) == 0


@pytest.mark.parametrize(
    "knobs",
    [
        {"epochs": 0},
        {"batch_size": 1.5},
        {"stop_after": True},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"clip": 0.0},
        {"weight_decay": -1.0},
        {"momentum": 1.0},
        {"warm_up": -0.1},
        {"optimizer": "adam"},
        {"schedule": "cosine"},
        {"decay": "none"},
    ],
)
def test_knobs_are_checked_when_made(knobs: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(knobs))):
        TrainingRecipe(**knobs)


def test_wrong_weights_and_a_rate_that_diverges_say_so() -> None:
    model = fastif.TorchModel(network(), loss=lambda out, targets: (out - targets[:, None]).square().sum(dim=1))
    training = StackTraining(model, fastif.Examples(data()), replace(RECIPE, learning_rate=1e200, clip=None))
    with pytest.raises(ShapeError, match="30 examples"):
        training.fit(torch.ones(1, 29), model.parameters)
    with pytest.raises(ConvergenceError, match="Lower the learning rate"):
        training.fit(torch.ones(1, 30), model.parameters)

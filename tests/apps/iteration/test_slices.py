"""One iteration for each slice of the anchors."""

from typing import Any

import pytest
import torch
from torch import nn

import fastif
from fastif.apps.iteration import Iteration, Plan, Sets, by_anchor_slice
from fastif.errors import ConfigurationError, DataError
from tests.apps.iteration.problem import ANCHORS, HELD_OUT, rows, sliced_test
from tests.apps.test_correction import FEATURES, TRAIN

NAMES = ["fails"] * 30 + ["holds"] * 10


def sets(**changes: object) -> Sets:
    given = {"pool": TRAIN, "anchors": fastif.Examples(ANCHORS, slices=NAMES), "watched": {"test": sliced_test()}}
    return Sets(**{**given, **changes})  # type: ignore[arg-type]


def test_each_slice_is_walked_by_its_own_anchors_and_states_are_made_once() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    calls: list[int] = []
    network[0].register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    model = fastif.TorchModel(network, loss="cross_entropy", trainable=r"^2\.")
    plan = Plan(steps=2, anchors=4, repeats=1, learning_rate=0.5)
    kept: dict[str, object] = {}

    def keep(name: str, make: object) -> object:
        return kept.setdefault(name, make())  # type: ignore[operator]

    found = by_anchor_slice(model, sets(), plan=plan, kinds=["helpful", "anchors"], keep=keep)  # type: ignore[arg-type]
    assert sum(count == len(TRAIN[0]) for count in calls) == 1
    assert "anchors of holds: helpful, repeat 0, step 2" in kept
    assert list(found) == ["fails", "holds"]
    for name, some in (("fails", torch.arange(30)), ("holds", torch.arange(30, 40))):
        alone = Iteration(model, sets(anchors=rows(ANCHORS, some)), plan=plan).run(["helpful", "anchors"])
        for kind in ("helpful", "anchors"):
            torch.testing.assert_close(found[name].values(kind, "loss"), alone.values(kind, "loss"))  # type: ignore[arg-type]
    assert not torch.equal(found["fails"].values("anchors", "loss"), found["holds"].values("anchors", "loss"))
    names = set(kept)
    kept.clear()
    some = by_anchor_slice(model, sets(), plan=plan, kinds=["helpful", "anchors"], keep=keep, only=["holds"])  # type: ignore[arg-type]
    assert list(some) == ["holds"]
    assert set(kept) == {name for name in names if name.startswith("anchors of holds")}
    torch.testing.assert_close(some["holds"].values("helpful", "loss"), found["holds"].values("helpful", "loss"))


def test_what_is_known_of_the_pool_is_found_once_for_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    prepare = fastif.Nearest.prepare

    def counted(self: fastif.Nearest, *given: Any, **options: Any) -> Any:
        made.append(self.k)
        return prepare(self, *given, **options)

    monkeypatch.setattr(fastif.Nearest, "prepare", counted)
    model = fastif.TorchModel(nn.Linear(FEATURES, 2).double(), loss="cross_entropy")
    found = by_anchor_slice(model, sets(), plan=Plan(steps=1, repeats=1, nearest=20), kinds=["helpful"])
    assert (list(found), made) == (["fails", "holds"], [20])


def test_what_has_no_slices_is_said() -> None:
    model = fastif.TorchModel(nn.Linear(FEATURES, 2).double(), loss="cross_entropy")
    with pytest.raises(ConfigurationError, match="no slices"):
        by_anchor_slice(model, sets(anchors=ANCHORS))
    held_out = fastif.Examples(HELD_OUT, slices=["fails"] * 25)
    with pytest.raises(DataError, match="no row of the slice 'holds'"):
        by_anchor_slice(model, sets(held_out=held_out), plan=Plan(steps=1, repeats=1))

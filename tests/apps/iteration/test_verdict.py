"""Which steps are worth keeping, and the words that are said of a course."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fastif.apps.iteration import Course, Courses, Kind, Part, Plan, verdict
from fastif.apps.iteration.telling import tell, tell_verdict
from fastif.errors import DataError

PARTS = (Part("test", "fails", 40), Part("test", None, 80), Part("original", None, 50))


def course(kind: Kind, repeat: int, held_out: list[list[float]], original: list[float], **changes: Any) -> Course:
    """A course of two steps: the losses of the held-out anchors, and the accuracy on the original data."""
    losses: Tensor = torch.tensor([[1.0, 1.0, 0.5], [0.9, 0.95, 0.5], [0.8 - 0.01 * repeat, 0.9, 0.6]]).double()
    accuracies = torch.tensor([[0.5, 0.6, value] for value in original]).double()
    accuracies[-1, :2] += 0.1
    count = len(held_out[0])
    right = torch.tensor(changes.get("right", [[False] * count, [True] * count, [True] * count]))
    chosen = tuple(torch.arange(changes.get("chosen", 3)) for _ in range(2))
    return Course(kind, repeat, losses, accuracies, torch.tensor(held_out).double(), right, chosen, chosen)


def courses(*walks: Course, **knobs: Any) -> Courses:
    plan = Plan(steps=2, examples=3, anchors=3, repeats=sum(walk.kind == walks[0].kind for walk in walks), **knobs)
    kinds = dict.fromkeys(walk.kind for walk in walks)
    return Courses(PARTS, {kind: [walk for walk in walks if walk.kind == kind] for kind in kinds}, plan)


FELL = [[2.0, 1.0, 3.0], [1.4, 0.5, 2.4], [1.0, 0.1, 2.1]]


def test_the_step_of_the_lowest_held_out_loss_over_repeats_is_kept() -> None:
    other = [[2.0, 1.0, 3.0], [0.9, 0.0, 2.0], [1.5, 0.6, 2.5]]
    found = verdict(courses(course("helpful", 0, FELL, [0.7] * 3), course("helpful", 1, other, [0.7] * 3)))
    assert (found.course.repeat, found.steps, found.helps) == (1, 1, True)
    assert found.change.mean == pytest.approx(-(1.1 + 1.0 + 1.0) / 3)
    assert found.before == pytest.approx(2.0)
    assert found.lost is None


def test_steps_that_break_the_rest_are_passed_over() -> None:
    walks = courses(course("helpful", 0, FELL, [0.7, 0.69, 0.6]))
    found = verdict(walks, guarded="original", tolerance=0.02)
    assert (found.steps, found.helps) == (1, True)
    assert found.lost == pytest.approx(0.01)
    blunt = verdict(walks, guarded="original", tolerance=0.2)
    assert (blunt.steps, blunt.helps) == (2, True)
    strict = verdict(walks, guarded="original", tolerance=0.0)
    assert (strict.steps, strict.helps) == (2, False)
    words = " ".join(tell_verdict(strict, tolerance=0.0))
    assert "Every step loses more than the 0 points" in words
    assert "changes by -10.0 points" in words


def test_what_may_be_chance_does_not_help() -> None:
    doubtful = [[2.0, 1.0, 3.0], [1.0, 1.4, 2.9], [1.2, 1.6, 2.8]]
    found = verdict(courses(course("helpful", 0, doubtful, [0.7] * 3)))
    assert found.change.mean < 0
    assert not found.helps
    assert "the interval reaches zero" in " ".join(tell_verdict(found, tolerance=0.02))
    rose = [[2.0, 1.0, 3.0], [2.1, 1.1, 3.1], [2.2, 1.2, 3.2]]
    found = verdict(courses(course("helpful", 0, rose, [0.7] * 3)))
    assert (found.steps, found.helps) == (1, False)
    words = " ".join(tell_verdict(found, tolerance=0.02))
    assert "no step lowers that loss" in words
    assert "from 2.0000 to 2.1000 (loss +0.1000 each time)" in words
    one = verdict(courses(course("helpful", 0, [[2.0], [1.0], [0.5]], [0.7] * 3)))
    assert not one.helps  # a single anchor has no interval


def test_a_lower_loss_with_fewer_right_does_not_help() -> None:
    right = [[True, True, False], [True, False, False], [True, False, False]]
    found = verdict(courses(course("helpful", 0, FELL, [0.7] * 3, right=right)))
    assert found.change.is_below_zero
    assert not found.helps
    assert "fewer of them are predicted right" in " ".join(tell_verdict(found, tolerance=0.02))


def test_a_lower_loss_that_changes_no_prediction_does_not_help() -> None:
    walks = courses(course("helpful", 0, FELL, [0.7] * 3, right=[[False] * 3] * 3))
    found = verdict(walks)
    assert found.change.is_below_zero
    assert (found.turned, found.helps) == (0, False)
    words = tell_verdict(found, tolerance=0.02, plan=walks.plan)[-1]
    assert "the loss falls by so little" in words
    assert "--learning-rate 0.003, where it was 0.0001" in words
    assert "Take larger steps, or more of them." in tell_verdict(found, tolerance=0.02)[-1]
    walks = courses(course("helpful", 0, FELL, [0.7] * 3, right=[[True] * 3] * 3))
    assert "all of these anchors right as it is" in tell_verdict(verdict(walks), tolerance=0.02, plan=walks.plan)[-1]


def test_without_held_out_anchors_there_is_no_verdict() -> None:
    with pytest.raises(DataError, match="no anchors were held out"):
        verdict(courses(course("helpful", 0, [[], [], []], [0.7] * 3)))


def test_a_course_in_words() -> None:
    walks = [course("helpful", repeat, FELL, [0.7] * 3) for repeat in range(2)]
    walks += [course("random", repeat, FELL, [0.7] * 3) for repeat in range(2)]
    words = tell(courses(*walks), what="rows")
    assert words[0].startswith("2 times one gradient step at rate 0.0001 on 3 rows, chosen for 3 anchors drawn anew")
    assert words[1].startswith(
        "fails (40 examples): with the most helpful rows, mean loss 1.0000 -> 0.7950, accuracy 50.0% -> 60.0%"
    )
    assert "no clear difference to random rows (loss +0.0000 each time" in words[1]
    assert "less sure" not in words[1]
    assert words[3].startswith("original (50 examples)")
    short = tell(courses(course("helpful", 0, FELL, [0.7] * 3, chosen=2), update="newton"))
    assert "one Newton step at rate 1" in short[0]
    assert "In 2 of 2 steps fewer than 3 examples were helpful; it was taken on those." in short
    assert "nothing says how much of this is chance" in short[-1]


def test_a_loss_that_falls_alone_is_called_what_it_is() -> None:
    walk = course("helpful", 0, FELL, [0.7] * 3)
    walk.accuracies[:] = walk.accuracies[0]
    words = tell(courses(walk))
    assert "less sure, not better" in words[1]
    assert "less sure, not better" not in words[3]  # where the loss rose

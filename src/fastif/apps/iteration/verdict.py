"""Verdict: whether a correction is worth keeping, and after how many steps, by anchors that were kept aside for that.

The test set has no part in it. Knows courses, and no model.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fastif.apps.iteration.courses import Course, Courses
from fastif.apps.iteration.plan import Kind
from fastif.errors import DataError
from fastif.intervals import Interval, mean_interval


@dataclass(frozen=True)
class Verdict:
    """The step at which the held-out anchors fare best, and whether that is good enough.

    Args:
        course: the walk.
        steps: how many steps of it.
        before: the mean loss of the held-out anchors at the start.
        change: of their loss, over these anchors one by one.
        accuracy: the share of them that is predicted right, at the start and there.
        turned: how many of them are predicted right there and were not at the start, or the other way round.
        lost: how much accuracy the guarded part has lost there; None where nothing is guarded.
        helps: whether the change is below zero beyond doubt, some turned, the accuracy is no lower, and no more is lost
            than may be.
    """

    course: Course
    steps: int
    before: float
    change: Interval
    accuracy: tuple[float, float]
    turned: int
    lost: float | None
    helps: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "kind": self.course.kind,
            "repeat": self.course.repeat,
            "steps": self.steps,
            "held_out_examples": self.change.count,
            "held_out_loss_before": self.before,
            "held_out_loss_change": self.change.as_json(),
            "held_out_accuracy_before": self.accuracy[0],
            "held_out_accuracy_after": self.accuracy[1],
            "held_out_examples_turned": self.turned,
            "original_accuracy_lost": self.lost,
            "helps": self.helps,
        }


def verdict(
    courses: Courses, kind: Kind = "helpful", *, guarded: str | None = None, tolerance: float = 0.02
) -> Verdict:
    """Find the step of all repeats of a kind after which the mean loss of the held-out anchors is lowest.

    Of the steps that lose no more accuracy than `tolerance` on the guarded set if there are such. The correction helps
    if there are, if the 95 % interval of the change over the held-out anchors is below zero, if what is predicted of
    some of them has turned (a step too small for that mends nothing), and if no fewer are predicted right. As the best
    of several steps is looked at, that is a little hopeful; what the correction is worth is for the test set to say.
    """
    walks = courses.courses[kind]
    if not walks[0].held_out.shape[1]:
        raise DataError("no anchors were held out, so that nothing can tell whether a correction helps.")
    number = next((row for row, part in enumerate(courses.parts) if part.set == guarded and part.slice is None), None)
    found = [
        (_lost(walk, step, number), float(walk.held_out[step].mean()), walk, step)
        for walk in walks
        for step in range(1, courses.plan.steps + 1)
    ]
    allowed = [each for each in found if each[0] is None or each[0] <= tolerance]
    lost, _, walk, step = min(allowed or found, key=lambda each: each[1])
    change = mean_interval(walk.held_out[step] - walk.held_out[0])
    before, right = float(walk.held_out[0].mean()), walk.held_out_right.double().mean(dim=1)
    accuracy = float(right[0]), float(right[step])
    turned = int((walk.held_out_right[step] != walk.held_out_right[0]).sum())
    helps = bool(allowed) and change.is_below_zero and turned > 0 and accuracy[1] >= accuracy[0]
    return Verdict(walk, step, before, change, accuracy, turned, lost, helps)


def _lost(walk: Course, step: int, part: int | None) -> float | None:
    if part is None:
        return None
    accuracies: Tensor = walk.accuracies[:, part]
    return float(accuracies[0] - accuracies[step])

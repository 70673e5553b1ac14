"""What came of an iteration, in plain sentences made of its numbers. Knows courses and verdicts, and no terminal."""

from fastif.apps.iteration.courses import START, Courses, Measure
from fastif.apps.iteration.plan import Kind, Plan
from fastif.apps.iteration.verdict import Verdict
from fastif.apps.iteration.watching import Part
from fastif.intervals import Interval

NAMES: dict[Kind, str] = {
    "helpful": "the most helpful {what}",
    "harmful": "the most harmful {what}",
    "random": "random {what}",
    "anchors": "the anchors themselves",
}
MOST_PARTS = 8
LARGER = {"gradient": 30, "newton": 3}  # times the rate, to try next where no prediction has changed


def tell(courses: Courses, *, what: str = "training examples") -> list[str]:
    """Return what was done and what was seen; `what` is how the examples of the pool are called."""
    plan = courses.plan
    repeats = "once" if plan.repeats == 1 else f"{plan.repeats} times, with other draws"
    kind = "one Newton step" if plan.update == "newton" else "one gradient step"
    ranked = {
        "finetune-step": "what such a step on them changes now",
        "retrain": "what training on them more would change",
    }
    lines = [
        f"{plan.steps} times {kind} at rate {plan.rate:g} on {plan.examples} {what}, chosen for {plan.anchors} anchors "
        f"drawn anew each time, by {ranked[plan.ranked_by]}; all of it {repeats}."
    ]
    main = next((kind for kind in ("helpful", *courses.kinds) if kind in courses.kinds), None)
    if main is None:
        return lines
    for number, part in enumerate(courses.parts[:MOST_PARTS]):
        lines.append(_part(courses, main, number, part, what))
    if len(courses.parts) > MOST_PARTS:
        lines.append(f"... and {len(courses.parts) - MOST_PARTS} more parts, in the table and the figure.")
    for short, count in courses.short_steps().items():
        every = plan.steps * plan.repeats
        lines.append(
            f"In {count} of {every} steps fewer than {plan.examples} examples were {short}; it was taken on those."
        )
    if plan.repeats == 1:
        lines.append("There is one repeat, so that nothing says how much of this is chance. Take more with --repeats.")
    return lines


def _part(courses: Courses, kind: Kind, number: int, part: Part, what: str) -> str:
    losses, accuracies = (courses.values(kind, measure)[:, :, number] for measure in ("loss", "accuracy"))
    name = NAMES[kind].format(what=what)
    words = (
        f"{part.title} ({part.examples:,} examples): with {name}, mean loss {losses[:, 0].mean():.4f} -> "
        f"{losses[:, -1].mean():.4f}, accuracy {accuracies[:, 0].mean():.1%} -> {accuracies[:, -1].mean():.1%}"
    )
    fell = courses.difference(kind, START, part=number, measure="loss")
    rose = courses.difference(kind, START, part=number, measure="accuracy")
    if fell.mean < 0 and not rose.is_above_zero and rose.mean < 0.01:
        words += " (the loss falls and the accuracy does not rise: the model has become less sure, not better)"
    others = [other for other in ("random", "anchors") if other in courses.kinds and other != kind]
    beside = [_beside(courses, kind, other, number, what) for other in others]
    return words + "".join(f"; {each}" for each in beside) + "."


def _beside(courses: Courses, kind: Kind, other: Kind, number: int, what: str) -> str:
    loss = courses.difference(kind, other, part=number, measure="loss")
    accuracy = courses.difference(kind, other, part=number, measure="accuracy")
    name = NAMES[other].format(what=what)
    return f"{_better(loss)} {name} ({interval_in_words(loss, 'loss')}; {interval_in_words(accuracy, 'accuracy')})"


def _better(loss: Interval) -> str:
    if loss.low is None:
        return "lower loss than" if loss.mean < 0 else "no lower loss than"
    if loss.is_below_zero:
        return "better than"
    return "worse than" if loss.is_above_zero else "no clear difference to"


def interval_in_words(found: Interval, measure: Measure) -> str:
    """Return a difference with its interval.

    >>> interval_in_words(Interval(-0.0213, -0.03, -0.0126, 3), "accuracy")
    'accuracy -2.1 points, 95 % interval -3.0 to -1.3'
    """
    scale, digits, unit = (100.0, 1, " points") if measure == "accuracy" else (1.0, 4, "")
    words = f"{measure} {_signed(scale * found.mean, digits)}{unit}"
    if found.low is None or found.high is None:
        return words
    low, high = (_signed(scale * limit, digits) for limit in (found.low, found.high))
    if low == high:
        return f"{words} each time"
    return f"{words}, 95 % interval {low} to {high}"


def _signed(value: float, digits: int) -> str:
    """Return a number with its sign, of which zero has but one."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def tell_verdict(
    found: Verdict, *, tolerance: float, what: str = "training examples", plan: Plan | None = None
) -> list[str]:
    """Return whether the correction helps, and by how much, in words; with a plan also what rate to try next."""
    steps = f"{found.steps} step{'' if found.steps == 1 else 's'} on {NAMES[found.course.kind].format(what=what)}"
    change = (
        f"the mean loss of the {found.change.count} anchors held out for choosing goes from {found.before:.4f} "
        f"to {found.before + found.change.mean:.4f} ({interval_in_words(found.change, 'loss')}), and their accuracy "
        f"from {found.accuracy[0]:.1%} to {found.accuracy[1]:.1%}"
    )
    lines = [f"After {steps} (repeat {found.course.repeat + 1}), {change}."]
    if found.lost is not None:
        lines.append(f"There, accuracy on the original data changes by {_signed(-100 * found.lost, 1)} points.")
    if found.helps:
        lines.append("That helps.")
    elif found.lost is not None and found.lost > tolerance:
        lines.append(
            f"Every step loses more than the {100 * tolerance:g} points on the original data that may be lost."
        )
    elif found.change.mean >= 0:
        lines.append("It did not help: no step lowers that loss.")
    elif not found.turned:
        lines.append(_too_little(found, plan))
    elif found.change.is_below_zero:
        lines.append("It did not help: fewer of them are predicted right.")
    else:
        lines.append("It did not help beyond doubt: the interval reaches zero.")
    return lines


def _too_little(found: Verdict, plan: Plan | None) -> str:
    """Return what to say where the loss falls and no prediction of the held-out anchors has turned."""
    if found.accuracy[0] == 1:
        return "It did not help: the model predicts all of these anchors right as it is, and none turned."
    words = "It did not help: the loss falls by so little that no wrong prediction becomes right"
    if plan is None:
        return f"{words}. Take larger steps, or more of them."
    return (
        f"{words}. Take larger steps: --learning-rate {LARGER[plan.update] * plan.rate:g}, where it was "
        f"{plan.rate:g}; or more of them, with --steps."
    )

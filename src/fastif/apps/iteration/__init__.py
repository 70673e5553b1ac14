"""The paper's iteration: anchors are drawn, examples are ranked for them, one step is taken; and again.

    from fastif.apps.iteration import Iteration, Plan, Sets

    sets = Sets(pool=train, anchors=anchors, watched={"test": test, "original": original})
    courses = Iteration(model, sets, plan=Plan(nearest=1000, repeats=3)).run()
    courses.difference("helpful", "random", part=0, measure="loss")

What is drawn and how is in `plan.py`, what examples are chosen at some weights in `weights.py`, what a step does in
`updates.py`, what is looked at after each in `watching.py`, the walk itself in `walking.py`, the same for each slice of
the anchors in `slices.py`, what came of it in `courses.py`, which steps are worth keeping in `verdict.py`, all that in
words in `telling.py`, and what must hold of the data before anything else in `material.py`.
"""

from fastif.apps.iteration.courses import Course, Courses, Measure
from fastif.apps.iteration.material import check_material, keys_of, only_slice
from fastif.apps.iteration.plan import KINDS, Effect, Kind, Plan, Update
from fastif.apps.iteration.slices import by_anchor_slice
from fastif.apps.iteration.verdict import Verdict, verdict
from fastif.apps.iteration.walking import Iteration, Sets
from fastif.apps.iteration.watching import Part

__all__ = [
    "KINDS",
    "Course",
    "Courses",
    "Effect",
    "Iteration",
    "Kind",
    "Measure",
    "Part",
    "Plan",
    "Sets",
    "Update",
    "Verdict",
    "by_anchor_slice",
    "check_material",
    "keys_of",
    "only_slice",
    "verdict",
]

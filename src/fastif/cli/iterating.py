"""The work that `fastif correct` and `fastif augment` share: walks, a verdict, a checkpoint, a figure, a run directory.

Knows how a result is made and where it is written; how it is shown is in draw_correction.py.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from fastif.apps.iteration import KINDS, Courses, Iteration, Kind, Plan, Sets, verdict
from fastif.apps.iteration.telling import tell, tell_verdict
from fastif.cli import pictures
from fastif.cli import solver as solver_of
from fastif.cli.console import note
from fastif.cli.loading import plain_arguments
from fastif.cli.material import Material
from fastif.errors import ConfigurationError
from fastif.integrations.tables import TextTable
from fastif.keeping import Keep
from fastif.prefix import PrefixCache
from fastif.progress import Progress
from fastif.store import RunStore

TEST, ORIGINAL = "test", "original"
CHECKPOINT = "model"
COMMANDS = {"correction": "correct", "augmentation": "augment"}
SHOWN = 10  # chosen examples in a result
NOT_IN_REQUEST = ("out", "export", "force", "trust_remote_code", "as_json")  # what changes nothing of the work


def plan_of(it: SimpleNamespace) -> Plan:
    """Return the plan that the arguments ask for."""
    return Plan(
        steps=it.steps,
        anchors=it.draw,
        examples=it.examples,
        update=str(it.update),  # type: ignore[arg-type]
        learning_rate=it.learning_rate,
        effect=None if it.effect is None else str(it.effect),  # type: ignore[arg-type]
        curvature=str(it.curvature),  # type: ignore[arg-type]
        nearest=it.nearest,
        repeats=it.repeats,
        seed=it.seed,
    )


def kinds_of(it: SimpleNamespace) -> list[Kind]:
    """Return the kinds of examples to compare, that which is to be written among them."""
    names = [name.strip() for name in it.kinds.split(",") if name.strip()]
    unknown = [name for name in (*names, it.write) if name not in KINDS]
    if unknown:
        raise ConfigurationError(f"there is no kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}.")
    if it.write not in names:
        raise ConfigurationError(f"--write {it.write} is not among the --kinds {it.kinds}.")
    return names


def options_of(it: SimpleNamespace, material: Material, states: Path | None) -> dict[str, Any]:
    """Return the options of explainers: those of the run, but for what is given; states are kept in the directory."""
    settings = material.opened.settings
    cache: PrefixCache = settings["prefix_cache"]
    if cache.directory is None and states is not None:
        settings["prefix_cache"] = PrefixCache(directory=states, storage=cache.storage)
    if it.damping is not None:
        given = material.opened.arguments
        settings |= solver_of.asked(given["solver"], it.damping, given["seed"])
    return settings


def walks(it: SimpleNamespace, material: Material, keep: Keep, states: Path | None, progress: Progress) -> Iteration:
    """Return the walks that are asked for, ready to be walked."""
    drawn, held_out = material.split
    if it.draw > len(drawn):
        note(
            f"  {it.draw} anchors are to be drawn for each step, and there are {len(drawn)}: each step takes them all."
        )
    if material.original is None:
        note(f"  Original data: a sample of {len(material.original_examples):,} training examples; --original sets it.")
    assert material.test_examples is not None
    sets = Sets(
        pool=material.opened.train if material.pool_examples is None else material.pool_examples,
        anchors=drawn,
        watched={TEST: material.test_examples, ORIGINAL: material.original_examples},
        held_out=held_out,
        hessian_data=None if material.pool_examples is None else material.opened.train,
    )
    options = options_of(it, material, states)
    return Iteration(material.opened.model, sets, plan=plan_of(it), options=options, keep=keep, progress=progress)


def head_of(command: str, it: SimpleNamespace, material: Material) -> dict[str, Any]:
    """Return what a result begins with."""
    model = material.opened.model
    return {
        "command": command,
        "run": str(it.run),
        "model": model.name,
        "influence_through": model.parameters_in_words(),
        "data": material.as_json(),
    }


def judged(it: SimpleNamespace, material: Material, courses: Courses, *, what: str) -> dict[str, Any]:
    """Return everything that is told of some walks, as JSON can hold it."""
    told = None
    summary = tell(courses, what=what)
    if material.split[1] is not None:
        found = verdict(courses, it.write, guarded=ORIGINAL, tolerance=it.tolerance)
        told = found.as_json()
        summary += tell_verdict(found, tolerance=it.tolerance, what=what, plan=courses.plan)
    table = material.opened.table if material.pool is None else material.pool
    return {
        **courses.as_json(),
        "chosen_examples": {kind: _most_chosen(courses, kind, table) for kind in courses.kinds if kind in KINDS[:2]},
        "verdict": told,
        "kind_to_write": it.write,
        "tolerance": it.tolerance,
        "summary": summary,
    }


def write_checkpoint(
    it: SimpleNamespace, material: Material, iteration: Iteration, result: dict[str, Any], place: Path
) -> str | None:
    """Write the corrected model where it helps or is forced, and return where; None if it is not written."""
    from fastif.integrations.huggingface.corrected import save_corrected

    found = result["verdict"]
    if not it.force and (found is None or not found["helps"]):
        return None
    kind: Kind = it.write
    repeat, steps = (0, it.steps) if found is None else (found["repeat"], found["steps"])
    course = next(one for one in result["courses"] if one["kind"] == kind and one["repeat"] == repeat)
    chosen = [torch.tensor(ids, dtype=torch.int64) for ids in course["chosen"][:steps]]
    parameters = iteration.parameters_after(kind, chosen)
    table = material.opened.table if material.pool is None else material.pool
    words = {
        "from": material.opened.model.name,
        "kind": kind,
        "steps": steps,
        "plan": result["plan"],
        "source": (material.anchors if kind == "anchors" else table).source,
        "rows": [ids.tolist() for ids in chosen],
        "verdict": found,
        "forced": found is None or not found["helps"],
    }
    if place.exists():
        shutil.rmtree(place)  # of a run that was stopped after it had written it
    save_corrected(material.opened.model, parameters, place, words=words)
    return str(place)


def into_run(
    name: str,
    arguments: dict[str, Any],
    material: Material,
    *,
    make: Callable[[RunStore], dict[str, Any]],
    force: Callable[[RunStore, dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Do the work in a run directory, or what is left of it; a finished one may get the checkpoint it was denied."""
    from fastif.integrations.huggingface.corrected import check_can_be_saved

    it = SimpleNamespace(**arguments)
    check_can_be_saved(material.opened.model)
    options_of(it, material, None)  # what is wrong with them is said before the directory is taken
    plain = {name: value for name, value in plain_arguments(arguments).items() if name not in NOT_IN_REQUEST}
    command, file = COMMANDS[name], f"{name}.json"
    with RunStore.begin(it.out, {"command": command, "arguments": plain, "read": material.hashes()}) as store:
        if store.is_complete:
            result: dict[str, Any] = store.json(file)
            note(f"{it.out} is a finished run of the same request; this is what it found.")
            if not it.force or result.get("checkpoint", "") is not None:
                return result
            result = force(store, result)
        else:
            result = make(store)
        store.add_json(file, result)
        store.finish()
    return result


def draw_figure(store: RunStore, result: dict[str, Any], name: str, *, title: str) -> None:
    """Add the figure to a run, where matplotlib is installed."""
    if not pictures.are_possible():
        return
    figure = pictures.plots("correction").draw_courses(result, title=title)
    for file in pictures.write(figure, store.path / name, ["png"]):
        store.note(Path(file).name)


def _most_chosen(courses: Courses, kind: Kind, table: TextTable) -> list[dict[str, Any]]:
    """Return the examples that steps were taken on most often; of equals, those that were chosen first."""
    ids = [index for one in courses.courses[kind] for step in one.chosen for index in step.tolist()]
    return [
        {
            "index": index,
            "line": table.lines[index],
            "text": table.texts[index],
            "text_pair": None if table.pairs is None else table.pairs[index],
            "label": None if table.labels is None else table.labels[index],
            "times": times,
        }
        for index, times in Counter(ids).most_common(SHOWN)
    ]

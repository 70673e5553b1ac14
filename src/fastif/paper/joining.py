"""Joining: other ways to rank that were walked in a run of their own, beside a published result that lacks them.

The walks of all models and those of other rankings, from the first model alone, do not need each other: what a run did
not come to can be made later, with `fastif reproduce NAME --ranking ...`. It stays a group of its own, with the paper's
ranking walked in the same run to compare with, the hash of the model and where it was computed. Knows results as JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastif.errors import ConfigurationError
from fastif.paper.ranked_walks import SAME
from fastif.paper.unfinished import NOT_FINISHED, still_not_finished

Result = dict[str, Any]
CHANGES = ("changes", "comparisons")  # what the rows of a ranking are called, in corrections and in amazon
OWN = ("checkpoints", "repeats", "variants")  # settings in which such a run differs


def joins(about: Mapping[str, Any]) -> bool:
    """Whether a result is one of other rankings alone."""
    return bool(about["request"].get("joins"))


def joined(before: Result, about: Result) -> Result:
    """Return a published result with the rankings of another beside it, in place of those that had joined it before."""
    differ = _differences(before, about)
    if differ:
        raise ConfigurationError(
            f"other ways to rank of {about['experiment']} cannot stand beside what is published of it, which was asked "
            f"for otherwise: {', '.join(differ)} differ. Run them with its scale, data, model and seed."
        )
    group = {
        **about["result"]["variants"],
        "model": about["models"][0],
        "is_same_model": _weights(about) == _weights(before),
        "environment": about["environment"],
        "notes": [note for note in about["result"]["notes"] if not note.startswith(NOT_FINISHED)],
    }
    there = [name for name in names_of(before["result"]["variants"]) if name in names_of(group)]
    if there or not names_of(group):
        seen = f"it has {'; '.join(there)} already" if there else "none of those that were asked for is finished"
        raise ConfigurationError(f"other ways to rank of {about['experiment']} have nothing to add: {seen}.")
    return _with_groups(before, [*before["result"].get("joined", []), group])


def carried_over(before: Result | None, made: Result) -> Result:
    """Return a result that is published once more with the rankings that had joined it, if it was asked for alike."""
    groups = [] if before is None else before["result"].get("joined", [])
    return made if not groups or _differences(before or {}, made) else _with_groups(made, groups)


def _with_groups(about: Result, groups: Sequence[Result]) -> Result:
    """Return a result with groups of rankings beside its own; of one name its own stay, and else the last."""
    result, kept = about["result"], list[Result]()
    for group in reversed(groups):
        known = [name for each in (result["variants"], *kept) for name in names_of(each)]
        left = _without(group, known)
        if names_of(left):
            kept.insert(0, left)
    notes = still_not_finished(result["notes"], [name for group in kept for name in names_of(group)])
    return {**about, "result": {**result, "joined": kept, "notes": notes}}


def groups_of(result: Mapping[str, Any]) -> list[Result]:
    """Return the other ways to rank: those of the result's own run, if it has some, then those that joined it."""
    return [each for each in (result.get("variants", {}), *result.get("joined", [])) if names_of(each)]


def names_of(group: Mapping[str, Any]) -> list[str]:
    """Return the rankings of a group but for the paper's own."""
    return [name for key in CHANGES for name in group.get(key, {}) if name != SAME]


def whence(group: Mapping[str, Any]) -> str:
    """Return in words which model a group was walked from, and where that is not the result's own run."""
    if "model" not in group:
        return "from the first model alone"
    model, where = group["model"], group["environment"]
    first = "the same first model" if group["is_same_model"] else "another training of the first model"
    return (
        f"in a later run ({where['hardware']}, commit {where['commit']}), from {first} alone "
        f"({model['name']}, weights {model['weights_sha256'][:12]})"
    )


def _without(group: Result, names: list[str]) -> Result:
    return {
        key: {name: rows for name, rows in value.items() if name not in names} if key in CHANGES else value
        for key, value in group.items()
    }


def _weights(about: Mapping[str, Any]) -> str:
    return str(about["models"][0]["weights_sha256"])


def _differences(before: Result, about: Result) -> list[str]:
    """Return in what the two were asked for otherwise, but for what a run of rankings alone has of its own."""
    one, other = (_asked(each["request"]) for each in (before, about))
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _asked(request: Mapping[str, Any]) -> Result:
    """Return all that was asked for in one dictionary; what settings and experiments are called is not the same."""
    settings = request["settings"]
    experiment = {key: value for key, value in settings["experiment"].items() if key not in OWN}
    apart = ("settings", "experiment", "joins")
    return {key: value for key, value in {**experiment, **settings, **request}.items() if key not in apart}

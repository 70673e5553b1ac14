"""Joining: other ways to rank that were walked in a run of their own, beside a published result that lacks them.

The walks of all models and those of other rankings, from the first model alone, do not need each other: what a run did
not come to can be made later, with `fastif reproduce NAME --ranking ...`. It stays a group of its own, with the paper's
ranking walked in the same run to compare with, the hash of the model and where it was computed. Knows results as JSON.
"""

from collections.abc import Mapping
from typing import Any

from fastif.errors import ConfigurationError
from fastif.paper.ranked_walks import SAME
from fastif.paper.unfinished import NOT_FINISHED, not_finished

Result = dict[str, Any]
CHANGES = ("changes", "comparisons")  # what the rows of a ranking are called, in corrections and in amazon
OWN = ("checkpoints", "repeats", "variants", "joins")  # settings in which such a run differs


def joins(about: Mapping[str, Any]) -> bool:
    """Whether a result is one of other rankings alone."""
    return bool((about["request"]["settings"]["experiment"] or {}).get("joins"))


def joined(before: Result, about: Result) -> Result:
    """Return a published result with the rankings of another beside it; what was there by the same name is replaced."""
    _check_alike(before, about)
    result = before["result"]
    group = {
        **about["result"]["variants"],
        "model": about["models"][0],
        "is_same_model": _weights(about) is not None and _weights(about) == _weights(before),
        **{key: about[key] for key in ("environment", "processes", "time")},
    }
    groups = [each for each in (_without(old, names_of(group)) for old in result.get("joined", [])) if names_of(each)]
    groups.append(group)
    wanted = [variant["name"] for variant in before["request"]["settings"]["experiment"]["variants"]]
    there = {name for each in (result["variants"], *groups) for name in names_of(each)}
    notes = [note for note in result["notes"] if not note.startswith(NOT_FINISHED)]
    notes += not_finished([name for name in wanted if name not in there])
    return {**before, "result": {**result, "joined": groups, "notes": notes}}


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


def _weights(about: Mapping[str, Any]) -> str | None:
    found: str | None = about["models"][0]["weights_sha256"]
    return found


def _check_alike(before: Result, about: Result) -> None:
    """Raise unless both were asked for alike, but for what such a run has of its own."""
    one, other = (_asked(each["request"]) for each in (before, about))
    differ = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    if differ:
        raise ConfigurationError(
            f"other ways to rank of {about['experiment']} cannot stand beside what is published of it, which was asked "
            f"for otherwise: {', '.join(differ)} differ. Run them with its scale, data, model and seed."
        )


def _asked(request: Mapping[str, Any]) -> Result:
    settings = request["settings"]
    experiment = {key: value for key, value in settings["experiment"].items() if key not in OWN}
    return {**request, **settings, **experiment, "settings": None, "experiment": None}

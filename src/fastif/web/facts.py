"""What a reader should know of how the scores were made, each fact with a sentence that says what it means.

Knows provenance as `Scores` carries it. What is not known is said to be unknown, and never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNKNOWN = "not recorded"
MEANINGS = {
    "Method": "How the inverse of the curvature was applied to each prediction's gradient.",
    "Damping": "Added to the curvature so that its inverse exists; with more of it, large curvature counts for less.",
    "Residual": "How far the solve is from exact, at worst: the relative error that is left over.",
    "Candidates": "Which training examples were scored for each prediction.",
    "Estimated recall": "The share of the truly strongest examples that were scored at all.",
    "Parameters": "The part of the model that influence was traced through; frozen layers say nothing here.",
    "Training data": "The file, and the beginning of its sha256: another hash is other data.",
    "Made with": "The versions of the program that computed the scores.",
}
Value = tuple[str, str]  # in full, and in a few words


@dataclass(frozen=True)
class Fact:
    """A name, a value as a person reads it, the same in a few words, and one sentence on what it means."""

    name: str
    value: str
    brief: str
    meaning: str


def facts(explanation: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[Fact]:
    """Return the facts, always the same ones and in this order."""
    train = explanation.get("train") or {}
    through = str(explanation.get("influence_through") or UNKNOWN)
    values = {
        "Method": _method(provenance),
        "Damping": _damping(provenance),
        "Residual": _residual(provenance),
        "Candidates": _candidates(provenance, train),
        "Estimated recall": _recall(provenance),
        "Parameters": (through, through.split(" of ")[0].split(":")[0]),
        "Training data": _data(train),
        "Made with": _versions(provenance),
    }
    return [Fact(name, *values[name], meaning) for name, meaning in MEANINGS.items()]


def _method(provenance: Mapping[str, Any]) -> Value:
    words = [str(provenance[name]) for name in ("curvature", "method") if provenance.get(name)]
    return ", ".join(words) or UNKNOWN, ", ".join(each.split(", ")[0] for each in words) or UNKNOWN


def _damping(provenance: Mapping[str, Any]) -> Value:
    value = provenance.get("damping")
    if not isinstance(value, int | float):
        return ("none", "none") if "damping" in provenance else (UNKNOWN, UNKNOWN)
    chosen = provenance.get("damping_chosen_by")
    return f"{value:.3g}" + (f", {chosen}" if chosen else ""), f"{value:.3g}"


def _residual(provenance: Mapping[str, Any]) -> Value:
    known = [each for each in provenance.get("residuals") or () if isinstance(each, int | float)]
    if not known:
        return UNKNOWN, UNKNOWN
    failed = sum(not flag for flag in provenance.get("converged") or ())
    words = f"{max(known):.1e}" + (f"; {failed} of {len(known)} did not converge" if failed else "")
    return words, words


def _candidates(provenance: Mapping[str, Any], train: Mapping[str, Any]) -> Value:
    words = str(provenance.get("candidates") or UNKNOWN)
    count = train.get("examples") or provenance.get("train_examples")
    words = f"all {count:,}" if words == "all" and count else words
    return words, words if len(words) < 40 else words[:38] + "…"


def _recall(provenance: Mapping[str, Any]) -> Value:
    if provenance.get("candidates") == "all":
        return "100 %, as all were scored", "100 %"
    recall = provenance.get("candidate_recall") or {}
    if recall.get("estimate") is None:
        return UNKNOWN, UNKNOWN
    error = recall.get("standard_error")
    spread = f" ± {100 * error:.1f} %" if isinstance(error, int | float) else ""
    words = f"{100 * recall['estimate']:.1f} %{spread}"
    return f"{words}, of the {recall.get('at', 0):,} strongest", words


def _data(train: Mapping[str, Any]) -> Value:
    source, digest = train.get("source"), str(train.get("sha256") or "")[:12]
    return (f"{source}, sha256 {digest}", digest) if source and digest else (UNKNOWN, UNKNOWN)


def _versions(provenance: Mapping[str, Any]) -> Value:
    words = ", ".join(f"{name} {provenance[name]}" for name in ("fastif", "torch") if provenance.get(name)) or UNKNOWN
    return words, words

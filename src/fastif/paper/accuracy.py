"""How good the task models are, as markdown: a table for each set that they are measured on, a line for each model.

Knows records of trainings; not how a model is trained or measured.
"""

from collections.abc import Mapping
from typing import Any

from fastif.measuring.words import markdown

TITLE = "Accuracy of the task models"
ALL = "all"
BY_PART = ("ANLI", "reviews")  # by round, and by domain
BY_PART_AND_LABEL = ("HANS",)


def accuracy_tables(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the accuracy of all models: on each set and, of HANS, ANLI and reviews, on their parts.

    A record has the encoder that the model was trained from, `base`, and its `accuracy` by set and part.

    >>> parts = {"all": {"accuracy": 0.7, "rows": 10}, "r1": {"accuracy": 0.5, "rows": 4}, "r1, entailment": {}}
    >>> print(accuracy_tables({"nli-3": {"base": "mpnet", "accuracy": {"ANLI": parts}}}))
    On ANLI, in per cent:
    <BLANKLINE>
    | model | encoder | all | r1 | rows |
    | --- | --- | --- | --- | --- |
    | nli-3 | mpnet | 70.0 | 50.0 | 10 |
    """
    sets = list(dict.fromkeys(name for record in records.values() for name in record.get("accuracy", {})))
    return "\n\n".join(_table(name, records) for name in sets)


def _table(name: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    known = {model: record for model, record in records.items() if name in record.get("accuracy", {})}
    parts = sorted({part for record in known.values() for part in record["accuracy"][name] if _is_shown(name, part)})
    rows = []
    for model, record in known.items():
        found = record["accuracy"][name]
        shares = [f"{100 * found[part]['accuracy']:.1f}" if part in found else "-" for part in (ALL, *parts)]
        rows.append([model, record["base"], *shares, f"{found[ALL]['rows']:,}"])
    return f"On {name}, in per cent:\n\n{markdown(['model', 'encoder', ALL, *parts, 'rows'], rows)}"


def _is_shown(name: str, part: str) -> bool:
    """Whether a part of a set has a column of its own; keys with a comma are of a part and a label."""
    if part == ALL:
        return False  # the first column of all
    return name in (BY_PART_AND_LABEL if ", " in part else BY_PART)

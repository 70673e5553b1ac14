"""The examples that an audit lists, as rows."""

from typing import TYPE_CHECKING, Any

from fastif.apps.audit import Audit, Ranking
from fastif.integrations.tables import TextTable

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextExamples


def suspects(
    found: Audit, examples: "TextExamples", table: TextTable, *, by: Ranking, top: int
) -> list[dict[str, Any]]:
    """Return the first examples of a ranking, as JSON can hold them."""
    return [_row(found, examples, table, index, rank) for rank, index in enumerate(found.ranking(by)[:top].tolist(), 1)]


def _row(found: Audit, examples: "TextExamples", table: TextTable, index: int, rank: int) -> dict[str, Any]:
    label = None if found.suggested is None else examples.name_of(found.suggested[index])
    probability = None if found.suggested_probability is None else float(found.suggested_probability[index])
    return {
        "line": table.lines[index],
        "text": table.texts[index],
        **({} if table.pairs is None else {"text_pair": table.pairs[index]}),
        "label": examples.name_of(examples.targets[index]),
        "suggested_label": label,
        "suggested_probability": probability,
        "loss": float(found.losses[index]),
        "loss_without": float(found.losses_without[index]),
        "self_influence": float(found.self_influence[index]),
        "self_influence_error": float(found.self_influence_error[index]),
        "rank": rank,
    }

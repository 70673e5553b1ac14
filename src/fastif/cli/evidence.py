"""What is told of each query: its examples, what they would change, and what simpler means would have found.

Makes plain JSON from an explainer; knows nothing of how it is shown.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from fastif.data import Examples
from fastif.explainer import Explainer
from fastif.explanation import Influence, QueryExplanation
from fastif.integrations.tables import TextTable
from fastif.scores import Scores

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier

MORE = 10  # neighbours are looked for among as many as are listed, and among so many times that


def explain_queries(
    explainer: Explainer, queries: Examples, asked: TextTable, train: TextTable, *, top: int, scores: Any = "all"
) -> tuple[dict[str, Any], Scores]:
    """Return everything that is told of the queries, and the scores of all training examples, or of the strongest."""
    explanation = explainer.explain(queries, top=top, scores=scores)
    listed = [[it.index for it in (*one.helpful, *one.harmful)] for one in explanation]
    losses = _own_losses(explainer, listed)
    near = explainer.nearest(queries, min(len(explainer.train), 2 * top * MORE))
    model = cast("TextClassifier", explainer.model)
    logits = model.logits(queries)
    told = [
        {
            **_query(model, asked, row, logits[row], one),
            **{
                name: [_member(it, train, losses, len(explainer.train), set(near[row].tolist())) for it in members]
                for name, members in (("helpful", one.helpful), ("harmful", one.harmful))
            },
            "nearest_neighbours_found": _found(near[row], listed[row]),
        }
        for row, one in enumerate(explanation)
    ]
    return {
        "model": model.name,
        "influence_through": model.parameters_in_words(),
        "frozen_prefix": model.prefix or f"none: {model.why_no_prefix}",
        "train": {
            "source": train.source,
            "examples": len(train),
            "columns": str(train.columns),
            "sha256": train.sha256,
        },
        "queries": told,
        "how": explanation.summary,
        "provenance": dict(explanation.scores.provenance),
    }, explanation.scores


def _query(
    model: "TextClassifier", asked: TextTable, row: int, logits: Tensor, one: QueryExplanation
) -> dict[str, Any]:
    predicted, confidence = _prediction(model, logits)
    label = None if one.predicted or asked.labels is None else one.target or asked.labels[row]
    return {
        "text": asked.texts[row],
        "text_pair": None if asked.pairs is None else asked.pairs[row],
        "line": asked.lines[row],
        "slice": None if asked.slices is None else asked.slices[row],
        "label": label,
        "predicted": predicted,
        "confidence": confidence,
        "right": None if label is None or model.problem != "single-label" else label == predicted,
        "explained": "the prediction" if one.predicted else "the label",
        "target": one.target or predicted,
        "title": one.title,
        "measure": one.measure,
    }


def _prediction(model: "TextClassifier", logits: Tensor) -> tuple[Any, float | None]:
    """Return what the model says, in words, and its probability where it has one."""
    if model.problem == "single-label":
        best = int(logits.argmax())
        return model.label_names.get(best, str(best)), float(logits.softmax(dim=0)[best])
    if model.problem == "multi-label":
        return [
            model.label_names.get(number, str(number)) for number in (logits > 0).nonzero().flatten().tolist()
        ], None
    return logits.flatten().tolist() if logits.numel() > 1 else float(logits), None


def _member(it: Influence, train: TextTable, losses: dict[int, float], examples: int, near: set[int]) -> dict[str, Any]:
    return {
        "index": it.index,
        "line": train.lines[it.index],
        "text": train.texts[it.index],
        "text_pair": None if train.pairs is None else train.pairs[it.index],
        "label": it.label,
        "slice": None if train.slices is None else train.slices[it.index],
        "score": it.score,
        "error": it.error,
        "loss_change_without_it": -it.score / examples,
        "own_loss": losses[it.index],
        "near": it.index in near,
    }


def _own_losses(explainer: Explainer, listed: list[list[int]]) -> dict[int, float]:
    ids = sorted({index for row in listed for index in row})
    if not ids:
        return {}
    return dict(zip(ids, explainer.train_losses(torch.tensor(ids)).tolist(), strict=True))


def _found(near: Tensor, listed: list[int]) -> list[dict[str, int]]:
    """Return how many of the listed are among the nearest: as many as are listed, and ten times that."""
    wanted = set(listed)
    looked = sorted({min(len(near), len(listed)), min(len(near), MORE * len(listed))})
    return [{"among": k, "found": len(wanted & set(near[:k].tolist())), "of": len(listed)} for k in looked if k]

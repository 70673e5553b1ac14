"""Dense influence of models of texts: each text alone, at its own length, with no padding, by plain autograd."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests import oracles

Row = dict[str, Any]


class Logits(nn.Module):
    """The logits of a transformers model, of inputs by position."""

    def __init__(self, module: nn.Module, inputs: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.inputs = inputs

    def forward(self, *tensors: Tensor) -> Tensor:
        logits: Tensor = self.module(**dict(zip(self.inputs, tensors, strict=True))).logits
        return logits


def influence(
    module: nn.Module, names: Sequence[str], loss: str, train: Sequence[Row], queries: Sequence[Row], damping: float
) -> Tensor:
    """I[q, i] through the parameters called `names`; a row is a tokenised text and its target under "labels"."""
    inputs = [name for name in train[0] if name != "labels"]
    wrapped, names = Logits(module, inputs), [f"module.{name}" for name in names]
    seen, asked = ([_columns(row, inputs) for row in rows] for rows in (train, queries))
    matrix = torch.stack([oracles.dense_ggn(wrapped, names, loss, each) for each in seen]).mean(dim=0)
    gradients = [
        torch.cat([oracles.per_example_gradients(wrapped, names, loss, each) for each in rows])
        for rows in (asked, seen)
    ]
    return oracles.influence(gradients[0], matrix, gradients[1], damping)


def rows_of(tokenizer: Any, texts: Sequence[Any], targets: Sequence[Any]) -> list[Row]:
    """Tokenise one text (or pair of texts) at a time, so that there is no padding."""
    rows = []
    for text, target in zip(texts, targets, strict=True):
        parts = (text,) if isinstance(text, str) else text
        rows.append({**tokenizer(*parts), "labels": target})
    return rows


def _columns(row: Row, inputs: Sequence[str]) -> tuple[Tensor, ...]:
    target = torch.tensor([row["labels"]])
    return (
        *(torch.tensor([row[name]]) for name in inputs),
        target.double() if target.is_floating_point() else target,
    )


class NextToken(nn.Module):
    """What a language model says after the last of some tokens, which stand alone: no mask, no token behind them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.module(input_ids=ids, use_cache=False).logits[:, -1]
        return logits


def influence_on_texts(
    module: nn.Module,
    names: Sequence[str],
    train: Sequence[tuple[list[int], int]],
    queries: Sequence[tuple[list[int], int]],
    damping: float,
) -> Tensor:
    """I[q, i] of texts; each is its tokens, and the number of the first that is said. Each token is asked for alone."""
    wrapped, names = NextToken(module), [f"module.{name}" for name in names]

    def tokens(ids: list[int], first: int) -> list[tuple[Tensor, Tensor]]:
        return [(torch.tensor([ids[:end]]), torch.tensor([ids[end]])) for end in range(max(first, 1), len(ids))]

    def mean(function: Any, text: tuple[list[int], int]) -> Tensor:
        return torch.stack([function(wrapped, names, "cross_entropy", each) for each in tokens(*text)]).mean(dim=0)

    matrix = torch.stack([mean(oracles.dense_ggn, text) for text in train]).mean(dim=0)
    asked, seen = (torch.cat([mean(oracles.per_example_gradients, text) for text in rows]) for rows in (queries, train))
    return oracles.influence(asked, matrix, seen, damping)

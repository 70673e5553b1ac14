"""The last layer runs for the row that the head reads, where that is the first, and outputs do not change."""

from typing import Any

import pytest
import torch

from fastif.batch import STATES
from fastif.integrations.huggingface import TextClassifier
from fastif.integrations.huggingface.head_rows import HeadRows
from tests.integrations.huggingface import tiny

READ_FIRST = ("bert", "distilbert", "roberta", "mpnet", "electra", "deberta-v2", "lora")


def made(family: str, **options: Any) -> tuple[TextClassifier, dict[str, torch.Tensor]]:
    model = TextClassifier(tiny.module_of(family), tiny.tokenizer_of(family), **options)
    batch = model.place(model.examples(tiny.TEXTS, tiny.LABELS).batch(range(len(tiny.TEXTS))))
    model.check(batch)
    assert isinstance(batch.inputs, dict)
    with torch.no_grad():
        return model, {**batch.inputs, STATES: model.encode(batch)}


@pytest.mark.parametrize("family", READ_FIRST)
def test_outputs_and_gradients_are_those_of_all_rows(family: str) -> None:
    model, inputs = made(family)
    assert model._middle.head_rows.parts

    def run() -> tuple[torch.Tensor, ...]:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in model.parameters.items()}
        outputs = model.outputs(leaves, inputs)
        weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0), dtype=outputs.dtype)
        return outputs, *torch.autograd.grad((outputs * weights).sum(), list(leaves.values()), materialize_grads=True)

    fast = run()
    model._middle.head_rows = HeadRows({})
    for one, other in zip(fast, run(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("family", READ_FIRST)
def test_the_feed_forward_part_sees_one_row(family: str) -> None:
    model, inputs = made(family)
    seen: list[int] = []
    widest = max(
        (part for part in model._middle.head_rows.parts if isinstance(part, torch.nn.Linear)),
        key=lambda it: it.out_features,
    )
    original = widest.forward
    widest.forward = lambda given: (seen.append(given.shape[1]), original(given))[1]  # type: ignore[method-assign]
    model.outputs(model.parameters, inputs)
    assert seen == [1]


def test_a_head_that_reads_another_row_has_all_of_them() -> None:
    assert not made("gpt2")[0]._middle.head_rows.parts  # the last token


def test_rows_that_the_users_texts_need_are_given_back() -> None:
    model, _ = made("bert")
    model._middle._compared = None
    model._middle.head_rows = HeadRows({model.module.classifier: lambda forward: lambda given: forward(given) + 1.0})  # type: ignore[union-attr,dict-item]
    model.check(model.place(model.examples(tiny.TEXTS, tiny.LABELS).batch(range(4))))
    assert not model._middle.head_rows.parts

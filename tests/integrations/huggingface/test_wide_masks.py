"""Masks that are wide already: the same outputs, and `vmap` goes through models that look into narrow ones."""

import pytest
import torch
from torch.func import vmap

from fastif.batch import STATES
from fastif.integrations.huggingface import TextClassifier, wide_masks
from tests.integrations.huggingface import tiny


@pytest.mark.parametrize(
    ("family", "form"), [("bert", wide_masks.kept), ("roberta", wide_masks.kept), ("mpnet", wide_masks.added)]
)
def test_texts_go_through_a_model_apart_as_they_go_together(family: str, form: wide_masks.WideMask) -> None:
    model = TextClassifier(tiny.module_of(family), tiny.tokenizer_of(family))
    assert model._middle.wide_mask is form
    batch = model.place(model.examples(tiny.TEXTS, tiny.LABELS).batch(range(len(tiny.TEXTS))))
    assert isinstance(batch.inputs, dict)
    assert bool((batch.inputs["attention_mask"] == 0).any())  # some are padded
    with torch.no_grad():
        whole = model.outputs(model.parameters, batch.inputs)
        inputs = {**batch.inputs, STATES: model.encode(batch)}
        each = {name: tensor[:, None] for name, tensor in inputs.items()}
        apart = vmap(lambda one: model.outputs(model.parameters, one))(each)
    torch.testing.assert_close(model.outputs(model.parameters, inputs), whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(apart[:, 0], whole, rtol=1e-6, atol=1e-6)


def test_a_model_that_takes_no_wide_mask_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = (lambda mask, states: torch.zeros_like(mask)[:, None, None].bool(),)
    monkeypatch.setattr("fastif.integrations.huggingface.middle.WIDE_MASKS", wrong)
    assert TextClassifier(tiny.module_of("bert"), tiny.tokenizer_of("bert"))._middle.wide_mask is None

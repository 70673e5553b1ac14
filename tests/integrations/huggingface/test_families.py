"""Every family of transformers, from texts to scores: against the dense oracle, and with and without stored states."""

from typing import Any

import pytest
import torch
from torch import Tensor

import fastif
from fastif.integrations.huggingface import TextClassifier
from fastif.prefix import PrefixCache
from tests.integrations.huggingface import dense, tiny
from tests.problems import relative_error

DAMPING = 0.05


def classifier(family: str, trainable: Any = None, **options: Any) -> TextClassifier:
    return TextClassifier(tiny.module_of(family), tiny.tokenizer_of(family), trainable=trainable, **options)


def scores(model: TextClassifier, **options: Any) -> Tensor:
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    queries = model.examples(tiny.QUERIES, tiny.QUERY_LABELS, source="queries")
    return fastif.Explainer(model, train, damping=DAMPING, batch_size=4, **options).scores(queries).values


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_scores_are_those_of_each_text_alone_without_padding(family: str) -> None:
    model = classifier(family, tiny.LAST_PARTS[family])
    expected = dense.influence(
        model.module,
        list(model.parameters),
        "cross_entropy",
        dense.rows_of(model.tokenizer, tiny.TEXTS, tiny.LABELS),
        dense.rows_of(model.tokenizer, tiny.QUERIES, tiny.QUERY_LABELS),
        DAMPING,
    )
    assert relative_error(scores(model), expected) < 1e-6


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_stored_states_change_nothing_by_default(family: str) -> None:
    model = classifier(family)
    if family == "albert":
        assert model.prefix is None
        assert model.why_no_prefix is not None
        assert "share their weights" in model.why_no_prefix
    else:
        count = 2 if family == "lora" else 1
        assert model.prefix == f"the embeddings and {count} frozen layer{'s' if count > 1 else ''}"
        assert model.why_no_prefix is None
    tolerance = 1e-6 if family == "modernbert" else 1e-10  # its rotary positions are rounded to float32
    assert relative_error(scores(model), scores(model, prefix_cache=None)) < tolerance


@pytest.mark.parametrize("family", ["bert", "gpt2", pytest.param("deberta-v2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", [fastif.Exact(), pytest.param(fastif.ConjugateGradient(), marks=pytest.mark.slow)])
def test_the_hessian_goes_through_stored_states_too(family: str, solver: Any) -> None:
    model = classifier(family, tiny.LAST_PARTS[family])
    options = {"solver": solver, "curvature": "hessian"}
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    of = [
        fastif.Explainer(model, train, prefix_cache=cache, **options).scores(list(tiny.QUERIES)).values
        for cache in (PrefixCache(), None)
    ]
    assert relative_error(*of) < (1e-10 if isinstance(solver, fastif.Exact) else 1e-5)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_dropout_of_a_model_in_train_mode_has_no_effect(family: str) -> None:
    module = tiny.module_of(family)
    of = []
    for mode in (True, False):
        model = TextClassifier(module.train(mode), tiny.tokenizer_of(family), trainable=tiny.LAST_PARTS[family])
        of.append(scores(model, solver=fastif.Identity()))
        assert module.training is mode
    assert torch.equal(*of)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2", "modernbert", "gpt2"])
def test_what_lies_beside_a_text_in_its_batch_has_no_effect(family: str) -> None:
    model = classifier(family)
    together = model.logits(model.examples(tiny.TEXTS, tiny.LABELS))
    alone = torch.cat([model.logits(model.examples([text], [0])) for text in tiny.TEXTS])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=1e-10)

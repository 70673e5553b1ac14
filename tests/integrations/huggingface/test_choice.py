"""Which parameters are chosen, what is computed once, and that the user's model is as it was afterwards."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.errors import ConfigurationError, NoTrainableParametersError
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface import tiny


def classifier(family: str = "bert", **options: Any) -> TextClassifier:
    return TextClassifier(tiny.module_of(family), tiny.tokenizer_of(family), **options)


def layers_of(model: TextClassifier) -> set[int]:
    found = (re.search(r"\.(?:layer|layers|h)\.(\d)\.", name) for name in model.parameters)
    return {int(match.group(1)) for match in found if match}


@pytest.mark.parametrize("family", [name for name in tiny.FAMILIES if name not in ("albert", "lora")])
def test_by_default_the_last_two_layers_and_the_head(family: str) -> None:
    model = classifier(family)
    assert layers_of(model) == {1, 2}
    assert any(re.search("classifier|score", name) for name in model.parameters)
    assert not any("embed" in name or "wte" in name or "relative_attention_bias" in name for name in model.parameters)
    assert "layers 2 to 3 of 3 and the head" in repr(model)
    assert "does not say what was trained" in repr(model)


def test_position_biases_are_not_chosen_although_they_stand_behind_the_layers() -> None:
    for family, name in (("mpnet", "relative_attention_bias"), ("deberta-v2", "rel_embeddings")):
        module = tiny.module_of(family)
        assert any(name in each for each, _ in module.named_parameters())
        model = TextClassifier(module, tiny.tokenizer_of(family))
        assert not any(name in each for each in model.parameters)
        asked = TextClassifier(module, tiny.tokenizer_of(family), trainable=rf"{name}|classifier")
        assert any(name in each for each in asked.parameters)
        assert asked.prefix is None
        assert asked.why_no_prefix is not None
        assert "the lower layers depend on it" in asked.why_no_prefix


def test_shared_layers_are_taken_whole() -> None:
    model = classifier("albert")
    assert len(model.parameters) == len(dict(model.module.named_parameters()))
    with pytest.raises(ConfigurationError, match="share their weights"):
        classifier("albert", freeze_layers=1)


@pytest.mark.parametrize(("count", "layers"), [(0, {0, 1, 2}), (1, {1, 2}), (2, {2}), (3, set())])
def test_freeze_layers_leaves_out_the_embeddings_and_so_many_layers(count: int, layers: set[int]) -> None:
    for family in ("bert", "distilbert", "gpt2", "deberta-v2"):
        model = classifier(family, freeze_layers=count)
        assert layers_of(model) == layers
        assert not any("word_embeddings" in name or "wte" in name for name in model.parameters)
        assert (model.prefix is None) == (count == 0)


def test_all_a_regular_expression_and_a_predicate() -> None:
    everything = classifier(trainable="all")
    assert len(everything.parameters) == len(dict(everything.module.named_parameters()))
    assert everything.why_no_prefix == "the first layer is among the chosen parameters"
    by_pattern = classifier(trainable=r"layer\.2\.output|classifier")
    by_predicate = classifier(trainable=lambda name, _: "layer.2.output" in name or "classifier" in name)
    assert list(by_pattern.parameters) == list(by_predicate.parameters)
    assert by_pattern.prefix == by_predicate.prefix == "the embeddings and 2 frozen layers"
    head = classifier(trainable="classifier")
    assert head.prefix == "the embeddings and 3 frozen layers"


def test_what_requires_a_gradient_is_what_was_trained() -> None:
    module = tiny.module_of("bert")
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("layer.2" in name or "classifier" in name)
    model = TextClassifier(module, tiny.tokenizer_of())
    assert layers_of(model) == {2}
    assert "those that require a gradient" in repr(model)
    adapted = classifier("lora")
    assert all("lora" in name or "modules_to_save" in name for name in adapted.parameters)
    assert len(adapted.parameters) == 6


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"trainable": "classifier", "freeze_layers": 1}, ConfigurationError, "give one of them"),
        ({"freeze_layers": 4}, ConfigurationError, "0 to 3"),
        ({"freeze_layers": -1}, ConfigurationError, "0 to 3"),
        ({"freeze_layers": True}, ConfigurationError, "0 to 3"),
        ({"freeze_layers": 1.0}, ConfigurationError, "0 to 3"),
        ({"trainable": "nothing"}, NoTrainableParametersError, "nothing"),
        ({"trainable": "("}, ConfigurationError, "regular expression"),
        ({"trainable": 3}, ConfigurationError, "trainable"),
    ],
)
def test_a_choice_that_cannot_work_is_named(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        classifier(**options)


# --- the user's model -------------------------------------------------------------------------------------------------


def snapshot(module: nn.Module) -> list[tuple[nn.Module, dict[str, Any], dict[str, Tensor]]]:
    """All attributes of all parts, hooks and modes among them, and a copy of the weights."""
    return [
        (part, _copied(part.__dict__), {name: each.detach().clone() for name, each in part.named_parameters()})
        for part in module.modules()
    ]


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, dict) else value for name, value in attributes.items()}


def assert_untouched(before: list[Any]) -> None:
    for part, attributes, weights in before:
        now = _copied(part.__dict__)
        assert list(now) == list(attributes)
        for name, value in attributes.items():
            assert now[name] is value or now[name] == value, name
        for name, parameter in part.named_parameters():
            assert torch.equal(parameter, weights[name])
            assert parameter.grad is None


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_model_is_as_it_was(family: str) -> None:
    module = tiny.module_of(family)
    before = snapshot(module)
    model = TextClassifier(module, tiny.tokenizer_of(family))
    explainer = fastif.Explainer(model, model.examples(tiny.TEXTS, tiny.LABELS), damping=0.1)
    explainer.explain(list(tiny.QUERIES), top=2)
    explainer.self_influence()
    assert module.training
    assert_untouched(before)


@pytest.mark.parametrize("family", ["bert", "gpt2", "lora"])
@pytest.mark.parametrize("layer", [0, 2])
def test_the_model_is_as_it_was_after_an_error_in_its_middle(family: str, layer: int) -> None:
    module = tiny.module_of(family)
    tokenizer = tiny.tokenizer_of(family)
    model = TextClassifier(module, tokenizer)
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    part = next(part for name, part in module.named_modules() if re.search(rf"(layer|\.h)\.{layer}$", name))
    armed = False

    def fail(*given: Any) -> None:
        if armed:
            raise OSError("the disk is on fire")

    handle = part.register_forward_hook(fail)
    before = snapshot(module)
    explainer = fastif.Explainer(model, train, damping=0.1, batch_size=2)
    armed = True
    with pytest.raises(OSError, match="on fire"):
        explainer.scores(train)
    assert_untouched(before)
    with pytest.raises(OSError, match="on fire"):
        TextClassifier(module, tokenizer)
    assert_untouched(before)
    handle.remove()
    assert torch.isfinite(fastif.Explainer(model, train, damping=0.1).scores(list(tiny.QUERIES)).values).all()


def test_a_forward_of_the_users_own_stays() -> None:
    """Accelerate and others put a `forward` on a module itself."""
    module = tiny.module_of("bert")
    layer = module.bert.encoder.layer[0]
    original = layer.forward
    layer.forward = lambda *given, **named: original(*given, **named)
    own = layer.forward
    plain = classifier("bert")
    model = TextClassifier(module, tiny.tokenizer_of())
    of = [
        fastif.Explainer(each, each.examples(tiny.TEXTS, tiny.LABELS), damping=0.1).scores(list(tiny.QUERIES)).values
        for each in (plain, model)
    ]
    torch.testing.assert_close(*of)
    assert layer.__dict__["forward"] is own


def test_a_model_that_cannot_start_in_the_middle_says_so_and_runs_whole() -> None:
    """Something leads past the layers: what the first of them gives is added to what comes out of the last."""
    module = tiny.module_of("bert")
    early: list[Tensor] = []
    module.bert.encoder.layer[0].register_forward_hook(lambda part, given, states: early.append(states))

    def add(part: nn.Module, given: Any, result: Any) -> Any:
        result.last_hidden_state = result.last_hidden_state + early.pop()
        return result

    module.bert.encoder.register_forward_hook(add)
    model = TextClassifier(module, tiny.tokenizer_of(), freeze_layers=2)
    assert model.prefix is None
    assert model.why_no_prefix is not None
    assert "running from the middle changed the outputs" in model.why_no_prefix
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    assert torch.isfinite(fastif.Explainer(model, train, damping=0.1).scores(list(tiny.QUERIES)).values).all()

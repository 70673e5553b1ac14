"""Going on from stored states gives the scores of the whole model: of windows, causal attention and odd weights too."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import fastif
from fastif.errors import ModelError
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface import dense, tiny
from tests.problems import relative_error

LENGTH = 120
SIZES = {**tiny.SIZES, "max_position_embeddings": LENGTH, "bos_token_id": 2, "eos_token_id": 3}
WORDS = [word for word in tiny.WORDS if word.isalpha()]


def modernbert() -> nn.Module:
    settings = {"local_attention": 8, "global_attn_every_n_layers": 3, "attn_implementation": "sdpa"}
    return transformers.ModernBertForSequenceClassification(
        transformers.ModernBertConfig(**SIZES, cls_token_id=2, sep_token_id=3, **settings)
    )


def mistral() -> nn.Module:
    settings = {"num_key_value_heads": 2, "sliding_window": 8}
    return in_double(transformers.MistralForSequenceClassification(transformers.MistralConfig(**SIZES, **settings)))


def llama() -> nn.Module:
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2)
    return in_double(transformers.LlamaForSequenceClassification(config))


def in_double(module: nn.Module) -> nn.Module:
    """Replace norms, which round to float32 whatever the dtype, so that no finite difference would be right."""
    for part in list(module.modules()):
        for name, child in part.named_children():
            if type(child).__name__.endswith("RMSNorm"):
                setattr(part, name, nn.RMSNorm(SIZES["hidden_size"], eps=1e-6))
    return module


def gpt2() -> nn.Module:
    sizes = {key: value for key, value in SIZES.items() if key != "intermediate_size"}
    return transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**sizes, n_inner=12))


def shaken(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.5)
    return module.double().eval()


def long_tokenizer(family: str, **changes: Any) -> Any:
    return tiny.tokenizer_of(family, **{"model_max_length": LENGTH, **changes})


def some_texts(fewest: int, most: int, *, end: str = "") -> list[str]:
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randint(fewest, most))) + end for _ in range(8)]


def error_of(model: TextClassifier, texts: list[str]) -> float:
    """The distance of scores from those of a dense inverse, with one text at a time and no padding."""
    labels = [number % 3 for number in range(len(texts))]
    queries = model.examples(texts[:3], labels[:3], source="queries")
    scores = fastif.Explainer(model, model.examples(texts, labels), damping=0.1, solver=fastif.Exact()).scores(queries)
    rows = dense.rows_of(model.tokenizer, texts, labels)
    expected = dense.influence(model.module, list(model.parameters), "cross_entropy", rows, rows[:3], 0.1)
    return relative_error(scores.values, expected)


LAST = r"layers\.2\.mlp\.(Wo|down_proj)|h\.2\.mlp\.c_proj|^(score|classifier)"


@pytest.mark.parametrize("structure_is_told", [True, False])
@pytest.mark.parametrize(("make", "family"), [(modernbert, "modernbert"), (mistral, "gpt2"), (llama, "gpt2")])
def test_texts_longer_than_a_window(
    make: Callable[[], nn.Module], family: str, structure_is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not structure_is_told:  # then random tokens show it
        monkeypatch.setattr("fastif.integrations.huggingface.middle.may_be_wide", lambda module: True)
    model = TextClassifier(shaken(make()), long_tokenizer(family), trainable=LAST)
    assert model.prefix == "the embeddings and 2 frozen layers"
    assert model._middle.wide_mask is None
    assert error_of(model, some_texts(30, 60)) < 1e-6


def test_a_causal_model_whose_padding_is_the_end_of_its_texts() -> None:
    """The head reads the last token that is no padding, which then is not the last token."""
    tokenizer = long_tokenizer("gpt2", pad_token="<sep>")
    tokenizer.eos_token = "<sep>"
    module = shaken(gpt2())
    module.config.pad_token_id = tokenizer.pad_token_id
    model = TextClassifier(module, tokenizer, trainable=LAST)
    assert model.prefix is not None
    assert error_of(model, some_texts(2, 20, end=" <sep>")) < 1e-8


@pytest.mark.parametrize("told", ["a window", "by nothing"])
def test_a_mask_that_is_wrong_for_long_texts_alone_is_given_up_on_them(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random tokens are not as many as the window, and the user's longest text is."""
    monkeypatch.setattr("fastif.integrations.huggingface.probes.LONG", 5)
    monkeypatch.setattr("fastif.integrations.huggingface.probes.SHORT", (3, 4, 5))
    if told == "by nothing":
        monkeypatch.setattr("fastif.integrations.huggingface.middle.may_be_wide", lambda module: True)
    model = TextClassifier(shaken(modernbert()), long_tokenizer("modernbert"), trainable=LAST)
    assert (model._middle.wide_mask is None) == (told == "a window")
    # the first texts are short
    assert error_of(model, [*some_texts(1, 2), *some_texts(30, 60)]) < 1e-6
    assert model._middle.wide_mask is None


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "mpnet", "electra"])
def test_encoders_keep_every_short_way(family: str) -> None:
    model = TextClassifier(tiny.module_of(family), tiny.tokenizer_of(family))
    model.check(model.place(model.examples(tiny.TEXTS, tiny.LABELS).batch(range(len(tiny.TEXTS)))))
    assert model.prefix == "the embeddings and 1 frozen layer"
    assert model._middle.wide_mask is not None
    assert model._middle.head_rows.parts


def test_a_fresh_adapter() -> None:
    import peft

    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], layers_to_transform=[1, 2])
    module = peft.get_peft_model(shaken(tiny.module_of("bert")), config).double().eval()
    model = TextClassifier(module, tiny.tokenizer_of("bert"), trainable="lora_")
    assert model._middle.head_rows.parts
    assert error_of(model, list(tiny.TEXTS)) < 1e-8


@pytest.mark.parametrize("zero", [("value",), ("query", "value"), ("query", "key", "value")])
def test_weights_of_zero(zero: tuple[str, ...]) -> None:
    module = shaken(tiny.module_of("bert"))
    with torch.no_grad():
        for name in zero:
            getattr(module.bert.encoder.layer[2].attention.self, name).weight.zero_()  # type: ignore[union-attr,index]
    chosen = r"layer\.2\.attention\.self\.(query|key|value)|classifier"
    assert error_of(TextClassifier(module, tiny.tokenizer_of("bert"), trainable=chosen), list(tiny.TEXTS)) < 1e-8


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="eager")  # type: ignore[return-value]


@pytest.mark.parametrize("around", [compiled, nn.DataParallel, lambda it: nn.DataParallel(compiled(it))])
def test_a_module_that_is_wrapped_is_taken_out(around: Callable[[nn.Module], nn.Module]) -> None:
    module, tokenizer = shaken(tiny.module_of("bert")), tiny.tokenizer_of("bert")
    wrapped, plain = (TextClassifier(each, tokenizer) for each in (around(module), module))
    assert (wrapped.prefix, wrapped.parameters_in_words()) == (plain.prefix, plain.parameters_in_words())
    model = TextClassifier(around(module), tokenizer, trainable=r"LayerNorm|classifier")
    assert error_of(model, list(tiny.TEXTS)) < 1e-8


ODD: dict[str, Callable[[], nn.Module]] = {
    "longformer": lambda: transformers.LongformerForSequenceClassification(
        transformers.LongformerConfig(**SIZES, attention_window=[8] * 3)
    ),
    "ibert": lambda: transformers.IBertForSequenceClassification(transformers.IBertConfig(**SIZES)),
    "squeezebert": lambda: transformers.SqueezeBertForSequenceClassification(
        transformers.SqueezeBertConfig(**SIZES, embedding_size=8)
    ),
}


@pytest.mark.parametrize("family", ODD)
def test_a_model_of_an_odd_form_can_be_made(family: str) -> None:
    model = TextClassifier(shaken(ODD[family]()), long_tokenizer("roberta"), max_length=100)
    assert model.prefix is not None or "could not be run from the middle" in str(model.why_no_prefix)


def test_what_cannot_be_run_from_the_middle_runs_whole() -> None:
    chosen = r"layers\.2\.output\.conv1d|classifier"
    model = TextClassifier(shaken(ODD["squeezebert"]()), long_tokenizer("roberta"), trainable=chosen)
    assert "could not be run from the middle" in str(model.why_no_prefix)
    assert error_of(model, some_texts(2, 20)) < 1e-8


def test_a_lack_of_memory_is_no_way_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **named: Any) -> Tensor:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr("fastif.integrations.huggingface.middle.Middle.outputs", full)
    with pytest.raises(torch.OutOfMemoryError):
        TextClassifier(tiny.module_of("bert"), tiny.tokenizer_of("bert"))


# --- parts that change ------------------------------------------------------------------------------------------------


def bigbird(**changes: Any) -> nn.Module:
    settings = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1, **changes}
    return shaken(transformers.BigBirdForSequenceClassification(transformers.BigBirdConfig(**SIZES, **settings)))


def test_a_model_that_switches_between_kinds_of_attention_is_left_as_it_was() -> None:
    module, tokenizer = bigbird(), long_tokenizer("roberta")
    parts = list(module.modules())
    long = tokenizer(" ".join(WORDS * 2), return_tensors="pt")
    before = module(**long).logits
    model = TextClassifier(module, tokenizer, max_length=28, trainable=r"layer\.2\.output\.dense|classifier")
    model.logits(model.examples(some_texts(2, 20), [0] * 8))
    assert list(module.modules()) == parts
    assert torch.equal(module(**long).logits, before)


def test_blocks_that_depend_on_the_longest_text_are_refused() -> None:
    with pytest.raises(ModelError, match=r"more than 28 tokens.* max_length=28 or less, or load .*original_full"):
        TextClassifier(bigbird(), long_tokenizer("roberta"))
    TextClassifier(bigbird(attention_type="original_full"), long_tokenizer("roberta"))


def adapted() -> Any:
    import peft

    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"])
    module = peft.get_peft_model(shaken(tiny.module_of("bert")), config)
    module.add_adapter("two", config)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return module.double().eval()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "another": lambda module: module.set_adapter("two"),
    "none": lambda module: module.base_model.disable_adapter_layers(),
    "merged": lambda module: module.base_model.merge_adapter(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_adapter_that_was_changed_is_noticed(change: str) -> None:
    module = adapted()
    model = TextClassifier(module, tiny.tokenizer_of("bert"), trainable="classifier")
    explainer = fastif.Explainer(model, model.examples(tiny.TEXTS, tiny.LABELS), damping=0.1)
    first, known = explainer.scores(list(tiny.QUERIES)).values, model.fingerprint()
    CHANGES[change](module)
    assert model.fingerprint() != known
    with pytest.raises(ModelError, match="uses other adapters than when this explainer was made"):
        explainer.scores(list(tiny.QUERIES))
    with pytest.raises(ModelError, match=r"other adapters than when this TorchModel|another .* than when this Torch"):
        fastif.Explainer(model, model.examples(tiny.TEXTS, tiny.LABELS), damping=0.1)
    if change == "another":
        module.set_adapter("default")
        torch.testing.assert_close(explainer.scores(list(tiny.QUERIES)).values, first)

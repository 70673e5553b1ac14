"""Loading: a round trip gives the same scores, and what cannot be trusted or read is refused in a line or two."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from huggingface_hub import constants
from torch import Tensor, nn
from transformers.utils import logging as transformers_logging

import fastif
from fastif.errors import FastifError, FastifWarning, ModelError, StoredFileError
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface import tiny


@pytest.fixture(autouse=True)
def _offline_and_quiet(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # as the variable of that name would, before the import
    shown, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    yield
    transformers_logging.set_verbosity(level)
    if shown:
        transformers_logging.enable_progress_bar()


def saved(directory: Path, module: nn.Module | None = None, tokenizer: Any = None, family: str = "bert") -> Path:
    (module or tiny.module_of(family)).save_pretrained(directory)
    (tokenizer or tiny.tokenizer_of(family)).save_pretrained(directory)
    return directory


def scores(model: TextClassifier) -> Tensor:
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    return fastif.Explainer(model, train, damping=0.1).scores(list(tiny.QUERIES)).values


@pytest.mark.parametrize("family", [name for name in tiny.FAMILIES if name != "lora"])
def test_a_checkpoint_gives_the_scores_of_the_model_that_was_saved(family: str, tmp_path: Path) -> None:
    module, tokenizer = tiny.module_of(family), tiny.tokenizer_of(family)
    loaded = TextClassifier.from_pretrained(saved(tmp_path, module, tokenizer))
    assert not loaded.module.training
    assert loaded.max_length == tiny.POSITIONS
    assert loaded.name == str(tmp_path)
    torch.testing.assert_close(scores(loaded), scores(TextClassifier(module, tokenizer)), rtol=1e-7, atol=1e-10)


def test_the_device_and_the_choice_are_passed_on(tmp_path: Path) -> None:
    model = TextClassifier.from_pretrained(saved(tmp_path), device="cpu", trainable="classifier", max_length=9)
    assert list(model.parameters) == ["classifier.weight", "classifier.bias"]
    assert model.max_length == 9
    assert len(TextClassifier.from_pretrained(str(tmp_path), freeze_layers=3).parameters) == 4


def test_a_half_precision_checkpoint_is_computed_in_float32(tmp_path: Path) -> None:
    model = TextClassifier.from_pretrained(saved(tmp_path, tiny.module_of("bert", dtype=torch.bfloat16)))
    assert model.dtype == torch.float32
    assert torch.isfinite(scores(model)).all()


# --- refusals ---------------------------------------------------------------------------------------------------------


def _without(name: str) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        (saved(directory) / name).unlink()
        return directory

    return make


def _pickled(directory: Path) -> Path:
    (saved(directory) / "model.safetensors").unlink()
    torch.save(tiny.module_of().state_dict(), directory / "pytorch_model.bin")
    return directory


def _cut(directory: Path) -> Path:
    file = saved(directory) / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return directory


def _overwritten(directory: Path) -> Path:
    (saved(directory) / "model.safetensors").write_bytes(b"no safetensors at all, whatever its name may say")
    return directory


def _headless(directory: Path) -> Path:
    module = tiny.module_of()
    return saved(directory, module.bert)


def _configured(**changes: Any) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        file = saved(directory) / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
        return directory

    return make


def _with_broken_config(directory: Path) -> Path:
    (saved(directory) / "config.json").write_text("{")
    return directory


def _without_tokenizer(directory: Path) -> Path:
    tiny.module_of().save_pretrained(directory)
    return directory


def _with_more_tokens(directory: Path) -> Path:
    tokenizer = tiny.tokenizer_of()
    tokenizer.add_tokens(["more", "words"])
    return saved(directory, tokenizer=tokenizer)


def _with_broken_tokenizer(directory: Path) -> Path:
    (saved(directory) / "tokenizer.json").write_text("{")
    return directory


OWN_CODE = {"auto_map": {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}}
FIVE = {str(number): str(number) for number in range(5)}
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no directory": (lambda directory: directory / "nothing", "there is no checkpoint"),
    "a file": (lambda directory: saved(directory) / "config.json", "is a file"),
    "no config": (_without("config.json"), "no config.json"),
    "no weights": (_without("model.safetensors"), "no weights"),
    "pickle": (_pickled, "pytorch_model.bin"),
    "half a file": (_cut, "damaged"),
    "another file": (_overwritten, "damaged"),
    "no head": (_headless, "no weights for classifier.*fine-tune it first"),
    "code of its own": (_configured(model_type="own", **OWN_CODE), "pass trust_remote_code=True"),
    "unknown kind": (_configured(model_type="own"), "does not recognize"),
    "broken config": (_with_broken_config, "not a valid JSON"),
    "other sizes": (_configured(intermediate_size=16), r"intermediate\.dense\.bias has the shape \(\d+,\).*\(16,\) \("),
    "other labels": (
        _configured(id2label=FIVE, label2id={v: int(k) for k, v in FIVE.items()}),
        r"classifier\.bias has the shape \(3,\), and a model of 5 labels as config\.json describes it has \(5,\)",
    ),
    "no tokenizer": (_without_tokenizer, "pass tokenizer="),
    "more tokens": (_with_more_tokens, "do not belong together"),
    "broken tokenizer": (_with_broken_tokenizer, "tokenizer of .* could not be loaded"),
    "no padding": (lambda directory: saved(directory, tokenizer=tiny.tokenizer_of(pad_token=None)), "no padding token"),
    "hub": (lambda directory: "nobody/no-such-model", "neither a directory here nor a model"),
    "no name": (lambda directory: "what is this?", "neither a directory here nor a model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_checkpoint_that_cannot_be_used_is_refused_in_a_line_or_two(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make, words = REFUSED[case]
    name = make(tmp_path)
    capfd.readouterr()
    start = time.perf_counter()
    with pytest.raises(FastifError, match=words) as caught:
        TextClassifier.from_pretrained(name)
    assert time.perf_counter() - start < 5  # in particular, no waiting for a network
    assert isinstance(caught.value, ModelError | StoredFileError)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 450
    assert capfd.readouterr() == ("", "")  # nothing of transformers' own


def test_a_tokenizer_may_be_given_or_lie_elsewhere(tmp_path: Path) -> None:
    bare, whole = _without_tokenizer(tmp_path / "bare"), saved(tmp_path / "whole")
    for tokenizer in (whole, str(whole), tiny.tokenizer_of()):
        assert TextClassifier.from_pretrained(bare, tokenizer=tokenizer).max_length == tiny.POSITIONS
    with pytest.raises(StoredFileError, match="no directory"):
        TextClassifier.from_pretrained(bare, tokenizer=tmp_path / "nowhere")


def test_the_level_of_messages_is_put_back(tmp_path: Path) -> None:
    before = transformers_logging.get_verbosity()
    TextClassifier.from_pretrained(saved(tmp_path / "one"))
    with pytest.raises(FastifError):
        TextClassifier.from_pretrained(_cut(tmp_path / "two"))
    assert transformers_logging.get_verbosity() == before
    assert not transformers_logging.is_progress_bar_enabled()  # as this file has it


# --- adapters ---------------------------------------------------------------------------------------------------------


def adapter(base: Path, directory: Path, model: dict[str, Any] | None = None, **options: Any) -> nn.Module:
    module = transformers.AutoModelForSequenceClassification.from_pretrained(base, **(model or {}))
    config = peft.LoraConfig(r=2, target_modules=["query", "value"], **options)
    adapted: nn.Module = peft.get_peft_model(module, config)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.5)
    adapted.save_pretrained(directory)
    return adapted


def test_an_adapter_is_loaded_on_its_base_and_gives_the_same_scores(tmp_path: Path) -> None:
    module = adapter(saved(tmp_path / "base"), tmp_path / "adapter", task_type="SEQ_CLS")
    loaded = TextClassifier.from_pretrained(tmp_path / "adapter")  # with the tokenizer of the base
    assert all("lora" in name or "modules_to_save" in name for name in loaded.parameters)
    expected = scores(TextClassifier(module, tiny.tokenizer_of()))
    torch.testing.assert_close(scores(loaded), expected, rtol=1e-6, atol=1e-9)


def test_an_adapter_may_bring_the_head_and_without_one_it_is_refused(tmp_path: Path) -> None:
    transformers_logging.set_verbosity_error()
    base = saved(tmp_path / "base", tiny.module_of().bert)
    adapter(base, tmp_path / "with", task_type="SEQ_CLS")
    with pytest.warns(FastifWarning, match="a head of 3 labels and does not say what kind of problem"):
        loaded = TextClassifier.from_pretrained(tmp_path / "with")
    assert torch.isfinite(scores(loaded)).all()
    adapter(base, tmp_path / "without")
    with pytest.raises(ModelError, match="no weights for classifier"):
        TextClassifier.from_pretrained(tmp_path / "without")


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize(
    ("labels", "problem", "as_read"),
    [(4, None, "single-label"), (1, None, "regression"), (5, "multi_label_classification", "multi-label")],
)
def test_an_adapter_of_other_labels_than_its_base_has(
    family: str, labels: int, problem: str | None, as_read: str, tmp_path: Path
) -> None:
    transformers_logging.set_verbosity_error()
    encoder = tiny.module_of(family, dtype=torch.float32, num_labels=2)
    base = saved(tmp_path / "base", getattr(encoder, family))
    made = {"num_labels": labels, "problem_type": problem}
    module = adapter(base, tmp_path / "adapter", made, task_type="SEQ_CLS")
    tokenizer = tiny.tokenizer_of(family)
    if problem is None and labels > 1:
        with pytest.warns(FastifWarning, match="a head of 4 labels and does not say what kind"):
            TextClassifier.from_pretrained(tmp_path / "adapter", tokenizer=tokenizer)
    if labels > 1:
        module.config.save_pretrained(tmp_path / "adapter")  # type: ignore[union-attr, operator]
        if problem is None:
            module.config.problem_type = "single_label_classification"  # type: ignore[union-attr]
    loaded = TextClassifier.from_pretrained(tmp_path / "adapter", tokenizer=tokenizer)
    assert loaded.problem == as_read
    texts = loaded.examples(tiny.TEXTS)
    torch.testing.assert_close(loaded.logits(texts), TextClassifier(module, tokenizer).logits(texts))


def test_an_adapter_without_its_base_is_refused(tmp_path: Path) -> None:
    adapter(saved(tmp_path / "base"), tmp_path / "adapter", task_type="SEQ_CLS")
    (tmp_path / "base").rename(tmp_path / "moved")
    with pytest.raises(StoredFileError, match=r"base model .* is not there.*base_model_name_or_path"):
        TextClassifier.from_pretrained(tmp_path / "adapter")

"""From a transformers `Trainer`: the model it trained, and the directory it saved."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import fastif
from fastif.errors import FastifWarning, ModelError
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface import tiny


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    def __init__(self, tokenizer: Any) -> None:
        self.rows = [{**tokenizer(text), "labels": label} for text, label in zip(tiny.TEXTS, tiny.LABELS, strict=True)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def trained(directory: Path, module: nn.Module, tokenizer: Any) -> transformers.Trainer:
    options = transformers.TrainingArguments(
        str(directory),
        max_steps=4,
        per_device_train_batch_size=5,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    trainer = transformers.Trainer(module, options, train_dataset=Rows(tokenizer), processing_class=tokenizer)
    trainer.train()
    return trainer


def scores(model: TextClassifier) -> Tensor:
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    return fastif.Explainer(model, train, damping=0.1).scores(list(tiny.QUERIES)).values


@pytest.mark.parametrize("family", ["bert", "lora"])
def test_a_trainer_and_the_directory_it_saved_give_equal_scores(family: str, tmp_path: Path) -> None:
    tokenizer = tiny.tokenizer_of(family)
    module = tiny.module_of("bert", dtype=torch.float32)
    if family == "lora":
        module.save_pretrained(tmp_path / "base")
        module = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
        module = tiny.with_lora(module, torch.float32)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    trainer = trained(tmp_path / "run", module, tokenizer)
    model = TextClassifier.from_trainer(trainer)
    changed = {name for name, parameter in module.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed >= set(model.parameters)
    assert model.prefix is not None
    of_trainer = scores(model)
    trainer.save_model(str(tmp_path / "saved"))
    loaded = TextClassifier.from_pretrained(tmp_path / "saved")
    assert list(loaded.parameters) == list(model.parameters)
    torch.testing.assert_close(scores(loaded), of_trainer, rtol=1e-4, atol=1e-6)
    assert of_trainer.abs().max() > 1e-3


def test_a_trainer_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    options = transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True)
    trainer = transformers.Trainer(tiny.module_of(), options)
    with pytest.raises(ModelError, match="processing_class=tokenizer"):
        TextClassifier.from_trainer(trainer)


class OwnLoss(transformers.Trainer):
    def compute_loss(self, *given: Any, **named: Any) -> Any:
        return super().compute_loss(*given, **named)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (transformers.Trainer, {"label_smoothing_factor": 0.1}, "label_smoothing_factor=0.1"),
        (transformers.Trainer, {"compute_loss_func": lambda outputs, labels, **more: None}, "a compute_loss_func"),
        (OwnLoss, {}, "compute_loss of OwnLoss"),
    ],
)
def test_a_trainer_with_another_loss_is_told_of(kind: Any, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    given = {name: value for name, value in options.items() if name == "compute_loss_func"}
    rest = {name: value for name, value in options.items() if name not in given}
    arguments = transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, **rest)
    trainer = kind(tiny.module_of(), arguments, processing_class=tiny.tokenizer_of(), **given)
    with pytest.warns(FastifWarning, match=words):
        TextClassifier.from_trainer(trainer)

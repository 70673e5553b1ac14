"""The examples of the documentation run as written, and every command that it names exists."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fastif.cli.app import app
from tests.integrations.huggingface import tiny_generators
from tests.integrations.huggingface.tiny import module_of, tokenizer_of

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def sentiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with the checkpoint that the pages speak of."""
    module: Any = module_of("bert", dtype=torch.float32, num_labels=2)
    module.config.id2label = {0: "negative", 1: "positive"}
    module.save_pretrained(tmp_path / "runs" / "sentiment")
    tokenizer_of("bert").save_pretrained(tmp_path / "runs" / "sentiment")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("sentiment")
@pytest.mark.parametrize("page", ["explain.md", "own-model.md"])
def test_python_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples(ROOT / "docs" / page)
    exec(example, {})
    assert "Helpful:" in capsys.readouterr().out


def test_the_example_of_a_language_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = tiny_generators.module_of("gpt2", dtype=torch.float32)
    module.save_pretrained(tmp_path / "runs" / "assistant")
    tiny_generators.tokenizer_of().save_pretrained(tmp_path / "runs" / "assistant")
    monkeypatch.chdir(tmp_path)
    (example,) = examples(ROOT / "docs" / "language-models.md")
    exec(example, {})
    assert capsys.readouterr().out.count("Helpful:") == 2


@pytest.mark.usefixtures("sentiment")
def test_the_example_of_a_checkup_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples(ROOT / "docs" / "doctor.md")
    exec(example, {})
    seen = capsys.readouterr().out
    assert "ok: an explanation: of a made-up text by 6 others" in seen
    assert "MB at most" in seen
    assert "problem" not in seen


def test_the_example_of_slices_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = examples(ROOT / "docs" / "slices-and-graph.md")
    exec(example, {})
    assert "through 200 edges" in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"graph.png", "graph.pdf"}


def test_the_example_of_a_correction_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples(ROOT / "docs" / "correct.md")
    names: dict[str, Any] = {}
    exec(example, names)
    assert "Interval(mean=" in capsys.readouterr().out
    assert names["weights"].keys() == dict(names["module"].named_parameters()).keys()


def test_the_example_of_retraining_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = examples(ROOT / "docs" / "retrain.md")
    exec(example, {})
    seen = capsys.readouterr().out
    assert "without their 20 most helpful examples the loss changes by +" in seen
    assert "clear of the noise" in seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"^    fastif ([a-z]+)", text, re.MULTILINE)) | set(re.findall(r"`fastif ([a-z]+)", text))
    assert named <= known


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "docs" / "decisions").glob("*.md"))], ids=lambda page: page.name
)
def test_nothing_is_left_to_be_filled_in(page: Path) -> None:
    assert "@@" not in page.read_text(encoding="utf-8")

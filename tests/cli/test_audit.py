"""`fastif audit` as a user runs it: what it lists and writes, what it says, and how it fails."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fastif
from fastif.apps.audit import audit
from fastif.cli import audit as command
from fastif.cli.app import run
from fastif.integrations.huggingface import TextClassifier
from tests.integrations.huggingface.tiny import LABELS, TEXTS, module_of, tokenizer_of

NAMES = {0: "good", 1: "bad", 2: "mixed"}
COLUMNS = ["line", "text", "label", "suggested_label", "suggested_probability", "loss", "loss_without"]
COLUMNS += ["self_influence", "self_influence_error", "rank"]


def save(path: Path, **changes: Any) -> Path:
    module: Any = module_of("bert", dtype=torch.float32, **changes)
    if "num_labels" not in changes:
        module.config.id2label, module.config.label2id = NAMES, {name: number for number, name in NAMES.items()}
    module.save_pretrained(path)
    tokenizer_of("bert").save_pretrained(path)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save(tmp_path / "model")


@pytest.fixture
def train(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        rows.writerows([text, NAMES[label]] for text, label in zip(TEXTS, LABELS, strict=True))
    return path


def test_agrees_with_the_library_and_writes_what_it_lists(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["audit", str(checkpoint), "--train", str(train), "--top", "4", "--json", "-o"]
    out = tmp_path / "deep" / "suspects.jsonl"
    assert run([*line, str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = [json.loads(each) for each in out.read_text().splitlines()]
    assert rows == told["suspects"]
    assert list(rows[0]) == COLUMNS
    assert [each.name for each in out.parent.iterdir()] == ["suspects.jsonl"]  # no pieces are left

    model = TextClassifier.from_pretrained(checkpoint)
    expected = audit(fastif.Explainer(model, model.examples(TEXTS, LABELS)))
    assert [row["line"] - 2 for row in rows] == expected.ranking()[:4].tolist()
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        index = row["line"] - 2
        assert row["text"] == TEXTS[index]
        assert row["label"] == NAMES[LABELS[index]]
        assert row["suggested_label"] == NAMES[int(expected.suggested[index])]
        for name, values in (("loss", expected.losses), ("self_influence", expected.self_influence)):
            assert row[name] == pytest.approx(float(values[index]), rel=2e-2, abs=1e-4)
    assert told["self_influence_and_loss_share"] == expected.shared(4, "self-influence", "loss")
    assert told["suggested_label_differs"] == int((expected.suggested != torch.tensor(LABELS)).sum())


@pytest.mark.parametrize("by", ["loss", "self-influence", "left-out"])
def test_ranks_as_asked(by: str, checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(checkpoint), "--train", str(train), "--by", by, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    key = {"loss": "loss", "self-influence": "self_influence", "left-out": "loss_without"}[by]
    values = [row[key] for row in told["suspects"]]
    assert values == sorted(values, reverse=True)
    assert len(values) == told["top"] == len(TEXTS)
    assert told["by"] == by


def test_reads_well_on_a_terminal(checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(train, "a") as stream:
        stream.write('"bad [red]plot[/red]\x1b[2J",good\n')
    assert run(["audit", str(checkpoint), "--train", str(train)]) == 0
    seen = capsys.readouterr()
    words = " ".join(seen.out.split())
    assert "Suspects: 11 of 11 training examples, by the loss of their label" in words
    assert "bad [red]plot[/red]" in words  # text of the data is no markup
    assert "\x1b[2J" not in seen.out  # and gives no orders to the terminal
    assert "Look before you delete" in words
    assert "Of the top 11 by self-influence, 11 are also among the top 11 by plain loss." in words
    assert "extracted" not in words
    assert "Influence through" in seen.err


def test_learned_by_heart(checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["audit", str(checkpoint), "--train", str(train), "--memorized"]
    assert run(line) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Examples learned by heart: 10 of 10 training examples, by self-influence" in words
    assert "can often be extracted" in words
    assert "holds training text" in words
    assert run([*line, "--by", "loss"]) == 2
    assert "--memorized ranks by self-influence" in capsys.readouterr().err


def test_csv_holds_no_formula_and_jsonl_is_exact(checkpoint: Path, tmp_path: Path) -> None:
    texts = ['=HYPERLINK("http://x")', "+1 film", "-bad", "@plot", 'fine, "quoted"\nplot', "'good"]
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps({"text": text, "label": "bad"}) + "\n" for text in texts))
    line = ["audit", str(checkpoint), "--train", str(train), "-o"]
    assert run([*line, str(tmp_path / "a.csv")]) == 0
    assert run([*line, str(tmp_path / "a.jsonl")]) == 0
    with open(tmp_path / "a.csv", newline="", encoding="utf-8") as stream:
        cells = {int(row["line"]): row for row in csv.DictReader(stream)}
    assert list(cells[1]) == COLUMNS
    assert [cells[line]["text"] for line in range(1, 7)] == [f"'{text}" for text in texts[:4]] + texts[4:]
    exact = {row["line"]: row["text"] for row in map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())}
    assert [exact[line] for line in range(1, 7)] == texts


def test_nothing_is_overwritten_unless_forced(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "suspects.csv"
    out.write_text("mine")
    line = ["audit", str(checkpoint), "--train", str(train), "-o", str(out)]
    assert run(line) == 1
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run([*line, "--force"]) == 0
    assert out.read_text().startswith("line,text,label")
    assert run([*line[:-1], str(tmp_path / "suspects.xlsx")]) == 2
    assert "must end in .csv or .jsonl" in capsys.readouterr().err


def test_an_audit_that_was_stopped_goes_on(
    checkpoint: Path, train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "suspects.csv"
    line = ["audit", str(checkpoint), "--train", str(train), "-o", str(out)]

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command, "write_rows", stop)
        assert run(line) == 130
    assert not out.exists()
    pieces = list((tmp_path / "suspects.csv.unfinished" / "parts").glob("*.safetensors"))
    assert pieces
    with monkeypatch.context() as patch:
        patch.setattr("fastif.explainer.left_out", stop)  # not asked for again
        assert run(line) == 0
    assert out.exists()
    assert not (tmp_path / "suspects.csv.unfinished").exists()


def test_numbers_and_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = save(tmp_path / "model", num_labels=1)
    train = tmp_path / "train.jsonl"
    rows = [{"text": text, "text_pair": "plot", "label": label / 2} for text, label in zip(TEXTS, LABELS, strict=True)]
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["audit", str(checkpoint), "--train", str(train), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["suspects"][0]["text_pair"] == "plot"
    assert told["suspects"][0]["suggested_label"] is None
    assert told["suggested_label_differs"] is None
    assert "no suggested label" in told["notes"][0]
    assert run(["audit", str(checkpoint), "--train", str(train)]) == 0
    assert "suggested " not in capsys.readouterr().out.splitlines()[1]


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "--help"]) == 0
    assert "Example" in capsys.readouterr().out

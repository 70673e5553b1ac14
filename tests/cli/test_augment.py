"""`fastif augment` as a user runs it: what it ranks, exports and refuses."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pyarrow import parquet

from fastif.apps.augmentation import rank_pool
from fastif.cli.app import run
from fastif.integrations.huggingface import TextClassifier
from tests.cli.test_correct import NAMES, SETTING, flat, place, sentences, write  # noqa: F401 - place is a fixture
from tests.integrations.huggingface.tiny import LABELS, TEXTS

POOL = [f"- {text}" for text in sentences(16, 7)]  # as a spreadsheet must not get it, and a training must
POOL_LABELS = [row % 3 for row in range(16)]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return write(tmp_path / "pool.csv", POOL, [NAMES[label] for label in POOL_LABELS])


def words(place: Path, pool: Path, *more: str) -> list[str]:  # noqa: F811
    return ["augment", str(place / "why"), "--pool", str(pool), "--anchors", str(place / "anchors.csv"), *more]


@pytest.mark.parametrize("effect", ["finetune-step", "retrain"])
def test_ranks_as_the_library_and_exports_the_rows(
    effect: Any,
    place: Path,  # noqa: F811
    pool: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = TextClassifier.from_pretrained(place / "model")
    anchors = model.examples(sentences(12, 1), [row % 3 for row in range(12)])
    expected = rank_pool(
        model,
        model.examples(POOL, POOL_LABELS),
        anchors=anchors,
        trained_on=model.examples(TEXTS, LABELS),
        effect=effect,
    )
    best = expected.best(5)
    for name in ("best.jsonl", "best.csv", "best.parquet"):
        out = tmp_path / "deep" / name
        line = words(place, pool, "--effect", effect, "--top", "5", "--export", str(out), "--json")
        assert run(line) == 0
        told = json.loads(capsys.readouterr().out)
        rows: list[dict[str, Any]]
        if name.endswith("jsonl"):
            rows = [json.loads(each) for each in out.read_text().splitlines()]
            assert rows == told["chosen"]
        elif name.endswith("csv"):
            with open(out, newline="", encoding="utf-8") as stream:
                rows = list(csv.DictReader(stream))
        else:
            rows = parquet.read_table(out).to_pylist()
            assert rows == told["chosen"]
        assert list(rows[0]) == ["rank", "score", "line", "text", "label"]
        assert [int(row["line"]) - 2 for row in rows] == best.ids.tolist()
        assert [float(row["score"]) for row in rows] == pytest.approx(best.scores.tolist(), rel=2e-2)
        assert [row["text"] for row in rows] == [POOL[index] for index in best.ids]
        assert [row["label"] for row in rows] == [NAMES[POOL_LABELS[index]] for index in best.ids]
        assert run(line) == 1  # nothing is overwritten
        assert "--force" in capsys.readouterr().err
        assert run([*line, "--force"]) == 0
        capsys.readouterr()
    assert told["helpful_in_pool"] == expected.helpful
    assert run(["explain", str(place / "model"), "--train", str(out), "--query-text", "dull", "--json"]) == 0


def test_rows_that_harm_are_not_chosen_and_that_is_said(
    place: Path,  # noqa: F811
    pool: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(words(place, pool, "--top", "16")) == 0
    seen = flat(capsys.readouterr().out)
    assert "of 16 rows of the pool help the 12 anchors, by what a gradient step on it now would change" in seen
    assert "16 were asked for, and rows that do not help are not among them." in seen
    assert "Their labels:" in seen


def test_steps_on_the_pool_are_measured_and_nothing_of_the_pool_is_in_the_curvature(
    place: Path,  # noqa: F811
    pool: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "more"
    line = words(
        place, pool, "--test", str(place / "test.csv"), *SETTING, "--effect", "retrain", "--json", "-o", str(out)
    )
    assert run(line) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((out / "augmentation.json").read_text())
    assert [json.loads(each) for each in (out / "chosen.jsonl").read_text().splitlines()] == told["chosen"]
    assert (out / "augmentation.png").exists()
    assert [part["title"] for part in told["parts"]] == ["test", "original"]
    for how in (told["how"], told["ranked_how"]):
        assert "exact, 20 x 20 matrix in the dual" in how  # of 10 training examples, 3 labels
    assert told["data"]["original"]["is_a_sample_of_the_training_data"]
    assert "examples of the pool" in told["summary"][2] + told["summary"][3]
    assert run(line) == 0
    assert json.loads(capsys.readouterr().out) == told


def test_column_names_of_the_pool_stay_and_ours_make_way(
    place: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "pool.jsonl"
    rows = [{"score": text, "rank": NAMES[label]} for text, label in zip(POOL, POOL_LABELS, strict=True)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    write(tmp_path / "anchors.csv", sentences(6, 1), [NAMES[row % 3] for row in range(6)])
    content = (tmp_path / "anchors.csv").read_text().replace("text,label", "score,rank", 1)
    (tmp_path / "anchors.csv").write_text(content)
    line = ["augment", str(place / "why"), "--pool", str(file), "--anchors", str(tmp_path / "anchors.csv"), "--json"]
    assert run([*line, "--text", "score", "--label", "rank"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"] == ["fastif_rank", "fastif_score", "line", "score", "rank"]
    assert told["chosen"][0]["score"] in POOL


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (POOL[:4], ["good", "bad", "great", "bad"], "'great'"),
        (POOL[:4], None, "label"),
        ([*POOL[:3], sentences(14, 2)[0]], ["good"] * 4, "1 examples of pool stand in test too"),
        ([*POOL[:3], sentences(12, 1)[0]], ["good"] * 4, "1 examples of pool stand in anchors too"),
    ],
)
def test_a_pool_that_cannot_be_used(
    texts: list[str],
    labels: list[str] | None,
    message: str,
    place: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "best.csv"
    file = write(tmp_path / "pool.csv", texts, labels)
    assert run(words(place, file, "--test", str(place / "test.csv"), "--export", str(out))) == 1
    seen = flat(capsys.readouterr().err)
    assert message in seen
    assert "Traceback" not in seen
    assert not out.exists()


def test_rows_of_the_training_data_are_reported(
    place: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write(tmp_path / "pool.csv", [*POOL[:3], TEXTS[2].upper()], ["good"] * 4)
    assert run(words(place, file, "--json")) == 0
    seen = capsys.readouterr()
    assert "1 of 4 examples of pool stand in the training data too" in flat(seen.err)
    assert "1 of 4 examples of pool" in json.loads(seen.out)["notes"][0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--export", "rows.xlsx"], "must end in .csv, .jsonl or .parquet"),
        (["--force"], "without -o or --export there are none"),
        (["--steps", "0"], "--steps"),
    ],
)
def test_wrong_usage(
    more: list[str],
    message: str,
    place: Path,  # noqa: F811
    pool: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(words(place, pool, *more)) == 2
    assert message in flat(capsys.readouterr().err)


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["augment", "--help"]) == 0
    assert "Example" in capsys.readouterr().out


def test_a_pool_row_is_worth_what_its_step_changes(place: Path, pool: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    """The exported score, times a small rate, is how the anchors' mean loss changes by a step on the row."""
    assert run(words(place, pool, "--top", "3", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    model = TextClassifier.from_pretrained(place / "model", dtype=torch.float64)
    anchors = model.examples(sentences(12, 1), [row % 3 for row in range(12)])
    rate = 1e-6
    for row in told["chosen"]:
        one = model.place(model.examples([row["text"]], [row["label"]]).batch([0]))
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in model.parameters.items()}
        model.losses(model.outputs(leaves, one.inputs), one.targets).sum().backward()
        moved = {name: (leaf - rate * leaf.grad).detach() for name, leaf in leaves.items() if leaf.grad is not None}
        batch = model.place(anchors.batch(range(12)))
        losses = [
            model.losses(model.outputs({**model.parameters, **some}, batch.inputs), batch.targets).mean()
            for some in ({}, moved)
        ]
        assert float(losses[1] - losses[0]) == pytest.approx(rate * row["score"], rel=1e-3)


def test_options_of_steps_that_are_not_taken_are_named(
    place: Path,  # noqa: F811
    pool: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(words(place, pool, "--steps", "3", "--hold-out", "0.2")) == 0
    assert "Not used: --steps, --hold-out. Steps on the pool are taken" in " ".join(capsys.readouterr().err.split())
    assert run(words(place, pool)) == 0
    assert "Not used" not in capsys.readouterr().err

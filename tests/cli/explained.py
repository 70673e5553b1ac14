"""A finished run of `fastif explain` on a tiny model that `fastif train` made, for the commands that go on from it."""

from pathlib import Path

import fastif
from fastif.cli.app import run
from fastif.files import sha256
from tests.integrations.huggingface.tiny_base import save_base, sentences, write_csv

QUERIES = (
    {"text": "the film was good", "label": "bright"},
    {"text": "a dull plot", "label": "bleak"},
    {"text": "we found it poor", "label": "bright"},  # wrong on purpose
)


def explained(folder: Path, rows: int = 60) -> Path:
    """Make a base, train on it, explain three queries with labels and one without; return the folder."""
    save_base(folder / "base")
    train = sentences(rows)
    for row in train[::9]:
        row["label"] = "bright" if row["label"] == "bleak" else "bleak"
    write_csv(folder / "train.csv", train)
    write_csv(folder / "query.csv", [dict(one) for one in QUERIES])
    given = ["--train", str(folder / "train.csv")]
    knobs = ["--epochs", "2", "--learning-rate", "5e-3", "--batch-size", "16", "--dev-share", "0"]
    assert run(["train", str(folder / "base"), *given, *knobs, "-o", str(folder / "model")]) == 0
    line = ["explain", str(folder / "model"), *given]
    assert run([*line, "--query", str(folder / "query.csv"), "-o", str(folder / "why")]) == 0
    assert run([*line, "--query-text", "dull", "-o", str(folder / "unlabelled")]) == 0
    return folder


def only_candidates(folder: Path, path: Path) -> Path:
    """Copy a run, and leave in it the scores of a few candidates alone, as `Nearest` would have scored them."""
    import json
    import shutil

    shutil.copytree(folder / "why", path)
    scores = fastif.Scores.load(path / "scores")
    few = fastif.Scores(
        scores.values[:, :20].clone(),
        scores.train_ids[:, :20].clone(),
        {**scores.provenance, "candidates": "Nearest(k=20, by='features')"},
    )
    few.save(path / "scores", overwrite=True)
    described = json.loads((path / "run.json").read_text())
    described["files"] |= {name: sha256(path / name) for name in ("scores.json", "scores.safetensors")}
    (path / "run.json").write_text(json.dumps(described))
    return path

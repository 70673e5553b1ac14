"""A finished run of `fastif explain` on a tiny model that `fastif train` made, for the commands that go on from it."""

from pathlib import Path

from fastif.cli.app import run
from tests.integrations.huggingface.tiny_base import save_base, sentences, write_csv

QUERIES = (
    {"text": "the film was good", "label": "bright"},
    {"text": "a dull plot", "label": "bleak"},
    {"text": "we found it poor", "label": "bright"},  # wrong on purpose
)


def explained(folder: Path, rows: int = 60) -> Path:
    """Make a base, train on it, explain three queries with labels, also by candidates alone, and one without."""
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
    few = ["--candidates", "20", "-o", str(folder / "candidates")]
    assert run([*line, "--query", str(folder / "query.csv"), *few]) == 0
    return folder

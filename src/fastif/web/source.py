"""What the explorer reads of a finished run: its explanation, its scores, its training rows, an audit beside it.

Knows the files of a run directory. Does not know the model, what is shown, or how.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastif.errors import StoredFileError
from fastif.scores import Scores
from fastif.store import RunStore
from fastif.web.rows import read_rows
from fastif.web.story import Story, read_story

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RunContent:
    """A finished run of `fastif explain`.

    Args:
        name: what the run is called, the name of its directory.
        place: its directory as it was given, for commands to copy.
        explanation: what was told of the queries.
        scores: of all candidates for all queries.
        train: a row for each training example: text, and where there are such: text_pair, label, slice, line.
        arguments: that the run was made with.
        suspects: the rows of `fastif audit`, where there are any.
        story: what is told of the run, where somebody wrote it.
    """

    name: str
    place: str
    explanation: Mapping[str, Any]
    scores: Scores
    train: Sequence[Row]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    suspects: Sequence[Row] = field(default_factory=list)
    story: Story | None = None


def read_run(path: Path, *, audit: Path | None = None) -> RunContent:
    """Read a finished run of `fastif explain`, and the list that `fastif audit -o` wrote where one is given."""
    store = RunStore.read(path)
    if store.request.get("command") != "explain":
        raise StoredFileError(f"{path} is a run of {store.request.get('command')}; give one of fastif explain.")
    with open(store.file("train.jsonl"), encoding="utf-8") as stream:
        train = [json.loads(line) for line in stream]
    scores = Scores.load(store.file("scores.json").with_suffix(""))
    explanation = store.json("explanation.json")
    if len(scores) != len(explanation["queries"]):
        raise StoredFileError(f"{path} has scores of {len(scores)} queries and tells of {len(explanation['queries'])}.")
    if scores.values.numel() and int(scores.train_ids.max()) >= len(train):
        raise StoredFileError(f"{path} has scores of more training examples than the {len(train)} that it keeps.")
    suspects = [] if audit is None else read_rows(audit, "a list of fastif audit (csv or jsonl)")
    name, story = path.resolve().name, read_story(path)
    return RunContent(name, str(path), explanation, scores, train, store.arguments, suspects, story)

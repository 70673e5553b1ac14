"""The demo's run and its explorer: some test pairs of each slice explained by `fastif explain`, and the page of it.

Knows where the demo writes and which columns its tables have; the story is told elsewhere, and goes along.
"""

import inspect
import json
import shlex
from pathlib import Path
from typing import Any

from fastif.cli.explain import explain, perform
from fastif.demo.chapters import page_story
from fastif.files import replacing
from fastif.progress import Progress
from fastif.web.export import Exported, write_export
from fastif.web.payload import make_payload
from fastif.web.source import read_run

RUN, PAGE, SUSPECTS = "run", "explorer.html", "suspects.jsonl"
OF_EACH_SLICE = 10
RATE = 0.003  # of corrections from the page: at the paper's 1e-4 no prediction of this model changes (docs/correct.md)
HEAD = "pooler|classifier"  # seconds in place of minutes, for the run and for the first question on its page


def write_run(story: dict[str, Any], out: Path, progress: Progress) -> None:
    """Explain some predictions of the demo's model, and list its suspected labels."""
    defaults = {name: each.default for name, each in inspect.signature(explain).parameters.items()}
    given = {
        "model": str(out / "model"),
        "train": str(out / "data" / "train.csv"),
        "query": str(out / "data" / "test.csv"),
        "text": "premise",
        "text_pair": "hypothesis",
        "label": "label",
        "slice": "slice",
        "query_slice": "slice",
        "per_slice": OF_EACH_SLICE,
        "trainable": HEAD,
        "seed": story["seed"],
    }
    arguments = {name: value for name, value in {**defaults, **given}.items() if name not in ("out", "as_json")}
    perform(arguments, out / RUN, progress)
    _write_suspects(story, out / SUSPECTS)


def write_page(story: dict[str, Any], out: Path) -> Exported:
    """Put the story beside the run, and write the page of both."""
    page_story(story).write(out / RUN)
    return write_export(make_payload(read_run(out / RUN, audit=out / SUSPECTS)), out / PAGE)


def opening(out: Path) -> str:
    """Return the command that opens the explorer with the model behind it."""
    run, suspects, data = (shlex.quote(str(out / name)) for name in (RUN, SUSPECTS, "data"))
    tables = f"--anchors {data}/anchors.csv --test {data}/test.csv --original {data}/original.csv --slice slice"
    return f"fastif serve {run} --audit {suspects} {tables} --learning-rate {RATE} --open"


def _write_suspects(story: dict[str, Any], file: Path) -> None:
    """Write the demo's suspects as `fastif audit` writes them; the first row of a csv stands on its second line."""
    with replacing(file) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        for each in story["audit"]["suspects"]:
            row = {
                "line": each["row"] + 2,
                "text": each["premise"],
                "text_pair": each["hypothesis"],
                "label": each["label"],
                "suggested_label": each["suggested"],
                "suggested_probability": each["suggested_probability"],
                "loss_without": each["loss_without"],
            }
            stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

"""How to train again on marked data: the commands to copy, and the same in Python.

Where `fastif train` made the checkpoint, its record says the base and the knobs; else the base is left to fill in.
Knows the request of a run and that record, and no model.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = "fastif_training.json"  # as integrations/huggingface/record.py has it, which is not imported for its package
# every knob of the recipe that `fastif train` has an option for; but not --limit, as a run holds only what was drawn
KNOBS = (
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "patience",
    "dev_share",
    "freeze_layers",
    "trainable",
    "regression",
    "max_length",
    "seed",
)
BASE = "BASE"


@dataclass(frozen=True)
class Again:
    """A base and knobs to train with once more.

    Args:
        base: what the model was fine-tuned from, or a word in its place.
        model: the checkpoint that the run explains.
        pair: whether an example is two texts.
        knobs: those of the recipe that are known.
        own_dev: whether epochs were measured on a table of their own, which is left to fill in.
    """

    base: str
    model: str
    pair: bool
    knobs: Mapping[str, Any]
    own_dev: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, Any], *, pair: bool) -> "Again":
        """Read what is known of the training of a run's model, from the arguments that the run was made with."""
        model = str(arguments.get("model") or "MODEL")
        record = _record(Path(model) / RECORD)
        recipe = record.get("recipe") or {}
        known = {**recipe, "learning_rate": record.get("learning_rate")}
        knobs = {name: known[name] for name in KNOBS if known.get(name) is not None}
        dev = record.get("dev") or {}
        return cls(str(record.get("base") or BASE), model, pair, knobs, own_dev=bool(dev) and not dev.get("kept_aside"))

    @property
    def hint(self) -> str:
        """Say what is left to fill in, where the base was not recorded or there was a dev table."""
        base = "" if self.base != BASE else ", with the base that the model came from"
        return base + (" (the first training had a --dev of its own; add it)" if self.own_dev else "")

    def command(self, train: str) -> str:
        """Return the line that trains on a file of marked data."""
        columns = f"--text text{' --text-pair text_pair' if self.pair else ''} --label label"
        knobs = "".join(_option(name, value) for name, value in self.knobs.items())
        files = f"--train {shlex.quote(train)} {columns}{knobs} -o {shlex.quote(self.model + '-marked')}"
        return f"fastif train {shlex.quote(self.base)} {files}"

    def python(self, run: str, marks: str) -> str:
        """Return a program that applies the marks and trains."""
        knobs = ", ".join(f"{name}={value!r}" for name, value in self.knobs.items())
        names = ("text", "text_pair", "label") if self.pair else ("text", "label")
        columns = ", ".join(f"{name}={name!r}" for name in names)
        return "\n".join(
            [
                "from pathlib import Path",
                "from fastif.integrations.huggingface import Recipe, train_classifier",
                "from fastif.integrations.tables import table_of",
                "from fastif.web.marks import marked_rows",
                "",
                f"rows, counts = marked_rows(Path({run!r}), Path({marks!r}))",
                f"table = table_of(rows, {columns})",
                f"trained = train_classifier({self.base!r}, table, recipe=Recipe({knobs}))",
                f"trained.save({self.model + '-marked'!r})",
            ]
        )


def _option(name: str, value: Any) -> str:
    """Return a knob as an option of the command, with a space in front; a flag stands there or does not."""
    flag = f" --{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value else ""
    return f"{flag} {shlex.quote(str(value))}"


def _record(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""The commands to train again have every knob that the record of a training has and `fastif train` takes."""

import inspect
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fastif.cli.train import train
from fastif.integrations.huggingface import Recipe, record
from fastif.web.again import KNOBS, RECORD, Again

LEFT_OUT = {"limit", "device"}  # a run holds only the rows that were drawn; where to compute is another matter


def again(folder: Path, recipe: Recipe, **known: Any) -> Again:
    told = {"base": "minilm", "learning_rate": 1e-3, "recipe": asdict(recipe), **known}
    (folder / RECORD).write_text(json.dumps(told))
    return Again.of({"model": str(folder)}, pair=False)


def test_the_knobs_are_those_of_the_command() -> None:
    options = set(inspect.signature(train).parameters) & {field.name for field in fields(Recipe)}
    assert set(KNOBS) == options - LEFT_OUT
    assert RECORD == record.RECORD


def test_the_recorded_knobs_come_back(tmp_path: Path) -> None:
    recipe = Recipe(weight_decay=0.3, patience=1, dev_share=0.0, regression=True, trainable="layer.(1|2)", seed=4)
    found = again(tmp_path, recipe, dev={"kept_aside": True})
    command = found.command("marked.csv")
    for words in ("--weight-decay 0.3", "--patience 1", "--dev-share 0.0", "--regression --", "--learning-rate 0.001"):
        assert words in command
    names: dict[str, Any] = {"Recipe": Recipe}
    call = next(line for line in found.python("run", "marks.jsonl").splitlines() if "Recipe(" in line)
    assert eval(call[call.index("Recipe(") : -1], names) == Recipe(**{**asdict(recipe), "learning_rate": 1e-3})
    assert found.hint == ""


def test_a_dev_table_is_left_to_fill_in_and_no_flag_is_written_for_classes(tmp_path: Path) -> None:
    found = again(tmp_path, Recipe(regression=False), dev={"kept_aside": False})
    assert "--dev of its own" in found.hint
    assert "--regression" not in found.command("marked.csv")

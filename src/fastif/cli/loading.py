"""From what stands on the command line to a model and tables, with what a person should know about them said aloud."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fastif.cli.console import note
from fastif.cli.options import Dtype
from fastif.errors import ConfigurationError, StoredFileError
from fastif.integrations.tables import TextTable, read_table
from fastif.store import DESCRIPTION, RunStore
from fastif.web.again import RECORD

if TYPE_CHECKING:
    from fastif.integrations.huggingface import TextClassifier, TextExamples

CONFLICTS_SHOWN = 3


def pick_device(name: str | None) -> torch.device:
    """Return the device of that name, or the best there is."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        # torch goes on with everything that it could do instead
        reason = str(error).strip().splitlines()[0].split(". ")[0].removesuffix(".")
        advice = "Give cpu, or cuda for a GPU."
        if name.startswith("cuda"):
            advice = "Leave --device out, which takes what there is"
            advice += "." if torch.backends.cuda.is_built() else ", or install a torch that is built with CUDA."
        raise ConfigurationError(f"--device {name} cannot be used: {reason}. {advice}") from error
    return device


def check_no_run(name: str) -> None:
    """Raise for the directory of a run where that of a model is wanted, and name the model that it has."""
    place = Path(name).expanduser()
    if (place / "config.json").exists() or not (place / DESCRIPTION).exists():
        return
    store = RunStore.read(place)
    command = store.request.get("command")
    if command == "explain":
        words = f"its model is {store.arguments.get('model')}. Give that"
    elif (place / "model" / "config.json").exists():
        words = f"the model that it wrote is {place / 'model'}. Give that"
    else:
        words = "give the directory of a model"
    raise StoredFileError(f"{name} is a run of fastif {command}, and no model: {words}.")


def load_model(name: str, *, device: str | None, dtype: Dtype, **choices: Any) -> "TextClassifier":
    """Load a classifier, on its device and in its dtype."""
    from fastif.integrations.huggingface import TextClassifier  # only where a model is loaded: transformers is an extra

    check_no_run(name)
    wanted = torch.float64 if dtype is Dtype.FLOAT64 else None
    model = TextClassifier.from_pretrained(name, device=pick_device(device), dtype=wanted, **choices)
    labels = ", ".join(list(model.label_names.values())[:20]) if model.problem != "regression" else "a number"
    note(f"Model: {name}, {type(model.module).__name__}, {model.problem}: {labels}.")
    note(f"Influence through {model.parameters_in_words()}.")
    note(f"Computed once: {model.prefix}." if model.prefix else f"Nothing is computed once, as {model.why_no_prefix}.")
    return model


def load_table(source: str, name: str, **columns: Any) -> TextTable:
    """Read a table, and say which columns were taken and what looks odd."""
    table = read_table(source, source_name=name, **columns)
    note(f"{name.capitalize()}: {len(table):,} rows of {source}: {table.columns}.")
    conflicts = table.conflicts()
    if conflicts and table.labels is not None:
        rows = sum(map(len, conflicts))
        note(f"  {len(conflicts):,} texts stand there with different labels ({rows:,} rows), for instance:")
        for group in conflicts[:CONFLICTS_SHOWN]:
            places = ", ".join(f"{table.unit} {table.lines[row]}: {table.labels[row]}" for row in group[:4])
            note(f"    {_short(table.texts[group[0]])!r} ({places})")
    return table


def only_trained_on(model: str, table: TextTable) -> TextTable:
    """Return the rows that the model was trained on, where its record says that it was not all of them."""
    if not (Path(model) / RECORD).exists():
        return table
    from fastif.integrations.huggingface.record import rows_trained_on

    rows = rows_trained_on(model, table.sha256, table.lines)
    if rows is None or len(rows) == len(table):
        return table
    note(f"  {len(rows):,} of them were trained on, as the record of the model says; the others have no influence.")
    return table.take(rows)


def as_examples(model: "TextClassifier", table: TextTable, source: str) -> "TextExamples":
    """Tokenise a table, and say how many texts were cut."""
    examples = model.from_table(table, source=source)
    note_cut(examples, model.max_length)
    return examples


def note_cut(examples: "TextExamples", max_length: int) -> None:
    """Say how many texts were cut, if any."""
    if examples.truncated:
        note(
            f"  {examples.truncated:,} of {len(examples):,} texts of {examples.source} are longer than {max_length} "
            "tokens and were cut there."
        )


def plain_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command as JSON can hold them."""
    return {name: str(value) if isinstance(value, Path | StrEnum) else value for name, value in sorted(given.items())}


def _short(text: str, width: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"

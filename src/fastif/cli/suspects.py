"""The examples that an audit lists, as rows, and the files that they are written to.

jsonl holds every text exactly. csv is read by spreadsheets, which run a cell that begins with = + - or @ as a formula:
there such a text, or one that begins with a tab or a carriage return, gets a single quote in front.
"""

import csv
import json
from pathlib import Path
from typing import Any

from fastif.apps.audit import Audit, Ranking
from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import replacing
from fastif.integrations.huggingface import TextExamples
from fastif.integrations.tables import TextTable

FORMATS = (".csv", ".jsonl")
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def suspects(found: Audit, examples: TextExamples, table: TextTable, *, by: Ranking, top: int) -> list[dict[str, Any]]:
    """Return the first examples of a ranking, as JSON can hold them."""
    return [_row(found, examples, table, index, rank) for rank, index in enumerate(found.ranking(by)[:top].tolist(), 1)]


def _row(found: Audit, examples: TextExamples, table: TextTable, index: int, rank: int) -> dict[str, Any]:
    label = None if found.suggested is None else examples.name_of(found.suggested[index])
    probability = None if found.suggested_probability is None else float(found.suggested_probability[index])
    return {
        "line": table.lines[index],
        "text": table.texts[index],
        **({} if table.pairs is None else {"text_pair": table.pairs[index]}),
        "label": examples.name_of(examples.targets[index]),
        "suggested_label": label,
        "suggested_probability": probability,
        "loss": float(found.losses[index]),
        "loss_without": float(found.losses_without[index]),
        "self_influence": float(found.self_influence[index]),
        "self_influence_error": float(found.self_influence_error[index]),
        "rank": rank,
    }


def check_place(out: Path, *, force: bool) -> None:
    """Raise before any work if the file could not be written in the end."""
    if out.suffix.lower() not in FORMATS:
        raise ConfigurationError(f"-o {out} must end in {' or '.join(FORMATS)}, which says how it is written.")
    if out.is_dir():
        raise StoredFileError(f"{out} is a directory; give the name of a file.")
    if out.exists() and not force:
        raise StoredFileError(f"{out} exists. Choose another name, or replace it with --force.")


def write_suspects(out: Path, rows: list[dict[str, Any]], *, force: bool) -> None:
    """Write the rows, whole or not at all."""
    check_place(out, force=force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as stream:
            if out.suffix.lower() == ".jsonl":
                stream.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
            else:
                table = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
                table.writeheader()
                table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    except OSError as error:
        raise StoredFileError(f"{out} could not be written: {error}") from error


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula.

    >>> _cell("=1+1"), _cell("fine"), _cell(-2.5)
    ("'=1+1", 'fine', -2.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value

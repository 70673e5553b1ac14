"""Whatever texts are written by Python's own csv and json come back as they were, and from the right line."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastif.integrations.tables import read_table

# letters that break naive readers, and any others but half characters and NUL
AWKWARD = st.sampled_from(
    ['"', '""', ",", "\t", "\n", "\r", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x1c", "\\", "'", "🙂"]
)
LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.lists(AWKWARD | LETTERS, max_size=12).map("".join).filter(lambda text: text.strip())
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from(["yes", "no"])), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("roundtrip")


# before Python 3.13 the writer leaves a lone \\r bare unless it is of the line ends
@given(rows=ROWS, style=st.sampled_from([(csv.QUOTE_MINIMAL, "\r\n"), (csv.QUOTE_ALL, "\r\n"), (csv.QUOTE_ALL, "\n")]))
def test_csv(folder: Path, rows: list[tuple[str, str]], style: tuple[int, str]) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, quoting=style[0], lineterminator=style[1])  # type: ignore[arg-type]
    writer.writerow(["text", "label"])
    starts = []
    for row in rows:
        before = stream.getvalue()
        starts.append(len(before.replace("\r\n", "\n").replace("\r", "\n").split("\n")))
        writer.writerow(row)
    path = folder / "a.csv"
    path.write_bytes(stream.getvalue().encode())
    table = read_table(path)
    assert table.texts == [text for text, _ in rows]
    assert table.labels == [label for _, label in rows]
    assert table.lines == starts


@given(rows=ROWS, ascii_only=st.booleans())
def test_jsonl(folder: Path, rows: list[tuple[str, str]], ascii_only: bool) -> None:
    path = folder / "a.jsonl"
    lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii_only) for text, label in rows]
    path.write_bytes("\n".join(lines).encode())
    table = read_table(path)
    assert table.texts == [text for text, _ in rows]
    assert table.lines == list(range(1, len(rows) + 1))


@given(rows=ROWS, indent=st.sampled_from([None, 0, 2]))
def test_json(folder: Path, rows: list[tuple[str, str]], indent: int | None) -> None:
    path = folder / "a.json"
    objects = [{"text": text, "label": label} for text, label in rows]
    path.write_bytes(json.dumps(objects, ensure_ascii=False, indent=indent).encode())
    table = read_table(path)
    assert table.texts == [text for text, _ in rows]
    assert table.lines == ([1] * len(rows) if indent is None else [2 + 4 * index for index in range(len(rows))])


@given(rows=ROWS, quoted=st.booleans())
def test_tsv_of_texts_without_tabs_and_line_ends(folder: Path, rows: list[tuple[str, str]], quoted: bool) -> None:
    plain = [(text.replace("\t", "_").replace("\n", "_").replace("\r", "_"), label) for text, label in rows]
    path = folder / "a.tsv"

    def field(text: str) -> str:
        # a text that is quoted as a whole is the one thing that bare tsv cannot hold
        return '"' + text.replace('"', '""') + '"' if quoted or text.startswith('"') else text

    path.write_bytes("\n".join(["text\tlabel", *(f"{field(text)}\t{label}" for text, label in plain)]).encode())
    assert read_table(path).texts == [text for text, _ in plain]

"""From a path to a table: the formats agree, line numbers are an editor's, and what is no table is named."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fastif import errors
from fastif.integrations.tables import TextTable, read_table

ROWS = [
    {"text": 'she said "no", twice', "label": "neg", "genre": "drama"},
    {"text": "a film to remember", "label": "pos", "genre": "comedy"},
    {"text": "naïve, 漢字 and 🙂", "label": "pos", "genre": "drama"},
]
CSV = 'text,label,genre\n"she said ""no"", twice",neg,drama\n'
CSV += 'a film to remember,pos,comedy\n"naïve, 漢字 and 🙂",pos,drama\n'
TSV = 'text\tlabel\tgenre\nshe said "no", twice\tneg\tdrama\n'
TSV += "a film to remember\tpos\tcomedy\nnaïve, 漢字 and 🙂\tpos\tdrama\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def made(path: Path) -> Path:
    """Write the rows above in the format of the path."""
    if path.suffix in (".jsonl", ".ndjson"):
        return written(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS))
    if path.suffix == ".json":
        return written(path, json.dumps(ROWS, indent=1))
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), path)
        return path
    return written(path, CSV if path.suffix == ".csv" else TSV)


def read(path: Path, content: str | bytes, **options: Any) -> TextTable:
    return read_table(written(path, content), **options)


@pytest.mark.parametrize(
    ("suffix", "lines"),
    [
        (".jsonl", [1, 2, 3]),
        (".ndjson", [1, 2, 3]),
        (".json", [2, 7, 12]),
        (".csv", [2, 3, 4]),
        (".tsv", [2, 3, 4]),
        (".parquet", [1, 2, 3]),
    ],
)
def test_every_format_gives_the_same_table(tmp_path: Path, suffix: str, lines: list[int]) -> None:
    path = made(tmp_path / f"rows{suffix}")
    table = read_table(str(path), slice="genre")
    assert table.source == str(path)
    assert table.texts == [row["text"] for row in ROWS]
    assert table.labels == ["neg", "pos", "pos"]
    assert table.slices == ["drama", "comedy", "drama"]
    assert table.pairs is None
    assert table.lines == lines
    assert table.unit == ("row" if suffix == ".parquet" else "line")
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(table.columns) == "text -> label by genre (guessed; set them with --text, --label)"
    assert len(table) == 3


def test_line_numbers_are_of_the_first_line_of_a_row(tmp_path: Path) -> None:
    content = 'text,label\r\n"one\r\ntwo\r\nthree",a\r\n\r\nshort,b\r\n"x\ny",a\r\nend,b'
    table = read(tmp_path / "a.csv", content)
    assert table.lines == [2, 6, 7, 9]
    assert table.texts[0] == "one\r\ntwo\r\nthree"
    lines = content.split("\n")
    assert [lines[line - 1].strip('"').split(",")[0].strip() for line in table.lines] == ["one", "short", "x", "end"]


def test_json_may_be_lines_and_jsonl_may_have_blank_ones(tmp_path: Path) -> None:
    content = '{"text": "a b", "label": 1}\n\n  \n{"text": "c\u2028d\x85e", "label": 0}\r\n'
    for name in ("a.json", "a.jsonl"):
        table = read(tmp_path / name, content)
        assert table.texts == ["a b", "c\u2028d\x85e"]
        assert table.labels == [1, 0]
        assert table.lines == [1, 4]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", b"\xef\xbb\xbf" + CSV.encode()).columns.text == "text"


def test_a_field_may_be_large_and_the_limit_of_the_process_stays(tmp_path: Path) -> None:
    import csv

    before = csv.field_size_limit()
    table = read(tmp_path / "a.csv", f"text,label\n{'long ' * 100_000},a\nb,b\n")
    assert len(table.texts[0]) == 500_000
    assert csv.field_size_limit() == before


def test_in_tsv_quotes_are_plain_unless_they_hold_the_whole_field(tmp_path: Path) -> None:
    content = (
        'sentence\tlabel\n"an open quote\t0\nin the "middle" of it\t1\n"all ""of"" it"\t0\n"two" and "two"\t1\n"\t0\n'
    )
    texts = ['"an open quote', 'in the "middle" of it', 'all "of" it', '"two" and "two"', '"']
    assert read(tmp_path / "a.tsv", content).texts == texts


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_400_000_rows_take_seconds(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"large{suffix}"
    texts = [f"the premise of example number {number} says that it rains" for number in range(400_000)]
    if suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        columns = pyarrow.table({"text": texts, "label": [number % 3 for number in range(400_000)]})
        pytest.importorskip("pyarrow.parquet").write_table(columns, path)
    elif suffix == ".csv":
        written(path, "text,label\n" + "".join(f"{text},{number % 3}\n" for number, text in enumerate(texts)))
    else:
        lines = (f'{{"text": "{text}", "label": {number % 3}}}\n' for number, text in enumerate(texts))
        written(path, "".join(lines))
    start = time.perf_counter()
    table = read_table(path)
    assert time.perf_counter() - start < 20  # about 2 s each where nothing else runs
    assert len(table) == 400_000
    assert table.texts[-1] == texts[-1]


# ------------------------------------------------------------------------------------------- files that are no table


def test_a_missing_file_is_no_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "train.csv")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        errors.StoredFileError, match=r"train \(trian\.csv\): there is no such file\. .*mean train\.csv\?"
    ):
        read_table("trian.csv")
    with pytest.raises(errors.StoredFileError, match=r"query \(data/a\.csv\): .* There is no directory data either\."):
        read_table("data/a.csv", source_name="query")
    with pytest.raises(errors.StoredFileError, match="no such file"):
        read_table(Path("imdb"))
    for source in ("./imdb", "a/b/c", "notes.txt", ""):
        with pytest.raises(errors.StoredFileError):
            read_table(source)
    (tmp_path / "data").mkdir()
    made(tmp_path / "data" / "train.csv")
    with pytest.raises(errors.StoredFileError, match=r"no such file\. Did you mean data/train\.csv"):
        read_table("data/train")


def test_directories_and_other_endings_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.StoredFileError, match=r"is a directory\. Give one file of it; none"):
        read_table(tmp_path)
    made(tmp_path / "b.csv")
    with pytest.raises(errors.StoredFileError, match=r"is a directory\. Give one file of it: b\.csv\."):
        read_table(tmp_path)
    for name, hint in (("a.txt", r"ends in \.txt.*Name it \.jsonl"), ("a.csv.gz", r"\.gz.*Unpack"), ("a", "no suffix")):
        with pytest.raises(errors.StoredFileError, match=hint):
            read(tmp_path / name, "text,label\n")


def test_a_directory_is_named_once_and_a_link_with_its_end(tmp_path: Path) -> None:
    with pytest.raises(errors.StoredFileError) as refused:
        read_table(str(tmp_path))
    assert str(refused.value).count("train (") == 1
    (tmp_path / "link.csv").symlink_to("gone.csv")
    with pytest.raises(errors.StoredFileError, match=r"is a link to gone\.csv, and there is no such file\. Put"):
        read_table(tmp_path / "link.csv")


def test_a_file_that_was_not_written_to_the_end_is_no_other_encoding(tmp_path: Path) -> None:
    with pytest.raises(errors.StoredFileError, match=r"ends in 4,096 NUL bytes, from line 6 on: it was not written"):
        read(tmp_path / "a.csv", CSV + "x,neg,a\n" + "y,n" + "\0" * 4096)
    with pytest.raises(errors.StoredFileError, match="is all NUL: it was not written to the end"):
        read(tmp_path / "b.csv", "\0" * 512)
    with pytest.raises(errors.StoredFileError, match="has a NUL byte in line 2"):
        read(tmp_path / "c.csv", "text,label\n" + "\0" * 5000 + "a,b\n")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_key_that_stands_twice_is_broken(name: str, tmp_path: Path) -> None:
    row = '{"text": "a", "label": "x", "label": "y"}'
    with pytest.raises(errors.DataError, match=r"line 1: broken JSON \(the key 'label' stands there twice\)"):
        read(tmp_path / name, f"[{row}]" if name == "a.json" else row)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "a.csv")
    path.chmod(0)
    if os.access(path, os.R_OK):  # for the superuser rights do not count

        def refuse(self: Path) -> bytes:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(errors.StoredFileError, match=r"may not be read by this user\. .*chmod u\+r"):
        read_table(path)


def test_other_encodings_come_with_the_command_that_converts(tmp_path: Path) -> None:
    path = tmp_path / "my data.csv"
    text = "text,label\nplain,a\ncafé au lait,b\n"
    target = tmp_path / "my data.utf8.csv"
    command = f"iconv -f ISO-8859-1 -t UTF-8 '{path}' > '{target}'"
    with pytest.raises(
        errors.StoredFileError, match=r"not UTF-8: byte 0xe9 in line 3 \(byte 23 of the file\)"
    ) as caught:
        read(path, text.encode("latin-1"))
    assert command in str(caught.value)
    subprocess.run(command, shell=True, check=True)
    assert read_table(target).texts == ["plain", "café au lait"]
    with pytest.raises(errors.StoredFileError, match="WINDOWS-1252"):
        read(path, "text,label\n“quoted”,a\n".encode("cp1252"))
    with pytest.raises(errors.StoredFileError, match=r"byte 0xe9 in line 3 \(byte 26 of the file\)"):
        read(path, b"\xef\xbb\xbf" + text.encode("latin-1"))
    for encoding, name in (("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE")):
        with pytest.raises(errors.StoredFileError, match=f"{name}.*Convert it: iconv -f {name} -t UTF-8"):
            read(path, text.encode(encoding))
    with pytest.raises(errors.StoredFileError, match="UTF-32"):
        read(path, text.encode("utf-32"))


def test_binary_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.StoredFileError, match=r"NUL byte in line 2 \(byte 14 of the file\).*tr -d '\\000'"):
        read(tmp_path / "a.csv", "text,label\nab\0c,x\nd,y\n")
    parquet = made(tmp_path / "a.parquet").read_bytes()
    with pytest.raises(errors.StoredFileError, match=r"is a parquet file, whatever its name says: rename it"):
        read(tmp_path / "b.csv", parquet)
    with pytest.raises(errors.StoredFileError, match="zip archive or an Excel workbook"):
        read(tmp_path / "b.jsonl", b"PK\x03\x04rest")
    with pytest.raises(errors.StoredFileError, match=r"gzip-compressed.*gunzip"):
        read(tmp_path / "b.tsv", b"\x1f\x8b\x08rest")
    with pytest.raises(errors.StoredFileError, match=r"no parquet file.*name it \.jsonl, \.csv or \.tsv"):
        read(tmp_path / "b.parquet", CSV)
    with pytest.raises(errors.StoredFileError, match=r"no parquet file.*It is a zip archive"):
        read(tmp_path / "b.parquet", b"PK\x03\x04rest")
    with pytest.raises(errors.StoredFileError, match="damaged or was not copied whole"):
        read(tmp_path / "b.parquet", parquet[:-20])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", ""),
        ("a.csv", "\n\n"),
        ("a.csv", " \n \n\n"),
        ("a.csv", '""\n'),
        ("a.csv", "text,label\n"),
        ("a.tsv", "text\tlabel\n\n"),
        ("a.jsonl", "\n  \n"),
        ("a.json", "[]"),
        ("a.json", " [ ]\n"),
        ("a.parquet", ""),
    ],
)
def test_nothing_to_read_is_empty_data(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(errors.EmptyDataError):
        read(tmp_path / name, content)


def test_a_parquet_file_without_rows_is_empty_data(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"text": [], "label": []}), path)
    with pytest.raises(errors.EmptyDataError, match="there is no row"):
        read_table(path)


def test_parquet_may_have_two_columns_of_a_name(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    table = pyarrow.table([["a"], ["b"], [0]], names=["text", "text", "label"])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    with pytest.raises(errors.DataError, match="two columns called 'text'"):
        read_table(path)


def test_a_file_has_no_split(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="has no split 'test'"):
        read_table(made(tmp_path / "a.csv"), split="test")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(errors.ConfigurationError, match=r"pip install 'fastif\[hf\]'"):
        read_table(path)


def test_importing_loads_neither_pyarrow_nor_datasets() -> None:
    heavy = "('pyarrow', 'datasets', 'pandas', 'transformers')"
    check = f"import sys, fastif.integrations.tables; print([name for name in {heavy} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------------------ the table


def test_conflicts_duplicates_and_parts(tmp_path: Path) -> None:
    content = "text,text_pair,label\na,x,0\na,y,1\na,x,1\na,y,1\na,x,0\nb,x,0\n"
    table = read(tmp_path / "a.csv", content)
    assert table.pairs == ["x", "y", "x", "y", "x", "x"]
    assert table.conflicts() == [[0, 2, 4]]
    assert table.duplicates() == 2
    part = table.take([5, 0])
    assert (part.texts, part.pairs, part.labels, part.lines) == (["b", "a"], ["x", "x"], ["0", "0"], [7, 2])
    assert part.sha256 == table.sha256
    assert len(table.head(2)) == 2
    assert len(table.head(99)) == 6
    with pytest.raises(errors.DataError, match="has 6 rows, so there is no number 6"):
        table.take([6])
    with pytest.raises(errors.DataError, match="at least one row"):
        table.head(0)


def test_labels_that_are_lists_can_conflict_too(tmp_path: Path) -> None:
    content = "".join(json.dumps({"text": "a", "labels": labels}) + "\n" for labels in (["x"], ["x", "y"], ["x"], []))
    table = read(tmp_path / "a.jsonl", content)
    assert table.conflicts() == [[0, 1, 2, 3]]
    assert table.duplicates() == 1


def test_slices_may_be_missing_where_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("text,label,genre\na fine film,good,drama\n")
    assert read_table(path, slice="genre", require_slice=False).slices == ["drama"]
    assert read_table(path, slice="part", require_slice=False).slices is None
    with pytest.raises(errors.DataError, match="which --slice asks for"):
        read_table(path, slice="part")

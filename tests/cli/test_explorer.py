"""`fastif export`, `apply` and `serve`: the page as a file, marks applied to the data, questions to a real model."""

import json
import shlex
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import fastif
from fastif.cli.app import run
from fastif.cli.live import Correction, Questions, accuracy_table, correction_of
from fastif.cli.opened import open_run
from fastif.cli.rows import write_rows
from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.integrations.tables import read_table
from fastif.web.marks import as_parquet, mark_rows
from fastif.web.payload import make_payload
from fastif.web.server.jobs import Job, Report
from fastif.web.source import read_run
from tests.cli.explained import explained
from tests.cli.stored import store_run
from tests.web.runs import write_run
from tests.web.served import serving


def test_export_writes_the_page_and_says_what_is_in_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_run(tmp_path / "run")
    file = tmp_path / "out.html"
    assert run(["export", str(path), str(file), "--json"]) == 0
    heard = capfd.readouterr()
    told = json.loads(heard.out)
    assert told["bytes"] == file.stat().st_size
    assert f"embeds {told['train_texts']} training texts" in heard.err
    assert run(["export", str(path), str(file)]) == 1
    assert "exists" in capfd.readouterr().err
    assert run(["export", str(path), str(file), "--force", "--redact"]) == 0
    assert "no training text" in capfd.readouterr().err
    assert run(["export", str(path), str(tmp_path / "out.txt")]) == 1
    assert run(["export", str(tmp_path), str(tmp_path / "x.html")]) == 1


def test_apply_removes_and_relabels(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_run(tmp_path / "run")
    marks = [
        {"index": 0, "action": "remove", "label": "negative", "new_label": None},
        {"index": 1, "action": "relabel", "label": "positive", "new_label": "negative"},
        {"index": 2, "action": "keep", "label": "negative"},
    ]
    file = tmp_path / "marks.jsonl"
    file.write_text("".join(json.dumps(mark) + "\n" for mark in marks))
    out = tmp_path / "train.jsonl"
    assert run(["apply", str(path), str(file), "-o", str(out), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["rows"], told["remove"], told["relabel"], told["keep"]) == (59, 1, 1, 1)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["text"].endswith(" 1")
    assert rows[0]["label"] == "0"  # as the file writes it, though the model calls it negative
    assert "fastif train BASE" in told["command"]
    assert "--text-pair text_pair" in told["command"]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_what_apply_writes_is_read_back_exactly(tmp_path: Path, name: str) -> None:
    texts = ["=1+1", "-1 is less", "@ home", "+ and", "\ta tab", "'quoted", '"so", he said', "two\nlines", "fine"]
    rows: list[dict[str, object]] = [
        {"line": at + 2, "text": text, "label": ("-1", "1")[at % 2]} for at, text in enumerate(texts)
    ]
    path = store_run(tmp_path / "run", [None], train=rows)
    (tmp_path / "marks.jsonl").write_text('{"index": 8, "action": "remove"}\n')
    assert run(["apply", str(path), str(tmp_path / "marks.jsonl"), "-o", str(tmp_path / name)]) == 0
    table = read_table(tmp_path / name, text="text", label="label")
    assert list(table.texts) == texts[:-1]
    assert list(map(str, table.labels or ())) == ["-1", "1"] * 4


def test_marks_are_read_from_jsonl_csv_and_parquet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_run(tmp_path / "run")
    rows = mark_rows(make_payload(read_run(path)), {0: "remove", 1: "label:negative", 2: "keep"})
    for name in ("marks.jsonl", "marks.csv", "marks.parquet"):
        file = tmp_path / name
        if file.suffix == ".parquet":
            file.write_bytes(as_parquet(rows))
        else:
            write_rows(file, rows)
        out = tmp_path / f"{file.suffix[1:]}.jsonl"
        assert run(["apply", str(path), str(file), "-o", str(out), "--json"]) == 0
        told = json.loads(capfd.readouterr().out)
        assert (told["rows"], told["remove"], told["relabel"], told["keep"]) == (59, 1, 1, 1)
    written = [(tmp_path / f"{kind}.jsonl").read_bytes() for kind in ("jsonl", "csv", "parquet")]
    assert written[0] == written[1] == written[2]
    (tmp_path / "marks.parquet").write_bytes(b"PAR1 and then nothing")
    assert run(["apply", str(path), str(tmp_path / "marks.parquet"), "-o", str(tmp_path / "no.csv")]) == 1
    assert "could not be read as marks" in capfd.readouterr().err


def test_what_the_page_shows_trains_again_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    explained(tmp_path)
    first = json.loads(Path("model/fastif_training.json").read_text())
    payload = make_payload(read_run(Path("why")))
    index = int(payload.arrays["train_id"][0])
    write_rows(Path("marks.jsonl"), mark_rows(payload, {index: "remove"}))
    again = payload.head["again"]
    exec(again["python"], names := {})
    rows = len(Path("why/train.jsonl").read_text().splitlines())
    assert len(names["rows"]) == rows - 1
    in_python = names["trained"].record
    shutil.rmtree("model-marked")
    assert run(shlex.split(again["apply"])[1:]) == 0
    assert Path("train-marked.jsonl").read_text().count("\n") == rows - 1
    assert run(shlex.split(again["train"])[1:]) == 0
    on_the_line = json.loads(Path("model-marked/fastif_training.json").read_text())
    for trained in (in_python, on_the_line):
        assert trained["train"]["rows"] == rows - 1  # nothing is kept aside, as in the first training
        assert trained["recipe"] == first["recipe"]
        assert trained["base_sha256"] == first["base_sha256"]


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ({"index": 999, "action": "keep"}, "has 60 of them"),
        ({"action": "keep"}, "no index"),
        ({"index": 1, "action": "burn"}, "marks are keep"),
        ({"index": 1}, "the mark of example 1 has nothing in the column action"),
        ({"index": 1, "action": None}, "nothing in the column action, which says keep, remove or relabel"),
        ({"index": 1, "action": "keep", "label": "negative"}, "other data"),
        ({"index": 1, "action": "relabel"}, "says relabel and no new_label"),
        ({"index": 1, "action": "relabel", "new_label": None}, "says relabel and no new_label"),
        ({"index": 1, "action": "relabel", "new_label": ""}, "says relabel and no new_label"),
        ({"index": 1, "action": "remove", "text": "another text"}, "other data"),
        ({"index": 1, "action": "remove", "line": 999}, "other data"),
        ({"index": 5.7, "action": "remove"}, "no whole number"),
        ({"index": True, "action": "remove"}, "no whole number"),
        ({"index": float("inf"), "action": "remove"}, "Error: a mark has the index inf"),
        ({"index": 1, "action": "relabel", "new_label": "zebra"}, "no class of this run"),
        ({"index": 1, "action": "relabel", "new_label": ["negative"]}, "no class of this run"),
    ],
)
def test_marks_of_other_data_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], mark: dict[str, object], words: str
) -> None:
    path = write_run(tmp_path / "run")
    file = tmp_path / "marks.jsonl"
    file.write_text(json.dumps(mark) + "\n")
    assert run(["apply", str(path), str(file), "-o", str(tmp_path / "out.csv")]) == 1
    assert words in capfd.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def _report() -> tuple[Report, list[tuple[str, int]]]:
    job = Job(1, "ask", "a", {})
    heard: list[tuple[str, int]] = []
    return Report(job, lambda: heard.append((job.stage, len(job.found)))), heard


def test_a_question_gets_what_explain_finds(folder: Path) -> None:
    questions = Questions(open_run(folder / "unlabelled"))
    report, heard = _report()
    questions({"text": "dull", "text_pair": None, "label": None}, report)
    told = json.loads((folder / "unlabelled" / "explanation.json").read_text())["queries"][0]
    found = report.job.found
    assert found["predicted"] == told["predicted"]
    assert found["query"]["helpful"][0]["index"] == told["helpful"][0]["index"]
    assert found["query"]["helpful"][0]["score"] == pytest.approx(told["helpful"][0]["score"], rel=1e-3)
    first = next(stage for stage, parts in heard if parts)
    assert first == "predicting"  # which is told before the examples are found
    json.dumps(found, allow_nan=False)


def test_what_goes_on_from_a_run_takes_its_solver(folder: Path, tmp_path: Path) -> None:
    line = ["explain", str(folder / "model"), "--train", str(folder / "train.csv"), "--query-text", "dull"]
    assert run([*line, "--solver", "lissa", "--seed", "3", "-o", str(tmp_path / "lissa")]) == 0
    questions = Questions(open_run(tmp_path / "lissa"))
    report, _ = _report()
    questions({"text": "dull", "text_pair": None, "label": None}, report)
    told = json.loads((tmp_path / "lissa" / "explanation.json").read_text())["queries"][0]
    (first, *_), (stored, *_) = report.job.found["query"]["helpful"], told["helpful"]
    assert first["index"] == stored["index"]
    assert first["score"] == pytest.approx(stored["score"], rel=1e-3)
    assert first["error"] == pytest.approx(stored["error"], rel=1e-3)  # which LiSSA alone has
    assert first["error"] > 0
    description = tmp_path / "lissa" / "run.json"
    description.write_text(description.read_text().replace('"solver": "lissa"', '"solver": "paper"'))
    settings = open_run(tmp_path / "lissa").settings
    assert settings["solver"] == fastif.LiSSA.paper(seed=3)
    assert settings["curvature"] == "hessian"


def test_a_correction_tells_accuracy_before_and_after(folder: Path) -> None:
    opened = open_run(folder / "why")
    with pytest.raises(ConfigurationError, match="both --anchors and --test"):
        correction_of(opened, "a.csv", None)
    assert correction_of(opened, None, None) is None
    there = str(folder / "query.csv")
    assert correction_of(opened, there, there, original=there) is not None
    for given in ((there, "b.csv"), ("a.csv", there)):
        with pytest.raises(StoredFileError, match=r"[ab]\.csv\): there is no such file"):
            correction_of(opened, *given)
    with pytest.raises(DataError, match="has no column 'genre'"):
        correction_of(opened, there, there, slice="genre")
    courses = [
        {"kind": "helpful", "repeat": 0, "accuracy": [[0.5], [0.7]]},
        {"kind": "helpful", "repeat": 1, "accuracy": [[0.5], [0.9]]},
    ]
    told = accuracy_table({"courses": courses, "parts": [{"title": "all", "examples": 10}]})
    assert told["rows"] == [{"part": "all", "examples": 10, "start": 0.5, "helpful": pytest.approx(0.8)}]
    correction = Correction(opened, "a.csv", "b.csv", slice="kind")
    assert correction.command().endswith("--anchors a.csv --test b.csv --slice kind -o runs/corrected")
    assert correction.arguments()["steps"] == 10
    assert correction.rate == 1e-4
    spaced = Correction(opened, "an chors.csv", "b.csv", learning_rate=0.5)
    assert "--anchors 'an chors.csv' --test b.csv --learning-rate 0.5" in spaced.command()


def test_serve_takes_the_rates_that_its_page_may_ask_for(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = ["--anchors", str(folder / "query.csv"), "--test", str(folder / "query.csv")]
    for rate in ("200", "-1", "0"):
        assert run(["serve", str(folder / "why"), *files, "--learning-rate", rate]) == 2
        assert "learning" in capfd.readouterr().err


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    with serving(str(folder / "why")) as url:
        yield url


def test_serve_answers_on_this_machine_and_to_its_token(served: str) -> None:
    until = time.monotonic() + 20
    while True:
        try:
            with urlopen(served + "about") as answer:
                assert json.load(answer)["can"] == ["ask"]
            break
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)
    body = json.dumps({"text": "a dull plot"}).encode()
    with urlopen(Request(served + "ask", body, {"content-type": "application/json"})) as answer:
        number = json.load(answer)["id"]
    with urlopen(served + "events") as stream:
        while True:
            line = stream.readline().decode()
            if line.startswith("data: ") and json.loads(line[6:])[0]["state"] not in ("waiting", "running"):
                break
    with urlopen(served + f"jobs/{number}") as answer:
        job = json.load(answer)
    assert job["state"] == "done", job["error"]
    assert job["found"]["query"]["helpful"]
    host = socket.gethostbyname(socket.gethostname())
    if host != "127.0.0.1":
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((host, int(served.split(":")[2].split("/")[0])), timeout=5).close()

"""`fastif explain` as a user runs it: what it writes, what it says, and how it fails."""

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fastif
from fastif.cli.app import run
from fastif.integrations.huggingface import TextClassifier
from fastif.web.payload import make_payload
from fastif.web.source import read_run
from tests.integrations.huggingface.tiny import LABELS, QUERIES, QUERY_LABELS, TEXTS, module_of, tokenizer_of

NAMES = {0: "good", 1: "bad", 2: "mixed"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    module: Any = module_of("bert", dtype=torch.float32)
    module.config.id2label, module.config.label2id = NAMES, {name: number for number, name in NAMES.items()}
    module.save_pretrained(tmp_path / "model")
    tokenizer_of("bert").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def write(path: Path, texts: Any, labels: Any = None) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"] if labels else ["text"])
        rows.writerows(
            [[text, NAMES[label]] for text, label in zip(texts, labels, strict=True)] if labels else zip(texts)
        )
    return path


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write(tmp_path / "train.csv", TEXTS, LABELS)


def test_explains_from_files_and_agrees_with_the_library(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    out = tmp_path / "run"
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "3", "--json", "-o"]
    assert run([*line, str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((out / "explanation.json").read_text())
    model = TextClassifier.from_pretrained(checkpoint)
    explainer = fastif.Explainer(model, model.examples(TEXTS, LABELS))
    expected = explainer.scores(model.examples(QUERIES, QUERY_LABELS, source="queries"))
    torch.testing.assert_close(fastif.Scores.load(out / "scores").values, expected.values, rtol=1e-3, atol=1e-4)
    for row, one in enumerate(told["queries"]):
        assert one["text"] == QUERIES[row]
        assert one["label"] == NAMES[QUERY_LABELS[row]]
        assert one["right"] == (one["label"] == one["predicted"])
        harmful = one["harmful"][0]
        assert harmful["score"] == pytest.approx(float(expected.values[row].max()), rel=1e-3)
        assert harmful["text"] == TEXTS[harmful["index"]]
        assert harmful["line"] == harmful["index"] + 2  # below the header
        assert harmful["loss_change_without_it"] == pytest.approx(-harmful["score"] / len(TEXTS))
        losses = torch.nn.functional.cross_entropy(
            model.logits(explainer.train), torch.tensor(LABELS), reduction="none"
        )
        assert harmful["own_loss"] == pytest.approx(float(losses[harmful["index"]]), rel=1e-4)
    assert "layers 2 to 3 of 3 and the head" in told["influence_through"]


def test_reads_well_on_a_terminal(checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(checkpoint), "--train", str(train), "--query-text", "bad [red]plot[/red]\x1b[2J"]) == 0
    seen = capsys.readouterr()
    assert "no label given, model says" in seen.out
    assert "They support this prediction," in seen.out
    assert "They speak against this prediction," in seen.out
    assert "bad [red]plot[/red]" in seen.out  # text of the data is no markup
    assert "\x1b[2J" not in seen.out  # and gives no orders to the terminal
    assert "By nearest neighbours in embedding space alone:" in seen.out
    assert "without it  about how the loss would change" in seen.out
    assert "Influence through" in seen.err
    assert "text -> label (guessed; set them with --text, --label)" in seen.err


def test_wrong_predictions_alone(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = TextClassifier.from_pretrained(checkpoint)
    predicted = model.predict(model.examples(TEXTS)).tolist()
    labels = [predicted[0], *((label + 1) % 3 for label in predicted[1:])]
    query = write(tmp_path / "query.csv", TEXTS, labels)
    line = [
        "explain",
        str(checkpoint),
        "--train",
        str(train),
        "--query",
        str(query),
        "--wrong",
        "--limit",
        "2",
        "--json",
    ]
    assert run(line) == 0
    seen = capsys.readouterr()
    assert [one["text"] for one in json.loads(seen.out)["queries"]] == list(TEXTS[1:3])
    assert "1 of 10 are predicted right (10.0%)" in seen.err
    write(query, TEXTS, predicted)
    assert run(line) == 1
    assert "there is no wrong prediction to explain" in capsys.readouterr().err


def test_the_same_states_are_found_again(checkpoint: Path, train: Path, tmp_path: Path) -> None:
    line = ["explain", str(checkpoint), "--train", str(train), "--query-text", "dull", "--json"]
    line += ["--cache", str(tmp_path / "cache")]
    assert run(line) == 0
    (file,) = (tmp_path / "cache").iterdir()
    written = file.stat().st_mtime_ns
    assert run(line) == 0
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("change", "words", "status"),
    [
        ({"model": "nothing/here/at/all"}, "there is no checkpoint at", 1),
        ({"--train": "missing.csv"}, "there is no such file", 1),
        ({"--label": "sentiment"}, "has no column 'sentiment'", 1),
        ({"--device": "tpu9"}, "--device tpu9 cannot be used", 2),
        ({"--freeze-layers": "7"}, "freeze_layers must be 0 to 3", 2),
        ({"--trainable": "("}, "is not a regular expression", 2),
        ({"--trainable": "nothing_like_it"}, "no parameter is chosen by", 1),
        ({"--query": "other.csv"}, "--query FILE, or --query-text TEXT", 2),
        ({"--top": "0"}, "--top", 2),
    ],
)
def test_failures_are_one_message_and_no_traceback(
    change: dict[str, str], words: str, status: int, checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--train": str(train), "--query-text": "dull", **change}
    model = given.pop("model", str(checkpoint))
    line = ["explain", model, *(word for pair in given.items() for word in pair)]
    assert run(line) == status
    seen = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in seen
    assert "Traceback" not in seen


def test_labels_that_the_model_does_not_have(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "dull", "label": "good"}\n{"text": "fine", "label": "goood"}\n')
    assert run(["explain", str(checkpoint), "--train", str(path), "--query-text", "dull"]) == 1
    words = capsys.readouterr().err
    assert "line 2" in words
    assert "good, bad, mixed" in words


def empty(checkpoint: Path, train: Path) -> None:
    train.write_bytes(b"")


def utf16(checkpoint: Path, train: Path) -> None:
    train.write_bytes(train.read_text().encode("utf-16"))


def latin1(checkpoint: Path, train: Path) -> None:
    train.write_bytes(train.read_text().replace("dull", "café").encode("latin-1"))


def no_weights(checkpoint: Path, train: Path) -> None:
    (checkpoint / "model.safetensors").unlink()


def pickled(checkpoint: Path, train: Path) -> None:
    (checkpoint / "model.safetensors").rename(checkpoint / "pytorch_model.bin")


def other_tokenizer(checkpoint: Path, train: Path) -> None:
    file = checkpoint / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["vocab"]["beyond"] = 5000
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (empty, "is empty: it has no bytes"),
        (utf16, "UTF-16"),
        (latin1, "UTF-8"),
        (no_weights, "has no weights"),
        (pickled, "a format that can run code when it is opened"),
        (other_tokenizer, "they do not belong together"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_read_is_said_in_a_line_or_two_and_nothing_is_written(
    damage: Any, words: str, checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(checkpoint, train)
    out = tmp_path / "run"
    assert run(["explain", str(checkpoint), "--train", str(train), "--query-text", "dull", "-o", str(out)]) == 1
    message = capsys.readouterr().err.partition("Error:")[2]
    assert words.casefold() in message.casefold()
    assert len(message) < 500
    assert "Traceback" not in message
    assert not out.exists()


def test_rows_that_training_kept_aside_are_left_out(
    checkpoint: Path, train: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha256 = hashlib.sha256(train.read_bytes()).hexdigest()
    record = {"trainable": None, "freeze_layers": 1, "trained": "layers 2 to 3 of 3 and the head"}
    record |= {"train": {"sha256": sha256}, "dev": {"kept_aside": True, "lines": [3, 5]}}
    (checkpoint / "fastif_training.json").write_text(json.dumps(record))
    line = ["explain", str(checkpoint), "--train", str(train), "--query-text", "dull", "--json", "--top", "20"]
    assert run(line) == 0
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert told["train"]["examples"] == 8
    assert not {3, 5} & {it["line"] for kind in ("helpful", "harmful") for it in told["queries"][0][kind]}
    assert "8 of them were trained on" in seen.err


def test_nothing_is_overwritten(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    line = ["explain", str(checkpoint), "--train", str(train), "--query-text", "dull", "-o", str(tmp_path / "run")]
    assert run(line) == 1
    assert "holds mine.txt and is no run" in capsys.readouterr().err
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_a_finished_run_is_shown_again_and_can_be_replayed(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["explain", str(checkpoint), "--train", str(train), "--query-text", "dull", "-o", str(tmp_path / "run")]
    assert run(line) == 0
    first = capsys.readouterr().out
    assert run(line) == 0
    again = capsys.readouterr()
    assert again.out == first
    assert "is a finished run of the same request" in again.err
    assert run([*line, "--top", "2"]) == 1
    assert "a run of another request: top was 10 and is 2." in capsys.readouterr().err
    assert run(["rerun", str(tmp_path / "run")]) == 0
    assert "The same scores, byte for byte." in capsys.readouterr().out
    train.write_text(train.read_text().replace("dull,bad", "dull,good"))
    assert run(["rerun", str(tmp_path / "run"), "--json"]) == 1  # so that a script hears of it
    told = json.loads(capsys.readouterr().out)
    assert told["changed"] == ["train"]
    assert not told["same_bytes"]
    assert run(["rerun", str(train.parent)]) == 1
    assert "is not a run" in capsys.readouterr().err


def test_debug_shows_the_traceback(train: Path) -> None:
    with pytest.raises(fastif.FastifError):
        run(["explain", "/nothing", "--train", str(train), "--query-text", "dull", "--debug"])


def test_help_has_an_example_and_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    assert "Example" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert fastif.__version__ in capsys.readouterr().out
    assert run(["explain"]) == 2
    assert run(["explode"]) == 2


def write_slices(path: Path, column: str) -> Path:
    rows = zip(TEXTS, LABELS, ["first", "second", "first", "second", "third"] * 2, strict=True)
    lines = [f"{text},{NAMES[label]},{part}" for text, label, part in rows]
    path.write_text("\n".join([f"text,label,{column}", *lines]) + "\n", encoding="utf-8")
    return path


def explained(line: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run([*line, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_queries_have_the_slices_of_their_own_column_or_that_of_the_training_data(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, query = write_slices(tmp_path / "train.csv", "genre"), write_slices(tmp_path / "query.csv", "part")
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "1", "--limit", "3"]
    told = explained([*line, "--slice", "genre", "--query-slice", "part"], capsys)
    assert [one["slice"] for one in told["queries"]] == ["first", "second", "first"]
    assert told["query_slices"] == {
        "first": {"queries": 4, "explained": 2},
        "second": {"queries": 4, "explained": 1},
        "third": {"queries": 2, "explained": 0},
    }
    assert told["queries"][0]["helpful"][0]["slice"] in ("first", "second", "third")
    told = explained([*line, "--slice", "genre"], capsys)  # which the queries do not have
    assert [one["slice"] for one in told["queries"]] == [None] * 3
    assert told["query_slices"] is None
    write_slices(query, "genre")
    told = explained([*line, "--slice", "genre"], capsys)
    assert [one["slice"] for one in told["queries"]] == ["first", "second", "first"]
    assert run([*line, "--slice", "genre"]) == 0
    assert "slice first, label" in capsys.readouterr().out
    assert run([*line, "--query-slice", "nothing"]) == 1
    assert "has no column 'nothing', which --query-slice asks for" in capsys.readouterr().err


def test_so_many_queries_of_each_slice(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write_slices(tmp_path / "train.csv", "genre")
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(train), "--top", "1"]
    told = explained([*line, "--query-slice", "genre", "--per-slice", "1"], capsys)
    assert [(one["slice"], one["text"]) for one in told["queries"]] == [
        ("first", TEXTS[0]),
        ("second", TEXTS[1]),
        ("third", TEXTS[4]),
    ]
    assert run([*line, "--per-slice", "1"]) == 2
    assert "--per-slice needs slices of the queries" in capsys.readouterr().err
    assert run([*line[:4], "--query-text", "dull", "--query-slice", "genre"]) == 2
    assert "--query-slice names a column" in capsys.readouterr().err


def test_a_run_with_slices_is_compared_drawn_and_replayed(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, out = write_slices(tmp_path / "train.csv", "genre"), tmp_path / "run"
    line = [
        "explain",
        str(checkpoint),
        "--train",
        str(train),
        "--query",
        str(train),
        "--slice",
        "genre",
        "-o",
        str(out),
    ]
    told = explained([*line, "--limit", "6"], capsys)
    assert run(["slices", str(out), "--top", "3", "--json"]) == 0
    slices = json.loads(capsys.readouterr().out)["slices"]
    assert {it["name"]: it["queries"] for it in slices} == {"first": 3, "second": 2, "third": 1}
    assert told["query_slices"]["third"] == {"queries": 2, "explained": 1}
    assert run(["graph", str(out), "--top", "3", "--split-train", "slice", "--json"]) == 0
    assert {it["name"] for it in json.loads(capsys.readouterr().out)["rings"]} == {"first", "second", "third"}
    assert run(["rerun", str(out), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["same_bytes"]
    assert replayed["changed"] == []


def test_a_number_of_candidates_is_scored_and_what_they_hold_is_told(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "2"]
    assert run([*line, "--candidates", "4", "-o", str(tmp_path / "run")]) == 0
    assert f"the 4 of {len(TEXTS)} training examples that may matter most" in " ".join(capsys.readouterr().out.split())
    assert fastif.Scores.load(tmp_path / "run" / "scores").values.shape == (len(QUERIES), 4)
    assert run([*line, "--candidates", "few"]) == 2
    assert "must be all, auto or a number" in " ".join(capsys.readouterr().err.split())


def test_solvers_by_name(checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "2", "--json"]
    found = {}
    for name in ("exact", "woodbury", "cg", "lissa"):
        assert run([*line, "--solver", name, "--damping", "0.5"]) == 0
        found[name] = json.loads(capsys.readouterr().out)["queries"][0]["helpful"]
    best = found["exact"]
    for name in ("woodbury", "cg"):
        assert [each["index"] for each in found[name]] == [each["index"] for each in best]
        assert found[name][0]["score"] == pytest.approx(best[0]["score"], rel=1e-2)
        assert found[name][0]["error"] is None
    assert found["lissa"][0]["index"] == best[0]["index"]
    assert found["lissa"][0]["error"] > 0


def test_the_solver_of_the_paper_by_name(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES[:1], QUERY_LABELS[:1])
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "3", "--json"]
    assert run([*line, "--freeze-layers", "3", "--solver", "paper"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["provenance"]["curvature"] == "hessian"
    assert "the paper's LiSSA" in told["provenance"]["method"]
    model = TextClassifier.from_pretrained(checkpoint, freeze_layers=3)
    explainer = fastif.Explainer(
        model, model.examples(TEXTS, LABELS), solver=fastif.Exact(), curvature="hessian", damping=50.0
    )
    expected = explainer.explain(model.examples(QUERIES[:1], QUERY_LABELS[:1], source="queries"), top=3)[0]
    for kind in ("helpful", "harmful"):  # which is what damp x scale comes to
        found, right = told["queries"][0][kind], getattr(expected, kind)
        assert [each["index"] for each in found] == [each.index for each in right]
        assert [each["score"] for each in found] == pytest.approx([each.score for each in right], rel=0.05)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scores", "few"], "'few' is not one of 'all', 'strongest'"),
        (["--solver", "paper", "--damping", "0.5"], "has a damping of its own"),
        (["--candidates", "few"], "must be all, auto or a number"),
        (["--memory-budget", "lots"], "is no amount of memory"),
        (["--per-slice", "2"], "needs slices of the queries"),
    ],
)
def test_a_rejected_option_does_not_take_the_run_directory(
    options: list[str], words: str, checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    out = tmp_path / "run"
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--json", "-o", str(out)]
    assert run([*line, *options]) == 2
    assert words in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not out.exists()


def test_wrong_needs_labels_before_a_run_directory_is_taken(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES)
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--wrong"]
    assert run([*line, "-o", str(tmp_path / "run")]) == 2
    assert "--wrong needs one label for each query" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_strongest_scores_alone_are_held_where_asked(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "2", "--json"]
    told = []
    for scores in ("all", "strongest"):
        assert run([*line, "--scores", scores, "-o", str(tmp_path / scores)]) == 0
        told.append(json.loads(capsys.readouterr().out)["queries"])
    assert told[0] == told[1]
    assert fastif.Scores.load(tmp_path / "strongest" / "scores").values.shape == (len(QUERIES), 6)
    choices = {
        "each": "the 3 most helpful and the 3 most harmful training points of each query (100 were asked for",
        "strongest": "the 3 training points of largest |I| of each query (100 were asked for",
        "all": "the 3 lowest and the 3 highest scores of each query, which is all that the run holds",
    }
    for choice, words in choices.items():
        assert run(["slices", str(tmp_path / "strongest"), "--choose", choice, "--no-pictures", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["choice"].startswith(words)
    shown = make_payload(read_run(tmp_path / "strongest")).head
    assert shown["choice"].startswith("the 3 most helpful and the 3 most harmful training points")
    assert shown["comparison"]["choice"].startswith("the 3 training points of largest |I|")


def test_a_long_scan_on_a_cpu_takes_candidates_unless_told_otherwise(
    checkpoint: Path, train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastif.cli.candidates.PATIENCE", 0)
    monkeypatch.setattr("fastif.cli.candidates.LEAST", 3)
    query = write(tmp_path / "query.csv", QUERIES, QUERY_LABELS)
    line = ["explain", str(checkpoint), "--train", str(train), "--query", str(query), "--top", "2"]
    for asked, scored in (("auto", 3), ("all", len(TEXTS))):
        assert run([*line, "--candidates", asked, "-o", str(tmp_path / asked)]) == 0
        assert ("--candidates all scores all" in " ".join(capsys.readouterr().err.split())) == (asked == "auto")
        assert fastif.Scores.load(tmp_path / asked / "scores").values.shape[1] == scored

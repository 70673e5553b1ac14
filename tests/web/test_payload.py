"""Payloads say what the run says: the same edges, places, names and facts, in one form."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fastif.apps.edges import choose_edges
from fastif.errors import DataError, EmptyDataError, StoredFileError
from fastif.web.facts import facts
from fastif.web.packed import pack, unpack
from fastif.web.payload import LONGEST_TEXT, make_payload
from fastif.web.source import read_run
from tests.web.runs import content, store, write_run


def test_edges_are_those_of_the_scores_the_strongest_first(tmp_path: Path) -> None:
    run = content(tmp_path / "run")
    payload = make_payload(run)
    values, queries = payload.arrays["edge_value"], payload.arrays["edge_query"]
    ids = payload.arrays["train_id"][payload.arrays["edge_train"]]
    assert (np.diff(np.abs(values)) <= 0).all()
    assert np.allclose(values, run.scores.values[queries.astype(int), ids.astype(int)].numpy())
    chosen = choose_edges(run.scores, 10)
    assert len(values) == len(chosen)
    assert set(zip(queries.tolist(), ids.tolist(), strict=True)) == set(
        zip(chosen.queries.tolist(), chosen.train_ids.tolist(), strict=True)
    )


def test_training_points_lie_within_the_disc_and_predictions_on_the_circle(tmp_path: Path) -> None:
    arrays = make_payload(content(tmp_path / "run")).arrays
    assert np.allclose(np.hypot(arrays["query_x"], arrays["query_y"]), 1)
    assert (np.hypot(arrays["train_x"], arrays["train_y"]) <= 2 / 3 + 1e-6).all()


def test_classes_have_names_and_texts_come_back(tmp_path: Path) -> None:
    payload = make_payload(content(tmp_path / "run"))
    assert payload.head["labels"] == ["negative", "positive"]
    assert payload.head["classes"] == ["negative", "positive"]
    starts, words = payload.arrays["text_starts"], payload.arrays["text_bytes"].tobytes()
    node = 3
    index = int(payload.arrays["train_id"][node])
    assert words[starts[2 * node] : starts[2 * node + 1]].decode().endswith(f" {index}")
    assert payload.arrays["train_label"][node] == index % 2
    assert payload.arrays["train_line"][node] == index + 2
    assert payload.train_texts == len(payload.arrays["train_id"])


def test_redacted_holds_no_training_text(tmp_path: Path) -> None:
    payload = make_payload(content(tmp_path / "run"), redact=True)
    assert payload.train_texts == 0
    assert b"so it goes" not in payload.as_bytes()
    assert b"asked 3" in payload.as_bytes()


def test_details_of_listed_examples_lead_to_their_nodes(tmp_path: Path) -> None:
    run = content(tmp_path / "run")
    payload = make_payload(run)
    for query, told in zip(payload.head["queries"], run.explanation["queries"], strict=True):
        ids = payload.arrays["train_id"][[each["train"] for each in query["details"]]].tolist()
        assert ids == [each["index"] for each in (*told["helpful"], *told["harmful"])]
        assert {each["error"] for each in query["details"]} == {0.25}
        assert query["residual"] == 1e-6


def test_bytes_come_back_and_are_json(tmp_path: Path) -> None:
    payload = make_payload(content(tmp_path / "run"))
    head, arrays = unpack(payload.as_bytes())
    assert head == json.loads(json.dumps(payload.head))
    assert all((arrays[name] == array).all() for name, array in payload.arrays.items() if array.dtype.kind == "u")
    with pytest.raises(TypeError, match="int64"):
        pack({}, {"a": np.arange(3)})


def test_long_texts_are_cut_and_odd_characters_survive(tmp_path: Path) -> None:
    rows = [{"line": 2, "text": "ä" * 5000}, {"line": 3, "text": "\ud800 lone"}]
    rows[1]["text"] = "lone \N{LINE SEPARATOR}"
    path = store(tmp_path / "run", torch.tensor([[1.0, -2.0]]), rows, {"queries": [{"text": "q"}]})
    payload = make_payload(read_run(path))
    starts, words = payload.arrays["text_starts"], payload.arrays["text_bytes"].tobytes()
    assert words[: starts[1]].decode() == "ä" * LONGEST_TEXT + "…"
    assert payload.head["queries"][0]["right"] is None
    assert {fact["value"] for fact in payload.head["facts"]} == {"not recorded"}


def test_a_suspect_belongs_to_its_row_or_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    row = {"line": 7, "text": read_run(path).train[5]["text"], "suggested_label": "0", "suggested_probability": 0.9}
    audit = tmp_path / "audit.jsonl"
    audit.write_text(json.dumps(row) + "\n")
    payload = make_payload(read_run(path, audit=audit))
    (suspect,) = payload.head["suspects"]
    assert payload.arrays["train_id"][suspect["train"]] == 5
    assert (suspect["suggested"], suspect["probability"], suspect["loss_without"]) == ("negative", 0.9, None)
    audit.write_text(json.dumps({**row, "line": 8}) + "\n")
    with pytest.raises(DataError, match="different data"):
        make_payload(read_run(path, audit=audit))


def test_a_csv_of_an_audit_is_read_without_its_marks_against_formulas(tmp_path: Path) -> None:
    file = tmp_path / "audit.csv"
    file.write_text("line,text\n2,'=1+1\n3,'quoted'\n")
    assert [row["text"] for row in read_run(write_run(tmp_path / "run")).train][:1]
    from fastif.web.rows import read_rows

    assert [row["text"] for row in read_rows(file, "a list")] == ["=1+1", "'quoted'"]


def test_what_is_no_run_of_explain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoredFileError, match="is not there"):
        read_run(tmp_path / "none")
    path = store(tmp_path / "run", torch.empty(0, 2), [{"text": "a"}, {"text": "b"}], {"queries": []})
    with pytest.raises(EmptyDataError, match="no prediction"):
        make_payload(read_run(path))


def test_facts_say_what_is_recorded() -> None:
    provenance = {
        "candidates": "nearest 20",
        "candidate_recall": {"estimate": 0.9, "at": 20, "standard_error": 0.05},
        "residuals": [1e-3, 2e-2],
        "converged": [True, False],
        "damping": None,
    }
    told = {fact.name: fact for fact in facts({}, provenance)}
    assert told["Estimated recall"].value == "90.0 % ± 5.0 %, of the 20 strongest"
    assert told["Residual"].value == "2.0e-02; 1 of 2 did not converge"
    assert told["Damping"].value == "none"
    assert told["Method"].value == "not recorded"
    assert all(fact.meaning.endswith(".") for fact in told.values())

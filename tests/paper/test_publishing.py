"""What is published has no path of a machine, no long list, and says in tables what the result says."""

import json

import pytest

from fastif.errors import ConfigurationError, StoredFileError
from fastif.paper import publishing
from fastif.paper.claims import CLAIMS
from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.publishing import SLIM, in_lines, publish, published, read_published, without_paths


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_tables_need_nothing_of_what_is_left_out_or_rounded(name, results):
    about = results(name)
    found = json.loads(json.dumps(published(about)))
    assert EXPERIMENTS[name].table(found["result"]) == EXPERIMENTS[name].table(about["result"])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_verdicts_need_nothing_of_what_is_left_out_or_rounded(name, results):
    about = results(name)
    for claim in CLAIMS:
        if claim.experiment == name:
            assert claim.rule(published(about)["result"]) == claim.rule(about["result"])


@pytest.mark.parametrize("name", SLIM)
def test_what_is_long_is_left_out(name, results):
    result = results(name)["result"]
    assert len(json.dumps(SLIM[name](result))) < len(json.dumps(result))


def test_curves_of_long_walks_are_left_out(results, monkeypatch):
    about = results("augmentation-anli")
    assert "loss" in published(about)["result"]["walks"]["all"]["courses"][0]
    monkeypatch.setattr(publishing, "LONG", 100)
    short = published(about)["result"]
    assert short["walks"]["all"]["courses"][0] == {"kind": "helpful", "repeat": 0}
    assert "2 repeats" in EXPERIMENTS["augmentation-anli"].table(short)


def test_paths_of_a_machine_are_not_published(results):
    about = results("recall")
    models = [{**model, "base": "/home/somebody/minilm"} for model in about["models"]]
    sets = {"nli": {"source": "/data/a.parquet + ~/other/b.parquet + ./c/d.parquet"}}
    found = published({**about, "models": models, "data": {"source": "files", "sets": sets}})
    assert found["models"][0]["base"] == "minilm"
    assert found["data"]["sets"]["nli"]["source"] == "a.parquet + b.parquet + d.parquet"
    assert "/home" not in json.dumps(found)


@pytest.mark.parametrize("words", ["org/model", "1 / 2", "and/or", "a.parquet", "mean / best"])
def test_words_that_are_no_paths_stay(words):
    assert without_paths(words) == words


def test_lines_are_short_and_the_same_json():
    value = {"rows": [{"k": number, "words": "x" * 50} for number in range(9)], "empty": [], "none": None}
    lines = in_lines(value)
    assert json.loads(lines) == value
    assert max(len(line) for line in lines.splitlines()) < 200
    assert len(lines.splitlines()) > 9


def test_pictures_that_are_drawn_no_more_are_removed(results, laboratory, tmp_path):
    about = results("correlations")
    (tmp_path / "correlations.json").write_text(json.dumps({**about, "figures": ["correlations-old.png"]}))
    (tmp_path / "correlations-old.png").touch()
    source = tmp_path / "results/correlations"
    source.mkdir(parents=True)
    (source / "result.json").write_text(json.dumps(about))
    assert publish(tmp_path / "results", tmp_path) == ["correlations"]
    assert not (tmp_path / "correlations-old.png").exists()
    assert (tmp_path / "correlations.png").stat().st_size > 1000
    assert read_published(tmp_path)["correlations"]["figures"] == ["correlations.png"]


def test_directories_without_results_and_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="has no finished experiment"):
        publish(tmp_path, tmp_path)
    (tmp_path / "recall.json").write_text('{"experiment": "hvp"}')
    with pytest.raises(StoredFileError, match="is not a result of recall"):
        read_published(tmp_path)
    (tmp_path / "recall.json").write_text("{")
    with pytest.raises(StoredFileError, match="could not be read"):
        read_published(tmp_path)

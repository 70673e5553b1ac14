"""`fastif doctor` on tiny checkpoints, sound and broken."""

import json
import shutil

import pytest
import torch
from transformers import BertModel

from fastif.cli.app import run
from tests.cli import tiny


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("model"))


def test_a_sound_model_is_called_usable(checkpoint, capsys):
    assert run(["doctor", str(checkpoint), "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    for words in ("negative, positive", "frozen layer", "symmetric", "This model can be explained."):
        assert words in " ".join(shown.split())
    assert "problem" not in shown


def test_classes_whose_names_are_numbers_do_not_disturb(tmp_path, capsys):
    module = tiny.classifier()
    module.config.id2label, module.config.label2id = {0: "1", 1: "0"}, {"1": 0, "0": 1}
    assert run(["doctor", str(tiny.save(tmp_path / "model", module)), "--device", "cpu"]) == 0
    assert "single-label: 1, 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({0: "negative", 5: "positive"}, "id2label has the numbers [0, 5]; they must be 0, 1, 2"),
        ({0: "positive", 1: "positive"}, "two classes are called 'positive', so that a label names neither"),
    ],
)
def test_labels_that_no_explanation_reads_are_a_problem(names, words, checkpoint, tmp_path, capsys):
    place = shutil.copytree(checkpoint, tmp_path / "model")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "id2label": names}))
    assert run(["doctor", str(place), "--device", "cpu"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert words in shown
    assert "This model cannot be explained as it is." in shown


def test_training_data_gives_a_table_of_stages_for_two_choices(checkpoint, tmp_path, capsys):
    data = tiny.table(tmp_path / "train.tsv")
    assert run(["doctor", str(checkpoint), "--train", str(data), "--query-count", "2", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    for words in ("2 queries", "as chosen", "trainable all", "encode the frozen layers", "scan the training data"):
        assert words in shown
    assert "Estimates:" in shown


def test_a_batch_size_beyond_all_bounds_is_all_rows(checkpoint, tmp_path, capsys):
    data = tiny.table(tmp_path / "train.tsv")
    line = ["doctor", str(checkpoint), "--train", str(data), "--device", "cpu"]
    assert run([*line, "--batch-size", "9" * 30]) == 0
    assert "Unexpected" not in capsys.readouterr().err
    assert run([*line, "--seed", "9" * 30]) == 2
    assert "--seed" in capsys.readouterr().err


def test_json_has_everything(checkpoint, tmp_path, capsys):
    data = tiny.table(tmp_path / "train.tsv")
    options = ["--freeze-layers", "2", "--dtype", "bfloat16", "--batch-size", "8", "--json", "--device", "cpu"]
    assert run(["doctor", str(checkpoint), "--train", str(data), *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["usable"] is True
    assert result["data"]["rows"] == 40
    assert result["data"]["tokens_longest"] <= 13
    chosen, every = result["estimates"]
    assert chosen["parameters"] < every["parameters"]
    assert chosen["states_bytes"] > 0 == every["states_bytes"]
    assert {stage["name"] for stage in chosen["stages"]} > {stage["name"] for stage in every["stages"]}
    assert all(stage["peak_bytes"] > 0 for stage in chosen["stages"])


def test_all_parameters_alone_are_estimated_once(checkpoint, tmp_path, capsys):
    data = tiny.table(tmp_path / "train.tsv")
    line = ["doctor", str(checkpoint), "--train", str(data), "--trainable", "all", "--json", "--device", "cpu"]
    assert run(line) == 0
    assert len(json.loads(capsys.readouterr().out)["estimates"]) == 1


def broken(what, path):
    if what == "no tokenizer":
        return tiny.save(path, with_tokenizer=False)
    if what == "no head":
        return tiny.save(path, BertModel(tiny.classifier().config))
    module = tiny.classifier()
    with torch.no_grad():
        module.bert.encoder.layer[0].output.dense.weight[0, 0] = float("nan")
    return tiny.save(path, module)


@pytest.mark.parametrize(
    ("what", "words"),
    [("no tokenizer", "tokenizer"), ("no head", "not a trained classifier"), ("no numbers", "NaN or an infinity")],
)
def test_a_model_that_cannot_work_gives_status_1_and_says_why(tmp_path, capsys, what, words):
    path = broken(what, tmp_path / "model")
    assert run(["doctor", str(path), "--device", "cpu"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert words in shown
    assert "cannot be explained" in shown
    assert run(["doctor", str(path), "--json", "--device", "cpu"]) == 1
    assert json.loads(capsys.readouterr().out)["usable"] is False


def test_labels_that_the_model_does_not_have_are_a_problem(checkpoint, tmp_path, capsys):
    data = tmp_path / "train.tsv"
    data.write_text("text\tlabel\na fine day\tneutral\nyes\tpositive\n")
    assert run(["doctor", str(checkpoint), "--train", str(data), "--device", "cpu"]) == 1
    assert "neutral" in capsys.readouterr().out


def test_a_choice_that_cannot_be_is_wrong_usage(checkpoint):
    assert run(["doctor", str(checkpoint), "--freeze-layers", "9", "--device", "cpu"]) == 2

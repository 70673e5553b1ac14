"""Where the data are from: files, the hub up to the network, and clear words where neither is there."""

import builtins
import sys
from types import SimpleNamespace

import pytest

from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.paper.made_up import COUNTS, MadeUp, save_tiny_base
from fastif.paper.sources import FILES, Files, Hub, find_source

parquet = pytest.importorskip("pyarrow.parquet")


def write(path, **columns):
    import pyarrow

    parquet.write_table(pyarrow.table(columns), path)


@pytest.fixture
def folder(tmp_path):
    pair = {"premise": ["a", "b"], "hypothesis": ["c", "d"]}
    write(tmp_path / "mnli_train_subset.parquet", **pair, label=["neutral", "entailment"], split=["train_x", "train_y"])
    write(tmp_path / "snli_train_subset.parquet", **pair, label=["neutral", "entailment"], split=["train_x", "train_y"])
    write(tmp_path / "new_protocols_nli.parquet", **pair, label=["neutral", "entailment"], split=["val", "train"])
    anli = {"split": ["dev", "test"], "round": ["r1", "r3"]}
    write(tmp_path / "anli_dev_test.parquet", **pair, label=["neutral", "entailment"], **anli)
    write(
        tmp_path / "amazon_multidomain5.parquet", text=["x", "y"], label=["positive", "negative"], domain=["dvd", "a"]
    )
    return tmp_path


def test_files_are_found_by_the_environment_and_joined(folder, monkeypatch):
    monkeypatch.setenv("FASTIF_DATA", str(folder))
    source = find_source()
    train = source.table("nli-train")
    assert train.texts == ["a", "b", "a", "b", "b"]  # of the third file, only what is to be trained on
    assert train.lines == [1, 2, 3, 4, 5]
    assert source.table("anli-test").slices == ["r3"]
    assert source.table("anli-dev").texts == ["a"]
    assert source.table("reviews").slices == ["dvd", "a"]
    assert set(source.fingerprint()["files"]) == {
        name for name in sum(FILES.values(), ()) if (folder / f"{name}.parquet").exists()
    }


def test_a_file_that_is_not_there_is_named(folder):
    with pytest.raises(StoredFileError, match=r"hans_evaluation.parquet, which is not there. Name a directory"):
        Files(folder).table("hans-evaluation")


def test_a_directory_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTIF_DATA", str(tmp_path / "nothing"))
    with pytest.raises(StoredFileError, match="FASTIF_DATA is"):
        find_source()


def test_without_a_directory_the_hub_is_asked_by_name(monkeypatch):
    monkeypatch.delenv("FASTIF_DATA", raising=False)
    asked = []

    def load_dataset(name, configuration=None, *, split=None):
        asked.append((name, split))
        raise ConnectionError("no network here")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    source = find_source()
    with pytest.raises(DataError, match=r"no network here.*FASTIF_DATA.*--scale smoke"):
        source.table("nli-train")
    with pytest.raises(DataError):
        source.table("anli-dev")
    assert asked == [("nyu-mll/multi_nli", "train"), ("facebook/anli", "dev_r1")]
    with pytest.raises(DataError, match="no data set of the hub is known"):
        source.table("reviews")
    assert "facebook/anli:test_r3" in source.fingerprint()["names"]["anli-test"]


def test_labels_of_the_hub_become_names_and_rounds_slices(monkeypatch):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = datasets.Features(
        {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string"), "label": names}
    )

    def load_dataset(name, configuration=None, *, split=None):
        return datasets.Dataset.from_dict({"premise": [split], "hypothesis": ["h"], "label": [2]}, features=features)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    table = Hub().table("anli-test")
    assert table.labels == ["contradiction"] * 3
    assert table.slices == ["r1", "r2", "r3"]
    assert table.texts == ["test_r1", "test_r2", "test_r3"]


def test_without_datasets_it_is_said_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "datasets":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"needs datasets.*FASTIF_DATA"):
        Hub().table("mnli-dev")


def test_made_up_sets_have_every_word_in_the_tiny_vocabulary(tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(save_tiny_base(tmp_path / "tiny"))
    for what, count in COUNTS.items():
        table = MadeUp().table(what)
        assert len(table) == count
        tokens = tokenizer(table.texts, table.pairs)["input_ids"]
        assert not any(tokenizer.unk_token_id in row for row in tokens)
    assert MadeUp(1).table("mnli-dev").texts != MadeUp(0).table("mnli-dev").texts

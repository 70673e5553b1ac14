"""Data sets of the hub: names, splits and errors; with a set in memory in the place of the network."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fastif import errors
from fastif.integrations.tables import LabelMap, read_table
from fastif.integrations.tables.hub import HubName, is_hub_name

datasets = pytest.importorskip("datasets")


def made(texts: list[str], labels: list[int]) -> Any:
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["negative", "positive"])}
    )
    return datasets.Dataset.from_dict({"sentence": texts, "label": labels}, features=features)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = []
    splits = datasets.DatasetDict(
        {
            "train": made(["good one", "bad one", "fine one"], [1, 0, 1]),
            "validation": made(["a", "b"], [0, 1]),
            "test": made(["a", "b"], [-1, -1]),
        }
    )

    def load(name: str, configuration: str | None = None, split: str | None = None) -> Any:
        seen.append((name, configuration, split))
        return splits if split is None else splits[split]

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.chdir(tmp_path)
    return seen


def test_the_name_says_it_all(calls: list[tuple[Any, ...]]) -> None:
    table = read_table("stanfordnlp/sst2:validation", source_name="query")
    assert (table.texts, table.labels, table.lines, table.unit) == (["a", "b"], [0, 1], [1, 2], "row")
    assert table.label_names == ["negative", "positive"]
    assert table.source == "stanfordnlp/sst2:validation"
    read_table("stanfordnlp/sst2", split="validation")
    read_table("nyu-mll/glue:sst2:train")
    read_table("nyu-mll/glue:sst2", split="train")
    read_table("imdb:train", split="train")
    assert calls == [
        ("stanfordnlp/sst2", None, "validation"),
        ("stanfordnlp/sst2", None, "validation"),
        ("nyu-mll/glue", "sst2", "train"),
        ("nyu-mll/glue", "sst2", "train"),
        ("imdb", None, "train"),
    ]


@pytest.mark.usefixtures("calls")
def test_without_a_split_the_one_of_that_name_is_taken() -> None:
    assert read_table("imdb").texts[0] == "good one"
    with pytest.raises(errors.DataError, match=r"has the splits train, validation, test: say which, as in imdb:train"):
        read_table("imdb", source_name="query")
    with pytest.raises(errors.ConfigurationError, match="names the split 'train', and split='test' another"):
        read_table("a/b:c:train", split="test")


@pytest.mark.usefixtures("calls")
def test_the_hash_is_of_the_content() -> None:
    first, again, other = (read_table(name) for name in ("imdb", "imdb:train", "imdb:validation"))
    assert first.sha256 == again.sha256 != other.sha256
    assert len(first.sha256) == 64


@pytest.mark.usefixtures("calls")
def test_a_split_without_gold_labels() -> None:
    with pytest.raises(
        errors.LabelError, match=r"2 of 2 rows have the label -1, which stands for no label.*in row 1\."
    ):
        read_table("imdb:test")
    assert read_table("imdb:test", require_label=False).labels == [None, None]


@pytest.mark.usefixtures("calls")
def test_the_names_of_the_data_count_and_not_its_numbers() -> None:
    table = read_table("imdb")
    assert LabelMap({0: "POSITIVE", 1: "NEGATIVE"}).encode(table) == [0, 1, 0]
    assert LabelMap({0: "LABEL_0", 1: "LABEL_1"}).encode(table) == [1, 0, 1]
    assert LabelMap({0: "bad", 1: "good"}).encode(table) == [1, 0, 1]  # no name in common: numbers are all there is
    with pytest.raises(errors.LabelError, match="the data has a class 'negative', and the model has positive"):
        LabelMap({0: "positive", 1: "neutral"}).encode(table)
    learned = LabelMap.learn(table)
    assert learned.id2label == {0: "negative", 1: "positive"}
    assert learned.encode(table) == [1, 0, 1]


def test_selected_rows_and_empty_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: made(["a", "b", "c"], [0, 1, 0]).select([2, 1]))
    assert read_table("a/b").texts == ["c", "b"]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: made([], []))
    with pytest.raises(errors.EmptyDataError):
        read_table("a/b")


def test_parquet_that_datasets_wrote_keeps_its_names(tmp_path: Path) -> None:
    datasets.disable_progress_bars()
    made(["a", "b"], [1, 0]).to_parquet(tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").label_names == ["negative", "positive"]


def test_where_the_hub_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ConnectionError("Couldn't reach 'nobody/nothing' on the Hub (LocalEntryNotFoundError)\nmore")

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(errors.DataError) as caught:
        read_table("nobody/nothing:train")
    text = str(caught.value)
    assert "\n" not in text
    assert "there is no such file, and datasets.load_dataset('nobody/nothing', None, split='train') failed" in text
    assert "Couldn't reach" in text
    assert "Check the name (owner/name:split" in text


def test_without_datasets_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(errors.ConfigurationError, match=r"is no file here.*pip install 'fastif\[hf\]'"):
        read_table("a/b")


def test_what_can_be_a_name() -> None:
    assert all(
        map(is_hub_name, ["imdb", "a/b", "a/b.c-d_e", "a/b:test", "a/b:c:train[:10]", "a:train[10%:]", "a:train+test"])
    )
    assert not any(map(is_hub_name, ["", "/a", "a/b/c", "./a", "~/a", "a b", "a/b:c:d:e", "C:\\data"]))
    assert HubName.parsed("a:train[:10]") == HubName("a", None, "train[:10]")
    assert HubName.parsed("a/b", "test") == HubName("a/b", None, "test")

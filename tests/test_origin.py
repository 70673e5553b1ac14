"""Relative names in a run: right from any directory, and where all of it was moved."""

from pathlib import Path

import pytest

from fastif.origin import located, origin_of

GIVEN = {"model": "models/a", "train": "train.csv", "query": None, "cache": "states", "top": 3}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    (place / "models" / "a").mkdir(parents=True)
    (place / "train.csv").touch()
    (place / "runs" / "why").mkdir(parents=True)
    monkeypatch.chdir(place)
    return place


def test_from_the_same_directory_names_stay_as_they_were_given(project: Path) -> None:
    origin = origin_of(GIVEN, Path("runs/why"))
    assert origin == "../.."
    assert located(GIVEN, Path("runs/why"), origin) == GIVEN


def test_from_another_directory_and_after_a_move(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = origin_of(GIVEN, Path("runs/why"))
    moved = project.rename(project.parent / "moved")
    monkeypatch.chdir(project.parent)
    assert located(GIVEN, Path("moved/runs/why"), origin) == {
        "model": str(moved / "models" / "a"),
        "train": str(moved / "train.csv"),
        "query": None,
        "cache": str(moved / "states"),  # which may not be there yet
        "top": 3,
    }


def test_through_a_link_to_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "link").symlink_to(project / "runs" / "why")
    origin = origin_of(GIVEN, Path("runs/why"))
    monkeypatch.chdir(project.parent / "elsewhere")
    assert located(GIVEN, Path("link"), origin)["train"] == str(project / "train.csv")


def test_names_of_the_hub_and_absolute_ones_are_left_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = {"model": "some/bert", "train": "imdb", "query": str(project / "train.csv")}
    assert origin_of(hub, Path("runs/why")) is None
    mixed = {**hub, "query": "train.csv"}
    origin = origin_of(mixed, Path("runs/why"))
    monkeypatch.chdir(project.parent)
    assert located(mixed, project / "runs" / "why", origin) == hub

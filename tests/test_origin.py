"""Relative names in a run: right from any directory, and where all of it was moved."""

from pathlib import Path

import pytest

from fastif.origin import located, seen_from

GIVEN = {"model": "models/a", "train": "train.csv", "query": None, "cache": "states", "top": 3}


def make(place: Path) -> Path:
    (place / "models" / "a").mkdir(parents=True)
    (place / "train.csv").touch()
    (place / "runs" / "why").mkdir(parents=True)
    return place


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = make(tmp_path / "project")
    monkeypatch.chdir(place)
    return place


def test_a_directory_as_seen_from_a_run(project: Path) -> None:
    assert seen_from(Path("runs/why"), project) == "../.."
    assert seen_from(project.parent / "why", project) == "../project"
    (project.parent / "link").symlink_to(project / "runs" / "why")
    assert seen_from(project.parent / "link", project) == "../.."


def test_from_the_same_directory_names_stay_as_they_were_given(project: Path) -> None:
    assert located(GIVEN, project) == GIVEN
    assert located(GIVEN, None) == GIVEN


def test_from_another_directory_all_names_begin_where_the_run_was_made(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    expected = {
        "model": str(project / "models" / "a"),
        "train": str(project / "train.csv"),
        "query": None,
        "cache": str(project / "states"),  # which may not be there yet
        "top": 3,
    }
    assert located(GIVEN, project) == expected
    monkeypatch.chdir(make(project.parent / "other"))  # where the same names are other files
    assert located(GIVEN, project) == expected
    (project / "models" / "a").rmdir()
    assert located(GIVEN, project) == expected  # and no model of another project beside this one's data


def test_nothing_is_looked_for_where_nothing_of_the_run_is_left(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert located(GIVEN, project.parent) == GIVEN  # its states are not made there either


def test_names_of_the_hub_absolute_ones_and_those_of_a_home_are_left_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    given = {"model": "some/bert", "train": "train.csv", "query": str(project / "train.csv"), "cache": "~nobody/states"}
    assert located(given, project) == {**given, "train": str(project / "train.csv")}

"""Directories that several writers make at one time: one of them is there in the end, whole."""

from pathlib import Path

import pytest

from fastif.files import making_directory


def _both(place: Path) -> None:
    with making_directory(place) as second:
        (second / "whose").write_text("second")
        with making_directory(place) as first:
            (first / "whose").write_text("first")


def test_of_two_writers_the_first_stays(tmp_path: Path) -> None:
    place = tmp_path / "model"
    with pytest.raises(OSError, match="model"):
        _both(place)
    assert (place / "whose").read_text() == "first"
    assert list(tmp_path.iterdir()) == [place]


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.write_text("of somebody")
    with pytest.raises(OSError, match="model"), making_directory(place):
        pass
    assert place.read_text() == "of somebody"


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.mkdir()
    with making_directory(place) as temporary:
        (temporary / "whose").write_text("mine")
    assert (place / "whose").read_text() == "mine"

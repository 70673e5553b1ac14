"""A story comes back as it was written, is refused where it is damaged, and is redacted with its examples."""

import json
from pathlib import Path

import pytest

from fastif.errors import DataError, StoredFileError
from fastif.web.export import write_export
from fastif.web.payload import make_payload
from fastif.web.source import read_run
from fastif.web.story import NAME, Chapter, Example, Examples, Story, Table, Words, read_story
from tests.web.runs import write_run

STORY = Story(
    "A title",
    "A lead.",
    [("1 of 2", "are so")],
    [
        Chapter(
            "1. First",
            "What was done.",
            [
                Words("a note"),
                Words("fastif demo", code=True),
                Table("shares", [["slice", "right"], ["one", "12.5%"]], bars=True),
                Examples("Some", [Example(["a secret text", "and its pair"], ["label x"], "odd"), Example(["two"])]),
            ],
        )
    ],
)


def test_a_story_comes_back_and_goes_along_with_its_run(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    assert read_story(path) is None
    assert make_payload(read_run(path)).head["story"] is None
    STORY.write(path)
    found = read_story(path)
    assert found is not None
    assert found.as_json() == STORY.as_json()
    payload = make_payload(read_run(path))
    assert payload.head["story"] == STORY.as_json()
    written = write_export(payload, tmp_path / "page.html")
    assert written.in_words().endswith("Its story shows 2 examples.")


def test_a_story_is_written_as_the_documentation_says(tmp_path: Path) -> None:
    STORY.write(str(tmp_path))
    assert read_story(tmp_path) is not None


@pytest.mark.parametrize("rows", [[], [[]]])
def test_a_table_without_headings_is_refused_where_it_is_made_and_where_it_is_read(
    tmp_path: Path, rows: list[list[str]]
) -> None:
    with pytest.raises(DataError, match="'shares' of a story has no headings"):
        Table("shares", rows)
    STORY.write(tmp_path)
    told = json.loads((tmp_path / NAME).read_text())
    told["chapters"][0]["parts"][2]["rows"] = rows
    (tmp_path / NAME).write_text(json.dumps(told))
    with pytest.raises(StoredFileError, match=r"no story that this version can show: .*has no headings"):
        read_story(tmp_path)


def test_a_redacted_page_has_no_example_of_the_story(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run")
    STORY.write(path)
    payload = make_payload(read_run(path), redact=True)
    assert payload.story_examples == 0
    assert b"secret" not in payload.as_bytes()
    assert b"What was done." in payload.as_bytes()


@pytest.mark.parametrize(
    "changed", [{"version": 9}, {"cards": [["one"]]}, {"title": 3}, {"chapters": [{"title": "x"}]}, {"chapters": None}]
)
def test_what_is_no_story_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    STORY.write(tmp_path)
    told = json.loads((tmp_path / NAME).read_text())
    (tmp_path / NAME).write_text(json.dumps({**told, **changed}))
    with pytest.raises(StoredFileError, match="no story that this version can show"):
        read_story(tmp_path)
    (tmp_path / NAME).write_text("{")
    with pytest.raises(StoredFileError, match="Delete it to go on"):
        read_story(tmp_path)

"""A story that a run brings along: what was done before it and found with it, told above the explorer's columns.

Whoever makes a run may write one beside it (`fastif demo` does); `read_run` takes it up, so that server, file and
notebook all show it. It is titles, sentences, tables and examples, all of them plain text. Knows no run and no page.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fastif.errors import DataError, StoredFileError
from fastif.files import replacing

NAME = "story.json"  # in the directory of a run
FORMAT, FORMAT_VERSION = "fastif.story", 1


@dataclass(frozen=True)
class Words:
    """A sentence or more; as `code`, lines to copy."""

    text: str
    code: bool = False
    kind: Literal["words"] = "words"


@dataclass(frozen=True)
class Table:
    """Rows of cells, the first of them headings; with `bars`, cells such as 12.5% get a bar as long."""

    caption: str
    rows: Sequence[Sequence[str]]
    bars: bool = False
    kind: Literal["table"] = "table"

    def __post_init__(self) -> None:
        if not self.rows or not self.rows[0]:
            raise DataError(
                f"the table {self.caption!r} of a story has no headings, and the page could not be drawn with it: give "
                "a first row with the names of the columns, or leave the table out."
            )


@dataclass(frozen=True)
class Example:
    """A text, or several that belong together, with what is known of it and what is odd about it."""

    texts: Sequence[str]
    tags: Sequence[str] = ()
    odd: str = ""


@dataclass(frozen=True)
class Examples:
    """Some examples under a title."""

    title: str
    items: Sequence[Example]
    kind: Literal["examples"] = "examples"


Part = Words | Table | Examples
KINDS: dict[str, type[Part]] = {"words": Words, "table": Table, "examples": Examples}


@dataclass(frozen=True)
class Chapter:
    """A title, a paragraph, and what shows it."""

    title: str
    text: str
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Story:
    """All of it; `cards` are the numbers to see first, with a few words each."""

    title: str
    lead: str
    cards: Sequence[tuple[str, str]] = ()
    chapters: Sequence[Chapter] = field(default_factory=tuple)

    def without_examples(self) -> "Story":
        """Return it without any text of the data."""
        chapters = [
            replace(chapter, parts=[part for part in chapter.parts if not isinstance(part, Examples)])
            for chapter in self.chapters
        ]
        return replace(self, chapters=chapters)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        told: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return told

    def write(self, directory: str | os.PathLike[str]) -> None:
        """Write it into the directory of a run."""
        told = {"format": FORMAT, "version": FORMAT_VERSION, **self.as_json()}
        with replacing(Path(directory) / NAME) as temporary:
            temporary.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_story(directory: Path) -> Story | None:
    """Read the story in the directory of a run; None where there is none."""
    file = directory / NAME
    if not file.is_file():
        return None
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if (told["format"], told["version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"it is {told['format']} {told['version']}")
        cards = [(_text(number), _text(words)) for number, words in told["cards"]]
        return Story(_text(told["title"]), _text(told["lead"]), cards, [_chapter(each) for each in told["chapters"]])
    except (OSError, ValueError, KeyError, TypeError) as error:
        words = f"{type(error).__name__} {error}"
        raise StoredFileError(f"{file} is no story that this version can show: {words}. Delete it to go on.") from error


def _chapter(told: Mapping[str, Any]) -> Chapter:
    return Chapter(_text(told["title"]), _text(told["text"]), [_part(part) for part in told["parts"]])


def _part(told: Mapping[str, Any]) -> Part:
    kind = KINDS[told["kind"]]
    if kind is Words:
        return Words(_text(told["text"]), bool(told["code"]))
    if kind is Table:
        return Table(
            _text(told["caption"]), [[_text(cell) for cell in row] for row in told["rows"]], bool(told["bars"])
        )
    items = [
        Example([*map(_text, each["texts"])], [*map(_text, each["tags"])], _text(each["odd"])) for each in told["items"]
    ]
    return Examples(_text(told["title"]), items)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} should be text")
    return value

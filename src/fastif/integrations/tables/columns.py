"""Which column is the text, its pair, the label and the slice: as asked for, else by well-known names, else by looks.

A guess is made only where there is one answer; else the error lists the columns and the flags that settle it. Slices
are never guessed. Whoever names the text and no pair gets no pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from fastif.errors import DataError
from fastif.integrations.tables.looks import WORDS, looks_like_label, looks_like_text
from fastif.integrations.tables.raw import RawTable, shown

FLAGS = {"text": "--text", "text_pair": "--text-pair", "label": "--label", "slice": "--slice"}
QUERIES = "queries ("  # how messages begin of a table of queries, whose slices have a flag of their own
PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentencea", "sentenceb"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
    ("query", "passage"),
    ("claim", "evidence"),
    ("text", "textpair"),
    ("texta", "textb"),
    ("text1", "text2"),
)
# of several in one set none is better than the others; those of an earlier set are better than those of a later one
TEXTS = (
    {"text", "texts"},
    {"sentence", "review", "content", "comment", "tweet", "utterance", "question", "document", "body", "message"}
    | {"headline", "reviewbody", "reviewtext", "commenttext", "tweettext", "query", "passage", "input", "statement"},
)
LABELS = (
    {"label", "labels", "goldlabel"},
    {"class", "target", "sentiment", "intent", "category", "topic", "emotion", "polarity", "isduplicate", "y"},
    {"score", "rating", "stars", "similarity"},
)


@dataclass(frozen=True)
class Columns:
    """Which column is what, and which of them nobody asked for.

    >>> str(Columns("premise", "hypothesis", "label", guessed=("text", "text_pair", "label")))
    'premise + hypothesis -> label (guessed; set them with --text, --text-pair, --label)'
    >>> str(Columns("review", label="stars", slice="genre", guessed=("label",)))
    'review -> stars by genre (label guessed; set it with --label)'
    """

    text: str
    text_pair: str | None = None
    label: str | None = None
    slice: str | None = None
    guessed: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = self.text if self.text_pair is None else f"{self.text} + {self.text_pair}"
        line += " (no label)" if self.label is None else f" -> {self.label}"
        line += "" if self.slice is None else f" by {self.slice}"
        if not self.guessed:
            return line
        named = [role for role in ("text", "text_pair", "label") if getattr(self, role) is not None]
        which = "" if set(named) == set(self.guessed) else ", ".join(self.guessed).replace("_", " ") + " "
        them = "it" if len(self.guessed) == 1 else "them"
        return f"{line} ({which}guessed; set {them} with {', '.join(FLAGS[role] for role in self.guessed)})"


def choose(raw: RawTable, asked: dict[str, str | None], where: str, *, require_label: bool) -> Columns:
    """Find the columns; `asked` has, by the names of the fields of `Columns`, what the caller named."""
    for role, name in asked.items():
        if name is not None and name not in raw.names:
            raise DataError(_missing(raw, role, name, where))
    found = {role: name for role, name in asked.items() if name is not None}
    if "text" not in found:
        found |= _texts_by_name(raw, found, where)
    if "label" not in found:
        found |= _one("label", _by_name(raw, found, LABELS), raw, where)
    if "text" not in found:
        found |= _text_by_looks(raw, found, where)
    if "label" not in found:
        found |= _label_by_looks(raw, found, where, require_label)
    _check_distinct(found, where)
    guessed = tuple(role for role in ("text", "text_pair", "label") if role in found and asked.get(role) is None)
    return Columns(found["text"], found.get("text_pair"), found.get("label"), slice=found.get("slice"), guessed=guessed)


def _texts_by_name(raw: RawTable, found: dict[str, str], where: str) -> dict[str, str]:
    free = {_plain(name): name for name in raw.names if name != found.get("label")}
    partner = _plain(found["text_pair"]) if "text_pair" in found else None
    pairs = [
        (free[first], free[second])
        for first, second in PAIRS
        if first in free and second in free and partner in (None, second)
    ]
    covered = {name for pair in pairs for name in pair}
    lone_text = [free[name] for name in TEXTS[0] if name in free and free[name] not in covered]
    if len(pairs) > 1 or (pairs and lone_text and partner is None):
        readings = [" + ".join(pair) for pair in pairs] + lone_text
        raise DataError(_ambiguous("text", readings, raw, where))
    if pairs:
        return {"text": pairs[0][0], "text_pair": pairs[0][1]}
    return _one("text", _by_name(raw, found, TEXTS), raw, where)


def _by_name(raw: RawTable, found: dict[str, str], ranks: Iterable[set[str]]) -> list[str]:
    for rank in ranks:
        names = [name for name in raw.names if _plain(name) in rank and name not in found.values()]
        if names:
            return names
    return []


def _text_by_looks(raw: RawTable, found: dict[str, str], where: str) -> dict[str, str]:
    free = [name for name in raw.names if name and name not in found.values()]
    names = [name for name in free if looks_like_text(raw.column(name))]
    if not names and "label" in found:
        # short texts, such as names or single words: the only column of strings that is left
        names = [name for name in free if looks_like_text(raw.column(name), short=True)]
    chosen = _one("text", names, raw, where)
    if not chosen:
        taken = _taken("text", found)
        raise DataError(f"{where}: no column looks like the text. {taken}{_set('text', raw)}{_header_hint(raw)}")
    if raw.has_header and len(chosen["text"].split()) > WORDS:
        raise DataError(_data_above(chosen["text"], "has as many words as a text", where))
    return chosen


def _label_by_looks(raw: RawTable, found: dict[str, str], where: str, require_label: bool) -> dict[str, str]:
    free = [name for name in raw.names if name and name not in found.values()]
    names = [name for name in free if looks_like_label(raw.column(name))] if require_label else []
    chosen = _one("label", names, raw, where)
    if not chosen and require_label:
        taken = _taken("label", found)
        raise DataError(f"{where}: no column looks like the label. {taken}{_set('label', raw)}{_header_hint(raw)}")
    if chosen and raw.has_header and chosen["label"] in raw.column(chosen["label"]):
        raise DataError(_data_above(chosen["label"], "comes again as a value below", where))
    return chosen


def _one(role: str, names: list[str], raw: RawTable, where: str) -> dict[str, str]:
    if len(names) > 1:
        raise DataError(_ambiguous(role, names, raw, where))
    return {role: names[0]} if names else {}


def _check_distinct(found: dict[str, str], where: str) -> None:
    for first, second in (("text", "text_pair"), ("text", "label"), ("text_pair", "label")):
        if first in found and found[first] == found.get(second):
            raise DataError(
                f"{where}: column {found[first]!r} is taken for {FLAGS[first]} and for {FLAGS[second]}. Name two."
            )


def _missing(raw: RawTable, role: str, name: str, where: str) -> str:
    # by their plain forms first: another case or a hyphen is the commonest slip
    alike = [other for other in raw.names if _plain(other) == _plain(name)] or get_close_matches(name, raw.names, 1)
    closest = f" Did you mean {alike[0]!r}?" if alike else ""
    flag = "--query-slice" if role == "slice" and where.startswith(QUERIES) else FLAGS[role]
    return f"{where} has no column {name!r}, which {flag} asks for. It has: {_listed(raw)}.{closest}"


def _ambiguous(role: str, readings: list[str], raw: RawTable, where: str) -> str:
    return f"{where}: the {role} could be {' or '.join(readings)}. {_set(role, raw)}"


def _taken(role: str, found: dict[str, str]) -> str:
    """Say that the column of a well-known name was asked for as something else: no guess takes it once more."""
    known = set().union(*(TEXTS if role == "text" else LABELS))
    taken = next((other for other, name in found.items() if other != role and _plain(name) in known), None)
    return "" if taken is None else f"Column {found[taken]!r} is taken for {FLAGS[taken]}. "


def _set(role: str, raw: RawTable) -> str:
    flags = "--text (and --text-pair for a pair)" if role == "text" else FLAGS[role]
    return f"The columns are: {_listed(raw)}. Name it with {flags} (in Python: {role}=)."


def _header_hint(raw: RawTable) -> str:
    return " If these are no names, the file has no header: put one above." if raw.has_header else ""


def _data_above(name: str, why: str, where: str) -> str:
    return (
        f"{where}: the first line, which should name the columns, looks like data, as {shown(name)} {why}. Put a line "
        "of names such as text and label above it."
    )


def _listed(raw: RawTable) -> str:
    names = [name if name.isidentifier() else shown(name) for name in raw.names]
    return ", ".join(names[:30]) + (f" and {len(names) - 30} more" if len(names) > 30 else "")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in " _-")

"""The payload of the explorer: everything that the page shows of a run, as typed records and arrays.

Training examples are those that have an edge, or stand in the audit: each has one place in the graph, by all of its
edges. Edges are ordered by |I|, the strongest first, so that the first so many of them are the graph at any level of
detail. Slice statistics are of the strongest edges of each prediction whatever their sign, as counts say nothing where
as many helpful as harmful ones are asked for. Knows a run's content, and no page.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fastif.apps.edges import Edges, choose_edges
from fastif.apps.graph import Graph, lay_out
from fastif.apps.slices import ALL, MOST_SLICES, Comparison, compare_slices
from fastif.errors import DataError, EmptyDataError
from fastif.version import __version__
from fastif.web.again import Again
from fastif.web.facts import Fact, facts
from fastif.web.names import ClassNames, name_of
from fastif.web.packed import Array, pack
from fastif.web.source import Row, RunContent
from fastif.web.suspects import Suspect, match_suspects

FORMAT, FORMAT_VERSION = "fastif.explorer", 1
MOST_EDGES = 400_000
MOST_OF_EACH = 500  # helpful, and as many harmful ones, of each prediction
PART_OF_EACH = 20  # and no more than one in so many of the training set: what touches everything says nothing
FEWEST_OF_EACH = 10
OF_SLICES = 100  # strongest edges of each prediction that slices are compared by
LONGEST_TEXT = 1_000  # characters of a training text
MARKS, MARKED = "marks.jsonl", "train-marked.jsonl"  # files that commands to copy name
NOTHING = 0xFFFF  # for a training example without a label or a slice


@dataclass(frozen=True)
class Detail:
    """What `fastif explain` told of a listed training example, beyond its score."""

    train: int
    error: float | None
    own_loss: float | None
    near: bool


@dataclass(frozen=True)
class Query:
    """An evaluation point: what was asked, what the model said, and what is explained of it."""

    text: str
    text_pair: str | None
    line: int | None
    slice: int
    label: str | None
    predicted: str | None
    confidence: float | None
    right: bool | None
    explains_label: bool
    target: str
    measure: str
    residual: float | None
    details: tuple[Detail, ...]


@dataclass(frozen=True, eq=False)
class Payload:
    """What the page shows: `head` is everything but the arrays, as JSON can hold it."""

    head: dict[str, Any]
    arrays: dict[str, Array]

    def as_bytes(self) -> bytes:
        """Return it in the form that server and file share."""
        return pack(self.head, self.arrays)

    @property
    def train_texts(self) -> int:
        """How many training texts it holds."""
        return 0 if self.head["redacted"] else len(self.arrays["train_id"])

    @property
    def story_examples(self) -> int:
        """How many examples its story shows, which may be of the training data too."""
        chapters = (self.head["story"] or {}).get("chapters", ())
        return sum(len(part.get("items", ())) for chapter in chapters for part in chapter["parts"])

    def text(self, node: int) -> str | None:
        """Return a training text, by its number on the page; None where texts are left out."""
        if self.head["redacted"]:
            return None
        start, end = self.arrays["text_starts"][2 * node : 2 * node + 2].tolist()
        return self.arrays["text_bytes"][start:end].tobytes().decode("utf-8", "replace")


def make_payload(content: RunContent, *, redact: bool = False, most_edges: int = MOST_EDGES) -> Payload:
    """Return the payload of a run.

    Args:
        content: as `read_run` returns it.
        redact: whether to leave the training texts out.
        most_edges: how many edges there may be.
    """
    asked = content.explanation["queries"]
    if not asked:
        raise EmptyDataError(f"the run {content.name} explains no prediction, so that there is nothing to look at.")
    most = min(MOST_OF_EACH, most_edges // (2 * len(asked)), len(content.train) // PART_OF_EACH)
    of_each = max(FEWEST_OF_EACH, most)
    return assemble(content, choose_edges(content.scores, of_each), redact=redact)


def assemble(content: RunContent, edges: Edges, *, redact: bool = False) -> Payload:
    """Return the payload of a run with these edges."""
    asked: Sequence[Mapping[str, Any]] = content.explanation["queries"]
    classes = ClassNames.learn(asked, content.train)
    slices = _slices(content)
    graph = lay_out(replace(edges, values=-np.abs(edges.values)), slices)  # one place for both signs
    suspects = match_suspects(content.suspects, content.train, classes)
    nodes = np.union1d(graph.helpful.train_ids, np.array([each.train for each in suspects], dtype=np.int64))
    rows = [content.train[index] for index in nodes.tolist()]
    labels, label_of = _numbered([classes.of(row.get("label")) for row in rows])
    train_slices, slice_of = _numbered([name_of(row.get("slice")) for row in rows])
    numbers = {name: number for number, name in enumerate(dict.fromkeys(slices))}
    of_train = {index: node for node, index in enumerate(nodes.tolist())}
    head = {
        **_about(content),
        "redacted": redact,
        "story": _story(content, redact),
        "has_pairs": any("text_pair" in row for row in rows),
        "choice": edges.choice,
        "labels": labels,
        "classes": classes.all(labels, asked),
        "train_slices": train_slices,
        "slices": [_arc(graph, number, name) for name, number in numbers.items()],
        "queries": [
            asdict(_query(query, numbers[name], residual, of_train))
            for query, name, residual in zip(asked, slices, _residuals(content), strict=True)
        ],
        "comparison": _comparison(compare_slices(_strongest(content, edges), slices)),
        "suspects": [asdict(_renumbered(each, nodes)) for each in suspects],
    }
    arrays = {**_edge_arrays(edges, nodes), **_node_arrays(graph, nodes, rows)}
    arrays |= {"train_label": label_of, "train_slice": slice_of, **({} if redact else _texts(rows))}
    return Payload(head, arrays)


def _about(content: RunContent) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "fastif": __version__,
        "run": {"name": content.name, "place": content.place, "model": str(content.explanation.get("model") or "")},
        "train_examples": len(content.train),
        "again": _again(content),
        "facts": [asdict(fact) for fact in _facts(content)],
    }


def _again(content: RunContent) -> dict[str, Any]:
    """Return how marks are applied and the model trained again."""
    again = Again.of(content.arguments, pair=any("text_pair" in row for row in content.train))
    apply = f"fastif apply {shlex.quote(content.place)} {MARKS} -o {MARKED}"
    python = again.python(content.place, MARKS)
    return {"apply": apply, "train": again.command(MARKED), "python": python, "hint": again.hint}


def _story(content: RunContent, redact: bool) -> dict[str, Any] | None:
    if content.story is None:
        return None
    return (content.story.without_examples() if redact else content.story).as_json()


def _slices(content: RunContent) -> list[str]:
    """Return the name of the slice of each query."""
    slices = [name_of(query.get("slice")) or ALL for query in content.explanation["queries"]]
    if len(set(slices)) > MOST_SLICES:
        raise DataError(
            f"the queries of {content.name} have {len(set(slices))} different slices, and more than {MOST_SLICES} "
            "cannot be told apart on a page. Name a column with fewer values with fastif explain --query-slice."
        )
    return slices


def _strongest(content: RunContent, edges: Edges) -> Edges:
    if content.scores.values.numel():
        return choose_edges(content.scores, OF_SLICES, by="strongest")
    return edges


def _provenance(content: RunContent) -> Mapping[str, Any]:
    found: Mapping[str, Any] = content.explanation.get("provenance") or content.scores.provenance
    return found


def _facts(content: RunContent) -> list[Fact]:
    return facts(content.explanation, _provenance(content))


def _residuals(content: RunContent) -> list[float | None]:
    """Return the residual of the solve for each query, None where it is not recorded."""
    residuals = list(_provenance(content).get("residuals") or ())
    count = len(content.explanation["queries"])
    return residuals if len(residuals) == count else [None] * count


def _query(told: Mapping[str, Any], number: int, residual: float | None, nodes: Mapping[int, int]) -> Query:
    listed = [*(told.get("helpful") or ()), *(told.get("harmful") or ())]
    details = [
        Detail(nodes[each["index"]], each.get("error"), each.get("own_loss"), bool(each.get("near")))
        for each in listed
        if each["index"] in nodes
    ]
    return Query(
        text=str(told["text"]),
        text_pair=None if told.get("text_pair") is None else str(told["text_pair"]),
        line=told.get("line"),
        slice=number,
        label=name_of(told.get("label")),
        predicted=name_of(told.get("predicted")),
        confidence=told.get("confidence"),
        right=told.get("right"),
        explains_label=told.get("explained") != "the prediction",
        target=name_of(told.get("target")) or "",
        measure=str(told.get("measure") or "loss"),
        residual=residual,
        details=tuple(details),
    )


def _arc(graph: Graph, number: int, name: str) -> dict[str, Any]:
    arc = graph.arcs[number]
    return {"name": name, "start": arc.start, "end": arc.end, "queries": arc.queries}


def _comparison(found: Comparison) -> dict[str, Any]:
    told = found.as_json()
    told["slices"], told["pairs"] = list(told["slices"]), list(told["pairs"])
    return told


def _numbered(names: Sequence[str | None]) -> tuple[list[str], Array]:
    """Return the different names, sorted, and the number of each row's name."""
    different = sorted({name for name in names if name is not None})[: NOTHING - 1]
    numbers = {name: number for number, name in enumerate(different)}
    return different, np.array(
        [NOTHING if name is None else numbers.get(name, NOTHING) for name in names], dtype=np.uint16
    )


def _edge_arrays(edges: Edges, nodes: Array) -> dict[str, Array]:
    order = np.argsort(-np.abs(edges.values), kind="stable")
    return {
        "edge_query": edges.queries[order].astype(np.uint32),
        "edge_train": np.searchsorted(nodes, edges.train_ids[order]).astype(np.uint32),
        "edge_value": edges.values[order].astype(np.float32),
    }


def _node_arrays(graph: Graph, nodes: Array, rows: Sequence[Row]) -> dict[str, Array]:
    side = graph.helpful
    places = np.full((len(nodes), 2), np.nan)
    places[np.searchsorted(nodes, side.train_ids)] = side.positions
    lines = [line_of(row, index) for row, index in zip(rows, nodes.tolist(), strict=True)]
    return {
        "query_x": graph.places[:, 0].astype(np.float32),
        "query_y": graph.places[:, 1].astype(np.float32),
        "train_id": nodes.astype(np.uint32),
        "train_line": np.array(lines, dtype=np.uint32),
        "train_x": places[:, 0].astype(np.float32),
        "train_y": places[:, 1].astype(np.float32),
    }


def _texts(rows: Sequence[Row]) -> dict[str, Array]:
    """Return all texts as UTF-8 one after another, and where each begins; a text and its pair follow each other."""
    words = [shown_text(row.get(name)) for row in rows for name in ("text", "text_pair")]
    content = [each.encode() for each in words]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in content])]).astype(np.uint32)
    return {"text_starts": starts, "text_bytes": np.frombuffer(b"".join(content), dtype=np.uint8)}


def line_of(row: Row, index: int) -> Any:
    """Return where a training example stands in its file, as the page says it."""
    return row.get("line", row.get("row", index + 1))


def shown_text(text: Any) -> str:
    """Return a training text as the page has it: cut, and with a mark for what is no text."""
    words = str(text or "").encode("utf-8", "replace").decode()
    return words if len(words) <= LONGEST_TEXT else words[:LONGEST_TEXT] + "…"


def _renumbered(each: Suspect, nodes: Array) -> Suspect:
    return replace(each, train=int(np.searchsorted(nodes, each.train)))

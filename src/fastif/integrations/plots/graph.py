"""The picture of a graph of influence: one circle of helpful edges, one of harmful ones.

Queries lie on the circle, coloured by slice; training points inside, coloured by ring where they are split. An edge is
the wider and the less transparent the larger its |I| (on a logarithmic scale), and strong ones lie above weak ones. Of
very many edges the strongest are lines and the others a shade. Where there is much to draw, it is drawn as pixels
within a PDF or SVG, so that the file stays small; letters stay letters. Knows `Graph` alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Annulus, Circle

from fastif.apps.edges import Flags, Floats
from fastif.apps.graph import CIRCLE, DISC, Graph, Side
from fastif.integrations.plots.shade import shade
from fastif.integrations.plots.style import HARMFUL, HELPFUL, INK, NEUTRAL, look, shown_name

COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D", "#A6761D")  # not those of the edges
EDGE_COLOURS = {"helpful": HELPFUL, "harmful": HARMFUL}
SIZE = (11.0, 7.1)  # inches
REACH = 1.2  # of the axes, beside the circle
MOST_SHAPES = 3_000  # lines or points that are drawn as shapes; more become pixels
MOST_LINES = 20_000  # edges of a half that are all drawn as lines
LINES_ABOVE_SHADE = 1_500  # the strongest edges, where the others are a shade
MOST_NAMES = 12  # slices that are named in the legend
LETTER = 0.034  # the width of a letter at an arc, beside the circle
THINNEST = 0.3  # the weakest edge, in points
THICKEST = (1.1, 2.4)  # the strongest edge, among very many and among few
OPAQUE = 0.85  # the strongest edge
SHADE = 0.5  # the darkest shade
WEAK = 0.05  # the share of edges that are drawn as the weakest
JITTER = 0.008  # so that points of one place are seen to be many
BAND = 1.055  # the radius of the coloured arcs
PIXELS = 640  # along the side of a shade


@dataclass(frozen=True, eq=False)
class _Scale:
    """How |I| becomes width and transparency, the same in both circles."""

    low: float
    high: float
    faint: float
    thickest: float = THICKEST[1]

    @classmethod
    def of(cls, strengths: Floats) -> "_Scale":
        if not len(strengths):
            return cls(1.0, 1.0, OPAQUE)
        low = float(np.quantile(strengths, WEAK))
        # so many weak edges lie above each other that each of them may be hardly there
        faint = min(0.5, max(0.03, 7 / math.sqrt(len(strengths))))
        thickest = min(THICKEST[1], max(THICKEST[0], 60 / math.sqrt(len(strengths))))
        return cls(low, float(strengths.max()), faint, thickest)

    def height(self, strengths: Floats) -> Floats:
        """Return from 0 for the weakest to 1 for the strongest."""
        if not self.high > self.low:
            return np.ones(len(strengths))
        return np.clip(np.log(strengths / self.low) / math.log(self.high / self.low), 0.0, 1.0)

    def widths(self, strengths: Floats) -> Floats:
        return THINNEST + (self.thickest - THINNEST) * self.height(strengths) ** 2

    def opacities(self, strengths: Floats) -> Floats:
        return self.faint + (OPAQUE - self.faint) * self.height(strengths) ** 2


def draw_graph(graph: Graph, *, most_edges: int | None = None, title: str | None = None) -> Figure:
    """Draw both halves of a graph.

    Args:
        graph: from `fastif.apps.graph.lay_out`.
        most_edges: how many edges to draw, the strongest; None draws all. Points are drawn with edges or without.
        title: above both circles.
    """
    # places are given and not found: finding them would draw everything once more
    with look(), mpl.rc_context({"axes.grid": False, "figure.constrained_layout.use": False}):
        figure = Figure(figsize=SIZE)
        drawn = _strongest(graph, most_edges)
        scale = _Scale.of(np.concatenate([_as_lines(*half) for half in zip(graph.sides, drawn, strict=True)]))
        colours = _colours(graph)
        height = SIZE[0] / 2 / SIZE[1]
        for left, side, kept in zip((0.0, 0.5), graph.sides, drawn, strict=True):
            axes = figure.add_axes((left, 0.945 - height, 0.5, height))
            _prepare(axes, side, int(kept.sum()))
            places = _spread(side)
            _draw_edges(axes, graph.places, side, (kept, places), scale)
            _draw_points(axes, graph, side, places, colours)
            _draw_queries(axes, graph, colours)
        if title is not None:
            figure.suptitle(title, fontsize=11, y=0.985)
        samples = list(_samples(scale, graph, _shaded(graph, drawn)))
        _draw_legends(figure, graph, colours, samples)
    return figure


def _strongest(graph: Graph, most: int | None) -> tuple[Flags, Flags]:
    """Return which edges of each half are drawn."""
    strengths = [np.abs(side.edges.values) for side in graph.sides]
    if most is None or most >= graph.edges:
        return np.ones(len(strengths[0]), dtype=np.bool_), np.ones(len(strengths[1]), dtype=np.bool_)
    order = np.argsort(-np.concatenate(strengths), kind="stable")[:most]
    kept = np.zeros(graph.edges, dtype=np.bool_)
    kept[order] = True
    return kept[: len(strengths[0])], kept[len(strengths[0]) :]


def _as_lines(side: Side, kept: Flags) -> Floats:
    """Return the |I| of the edges that are drawn as lines, the weakest first."""
    strengths = np.sort(np.abs(side.edges.values[kept]))
    return strengths[-LINES_ABOVE_SHADE:] if len(strengths) > MOST_LINES else strengths


def _colours(graph: Graph) -> dict[str, str]:
    """Return a colour for each name: a slice of queries and a ring of that name have the same one."""
    names = list(dict.fromkeys([arc.name for arc in graph.arcs] + [ring.name for ring in graph.rings]))
    if len(names) <= len(COLOURS):
        return dict(zip(names, COLOURS, strict=False))
    wheel = mpl.colormaps["turbo"]
    return {name: to_hex(wheel((number + 0.5) / len(names))) for number, name in enumerate(names)}


def _prepare(axes: Axes, side: Side, drawn: int) -> None:
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-REACH, REACH)
    axes.set_ylim(-REACH, REACH)
    words = f"{drawn:,}" if drawn == len(side.edges) else f"the strongest {drawn:,} of {len(side.edges):,}"
    axes.set_title(f"{side.sign.capitalize()}: {words} edges, {len(side.train_ids):,} training points", y=0.975)


def _spread(side: Side) -> Floats:
    """Return where points are drawn: near their places, as several may have the same."""
    moved: Floats = side.positions + JITTER * np.random.default_rng(0).standard_normal(side.positions.shape)
    return moved


def _draw_edges(axes: Axes, queries: Floats, side: Side, shown: tuple[Flags, Floats], scale: _Scale) -> None:
    kept, places = shown
    edges = side.edges.take(kept)
    order = np.argsort(np.abs(edges.values), kind="stable")
    strengths = np.abs(edges.values)[order]
    segments = np.stack([places[side.nodes[kept][order]], queries[edges.queries[order]]], axis=1)
    colour = to_rgb(EDGE_COLOURS[side.sign])
    if len(order) > MOST_LINES:
        weak = len(order) - LINES_ABOVE_SHADE
        picture = np.empty((PIXELS, PIXELS, 4))
        picture[:, :, :3] = colour
        picture[:, :, 3] = SHADE * shade(segments[:weak], strengths[:weak], pixels=PIXELS, reach=CIRCLE)
        axes.imshow(picture, extent=(-CIRCLE, CIRCLE, -CIRCLE, CIRCLE), origin="lower", zorder=0.5)
        axes.set_xlim(-REACH, REACH)
        axes.set_ylim(-REACH, REACH)
        strengths, segments = strengths[weak:], segments[weak:]
    colours = np.empty((len(strengths), 4))
    colours[:, :3] = colour
    colours[:, 3] = scale.opacities(strengths)
    lines = LineCollection(list(segments), colors=colours, linewidths=scale.widths(strengths), zorder=1)
    lines.set_rasterized(len(strengths) > MOST_SHAPES)
    axes.add_collection(lines, autolim=False)


def _draw_points(axes: Axes, graph: Graph, side: Side, places: Floats, colours: dict[str, str]) -> None:
    axes.add_patch(Circle((0, 0), DISC, fill=False, edgecolor="#CCCCCC", linewidth=0.5, zorder=0))
    for ring in graph.rings:
        band = Annulus((0, 0), ring.outer, ring.outer - ring.inner, zorder=0)
        band.set(facecolor=colours[ring.name], alpha=0.12, linewidth=0)
        axes.add_patch(band)
    colour: list[str] | str = [colours[graph.rings[ring].name] for ring in side.rings] if graph.rings else INK
    axes.scatter(
        places[:, 0],
        places[:, 1],
        s=float(np.clip(3000 / max(1, len(places)), 0.8, 14)),
        c=colour,
        alpha=float(np.clip(2500 / max(1, len(places)), 0.08, 0.8)),
        edgecolors="white" if len(places) <= MOST_SHAPES else "none",
        linewidths=0.25,
        zorder=2,
        rasterized=len(places) > MOST_SHAPES,
    )


def _draw_queries(axes: Axes, graph: Graph, colours: dict[str, str]) -> None:
    axes.scatter(
        graph.places[:, 0],
        graph.places[:, 1],
        s=float(np.clip(2500 / len(graph.places), 5, 40)),
        c=[colours[name] for name in graph.slices],
        edgecolors="white",
        linewidths=0.3,
        zorder=3,
        rasterized=len(graph.places) > MOST_SHAPES,
    )
    for arc in graph.arcs:
        angles = np.linspace(arc.start, arc.end, max(2, int(abs(arc.end - arc.start) * 60)))
        axes.plot(BAND * np.cos(angles), BAND * np.sin(angles), color=colours[arc.name], linewidth=3, zorder=3)
        if LETTER * len(arc.name) > arc.start - arc.end:
            continue  # it would run into the next name; the legend has it
        turned = math.degrees(arc.middle) - 90
        upright = turned if math.sin(arc.middle) >= -1e-9 else turned + 180
        x, y = (BAND + 0.055) * math.cos(arc.middle), (BAND + 0.055) * math.sin(arc.middle)
        axes.text(x, y, shown_name(arc.name, 100), ha="center", va="center", rotation=upright, fontsize=8, color=INK)


def _draw_legends(figure: Figure, graph: Graph, colours: dict[str, str], samples: list[Line2D]) -> None:
    """Draw what the queries, the points and the edges are, below the circles from left to right."""
    places: list[tuple[str, float, list[Line2D]]] = [
        ("queries, by slice", 0.02, list(_slices(graph, colours))),
        ("training points" + (", by ring from within" if graph.rings else ""), 0.5, list(_rings(graph, colours))),
        ("edges", 0.78, samples),
    ]
    for title, left, handles in places:
        legend = figure.legend(
            handles=handles,
            title=title,
            loc="upper left",
            bbox_to_anchor=(left, 0.16),
            ncols=max(1, math.ceil(len(handles) / 4)),
            fontsize=8,
            alignment="left",
            borderaxespad=0,
        )
        legend.get_title().set_fontsize(8.5)
        legend.get_title().set_fontweight("bold")


def _dot(colour: str, words: str, size: float) -> Line2D:
    return Line2D([], [], linestyle="none", marker="o", markersize=size, color=colour, mec="none", label=words)


def _slices(graph: Graph, colours: dict[str, str]) -> Iterator[Line2D]:
    listed = sorted(graph.arcs, key=lambda arc: -arc.queries)[: MOST_NAMES - 1]
    if len(graph.arcs) <= MOST_NAMES:
        listed = list(graph.arcs)
    for arc in listed:
        yield _dot(colours[arc.name], f"{shown_name(arc.name)} ({arc.queries:,})", 6)
    if len(listed) < len(graph.arcs):
        yield _dot("none", f"and {len(graph.arcs) - len(listed)} smaller ones", 6)


def _rings(graph: Graph, colours: dict[str, str]) -> Iterator[Line2D]:
    for ring in graph.rings:
        yield _dot(colours[ring.name], shown_name(ring.name), 4)
    if not graph.rings:
        yield _dot(INK, "at the median of their queries", 4)


def _samples(scale: _Scale, graph: Graph, shaded: int) -> Iterator[Line2D]:
    """Yield a weak, a middling and a strong edge, and how many are no lines."""
    if not graph.edges:
        yield Line2D([], [], linestyle="none", label="none")
        return
    strengths = np.array([scale.low, math.sqrt(scale.low * scale.high), scale.high])
    if not scale.high > scale.low:
        strengths = strengths[:1]
    for strength, width, opacity in zip(strengths, scale.widths(strengths), scale.opacities(strengths), strict=True):
        shown = max(0.25, float(opacity))  # a single faint line would not be seen
        words = f"|I| = {float(f'{strength:.2g}'):,g}"
        yield Line2D([], [], color=NEUTRAL, alpha=shown, linewidth=float(width), label=words)
    if shaded:
        words = f"shade: {shaded:,} weaker ones"
        yield Line2D([], [], color=NEUTRAL, alpha=0.3, linewidth=7, label=words)


def _shaded(graph: Graph, drawn: tuple[Flags, Flags]) -> int:
    """Return how many edges are a shade and no line."""
    return sum(int(kept.sum()) - len(_as_lines(side, kept)) for side, kept in zip(graph.sides, drawn, strict=True))

"""The tables of Figure 5: edges by slice, correlations between slices, whose training points act; paper beside ours.

Knows the result of `visualization.py`, and computes nothing.
"""

from typing import Any

from fastif.measuring.words import markdown
from fastif.paper.figures_of_the_paper import EDGES, SLICE_CORRELATIONS, VISUALIZATION_CLAIM
from fastif.paper.sources import LEXICAL

Part = dict[str, Any]


def table(result: dict[str, Any]) -> str:
    """Return both tables of the appendix for the model trained on NLI, and what there is for the one on HANS."""
    nli, hans = result["models"].values()
    counted = (
        f"wrong points: {len(nli['queries'])} of the model trained on NLI ({nli['examples']:,} training points, "
        f"k = {nli['k']:,}), {len(hans['queries'])} of that on HANS ({hans['examples']:,}, k = {hans['k']:,}); the "
        "paper: 400 of each, k = 1,000"
    )
    parts = [
        f"Cells are paper \\| ours. {counted[0].upper()}{counted[1:]}. Only ratios within a row compare: damping and "
        "scale of the paper differ between MNLI and HANS.",
        "**Trained on NLI: edges of each slice**",
        _edges_table(nli, with_paper=True),
        "**Trained on NLI: correlation between slices, and training points that touch both**",
        _pairs_table(nli, with_paper=True),
        "**Trained on HANS: edges of each slice** (the paper gives no numbers)",
        _edges_table(hans, with_paper=False),
        _pairs_table(hans, with_paper=False),
        f"**Trained on HANS: who acts on whom.** Paper ({VISUALIZATION_CLAIM.where}): {VISUALIZATION_CLAIM.words}. "
        "Ours, by the heuristic of the training point:",
        _sources_table(hans),
        *_variants_tables(result),
    ]
    return "\n\n".join(parts)


def _variants_tables(result: dict[str, Any]) -> list[str]:
    """Return what other ways to score the same points give, for each model."""
    found = []
    for part, words in zip(result["models"].values(), ("NLI", "HANS"), strict=True):
        ways, lexical = part.get("variants"), words == "HANS"
        if not ways:
            continue
        slices = [row["slice"] for row in next(iter(ways.values()))]
        rows = [[name, *(_counted_words(row, lexical=lexical) for row in way)] for name, way in ways.items()]
        whose = "; then the share of abs(I) that is of training points of lexical overlap" if lexical else ""
        found += [
            f"**Trained on {words}: other ways to score**, over wrong points: mean share of edges that help, and how "
            "many times as strong as harmful ones these are (geometric mean over the points that have both)"
            f"{whose}. Where all points are scored, the {part['k']:,} strongest are counted.",
            markdown(["scored by", *slices], rows),
        ]
    return found


def _counted_words(row: dict[str, Any], *, lexical: bool) -> str:
    words = f"{row['share_helpful']:.0%}, {_number(row['times_as_strong'])}x"
    return f"{words}, {row['share_of_influence'][LEXICAL]:.0%}" if lexical else words


def _edges_table(part: Part, *, with_paper: bool) -> str:
    rows = []
    for each in part["comparison"]["slices"]:
        helpful, harmful = each["helpful"], each["harmful"]
        paper = EDGES[each["name"]] if with_paper else None
        count = helpful["edges"] + harmful["edges"]
        ours = [
            f"{helpful['edges']:,}",
            f"{harmful['edges']:,}",
            f"{helpful['edges'] / count:.0%}" if count else "-",
            _number(helpful["mean"]),
            _number(harmful["mean"]),
            _number(helpful["mean"] / harmful["mean"]) if helpful["mean"] and harmful["mean"] else "-",
        ]
        theirs = [] if paper is None else [
            f"{paper.helpful:,}",
            f"{paper.harmful:,}",
            f"{paper.helpful / (paper.helpful + paper.harmful):.0%}",
            _number(paper.mean_helpful),
            _number(paper.mean_harmful),
            _number(paper.mean_helpful / paper.mean_harmful),
        ]  # fmt: skip
        cells = [f"{one} \\| {two}" for one, two in zip(theirs, ours, strict=True)] if theirs else ours
        rows.append([each["name"], str(each["queries"]), *cells])
    columns = [
        "helpful edges",
        "harmful edges",
        "share helpful",
        "mean abs(I), helpful",
        "mean abs(I), harmful",
        "ratio",
    ]
    return markdown(["slice", "wrong points, ours", *columns], rows)


def _pairs_table(part: Part, *, with_paper: bool) -> str:
    rows = []
    found = {frozenset((pair["first"], pair["second"])): pair for pair in part["comparison"]["pairs"]}
    for (first, second), (correlation, points) in SLICE_CORRELATIONS.items():
        pair = found[frozenset((first, second))]
        known = pair["correlation"] is not None
        ours = [f"{pair['correlation']:.2f}" if known else f"none: {pair['reason']}", f"{pair['points']:,}"]
        theirs = [f"{correlation:.2f}", f"{points:,}"]
        cells = [f"{one} \\| {two}" for one, two in zip(theirs, ours, strict=True)] if with_paper else ours
        rows.append([first, second, *cells])
    return markdown(["slice", "slice", "correlation", "training points"], rows)


def _sources_table(part: Part) -> str:
    rows = [
        [
            row["slice"],
            row["train_slice"],
            f"{row['edges']:,}",
            _number(row["mean"]),
            f"{row['share_of_edges']:.0%}",
            f"{row['share_of_influence']:.0%}",
        ]
        for row in part["by_train_slice"]
    ]
    columns = ["slice of wrong points", "training points", "edges", "mean abs(I)", "share of edges", "share of abs(I)"]
    return markdown(columns, rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"

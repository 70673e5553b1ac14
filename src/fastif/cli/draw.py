"""Results as a person reads them on a terminal: tables with class names, and in words what the numbers mean.

Texts come from data and may hold anything: they are shown as they are, never as markup, control characters taken out.
"""

from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from fastif.cli import candidates

WIDTH = 110  # of a text, in characters
HEADINGS = {
    ("the label", "helpful"): "Helpful: they pushed the model towards the label {target}",
    ("the label", "harmful"): "Harmful: they pushed the model away from the label {target}",
    ("the prediction", "helpful"): "They support this prediction, {target}",
    ("the prediction", "harmful"): "They speak against this prediction, {target}",
}


def draw_explanation(result: dict[str, Any], console: Console) -> None:
    """Draw all queries, and how to read them."""
    for number, query in enumerate(result["queries"], 1):
        console.print(_head(number, query))
        # what made it wrong is what a person with a wrong prediction came for
        order = ("harmful", "helpful") if query["right"] is False else ("helpful", "harmful")
        for kind in order:
            heading = HEADINGS[query["explained"], kind].format(target=query["target"])
            console.print(Text(f"\n{heading}", style="bold red" if kind == "harmful" else "bold green"))
            console.print(_table(query[kind], console) if query[kind] else Text("  none"))
        console.print(_neighbours(query))
        console.print()
    console.print(_legend(result))


def draw_training(record: dict[str, Any], console: Console) -> None:
    """Draw what the best epoch of a training came to on the dev set."""
    epochs, rows = len(record["history"]), record["train"]["rows"]
    console.print(Text(f"Trained on {rows:,} texts; epoch {record['best_epoch']} of {epochs} was kept.", style="bold"))
    if record["dev"] is None:
        console.print(Text("There was no dev set, so that nothing is known of other texts."))
        return
    measured = f"Mean squared error {record['dev_loss']:.4g}" if record["dev_accuracy"] is None else ""
    measured = measured or f"Accuracy {record['dev_accuracy']:.1%}, mean loss {record['dev_loss']:.4f}"
    console.print(Text(f"{measured}, on {record['dev']['rows']:,} texts of dev."))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("label", "dev rows", "accuracy"):
        table.add_column(name, justify="left" if name == "label" else "right")
    for name, one in record["dev_by_label"].items():
        share = f"{one['accuracy']:.1%}" if "accuracy" in one else "-"
        table.add_row(*(Text(each) for each in (clean(name, WIDTH), f"{one['rows']:,}", share)))
    if record["dev_by_label"]:
        console.print(table)


def _head(number: int, query: dict[str, Any]) -> Group:
    said = f"model says {_words(query['predicted'])}"
    said += "" if query["confidence"] is None else f" ({query['confidence']:.0%})"
    label = "no label given" if query["label"] is None else f"label {_words(query['label'])}"
    verdict = {True: ", right", False: ", WRONG", None: ""}[query["right"]]
    lines = [Text(f"{number}. {clean(query['text'])}", style="bold")]
    if query["text_pair"] is not None:
        lines.append(Text(f"   {clean(query['text_pair'])}", style="bold"))
    part = "" if query.get("slice") is None else f"slice {clean(query['slice'])}, "
    lines.append(
        Text(f"   {part}{label}, {said}{verdict}. Explained is {query['explained']}, {_words(query['target'])}.")
    )
    return Group(*lines)


def _table(members: list[dict[str, Any]], console: Console) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    wide = console.width >= 80
    for name, options in _columns(wide):
        table.add_column(name, **options)
    for rank, it in enumerate(members, 1):
        text = clean(it["text"], WIDTH)
        if it["text_pair"] is not None:
            text += f" ⏐ {clean(it['text_pair'], WIDTH)}"
        score = f"{it['score']:+.4g}" + ("" if it["error"] is None else f" ± {it['error']:.2g}")
        row = [f"  {rank}", f"{it['line']}", score, f"{it['loss_change_without_it']:+.2g}", f"{it['own_loss']:.2f}"]
        table.add_row(*(Text(each) for each in (*row, clean(it["label"]), text + (" (near)" if it["near"] else ""))))
    return table


def _columns(wide: bool) -> list[tuple[str, dict[str, Any]]]:
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}  # of a number no digit may be lost
    names = [("  #", right), ("line", right), ("influence", right), ("without it", right), ("own loss", right)]
    words: list[tuple[str, dict[str, Any]]] = [
        ("label", {"no_wrap": wide, "overflow": "ellipsis" if wide else "fold"}),
        ("text", {"overflow": "fold"}),
    ]
    return [(name if wide else in_lines(name), options) for name, options in names] + words


def in_lines(heading: str) -> str:
    """Return the heading of a narrow column of numbers, each of its words on a line of its own."""
    return heading.strip().replace(" ", "\n").replace("-", "-\n") or heading


def _neighbours(query: dict[str, Any]) -> Text:
    found = query["nearest_neighbours_found"]
    if not found:
        return Text("")
    words = ", ".join(f"{it['found']} of these {it['of']} are among the {it['among']:,} nearest" for it in found)
    return Text(f"\nBy nearest neighbours in embedding space alone: {words}.", style="dim")


def _legend(result: dict[str, Any]) -> Group:
    count = result["train"]["examples"]
    scored = candidates.in_words(result["provenance"], count)
    return Group(
        Text("How to read this", style="bold"),
        Text(
            "influence   negative: training on the example lowered the loss of what is explained (it helped);\n"
            "            positive: it raised that loss (it harmed). Compare within a query.\n"
            f"without it  about how the loss would change if the model were trained again without that one of "
            f"{count:,}.\nown loss    how badly the model fits the example itself; a high one may be a wrong label.\n"
            "(near)      also among the nearest neighbours in embedding space that were looked at."
        ),
        *([Text(scored, style="yellow")] if scored else []),
        Text(f"Influence through {result['influence_through']}.", style="dim"),
        Text(f"{result['how']}", style="dim"),
    )


def _words(value: Any) -> str:
    if isinstance(value, list):
        return " + ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else clean(str(value))


def clean(text: str, width: int | None = None) -> str:
    """Return a text on one line without control characters, which a terminal would obey, cut to a width."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if width is None or len(line) <= width else line[: width - 1] + "…"

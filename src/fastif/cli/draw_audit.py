"""An audit as a person reads it on a terminal, and in words what it means."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fastif.cli.draw import WIDTH, clean, in_lines

SHOWN = 50  # lines, where a file holds the rest
RANKED = {
    "left-out": "by the loss of their label, had the model not been trained on them",
    "self-influence": "by self-influence",
    "loss": "by plain loss",
}
MEANING = (
    "A high value is an example that the model had to learn by heart: a wrong label, an outlier or a rare case. Look "
    "before you delete: rare cases are often what a model needs most."
)
PRIVACY = (
    "Examples that a model learned by heart can often be extracted from it by others. Use this list to protect those "
    "who are in the data, not to find out about them; it holds training text, so keep it as safe as the data itself."
)


def draw_audit(result: dict[str, Any], console: Console, *, in_file: bool) -> None:
    """Draw the list, and how to read it."""
    count, shown = len(result["suspects"]), result["suspects"][: SHOWN if in_file else None]
    what = "Examples learned by heart" if result["memorized"] else "Suspects"
    head = f"{what}: {count:,} of {result['train']['examples']:,} training examples, {RANKED[result['by']]}"
    console.print(Text(head, style="bold"))
    console.print(_table(shown, result["unit"], wide=console.width >= 100))
    if len(shown) < count:
        console.print(Text(f"... and {count - len(shown):,} more in the file.", style="dim"))
    console.print()
    for line in _words(result):
        console.print(line)


def _table(rows: list[dict[str, Any]], unit: str, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}  # of a number no digit may be lost
    name_of: dict[str, Any] = {"no_wrap": wide, "overflow": "ellipsis" if wide else "fold"}
    suggests = any(row["suggested_label"] is not None for row in rows)
    table.add_column("#", **right)
    table.add_column(unit, **right)
    table.add_column("label", **name_of)
    if suggests:
        table.add_column("suggested", **name_of)
    for name in ("loss", "left out", "self-influence"):
        table.add_column(name if wide else in_lines(name), **right)
    table.add_column("text", overflow="fold")
    for row in rows:
        text = clean(row["text"], WIDTH)
        if row.get("text_pair") is not None:
            text += f" ⏐ {clean(row['text_pair'], WIDTH)}"
        cells = [f"{row['rank']}", f"{row['line']}", clean(row["label"])]
        if suggests:
            cells.append(f"{clean(row['suggested_label'])} {_percent(row['suggested_probability'])}")
        error = row["self_influence_error"]
        strength = f"{row['self_influence']:.3g}" + (f" -{error:.2g}" if error > 0.01 * row["self_influence"] else "")
        cells += [f"{row['loss']:.2f}", f"{row['loss_without']:.2f}", strength, text]
        table.add_row(*map(Text, cells))
    return table


def _percent(share: float) -> str:
    """Rounded down, as nothing here is certain.

    >>> _percent(0.9999), _percent(0.5)
    ('99%', '50%')
    """
    return f"{int(100 * share)}%"


def _words(result: dict[str, Any]) -> list[Text]:
    top, total = result["top"], result["train"]["examples"]
    lines = [
        Text("How to read this", style="bold"),
        Text(
            "suggested       what the model would say, and how surely, had it not been trained on the example\n"
            "loss            how badly the model fits the label; left out: how badly without having seen it\n"
            "self-influence  how much the example has changed the model to fit itself; -x: it may be too high by x"
        ),
        Text(MEANING),
    ]
    if result["suggested_label_differs"] is not None:
        lines.append(
            Text(f"For {result['suggested_label_differs']:,} of {total:,} the suggested label is another one.")
        )
    lines.append(
        Text(
            f"Of the top {top:,} by self-influence, {result['self_influence_and_loss_share']:,} are also among the top "
            f"{top:,} by plain loss."
        )
    )
    if result["memorized"]:
        lines.append(Text(PRIVACY, style="yellow"))
    lines += [Text(words) for words in result["notes"]]
    lines.append(Text(f"Influence through {result['influence_through']}.", style="dim"))
    return [*lines, Text(result["how"], style="dim")]

"""A checkup as a person reads it on a terminal: what was found, then time and memory side by side."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("problem", "bold red")}


def draw_checkup(result: dict[str, Any], console: Console) -> None:
    """Draw the findings, the estimates and the verdict."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in result["findings"]:
        mark, style = MARKS[finding["level"]]
        said = Text(finding["found"])
        if finding["change"]:
            said.append(f"\n{finding['change']}", style="dim")
        table.add_row(Text(mark, style=style), Text(finding["what"]), said)
    console.print(table)
    if result["estimates"]:
        _draw_estimates(result, console)
    console.print()
    verdict = "This model can be explained." if result["usable"] else "This model cannot be explained as it is."
    console.print(Text(verdict, style="bold green" if result["usable"] else "bold red"))


def _draw_estimates(result: dict[str, Any], console: Console) -> None:
    made = result["estimates"]
    queries = made[0]["queries"]
    console.print(Text(f"\nTime and peak memory for {queries:,} quer{'y' if queries == 1 else 'ies'}", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("stage", no_wrap=True)
    for one in made:
        table.add_column(one["choice"].removeprefix("--"), justify="right", no_wrap=True)
        table.add_column("memory", justify="right", no_wrap=True)
    load = result["load"]
    both = len(made)
    table.add_row("load", *[duration(load["seconds"]), size(load["peak_bytes"])] * both)
    table.add_row("tokenise", *[duration(result["data"]["tokenise_seconds"]), ""] * both)
    stages = [{stage["name"]: stage for stage in one["stages"]} for one in made]
    for name in in_one_order(*stages):
        cells = [each.get(name) for each in stages]
        table.add_row(
            name, *(word for cell in cells for word in (("-", "") if cell is None else _time_and_memory(cell)))
        )
    total = [word for one in made for word in (duration(one["seconds"]), size(one["peak_bytes"]))]
    table.add_row("in all", *total, style="bold")
    console.print(table)
    for one in made:
        console.print(Text(f"{one['choice']}: {one['parameters']:,} parameters", style="dim"))
        for stage in one["stages"]:
            if stage["note"]:
                console.print(Text(f"  {stage['name']}: {stage['note']}", style="dim"))
    console.print(
        Text(
            "Estimates: time from a few batches on this machine, as busy as it is now; memory from the tensors that "
            f"live at the worst moment. {size(made[0]['free_bytes'])} are free.",
            style="dim",
        )
    )
    for one in made:
        for number, line in enumerate(one["advice"]):
            console.print(Text(f"{one['choice']}: {line}" if number == 0 else f"  - {line}", style="yellow"))


def in_one_order(*courses: Iterable[str]) -> list[str]:
    """Return all stages of several courses, one that the first does not have before what comes next in its own.

    >>> in_one_order(["load", "rows", "solve"], ["load", "spectrum", "solve"])
    ['load', 'rows', 'spectrum', 'solve']
    """
    names: list[str] = []
    for course in courses:
        place = len(names)
        for name in reversed(list(course)):
            if name in names:
                place = names.index(name)
            else:
                names.insert(place, name)
    return names


def _time_and_memory(stage: dict[str, Any]) -> tuple[str, str]:
    return duration(stage["seconds"]), size(stage["peak_bytes"])


def duration(seconds: float | None) -> str:
    """Return seconds in the unit that a person would use.

    >>> duration(0.25), duration(75), duration(7200), duration(None)
    ('0.2 s', '75 s', '2.0 h', '?')
    """
    if seconds is None:
        return "?"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def size(count: int | None) -> str:
    """Return bytes in the unit that a person would use.

    >>> size(3_400_000), size(2_500_000_000), size(None)
    ('3 MB', '2.5 GB', '?')
    """
    if count is None:
        return "?"
    return f"{count / 1e6:,.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"

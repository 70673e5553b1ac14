"""`fastif demo`: the whole story on data that the project makes itself, told on the terminal and in its explorer."""

import json
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.demo_explorer import PAGE, RUN, SUSPECTS, opening, write_page, write_run
from fastif.cli.demo_place import DemoPlace
from fastif.cli.draw import clean
from fastif.demo import telling
from fastif.demo.story import Setting, tell
from fastif.files import replacing

EPILOG = "Example: fastif demo --open"
STORY = "story.json"
WRITTEN = ("data", "model", "corrected", STORY, RUN, PAGE, SUSPECTS)
SHOWN = 3  # training examples of each kind, on the terminal


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Directory for data, models and the page.")] = Path(
        "out/demo"
    ),
    model: Annotated[
        str,
        typer.Option("--model", help="What to fine-tune: minilm, the directory of an encoder, or its name on the hub."),
    ] = "minilm",
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser at the end.")] = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """See the whole story in a few minutes, offline: a model that takes a shortcut, and how it is put right.

    Makes a small data set with a planted shortcut and planted wrong labels, fine-tunes the last two layers of a small
    model on it, and shows what influence functions find: why it is wrong, which labels are wrong, and which training
    examples put it right. What an earlier demo wrote to the directory is replaced, and no file that is not the demo's.
    """
    from fastif.integrations.huggingface.packaged import resolve

    resolve(model)  # says now if the weights are not there
    place = DemoPlace(out, WRITTEN)
    with place.writing(), Bars(quiet=as_json) as bars:
        story = tell(
            Setting(base=model, seed=seed),
            out,
            progress=bars,
            on_chapter=lambda name, chapter: _finish(name, chapter, place, bars, quiet=as_json),
        )
        started = time.perf_counter()
        write_run(story, out, bars)
        story["seconds"]["explorer"] = round(time.perf_counter() - started, 2)
        page = write_page(story, out).file.resolve()
        write_story(story, out)
    if as_json:
        print_json(story)
    else:
        OUT.print(_table(telling.correction_table(story["correction"])))
        OUT.print(Text(telling.correction_note(story["correction"])))
        OUT.print(Text(f"\nThe story, and all behind it to look around in: {page}", style="bold"))
        OUT.print(Text("and go on from here; the last opens the explorer with the model behind it:"))
        for line in (*telling.commands(story), opening(out)):
            OUT.print(Text(f"  {line}"))
    if open_page and not webbrowser.open(page.as_uri()):
        note(f"No browser could be opened; the page is {page}")


def write_story(story: dict[str, Any], out: Path) -> None:
    """Write the numbers behind the story."""
    with replacing(out / STORY) as temporary:
        words = json.dumps(story, indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(words + "\n", encoding="utf-8")


def _finish(name: str, chapter: dict[str, Any], place: DemoPlace, bars: Bars, *, quiet: bool) -> None:
    """List what a chapter wrote, for a demo that is killed after it, and tell the chapter."""
    place.write_list()
    if not quiet:
        with bars.paused():
            _tell(name, chapter)


def _tell(name: str, chapter: dict[str, Any]) -> None:
    OUT.print(Text(f"\n{telling.TITLES[name]}", style="bold"))
    if name == "data":
        OUT.print(Text(telling.data(chapter)))
        _show_pairs(chapter["examples"])
    elif name == "training":
        OUT.print(Text(telling.training(chapter)))
        OUT.print(_table(telling.slice_table(chapter)))
    elif name == "mistake":
        OUT.print(Text(telling.mistake(chapter)))
        _show_pairs([chapter])
        OUT.print(Text(telling.HARMFUL, style="bold red"))
        _show_pairs(chapter["harmful"][:SHOWN])
        OUT.print(Text(telling.HELPFUL, style="bold green"))
        _show_pairs(chapter["helpful"][:SHOWN])
    elif name == "audit":
        OUT.print(Text(telling.audit(chapter)))
        OUT.print(_table(telling.audit_table(chapter)))
    else:
        OUT.print(Text(telling.correction({"correction": chapter})))


def _show_pairs(pairs: list[dict[str, Any]]) -> None:
    for pair in pairs:
        score = f"{pair['score']:+.3g}  " if "score" in pair else ""
        planted = f"  ({telling.PLANTED})" if pair.get("wrong_label") else ""
        sentences = f"{clean(pair['premise'])} -> {clean(pair['hypothesis'])}"
        OUT.print(Text(f"  {score}{sentences}  [{clean(pair['label'])}]{planted}"))


def _table(rows: telling.Rows) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 2))
    for number, name in enumerate(rows[0]):
        table.add_column(name, justify="right" if number else "left")
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    return table

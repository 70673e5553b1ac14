"""`fastif reproduce`: the paper's experiments, each from one command, in a directory that can be gone on with.

`fastif reproduce page` tells what became of the paper's claims.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markdown import Markdown

from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.loading import pick_device
from fastif.cli.options import Dtype
from fastif.errors import ConfigurationError

EPILOG = (
    "Examples: fastif reproduce recall --scale small -o out/paper; fastif reproduce page out/paper -o docs/paper.md"
)
PAGE = "page"


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="table1, recall, hvp, correlations, retraining, simulatability, visualization, correction-mnli, "
            "augmentation-hans, augmentation-anli, amazon, or all. page: the paper's claims and what became of them, "
            "from finished results."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            help="Directory of models and results; goes on with what is there. For page: the page, such as "
            "docs/paper.md; figures and numbers go into the directory of that name.",
        ),
    ],
    results: Annotated[
        Path | None,
        typer.Argument(help="For page: the directory of finished experiments; without it, what was published before."),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="smoke: made-up data and a tiny model, in seconds. small: real data and minilm, on a CPU, in minutes "
            "or an hour. full: the paper's numbers and mpnet, for a GPU.",
        ),
    ] = "small",
    model: Annotated[
        str | None,
        typer.Option("--model", help="Another encoder to train from: a directory, or a name such as bert-base-cased."),
    ] = None,
    device: options.Device = None,
    dtype: options.DtypeOption = Dtype.AUTO,
    seed: options.Seed = 0,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=1,
            help="That train the models and share the walks of correction-mnli, augmentation-hans, augmentation-anli "
            "and amazon.",
            rich_help_panel=options.RUN,
        ),
    ] = 1,
    memory_budget: options.MemoryBudget = None,
    ranking: Annotated[
        list[str] | None,
        typer.Option(
            "--ranking",
            help="Of corrections, augmentations and amazon: walk from the first model alone, on points that are ranked "
            "in this way ('all points, not the nearest alone'), and as in the paper, to compare. Can be given several "
            "times. `fastif reproduce page` puts it beside a result that was published without. Wants an -o of its "
            "own.",
            rich_help_panel=options.RUN,
        ),
    ] = None,
    stop_here: Annotated[
        bool,
        typer.Option(
            "--stop-here",
            help="Train nothing, take no step: make the result of a killed run of what was finished. Of corrections, "
            "augmentations and amazon, other ways to rank that were not are left out, and named; of hvp, other ways "
            "to solve. Without it, the command goes on.",
            rich_help_panel=options.RUN,
        ),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Run an experiment of the paper, or all of them: its numbers as JSON, its figures, and a table "paper | ours".

    Real data is read from the directory that FASTIF_DATA names, or from the hub where there is a network. Killed and
    given once more, the command goes on; given after the end, it draws anew.
    """
    if name == PAGE:
        if ranking:
            raise ConfigurationError("page walks on nothing: --ranking is for the experiments, which it reads later.")
        return _page(out, results, as_json=as_json)
    if results is not None:
        raise ConfigurationError(f"{results} is not asked for: only `fastif reproduce page` reads finished results.")
    from fastif.paper.experiments import ALL, find
    from fastif.paper.harness import Laboratory
    from fastif.paper.scales import for_rankings, settings_for

    experiments, settings = find(name), settings_for(scale, model)
    if ranking:
        settings = for_rankings(settings, name, ranking)
    with Bars(quiet=as_json) as bars:
        laboratory = Laboratory(
            out,
            settings,
            device=str(pick_device(device)),
            precision=options.precision(dtype),
            double=dtype is Dtype.FLOAT64,
            seed=seed,
            processes=processes,
            memory_budget=options.read_bytes(memory_budget),
            progress=bars,
            note=note,
            stops_here=stop_here,
            joins=bool(ranking),
        )
        outcomes = laboratory.run_all(experiments) if name == ALL else [laboratory.run(experiments[0])]
    for outcome in outcomes if not as_json else []:
        if outcome.error is None:
            OUT.print(Markdown(outcome.table) if OUT.is_terminal else outcome.table, markup=False)
            note(f"Written to {outcome.path}")
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if as_json:
        print_json({outcome.name: _as_json(outcome) for outcome in outcomes})
    for outcome in failed:
        note(f"Failed: {outcome.name}: {outcome.error}")
    return 1 if failed else 0


def _page(page: Path, results: Path | None, *, as_json: bool) -> int:
    from fastif.paper.page import verdicts_as_json, write_page

    if page.suffix != ".md":
        raise ConfigurationError(f"-o {page} must be the file of a page, and end in .md: -o docs/paper.md.")
    published = write_page(page, results)
    if published:
        note(f"Published: {', '.join(published)}")
    verdicts = verdicts_as_json(page.with_suffix(""))
    if as_json:
        print_json({"page": str(page), "published": published, "claims": verdicts})
    else:
        for number, each in enumerate(verdicts, start=1):
            OUT.print(f"{number:>2}  {each['outcome']:<16}  {each['words']}", markup=False)
    note(f"Written to {page}")
    return 0


def _as_json(outcome: Any) -> dict[str, Any]:
    import json

    from fastif.paper.harness import RESULT

    if outcome.error is not None:
        return {"out": str(outcome.path), "error": outcome.error}
    found: dict[str, Any] = json.loads((outcome.path / RESULT).read_text(encoding="utf-8"))
    return {"out": str(outcome.path), **found}

"""`fastif reproduce`: the paper's experiments, each from one command, in a directory that can be gone on with."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markdown import Markdown

from fastif.cli import options
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.loading import pick_device
from fastif.cli.options import Dtype

EPILOG = "Example: fastif reproduce recall --scale small -o out/paper"


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="table1, recall, hvp, correlations, correction-mnli, augmentation-hans, augmentation-anli, or all."
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Directory of models and results; goes on with what is there.")
    ],
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="smoke: made-up data and a tiny model, in seconds. small: real data and minilm, in minutes on a CPU. "
            "full: the paper's numbers and mpnet, for a GPU.",
        ),
    ] = "small",
    model: Annotated[
        str | None,
        typer.Option("--model", help="Another encoder to train from: a directory, or a name such as bert-base-cased."),
    ] = None,
    device: options.Device = None,
    dtype: options.DtypeOption = Dtype.AUTO,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> int:
    """Run an experiment of the paper, or all of them: its numbers as JSON, its figures, and a table "paper | ours".

    Real data is read from the directory that FASTIF_DATA names, or from the hub where there is a network. Killed and
    given once more, the command goes on; given after the end, it draws anew.
    """
    from fastif.paper.experiments import ALL, find
    from fastif.paper.harness import Laboratory
    from fastif.paper.settings import settings_for

    experiments = find(name)
    with Bars(quiet=as_json) as bars:
        laboratory = Laboratory(
            out,
            settings_for(scale, model),
            device=str(pick_device(device)),
            precision=options.precision(dtype),
            double=dtype is Dtype.FLOAT64,
            seed=seed,
            progress=bars,
            note=note,
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


def _as_json(outcome: Any) -> dict[str, Any]:
    import json

    from fastif.paper.harness import RESULT

    if outcome.error is not None:
        return {"out": str(outcome.path), "error": outcome.error}
    found: dict[str, Any] = json.loads((outcome.path / RESULT).read_text(encoding="utf-8"))
    return {"out": str(outcome.path), **found}

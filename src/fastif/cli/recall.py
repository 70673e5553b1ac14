"""`fastif recall`: how many of the strongest examples of a full scan would candidates have found?"""

from enum import StrEnum
from typing import Annotated, Any

import typer

from fastif.apps.answers import answers
from fastif.apps.recall import KS, MS, RecallTable, candidate_methods, check_full_scan, most_of_each, recall_table
from fastif.cli import experiments, options, pictures
from fastif.cli.console import OUT, Bars, note, print_json
from fastif.cli.draw_experiments import draw_recall_table
from fastif.cli.experiments import Asked, Workplace
from fastif.cli.opened import OpenedRun, open_run
from fastif.errors import DataError

EPILOG = "Example: fastif recall runs/why --k 10,100,1000 -o runs/recall"


class By(StrEnum):
    """How candidates are chosen."""

    FEATURES = "features"
    HEAD_GRADIENT = "head-gradient"
    BOTH = "both"
    RANDOM = "random"


def recall(
    run: experiments.Run,
    k: Annotated[
        str | None,
        typer.Option("--k", help="Numbers of candidates, with commas. Unless given: 10,100,1000,10000,50000,100000."),
    ] = None,
    m: Annotated[
        str | None,
        typer.Option("--m", help="How many of the strongest to look for, with commas. Unless given: 10,100,1000."),
    ] = None,
    by: Annotated[
        list[By] | None, typer.Option("--by", help="How candidates are chosen; may be repeated. All unless given.")
    ] = None,
    queries: experiments.Queries = None,
    trust_remote_code: options.TrustRemoteCode = False,
    out: experiments.Out = None,
    formats: pictures.Formats = "png",
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Measure how many of the most influential examples are among k candidates: R@m against the run's full scan.

    Candidates save time where a full scan takes too long; what they miss is not seen. Helpful, harmful and strongest
    examples are counted apart, and so are queries that the model gets right and wrong.
    """
    arguments = {**locals(), "by": None if by is None else [each.value for each in by]}
    opened = open_run(run, trust_remote_code=trust_remote_code)
    asked = experiments.asked_queries(opened, queries)
    names = [each.value for each in by or By]
    with Bars(quiet=as_json) as bars:

        def work(place: Workplace) -> Any:
            check_full_scan(asked.scores, len(opened.train))
            ms = _ms(asked, experiments.numbers(m, "--m"))
            ks = experiments.numbers(k, "--k") or KS
            view = place.cache.view(opened.model, opened.train, progress=bars)
            methods = candidate_methods(opened.model, view, asked.examples, names=names, seed=seed, progress=bars)
            right = _right(opened, asked)
            table = recall_table(asked.scores, methods, ks=ks, ms=ms, right=right, examples=len(opened.train))
            head = {"run": str(opened.path), "model": opened.model.name, "queries": asked.described}
            return {**head, **table.as_json()}, {}, _pictures(table, names[0])

        result = experiments.perform(opened, "recall", arguments, out, work)
    if as_json:
        print_json(result)
    else:
        draw_recall_table(result, OUT)
    experiments.tell_where(out)


def _right(run: OpenedRun, asked: Asked) -> tuple[bool | None, ...]:
    if asked.examples.targets_are_predictions:
        note("  The queries have no labels: those that the model gets right are not told from the others.")
        return (None,) * len(asked.told)
    return answers(run.model, run.model.parameters, asked.examples).right


def _ms(asked: Asked, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    if wanted is not None:
        return wanted
    most = most_of_each(asked.scores)
    possible = tuple(m for m in MS if m <= most)
    if not possible:
        if not most:
            raise DataError("a query has no helpful or no harmful example, so that there is nothing to look for.")
        possible = (most,)
    if possible != MS:
        note(f"  Looking for the first {', '.join(map(str, possible))}: a query has {most} of one kind, and no more.")
    return possible


def _pictures(table: RecallTable, first: str) -> dict[str, Any]:
    def one() -> Any:
        return pictures.plots("recall").draw_recall(table, first)

    def every() -> Any:
        return pictures.plots("recall").draw_recall_methods(table)

    return {f"recall-{first}": one, "recall": every}

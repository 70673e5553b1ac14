"""What each process of `fastif bench scaling` does: the stages of an explanation one by one, timed by the leader.

    torchrun --standalone --nproc-per-node 2 -m fastif.bench.scaling.rank '{"case": "tiny", "examples": 64, ...}'

Without torchrun it is one process with no team, which is what the others are compared with; a team of one works without
a team too, in the same process and in turn, and what comes out either way is compared. Writes JSON to the file that it
is told of, and says nothing.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import fastif
from fastif import vectors
from fastif.bench.cases import Wanted, make_case
from fastif.curvature import CurvatureOperator
from fastif.distributed import Team, share_of
from fastif.measuring.case import Case
from fastif.measuring.engine import HOST_BYTES, operator_of, scanner_of, seen_by, synchronize, working
from fastif.prefix import PrefixCache
from fastif.solvers import PreparedSolver
from fastif.vectors import Block

DAMPING, UNREACHED = 1.0, 1e-12  # a tolerance that no solve reaches, so that all take the same number of products
ENOUGH, MOST_RUNS = 2.0, 10  # seconds of a stage that are timed, unless so many runs take less
SENDS = 5  # of each size, of which the fastest counts
MATRIX, MULTIPLICATIONS = 512, 20
Stage = dict[str, Any]
Stages = dict[str, list[Stage]]  # by name, one for each way to work


def main(asked: dict[str, Any]) -> None:
    """Measure, and write what came out."""
    torch.set_num_threads(1)
    device = torch.device(asked["device"], 0) if asked["device"] == "cuda" else torch.device("cpu")
    case = make_case(asked["case"], Wanted(asked["examples"], str(device), asked["seed"]))
    with Team.joined_if_started(device) as team:
        several = team is not None and team.ranks > 1
        ways = [team] if team is None or several else [team, None]
        measured = _Measured(ways, asked["repeats"])
        stages = {
            **_states(case, measured),
            **_products_and_scores(case, measured, asked),
            **_repeats(case, measured, asked),
        }
        link = _link(4 * vectors.size(case.model.parameters)) if several else None
        ceiling = _ceiling() if several else None
    if team is None or team.leads:
        by_way = [{stage: each[way] for stage, each in stages.items()} for way in range(len(ways))]
        alone = by_way[1] if len(ways) > 1 else None
        found = {"case": case.as_json(), "stages": by_way[0], "alone": alone, "link": link, "ceiling": ceiling}
        Path(asked["out"]).write_text(json.dumps(found), encoding="utf-8")


class _Measured:
    """Times stages, and counts what was sent for them; with several ways to work, in turn."""

    def __init__(self, ways: Sequence[Team | None], repeats: int) -> None:
        self.ways, self._repeats = ways, repeats

    def best(self, functions: Sequence[Callable[[], Any]], *, together: bool = False) -> list[Stage]:
        """Return the fastest of some runs of each way's function, of more where they are short.

        `together` is for what every process does without being asked, and so equally often.
        """
        results = [function() for function in functions]  # what is done once, and torch loads what it needs
        runs: list[list[Stage]] = [[] for _ in functions]
        while len(runs[0]) < self._repeats or not (together or _are_enough(runs[0])):
            for team, function, mine in zip(self.ways, functions, runs, strict=True):
                mine.append(self._once(team, function, together))
        best = [min(mine, key=lambda run: run["seconds"]) for mine in runs]
        if len(results) > 1 and results[0] is not None:
            best[0]["difference"] = _difference(*results)
        return best

    def _once(self, team: Team | None, function: Callable[[], Any], together: bool) -> Stage:
        before = _sent(team)
        _wait(team, together)
        began = time.perf_counter()
        function()
        synchronize()
        _wait(team, together)
        took = time.perf_counter() - began
        sent = {
            kind: [now - then for now, then in zip(each, before.get(kind, (0, 0, 0.0)), strict=True)]
            for kind, each in _sent(team).items()
        }
        return {"seconds": took, "sent": {kind: each for kind, each in sent.items() if each[0]}}


def _are_enough(runs: list[Stage]) -> bool:
    return len(runs) >= MOST_RUNS or sum(run["seconds"] for run in runs) >= ENOUGH


def _wait(team: Team | None, together: bool) -> None:
    if together and team is not None:
        dist.barrier()


def _sent(team: Team | None) -> dict[str, tuple[int, int, float]]:
    found = {} if team is None else team.sent
    return {kind: (it.calls, it.bytes, it.seconds) for kind, it in found.items()}


def _difference(one: Tensor | Block, other: Tensor | Block) -> float:
    """Return by how much what came out one way differs from what came out the other, relative to that."""
    flat, known = (it if isinstance(it, Tensor) else vectors.flatten(it) for it in (one, other))
    return float((flat - known).norm() / known.norm())


def _states(case: Case, measured: _Measured) -> Stages:
    """Time the frozen layers, each time anew."""

    def encode(team: Team | None) -> None:
        explainer, everyone = _explainer(case, team), case.train.everyone()
        mine = everyone if team is None else share_of(team, case.train).of(everyone)
        if len(mine):
            seen_by(explainer).batch(mine[:1])  # the first that is asked for brings all of them

    return {"frozen layers": measured.best([partial(encode, team) for team in measured.ways], together=True)}


def _products_and_scores(case: Case, measured: _Measured, asked: dict[str, Any]) -> Stages:
    """Time conjugate gradients for some products, and the scores of all examples."""
    products: list[Callable[[], Block]] = []
    scores: list[Callable[[], Tensor]] = []
    with ExitStack() as stack:
        for explainer in _leading(case, measured, stack):
            block = _gradients(case, explainer, asked["queries"])
            some = min(asked["curvature_examples"], len(case.train))
            knobs = fastif.ConjugateGradient(UNREACHED, asked["products"], subsample=some)
            products.append(partial(_quiet, knobs.prepare(operator_of(explainer)), block))
            scores.append(partial(scanner_of(explainer).scan, block, None))
        if not products:
            return {}
        return {"conjugate gradients": measured.best(products), "scoring": measured.best(scores)}


def _repeats(case: Case, measured: _Measured, asked: dict[str, Any]) -> Stages:
    """Time the repeats of the paper's LiSSA, which takes the Hessian."""
    stages: Stages = {}
    with ExitStack() as stack:
        explainers = list(_leading(case, measured, stack, curvature="hessian"))
        for size in asked["lissa_batches"] if explainers else ():
            steps = int(max(1, asked["depth"] // size**0.5))  # fewer of the longer ones
            knobs = fastif.LiSSA.paper(scale=1e4, depth=steps, batch_size=size, repeats=asked["lissa_repeats"])
            runs = [
                _repeating(knobs, operator_of(explainer), _gradients(case, explainer, asked["queries"]))
                for explainer in explainers
            ]
            stages[f"LiSSA repeats, B = {size}"] = measured.best(runs)
    return stages


def _leading(case: Case, measured: _Measured, stack: ExitStack, **options: Any) -> Iterator[fastif.Explainer]:
    """Yield an explainer for each way to work, ready to be asked; none in a process that is led."""
    for team in measured.ways:
        explainer = _explainer(case, team, **options)
        if stack.enter_context(explainer.led()):
            stack.enter_context(working(explainer))
            yield explainer


def _repeating(knobs: Any, operator: CurvatureOperator, block: Block) -> Callable[[], Block]:
    """Return what makes all repeats, by this process alone or by all."""
    helpers, alone = operator.helpers, knobs.prepare(operator)
    return lambda: alone.iterates(block) if helpers is None else helpers.repeats(knobs, operator, block)


def _explainer(case: Case, team: Team | None, **options: Any) -> fastif.Explainer:
    cache = PrefixCache(memory=HOST_BYTES)
    given: dict[str, Any] = {
        "batch_size": 32 if case.model.device.type == "cpu" else None,
        "progress": False,
        "prefix_cache": cache,
        **options,
    }
    return fastif.Explainer(case.model, case.train, team=team, **given)


def _gradients(case: Case, explainer: fastif.Explainer, count: int) -> Block:
    queries = case.model.read(case.first(count), "queries")
    jacobian = operator_of(explainer).jacobian
    return vectors.join(
        [jacobian.gradients(case.model.place(batch), case.model.losses) for batch in queries.batches(16)]
    )


def _link(most: int) -> list[dict[str, float]]:
    """Return how long an all-reduce takes, of a number and of as many bytes as a vector has."""
    rows = []
    for size in (4, most):
        buffer, times = torch.zeros(size // 4), []
        for _ in range(SENDS):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(buffer)
            times.append(time.perf_counter() - began)
        rows.append({"bytes": size, "seconds": min(times)})
    return rows


def _ceiling() -> float:
    """Return how many times the matrix products of one process all do together: what the machine itself gives.

    Less than their number where threads share a core, its memory, or the machine with somebody else.
    """
    matrix = torch.randn(MATRIX, MATRIX, generator=torch.Generator().manual_seed(0))

    def multiply() -> float:
        began = time.perf_counter()
        for _ in range(MULTIPLICATIONS):
            matrix @ matrix
        return time.perf_counter() - began

    alone = together = float("inf")
    for _ in range(SENDS):
        dist.barrier()
        if dist.get_rank() == 0:
            alone = min(alone, multiply())
        dist.barrier()
        slowest = torch.tensor([multiply()])
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        together = min(together, float(slowest))
    return dist.get_world_size() * alone / together


def _quiet(solver: PreparedSolver, block: Block) -> Block:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        return solver.solve(block, DAMPING).value


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

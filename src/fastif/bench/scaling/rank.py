"""What each process of `fastif bench scaling` does: the stages of an explanation one by one, timed by the leader.

    torchrun --standalone --nproc-per-node 2 -m fastif.bench.scaling.rank '{"case": "tiny", "examples": 64, ...}'

Without torchrun it is one process with no team, which is what the others are compared with; a team of one works without
a team too, in the same process, and what comes out either way is compared. Writes JSON to the file that it is told of,
and says nothing.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
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


def main(asked: dict[str, Any]) -> None:
    """Measure, and write what came out."""
    torch.set_num_threads(1)
    device = torch.device(asked["device"], 0) if asked["device"] == "cuda" else torch.device("cpu")
    case = make_case(asked["case"], Wanted(asked["examples"], str(device), asked["seed"]))
    with Team.joined_if_started(device) as team:
        stages = _stages(case, team, asked)
        alone = _stages(case, None, asked) if team is not None and team.ranks == 1 else {}
        for stage, it in alone.items():
            stages[stage]["difference"] = _difference(stages[stage].pop("result"), it.pop("result"))
        several = team is not None and team.ranks > 1
        link = _link(4 * vectors.size(case.model.parameters)) if several else None
        ceiling = _ceiling() if several else None
    if team is None or team.leads:
        for stage in stages.values():
            stage.pop("result", None)
        found = {"case": case.as_json(), "stages": stages, "alone": alone, "link": link, "ceiling": ceiling}
        Path(asked["out"]).write_text(json.dumps(found), encoding="utf-8")


def _stages(case: Case, team: Team | None, asked: dict[str, Any]) -> dict[str, Stage]:
    measured = _Measured(team, asked["repeats"])
    return {
        **_states(case, measured),
        **_products_and_scores(case, measured, asked),
        **_repeats(case, measured, asked),
    }


def _difference(one: Tensor | None, other: Tensor | None) -> float | None:
    """Return by how much what a stage gave differs from what it gave otherwise, relative to it."""
    return None if one is None or other is None else float((one - other).norm() / other.norm())


class _Measured:
    """Times stages, and counts what was sent for them."""

    def __init__(self, team: Team | None, repeats: int) -> None:
        self.team, self._repeats = team, repeats

    def best(self, function: Callable[[], Any], *, together: bool = False) -> Stage:
        """Return the fastest of some runs, of more where they are short.

        `together` is for what every process does without being asked, and so equally often.
        """
        function()  # what is done once, and torch loads what it needs
        runs = [self._once(function, together) for _ in range(self._repeats)]
        while not together and len(runs) < MOST_RUNS and sum(run["seconds"] for run in runs) < ENOUGH:
            runs.append(self._once(function, together))
        return min(runs, key=lambda run: run["seconds"])

    def _once(self, function: Callable[[], Any], together: bool) -> Stage:
        before = self._sent()
        self._wait(together)
        began = time.perf_counter()
        result = function()
        synchronize()
        self._wait(together)
        took = time.perf_counter() - began
        sent = {
            kind: [now - then for now, then in zip(each, before.get(kind, (0, 0, 0.0)), strict=True)]
            for kind, each in self._sent().items()
        }
        sent = {kind: each for kind, each in sent.items() if each[0]}
        flat = vectors.flatten(result) if isinstance(result, dict) else result
        return {"seconds": took, "sent": sent, "result": None if flat is None else flat.cpu()}

    def _wait(self, together: bool) -> None:
        if together and self.team is not None:
            dist.barrier()

    def _sent(self) -> dict[str, tuple[int, int, float]]:
        found = {} if self.team is None else self.team.sent
        return {kind: (it.calls, it.bytes, it.seconds) for kind, it in found.items()}


def _states(case: Case, measured: _Measured) -> dict[str, Stage]:
    """Time the frozen layers, each time anew."""

    def encode() -> None:
        explainer, team = _explainer(case, measured.team), measured.team
        everyone = case.train.everyone()
        mine = everyone if team is None else share_of(team, case.train).of(everyone)
        if len(mine):
            seen_by(explainer).batch(mine[:1])  # the first that is asked for brings all of them

    return {"frozen layers": measured.best(encode, together=True)}


def _products_and_scores(case: Case, measured: _Measured, asked: dict[str, Any]) -> dict[str, Stage]:
    """Time conjugate gradients for some products, and the scores of all examples."""
    explainer = _explainer(case, measured.team)
    stages: dict[str, Stage] = {}
    with explainer.led() as leads:
        if leads:
            block = _gradients(case, explainer, asked["queries"])
            some = min(asked["curvature_examples"], len(case.train))
            knobs = fastif.ConjugateGradient(UNREACHED, asked["products"], subsample=some)
            solver = knobs.prepare(operator_of(explainer))
            with working(explainer):
                stages["conjugate gradients"] = measured.best(lambda: _quiet(solver, block))
                stages["scoring"] = measured.best(lambda: scanner_of(explainer).scan(block, None))
    return stages


def _repeats(case: Case, measured: _Measured, asked: dict[str, Any]) -> dict[str, Stage]:
    """Time the repeats of the paper's LiSSA, which takes the Hessian."""
    explainer = _explainer(case, measured.team, curvature="hessian")
    stages: dict[str, Stage] = {}
    with explainer.led() as leads:
        if leads:
            block = _gradients(case, explainer, asked["queries"])
            operator = operator_of(explainer)
            for size in asked["lissa_batches"]:
                steps = max(1, asked["depth"] // size**0.5)  # fewer of the longer ones
                knobs = fastif.LiSSA.paper(scale=1e4, depth=int(steps), batch_size=size, repeats=asked["lissa_repeats"])
                with working(explainer):
                    stages[f"LiSSA repeats, B = {size}"] = measured.best(_repeating(knobs, operator, block))
    return stages


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

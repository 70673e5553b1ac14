"""What this library set out to reach, beside what was measured: the table at the top of docs/benchmarks.md.

A goal finds its figure in the files of runs, so that the page cannot claim what no run has. Knows figures as the
benchmarks write them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastif.measuring.words import agreement, markdown, ratio, seconds, size

Run = dict[str, Any]
Words = Callable[[float | None], str]


@dataclass(frozen=True)
class Goal:
    """A figure of a benchmark on a case, what it should reach, and what would be better still.

    Args:
        what: in words.
        where: the benchmark and the case.
        figure: finds the value in a run; None where that run has none.
        words: how to write it.
        bar: what it should reach.
        stretch: what would be better still, None if nothing.
        more: whether more is better.
        all_runs: whether every run has to reach it, so that the worst of them counts and not the best.
        times: finds what the figure is divided by, in another run of the same benchmark and case.
    """

    what: str
    where: tuple[str, str]
    figure: Callable[[Run], float | None]
    words: Words
    bar: float
    stretch: float | None = None
    more: bool = False
    all_runs: bool = False
    times: Callable[[Run], float | None] | None = None

    def value(self, runs: Iterable[Run]) -> float | None:
        """Return the figure of all runs of this goal's benchmark and case that counts."""
        mine = [run for run in runs if (run["bench"], run.get("case", {}).get("name")) == self.where]
        known = _known(self.figure, mine)
        others = [1.0] if self.times is None else _known(self.times, mine)
        if not known or not others:
            return None
        return (max(known) if self.more != self.all_runs else min(known)) / min(others)

    def verdict(self, value: float) -> str:
        """Return whether the goal is reached, or by how much it is missed."""
        if self.stretch is not None and self._reaches(value, self.stretch):
            return "reached, and the stretch goal too"
        if self._reaches(value, self.bar):
            return "reached"
        return f"missed, at {100 * value / self.bar:.0f} % of the goal"

    def _reaches(self, value: float, wanted: float) -> bool:
        return value >= wanted if self.more else value <= wanted


def _known(find: Callable[[Run], float | None], runs: Iterable[Run]) -> list[float]:
    return [value for value in map(find, runs) if value is not None]


def _rows(run: Run, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in run["rows"] if all(row.get(name) == value for name, value in wanted.items())]


def _row(name: str, **wanted: Any) -> Callable[[Run], float | None]:
    """Return a finder of a value in the row of a run that has these values, at the size that the goal is for."""

    def find(run: Run) -> float | None:
        found = _rows(run, **wanted)
        value: float | None = found[0][name] if found else None
        return value

    return find


def _full(find: Callable[[Run], float | None]) -> Callable[[Run], float | None]:
    """Return a finder that takes runs of MultiNLI's size on a GPU only, with no bound on memory."""

    def found(run: Run) -> float | None:
        whole = run["case"]["examples"] >= 392_702 and "CPU" not in run["environment"]["hardware"]
        return find(run) if whole and not run["settings"].get("memory_budget") else None

    return found


def _on_cpu(find: Callable[[Run], float | None]) -> Callable[[Run], float | None]:
    def found(run: Run) -> float | None:
        whole = run["case"]["examples"] >= 20_000 and "CPU" in run["environment"]["hardware"]
        return find(run) if whole else None

    return found


def _two_stages(run: Run) -> float | None:
    found = [row for row in _rows(run, queries=1) if row["way"].startswith("two stages")]
    return found[0]["ratio_to_naive_scores"] if found else None


def _in_budget(find: Callable[[Run], float | None]) -> Callable[[Run], float | None]:
    def found(run: Run) -> float | None:
        return find(run) if run["settings"].get("memory_budget") == 16 * 2**30 else None

    return found


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f} M tokens/s"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _tokens(run: Run) -> float | None:
    return run["prefix"]["tokens_per_s"] if run["prefix"] else None


def _fidelity(name: str) -> Callable[[Run], float | None]:
    return lambda run: run["fidelity"]["same_states"][name]


def _two_processes(stage: str) -> Callable[[Run], float | None]:
    """Return a finder of the speed-up of a stage with two processes of one thread each."""
    return _row("speed_up", processes=2, stage=stage)


def _team_of_one(run: Run) -> float | None:
    """Return by how much the stage that suffers most is slower in a team of one than with no team."""
    found = [1 / row["speed_up"] for row in _rows(run, processes=1, team=True)]
    return max(found) if found and "CPU" not in run["environment"]["hardware"] else None


SCALING = ("scaling", "bert-mini")
TWO = "2 processes of one thread over 1, CPU: "
SCAN, QUERIES, PAPER = ("scan", "bert-base"), ("queries", "bert-base"), ("paper", "bert-base")
CPU = ("queries", "minilm-sst2")
ALL = "all examples"
FULL = "392,702 examples, BERT-base, one GPU: "
SMALL = "20,000 SST-2 sentences, MiniLM, CPU: "
GOALS = (
    Goal(f"{FULL}frozen layers, once", SCAN, _full(_tokens), _rate, 1.5e6, 3e6, more=True),
    Goal(f"{FULL}scores for one query, s_test given", SCAN, _full(_row("scan_s", queries=1)), seconds, 5, 1.5),
    Goal("the same against naive", SCAN, _full(_row("ratio_to_naive", queries=1)), ratio, 1200, more=True),
    Goal(
        f"{FULL}one query, text to top 100", QUERIES, _full(_row("seconds", queries=1, way=ALL)), seconds, 6, 3
    ),
    Goal(
        f"{FULL}400 queries, text to top 100", QUERIES, _full(_row("seconds", queries=400, way=ALL)), seconds, 90, 25
    ),
    Goal("the paper's path: kNN k = 1,000, J = 1,000, B = 1, T = 4", PAPER,
         _full(_row("seconds", k=1000, kind="fast-compiled")), seconds, 2, 0.5),
    Goal("the same with Gauss-Newton curvature", PAPER,
         _full(_row("seconds", k=1000, kind="fast-gauss-newton")), seconds, 2, 0.5),
    Goal("fast scores against float32, every run: Pearson", SCAN, _full(_fidelity("pearson")), agreement, 0.9999,
         more=True, all_runs=True),
    Goal("fast scores against float32, every run: top 100", SCAN, _full(_fidelity("overlap")), agreement, 0.98,
         more=True, all_runs=True),
    Goal("peak GPU memory with a budget of 16 GiB", SCAN, _in_budget(_row("peak_bytes", queries=1)), size, 16 * 2**30),
    Goal("the same: scores for one query, times those without a budget", SCAN,
         _in_budget(_row("scan_s", queries=1)), ratio, 3, times=_full(_row("scan_s", queries=1))),
    Goal(f"{SMALL}one query, against naive scores", CPU,
         _on_cpu(_row("ratio_to_naive_scores", queries=1, way=ALL)), ratio, 12, 20, more=True),
    Goal(f"{SMALL}two stages, against naive scores", CPU, _on_cpu(_two_stages), ratio, 50, more=True),
    Goal(f"{SMALL}64 queries, against naive scores", CPU,
         _on_cpu(_row("ratio_to_naive_scores", queries=64, way=ALL)), ratio, 60, more=True),
    Goal(f"{TWO}scoring", SCALING, _two_processes("scoring"), _times, 1.8, more=True),
    Goal(f"{TWO}repeats of LiSSA, B = 16", SCALING, _two_processes("LiSSA repeats, B = 16"), _times, 1.8, more=True),
    Goal(f"{TWO}repeats of LiSSA, B = 1", SCALING, _two_processes("LiSSA repeats, B = 1"), _times, 1.8, more=True),
    Goal(f"{TWO}the same, BERT-base", ("scaling", "bert-base"), _two_processes("LiSSA repeats, B = 1"), _times, 1.8,
         more=True),
    Goal("BERT-base, one GPU: a team of one over no team, the slowest stage", ("scaling", "bert-base"), _team_of_one,
         _times, 1.05),
)  # fmt: skip


def goals_table(runs: list[Run]) -> str:
    """Return the goals beside what was measured; nothing where no run has a figure for any of them."""
    rows, measured = [], False
    for goal in GOALS:
        value = goal.value(runs)
        measured = measured or value is not None
        sign = "at least" if goal.more else "at most"
        verdict = "not measured yet" if value is None else goal.verdict(value)
        shown = "-" if value is None else goal.words(value)
        rows.append([goal.what, f"{sign} {goal.words(goal.bar)}", shown, verdict])
    return markdown(["what", "goal", "measured", ""], rows) if measured else ""

"""Times of Table 1: steps alone are extrapolated, the first call does not count, and scoring is told apart.

The clock of these tests counts products with the curvature of a batch, and examples that are scored.
"""

import pytest

import fastif
from fastif.bench.cases import Wanted, make_case
from fastif.candidates import Neighbours
from fastif.curvature import CurvatureOperator
from fastif.measuring import engine, table1, timing
from fastif.measuring.engine import Settings, SharedCache, Stopwatch
from fastif.measuring.table1 import KINDS, STEPS, Plan, Row, time_one_repeat, time_row
from fastif.scanning import Scanner

NAIVE = {"product_s": {"1": 0.5, "128": 2.0}, "example_s": 0.25}
PRODUCT, EXAMPLE, FIRST = 1.0, 100.0, 1e9  # what a step costs, an example that is scored, and a first call


class Clock:
    """Time that passes by what is done alone."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    it = Clock()
    for module in (engine, timing):
        monkeypatch.setattr(module, "time", it)
    return it


@pytest.fixture
def case(clock, monkeypatch):
    """A case whose work moves the clock."""
    made = make_case("tiny", Wanted(examples=24))
    grouped, scored = CurvatureOperator.grouped, Scanner._scored
    explain, calls = table1.explain, []

    def step(self, batch, *rest, **options):
        clock.now += PRODUCT
        return grouped(self, batch, *rest, **options)

    def score(self, chunks, *rest, progress, **options):
        chunks = list(chunks)
        progress("scoring", 0, sum(map(len, chunks)))
        clock.now += EXAMPLE * sum(map(len, chunks))
        return scored(self, chunks, *rest, progress=progress, **options)

    def first_is_dear(*given):
        clock.now += 0.0 if calls else FIRST
        calls.append(given)
        return explain(*given)

    monkeypatch.setattr(CurvatureOperator, "grouped", step)
    monkeypatch.setattr(Scanner, "_scored", score)
    monkeypatch.setattr(table1, "explain", first_is_dear)
    return made


def test_a_run_of_a_stage_begins_before_its_first_step(clock):
    watch = Stopwatch()
    for done, now in [(0, 5.0), (0, 7.0), (1, 9.0), (2, 11.0), (2, 12.0), (0, 20.0), (2, 21.0)]:
        clock.now = now
        watch("solving", done, 2)
    assert watch.seconds == {"solving": [6.0, 1.0]}  # 0 and 0 again are one start
    assert (watch.first("solving"), watch.of("solving"), watch.of("scoring")) == (6.0, 1.0, None)
    watch.forget()
    assert watch.of("solving") is None
    clock.now = 30.0
    watch("solving", 2, 2)  # of a run whose beginning was forgotten
    assert watch.first("solving") is None


@pytest.mark.parametrize("kind", ["original", "fast"])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_steps_alone_are_extrapolated_and_the_first_call_is_left_out(case, kind, depth):
    plan = Plan(queries=2, depth=depth, sample=4)
    row = time_row(case, Settings(), SharedCache(), plan, Row(6, kind, None), NAIVE)
    assert row["extrapolated"]
    assert row["solving_s"] == pytest.approx(STEPS * PRODUCT)  # whatever the depth
    # candidates and the sample that their recall is estimated by, here all, and no second look at the strongest
    assert row["scoring_s"] == pytest.approx(24 * EXAMPLE)
    rest = row["seconds"] - row["solving_s"] - row["scoring_s"]
    again = 0 if kind == "original" else 6  # one repeat has no errors to be told
    assert rest == pytest.approx(again * EXAMPLE, abs=20 * PRODUCT)  # that, and the residual
    assert row["first_call_s"] > FIRST > row["seconds"]
    _, repeats, _ = KINDS[kind]
    per_step = NAIVE["product_s"][str(row["B"])] * repeats
    assert row["naive_s"] == pytest.approx(STEPS * per_step + 6 * NAIVE["example_s"])


def test_all_steps_are_told_as_they_are(case, monkeypatch):
    monkeypatch.setattr(table1, "STEPS", 3)
    row = time_row(case, Settings(), SharedCache(), Plan(queries=1, depth=3), Row(None, "fast", None), NAIVE)
    assert not row["extrapolated"]
    assert row["solving_s"] == pytest.approx(3 * PRODUCT)
    assert row["scoring_s"] == pytest.approx(24 * EXAMPLE)
    assert row["spread"] is None


def test_one_repeat_is_timed_by_its_solve(case):
    found = time_one_repeat(case, Settings(), SharedCache(), Plan(queries=2, depth=2))
    assert (found["B"], found["T"], found["depth"], found["extrapolated"]) == (1, 1, 2, True)
    assert found["solving_s"] == pytest.approx(STEPS * PRODUCT)
    assert found["spread"] == pytest.approx(0.0)


def test_an_index_is_built_once_and_answers_for_every_k(case, monkeypatch):
    cache, plan = SharedCache(), Plan(queries=1, depth=1)
    made, keys = [], Neighbours._keys

    def noted(*given):  # a generator: what nobody takes from is not made
        made.append(1)
        yield from keys(*given)

    monkeypatch.setattr(Neighbours, "_keys", noted)
    for k in (6, 3):
        time_row(case, Settings(), cache, plan, Row(k, "fast", None), NAIVE)
    assert made == [1]
    few, many = (
        engine.explainer_for(case, Settings(), cache, candidates=cache.nearest(case.train, k), solver=fastif.Identity())
        .scores(case.first(1))
        .train_ids[0]
        .tolist()
        for k in (3, 6)
    )
    plain = fastif.Explainer(
        case.model, case.train, candidates=fastif.Nearest(6, by="features"), solver=fastif.Identity(), progress=False
    )
    assert many == plain.scores(case.first(1)).train_ids[0].tolist()
    assert set(few) < set(many)

"""Every experiment runs at the scale of smoke, from data to figures; and what it says agrees with slower ways."""

import json
import math
from dataclasses import replace

import pytest
import torch

import fastif
from fastif import metrics
from fastif.apps.iteration import KINDS
from fastif.errors import DataError
from fastif.intervals import paired_interval
from fastif.paper import changes, correction, recall
from fastif.paper.context import Context
from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.harness import Laboratory
from fastif.paper.points import choose_points
from fastif.paper.settings import settings_for


@pytest.fixture(scope="module")
def results(laboratory):
    """The results of experiments, each run when it is first asked for."""
    found = {}

    def get(name):
        if name not in found:
            outcome = laboratory.run(EXPERIMENTS[name])
            found[name] = json.loads((outcome.path / "result.json").read_text())
        return found[name]

    return get


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_and_tells_paper_and_ours(name, results, laboratory):
    result = results(name)
    folder = laboratory.out / name
    assert result["models"][0]["weights_sha256"]
    assert result["data"]["sets"]
    words = (folder / "table.md").read_text()
    assert "paper" in words
    assert "ours" in words.lower()
    assert "nan" not in words
    for ending in ("png", "svg"):
        assert [path for path in folder.glob(f"*.{ending}") if path.stat().st_size > 1000]
    assert not (folder / "parts").exists()


def test_table1_has_every_cell_and_says_what_was_extrapolated(results):
    rows = results("table1")["result"]["rows"]
    assert [(row["k"], row["kind"]) for row in rows] == [
        (k, kind) for k in (None, 40, 10) for kind in ("original", "fast")
    ]
    assert all(row["extrapolated"] and row["depth"] == 2 for row in rows)
    assert all(row["naive_s"] > 0 and row["spread"] is not None for row in rows)


def test_the_dearest_setting_has_no_error_to_itself(results):
    rows = results("hvp")["result"]["rows"]
    assert len(rows) == 2 * 2 * 2 * 2  # queries, depths, sizes, repeats
    dearest = [row for row in rows if (row["B"], row["T"], row["J"]) == (4, 2, 8)]
    assert [row["error_to_dearest"] for row in dearest] == [0.0, 0.0]
    others = [row for row in rows if row not in dearest]
    assert all(row["error_to_dearest"] > 0 and row["error_to_converged"] > 0 for row in others)
    # the share that the depth leaves missing: (1 - damp)^J, and h_0 = v
    assert all(abs(row["relative_to_converged"] - 0.9 ** row["J"]) < 0.15 for row in rows)


def test_recall_counts_what_candidates_hold(laboratory, results):
    settings = laboratory.settings.recall
    model = laboratory.models.get("nli-3")
    points = choose_points(
        model, laboratory.data.some(laboratory.data.nli_dev(3)), right=settings.right, wrong=settings.wrong
    )
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    values = context.explainer(model, solver="auto").scores(points.examples).values
    for method in ("features", "head-gradient"):
        for k in (5, 20):
            candidates = fastif.Nearest(k, by=method)
            chosen = context.explainer(model, candidates=candidates, solver=fastif.Identity()).scores(points.examples)
            truth = values.abs().argsort(dim=1, descending=True)
            slow = [metrics.recall_at(chosen.train_ids[row], truth[row], 5) for row in range(settings.right)]
            (row,) = recall.pick(
                results("recall")["result"]["rows"], method=method, k=k, m=5, sign="absolute", prediction="right"
            )
            assert row["mean"] == pytest.approx(sum(slow) / len(slow))
    everyone = recall.pick(
        results("recall")["result"]["rows"], method="random", m=10, sign="absolute", prediction="wrong"
    )
    assert [row["k"] for row in everyone] == sorted(row["k"] for row in everyone)
    assert math.isclose(everyone[-1]["points"], settings.wrong)


def test_correlations_are_of_the_retrieved_points_and_of_the_strongest(results):
    result = results("correlations")["result"]
    assert len(result["rows"]) == 4 * 3 * 2  # queries, comparisons, retrieved and top
    assert all(-1 <= row[key] <= 1 for row in result["rows"] for key in ("pearson", "spearman", "kendall"))
    assert min(row["pearson"] for row in result["rows"]) > 0.9
    shares = torch.tensor([row["top_retrieved"] for row in result["rows"]])
    assert bool((shares[:, 0] <= shares[:, 1]).all())


CORRECTIONS = ("correction-mnli", "augmentation-hans", "augmentation-anli")
HEURISTICS = {"constituent", "lexical_overlap", "subsequence"}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_walk_every_kind_from_one_start_for_every_slice_of_anchors(name, results, laboratory):
    result = results(name)["result"]
    wanted = getattr(laboratory.settings, name.replace("-", "_"))
    assert set(result["walks"]) == ({"all"} if name == "augmentation-anli" else HEURISTICS)
    for walk in result["walks"].values():
        assert [(one["kind"], one["repeat"]) for one in walk["courses"]] == [
            (kind, repeat) for kind in ("helpful", "harmful", "random", "anchors") for repeat in range(wanted.repeats)
        ]
        assert len({tuple(one["loss"][0]) for one in walk["courses"]}) == 1
        assert {part["set"] for part in walk["parts"]} == {"test", "validation", "original"}
        drawn = [[one["anchors"] for one in walk["courses"] if one["repeat"] == repeat] for repeat in (0, 1)]
        assert all(anchors == each[0] for each in drawn for anchors in each)
        assert drawn[0][0] != drawn[1][0]
        assert all(len(set(ids)) <= wanted.points for one in walk["courses"] for ids in one["chosen"])


@pytest.mark.parametrize("name", CORRECTIONS)
def test_changes_are_paired_and_averaged_within_a_repeat(name, results):
    result = results(name)["result"]
    rows = changes.pick(result["changes"], measure="loss", first="helpful", second="anchors")
    cells = []
    for anchors, walk in result["walks"].items():
        for number, part in enumerate(walk["parts"]):
            last = {kind: [one["loss"][-1][number] for one in walk["courses"] if one["kind"] == kind] for kind in KINDS}
            pairs = [one - other for one, other in zip(last["helpful"], last["anchors"], strict=True)]
            (row,) = changes.pick(rows, anchors=anchors, set=part["set"], part=part["title"])
            assert row["mean"] == pytest.approx(sum(pairs) / len(pairs))
            assert row["low"] <= row["mean"] <= row["high"]
            if part["set"] == "test" and part["slice"] == anchors:
                cells.append(pairs)
    if cells:
        means = [sum(pairs) / len(cells) for pairs in zip(*cells, strict=True)]
        (own,) = changes.pick(rows, part="own slice")
        slow = paired_interval(means, [0.0] * len(means))
        assert (own["mean"], own["low"], own["high"]) == pytest.approx((slow.mean, slow.low, slow.high))


def test_steps_change_the_model_and_new_points_are_those_of_the_pool(results):
    own, new = results("correction-mnli")["result"], results("augmentation-hans")["result"]
    assert own["rows_of"]["pool"] is None
    assert new["rows_of"]["pool"] == 72
    for result in (own, new):
        rows = changes.pick(result["changes"], measure="loss", first="anchors", second="start", set="test")
        assert all(row["mean"] for row in rows)
    random = [one["chosen"] for one in new["walks"]["constituent"]["courses"] if one["kind"] == "random"]
    assert max(max(ids) for steps in random for ids in steps) < 72


def test_pool_anchors_and_test_of_anli_share_no_premise(laboratory):
    one = replace(correction.augmentation_anli, anchors=lambda data: data.anli_test())
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    with pytest.raises(DataError, match=r"share .* premises"):
        one.run(context)


def test_walks_of_two_checkpoints_are_repeats(tmp_path):
    settings = settings_for("smoke")
    wanted = replace(settings.augmentation_anli, steps=1, repeats=1, checkpoints=2)
    laboratory = Laboratory(tmp_path, replace(settings, augmentation_anli=wanted))
    outcome = laboratory.run(correction.augmentation_anli)
    result = json.loads((outcome.path / "result.json").read_text())
    assert [model["name"] for model in result["models"]] == ["nli-3", "nli-3-1"]
    courses = result["result"]["walks"]["all"]["courses"]
    assert [(one["kind"], one["repeat"]) for one in courses[:3]] == [("helpful", 0), ("helpful", 1), ("harmful", 0)]
    assert courses[0]["loss"][0] != courses[1]["loss"][0]
    assert result["result"]["changes"][0]["count"] == 2

"""Every experiment runs at the scale of smoke, from data to figures; and what it says agrees with slower ways."""

import json
import math
import shutil
import statistics
import warnings
from dataclasses import replace

import pytest
import torch

import fastif
from fastif import metrics, vectors
from fastif.apps.iteration import KINDS, Courses, Iteration, Plan, Sets
from fastif.apps.iteration.courses import Course
from fastif.apps.iteration.watching import Part
from fastif.errors import DataError
from fastif.intervals import paired_interval
from fastif.keeping import nothing_kept
from fastif.measuring import engine
from fastif.paper import (
    amazon,
    changes,
    correction,
    hvp,
    ranked_walks,
    recall,
    retraining,
    simulatability,
    solved_variants,
    table1,
    visualization,
)
from fastif.paper.context import Context, UnfinishedError
from fastif.paper.endings import ends_of, with_rows_error
from fastif.paper.experiments import EXPERIMENTS, find
from fastif.paper.figures_of_the_paper import CORRELATIONS
from fastif.paper.harness import Laboratory
from fastif.paper.points import choose_points
from fastif.paper.publishing import SLIM
from fastif.paper.scales import settings_for
from fastif.paper.scored import Search, System
from fastif.paper.solver_settings import SolverSettings
from fastif.paper.unfinished import NOT_FINISHED
from fastif.paper.variants import VARIANTS
from fastif.paper.verdicts import most_rows_error
from fastif.store import RunStore


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


def test_what_four_gpus_would_take_is_predicted_and_said_to_be(results, laboratory):
    result = results("table1")["result"]
    alone, parameters = result["one_repeat"], result["case"]["parameters"]
    assert (alone["B"], alone["T"], alone["depth"]) == (1, 1, 2)
    for row in result["rows"]:
        assert ("predicted" in row) == (row["kind"] == "fast")
        if row["kind"] == "fast":
            sending = 5e-5 + 1.5 * 4 * 4 * parameters / 25e9
            rest = row["seconds"] - row["solving_s"] - row["scoring_s"]
            assert rest >= 0
            assert row["scoring_s"] > 0
            assert row["predicted"]["seconds"] == pytest.approx(
                alone["solving_s"] + sending + row["scoring_s"] / 4 + rest
            )
    words = (laboratory.out / "table1" / "table.md").read_text()
    for said in ("| ours on four GPUs, predicted |", "Predicted, and not run", "25 GB/s", "50 us"):
        assert said in words


def test_a_table_of_before_predictions_has_dashes_in_their_place(results):
    result = results("table1")["result"]
    rows = [{key: value for key, value in row.items() if key != "predicted"} for row in result["rows"]]
    old = {**{key: value for key, value in result.items() if key not in ("one_repeat", "variants")}, "rows": rows}
    words = table1.table(old)
    assert words.count("| - |") == len(rows)
    assert "not run" not in words
    assert table1.draw(old)
    (figure,) = table1.draw(result).values()
    assert table1.PREDICTED in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_time_of_plain_torch_is_a_mean_over_samples_with_a_spread(results):
    result = results("table1")["result"]
    rounds = result["naive"]["rounds"]
    assert len(rounds) == 3
    for row in result["rows"]:
        k = row["k"] or result["examples"]
        each = [1000 * row["T"] * one["product_s"][str(row["B"])] + k * one["example_s"] for one in rounds]
        assert row["naive_s"] == pytest.approx(statistics.fmean(each))
        assert row["naive_spread"] == pytest.approx(statistics.stdev(each))
        assert row["naive_rounds"] == 3


def test_examples_that_are_repeated_up_to_a_number_are_scored_like_themselves(laboratory):
    model = laboratory.models.get("nli-3")
    more = replace(laboratory.settings, table1=replace(laboratory.settings.table1, examples=2 * len(model.train) + 5))
    case = table1._case(Context(more, laboratory.data, laboratory.models, store=None), model)
    assert len(case.train) == 2 * len(model.train) + 5
    assert case.data_words.endswith(f"{len(model.train):,} of them, repeated")
    explainer = engine.explainer_for(case, engine.Settings(), engine.SharedCache(), solver=fastif.Identity())
    values = explainer.scores(case.first(2)).values
    once = values[:, : len(model.train)]
    assert torch.allclose(values, torch.cat([once, once, once[:, :5]], dim=1), rtol=1e-4, atol=1e-6)
    assert once.unique().numel() > len(model.train)  # two queries, and few examples that are alike


def test_other_ways_to_answer_a_query_are_timed_beside_the_papers(results, laboratory):
    found = results("table1")["result"]["variants"]
    rows = {row["variant"]: row for row in found["rows"]}
    assert found["queries"] == 2
    assert list(rows) == [variant.name for variant in VARIANTS if not variant.scan]
    extrapolated = {name for name, row in rows.items() if row["extrapolated"]}
    assert extrapolated == {"nearest by head gradient", "weight decay in the gradients"}  # by the paper's solver
    assert all(row["k"] == 10 and row["seconds"] > 0 and row["first_call_s"] > 0 for row in rows.values())
    dampings = [rows[f"{name}, our solver"]["damping"] for name in ("damping 50", "damping 5000", "automatic damping")]
    assert dampings[:2] == [50.0, 5000.0]
    assert 0 < dampings[2] < 50
    assert rows["gradient dot product"]["damping"] is None
    assert rows["gradient dot product"]["solving_s"] is None
    assert all(rows[name]["solving_s"] > 0 for name in extrapolated)
    words = (laboratory.out / "table1" / "table.md").read_text()
    assert "What the paper left out, each with the 10 nearest: mean over 2 queries" in words
    assert "| as the paper ranks, fast s_test |" in words


def test_solutions_turn_from_the_gradient_as_damping_falls(results, laboratory):
    found = results("hvp")["result"]
    rows = {row["way"]: row for row in found["variants"]}
    assert list(rows)[:2] == [solved_variants.GRADIENT, solved_variants.PAPERS]
    assert rows[solved_variants.GRADIENT]["cosine_with_gradient"] == pytest.approx([1.0, 1.0])
    assert rows[solved_variants.PAPERS]["cosine_with_papers"] == pytest.approx([1.0, 1.0])
    turned = [
        rows[f"{name}, our solver"]["cosine_with_gradient"]
        for name in ("automatic damping", "damping 50", "damping 5000")
    ]
    for auto, fifty, five_thousand in zip(*turned, strict=True):
        assert auto < fifty < five_thousand
    # at the automatic damping, by the dense solver
    model, wanted = laboratory.models.get("nli-3"), laboratory.settings.hvp
    chosen = torch.randperm(len(model.train), generator=torch.Generator().manual_seed(0))[: wanted.examples]
    data = model.examples(model.table.take(sorted(chosen.tolist())))
    row = rows["automatic damping, our solver"]
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    explainer = context.explainer(model, train=data, solver=fastif.Exact("primal"), damping=row["damping"])
    points = context.points(model, laboratory.data.nli_dev(3), right=wanted.right, wrong=wanted.wrong)
    batch = model.classifier.place(points.examples.batch(range(len(points))))
    gradients = engine.gradients_for(explainer, batch)
    solutions = engine.solver_of(explainer).solve(gradients, row["damping"]).value
    cosines = vectors.dot(solutions, gradients) / (vectors.norm(solutions) * vectors.norm(gradients))
    assert row["cosine_with_gradient"] == pytest.approx(cosines.tolist(), rel=1e-3)


def test_each_point_has_draws_of_its_own(laboratory, tmp_path, monkeypatch):
    drawn = []
    taken = hvp._Snapshots._through_the_model

    def watched(self, *arguments):
        drawn.append((self.knobs.batch_size, self._ids.clone()))
        return taken(self, *arguments)

    monkeypatch.setattr(hvp._Snapshots, "_through_the_model", watched)
    with RunStore.begin(tmp_path / "hvp", {}) as store:
        rows = hvp.run(Context(laboratory.settings, laboratory.data, laboratory.models, store))["rows"]
    runs = len({(row["query"], row["B"], row["T"]) for row in rows})
    assert len(drawn) == runs == 8
    for size in laboratory.settings.hvp.batch_sizes:  # two points, and T of 1 and 2: one run is the first of the two
        single_run = [ids for batch, ids in drawn if batch == size and ids.shape[1] == size]
        double_run = [ids for batch, ids in drawn if batch == size and ids.shape[1] == 2 * size]
        assert not torch.equal(*single_run)
        assert [torch.equal(one, two[:, :size]) for one, two in zip(single_run, double_run, strict=True)] == [True] * 2
        firsts = [half for two in double_run for half in two.split(size, dim=1)]
        assert not any(torch.equal(a, b) for place, a in enumerate(firsts) for b in firsts[:place])


def test_a_run_that_records_steps_has_no_time(laboratory, tmp_path, monkeypatch):
    counts = iter([0, 0, 0, 1, *[1] * 100])  # looked at before and after each run: a GPU records in the second
    monkeypatch.setattr(hvp._Snapshots, "recordings", property(lambda self: next(counts)))
    with RunStore.begin(tmp_path / "hvp", {}) as store:
        result = hvp.run(Context(laboratory.settings, laboratory.data, laboratory.models, store))
    settings = [(row["query"], row["B"], row["T"]) for row in result["rows"]]
    second = list(dict.fromkeys(settings))[1]
    for row, setting in zip(result["rows"], settings, strict=True):
        assert (row["seconds"] is None) == (setting == second)
    assert "a run that recorded steps has no time, of 1 of the points" in hvp.table(result)


def test_the_dearest_setting_has_no_error_to_itself(results):
    rows = results("hvp")["result"]["rows"]
    assert len(rows) == 2 * 2 * 2 * 2  # queries, depths, sizes, repeats
    dearest = [row for row in rows if (row["B"], row["T"], row["J"]) == (4, 2, 8)]
    assert [row["error_to_dearest"] for row in dearest] == [0.0, 0.0]
    others = [row for row in rows if row not in dearest]
    assert all(row["error_to_dearest"] > 0 and row["error_to_converged"] > 0 for row in others)
    drawn = hvp.draw(results("hvp")["result"])["hvp"]
    heights = [line.get_ydata() for axes in drawn.axes for line in axes.get_lines()]
    assert len(heights) == 2 * 3 * 2  # predictions, panels, sizes
    assert all(math.isfinite(height) for line in heights for height in line)
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
    rows = results("recall")["result"]["rows"]
    for method in ("features", "head-gradient"):
        for k in (5, 20):
            candidates = fastif.Nearest(k, by=method)
            chosen = context.explainer(model, candidates=candidates, solver=fastif.Identity()).scores(points.examples)
            truth = values.abs().argsort(dim=1, descending=True)
            slow = [metrics.recall_at(chosen.train_ids[row], truth[row], 5) for row in range(settings.right)]
            (row,) = recall.pick(rows, damping="auto", method=method, k=k, m=5, sign="absolute", prediction="right")
            assert row["mean"] == pytest.approx(sum(slow) / len(slow))
    everyone = recall.pick(rows, damping="auto", method="random", m=10, sign="absolute", prediction="wrong")
    assert [row["k"] for row in everyone] == sorted(row["k"] for row in everyone)
    assert math.isclose(everyone[-1]["points"], settings.wrong)


def test_recalls_of_harmful_and_helpful_points_are_paired_by_query(results):
    rows = results("recall")["result"]["rows"]
    setting = {"method": "features", "k": 20, "m": 5, "prediction": "right"}
    harmful, helpful, both = (
        recall.pick(rows, **setting, sign=sign)[0] for sign in ("harmful", "helpful", recall.DIFFERENCE)
    )
    assert both["points"] == 2
    assert both["mean"] == pytest.approx(harmful["mean"] - helpful["mean"])
    # of two points, the deviation of the difference is the sum or the difference of both deviations
    deviations = (harmful["deviation"] + helpful["deviation"], abs(harmful["deviation"] - helpful["deviation"]))
    assert any(both["deviation"] == pytest.approx(each) for each in deviations)


def test_correlations_are_of_the_retrieved_points_and_of_the_strongest(results):
    result = results("correlations")["result"]
    assert len(result["rows"]) == 4 * (3 + 5) * 2  # queries, comparisons and those beside, retrieved and top
    assert all(-1 <= row[key] <= 1 for row in result["rows"] for key in ("pearson", "spearman", "kendall"))
    assert min(row["pearson"] for row in result["rows"] if row["comparison"] in CORRELATIONS) > 0.9
    shares = torch.tensor([row["top_retrieved"] for row in result["rows"]])
    assert bool((shares[:, 0] <= shares[:, 1]).all())


def test_other_dampings_and_the_product_of_gradients_are_correlated_with_full(laboratory, results):
    result, wanted = results("correlations")["result"], laboratory.settings.correlations
    model = laboratory.models.get("nli-3")
    some = laboratory.data.some(laboratory.data.nli_dev(3))
    points = choose_points(model, some, right=wanted.right, wrong=wanted.wrong)
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    full = context.explainer(model, solver=wanted.full.solver(0), curvature="hessian").scores(points.examples).values
    others = {
        "damping 50, our solver, against full": {"solver": "auto", "damping": 50.0},
        "damping 5000, our solver, against full": {"solver": "auto", "damping": 5000.0},
        "automatic damping, our solver, against full": {"solver": "auto"},
        "gradient dot product, against full": {"solver": fastif.Identity()},
        "weight decay in the gradients, against full": {
            "solver": wanted.fast.solver(1),
            "curvature": "hessian",
            "weight_decay": 0.01,
            "weight_decay_in": "matrices",
        },
    }
    for comparison, options in others.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fastif.ConvergenceWarning)
            values = context.explainer(model, **options).scores(points.examples).values
        rows = [row for row in result["rows"] if (row["comparison"], row["on"]) == (comparison, "top")]
        for query, row in enumerate(rows):
            top = full[query].abs().argsort(descending=True)[: wanted.top]
            assert row["spearman"] == pytest.approx(metrics.spearman(values[query, top], full[query, top]), abs=1e-3)
        assert f"| {comparison} | true top 20 |" in (laboratory.out / "correlations/table.md").read_text()


def test_retraining_removes_what_each_system_found(laboratory, results):
    result, wanted = results("retraining")["result"], laboratory.settings.retraining
    done = retraining.retrained(result)
    systems = ["fast, k = 24", "fast, k = 40", "full"]
    assert len(done.removals) == 3 * 3 * 2 * 2 + 3 * 2  # points, systems, signs, m; and labels, m
    assert list(dict.fromkeys(one.system for one in done.removals if one.query is not None)) == systems
    assert done.losses.shape == (2, 1 + len(done.removals), 3)
    model = laboratory.models.get("nli-3-few")
    points = choose_points(
        model, laboratory.data.some(laboratory.data.nli_dev(3)), right=wanted.right, wrong=wanted.wrong
    )
    assert [one["text"] for one in result["points"]] == points.table.texts  # all of them had enough of each sign
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    explainer = context.explainer(model, solver=wanted.full.solver(0), curvature="hessian")
    full = explainer.scores(points.examples).values
    nearest = explainer.nearest(points.examples, 24)
    fast = context.explainer(model, solver=wanted.fast.solver(1), curvature="hessian").scores(points.examples).values
    for one in done.removals:
        if one.system == "full" and one.query is not None:
            order = full[one.query].argsort(descending=one.kind == "harmful")
            assert set(one.ids) == set(order[: one.count].tolist())
        if one.system == systems[0]:
            near = nearest[one.query]
            order = near[fast[one.query, near].argsort(descending=one.kind == "harmful")]
            assert set(one.ids) == set(order[: one.count].tolist())


def test_other_ways_to_rank_remove_points_of_their_own_and_are_told_apart(laboratory, results):
    result, wanted = results("retraining")["result"], laboratory.settings.retraining
    (name, done), *rest = retraining.by_variant(result).items()
    assert (name, rest) == (wanted.variants[0].name, [])
    assert name not in {one.system for one in retraining.retrained(result).removals}
    own = [one for one in done.removals if one.query is not None]
    assert {one.count for one in own} == set(wanted.variant_removed)
    assert len(own) == 3 * 2
    model = laboratory.models.get("nli-3-few")
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    explainer = context.explainer(model, solver=fastif.Identity(), candidates=fastif.Nearest(24, by="features"))
    texts = [one["text"] for one in result["points"]]
    table = laboratory.data.some(laboratory.data.nli_dev(3))
    scores = explainer.scores(table.take(table.texts.index(text) for text in texts))
    for one in own:
        order = scores.values[one.query].argsort(descending=one.kind == "harmful")
        assert set(one.ids) == set(scores.train_ids[one.query, order[: one.count]].tolist())
    assert f"| {name} | 3 |" in (laboratory.out / "retraining/table.md").read_text()


def test_a_retraining_on_everything_from_the_seed_of_the_model_gives_that_model(results):
    done = retraining.retrained(results("retraining")["result"])
    torch.testing.assert_close(done.losses[0, 0], done.before, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(done.losses[1, 0], done.before, rtol=1e-2)


def test_a_simulator_is_stepped_with_true_and_with_predicted_labels(results):
    result = results("simulatability")["result"]
    true, predicted = (simulatability.simulated(result["variants"][labels]) for labels in ("true", "predicted"))
    assert true.losses.shape == (3, 5, 2, 4)  # points, kinds, training points, rates
    assert true.right == (True, True, False)
    assert torch.equal(true.before, predicted.before)  # one simulator
    assert not torch.equal(true.losses, predicted.losses)
    assert float(true.changes[..., 0].abs().max()) < float(true.changes[..., -1].abs().max())  # a larger rate does more


def test_points_that_are_found_otherwise_step_the_same_simulator(laboratory, results):
    result = results("simulatability")["result"]
    papers = simulatability.simulated(result["variants"]["true"]).by_group()
    (found,) = result["ranked_otherwise"].values()
    assert found["least"] >= laboratory.settings.simulatability.points
    random = [kind for kind in papers[0]["over_all_rates"] if kind.startswith("random")]
    for one, other in zip(papers, found["groups"], strict=True):
        for kind in random:  # the same draws, labels and simulator
            assert one["over_all_rates"][kind] == other["over_all_rates"][kind]
    one, other = ([group["over_all_rates"]["harmful"] for group in groups] for groups in (papers, found["groups"]))
    assert one != other
    assert "| automatic damping, our solver |" in (laboratory.out / "simulatability/table.md").read_text()
    none = {**result, "ranked_otherwise": {"odd": {"least": 1}}}
    assert "| odd (a point has but 1 of one sign) | - | - |" in simulatability.table(none)


def test_points_without_enough_of_both_signs_are_told(laboratory, tmp_path):
    model, solver = laboratory.models.get("nli-3-few"), SolverSettings(0.1, 500, depth=2, repeats=1)
    with RunStore.begin(tmp_path / "search", {"command": "search"}) as store:
        context = Context(laboratory.settings, laboratory.data, laboratory.models, store)
        search = Search(context, model, [System("fast", solver, 0, 10)], least=6)  # of each sign, of 10
        with pytest.raises(DataError, match=r"have at least 6 helpful and 6 harmful .* Take more candidates"):
            search.run(right=1, wrong=0)


def test_edges_that_are_scored_otherwise_are_counted_by_slice(laboratory, results):
    part = results("visualization")["result"]["models"]["nli-2"]
    papers, scan, decay = part["variants"].values()
    for row in papers:
        mine = [each for each in visualization.by_point(part) if each["slice"] == row["slice"]]
        assert row["share_helpful"] == pytest.approx(sum(each["share_helpful"] for each in mine) / len(mine))
    assert len(scan) == len(papers) == len(decay) == len(part["comparison"]["slices"])
    model = laboratory.models.get("nli-2")
    wanted = laboratory.settings.visualization
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    first = part["queries"][0]
    same = [each for each in part["queries"] if each["slice"] == first["slice"]]
    hans = laboratory.data.some(laboratory.data.hans_test())
    queries = hans.take(hans.texts.index(each["text"]) for each in same)
    explainer = context.explainer(model, solver=wanted.nli_on_hans.solver(0), curvature="hessian")
    shares = []
    for values in explainer.scores(queries).values:  # the ten strongest of all
        strongest = values[values.abs().argsort(descending=True)[:10]]
        shares.append(float((strongest < 0).double().mean()))
    assert scan[0]["share_helpful"] == pytest.approx(sum(shares) / len(shares))
    words = (laboratory.out / "visualization/table.md").read_text()
    assert "| weight decay in the gradients |" in words
    assert "| all points, not the nearest alone |" in words


def test_edges_of_wrong_points_are_counted_and_correlated_as_slowly_as_one_can(laboratory, results):
    for name, part in results("visualization")["result"]["models"].items():
        model = laboratory.models.get(name)
        rows = part["queries"]
        values = [[float(number) for number in row["values"].split()] for row in rows]
        ids = [[int(number) for number in row["train_ids"].split()] for row in rows]
        assert {len(each) for each in ids} == {10}
        means = {}
        for each in part["comparison"]["slices"]:
            mine = [row for row, query in enumerate(rows) if query["slice"] == each["name"]]
            assert 0 < len(mine) <= 3
            helpful = [-value for row in mine for value in values[row] if value < 0]
            harmful = [value for row in mine for value in values[row] if value > 0]
            for found, slow in ((each["helpful"], helpful), (each["harmful"], harmful)):
                assert found["edges"] == len(slow)
                assert found["mean"] == (pytest.approx(sum(slow) / len(slow)) if slow else None)
            touching = {}
            for row in mine:
                for index, value in zip(ids[row], values[row], strict=True):
                    touching.setdefault(index, []).append(value)
            means[each["name"]] = {index: sum(some) / len(some) for index, some in touching.items()}
        for pair in part["comparison"]["pairs"]:
            one, two = means[pair["first"]], means[pair["second"]]
            both = sorted(set(one) & set(two))
            assert pair["points"] == len(both)
            if pair["correlation"] is not None:
                slow = metrics.pearson(*(torch.tensor([each[index] for index in both]) for each in (one, two)))
                assert pair["correlation"] == pytest.approx(slow, abs=1e-5)
        table = laboratory.data.hans_test()
        known = {(text, pair): label for text, pair, label in zip(table.texts, table.pairs, table.labels, strict=True)}
        hans = [row for row in rows if row["slice"] != visualization.MNLI]
        assert all(known[row["text"], row["text_pair"]] == row["label"] for row in hans)
        asked = table.take([table.texts.index(row["text"]) for row in hans])
        assert not model.is_right(model.examples(asked)).any()


def test_points_have_numbers_of_their_own_that_stay_when_edges_are_left_out(results):
    about = results("visualization")
    for name, part in about["result"]["models"].items():
        found = visualization.by_point(part)
        assert visualization.by_point(SLIM["visualization"](about["result"])["models"][name]) == found
        for row, query in zip(found, part["queries"], strict=True):
            values = [float(number) for number in query["values"].split()]
            helpful, harmful = [-each for each in values if each < 0], [each for each in values if each > 0]
            assert row["slice"] == query["slice"]
            assert row["share_helpful"] == pytest.approx(len(helpful) / len(values))
            if helpful and harmful:
                ratio = statistics.fmean(helpful) / statistics.fmean(harmful)
                assert row["times_as_strong"] == pytest.approx(ratio)
            assert bool(row["share_of_influence"]) is (name == "hans")
            assert sum(row["share_of_influence"].values()) == pytest.approx(1 if name == "hans" else 0)


def test_training_points_of_hans_are_split_by_heuristic(results):
    models = results("visualization")["result"]["models"]
    assert models["nli-2"]["by_train_slice"] == []
    rows = models["hans"]["by_train_slice"]
    for name in visualization.SLICES:
        some = [row for row in rows if row["slice"] == name]
        assert sum(row["share_of_influence"] for row in some) == pytest.approx(1)
        slices = models["hans"]["comparison"]["slices"]
        (each,) = [each for each in slices if each["name"] == name]
        assert sum(row["edges"] for row in some) == each["helpful"]["edges"] + each["harmful"]["edges"]


def test_both_effects_share_draws_and_start(results):
    result = results("amazon")["result"]
    papers, ours = result["effects"]["retrain"], result["effects"]["finetune-step"]
    assert [part["title"] for part in papers["parts"]] == [
        "test, held-out domain",
        "validation, held-out domain",
        "other domains",
    ]
    for one, other in zip(papers["courses"], ours["courses"], strict=True):
        assert (one["kind"], one["repeat"]) == (other["kind"], other["repeat"])
        assert one["anchors"] == other["anchors"]
        assert one["loss"][0] == pytest.approx(other["loss"][0])
        assert len(one["loss"]) == 1 + 2  # the start and two steps
        if one["kind"] in ("random", "anchors"):
            assert one == other
    helpful, harmful = (
        {index for one in papers["courses"] if one["kind"] == kind for index in one["chosen"][0] if not one["repeat"]}
        for kind in ("helpful", "harmful")
    )
    assert not helpful & harmful


def test_a_slice_without_a_wrong_point_is_told_of(results):
    models = results("visualization")["result"]["models"]
    left = [row for row in models["hans"]["queries"] if row["slice"] != "constituent"]
    hans = {**models["hans"], "queries": left}
    hans["comparison"] = visualization.comparison_of(hans).as_json()
    result = {"models": {**models, "hans": hans}}
    assert "none: constituent has no query" in visualization.table(result)
    assert "graph-hans" in visualization.draw(result)


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


@pytest.mark.parametrize("name", ["augmentation-anli", "amazon"])
def test_walks_of_two_checkpoints_are_compared_by_their_means(name, tmp_path):
    settings, (experiment,) = settings_for("smoke"), find(name)
    field = name.replace("-", "_")
    wanted = replace(getattr(settings, field), steps=1, repeats=2, checkpoints=2, variants=())
    outcome = Laboratory(tmp_path, replace(settings, **{field: wanted})).run(experiment)
    found = json.loads((outcome.path / "result.json").read_text())
    result, first = found["result"], found["models"][0]["name"]
    assert [model["name"] for model in found["models"]] == [first, f"{first}-1"]
    walks = result["effects"]["retrain"] if name == "amazon" else result["walks"]["all"]
    assert walks["models"] == 2
    helpful = [one for one in walks["courses"] if one["kind"] == "helpful"]
    assert [one["repeat"] for one in helpful] == [0, 1, 2, 3]
    starts = [one["loss"][0][0] for one in helpful]
    assert starts[0] == starts[1] != starts[2] == starts[3]
    compared = [walks["comparisons"], result["effects"]["finetune-step"]["comparisons"]] if name == "amazon" else []
    for rows in compared or [result["changes"]]:
        assert {row["count"] for row in rows} == {2}  # models, and not walks
    row = next(  # of the first part
        each
        for each in (compared[0] if compared else result["changes"])
        if (each["first"], each["second"], each["part"], each["measure"])
        == ("helpful", "start", walks["parts"][0]["title"], "loss")
    )
    del walks["models"]  # as in results of before
    for figure in experiment.draw(result).values():
        assert figure.get_suptitle().endswith("mean and range of 2 models with 2 repeats each")
    ends = [one["loss"][-1][0] - one["loss"][0][0] for one in helpful]
    each = paired_interval([sum(ends[:2]) / 2, sum(ends[2:]) / 2], [0.0, 0.0])
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((each.mean, each.low, each.high))


def test_hvp_is_made_of_what_was_finished_without_the_other_ways_to_solve(laboratory, results, tmp_path):
    whole, every = results("hvp")["result"], laboratory.settings.hvp.variants
    shutil.copytree(laboratory.out / "models", tmp_path / "models")
    fewer = replace(laboratory.settings, hvp=replace(laboratory.settings.hvp, variants=every[:2]))
    unfinished = Laboratory(tmp_path, laboratory.settings, stops_here=True)
    with RunStore.begin(tmp_path / "hvp", unfinished._request(hvp)) as store:
        hvp.run(Laboratory(tmp_path, fewer).context(store))
    path = unfinished.run(hvp).path
    result = json.loads((path / "result.json").read_text())["result"]
    own, others = ({row["way"] for row in rows} for rows in (whole["variants"], result["variants"]))
    assert own - others == {each.name for each in every[2:]} != set()
    (note,) = result["notes"]
    assert note == f"{NOT_FINISHED}solve: {'; '.join(each.name for each in every[2:])}."
    assert note in (path / "table.md").read_text()
    result = json.loads((Laboratory(tmp_path, laboratory.settings).run(hvp).path / "result.json").read_text())["result"]
    assert {row["way"] for row in result["variants"]} == own
    assert not result["notes"]


def test_repeats_from_one_model_are_not_taken_for_other_models(results):
    walk = results("augmentation-anli")["result"]["walks"]["all"]
    plan = Plan(**walk["plan"])
    parts = (Part("test", None, 60),)

    def course(kind, repeat, end):
        losses = torch.tensor([[1.0], [end]], dtype=torch.float64)
        return Course(kind, repeat, losses, losses, torch.empty(2, 0), torch.empty(2, 0), (), ())

    # two repeats from each of three models: alike from one model, different between them
    ends = [1.1, 1.1, 1.4, 1.4, 1.6, 1.6]
    courses = {kind: [course(kind, number, end) for number, end in enumerate(ends)] for kind in KINDS}
    walks = {changes.ALL: Courses(parts, courses, plan, models=3)}
    setting = {"set": "test", "part": "test", "measure": "loss", "first": "helpful", "second": "start"}
    (row,) = changes.pick(changes.measured(walks), **setting)
    slow = paired_interval([0.1, 0.4, 0.6], [0.0] * 3)
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((slow.mean, slow.low, slow.high))
    assert row["count"] == 3


@pytest.mark.parametrize("name", ["augmentation-anli", "amazon"])
def test_a_result_can_be_made_of_what_was_finished(name, laboratory, results, tmp_path):
    whole, experiment, few = results(name), EXPERIMENTS[name], VARIANTS[:3]
    shutil.copytree(laboratory.out / "models", tmp_path / "models")
    settings = laboratory.settings
    own = name.replace("-", "_")
    settings = replace(settings, **{own: replace(getattr(settings, own), variants=few)})
    unfinished = Laboratory(tmp_path, settings, stops_here=True)
    with RunStore.begin(tmp_path / name, unfinished._request(experiment)):
        pass  # it was killed at once
    with pytest.raises(UnfinishedError, match=r"not finished.*--stop-here"):
        unfinished.run(experiment)
    with RunStore.begin(tmp_path / name, unfinished._request(experiment)) as store:
        context = Laboratory(tmp_path, settings).context(store)
        for part in experiment.parts(settings):
            if few[2] not in part:
                experiment.make(context, part)
    path = unfinished.run(experiment).path
    result = json.loads((path / "result.json").read_text())["result"]
    for key in ("walks", "effects"):
        assert result.get(key) == whole["result"].get(key)
    told = result["variants"].get("changes") or result["variants"]["comparisons"]
    assert list(told) == [ranked_walks.SAME, *(each.name for each in few[:2] if (name, each) != ("amazon", few[0]))]
    assert f"Not finished, and so not in the table of other ways to rank: {few[2].name}." in result["notes"]
    assert few[2].name in (path / "table.md").read_text()
    assert list((path / "parts").iterdir())  # nothing is lost: the command goes on
    gone_on = Laboratory(tmp_path, settings).run(experiment).path
    result = json.loads((gone_on / "result.json").read_text())["result"]
    assert few[2].name in (result["variants"].get("changes") or result["variants"]["comparisons"])
    assert not [note for note in result["notes"] if note.startswith("Not finished")]


@pytest.mark.parametrize(("name", "count"), [("augmentation-anli", 7), ("correction-mnli", 1)])
def test_other_ways_to_rank_share_draws_with_the_papers(name, count, results, laboratory):
    result = results(name)["result"]
    wanted = getattr(laboratory.settings, name.replace("-", "_"))
    variants = result["variants"]["changes"]
    assert list(variants) == [correction.SAME, *(variant.name for variant in wanted.variants)]
    assert len(wanted.variants) == count
    words = (laboratory.out / name / "table.md").read_text()
    setting = {"measure": "loss", "part": "own slice" if name == "correction-mnli" else "test"}
    same, other = ({"first": kind, "second": "start", **setting} for kind in ("random", "helpful"))
    walks = result["walks"].items()
    random = []  # of the repeats that variants have, the mean over slices of what random points change
    for anchors, walk in walks:
        titles = [(part["set"], part["title"]) for part in walk["parts"]]
        place = titles.index(("test", "test" if anchors == "all" else anchors))
        courses = [one["loss"] for one in walk["courses"] if one["kind"] == "random"][: wanted.variant_repeats]
        random += [loss[-1][place] - loss[0][place] for loss in courses]
    means = []
    for variant, rows in variants.items():
        assert f"| {variant} |" in words
        (row,) = changes.pick(rows, **same)
        assert row["count"] == wanted.variant_repeats
        assert row["mean"] == pytest.approx(sum(random) / len(random))
        means += [row["mean"] for row in changes.pick(rows, **other)]
    assert len(set(means)) > 1 or count == 1  # a large damping alone chooses what the product of gradients does
    walk = next(iter(result["walks"].values()))
    if name == "augmentation-anli":
        place = [part["title"] for part in walk["parts"]].index("test")
        helpful = next(one["loss"] for one in walk["courses"] if one["kind"] == "helpful")
        assert means[0] == pytest.approx(helpful[-1][place] - helpful[0][place])


def test_a_variant_changes_what_it_is_named_for(laboratory):
    context = Context(laboratory.settings, laboratory.data, laboratory.models, store=None)
    wanted = settings_for("full").correction_mnli
    papers = correction.Ranking(context, wanted)
    dot, small, large, own, head, scan, decay = (replace(papers, variant=variant) for variant in wanted.variants)
    assert (papers.plan(5000).effect, papers.plan(5000).nearest, papers.plan(5000).repeats) == ("retrain", 1000, 5)
    assert papers.options["damping"] == 5000
    assert (dot.plan(5000).effect, dot.plan(5000).nearest, dot.plan(5000).repeats) == ("finetune-step", 1000, 3)
    assert (small.options["damping"], small.plan(5000).effect) == (50, "retrain")
    assert (large.options["damping"], "curvature" in large.options) == (5000, False)  # Gauss-Newton
    assert (own.options["damping"], own.plan(5000).effect) == ("auto", "retrain")
    assert (scan.plan(5000).nearest, scan.options["damping"]) == (None, 5000)
    assert (papers.plan(5000).nearest_by, head.plan(5000).nearest_by) == ("features", "head-gradient")
    assert "weight_decay" not in papers.options
    assert (decay.options["weight_decay"], decay.options["weight_decay_in"]) == (0.01, "matrices")


def test_the_rows_of_a_test_set_are_looked_at_where_walks_end(results, laboratory):
    result = results("amazon")["result"]["effects"]["retrain"]
    rows = [row for row in result["comparisons"] if row["part"] == amazon.TEST and row["measure"] == "accuracy"]
    count = result["parts"][0]["examples"]
    assert len(rows) == 4 + 3
    for row in rows:
        ends = {
            kind: [one["accuracy"][-1][0] for one in result["courses"] if one["kind"] == kind]
            for kind in (row["first"], row["second"])
        }
        first = statistics.fmean(ends[row["first"]])
        second = statistics.fmean(ends[row["second"]] or [one["accuracy"][0][0] for one in result["courses"]])
        assert row["rows_error"] <= most_rows_error(first, second, count) * math.sqrt(count / (count - 1)) + 1e-9
    assert any(row["rows_error"] > 0 for row in rows)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_rows_before_and_after_are_pairs(name, results):
    result = results(name)["result"]
    rows = [row for row in result["changes"] if "rows_error" in row]
    assert {row["part"] for row in rows} >= ({"test"} if name == "augmentation-anli" else {"own slice", "all slices"})
    assert not [row for row in result["changes"] if row["set"] in ("validation", "original") and "rows_error" in row]
    assert any(row["rows_error"] > 0 for row in rows)


def test_the_error_of_rows_is_that_of_paired_differences_and_of_strata():
    draw = torch.Generator().manual_seed(0)
    right = (torch.rand(2, 3, 40, generator=draw) < 0.5).double()  # two walks, three repeats each
    ends = {
        name: {"helpful": {"accuracy": each}, "start": {"accuracy": right[0, :1].expand(3, -1)}}
        for name, each in zip(("a", "b"), right, strict=True)
    }
    row = {"first": "helpful", "second": "start", "measure": "accuracy"}
    one = (right[0].mean(dim=0) - right[0, 0])[:30]
    assert with_rows_error(row, ends, [(["a"], list(range(30)))])["rows_error"] == pytest.approx(
        float(one.std()) / math.sqrt(30)
    )
    both = right.mean(dim=(0, 1)) - right[0, 0]
    strata = [float(both[part].var()) / len(both[part]) for part in (slice(0, 30), slice(30, 40))]
    groups = [(["a", "b"], list(range(30))), (["a", "b"], list(range(30, 40)))]
    assert with_rows_error(row, ends, groups)["rows_error"] == pytest.approx(math.sqrt(sum(strata)) / 2)
    assert with_rows_error(row, ends, [(["a"], [0])]) == row  # one row says nothing


def test_rows_at_the_ends_of_walks_have_the_means_that_were_seen_on_the_way(laboratory):
    model, data = laboratory.models.get("sentiment"), laboratory.data
    test = model.examples(replace(data.some(data.reviews_test()), slices=None))
    sets = Sets(model.train, model.examples(data.reviews_anchors()), {"test": test})
    plan = Plan(steps=2, anchors=4, examples=4, learning_rate=0.05, nearest=20, repeats=2)
    iteration = Iteration(model.classifier, sets, plan=plan)
    courses = iteration.run()
    ends = ends_of(iteration, courses, "test", nothing_kept)
    for kind in KINDS:
        for measure in ("loss", "accuracy"):
            seen = courses.values(kind, measure)[:, :, 0]
            torch.testing.assert_close(ends[kind][measure].mean(dim=1), seen[:, -1], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(ends["start"][measure].mean(dim=1), seen[:, 0], rtol=1e-5, atol=1e-6)

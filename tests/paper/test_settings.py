"""The settings: `full` is the paper's appendix table, and all scales have all experiments."""

import json
from dataclasses import replace

import pytest

from fastif.errors import ConfigurationError
from fastif.paper.scales import SCALES, settings_for
from fastif.paper.settings import MODELS
from fastif.paper.solver_settings import SolverSettings
from fastif.solvers.steps import FEWEST_STEPS

NAMES = (
    "table1",
    "recall",
    "hvp",
    "correlations",
    "retraining",
    "simulatability",
    "visualization",
    "correction-mnli",
    "augmentation-hans",
    "augmentation-anli",
    "amazon",
)


def test_full_is_the_appendix_table_of_key_details():
    full = settings_for("full")
    recall, hvp = full.recall, full.hvp
    assert (recall.right, recall.wrong) == (50, 50)
    assert recall.k == (10, 100, 1000, 10_000, 50_000, 100_000)
    assert recall.m == (10, 100, 1000)
    assert hvp.depths == tuple(range(700, 1301, 100))
    assert hvp.repeats == (1, 4)
    # less than the paper, which has 4 points of each kind and eight sizes
    assert (hvp.right, hvp.wrong, hvp.batch_sizes) == (2, 2, (1, 8, 64))
    assert (full.correlations.right, full.correlations.wrong, full.correlations.k) == (10, 10, (1000, 10_000))
    assert (full.retraining.right, full.retraining.wrong) == (5, 5)
    assert full.retraining.removed == (1, 5, 25, 50, 100)
    assert full.retraining.of_each_sign == 100
    told = full.simulatability
    assert (told.right, told.wrong, told.rates, told.points) == (10, 10, 50, 10)
    assert (told.lowest_rate, told.highest_rate) == (1e-5, pytest.approx(10**-2.5))
    assert (full.visualization.mnli, full.visualization.hans_each, full.visualization.k) == (100, 100, 1000)
    for name in ("correction_mnli", "augmentation_hans", "augmentation_anli"):
        own = getattr(full, name)
        assert (own.anchors, own.points, own.steps, own.learning_rate, own.k) == (10, 10, 10, 1e-4, 1000)
        # beyond the paper: one checkpoint, three repeats
        assert (own.checkpoints, own.repeats) == (5 if name == "correction_mnli" else 3, 5)
        assert own.variant_repeats == 3
    for name in ("correlations", "retraining", "simulatability", "visualization", "correction_mnli", "amazon"):
        others = getattr(full, name).variants
        assert [each.damping for each in others if each.damping is not None] == [50, 5000, "auto"]
        assert sum(each.gradient_dot for each in others) == sum(each.scan for each in others) == 1
        assert [each.decay for each in others if each.decay] == [full.recipes["nli-3"].weight_decay]
        assert [each.by for each in others if each.by != "features"] == ["head-gradient"]
    assert full.recall.decay == full.recipes["nli-3"].weight_decay
    assert full.recall.dampings == (50, "auto", 5000)
    assert full.recall.methods == ("features", "head-gradient", "gradient-dot", "random")
    amazon = full.amazon
    assert (amazon.anchors, amazon.points, amazon.checkpoints, amazon.repeats, amazon.watched) == (50, 50, 3, 3, 2000)
    few = [getattr(full, name).curvature_examples for name in ("augmentation_hans", "augmentation_anli", "amazon")]
    assert (full.correction_mnli.curvature_examples, *few) == (512, 128, 128, 128)
    assert (full.sizes.anli_pool, full.sizes.hans_validation) == (2400, 0.01)


def test_table1_at_full_runs_few_steps_of_the_original_but_as_many_as_are_recorded():
    full = settings_for("full").table1
    assert (full.examples, full.queries, full.candidates) == (392_702, 10, (10_000, 1000))
    assert FEWEST_STEPS <= full.depth == 20  # fewer would be launched one by one, which takes longer
    assert (full.sample, full.naive_rounds) == (50, 3)


def test_damp_scale_and_depth_are_those_of_the_authors_or_reach_as_far_in_fewer_steps():
    full = settings_for("full")
    authors = SolverSettings(5e-3, 1e4, 1000)
    assert (full.hvp.solver, full.correlations.fast, full.retraining.fast) == (authors,) * 3
    wide = replace(authors, batch_size=128, repeats=1)
    shorter = [
        (full.correction_mnli.solver, SolverSettings(5e-3, 1e6, 1000)),
        (full.augmentation_anli.solver, SolverSettings(5e-3, 1e6, 1500)),
        (full.visualization.nli_on_hans, SolverSettings(5e-3, 1e6, 1000)),
        (full.visualization.hans, SolverSettings(5e-3, 1e6, 2000)),
        (full.visualization.nli_on_mnli, authors),
        (full.simulatability.solver, authors),
        (full.correlations.full, wide),
        (full.retraining.full, wide),
    ]
    reviews = full.amazon.solver  # one solution for every step: few steps of more examples
    assert reviews.depth * reviews.batch_size >= authors.depth * authors.batch_size
    for ours, theirs in [*shorter, (replace(reviews, batch_size=1), authors)]:
        assert ours.damping == pytest.approx(theirs.damping)
        assert (ours.batch_size, ours.repeats) == (theirs.batch_size, theirs.repeats)
        assert (1 - ours.damp) ** ours.depth < 0.995**1000  # what is missing of the series, at the paper's usual J


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_every_experiment_and_every_model(scale):
    settings = settings_for(scale)
    assert settings.scale == scale
    assert set(settings.recipes) == set(MODELS)
    for name in NAMES:
        assert json.loads(json.dumps(settings.of(name)))["experiment"] is not None


def test_small_keeps_the_damping_of_the_paper():
    small, full = settings_for("small"), settings_for("full")
    for name in ("hvp", "correction_mnli", "augmentation_anli", "amazon"):
        assert getattr(small, name).solver.damping == getattr(full, name).solver.damping


def test_another_encoder_and_a_scale_that_is_none():
    assert settings_for("full", "bert-base-cased").base == "bert-base-cased"
    assert settings_for("full").base == "mpnet"
    with pytest.raises(ConfigurationError, match="choose one of"):
        settings_for("huge")

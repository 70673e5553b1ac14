"""The three scales of the experiments. Knows numbers alone: no model, no data, no file.

`full` is the paper's: its appendix table "Some of the key experiment details", what its text and the authors' release
add to it, and beside that what the paper left out (`variants.py`). Where a solution is needed for every step of a walk
or for hundreds of points, the paper's damping is reached in fewer steps. `small` keeps the questions and shrinks the
numbers until a CPU answers each in minutes; `smoke` is for tests, on data that the project makes itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fastif.errors import ConfigurationError
from fastif.integrations.huggingface.recipe import Recipe
from fastif.paper.settings import (
    MODELS,
    CorrectionSettings,
    CorrelationSettings,
    HvpSettings,
    Model,
    RecallSettings,
    RetrainingSettings,
    Settings,
    SimulatabilitySettings,
    Sizes,
    Table1Settings,
    VisualizationSettings,
)
from fastif.paper.solver_settings import SolverSettings
from fastif.paper.variants import GRADIENT_DOT, VARIANTS, WEIGHT_DECAY

NEAREST_VARIANTS = tuple(variant for variant in VARIANTS if not variant.scan)  # all points are cells of Table 1
SOLVED_VARIANTS = tuple(variant for variant in VARIANTS if variant.changes_scores and not variant.gradient_dot)


def _recipes(usual: Recipe, **others: Recipe) -> dict[Model, Recipe]:
    """Return how each model is trained: as usual, or in a way of its own."""
    return {name: others.get(name.replace("-", "_"), usual) for name in MODELS}


# nothing is kept aside of what is trained on: every training point of the paper's sets can be an influential one
FULL_RECIPE = Recipe(epochs=3, batch_size=64, learning_rate=5e-5, weight_decay=0.005, dev_share=0.0, max_length=128)
FEW_RECIPE = Recipe(epochs=5, batch_size=32, learning_rate=1e-4, weight_decay=0.005, dev_share=0.0, max_length=128)
SMALL_RECIPE = Recipe(epochs=3, batch_size=32, learning_rate=2e-4, weight_decay=0.005, dev_share=0.0, max_length=96)
SMOKE_RECIPE = Recipe(epochs=12, batch_size=16, learning_rate=5e-3, weight_decay=0.005, dev_share=0.0, max_length=48)

# the paper's lambda with a larger damp and a smaller scale: the same fixed point, as little left out of the series in
# fewer steps, and fewer examples drawn: more noise, where the curvature is anything beside lambda
SHORT_NLI = SolverSettings(0.01, 5e3, 500)
SHORT_HANS = SolverSettings(0.96, 5e3 / 0.96, 2)
SHORT_SENTIMENT = SolverSettings(0.05, 1e3, 100, batch_size=10)  # as many examples as the paper draws, 4,000
SHORT_ORIGINAL = SolverSettings(0.02, 2.5e3, 250, batch_size=128, repeats=1)
SMALL_NLI = SolverSettings(0.1, 500, 50)
SMALL_HANS = SolverSettings(0.2, 2.5e4, 25)
SMALL_ORIGINAL = replace(SMALL_NLI, batch_size=8, repeats=1)
SMALL_HVP = SolverSettings(0.05, 1e3, 100)  # slower, so that there is something to be seen over J
SMOKE_SOLVER = SolverSettings(0.1, 500, 12, batch_size=2, repeats=2)
SMOKE_ORIGINAL = SolverSettings(0.1, 500, 12, batch_size=8, repeats=1)
# several models: of one, nothing can be told of others, and intervals are over models
SMALL_CORRECTION = CorrectionSettings(
    SMALL_HANS,
    steps=6,
    learning_rate=1e-2,
    k=100,
    repeats=2,
    checkpoints=5,
    watched=300,
    variants=VARIANTS,
    variant_repeats=2,
    curvature_examples=150,
)
SMOKE_CORRECTION = CorrectionSettings(
    replace(SMOKE_SOLVER, depth=3), anchors=4, points=4, steps=2, learning_rate=5e-2, k=10, repeats=2
)

# models of equal accuracy on NLI differ widely on HANS: the paper's single checkpoint is one draw of many
FULL_CORRECTION = CorrectionSettings(
    SHORT_HANS, repeats=5, checkpoints=5, watched=3000, variants=VARIANTS, curvature_examples=512
)
# fewer models than for correction_mnli, and fewer examples of H: our solver prepares anew at each of hundreds of steps
FULL_AUGMENTATION = replace(FULL_CORRECTION, checkpoints=3, curvature_examples=128)
FULL_AMAZON = replace(FULL_AUGMENTATION, solver=SHORT_SENTIMENT, anchors=50, points=50, repeats=3, watched=2000)

SCALES: dict[str, Settings] = {
    "full": Settings(
        scale="full",
        base="mpnet",
        source="real",
        sizes=Sizes(),
        recipes=_recipes(FULL_RECIPE, nli_3_few=FEW_RECIPE),
        table1=Table1Settings(variants=NEAREST_VARIANTS),
        # fewer points and sizes than the paper's, as each point is solved to the end too; and as many examples as our
        # solver takes of so large a model on a GPU, so that all solutions are for one H
        hvp=HvpSettings(2, 2, batch_sizes=(1, 8, 64), examples=4096, variants=SOLVED_VARIANTS),
        recall=RecallSettings(decay=WEIGHT_DECAY),
        correlations=CorrelationSettings(full=SHORT_ORIGINAL, variants=VARIANTS),
        retraining=RetrainingSettings(
            full=SHORT_ORIGINAL, k=(1000,), baselines=3, variants=VARIANTS, variant_removed=(25,)
        ),
        simulatability=SimulatabilitySettings(solver=SHORT_NLI, variants=VARIANTS),
        visualization=VisualizationSettings(
            nli_on_mnli=SHORT_NLI, nli_on_hans=SHORT_HANS, hans=SHORT_HANS, variants=VARIANTS
        ),
        correction_mnli=FULL_CORRECTION,
        augmentation_hans=FULL_AUGMENTATION,
        augmentation_anli=FULL_AUGMENTATION,
        amazon=FULL_AMAZON,
    ),
    "small": Settings(
        scale="small",
        base="minilm",
        source="real",
        sizes=Sizes(
            nli_train=6000,
            nli_few=300,
            hans_train=1200,
            reviews_train=2400,
            evaluated=600,
            anli_pool=400,
            reviews_anchors=500,
        ),
        recipes=_recipes(SMALL_RECIPE),
        table1=Table1Settings(
            None,
            queries=2,
            depth=4,
            fast_depth=40,
            sample=20,
            candidates=(500, 50),
            variants=NEAREST_VARIANTS,
            curvature_examples=150,
        ),
        hvp=HvpSettings(
            2,
            2,
            (40, 60, 80, 100),
            (1, 4, 8),
            (1, 4),
            examples=300,
            solver=SMALL_HVP,
            variants=SOLVED_VARIANTS,
        ),
        recall=RecallSettings(
            4, 4, (10, 50, 100, 200, 500), (10, 100), dampings=(SMALL_NLI.damping, "auto"), curvature_examples=150
        ),
        correlations=CorrelationSettings(
            2, 2, (50, 500), 100, fast=SMALL_NLI, full=SMALL_ORIGINAL, variants=VARIANTS[:1]
        ),
        retraining=RetrainingSettings(
            2,
            2,
            25,
            (5, 25),
            (150,),
            baselines=2,
            draws=1,
            fast=SMALL_NLI,
            full=SMALL_ORIGINAL,
        ),
        simulatability=SimulatabilitySettings(4, 4, rates=12, points=4, k=250, solver=SMALL_NLI),
        visualization=VisualizationSettings(
            15, 15, k=100, nli_on_mnli=SMALL_NLI, nli_on_hans=SMALL_HANS, hans=SMALL_HANS
        ),
        # three slices of anchors, and so three times as many walks
        correction_mnli=replace(SMALL_CORRECTION, checkpoints=3, variant_repeats=1),
        augmentation_hans=replace(SMALL_CORRECTION, checkpoints=3, variant_repeats=1),
        augmentation_anli=SMALL_CORRECTION,
        amazon=replace(SMALL_CORRECTION, solver=SMALL_NLI, anchors=50, points=50, steps=5, k=250),
    ),
    "smoke": Settings(
        scale="smoke",
        base="tiny",
        source="made-up",
        sizes=Sizes(96, 48, 72, 64, 60, anli_pool=24, reviews_anchors=20, hans_validation=0.2),
        recipes=_recipes(SMOKE_RECIPE, hans=replace(SMOKE_RECIPE, epochs=5)),  # so that it is wrong of some
        table1=Table1Settings(
            None, queries=2, depth=2, fast_depth=2, sample=4, candidates=(40, 10), variants=NEAREST_VARIANTS
        ),
        hvp=HvpSettings(1, 1, (4, 8), (1, 4), (1, 2), examples=32, solver=SMOKE_SOLVER, variants=SOLVED_VARIANTS),
        recall=RecallSettings(2, 2, (5, 20, 50), (5, 10), dampings=("auto",), decay=WEIGHT_DECAY),
        correlations=CorrelationSettings(2, 2, (10, 40), 20, fast=SMOKE_SOLVER, full=SMOKE_ORIGINAL, variants=VARIANTS),
        retraining=RetrainingSettings(
            2,
            1,
            5,
            (1, 5),
            (24, 40),
            baselines=2,
            draws=1,
            fast=SMOKE_SOLVER,
            full=SMOKE_ORIGINAL,
            variants=VARIANTS[:1],
            variant_removed=(5,),
        ),
        simulatability=SimulatabilitySettings(
            2, 1, rates=4, points=2, k=30, shown=2, solver=SMOKE_SOLVER, variants=VARIANTS[3:4]
        ),
        visualization=VisualizationSettings(
            3,
            3,
            k=10,
            nli_on_mnli=SMOKE_SOLVER,
            nli_on_hans=SMOKE_SOLVER,
            hans=SMOKE_SOLVER,
            variants=VARIANTS[-2:],
        ),
        correction_mnli=replace(SMOKE_CORRECTION, variants=VARIANTS[:1], variant_repeats=2),
        augmentation_hans=SMOKE_CORRECTION,
        augmentation_anli=replace(SMOKE_CORRECTION, variants=VARIANTS, variant_repeats=1),
        amazon=CorrectionSettings(
            SMOKE_SOLVER, anchors=6, points=6, steps=2, k=20, repeats=2, variants=VARIANTS[-1:], variant_repeats=2
        ),
    ),
}


def settings_for(scale: str, base: str | None = None) -> Settings:
    """Return the settings of a scale, with another encoder where one is named.

    >>> settings_for("full").hvp.depths[-1]
    1300
    """
    if scale not in SCALES:
        raise ConfigurationError(f"there is no scale {scale!r}: choose one of {', '.join(SCALES)}.")
    made = SCALES[scale]
    return made if base is None else Settings(**{**vars(made), "base": base})


def for_rankings(settings: Settings, experiment: str, names: Sequence[str]) -> Settings:
    """Return settings in which an experiment walks from its first model alone, with some of the other rankings.

    And with the paper's, to be compared with. Such a result joins one that is published and lacks them.

    >>> made = for_rankings(settings_for("full"), "amazon", ["damping 50, our solver"]).amazon
    >>> made.checkpoints, made.repeats, len(made.variants)
    (1, 3, 1)
    """
    key = experiment.replace("-", "_")
    own = getattr(settings, key, None)
    if not isinstance(own, CorrectionSettings):
        raise ConfigurationError(
            f"{experiment} has no walks that could be ranked otherwise: --ranking is for correction-mnli, "
            "augmentation-hans, augmentation-anli and amazon."
        )
    known = {variant.name: variant for variant in VARIANTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        choices = "; ".join(known)
        raise ConfigurationError(f"there is no ranking {unknown[0]!r}: choose from {choices}.")
    if key == "amazon" and GRADIENT_DOT.name in names:
        raise ConfigurationError(
            f"every result of amazon has the {GRADIENT_DOT.name}, as the effect 'finetune-step': nothing is to add."
        )
    variants = tuple(variant for name, variant in known.items() if name in names)
    repeats = min(own.repeats, own.variant_repeats)
    made: dict[str, Any] = {key: replace(own, checkpoints=1, repeats=repeats, variants=variants)}
    return replace(settings, **made)

"""The settings of all experiments, at three scales. Knows numbers alone: no model, no data, no file.

`full` is the appendix table "Some of the key experiment details" of the paper, with what its text and the authors'
release add to it (damp, scale and J of each setting); `small` keeps the questions and shrinks the numbers until a CPU
answers each in minutes; `smoke` is for tests, on data that the project makes itself.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from fastif.errors import ConfigurationError
from fastif.integrations.huggingface.recipe import Recipe
from fastif.paper.solver_settings import (
    HANS_ON_ALL,
    NLI_ON_ANLI,
    NLI_ON_HANS,
    NLI_ON_MNLI,
    ORIGINAL,
    SENTIMENT,
    SolverSettings,
)

Scale = Literal["smoke", "small", "full"]
Model = Literal["nli-3", "nli-2", "hans", "sentiment", "nli-3-few"]
MODELS: tuple[Model, ...] = get_args(Model)
DampingChoice = float | Literal["auto"]


@dataclass(frozen=True)
class Sizes:
    """How much of the data is used; None for all of it.

    Args:
        nli_train: pairs that the NLI models are trained on.
        nli_few: pairs of the model that is trained again and again.
        hans_train: pairs of HANS that are trained on.
        reviews_train: reviews that are trained on, of all domains but the held-out one.
        evaluated: rows that accuracy is measured on and queries are drawn from, of each set.
        anli_pool: pairs of the ANLI dev set that become the pool; the others are anchors.
        reviews_anchors: reviews of the held-out domain to draw anchors from; the others are for the test.
        hans_validation: share of the HANS evaluation set that anchors are drawn from.
        held_out: the domain of reviews that is not trained on.
    """

    nli_train: int | None = None
    nli_few: int = 2000
    hans_train: int | None = None
    reviews_train: int | None = None
    evaluated: int | None = None
    anli_pool: int = 2400
    reviews_anchors: int = 1000
    hans_validation: float = 0.01
    held_out: str = "books"


@dataclass(frozen=True)
class Table1Settings:
    """Table 1: times of single queries.

    Args:
        examples: training examples to measure on, real ones repeated up to that number; None for those there are.
        queries: that are timed, one by one.
        depth: steps of LiSSA that are timed; fewer than the 1,000 of the paper are extrapolated.
        fast_depth: the same for batches of one, on a CPU; a GPU runs them to the end.
        sample: examples that plain torch is timed on, in each round.
        naive_rounds: samples that plain torch is timed on, whose spread is that of its time.
        candidates: the larger and the smaller k.
    """

    examples: int | None = 392_702
    queries: int = 10
    depth: int = 20
    fast_depth: int = 1000
    sample: int = 50
    candidates: tuple[int, int] = (10_000, 1000)
    naive_rounds: int = 3


@dataclass(frozen=True)
class HvpSettings:
    """Time and error of the inverse-Hessian-vector product over J, B and T; `examples` of H, None for all."""

    right: int = 4
    wrong: int = 4
    depths: tuple[int, ...] = (700, 800, 900, 1000, 1100, 1200, 1300)
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    repeats: tuple[int, ...] = (1, 4)
    examples: int | None = None
    solver: SolverSettings = NLI_ON_MNLI


@dataclass(frozen=True)
class RecallSettings:
    """Recall of candidates; the truth is a scan of all training examples at each of the dampings.

    Args:
        right: queries that are predicted right.
        wrong: queries that are predicted wrong.
        k: numbers of candidates.
        m: how many of the truly strongest are looked for.
        methods: how candidates are chosen.
        dampings: of the truth.
        curvature_examples: that H is the mean over; None leaves it to the library.
    """

    right: int = 50
    wrong: int = 50
    k: tuple[int, ...] = (10, 100, 1000, 10_000, 50_000, 100_000)
    m: tuple[int, ...] = (10, 100, 1000)
    methods: tuple[str, ...] = ("features", "head-gradient", "gradient-dot", "random")
    dampings: tuple[DampingChoice, ...] = (NLI_ON_MNLI.damping, "auto", NLI_ON_HANS.damping)
    curvature_examples: int | None = None


@dataclass(frozen=True)
class CorrelationSettings:
    """Fast against full influence values: on the points retrieved with each k, and on the true `top`.

    Args:
        right: queries that are predicted right.
        wrong: queries that are predicted wrong.
        k: candidates of the two fast systems.
        top: how many of the truly strongest are looked at.
        fast: the solver of the fast systems.
        full: the solver of the full one.
        others: solvers with another damping, which stand beside the fast systems.
        automatic: whether the library's own choice of solver and damping does.
        gradient_dot: whether the plain product of gradients does, which knows no curvature.
    """

    right: int = 10
    wrong: int = 10
    k: tuple[int, int] = (1000, 10_000)
    top: int = 100
    fast: SolverSettings = NLI_ON_MNLI
    full: SolverSettings = ORIGINAL
    others: tuple[SolverSettings, ...] = (NLI_ON_HANS,)
    automatic: bool = True
    gradient_dot: bool = True


@dataclass(frozen=True)
class RetrainingSettings:
    """Remove the m strongest, and train again, on the model "nli-3-few".

    Args:
        right: queries that are predicted right.
        wrong: queries that are predicted wrong.
        of_each_sign: a query has at least so many helpful and so many harmful training examples.
        removed: m.
        k: candidates of the two fast systems; the full one scores all.
        baselines: seeds; with each, there is a training on all data that those without some are compared with.
        draws: random removals of each label and number: the noise that effects are compared with.
        fast: the solver of the fast systems.
        full: the solver of the full one.
    """

    right: int = 5
    wrong: int = 5
    of_each_sign: int = 100
    removed: tuple[int, ...] = (1, 5, 25, 50, 100)
    k: tuple[int, ...] = (1000, 10_000)
    baselines: int = 5
    draws: int = 3
    fast: SolverSettings = NLI_ON_MNLI
    full: SolverSettings = ORIGINAL


@dataclass(frozen=True)
class SimulatabilitySettings:
    """One gradient step of a simulator on helpful, harmful and (by label) random points, over a grid of rates."""

    right: int = 10
    wrong: int = 10
    rates: int = 50
    lowest_rate: float = 1e-5
    highest_rate: float = 10**-2.5
    points: int = 10
    k: int = 1000
    labels: tuple[str, ...] = ("true", "predicted")
    shown: int = 4
    solver: SolverSettings = NLI_ON_MNLI


@dataclass(frozen=True)
class VisualizationSettings:
    """Wrong points of each slice, for a model trained on NLI and one trained on HANS; all there are, if fewer."""

    mnli: int = 100
    hans_each: int = 100
    k: int = 1000
    nli_on_mnli: SolverSettings = NLI_ON_MNLI
    nli_on_hans: SolverSettings = NLI_ON_HANS
    hans: SolverSettings = HANS_ON_ALL


@dataclass(frozen=True)
class Variant:
    """Another way to rank points, beside the paper's, from the first checkpoint.

    Args:
        name: of a line in the table.
        solver: with another damping; None for that of the experiment, which a product of gradients does not need.
        automatic: the library's own choice of solver and damping, in place of a solver of the paper.
        gradient_dot: rank by the plain product of gradients: what a step on a point changes now.
        scan: rank all points, and not the nearest alone.
    """

    name: str
    solver: SolverSettings | None = None
    automatic: bool = False
    gradient_dot: bool = False
    scan: bool = False


@dataclass(frozen=True)
class CorrectionSettings:
    """Repeated steps on influential points.

    Args:
        solver: of the influence that ranks them.
        anchors: drawn anew for each step.
        points: that a step is taken on.
        steps: how many are taken.
        learning_rate: of each.
        k: points that are ranked, those nearest to the anchors.
        repeats: of everything, with other draws.
        checkpoints: models of other seeds that all of it is repeated on; with several, intervals are over these.
        watched: rows of each set that are looked at after every step; None for as many as are evaluated elsewhere.
        variants: other ways to rank points.
        variant_repeats: of each of these, with the draws of the first repeats.
    """

    solver: SolverSettings
    anchors: int = 10
    points: int = 10
    steps: int = 10
    learning_rate: float = 1e-4
    k: int = 1000
    repeats: int = 3
    checkpoints: int = 1
    watched: int | None = None
    variants: tuple[Variant, ...] = ()
    variant_repeats: int = 3


# what the paper left out; where its damping is 5,000, that of its other experiments stands beside it
VARIANTS = (
    Variant("gradient dot product", gradient_dot=True),
    Variant(f"damping {NLI_ON_MNLI.damping:g}", NLI_ON_MNLI),
    Variant("automatic damping", automatic=True),
    Variant("all points, not the nearest alone", scan=True),
)


@dataclass(frozen=True)
class Settings:
    """All of it, for one scale.

    Args:
        scale: its name.
        base: the encoder that models are trained from: "tiny" is made by the project, others are found by name.
        source: "made-up" data, or "real" data from FASTIF_DATA or the hub.
        sizes: of the data.
        recipes: how each model is trained.
    """

    scale: Scale
    base: str
    source: Literal["made-up", "real"]
    sizes: Sizes
    recipes: dict[Model, Recipe]
    table1: Table1Settings = field(default_factory=Table1Settings)
    hvp: HvpSettings = field(default_factory=HvpSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    correlations: CorrelationSettings = field(default_factory=CorrelationSettings)
    retraining: RetrainingSettings = field(default_factory=RetrainingSettings)
    simulatability: SimulatabilitySettings = field(default_factory=SimulatabilitySettings)
    visualization: VisualizationSettings = field(default_factory=VisualizationSettings)
    # models of equal accuracy on NLI differ widely on HANS: the paper's single checkpoint is one draw of many
    correction_mnli: CorrectionSettings = CorrectionSettings(NLI_ON_HANS, repeats=5, checkpoints=5, variants=VARIANTS)
    augmentation_hans: CorrectionSettings = CorrectionSettings(NLI_ON_HANS, repeats=5, checkpoints=5, variants=VARIANTS)
    augmentation_anli: CorrectionSettings = CorrectionSettings(NLI_ON_ANLI, repeats=5, checkpoints=5, variants=VARIANTS)
    amazon: CorrectionSettings = CorrectionSettings(SENTIMENT, anchors=50, points=50)

    def of(self, experiment: str) -> dict[str, Any]:
        """Return what an experiment by this name depends on, as JSON can hold it."""
        own = getattr(self, experiment.replace("-", "_"), None)
        return {
            "scale": self.scale,
            "sizes": asdict(self.sizes),
            "recipes": {name: asdict(recipe) for name, recipe in self.recipes.items()},
            "experiment": None if own is None else asdict(own),
        }


def _recipes(usual: Recipe, **others: Recipe) -> dict[Model, Recipe]:
    """Return how each model is trained: as usual, or in a way of its own."""
    return {name: others.get(name.replace("-", "_"), usual) for name in MODELS}


# nothing is kept aside of what is trained on: every training point of the paper's sets can be an influential one
FULL_RECIPE = Recipe(epochs=3, batch_size=64, learning_rate=5e-5, weight_decay=0.005, dev_share=0.0, max_length=128)
FEW_RECIPE = Recipe(epochs=5, batch_size=32, learning_rate=1e-4, weight_decay=0.005, dev_share=0.0, max_length=128)
SMALL_RECIPE = Recipe(epochs=3, batch_size=32, learning_rate=2e-4, weight_decay=0.005, dev_share=0.0, max_length=96)
SMOKE_RECIPE = Recipe(epochs=12, batch_size=16, learning_rate=5e-3, weight_decay=0.005, dev_share=0.0, max_length=48)

# the paper's lambda, with a larger damp and a smaller scale: the same fixed point, in a twentieth of the steps or fewer
SMALL_NLI = SolverSettings(0.1, 500, 50)
SMALL_HANS = SolverSettings(0.2, 2.5e4, 25)
SMALL_ORIGINAL = replace(SMALL_NLI, batch_size=8, repeats=1)
SMALL_HVP = SolverSettings(0.05, 1e3, 100)  # slower, so that there is something to be seen over J
SMOKE_SOLVER = SolverSettings(0.1, 500, 12, batch_size=2, repeats=2)
SMOKE_ORIGINAL = SolverSettings(0.1, 500, 12, batch_size=8, repeats=1)
SMALL_CORRECTION = CorrectionSettings(SMALL_HANS, steps=6, learning_rate=1e-2, k=100, watched=240)
SMOKE_CORRECTION = CorrectionSettings(
    replace(SMOKE_SOLVER, depth=3), anchors=4, points=4, steps=2, learning_rate=5e-2, k=10, repeats=2
)
SMOKE_VARIANTS = (VARIANTS[0], Variant("damping 50000", replace(SMOKE_SOLVER, scale=5e5)), *VARIANTS[2:])

SCALES: dict[str, Settings] = {
    "full": Settings(
        scale="full",
        base="mpnet",
        source="real",
        sizes=Sizes(),
        recipes=_recipes(FULL_RECIPE, nli_3_few=FEW_RECIPE),
    ),
    "small": Settings(
        scale="small",
        base="minilm",
        source="real",
        sizes=Sizes(
            nli_train=1500,
            nli_few=300,
            hans_train=1200,
            reviews_train=800,
            evaluated=600,
            anli_pool=400,
            reviews_anchors=500,
        ),
        recipes=_recipes(SMALL_RECIPE),
        table1=Table1Settings(None, queries=2, depth=4, fast_depth=40, sample=20, candidates=(500, 50)),
        hvp=HvpSettings(1, 1, (40, 60, 80, 100), (1, 4, 8), (1, 4), examples=300, solver=SMALL_HVP),
        recall=RecallSettings(
            4, 4, (10, 50, 100, 200, 500), (10, 100), dampings=(SMALL_NLI.damping, "auto"), curvature_examples=150
        ),
        correlations=CorrelationSettings(
            2, 2, (50, 500), 100, fast=SMALL_NLI, full=SMALL_ORIGINAL, others=(SMALL_HANS,), automatic=False
        ),
        retraining=RetrainingSettings(
            2, 2, 25, (5, 25), (150,), baselines=2, draws=1, fast=SMALL_NLI, full=SMALL_ORIGINAL
        ),
        simulatability=SimulatabilitySettings(4, 4, rates=12, points=4, k=250, solver=SMALL_NLI),
        visualization=VisualizationSettings(
            15, 15, k=100, nli_on_mnli=SMALL_NLI, nli_on_hans=SMALL_HANS, hans=SMALL_HANS
        ),
        correction_mnli=SMALL_CORRECTION,
        augmentation_hans=SMALL_CORRECTION,
        augmentation_anli=SMALL_CORRECTION,
        amazon=CorrectionSettings(SMALL_NLI, anchors=50, points=50, steps=5, k=250, learning_rate=1e-2, watched=250),
    ),
    "smoke": Settings(
        scale="smoke",
        base="tiny",
        source="made-up",
        sizes=Sizes(96, 48, 72, 64, 60, anli_pool=24, reviews_anchors=20, hans_validation=0.2),
        recipes=_recipes(SMOKE_RECIPE, hans=replace(SMOKE_RECIPE, epochs=5)),  # so that it is wrong of some
        table1=Table1Settings(None, queries=2, depth=2, fast_depth=2, sample=4, candidates=(40, 10)),
        hvp=HvpSettings(1, 1, (4, 8), (1, 4), (1, 2), examples=32, solver=SMOKE_SOLVER),
        recall=RecallSettings(2, 2, (5, 20, 50), (5, 10), dampings=("auto",)),
        correlations=CorrelationSettings(
            2, 2, (10, 40), 20, fast=SMOKE_SOLVER, full=SMOKE_ORIGINAL, others=(replace(SMOKE_SOLVER, scale=5e4),)
        ),
        retraining=RetrainingSettings(
            2, 1, 5, (1, 5), (24, 40), baselines=2, draws=1, fast=SMOKE_SOLVER, full=SMOKE_ORIGINAL
        ),
        simulatability=SimulatabilitySettings(2, 1, rates=4, points=2, k=30, shown=2, solver=SMOKE_SOLVER),
        visualization=VisualizationSettings(
            3, 3, k=10, nli_on_mnli=SMOKE_SOLVER, nli_on_hans=SMOKE_SOLVER, hans=SMOKE_SOLVER
        ),
        correction_mnli=replace(SMOKE_CORRECTION, variants=SMOKE_VARIANTS[:1], variant_repeats=2),
        augmentation_hans=SMOKE_CORRECTION,
        augmentation_anli=replace(SMOKE_CORRECTION, variants=SMOKE_VARIANTS, variant_repeats=1),
        amazon=CorrectionSettings(SMOKE_SOLVER, anchors=6, points=6, steps=2, k=20, repeats=2),
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

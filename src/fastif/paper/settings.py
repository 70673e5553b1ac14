"""The settings of all experiments; how large each is, is in scales.py. Knows numbers: no model, no data."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

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
from fastif.paper.variants import DampingChoice, Variant

Scale = Literal["smoke", "small", "full"]
Model = Literal["nli-3", "nli-2", "hans", "sentiment", "nli-3-few"]
MODELS: tuple[Model, ...] = get_args(Model)


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
        variants: other ways to answer a query, timed with the smaller k.
        variant_queries: that each of these is timed on.
        curvature_examples: that H is the mean over where a variant takes our solver; None leaves it to the library.
    """

    examples: int | None = 392_702
    queries: int = 10
    depth: int = 20
    fast_depth: int = 1000
    sample: int = 50
    candidates: tuple[int, int] = (10_000, 1000)
    naive_rounds: int = 3
    variants: tuple[Variant, ...] = ()
    variant_queries: int = 3
    curvature_examples: int | None = None


@dataclass(frozen=True)
class HvpSettings:
    """Time and error of the inverse-Hessian-vector product over J, B and T; `examples` of H, None for all.

    With the converged solutions of other ways beside the paper's, `variants`.
    """

    right: int = 4
    wrong: int = 4
    depths: tuple[int, ...] = (700, 800, 900, 1000, 1100, 1200, 1300)
    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    repeats: tuple[int, ...] = (1, 4)
    examples: int | None = None
    solver: SolverSettings = NLI_ON_MNLI
    variants: tuple[Variant, ...] = ()


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
        decay: weight decay for one more truth, at the first damping, with it in all gradients; 0 for none.
    """

    right: int = 50
    wrong: int = 50
    k: tuple[int, ...] = (10, 100, 1000, 10_000, 50_000, 100_000)
    m: tuple[int, ...] = (10, 100, 1000)
    methods: tuple[str, ...] = ("features", "head-gradient", "gradient-dot", "random")
    dampings: tuple[DampingChoice, ...] = (NLI_ON_MNLI.damping, "auto", NLI_ON_HANS.damping)
    curvature_examples: int | None = None
    decay: float = 0.0


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
        variants: other ways to score, which stand beside the fast systems; candidates play no part here.
    """

    right: int = 10
    wrong: int = 10
    k: tuple[int, int] = (1000, 10_000)
    top: int = 100
    fast: SolverSettings = NLI_ON_MNLI
    full: SolverSettings = ORIGINAL
    variants: tuple[Variant, ...] = ()


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
        variants: other ways to rank what is removed, each beside the fast system with the first k.
        variant_removed: m of these.
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
    variants: tuple[Variant, ...] = ()
    variant_removed: tuple[int, ...] = (25, 100)


@dataclass(frozen=True)
class SimulatabilitySettings:
    """One gradient step of a simulator on helpful, harmful and (by label) random points, over a grid of rates.

    With other ways to find helpful and harmful points beside it, `variants`.
    """

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
    variants: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class VisualizationSettings:
    """Wrong points of each slice, for a model trained on NLI and one trained on HANS; all there are, if fewer.

    With other ways to score the same points, `variants`.
    """

    mnli: int = 100
    hans_each: int = 100
    k: int = 1000
    nli_on_mnli: SolverSettings = NLI_ON_MNLI
    nli_on_hans: SolverSettings = NLI_ON_HANS
    hans: SolverSettings = HANS_ON_ALL
    variants: tuple[Variant, ...] = ()


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
        curvature_examples: that H is the mean over where a variant takes our solver, which prepares anew at every step;
            None leaves it to the library.
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
    curvature_examples: int | None = None


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
    correction_mnli: CorrectionSettings = CorrectionSettings(NLI_ON_HANS)
    augmentation_hans: CorrectionSettings = CorrectionSettings(NLI_ON_HANS)
    augmentation_anli: CorrectionSettings = CorrectionSettings(NLI_ON_ANLI)
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

"""The paper's own numbers, typed, each with the place it is from. Nothing here is measured by this project.

Figures of the paper are pictures: where no number is in the text, a claim in words stands for them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Time:
    """A cell of Table 1: minutes for one query on V100 GPUs, their deviation, how many times faster than 2 hours."""

    minutes: float
    deviation: float | None
    faster: int
    at_least: bool = False

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{'≥ ' if self.at_least else ''}{self.minutes:.2f}{spread} min ({self.faster}x)"


# Table 1, "Averages and standard deviations of influence functions runtime measured on 10 MultiNLI examples":
# by k (None: no kNN) and by column
TABLE_1: dict[tuple[int | None, str], Time] = {
    (None, "original"): Time(120.0, None, 1, at_least=True),
    (10_000, "original"): Time(14.72, 0.21, 8),
    (10_000, "fast"): Time(6.61, 0.03, 18),
    (10_000, "fast, 4 GPUs"): Time(2.36, 0.02, 50),
    (1000, "original"): Time(10.93, 0.04, 10),
    (1000, "fast"): Time(3.13, 0.05, 38),
    (1000, "fast, 4 GPUs"): Time(1.46, 0.07, 82),
}
TABLE_1_EXAMPLES = 392_702  # MultiNLI, "about 390K examples" (Introduction)


@dataclass(frozen=True)
class Claim:
    """What the paper says in words, and where."""

    words: str
    where: str


SPEED = 80  # "more than 80 times faster than the original influence functions"
SPEED_CLAIM = Claim(
    "kNN, the fast s_test and four GPUs answer a query more than 80 times faster than the original", "Section 5.1"
)
SPEED_ON_ONE_CLAIM = Claim("kNN and the fast s_test alone, on one GPU, are 38 times faster", "Table 1")


@dataclass(frozen=True)
class Agreement:
    """A row of the appendix table of correlations: mean and deviation in per cent, over 20 evaluation points."""

    pearson: tuple[float, float]
    spearman: tuple[float, float]
    kendall: tuple[float, float]


# Table 2 and, with two digits of the deviations, its copy in the appendix ("Correlations between influence values")
CORRELATIONS: dict[str, Agreement] = {
    "fast, smaller k, against full": Agreement((99.8, 0.33), (99.5, 1.34), (96.9, 2.81)),
    "fast, larger k, against full": Agreement((99.9, 0.10), (99.7, 0.55), (96.8, 2.27)),
    "fast, smaller against larger k": Agreement((99.9, 0.18), (99.6, 0.75), (96.6, 2.35)),
}

LEAST_CORRELATION = 95.0
CORRELATION_CLAIM = Claim(
    "fast influence values correlate with full ones at more than 95 %, on the retrieved points", "Section 5.4, Table 2"
)


@dataclass(frozen=True)
class Share:
    """A recall that the text gives: of the most influential (absolute) points, with k candidates of 392,702."""

    k: int
    recall: float
    by_chance: float

    @property
    def share(self) -> float:
        """Return k as a share of the training set."""
        return self.k / TABLE_1_EXAMPLES


# Section "Recall of kNN": "close to 60 % with k = 5e4, and 20 % with k = 5e3 ... random selection 15 % and 1.5 %"
RECALL = (Share(5000, 0.20, 0.015), Share(50_000, 0.60, 0.15))
CHANCE_CLAIM = Claim(
    "kNN is useful to find influential points: its recall is above chance", "Section 5.2, Figure 3 (a)"
)
LEVEL_CLAIM = Claim(
    "recall of the most influential points is 20 % with 1.3 % of the training set, and close to 60 % with 12.7 %",
    "Section 5.2",
)
RECALL_CLAIM = Claim(
    "recall of harmful points is higher than of helpful ones where predictions are right, and lower where they are not",
    "Section 5.2, Figure 3 (a)",
)
HVP_CLAIMS = (
    Claim("time grows with the batch size B and with the depth J", "Section 5.3, Figure 3 (b)"),
    Claim("the error falls with B and with J in general", "Section 5.3, Figure 3 (b)"),
    Claim("at B = 1, more repeats T make up for the loss", "Section 5.3"),
)
RETRAINING_CLAIMS: dict[str, Claim] = {
    "helpful": Claim("the loss rises when helpful points are removed", "Section 5.4, Figure 3 (c)"),
    "harmful": Claim("the loss falls when harmful points are removed", "Section 5.4, Figure 3 (c)"),
    "systems": Claim("what fast and full influence choose has a similar effect", "Section 5.4"),
    "random": Claim("both do better than points chosen at random, in general", "Section 5.4"),
    "more": Claim("the effect is larger as more points are removed", "Section 5.4"),
}
# by what the task model is about the point
SIMULATABILITY_CLAIMS: dict[str, Claim] = {
    "right": Claim("helpful points lower the simulator's loss", "Section 6.1, Figure 4"),
    "wrong": Claim("harmful points lower the simulator's loss", "Section 6.1, Figure 4"),
}
SIMULATABILITY_OVER_RANDOM = Claim(
    "the effect of influential points is greater than that of random ones overall", "Section 6.1"
)
SIMULATABILITY_LABELS = Claim("true labels did better than predicted ones in first experiments", "Appendix")


@dataclass(frozen=True)
class SliceEdges:
    """A row of the appendix table on visualization: mean |I| and number of edges, helpful and harmful."""

    mean_helpful: float
    mean_harmful: float
    helpful: int
    harmful: int


# appendix, "Statistics on the visualizations": the model trained on MultiNLI (two labels); L, S, C are HANS' heuristics
EDGES: dict[str, SliceEdges] = {
    "lexical_overlap": SliceEdges(0.866, 0.034, 5_000, 95_000),
    "subsequence": SliceEdges(0.934, 0.066, 8_000, 92_000),
    "constituent": SliceEdges(0.465, 0.179, 29_000, 71_000),
    "MNLI": SliceEdges(13.689, 4.419, 27_000, 73_000),
}
# appendix, "Statistics on the correlations and number of pairs": (correlation, pairs)
SLICE_CORRELATIONS: dict[tuple[str, str], tuple[float, int]] = {
    ("lexical_overlap", "lexical_overlap"): (1.00, 29_581),
    ("lexical_overlap", "subsequence"): (0.99, 14_917),
    ("lexical_overlap", "constituent"): (0.99, 3_425),
    ("lexical_overlap", "MNLI"): (0.92, 5_380),
    ("subsequence", "subsequence"): (1.00, 25_145),
    ("subsequence", "constituent"): (0.99, 6_218),
    ("subsequence", "MNLI"): (0.91, 6_270),
    ("constituent", "constituent"): (1.00, 26_621),
    ("constituent", "MNLI"): (0.67, 13_972),
    ("MNLI", "MNLI"): (1.00, 72_324),
}
EDGES_CLAIM = Claim(
    "on wrong predictions act few strong helpful training points and many weak harmful ones",
    "Section 6.2, left half of Figure 5",
)
SLICES_CLAIM = Claim(
    "training points that act on one slice act on the others alike", "Section 6.2, table of the appendix"
)
VISUALIZATION_CLAIM = Claim(
    "training points of lexical overlap are the most influential on all slices of HANS",
    "Section 6.2, right half of Figure 5",
)


@dataclass(frozen=True)
class Gain:
    """A gain in accuracy, in points: by helpful points, and by how much that is more than by the anchors themselves."""

    helpful: float
    over_anchors: float
    where: str


GAINS: dict[str, Gain] = {
    "correction-mnli": Gain(5.8, 2.5, "Section 6.3, Figure 6 (a)"),
    "augmentation-hans": Gain(5.9, 2.8, "Section 6.3, Figure 6 (b)"),
    "augmentation-anli": Gain(2.7, 1.7, "Section 6.3, Figure 7 (c)"),
}
GAIN_CLAIMS: dict[str, Claim] = {
    name: Claim(
        f"{words} gain {GAINS[name].helpful} points of accuracy, more than random points do, and "
        f"{GAINS[name].over_anchors} more than the anchors",
        GAINS[name].where,
    )
    for name, words in (
        ("correction-mnli", "on HANS, steps on helpful points of its own training data"),
        ("augmentation-hans", "on HANS, steps on helpful points of HANS"),
        ("augmentation-anli", "on ANLI, steps on helpful points of ANLI"),
    )
}
CORRECTION_CLAIMS: dict[str, tuple[Claim, ...]] = {
    "correction-mnli": (
        Claim("helpful points do better than random ones, harmful ones do worse", "Section 6.3"),
        Claim("helpful points have larger effects than harmful ones", "Section 6.3"),
        Claim("on lexical overlap the loss falls and the accuracy does not rise", "Section 6.3, footnote"),
    ),
    "augmentation-hans": (
        Claim("random points work reasonably well; helpful ones do better than they in general", "Section 6.3"),
    ),
    "augmentation-anli": (
        Claim("random points work reasonably well; helpful ones do better than they in general", "Section 6.3"),
    ),
}
# accuracy on HANS before the first step, as the authors' release has it; neither text nor tables give it
HANS_START = {"lexical_overlap": 0.495, "subsequence": 0.515, "constituent": 0.508}
AMAZON_CLAIM = Claim(
    "harmful points make it worse; helpful points and the anchors themselves have little effect",
    "Section 6.3, Figure 7 (d)",
)
# the same by kind; the text says nothing of random points
AMAZON: dict[str, str] = {"helpful": "little effect", "harmful": "worse", "anchors": "little effect"}

"""The claims of the paper, numbered as the page has them: what it says, what it measured, and who judges.

A rule is in `rules/`, a number of the paper in `figures_of_the_paper.py`. Knows no file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastif.errors import DataError
from fastif.paper import figures_of_the_paper as paper
from fastif.paper.points import RIGHT, WRONG
from fastif.paper.rules import analysis, applications
from fastif.paper.verdicts import Outcome, Verdict

SMOKE = "smoke"


@dataclass(frozen=True)
class Claim:
    """One of the paper's claims.

    Args:
        name: a short one, for programs.
        experiment: whose result tells.
        says: the claim in words, and where the paper has it.
        figure: the paper's, in words.
        picture: the name of the picture that shows ours.
        rule: what is compared with what; from the result of the experiment.
    """

    name: str
    experiment: str
    says: paper.Claim
    figure: str
    picture: str
    rule: Callable[[dict[str, Any]], Verdict]

    def judge(self, results: Mapping[str, Mapping[str, Any]]) -> Verdict:
        """Return what becomes of it, given what `fastif reproduce` wrote, by the names of experiments."""
        if self.experiment not in results:
            return Verdict(Outcome.UNKNOWN, "-", f"`{self.experiment}` has not been run.")
        about = results[self.experiment]
        try:
            verdict = self.rule(about["result"])
        except DataError as error:
            return Verdict(Outcome.UNKNOWN, "-", f"The result holds what nothing can be told from: {error}")
        if about["request"]["settings"]["scale"] == SMOKE:
            return Verdict(Outcome.UNKNOWN, verdict.ours, "Made-up data and a tiny model say nothing of the paper.")
        return verdict


def _gain(name: str) -> str:
    gain = paper.GAINS[name]
    return f"more than +{gain.helpful} points, about +{gain.over_anchors} over the anchors"


_EDGES = [
    (edges.helpful / (edges.helpful + edges.harmful), edges.mean_helpful / edges.mean_harmful)
    for edges in paper.EDGES.values()
]
_PAIRS = [value for (one, other), (value, _) in paper.SLICE_CORRELATIONS.items() if one != other]
_LOWEST = min(
    min(row.pearson[0], row.spearman[0], row.kendall[0])
    for comparison, row in paper.CORRELATIONS.items()
    if comparison.endswith("against full")
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "speed",
        "table1",
        paper.SPEED_CLAIM,
        f"{paper.TABLE_1[1000, 'fast, 4 GPUs'].faster}x",
        "table1",
        analysis.faster_than_the_original,
    ),
    Claim(
        "speed-on-one",
        "table1",
        paper.SPEED_ON_ONE_CLAIM,
        f"{paper.TABLE_1[1000, 'fast'].faster}x",
        "table1",
        analysis.faster_by_approximation,
    ),
    Claim(
        "recall-above-chance",
        "recall",
        paper.CHANCE_CLAIM,
        ", ".join(f"{each.recall:.0%} (chance {each.by_chance:.1%})" for each in paper.RECALL),
        "recall",
        analysis.recall_above_chance,
    ),
    Claim(
        "recall-level",
        "recall",
        paper.LEVEL_CLAIM,
        ", ".join(f"{each.recall:.0%} with {each.share:.1%}" for each in paper.RECALL),
        "recall",
        analysis.recall_as_told,
    ),
    Claim("recall-by-sign", "recall", paper.RECALL_CLAIM, "in figures alone", "recall", analysis.recall_by_sign),
    Claim(
        "error-of-s-test",
        "hvp",
        paper.Claim(
            "the error of s_test falls with B and with J; at B = 1, more repeats T make up for it",
            paper.HVP_CLAIMS[1].where,
        ),
        "in figures alone",
        "hvp-converged",
        analysis.error_falls,
    ),
    Claim(
        "correlations",
        "correlations",
        paper.CORRELATION_CLAIM,
        f"{_LOWEST} % at the lowest",
        "correlations",
        analysis.correlations_high,
    ),
    Claim(
        "removal-of-helpful",
        "retraining",
        paper.RETRAINING_CLAIMS["helpful"],
        "in figures alone",
        "retraining",
        analysis.helpful_removal,
    ),
    Claim(
        "removal-of-harmful",
        "retraining",
        paper.RETRAINING_CLAIMS["harmful"],
        "in figures alone",
        "retraining",
        analysis.harmful_removal,
    ),
    *(
        Claim(
            f"simulatability-{group}",
            "simulatability",
            paper.Claim(f"where the prediction is {group}, {claim.words}", claim.where),
            "in figures alone",
            "simulatability",
            partial(applications.simulator_learns, group=group),
        )
        for group, claim in ((group, paper.SIMULATABILITY_CLAIMS[group]) for group in (RIGHT, WRONG))
    ),
    Claim(
        "few-helpful-edges",
        "visualization",
        paper.EDGES_CLAIM,
        f"{min(share for share, _ in _EDGES):.0%} to {max(share for share, _ in _EDGES):.0%} help, "
        f"{min(times for _, times in _EDGES):.1f} to {max(times for _, times in _EDGES):.1f} times as strong",
        "slices-nli-2",
        applications.few_helpful_edges,
    ),
    Claim(
        "slices-alike",
        "visualization",
        paper.SLICES_CLAIM,
        f"correlations of {min(_PAIRS)} to {max(_PAIRS)}",
        "correlations-nli-2",
        applications.slices_alike,
    ),
    Claim(
        "lexical-overlap",
        "visualization",
        paper.VISUALIZATION_CLAIM,
        "in figures alone",
        "graph-hans",
        applications.lexical_overlap_dominates,
    ),
    *(
        Claim(
            name, name, claim, _gain(name), picture, partial(applications.helpful_gains_most, papers=paper.GAINS[name])
        )
        for name, claim, picture in (
            ("correction-mnli", paper.GAIN_CLAIMS["correction-mnli"], "accuracy"),
            ("augmentation-hans", paper.GAIN_CLAIMS["augmentation-hans"], "accuracy"),
            ("augmentation-anli", paper.GAIN_CLAIMS["augmentation-anli"], "courses"),
        )
    ),
    Claim(
        "no-gain-on-reviews",
        "amazon",
        paper.Claim(f"on Amazon reviews nothing is gained: {paper.AMAZON_CLAIM.words}", paper.AMAZON_CLAIM.where),
        "in figures alone",
        "amazon",
        applications.no_gain_on_reviews,
    ),
)

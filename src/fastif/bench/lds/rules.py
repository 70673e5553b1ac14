"""Rules for the damping that need no retraining: functions of the spectrum, the number of examples and the recipe."""

from collections.abc import Callable
from dataclasses import dataclass

from fastif.damping import automatic_damping, damping_at
from fastif.spectrum import Spectrum


@dataclass(frozen=True)
class Facts:
    """What a rule may look at; `rank` is the most that H can have, min(p, (C - 1) n), or C n if not a softmax."""

    spectrum: Spectrum
    parameters: int
    examples: int
    rank: int
    learning_time: float | None


Rule = Callable[[Facts], float | None]  # None where a rule has nothing to go by


def of_top(fraction: float) -> Rule:
    """Return the rule: a fraction of the largest eigenvalue."""
    return lambda facts: fraction * facts.spectrum.top


def of_dimension(fraction: float) -> Rule:
    """Return the rule: the damping at which the effective dimension is a fraction of the rank."""
    return lambda facts: damping_at(facts.spectrum, fraction * facts.rank)


def of_trace(fraction: float) -> Rule:
    r"""Return the rule: the damping that takes away a fraction of the trace.

    $H (H + \lambda I)^{-1} H$ is what is left of H, so that $\lambda\, d_{\mathrm{eff}}(\lambda)$ is what is lost.
    """

    def rule(facts: Facts) -> float:
        dimension, lost = facts.spectrum.effective_dimension, fraction * facts.spectrum.trace
        return _where(lambda damping: damping * dimension(damping) > lost, facts.spectrum)

    return rule


def of_learning_time(facts: Facts) -> float | None:
    """Return one over the time that gradient flow was run for: stopping early leaves flat directions as they were."""
    return 1 / facts.learning_time if facts.learning_time else None


def of_default(facts: Facts) -> float:
    """Return what `damping="auto"` is."""
    return automatic_damping(facts.spectrum, facts.rank)


def _where(enough: Callable[[float], bool], spectrum: Spectrum) -> float:
    """Return the smallest damping that is enough, by bisection."""
    low, high = 1e-12 * spectrum.top, 1e3 * spectrum.top
    for _ in range(100):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


RULES: dict[str, Rule] = {
    "0.2 % of top": of_top(0.002),
    "0.5 % of top": of_top(0.005),
    "1 % of top": of_top(0.01),
    "d_eff = 4.5 % of rank": of_dimension(0.045),
    "between 0.5 % of top and d_eff": of_default,
    "0.1 x mean eigenvalue": lambda facts: 0.1 * facts.spectrum.trace / facts.parameters,
    "mean eigenvalue": lambda facts: facts.spectrum.trace / facts.parameters,
    "trace / n": lambda facts: facts.spectrum.trace / facts.examples,
    "10 % of trace lost": of_trace(0.1),
    "1 / learning time": of_learning_time,
}

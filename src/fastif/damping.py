"""How much to add to the diagonal of H, when the user does not say.

Damping matters more than the solver: too little and noise in flat directions drowns the answer, too much and the answer
turns into a plain gradient dot product. Why this rule: docs/decisions/004-damping-from-the-spectrum.md.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

from fastif.errors import ConfigurationError, FastifWarning, SingularMatrixError
from fastif.spectrum import Spectrum

FRACTION_OF_TOP = 0.005
FRACTION_OF_RANK = 0.045
LEAST, MOST = 0.001, 0.02  # of the largest eigenvalue: what the measurements behind the rule cover
FLAT = 1e-6  # of the weight decay: a largest eigenvalue of the loss below it is none
FLAT_LOSS = (
    "The loss does not bend at these outputs, as with an absolute error, or with nll_loss, which bends in the logits "
    "and not in their log_softmax: use another loss, such as cross_entropy on the logits"
)
NEGATIVE_MARGIN = 1.5  # of |lambda_min|, where the curvature has negative eigenvalues


@dataclass(frozen=True)
class Damping:
    """The damping in use, and what it means for this model; None where the solver uses none."""

    value: float | None
    chosen_by: str
    top_eigenvalue: float | None = None
    effective_dimension: float | None = None
    spectrum_is_exact: bool = False

    @property
    def fraction_of_top(self) -> float | None:
        """Damping / lambda_max."""
        return self.value / self.top_eigenvalue if self.value is not None and self.top_eigenvalue else None

    def as_json(self) -> dict[str, Any]:
        """Return what belongs in the record of a run."""
        return {
            "damping": self.value,
            "damping_chosen_by": self.chosen_by,
            "top_eigenvalue": self.top_eigenvalue,
            "damping_over_top_eigenvalue": self.fraction_of_top,
            "effective_dimension": self.effective_dimension,
            "spectrum_is_exact": self.spectrum_is_exact,
        }

    def __str__(self) -> str:
        if self.value is None:
            return "no damping"
        words = f"damping {self.value:.3g}, {self.chosen_by}"
        if self.fraction_of_top is not None:
            words += f" ({100 * self.fraction_of_top:.3g} % of the top eigenvalue {self.top_eigenvalue:.3g}"
            words += f"; effective dimension {self.effective_dimension:.0f})"
        return words


def choose_damping(
    damping: float | str,
    spectrum: Spectrum | None,
    *,
    rank: int,
    weight_decay: float = 0.0,
    own: float | None = None,
) -> Damping:
    """Return the user's damping, or the default for this spectrum, or what a solver brings along of its own.

    >>> import torch
    >>> spectrum = Spectrum(torch.tensor([4.0, 0.0]), torch.ones(2), exact=True)
    >>> choose_damping(0.5, spectrum, rank=2).fraction_of_top
    0.125
    """
    if spectrum is None:
        return Damping(own, "set by the solver")
    automatic = damping == "auto"
    if automatic:
        value = automatic_damping(spectrum, rank, weight_decay=weight_decay)
    elif isinstance(damping, str):
        raise ConfigurationError(f'damping must be a number or "auto", not {damping!r}.')
    else:
        value = float(damping)
        if spectrum.top <= (1 + FLAT) * weight_decay and spectrum.bottom >= 0:
            warnings.warn(
                "the curvature of the loss is zero, so that scores are plain inner products of gradients divided by "
                f"{value + weight_decay:.3g}. {FLAT_LOSS}, or fastif.Identity() if that is what you want.",
                FastifWarning,
                stacklevel=2,
            )
    dimension = spectrum.effective_dimension(value)
    return Damping(value, "automatic" if automatic else "given", spectrum.top, dimension, spectrum.exact)


def automatic_damping(spectrum: Spectrum, rank: int, *, weight_decay: float = 0.0) -> float:
    r"""Return $\sqrt{0.005\,\lambda_{\max} \cdot \lambda_d}$, and enough to lift negative eigenvalues above zero.

    $\lambda_d$ is the damping at which the effective dimension is 4.5 % of the largest rank that H can have,
    `min(p, (C - 1) n)` for p parameters, n examples and C classes. The first factor alone keeps too much where many
    directions count, the second alone depends on how the tail of the spectrum falls off: between them is best.

    >>> import torch
    >>> flat = Spectrum(torch.ones(100), torch.ones(100), exact=True)  # d_eff = 100 / (1 + damping), never 4.5 nearby
    >>> automatic_damping(flat, rank=100)
    0.02
    """
    if spectrum.top <= 0:
        raise SingularMatrixError(
            f"the curvature is zero (its largest eigenvalue is {spectrum.top:.3g}), so that no damping can be found "
            f"from it. {FLAT_LOSS}, give damping= a number, or use fastif.Identity()."
        )
    # Ritz values may lie within rounding of zero on either side; only a real negative eigenvalue counts
    negative = -spectrum.bottom if spectrum.bottom < -1e-6 * spectrum.top else 0.0
    # weight decay lifts all p eigenvalues, also those of directions that no example says anything about
    of_loss = Spectrum(spectrum.values - weight_decay, spectrum.weights, spectrum.exact)
    between = math.sqrt(FRACTION_OF_TOP * spectrum.top * damping_at(of_loss, FRACTION_OF_RANK * rank))
    return max(min(max(between, LEAST * spectrum.top), MOST * spectrum.top), NEGATIVE_MARGIN * negative)


def damping_at(spectrum: Spectrum, dimension: float) -> float:
    """Return the damping at which the positive eigenvalues have this effective dimension, by bisection.

    >>> import torch
    >>> two = Spectrum(torch.tensor([1.0, 1.0]), torch.ones(2), exact=True)
    >>> damping_at(two, 1.0)  # 2 / (1 + damping) = 1
    1.0
    """
    kept = spectrum.values > 0
    positive = Spectrum(spectrum.values[kept], spectrum.weights[kept], spectrum.exact)
    low, high = 1e-12 * spectrum.scale, 1e3 * spectrum.scale
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if positive.effective_dimension(middle) < dimension else (middle, high)
    return high

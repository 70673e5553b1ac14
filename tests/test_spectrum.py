"""Top, bottom, trace and effective dimension against the eigenvalues of the dense oracle."""

import pytest
import torch

import fastif
from fastif.spectrum import lanczos_spectrum, trace
from tests.problems import CASE_NAMES, CURVATURES, matrix, operator_of

PROBES = 16


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_both_ends_and_the_effective_dimension(name: str, curvature: str) -> None:
    true = torch.linalg.eigvalsh(matrix(name, curvature))
    scale = float(true.abs().max())
    spectrum = lanczos_spectrum(operator_of(name, curvature), probes=PROBES)
    assert spectrum.top == pytest.approx(float(true[-1]), abs=0.01 * scale)
    assert spectrum.bottom == pytest.approx(float(true[0]), abs=0.01 * scale)
    damping = 0.05 * scale + 2 * max(0.0, -float(true[0]))
    kept = true / (true + damping)
    # a Gaussian probe estimates sum_i kept_i with the variance 2 sum_i kept_i^2
    sampling_error = float((2 * kept.square().sum() / PROBES).sqrt())
    assert abs(spectrum.effective_dimension(damping) - float(kept.sum())) < 4 * sampling_error


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_the_trace_lies_within_four_standard_errors(name: str, curvature: str) -> None:
    estimate, error = trace(operator_of(name, curvature), probes=200)
    true = float(matrix(name, curvature).trace())
    assert abs(estimate - true) < 4 * error
    assert error < 0.3 * float(matrix(name, curvature).norm())


def test_weight_decay_shifts_every_eigenvalue() -> None:
    plain = lanczos_spectrum(operator_of("mlp_dropout"))
    shifted = lanczos_spectrum(operator_of("mlp_dropout", weight_decay=3.0))
    assert shifted.top == pytest.approx(plain.top + 3, rel=1e-3)
    assert shifted.bottom == pytest.approx(plain.bottom + 3, rel=1e-3)


def test_a_dense_spectrum_is_exact() -> None:
    true = torch.linalg.eigvalsh(matrix("mlp_dropout", "gauss-newton"))
    for form in ("primal", "dual"):
        spectrum = fastif.Exact(form=form).prepare(operator_of("mlp_dropout")).spectrum()
        assert spectrum.exact
        assert spectrum.trace == pytest.approx(float(true.sum()))
        assert spectrum.effective_dimension(0.1) == pytest.approx(float((true / (true + 0.1)).sum()))
        assert float(spectrum.weights.sum()) == pytest.approx(len(true))

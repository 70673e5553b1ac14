"""Woodbury: what it keeps, what it makes of that, and what it says where it cannot."""

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif import formed, vectors
from fastif.capture import Factor, Outer
from fastif.curvature import CurvatureOperator
from fastif.errors import (
    ConfigurationError,
    ConvergenceWarning,
    FastifWarning,
    NonFiniteError,
    SingularMatrixError,
)
from fastif.solvers import row_products
from fastif.solvers.demand import can_be_kept, demand, formed_bytes
from fastif.solvers.kept_rows import KeptRows
from tests.problems import CORE_NAMES, as_block, gradients, matrix, operator_of, relative_error

CAPTURED = CORE_NAMES


def rows_of(operator: CurvatureOperator) -> Tensor:
    """All rows, formed one after another in the order of the batches."""
    found = []
    for batch in operator.batches():
        found += [vectors.flatten(rows) for rows, _ in operator.jacobian.signed_rows(batch)]
    return torch.cat(found)


def test_most_kinds_of_model_can_be_kept() -> None:
    assert sum(can_be_kept(operator_of(name)) for name in CAPTURED) >= len(CAPTURED) / 2


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("share", [0.0, 1e9], ids=["formed", "by factors"])
def test_kept_rows_multiply_as_rows_do(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = operator_of(name)
    if not can_be_kept(operator):
        pytest.skip("layers that cannot be captured")
    monkeypatch.setitem(row_products.GHOST_SHARE, "cpu", share)
    monkeypatch.setattr(row_products, "BYTES", 2**12)  # a few units of a layer at a time
    monkeypatch.setitem(row_products.TOGETHER, "cpu", 7)
    monkeypatch.setattr(formed, "CACHED_BYTES", 2**9)  # and a few outputs of a layer
    kept, dense = KeptRows(operator), rows_of(operator)
    assert kept.count == len(dense)
    assert relative_error(kept.gram(), dense @ dense.T) < 1e-12
    for width in (1, 60):  # by factors, and formed
        block = vectors.random(operator.model.parameters, width, seed=1)
        weights = torch.randn(width, kept.count, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        assert relative_error(kept.times(block), vectors.flatten(block) @ dense.T) < 1e-12
        assert relative_error(vectors.flatten(kept.summed(weights, block)), weights @ dense) < 1e-12


@pytest.mark.parametrize("name", CAPTURED)
def test_it_has_the_whole_spectrum(name: str) -> None:
    operator = operator_of(name)
    if not can_be_kept(operator):
        pytest.skip("layers that cannot be captured")
    spectrum = fastif.Woodbury().prepare(operator).spectrum()
    true = torch.linalg.eigvalsh(matrix(name, "gauss-newton"))
    assert spectrum.exact
    assert spectrum.top == pytest.approx(float(true.max()))
    assert spectrum.trace == pytest.approx(float(true.sum()))
    assert float(spectrum.weights.sum()) == pytest.approx(operator.size)
    assert spectrum.effective_dimension(0.01) == pytest.approx(float((true / (true + 0.01)).sum()), abs=1e-6)


def test_weight_decay_counts_as_damping_does() -> None:
    plain, decayed = operator_of("transformer"), operator_of("transformer")
    decayed = CurvatureOperator(decayed.model, decayed.data, weight_decay=0.05)
    rows = gradients("transformer", "queries")
    one = fastif.Woodbury().prepare(plain).solve(as_block(rows, plain), 0.15)
    two = fastif.Woodbury().prepare(decayed).solve(as_block(rows, plain), 0.1)
    assert relative_error(vectors.flatten(one.value), vectors.flatten(two.value)) < 1e-9
    assert fastif.Woodbury().prepare(decayed).spectrum().bottom == pytest.approx(0.05)


def test_a_matrix_of_rows_that_is_a_little_wrong_is_made_good_by_refinement() -> None:
    operator = operator_of("transformer")
    prepared = fastif.Woodbury(tolerance=1e-5).prepare(operator)
    block = as_block(gradients("transformer", "queries"), operator)
    right = prepared.solve(block, 0.01)
    prepared.matrix.values = prepared.matrix.values * 1.01  # as tf32 might leave it
    again = prepared.solve(block, 0.01)
    assert right.iterations == 1
    assert again.iterations > 1
    assert again.converged.all()
    assert relative_error(vectors.flatten(again.value), vectors.flatten(right.value)) < 1e-3
    prepared.matrix.values = prepared.matrix.values * 5
    with pytest.warns(ConvergenceWarning, match="relative residual"):
        assert not prepared.solve(block, 0.01).converged.all()


def test_what_it_will_take_is_told_from_a_few_examples() -> None:
    operator = operator_of("transformer")
    told = demand(operator)
    seen: dict[int, int] = {}
    for chunk in KeptRows(operator)._chunks:
        for factor in (each for factors in chunk.values() for each in factors):
            for tensor in (each for each in vars(factor).values() if isinstance(each, Tensor)):
                seen[tensor.untyped_storage().data_ptr()] = tensor.nbytes
    assert 0.4 < told.bytes / sum(seen.values()) < 2.5
    assert told.products > 0


def test_no_gradient_is_formed_twice_for_the_matrix_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, entries, form = operator_of("mlp_dropout"), 0, Outer.gradients
    rows = KeptRows(operator)

    def counted(factor: Outer) -> Tensor:
        nonlocal entries
        made = form(factor)
        entries += made.numel()
        return made

    monkeypatch.setattr(Outer, "gradients", counted)
    monkeypatch.setitem(row_products.GHOST_SHARE, "cpu", 0.0)
    monkeypatch.setitem(row_products.TOGETHER, "cpu", 4)
    monkeypatch.setattr(row_products, "BYTES", 2**12)
    rows.gram()
    weights = [tensor.numel() for tensor in operator.model.parameters.values() if tensor.ndim == 2]
    assert len(rows.counts) > 1
    assert entries == rows.count * sum(weights)


def convolutions() -> CurvatureOperator:
    """Groups of many outputs, and many groups of one output."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv1d(4, 12, 3, groups=2), nn.Tanh(), nn.Conv1d(12, 12, 2, groups=12), nn.Flatten(), nn.Linear(48, 3)
    ).double()
    data = fastif.Examples((torch.randn(40, 4, 7, dtype=torch.float64), torch.arange(40) % 3))
    return CurvatureOperator(fastif.TorchModel(network, loss="cross_entropy"), data, batch_size=13)


@pytest.mark.parametrize("make", [convolutions, lambda: operator_of("transformer")], ids=["grouped", "transformer"])
def test_what_is_formed_for_the_matrix_of_rows_keeps_to_its_memory(
    make: Callable[[], CurvatureOperator], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make()
    rows, form, alive, most = KeptRows(operator), row_products.formed, 0, 0

    def gone(size: int) -> None:
        nonlocal alive
        alive -= size

    def watched(factors: Sequence[Factor]) -> Tensor:
        nonlocal alive, most
        made = form(factors)
        alive += made.nbytes
        most = max(most, alive)
        weakref.finalize(made, gone, made.nbytes)
        return made

    monkeypatch.setattr(row_products, "formed", watched)
    monkeypatch.setitem(row_products.GHOST_SHARE, "cpu", 0.0)
    wide = max(tensor.shape[0] for tensor in operator.model.parameters.values())  # a bias is not cut
    into = max(tensor[0].numel() for tensor in operator.model.parameters.values())
    monkeypatch.setattr(row_products, "BYTES", 8 * rows.count * max(wide, 2 * into))
    assert relative_error(rows.gram(), rows_of(operator) @ rows_of(operator).T) < 1e-12
    assert 0 < most <= row_products.BYTES
    assert most < 8 * rows.count * max(tensor.numel() for tensor in operator.model.parameters.values())


def test_what_is_formed_on_the_way_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, largest, form = operator_of("mlp_dropout"), 0, Outer.gradients
    rows = KeptRows(operator)

    def watched(factor: Outer) -> Tensor:
        nonlocal largest
        made = form(factor)
        largest = max(largest, made.nbytes)
        return made

    monkeypatch.setattr(Outer, "gradients", watched)
    rows.times(vectors.random(operator.model.parameters, 60, seed=1))
    assert largest == formed_bytes(operator, 60, max(rows.counts)) > 0


class Wide(nn.Module):
    """A loss that is not convex in its outputs."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.cos(outputs).sum(dim=1)


@pytest.mark.parametrize(
    ("module", "loss", "curvature", "word"),
    [
        (nn.Linear(3, 2), "cross_entropy", "hessian", "gauss-newton"),
        (nn.Linear(3, 2), Wide(), "gauss-newton", "not convex"),
        (nn.Sequential(nn.Flatten(), nn.Bilinear(3, 3, 2)), "cross_entropy", "gauss-newton", "captured"),
    ],
)
def test_it_says_what_it_cannot_do(module: nn.Module, loss: Any, curvature: Any, word: str) -> None:
    if isinstance(module, nn.Sequential):
        bilinear = module[1]
        module = nn.Module()
        module.add_module("bilinear", bilinear)
        module.forward = lambda x: bilinear(x, x)  # type: ignore[method-assign]
    data = fastif.Examples((torch.randn(6, 3), torch.randint(0, 2, (6,))))
    operator = CurvatureOperator(fastif.TorchModel(module, loss=loss), data, kind=curvature)
    with pytest.raises(ConfigurationError, match=word):
        fastif.Woodbury().prepare(operator)


@pytest.mark.parametrize("name", CAPTURED)
@pytest.mark.parametrize("most", [3, 11])
def test_the_longest_rows_are_found_whatever_the_batches(name: str, most: int) -> None:
    operator = operator_of(name)
    if not can_be_kept(operator):
        pytest.skip("layers that cannot be captured")
    dense = rows_of(operator)
    lengths = dense.square().sum(dim=1)
    longest = dense[lengths.argsort(descending=True)[:most]]
    kept = KeptRows(operator, most)
    assert (kept.count, kept.seen) == (most, len(dense))
    assert kept.share_of_trace == pytest.approx(float(longest.square().sum() / lengths.sum()))
    values = torch.linalg.eigvalsh(kept.gram())
    assert relative_error(values, torch.linalg.eigvalsh(longest @ longest.T)) < 1e-9
    block = vectors.random(operator.model.parameters, 2, seed=1)
    seen = kept.times(block).square().sum(dim=1)
    assert relative_error(seen, (vectors.flatten(block) @ longest.T).square().sum(dim=1)) < 1e-9


def test_a_solve_by_the_longest_rows_is_that_of_their_matrix() -> None:
    operator = operator_of("transformer")
    dense = rows_of(operator)
    longest = dense[dense.square().sum(dim=1).argsort(descending=True)[:9]]
    queries = gradients("transformer", "queries")
    damped = longest.T @ longest / operator.examples + 0.05 * torch.eye(operator.size, dtype=torch.float64)
    prepared = fastif.Woodbury(rows=9).prepare(operator)
    found = prepared.solve(as_block(queries, operator), 0.05)
    assert relative_error(vectors.flatten(found.value), torch.linalg.solve(damped, queries.T).T) < 1e-9
    assert f"the longest 9 of {len(dense):,} Jacobian rows" in prepared.description
    assert "of the trace" in prepared.description
    assert not prepared.spectrum().exact
    everything = fastif.Woodbury(rows=10**6).prepare(operator)
    assert everything.spectrum().exact
    assert "longest" not in everything.description


def test_no_damping_is_refused_and_knobs_are_checked() -> None:
    operator = operator_of("transformer")
    with pytest.raises(SingularMatrixError, match="damping"):
        fastif.Woodbury().prepare(operator).solve(as_block(gradients("transformer", "queries"), operator), 0.0)
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        fastif.Woodbury(tolerance=2.0)
    with pytest.raises(ConfigurationError, match="at least 1"):
        fastif.Woodbury(rows=0)


def test_a_float32_model_reaches_its_tolerance_without_a_word() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(60, 20), torch.randint(0, 3, (60,))
    module = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FastifWarning)
        explainer = fastif.Explainer(fastif.TorchModel(module, "cross_entropy"), (x, y), solver=fastif.Woodbury())
        scores = explainer.scores((x[:5], y[:5]))
    exact = fastif.Explainer(fastif.TorchModel(module, "cross_entropy"), (x, y), solver=fastif.Exact())
    assert relative_error(scores.values, exact.scores((x[:5], y[:5])).values) < 1e-3
    assert max(scores.provenance["residuals"]) <= 1e-4


def a_small_problem() -> tuple[fastif.TorchModel, Any]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)).double()
    x, y = torch.randn(60, 12, dtype=torch.float64), torch.randint(0, 4, (60,))
    return fastif.TorchModel(module, "cross_entropy"), (x, y)


@pytest.mark.parametrize("rows", [None, 30])
def test_a_matrix_that_was_kept_serves_its_own_rows_alone(rows: int | None) -> None:
    """Rows come in the order of the batches, which may be others when a run goes on."""
    model, data = a_small_problem()
    kept: dict[str, Any] = {}
    made: list[str] = []

    def keep(name: str, make: Any) -> Any:
        if name not in kept:
            made.append(name)
            kept[name] = make()
        return kept[name]

    found = []
    for batch_size in (16, 16, 60):
        operator = CurvatureOperator(model, fastif.Examples(data), batch_size=batch_size, keep=keep)
        prepared = fastif.Woodbury(rows=rows).prepare(operator)
        block = vectors.random(model.parameters, 2, seed=1)
        found.append(vectors.flatten(prepared.solve(block, 0.01).value))
    assert len([name for name in made if "matrix" in name]) == 2
    for each in found[1:]:
        assert relative_error(each, found[0]) < 1e-9
    for tensors in (each for name, each in kept.items() if "matrix" in name):
        tensors["rotation"][:, 3] *= -1  # the same matrix
        tensors["rotation"][3] *= -1  # another one: the fourth row was its negative
    operator = CurvatureOperator(model, fastif.Examples(data), batch_size=16, keep=keep)
    again = fastif.Woodbury(rows=rows).prepare(operator).solve(vectors.random(model.parameters, 2, seed=1), 0.01)
    assert relative_error(vectors.flatten(again.value), found[0]) < 1e-9


@pytest.mark.parametrize("rows", [None, 30])
def test_a_row_that_is_not_finite_is_told_of(rows: int | None) -> None:
    model, (x, y) = a_small_problem()
    x[17] = 1e308  # finite, and its gradient is not
    operator = CurvatureOperator(model, fastif.Examples((x, y)))
    with pytest.raises(NonFiniteError):
        fastif.Woodbury(rows=rows).prepare(operator)


def test_rows_that_are_left_out_count_for_the_damping() -> None:
    model, data = a_small_problem()
    found = {}
    for rows in (None, 60, 20):
        explainer = fastif.Explainer(model, data, solver=fastif.Woodbury(rows=rows))
        found[rows] = explainer.scores((data[0][:1], data[1][:1])).provenance["damping"]
        spectrum = fastif.Woodbury(rows=rows).prepare(CurvatureOperator(model, fastif.Examples(data))).spectrum()
        whole = fastif.Woodbury().prepare(CurvatureOperator(model, fastif.Examples(data))).spectrum()
        assert spectrum.trace == pytest.approx(whole.trace)
        assert float(spectrum.weights.sum()) == vectors.size(model.parameters)
    assert found[60] == pytest.approx(found[None], rel=0.3)
    assert found[20] == pytest.approx(found[None], rel=1.0)

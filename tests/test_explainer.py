"""The whole way from a model to scores: against the dense oracle, and what the contract promises."""

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import fastif
from fastif import vectors
from fastif.damping import automatic_damping
from fastif.errors import ConfigurationError, PrecisionWarning
from fastif.resources import Resources
from fastif.spectrum import Spectrum
from tests import oracles
from tests.problems import (
    CASE_NAMES,
    CORE_NAMES,
    CURVATURES,
    case,
    gradients,
    matrix,
    model_of,
    relative_error,
    safe_damping,
)

SOLVERS: dict[str, Any] = {
    "exact": fastif.Exact(),
    "primal": fastif.Exact(form="primal"),
    "cg": fastif.ConjugateGradient(tolerance=1e-9),
    "preconditioned cg": fastif.ConjugateGradient(tolerance=1e-9, preconditioner_rank=10),
}
ROUTES = [
    pytest.param(
        name,
        curvature,
        solver,
        marks=[] if name in CORE_NAMES or solver == "exact" else [pytest.mark.slow],
        id=f"{name}-{curvature}-{solver}",
    )
    for name in CASE_NAMES
    for solver in SOLVERS
    for curvature in CURVATURES
    if (solver, curvature) != ("preconditioned cg", "hessian")  # a Nystrom sketch needs a positive matrix
]


@pytest.mark.parametrize(("name", "curvature", "solver"), ROUTES)
def test_scores_equal_the_dense_oracle(name: str, curvature: str, solver: str) -> None:
    it = case(name)
    damping = safe_damping(name, curvature)
    explainer = fastif.Explainer(
        model_of(it), it.train, solver=SOLVERS[solver], curvature=curvature, damping=damping, batch_size=13
    )
    expected = oracles.influence(gradients(name, "queries"), matrix(name, curvature), gradients(name, "train"), damping)
    assert relative_error(explainer.scores(it.queries).values, expected) < 1e-6


@pytest.mark.parametrize("name", CASE_NAMES)
def test_self_influence_equals_the_dense_oracle_and_is_never_negative(name: str) -> None:
    it = case(name)
    explainer = fastif.Explainer(model_of(it), it.train, damping=0.03)
    values = explainer.self_influence()
    expected = oracles.self_influence(matrix(name, "gauss-newton"), gradients(name, "train"), 0.03)
    assert relative_error(values, expected) < 1e-6
    assert (values >= 0).all()


@pytest.mark.parametrize("name", CASE_NAMES)
def test_float32_agrees_with_the_float64_oracle(name: str) -> None:
    it = case(name, torch.float32)
    scores = fastif.Explainer(model_of(it), it.train, damping=0.03).scores(it.queries)
    ggn = matrix(name, "gauss-newton")
    expected = oracles.influence(gradients(name, "queries"), ggn, gradients(name, "train"), 0.03)
    assert scores.values.dtype == torch.float32
    assert relative_error(scores.values.double(), expected) < 1e-3


LAYERS = {
    "tanh": lambda width: [nn.Tanh()],
    "gelu and layer norm": lambda width: [nn.GELU(), nn.LayerNorm(width)],
    "sigmoid and dropout": lambda width: [nn.Sigmoid(), nn.Dropout(0.5)],
    "batch norm": lambda width: [nn.BatchNorm1d(width), nn.SiLU()],
    "convolution": lambda width: [nn.Unflatten(1, (1, width)), nn.Conv1d(1, 1, 1), nn.Flatten(), nn.Softplus()],
}


@pytest.mark.filterwarnings("ignore:the curvature of the loss is zero")  # of a softmax over one class
@settings(max_examples=25)
@given(
    features=st.integers(1, 4),
    width=st.integers(1, 4),
    outputs=st.integers(1, 3),
    examples=st.integers(2, 9),
    batch_size=st.integers(1, 10),
    damping=st.floats(1e-3, 10),
    layer=st.sampled_from(sorted(LAYERS)),
    loss=st.sampled_from(["cross_entropy", "mse_loss", "binary_cross_entropy_with_logits"]),
    route=st.sampled_from([(s, c) for s in SOLVERS for c in CURVATURES if (s, c) != ("preconditioned cg", "hessian")]),
    seed=st.integers(0, 1000),
)
def test_any_small_network_agrees_with_the_oracle(
    features: int,
    width: int,
    outputs: int,
    examples: int,
    batch_size: int,
    damping: float,
    layer: str,
    loss: str,
    route: tuple[str, str],
    seed: int,
) -> None:
    solver, curvature = route
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(features, width), *LAYERS[layer](width), nn.Linear(width, outputs)).double()
    module[0].weight.requires_grad_(bool(seed % 3))  # now and then a frozen parameter
    x = torch.randn(examples, features, dtype=torch.float64)
    if loss == "cross_entropy":
        y: Tensor = torch.randint(0, outputs, (examples,))
    else:
        y = torch.rand(examples, outputs, dtype=torch.float64)
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    rows = oracles.per_example_gradients(module, names, loss, (x, y))
    dense = oracles.dense_ggn if curvature == "gauss-newton" else oracles.dense_hessian
    curved = dense(module, names, loss, (x, y))
    damping += 1.5 * max(0.0, -float(torch.linalg.eigvalsh(curved)[0]))
    expected = oracles.influence(rows[:2], curved, rows, damping)
    options = {"solver": SOLVERS[solver], "damping": damping, "curvature": curvature, "batch_size": batch_size}
    explainer = fastif.Explainer(fastif.TorchModel(module, loss=loss), (x, y), **options)
    seen = explainer.scores((x[:2], y[:2])).values
    torch.testing.assert_close(seen, expected, rtol=1e-6, atol=1e-9 * (1 + float(expected.abs().max())))


def small() -> Any:
    return case("mlp_dropout")


def explainer_of(**options: Any) -> fastif.Explainer:
    return fastif.Explainer(model_of(small()), small().train, **{"damping": 0.03, **options})


def expected_scores(damping: float = 0.03, weight_decay: float = 0.0) -> Tensor:
    ggn = matrix("mlp_dropout", "gauss-newton")
    return oracles.influence(
        gradients("mlp_dropout", "queries"), ggn, gradients("mlp_dropout", "train"), damping + weight_decay
    )


def test_columns_are_the_training_examples_in_their_order() -> None:
    scores = explainer_of().scores(small().queries)
    assert scores.values.shape == (4, 24)
    assert scores.values.device.type == "cpu"
    assert scores.train_ids.dtype == torch.int64
    assert torch.equal(scores.train_ids, torch.arange(24).expand(4, 24))


def test_given_candidates_are_scored_in_their_order() -> None:
    scores = explainer_of(candidates=[7, 3, 20]).scores(small().queries)
    assert scores.train_ids[1].tolist() == [7, 3, 20]
    torch.testing.assert_close(scores.values, expected_scores()[:, [7, 3, 20]])


def test_weight_decay_adds_itself_on_top_of_damping() -> None:
    for solver in SOLVERS.values():
        scores = explainer_of(weight_decay=0.2, damping=0.1, solver=solver).scores(small().queries)
        torch.testing.assert_close(scores.values, expected_scores(0.1, 0.2), rtol=1e-6, atol=1e-8)


def test_reduce_mean_is_the_influence_on_the_mean_loss() -> None:
    group = explainer_of().scores(small().queries, reduce="mean")
    assert group.values.shape == (1, 24)
    torch.testing.assert_close(group.values[0], expected_scores().mean(dim=0))


def test_reduce_mean_over_several_blocks_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.resources.MOST_QUERIES_AT_ONCE", 3)
    assert len(explainer_of().scores(small().queries)) == 4
    torch.testing.assert_close(explainer_of().scores(small().queries).values, expected_scores())
    group = explainer_of().scores(small().queries, reduce="mean")
    torch.testing.assert_close(group.values[0], expected_scores().mean(dim=0))


def test_solutions_of_several_blocks_are_scored_in_one_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resources, "queries_at_once", lambda self, queries, held: 3)
    seen: list[tuple[str, int]] = []
    explainer = explainer_of(progress=lambda stage, done, total: seen.append((stage, done)))
    torch.testing.assert_close(explainer.scores(small().queries).values, expected_scores())
    assert seen.count(("scoring", 0)) == 1


@dataclass(frozen=True)
class FewAtATime:
    """A solver whose memory ends with two vectors."""

    solver: Any
    tried: list[int] = field(default_factory=list)

    def prepare(self, operator: Any) -> Any:
        prepared = self.solver.prepare(operator)
        solve = prepared.solve

        def short_of_memory(block: Any, damping: float) -> Any:
            self.tried.append(vectors.width(block))
            if self.tried[-1] > 2:
                raise torch.OutOfMemoryError
            return solve(block, damping)

        prepared.solve = short_of_memory
        return prepared


def test_queries_that_do_not_fit_together_are_solved_in_parts() -> None:
    solver = FewAtATime(fastif.ConjugateGradient(tolerance=1e-10))
    explained = explainer_of(solver=solver).explain(small().queries, top=3)
    torch.testing.assert_close(explained.scores.values, expected_scores())
    assert solver.tried == [4, 2, 2]
    torch.testing.assert_close(explainer_of(solver=solver).scores(small().queries).values, expected_scores())
    assert len(explained.scores.provenance["converged"]) == len(explained) == 4


def test_the_strongest_are_scored_in_float32_where_the_scan_is_in_half(monkeypatch: pytest.MonkeyPatch) -> None:
    it = case("mlp_dropout", torch.float32)
    exact = fastif.Explainer(model_of(it), it.train, damping=0.1)
    expected, listed = exact.scores(it.queries).values, exact.explain(it.queries, top=3)
    half = property(lambda self: self.model.in_half(torch.bfloat16))
    monkeypatch.setattr(Resources, "half", half)  # whatever this CPU has
    rough = fastif.Explainer(model_of(it), it.train, damping=0.1)
    assert relative_error(rough.scores(it.queries).values, expected) > 1e-4
    explanation = rough.explain(it.queries, top=3)
    assert explanation.scores.provenance["scoring"][-1] == "the strongest of each query in float32"
    for mine, right in zip(explanation, listed, strict=True):
        for side in ("helpful", "harmful"):
            assert [each.index for each in getattr(mine, side)] == [each.index for each in getattr(right, side)]
            seen, true = ([each.score for each in getattr(one, side)] for one in (mine, right))
            assert seen == pytest.approx(true, rel=1e-5)


def test_a_user_hears_that_half_precision_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    it = case("lstm", torch.float32)
    monkeypatch.setattr(Resources, "half", property(lambda self: self.model.in_half(torch.bfloat16)))
    explainer = fastif.Explainer(model_of(it), it.train, damping=0.1)
    with pytest.warns(PrecisionWarning, match="all scores were computed in the model's own precision"):
        explainer.scores(it.queries)


def test_hessian_data_may_differ_from_the_examples_that_are_scored() -> None:
    it = small()
    pool = tuple(column[:5] for column in it.train)
    explainer = fastif.Explainer(model_of(it), pool, hessian_data=it.train, damping=0.03)
    torch.testing.assert_close(explainer.scores(it.queries).values, expected_scores()[:, :5])


def test_a_measure_replaces_the_loss_of_the_query_alone() -> None:
    it = small()

    def first_logit(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0]

    rows = oracles.per_example_gradients(it.module, it.names, first_logit, it.queries)
    ggn = matrix("mlp_dropout", "gauss-newton")
    expected = oracles.influence(rows, ggn, gradients("mlp_dropout", "train"), 0.03)
    torch.testing.assert_close(explainer_of(measure=first_logit).scores(it.queries).values, expected)


def test_the_margin_keeps_the_sign_convention() -> None:
    """Two classes: the margin is a falling function of the loss, so both rank training examples alike."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 3), torch.randint(0, 2, (30,))
    model = fastif.TorchModel(nn.Linear(3, 2), loss="cross_entropy")
    of = {
        measure: fastif.Explainer(model, (x, y), measure=measure, damping=0.1).scores((x[:1], y[:1])).values[0]
        for measure in ("loss", "margin")
    }
    ratio = of["margin"] / of["loss"]
    assert (ratio > 0).all()
    torch.testing.assert_close(ratio, ratio[:1].expand(30), rtol=1e-4, atol=0)


def test_identity_is_minus_the_gradient_dot_product_and_has_no_damping() -> None:
    explainer = explainer_of(solver=fastif.Identity(), damping="auto")
    expected = -gradients("mlp_dropout", "queries") @ gradients("mlp_dropout", "train").T
    torch.testing.assert_close(explainer.scores(small().queries).values, expected)
    assert explainer.damping.value is None
    assert "no damping" in explainer.summary()


@pytest.mark.parametrize("name", CORE_NAMES)
def test_automatic_damping_follows_its_rule_whatever_the_solver(name: str) -> None:
    it = case(name)
    values = torch.linalg.eigvalsh(matrix(name, "gauss-newton")).clamp_min(0)
    top = float(values[-1])
    outputs = copy.deepcopy(it.module).eval()(*it.train[:-1])  # a copy, as all tests share the module
    rank = min(len(values), len(outputs) * (outputs[0].numel() - (it.loss == "cross_entropy")))

    def surplus(damping: float) -> float:
        return float((values / (values + damping)).sum()) - 0.045 * rank

    at_dimension = scipy.optimize.brentq(surplus, 1e-9 * top, 100 * top)
    expected = min(max((0.005 * top * at_dimension) ** 0.5, 0.001 * top), 0.02 * top)
    exact = fastif.Explainer(model_of(it), it.train, solver=fastif.Exact()).damping
    assert exact.value == pytest.approx(expected, rel=1e-6)
    iterated = fastif.Explainer(model_of(it), it.train, solver=fastif.ConjugateGradient()).damping
    assert iterated.value == pytest.approx(expected, rel=0.15)  # from a quadrature of the spectrum


def test_weight_decay_does_not_count_as_directions_that_the_data_tells_apart() -> None:
    spectrum = Spectrum(torch.tensor([10.0, 1.0, 0.0, 0.0]), torch.ones(4), exact=True)
    lifted = Spectrum(spectrum.values + 0.5, spectrum.weights, exact=True)
    plain = automatic_damping(spectrum, rank=40)
    assert automatic_damping(lifted, rank=40, weight_decay=0.5) == pytest.approx(plain * (10.5 / 10) ** 0.5)


def test_automatic_damping_lifts_negative_eigenvalues_of_the_hessian() -> None:
    bottom = float(torch.linalg.eigvalsh(matrix("transformer", "hessian"))[0])
    it = case("transformer")
    for solver in (fastif.Exact(), fastif.ConjugateGradient()):
        explainer = fastif.Explainer(model_of(it), it.train, curvature="hessian", solver=solver)
        assert explainer.damping.value == pytest.approx(1.5 * abs(bottom), rel=0.02)
        assert explainer.scores(it.queries).provenance["converged"] == [True] * 4


def test_every_result_says_how_it_was_made() -> None:
    explainer = explainer_of(damping="auto")
    record = explainer.scores(small().queries).provenance
    assert record["damping"] == explainer.damping.value
    assert 0.001 <= record["damping_over_top_eigenvalue"] <= 0.02
    assert 0 < record["effective_dimension"] < 89
    assert max(record["residuals"]) < 1e-10
    assert record["method"] == explainer.solver_description
    assert "exact" in record["method"]
    assert record["scoring"] == ["captured 6 of 6 parameters"]
    one = explainer.scores(tuple(column[:1] for column in small().queries)).provenance
    assert one["scoring"] == ["forward mode, for 1 direction(s)"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    def scored(solver: Any) -> bytes:
        return explainer_of(solver=solver, damping="auto").scores(small().queries).values.numpy().tobytes()

    for solver in SOLVERS.values():
        assert scored(solver) == scored(solver)
    sampled = [scored(fastif.ConjugateGradient(subsample=12, seed=seed)) for seed in (0, 0, 1)]
    assert sampled[0] == sampled[1] != sampled[2]


@pytest.mark.parametrize("name", CORE_NAMES)
def test_the_batch_size_does_not_change_the_numbers(name: str) -> None:
    it = case(name)
    of = [fastif.Explainer(model_of(it), it.train, batch_size=size).scores(it.queries).values for size in (1, 5, 256)]
    assert relative_error(of[0], of[2]) < 1e-7
    assert relative_error(of[1], of[2]) < 1e-7


def test_the_solver_follows_from_the_size_of_model_and_data() -> None:
    x, y = torch.randn(40, 5), torch.randint(0, 3, (40,))

    def chosen(hidden: int, repeat: int = 1) -> str:
        module = nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 3))
        data = (x.repeat(repeat, 1), y.repeat(repeat))
        return fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), data).solver_description

    assert chosen(2) == "exact, 21 x 21 matrix"
    assert chosen(1000) == "exact, 80 x 80 matrix in the dual"
    assert chosen(5000, repeat=30) == "by Woodbury's identity, 2,400 Jacobian rows of 1,200 examples"
    assert chosen(1000, repeat=50).startswith("conjugate gradients on 2,000 examples")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"solver": "newton"}, "solver"),
        ({"damping": "small"}, "damping"),
        ({"damping": float("nan")}, "damping"),
        ({"curvature": "fisher"}, "curvature"),
        ({"candidates": "some"}, "candidates"),
        ({"measure": "accuracy"}, "measure"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"batch_size": 0}, "batch_size"),
        ({"progress": "yes"}, "progress"),
    ],
)
def test_an_argument_that_cannot_work_is_named(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        explainer_of(**options)


def test_a_bare_module_is_told_to_be_wrapped() -> None:
    with pytest.raises(ConfigurationError, match="TorchModel"):
        fastif.Explainer(small().module, small().train)

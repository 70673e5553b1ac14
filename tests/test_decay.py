"""Weight decay in the gradients too: against dense autograd of loss + c/2 ||theta||^2, on every way to a score."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.errors import ConfigurationError
from fastif.keeping import Keep, Tensors
from fastif.prefix import PrefixCache
from fastif.resources import Resources
from fastif.store import RunStore
from tests import oracles
from tests.cases import Case
from tests.problems import CORE_NAMES, CURVATURES, case, gradients, matrix, model_of, relative_error, safe_damping

DECAY, DAMPING = 0.2, 0.3
NAME = "mlp_dropout"


def decayed(module: nn.Module, names: list[str], loss: Any, *, dimensions: int = 0) -> Any:
    """Return the loss with c/2 ||theta||^2 in it, of parameters of that many dimensions, for autograd."""
    plain = oracles.resolve_loss(loss)
    parameters = [each for each in oracles.select_parameters(module, names).values() if each.ndim >= dimensions]
    return lambda outputs, targets: (
        plain(outputs, targets) + DECAY / 2 * sum(each.square().sum() for each in parameters)
    )


def decayed_gradients(it: Case, part: str, *, dimensions: int = 0) -> Tensor:
    loss = decayed(it.module, it.names, it.loss, dimensions=dimensions)
    return oracles.per_example_gradients(it.module, it.names, loss, getattr(it, part))


def expected_scores(name: str = NAME, curvature: str = "gauss-newton", damping: float = DAMPING) -> Tensor:
    it, curved = case(name), matrix(name, curvature)
    return oracles.influence(decayed_gradients(it, "queries"), curved, decayed_gradients(it, "train"), damping + DECAY)


def explainer_of(it: Case | None = None, **options: Any) -> fastif.Explainer:
    it = it or case(NAME)
    usual = {"damping": DAMPING, "weight_decay": DECAY, "weight_decay_in": "everything", "batch_size": 7}
    return fastif.Explainer(model_of(it), it.train, **{**usual, **options})


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CORE_NAMES)
def test_scores_are_those_of_the_loss_with_weight_decay(name: str, curvature: str) -> None:
    it, damping = case(name), safe_damping(name, curvature)
    explainer = explainer_of(it, damping=damping, curvature=curvature, solver=fastif.Exact())
    expected = expected_scores(name, curvature, damping)
    assert relative_error(explainer.scores(it.queries).values, expected) < 1e-9


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CORE_NAMES)
def test_matrices_alone_have_it_in_their_gradients_and_the_curvature_has_it_not(name: str, curvature: str) -> None:
    it, damping = case(name), safe_damping(name, curvature)
    options: Any = {"weight_decay_in": "matrices", "curvature": curvature, "solver": fastif.Exact()}
    explainer = explainer_of(it, damping=damping, **options)
    queries, train = (decayed_gradients(it, part, dimensions=2) for part in ("queries", "train"))
    expected = oracles.influence(queries, matrix(name, curvature), train, damping)
    assert relative_error(explainer.scores(it.queries).values, expected) < 1e-9
    if any(each.ndim == 1 for each in oracles.select_parameters(it.module, it.names).values()):
        every, whole = (decayed_gradients(it, part) for part in ("queries", "train"))
        assert relative_error(expected, oracles.influence(every, matrix(name, curvature), whole, damping)) > 1e-6


@pytest.mark.parametrize("curvature", CURVATURES)
def test_the_papers_iteration_ends_there_too(curvature: str) -> None:
    scale, examples = 40.0, len(case(NAME).train[-1])
    top = float(torch.linalg.eigvalsh(matrix(NAME, curvature)).abs().max())
    assert top < scale  # or it would not converge
    paper = fastif.LiSSA.paper(damp=0.05, scale=scale, depth=600, batch_size=examples, repeats=1)
    seen = explainer_of(solver=paper, curvature=curvature, damping="auto").scores(case(NAME).queries).values
    assert relative_error(seen, expected_scores(curvature=curvature, damping=0.05 * scale)) < 1e-9


def test_without_a_curvature_it_is_the_product_of_gradients_with_decay() -> None:
    it = case(NAME)
    seen = explainer_of(solver=fastif.Identity(), damping="auto").scores(it.queries).values
    assert relative_error(seen, -decayed_gradients(it, "queries") @ decayed_gradients(it, "train").T) < 1e-9


def test_a_single_query_goes_through_forward_mode() -> None:
    it = case(NAME)
    scores = explainer_of().scores(tuple(column[:1] for column in it.queries))
    assert scores.provenance["scoring"] == ["forward mode, for 1 direction(s)"]
    assert relative_error(scores.values, expected_scores()[:1]) < 1e-9


def test_a_measure_has_the_decay_as_the_loss_has() -> None:
    it = case(NAME)

    def first_logit(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0]

    rows = oracles.per_example_gradients(it.module, it.names, decayed(it.module, it.names, first_logit), it.queries)
    expected = oracles.influence(rows, matrix(NAME, "gauss-newton"), decayed_gradients(it, "train"), DAMPING + DECAY)
    assert relative_error(explainer_of(measure=first_logit).scores(it.queries).values, expected) < 1e-9


@pytest.mark.parametrize("at_once", [3, 64])
def test_the_mean_of_queries_has_the_decay_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.resources.MOST_QUERIES_AT_ONCE", at_once)
    group = explainer_of().scores(case(NAME).queries, reduce="mean").values
    assert relative_error(group, expected_scores().mean(dim=0, keepdim=True)) < 1e-9


@pytest.mark.parametrize("candidates", [[7, 3, 20], fastif.Nearest(4), fastif.Nearest(5, by="features")], ids=str)
def test_candidates_are_scored_alike(candidates: Any) -> None:
    scores = explainer_of(candidates=candidates).scores(case(NAME).queries)
    assert relative_error(scores.values, expected_scores().gather(1, scores.train_ids)) < 1e-9


def test_the_strongest_alone_are_those_of_all() -> None:
    it, expected = case(NAME), expected_scores()
    explanation = explainer_of().explain(it.queries, top=3, scores="strongest")
    held = explanation.scores
    assert held.values.shape[1] < expected.shape[1]
    assert relative_error(held.values, expected.gather(1, held.train_ids)) < 1e-9
    for row, listed in enumerate(explanation):
        least, most = expected[row].argsort()[:3], expected[row].argsort(descending=True)[:3]
        assert [each.index for each in listed.helpful] == [int(i) for i in least if expected[row, i] < 0]
        assert [each.index for each in listed.harmful] == [int(i) for i in most if expected[row, i] > 0]


def test_the_strongest_after_half_precision_have_the_decay_once(monkeypatch: pytest.MonkeyPatch) -> None:
    it = case(NAME, torch.float32)
    monkeypatch.setattr(Resources, "half", property(lambda self: self.model.in_half(torch.bfloat16)))
    explanation = explainer_of(it).explain(it.queries, top=3)
    assert explanation.scores.provenance["scoring"][-1] == "the strongest of each query in float32"
    expected = expected_scores()
    for row, listed in enumerate(explanation):
        for each in (*listed.helpful, *listed.harmful):
            assert each.score == pytest.approx(float(expected[row, each.index]), rel=1e-3)
    assert relative_error(explanation.scores.values.double(), expected) < 0.02  # and no other way in those of half


@pytest.mark.parametrize("paper", [False, True])
def test_standard_errors_are_of_scores_with_the_decay(paper: bool) -> None:
    it = case(NAME)
    own = fastif.LiSSA(depth=20, repeats=5, batch_size=2)
    theirs = fastif.LiSSA.paper(damp=0.01, scale=40.0, depth=20, batch_size=1, repeats=5)
    explainer = explainer_of(solver=theirs if paper else own, damping="auto" if paper else 2.0)
    queries = explainer._queries(it.queries)
    samples = [
        each for solution in explainer._scored(queries, None, exact_top=3)[1] for each in solution.samples_by_vector()
    ]
    train = decayed_gradients(it, "train")
    shifts = []
    for row, listed in enumerate(explainer.explain(it.queries, top=3)):
        of_row = samples[row]
        assert of_row is not None
        flat = fastif.vectors.flatten(of_row)
        spread, plain = ((flat @ rows.T).std(dim=0) / len(flat) ** 0.5 for rows in (train, gradients(NAME, "train")))
        for each in (*listed.helpful, *listed.harmful):
            assert each.error == pytest.approx(float(spread[each.index]), rel=1e-9)
            shifts.append(abs(float(spread[each.index] / plain[each.index]) - 1))
    assert max(shifts) > 0.01  # the decay is seen in them


def layers() -> tuple[nn.Module, list[str], tuple[Tensor, Tensor]]:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    return module, ["4.weight", "4.bias"], (torch.randn(30, 4, dtype=torch.float64), torch.randint(0, 3, (30,)))


@pytest.mark.parametrize("cache", [None, PrefixCache(storage="model")], ids=["anew", "kept"])
def test_theta_is_what_influence_is_taken_through(cache: PrefixCache | None) -> None:
    module, names, (x, y) = layers()
    model = fastif.TorchModel(module, "cross_entropy", trainable=r"^4\.")
    assert model.prefix
    loss = decayed(module, names, "cross_entropy")
    rows = oracles.per_example_gradients(module, names, loss, (x, y))
    curved = oracles.dense_ggn(module, names, "cross_entropy", (x, y))
    options: Any = {"weight_decay": DECAY, "weight_decay_in": "everything", "prefix_cache": cache}
    seen = fastif.Explainer(model, (x, y), damping=DAMPING, **options).scores((x[:3], y[:3])).values
    assert relative_error(seen, oracles.influence(rows[:3], curved, rows, DAMPING + DECAY)) < 1e-9


def test_ranks_change_through_the_solution_alone() -> None:
    """With the same s the decay adds a constant; s is another one, and so is the order."""
    it, curved = case(NAME), matrix(NAME, "gauss-newton")
    both = explainer_of().scores(it.queries).values
    with_query = oracles.influence(decayed_gradients(it, "queries"), curved, gradients(NAME, "train"), DAMPING + DECAY)
    constant = both - with_query
    torch.testing.assert_close(constant, constant[:, :1].expand_as(constant))
    assert torch.equal(both.argsort(dim=1), with_query.argsort(dim=1))
    alone = explainer_of(weight_decay_in="curvature").scores(it.queries).values
    assert not torch.equal(both.argsort(dim=1), alone.argsort(dim=1))


def without_making(keep: Keep) -> Keep:
    """Find pieces, and make none."""

    def refuse() -> Tensors:
        raise AssertionError("a piece was made again")

    return lambda name, make: keep(name, refuse)


@pytest.mark.parametrize("first", ["curvature", "everything"])
@pytest.mark.parametrize("scores", ["all", "strongest"])
def test_kept_pieces_of_the_two_conventions_do_not_mix(first: Any, scores: Any, tmp_path: Path) -> None:
    def told(where: str, **options: Any) -> Tensor:
        explainer = explainer_of(weight_decay_in=where, solver=fastif.ConjugateGradient(tolerance=1e-12), **options)
        return explainer.explain(case(NAME).queries, top=2, scores=scores).scores.values

    second = "everything" if first == "curvature" else "curvature"
    fresh = {where: told(where) for where in (first, second)}
    assert relative_error(fresh[first], fresh[second]) > 0.01
    with RunStore.begin(tmp_path, {"asked": "the same"}) as store:
        for where in (first, second):
            assert relative_error(told(where, keep=store.piece), fresh[where]) < 1e-12
        for where in (first, second):  # and once more, from what was kept
            assert relative_error(told(where, keep=without_making(store.piece)), fresh[where]) < 1e-12


def test_pieces_that_a_keeper_holds_are_left_as_they_are() -> None:
    held: dict[str, Tensors] = {}

    def keep(name: str, make: Any) -> Tensors:
        return held.setdefault(name, make()) if name not in held else held[name]

    of = [explainer_of(keep=keep).scores(case(NAME).queries).values for _ in range(3)]
    assert torch.equal(of[0], of[1])
    assert torch.equal(of[0], of[2])


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("everything", "weight decay 0.2 in curvature and gradients."),
        ("matrices", "weight decay 0.2 in gradients of matrices."),
        ("curvature", "weight decay 0.2 in curvature."),
    ],
)
def test_every_result_says_where_weight_decay_stands(where: str, words: str) -> None:
    explainer = explainer_of(weight_decay_in=where)
    assert words in explainer.summary()
    record = explainer.scores(case(NAME).queries).provenance
    assert (record["weight_decay"], record["weight_decay_in"]) == (DECAY, where)


def test_a_summary_names_no_decay_where_there_is_none() -> None:
    assert "decay" not in explainer_of(weight_decay=0.0, weight_decay_in="curvature").summary()
    identity = {"solver": fastif.Identity(), "damping": "auto"}
    assert "decay" not in explainer_of(weight_decay_in="curvature", **identity).summary()
    assert "weight decay 0.2 in gradients" in explainer_of(**identity).summary()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"weight_decay_in": "gradients"},
            "weight_decay_in must be one of curvature, everything, matrices, not 'gradients'",
        ),
        ({"weight_decay": "a"}, "weight_decay must be a number, not 'a'"),
        ({"weight_decay": None}, "weight_decay must be a number, not None"),
        ({"weight_decay_in": None}, "weight_decay_in must be one of"),
        ({"weight_decay_in": ["everything"]}, "weight_decay_in must be one of"),
        ({"weight_decay": 0.0}, "nothing would change"),
        ({"weight_decay": -1.0}, "weight_decay must be zero or positive"),
    ],
)
def test_what_cannot_work_is_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        explainer_of(**options)


@pytest.mark.parametrize("ask", ["self_influence", "self_influence_with_error", "left_out"])
def test_what_knows_the_loss_alone_says_so(ask: str) -> None:
    with pytest.raises(ConfigurationError, match="weight_decay_in='curvature'"):
        getattr(explainer_of(), ask)()
    assert getattr(explainer_of(weight_decay_in="curvature"), ask)() is not None

"""Candidates: the right neighbours are found, their scores are those of the full scan, the module stays as it was."""

import copy
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif import errors, metrics, ranking, scanning
from fastif.candidates import (
    Ends,
    ExactIndex,
    Features,
    HeadGradients,
    Nearest,
    PerQuery,
    index,
    keys,
)
from fastif.candidates.probe import Probe
from fastif.candidates.recall import RecallEstimate, sample_size, weighted_recall
from fastif.derivatives import gradients
from fastif.losses import negative_margin
from tests.problems import CASE_NAMES, CORE_NAMES, case, model_of
from tests.test_model import State, Stubborn

WAYS = ("features", "head-gradient")


# --- the index --------------------------------------------------------------------------------------------------------


def whole(draw: Any, *shape: int) -> Tensor:
    """Small whole numbers: products and distances are exact, and many are equal."""
    size = torch.Size(shape).numel()
    return torch.tensor(draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))).float().reshape(shape)


@st.composite
def searches(draw: Any) -> tuple[Any, list[Any], int, int]:
    """Queries, keys in chunks, k, and how many numbers a search may hold at once."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    queries, k = draw(st.integers(1, 4)), draw(st.integers(1, sum(sizes)))

    def some_keys(count: int, positions: int) -> Any:
        if features:
            return Features(whole(draw, count, 2))
        return HeadGradients(whole(draw, count, positions, 2), whole(draw, count, positions, 3))

    features = draw(st.booleans())
    # the positions may differ from chunk to chunk, as padding does
    chunks = [some_keys(size, draw(st.integers(1, 2))) for size in sizes]
    return some_keys(queries, draw(st.integers(1, 3))), chunks, k, draw(st.sampled_from([1, 7, 2**24]))


def brute_force(queries: Any, chunks: list[Any], k: int) -> list[list[int]]:
    vectors = torch.cat([chunk.vectors() for chunk in chunks])
    expected = []
    for query in queries.vectors():
        if isinstance(queries, Features):
            distance = (vectors - query).square().sum(dim=1).tolist()
            expected.append(sorted(range(len(vectors)), key=lambda i: (distance[i], i))[:k])
            continue
        product = (vectors @ query).tolist()
        first = sorted(range(len(vectors)), key=lambda i: (-product[i], i))[: k - k // 2]
        rest = set(range(len(vectors))) - set(first)
        expected.append(first + sorted(rest, key=lambda i: (product[i], i))[: k // 2])
    return expected


@given(searches())
def test_the_index_finds_what_brute_force_finds(search: tuple[Any, list[Any], int, int]) -> None:
    queries, chunks, k, numbers = search
    with mock.patch.object(index, "NUMBERS_AT_ONCE", numbers), mock.patch.object(keys, "NUMBERS_AT_ONCE", numbers):
        found = ExactIndex().build(chunks).search(queries, k)
    assert found.dtype == torch.int64
    assert found.tolist() == brute_force(queries, chunks, k)


@given(searches())
def test_the_key_of_a_mean_is_the_mean_of_the_keys(search: tuple[Any, list[Any], int, int]) -> None:
    queries, chunks, _, _ = search
    mean = type(queries).mean([queries, queries.rows(0, 1)])
    vectors = torch.cat([queries.vectors(), queries.vectors()[:1]])
    torch.testing.assert_close(mean.vectors(), vectors.mean(dim=0, keepdim=True))
    for chunk in chunks:
        expected = mean.vectors() @ chunk.vectors().T
        if isinstance(queries, Features):
            expected = -torch.cdist(mean.vectors(), chunk.vectors()).square()
        torch.testing.assert_close(mean.closeness(chunk), expected, rtol=1e-4, atol=1e-4)


def test_distances_far_from_zero_are_not_lost() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(300, 8, generator=generator, dtype=torch.float64)
    near = ExactIndex().build([Features(values)]).search(Features(values[:20]), 5)
    far = ExactIndex().build([Features(values.float() + 1000)]).search(Features(values[:20].float() + 1000), 5)
    assert (near == far).double().mean() > 0.98


def test_features_of_different_sizes_are_refused() -> None:
    short, long = Features(torch.zeros(2, 3)), Features(torch.zeros(2, 4))
    for action in (lambda: ExactIndex().build([short, long]).search(short, 1), lambda: Features.mean([short, long])):
        with pytest.raises(errors.ModelError, match="3 features and others 4"):
            action()


# --- what is read off a model -----------------------------------------------------------------------------------------


def placed(model: fastif.TorchModel, data: Any) -> Any:
    examples = fastif.Examples(data)
    return model.place(examples.batch(range(len(examples))))


@pytest.mark.parametrize("measure", ["loss", "margin"])
@pytest.mark.parametrize("name", CASE_NAMES)
def test_head_gradients_are_the_gradients_of_the_head(name: str, measure: str) -> None:
    it = case(name)
    if measure == "margin" and it.loss != "cross_entropy":
        pytest.skip("a margin needs classes")
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=".")
    function = model.losses if measure == "loss" else negative_margin
    head = [name for name, part in it.module.named_modules() if isinstance(part, nn.Linear)][-1]
    batch = placed(model, it.queries)
    probe = Probe(model, batch)
    seen = probe.head_gradients(batch, function).vectors()
    if name == "tied_weights":  # whose parameter has a gradient by its other use as well
        model = model_of(untied := copy.deepcopy(it))
        untied.module.output.weight = nn.Parameter(it.module.output.weight.detach().clone())
        model = fastif.TorchModel(untied.module, loss=it.loss)
    block = gradients(model, batch, function)
    prefix = f"{head}." if head else ""
    expected = torch.cat([block[f"{prefix}weight"], block[f"{prefix}bias"][:, :, None]], dim=2).flatten(1)
    torch.testing.assert_close(seen, expected)


class Sequence(nn.Module):
    """A head without a bias, called by keyword on every position, and written to in place."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(input=torch.tanh(self.body(x)))
        logits += 1
        return logits.transpose(1, 2)


def sequences(examples: int, length: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(examples + length)
    x = torch.randn(examples, length, 3, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 2, (examples, length), generator=generator)


def test_a_head_that_is_applied_at_several_positions() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(Sequence().double(), loss="cross_entropy")
    long, short = placed(model, sequences(6, 5)), placed(model, sequences(4, 3))
    probe = Probe(model, long)
    one, other = (probe.head_gradients(batch, model.losses) for batch in (long, short))
    dense = [gradients(model, batch)["head.weight"].flatten(1) for batch in (long, short)]
    torch.testing.assert_close(one.vectors(), dense[0])
    torch.testing.assert_close(one.closeness(other), dense[0] @ dense[1].T)


def test_features_of_several_positions_are_their_mean_without_padding() -> None:
    torch.manual_seed(0)
    module = Sequence().double()
    model = fastif.TorchModel(module, loss="cross_entropy")
    x, y = sequences(6, 5)
    padded = (
        torch.cat([x, torch.randn(6, 2, 3, dtype=torch.float64)], dim=1),
        torch.nn.functional.pad(y, (0, 2), value=-100),
    )
    for data in ((x, y), padded):
        batch = placed(model, data)
        torch.testing.assert_close(Probe(model, batch).features(batch).values, torch.tanh(module.body(x)).mean(dim=1))


def test_features_are_the_input_of_the_last_linear_or_the_output_of_a_named_module() -> None:
    it = case("transformer")
    model = model_of(it)
    batch = placed(model, it.queries)
    module = copy.deepcopy(it.module).eval()
    states = module.encoder(module.embedding(it.queries[0]))
    torch.testing.assert_close(Probe(model, batch).features(batch).values, states.mean(dim=1))
    torch.testing.assert_close(Probe(model, batch, "encoder").features(batch).values, states.flatten(1))
    torch.testing.assert_close(Probe(model, batch, "").features(batch).values, module(it.queries[0]))


def test_the_last_linear_is_the_one_that_runs_last_and_not_the_one_defined_last() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.body, self.spare = nn.Linear(4, 2), nn.Linear(3, 4), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head(self.body(x))
            return result

    model = fastif.TorchModel(Backwards(), loss="cross_entropy")
    batch = placed(model, (torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])))
    assert Probe(model, batch).features(batch).values.shape == (5, 4)


# --- through the explainer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 5, 20, 24, 1000])
@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("name", CORE_NAMES)
def test_scores_of_candidates_are_those_of_the_full_scan(name: str, by: Any, k: int) -> None:
    it = case(name)
    model = model_of(it)
    every = fastif.Explainer(model, it.train, damping=0.1).scores(it.queries)
    # a small sample, so that few candidates are scored query by query and many in one scan
    some = fastif.Explainer(model, it.train, damping=0.1, candidates=Nearest(k, by=by, sample=2), batch_size=7)
    scores = some.scores(it.queries)
    assert scores.values.shape == (4, min(k, 24))
    torch.testing.assert_close(scores.values, every.values.gather(1, scores.train_ids))
    batches = [placed(model, it.train)], placed(model, it.queries)
    probe = Probe(model, batches[1])
    read = probe.features if by == "features" else lambda batch: probe.head_gradients(batch, model.losses)
    expected = brute_force(read(batches[1]), [read(batch) for batch in batches[0]], min(k, 24))
    # rounding may swap candidates that are equally close at the cut, but not change how close the chosen ones are
    queries, train = read(batches[1]).vectors(), torch.cat([read(batch).vectors() for batch in batches[0]])
    closeness = -torch.cdist(queries, train) if by == "features" else queries @ train.T
    of_found, of_expected = (closeness.gather(1, each) for each in (scores.train_ids, torch.tensor(expected)))
    torch.testing.assert_close(of_found.sort().values, of_expected.sort().values, rtol=1e-9, atol=1e-12)
    assert scores.provenance["candidates"].startswith(f"Nearest(k={k}, by='{by}'")


def test_each_query_has_candidates_of_its_own_and_explanations_are_made_of_them() -> None:
    it = case("mlp_dropout")
    explainer = fastif.Explainer(model_of(it), it.train, candidates=Nearest(6))
    scores = explainer.scores(it.queries)
    assert len({tuple(sorted(row)) for row in scores.train_ids.tolist()}) > 1
    explanation = explainer.explain(it.queries, top=2)
    for row, query in enumerate(explanation):
        for member in (*query.helpful, *query.harmful):
            assert member.index in scores.train_ids[row]


@pytest.mark.parametrize("measure", ["loss", "margin"])
@pytest.mark.parametrize("by", WAYS)
def test_a_group_of_queries_has_the_neighbours_of_its_mean(by: Any, measure: str) -> None:
    it = case("lstm")
    model = model_of(it)
    options: dict[str, Any] = {"damping": 0.1, "measure": measure}
    scores = fastif.Explainer(model, it.train, candidates=Nearest(7, by=by), **options).scores(
        it.queries, reduce="mean"
    )
    probe = Probe(model, placed(model, it.train))
    function = model.losses if measure == "loss" else negative_margin
    if by == "features":
        mean = probe.features(placed(model, it.queries)).values.mean(dim=0)
        distance = (probe.features(placed(model, it.train)).values - mean).norm(dim=1)
        expected = distance.argsort()[:7]
    else:
        mean = probe.head_gradients(placed(model, it.queries), function).vectors().mean(dim=0)
        order = (probe.head_gradients(placed(model, it.train), model.losses).vectors() @ mean).argsort(descending=True)
        expected = torch.cat([order[:4], order.flip(0)[:3]])
    assert scores.train_ids.tolist() == [expected.tolist()]
    every = fastif.Explainer(model, it.train, **options).scores(it.queries, reduce="mean").values
    torch.testing.assert_close(scores.values, every[:, expected])


def test_provenance_says_which_candidates() -> None:
    it = case("logistic_regression")
    for candidates, text in (("all", "all"), ([3, 1], "given")):
        scores = fastif.Explainer(model_of(it), it.train, candidates=candidates).scores(it.queries)
        assert scores.provenance["candidates"] == text
        assert "candidate_recall" not in scores.provenance


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("name", [*CORE_NAMES, "tied_weights"])
def test_nothing_of_the_module_changes(name: str, by: Any) -> None:
    it = case(name)
    handle = next(it.module.children(), it.module).register_forward_hook(lambda *_: None)
    before = State(it.module)
    hooks = [dict(part.__dict__) for part in it.module.modules()]
    try:
        fastif.Explainer(model_of(it), it.train, candidates=Nearest(5, by=by)).scores(it.queries, reduce="mean")
        before.assert_unchanged()
        assert [dict(part.__dict__) for part in it.module.modules()] == hooks
    finally:
        handle.remove()


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("calls", range(4))
def test_nothing_changes_when_the_module_fails(calls: int, by: Any) -> None:
    module, data = Stubborn(), (torch.randn(5, 2), torch.tensor([0, 1, 0, 1, 0]))
    before = State(module)
    model = fastif.TorchModel(module, loss="cross_entropy")
    model.place(fastif.Examples(data).batch([0]))
    module.fails_after = calls
    with pytest.raises((RuntimeError, fastif.FastifError), match="out of order"):
        Nearest(2, by=by).prepare(model, data, batch_size=2)
    before.assert_unchanged()


@pytest.mark.parametrize("by", WAYS)
def test_a_callers_inference_mode_and_no_grad_do_not_matter(by: Any) -> None:
    it = case("transformer", torch.float32)
    expected = fastif.Explainer(model_of(it), it.train, candidates=Nearest(5, by=by)).scores(it.queries)
    for context in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with context:
            data = tuple(column.clone() for column in it.train)
            seen = fastif.Explainer(model_of(it), data, candidates=Nearest(5, by=by)).scores(it.queries)
        assert torch.equal(seen.train_ids, expected.train_ids)
        assert torch.equal(seen.values, expected.values)


@pytest.mark.gpu
@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_a_cuda_device_finds_the_same_candidates(name: str, by: Any) -> None:
    it = case(name)
    expected = fastif.Explainer(model_of(it), it.train, damping=0.1, candidates=Nearest(6, by=by)).scores(it.queries)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    seen = fastif.Explainer(moved, it.train, damping=0.1, candidates=Nearest(6, by=by)).scores(it.queries)
    assert torch.equal(seen.train_ids, expected.train_ids)
    torch.testing.assert_close(seen.values, expected.values, rtol=1e-6, atol=1e-9)


# --- the estimate of recall -------------------------------------------------------------------------------------------


def true_recall(scores: fastif.Scores, every: fastif.Scores) -> float:
    k = scores.values.shape[1]
    strongest = every.values.abs().argsort(dim=1, descending=True)[:, :k]
    recalls = [metrics.recall_at(found, true) for found, true in zip(scores.train_ids, strongest, strict=True)]
    return sum(recalls) / len(recalls)


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("k", [1, 6, 23, 24])
def test_a_sample_of_everything_gives_the_true_recall(k: int, by: Any) -> None:
    it = case("mlp_dropout")
    every = fastif.Explainer(model_of(it), it.train).scores(it.queries)
    scores = fastif.Explainer(model_of(it), it.train, candidates=Nearest(k, by=by)).scores(it.queries)
    recall = scores.provenance["candidate_recall"]
    assert recall["estimate"] == pytest.approx(true_recall(scores, every), abs=1e-12)
    assert (recall["at"], recall["standard_error"], recall["sample"]) == (k, 0, 24)


@pytest.mark.parametrize("by", WAYS)
def test_the_estimate_is_close_to_the_true_recall(by: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(1500, 6)
    y = (x @ torch.randn(6, 3) + torch.randn(1500, 3)).argmax(dim=1)
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(module(x[:1400]), y[:1400]).backward()
        optimizer.step()
    model, train, queries = fastif.TorchModel(module, loss="cross_entropy"), (x[:1400], y[:1400]), (x[1400:], y[1400:])
    every = fastif.Explainer(model, train).scores(queries)
    scores = fastif.Explainer(model, train, candidates=Nearest(100, by=by)).scores(queries)
    recall = scores.provenance["candidate_recall"]
    truth = true_recall(scores, every)
    assert recall["sample"] == 200
    assert 0 < recall["standard_error"] < 0.06
    assert abs(recall["estimate"] - truth) < 3 * recall["standard_error"] + 0.02
    other = fastif.Explainer(model, train, candidates=Nearest(100, by=by, seed=1)).scores(queries)
    assert other.provenance["candidate_recall"]["estimate"] != recall["estimate"]
    torch.testing.assert_close(other.values, scores.values, rtol=1e-3, atol=1e-4)


def test_a_sample_that_is_too_small_gives_no_estimate() -> None:
    estimate = RecallEstimate(total=1000)
    estimate.add(torch.ones(1, 4), torch.arange(4)[None], torch.ones(1, 50), torch.arange(50))
    assert estimate.as_json() == {"estimate": None, "at": 4, "standard_error": None, "sample": 50}
    nothing_outside = torch.zeros(1, 2, dtype=torch.bool)
    assert weighted_recall(torch.ones(1, 3), torch.ones(1, 2), nothing_outside, total=5).isnan().all()
    assert sample_size(1, 50) == 50


def test_few_candidates_in_many_queries_are_scored_query_by_query() -> None:
    sizes: list[int] = []

    def scan(directions: dict[str, Tensor], ids: Tensor | None) -> Tensor:
        assert ids is not None
        sizes.append(len(ids))
        return directions["w"] @ (ids + 1.0)[None]

    directions = {"w": torch.tensor([[1.0], [2.0], [3.0]])}
    apart = torch.arange(12).reshape(3, 4)
    together = torch.arange(4).repeat(3, 1)
    for rows, expected in ((apart, [4, 4, 4, 1]), (together, None)):
        sizes.clear()
        selection = PerQuery(rows, 100, description="", sample=1, seed=0)
        values = selection.score(directions, scan, first=0)
        torch.testing.assert_close(values, directions["w"] * (rows + 1.0))
        assert sizes == expected if expected else sum(sizes) <= 5
    assert torch.equal(
        PerQuery(apart, 100, description="", sample=1, seed=0).score({"w": torch.ones(1, 1)}, scan, first=2),
        apart[2:] + 1.0,
    )


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"k": 0}, "k must"),
        ({"k": 2.5}, "k must"),
        ({"k": True}, "k must"),
        ({"k": 3, "by": "gradient"}, "head-gradient"),
        ({"k": 3, "features": "body"}, "by="),
        ({"k": 3, "by": "features", "features": 3}, "name of a module"),
        ({"k": 3, "index": "Flat"}, "FaissIndex"),
        ({"k": 3, "index": ExactIndex}, "FaissIndex"),
        ({"k": 3, "sample": 0}, "sample"),
        ({"k": 3, "seed": -1}, "seed"),
    ],
)
def test_arguments_are_checked_when_made(arguments: dict[str, Any], word: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=word):
        Nearest(**arguments)


def prepare(module: nn.Module, x: Tensor, loss: Any = "cross_entropy", **options: Any) -> None:
    model = fastif.TorchModel(module, loss=loss)
    Nearest(2, **options).prepare(model, (x, torch.zeros(len(x), dtype=torch.int64)))


def test_a_model_without_a_linear_layer_is_told_so() -> None:
    module = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten())
    for by in WAYS:
        with pytest.raises(errors.ModelError, match=r"no nn\.Linear runs in this Sequential"):
            prepare(module, torch.randn(4, 1, 5), by=by)
    prepare(module, torch.randn(4, 1, 5), by="features", features="1")


def test_a_name_that_no_module_has_is_told_with_those_that_are_close() -> None:
    it = case("transformer")
    nearest = Nearest(2, by="features", features="encodr")
    with pytest.raises(errors.ConfigurationError, match="Did you mean one of encoder"):
        nearest.prepare(model_of(it), it.train)


def test_a_module_whose_output_is_no_tensor_or_that_does_not_run() -> None:
    it = case("lstm")
    with pytest.raises(errors.ModelError, match="'lstm' gives a tuple"):
        Nearest(2, by="features", features="lstm").prepare(model_of(it), it.train)

    class Spare(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 2)
            self.spare = nn.Linear(3, 2)

    with pytest.raises(errors.ModelError, match="'spare' did not run"):
        prepare(Spare(), torch.randn(4, 3), by="features", features="spare")


class Folded(nn.Module):
    """Has no row for each example at its linear layer: positions and examples are one dimension, or change places."""

    def __init__(self, swapped: bool) -> None:
        super().__init__()
        self.swapped, self.head = swapped, nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.swapped:
            return self.head(x.transpose(0, 1)).mean(dim=0)  # type: ignore[no-any-return]
        return self.head(x.flatten(0, 1)).unflatten(0, x.shape[:2]).mean(dim=1)  # type: ignore[no-any-return]


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("swapped", [True, False])
def test_a_linear_layer_without_a_row_for_each_example_is_refused(swapped: bool, by: Any) -> None:
    with pytest.raises(errors.ModelError, match="does not have a row for each example"):
        prepare(Folded(swapped), torch.randn(5, 5, 3), by=by)


def test_a_last_linear_that_the_loss_does_not_use_is_refused_for_gradients() -> None:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.value = nn.Linear(3, 2), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(x)
            self.value(x)
            return logits

    with pytest.raises(errors.ModelError, match=r"does not depend on .* 'value'"):
        prepare(TwoHeads(), torch.randn(4, 3), by="head-gradient")
    prepare(TwoHeads(), torch.randn(4, 3), by="features")


def test_numbers_that_are_not_finite_name_the_example() -> None:
    class Root(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    x = torch.rand(4, 3)
    x[2, 1] = -1.0
    module = nn.Sequential(nn.Threshold(-2.0, 0.0), Root(3, 2))
    broken = nn.Sequential(Log(), *module)
    for by in WAYS:
        with pytest.raises(errors.NonFiniteError, match="example 2 of train"):
            prepare(broken, x, by=by)


class Log(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.log()


def test_an_index_of_other_data_is_refused() -> None:
    class Short:
        def build(self, parts: Any) -> Any:
            return ExactIndex().build([next(iter(parts)).rows(0, 5)])

    it = case("logistic_regression")
    with pytest.raises(errors.DataError, match="5 examples, but there are 24"):
        Nearest(2, index=Short()).prepare(model_of(it), it.train)


def test_the_index_is_built_once_and_progress_is_told() -> None:
    it = case("logistic_regression")
    stages: list[str] = []
    explainer = fastif.Explainer(
        model_of(it), it.train, candidates=Nearest(3), progress=lambda stage, done, total: stages.append(stage)
    )
    explainer.scores(it.queries)
    count = stages.count("indexing")
    assert count > 0
    explainer.scores(it.queries)
    assert stages.count("indexing") == count


# --- what is held of a full scan --------------------------------------------------------------------------------------


@given(st.data())
def test_ends_of_values_in_parts_are_those_of_all(data: Any) -> None:
    queries, examples = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 30))
    table = whole(data.draw, queries, examples)  # many are equal
    count = data.draw(st.integers(1, 6))
    order = torch.tensor(data.draw(st.permutations(range(examples))))
    ends = Ends(count)
    for some in order.split(data.draw(st.integers(1, 12))):
        ends.add(table[:, some], some.expand(queries, -1))
    assert ends.values.shape == ends.ids.shape == (queries, min(examples, 2 * count))
    for row, kept, numbers in zip(table, ends.values, ends.ids, strict=True):
        assert torch.equal(row[numbers], kept)
        for rank in (ranking.helpful, ranking.harmful):
            best = rank(row, torch.arange(examples), count)
            assert rank(kept, numbers, count).ids.tolist() == best.ids.tolist()


@pytest.mark.parametrize("name", CORE_NAMES[:2])
def test_the_strongest_alone_are_listed_as_from_all_scores(name: str) -> None:
    it = case(name)
    explainer = fastif.Explainer(model_of(it), it.train, damping=0.1)
    every = explainer.explain(it.queries, top=3)
    with mock.patch.object(scanning, "BYTES", 2**8):
        few = explainer.explain(it.queries, top=3, scores="strongest")
    assert few.scores.values.shape[1] == 8  # three and one that comes close, of either sign
    for one, other in zip(every, few, strict=True):
        assert [each.index for each in one.helpful] == [each.index for each in other.helpful]
        assert [each.index for each in one.harmful] == [each.index for each in other.harmful]
        assert [each.score for each in one.helpful] == pytest.approx([each.score for each in other.helpful])
    assert few.scores.provenance["held"] == "4 of each end"
    with pytest.raises(errors.ConfigurationError, match="'all' or 'strongest'"):
        explainer.explain(it.queries, scores="some")  # type: ignore[arg-type]


def test_a_score_that_is_no_number_is_told_of_where_only_the_strongest_are_held() -> None:
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    nn.init.constant_(module.weight, 2.0)
    x, y = torch.randn(40, 3), torch.randint(0, 2, (40,))
    x[17] = 3e38  # finite, and its outputs are not
    explainer = fastif.Explainer(fastif.TorchModel(module, "cross_entropy"), (x, y), solver=fastif.Identity())
    query = (torch.randn(1, 3), torch.tensor([0]))
    for scores in ("all", "strongest"):
        with pytest.raises(fastif.FastifError, match="17"):
            explainer.explain(query, top=2, scores=scores)  # type: ignore[arg-type]

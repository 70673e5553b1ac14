"""A CUDA device gives the numbers of the CPU, and is left as it was."""

import copy
from typing import Any

import pytest
import torch

import fastif
from fastif import memory
from fastif.solvers import paper_lissa, steps
from tests.problems import CASE_NAMES, CURVATURES, case, relative_error

pytestmark = pytest.mark.gpu

SOLVERS = {"exact": fastif.Exact(), "cg": fastif.ConjugateGradient(tolerance=1e-9)}
DRAWING = {"lissa": fastif.LiSSA(depth=30, repeats=3, batch_size=4, scale=50.0), "paper": fastif.LiSSA.paper(depth=30)}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("name", CASE_NAMES)
def test_float64_scores_agree_with_the_cpu(name: str, curvature: str, solver: str) -> None:
    it = case(name)
    options = {"curvature": curvature, "solver": SOLVERS[solver], "batch_size": 13}
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    expected = fastif.Explainer(model, it.train, **options)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    seen = fastif.Explainer(moved, it.train, damping=expected.damping.value, **options)
    assert seen.scores(it.queries).values.device.type == "cpu"
    assert relative_error(seen.scores(it.queries).values, expected.scores(it.queries).values) < 1e-6
    assert seen.damping.top_eigenvalue == pytest.approx(expected.damping.top_eigenvalue, rel=1e-6)


@pytest.mark.parametrize("name", CASE_NAMES)
def test_float32_scores_agree_with_the_cpu(name: str) -> None:
    it = case(name, torch.float32)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    expected = fastif.Explainer(model, it.train, damping=0.03).scores(it.queries).values
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    for train in (it.train, tuple(column.cuda() for column in it.train)):
        seen = fastif.Explainer(moved, train, damping=0.03, precision="float32").scores(it.queries).values
        assert relative_error(seen, expected) < 1e-3
        seen = fastif.Explainer(moved, train, damping=0.03).scores(it.queries).values
        assert relative_error(seen, expected) < 3e-2  # tf32


def test_self_influence_and_the_random_state_of_the_device() -> None:
    it = case("transformer")
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    before = torch.cuda.get_rng_state()
    seen = fastif.Explainer(moved, it.train, damping=0.03).self_influence()
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert relative_error(seen, fastif.Explainer(model, it.train, damping=0.03).self_influence()) < 1e-8


@pytest.mark.parametrize("solver", DRAWING)
@pytest.mark.parametrize("name", ["mlp_dropout", "transformer"])
def test_random_draws_are_those_of_the_cpu(name: str, solver: str) -> None:
    it = case(name)
    moved = fastif.TorchModel(copy.deepcopy(it.module).cuda(), loss=it.loss, trainable=it.trainable)
    model = fastif.TorchModel(it.module, loss=it.loss, trainable=it.trainable)
    seen, expected = (
        fastif.Explainer(each, it.train, damping=0.5, solver=DRAWING[solver]).scores(it.queries).values
        for each in (moved, model)
    )
    assert relative_error(seen, expected) < 1e-8


def test_lanczos_and_padded_embeddings() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Flatten(), torch.nn.Tanh(), torch.nn.Linear(20, 3)
    ).double()
    data = (torch.randint(0, 9, (30, 5)), torch.randint(0, 3, (30,)))
    for solver in (fastif.Lanczos(rank=40, tolerance=1e-9), fastif.Exact()):
        seen, expected = (
            fastif.Explainer(fastif.TorchModel(each, loss="cross_entropy"), data, damping=0.1, solver=solver)
            for each in (copy.deepcopy(module).cuda(), module)
        )
        assert relative_error(seen.scores(data).values, expected.scores(data).values) < 1e-6
        assert relative_error(seen.self_influence(), expected.self_influence()) < 1e-6


def classifier(family: str = "bert") -> Any:
    """A tiny encoder on the GPU, with its data and queries; skipped where transformers are not."""
    pytest.importorskip("transformers")
    from fastif.integrations.huggingface import TextClassifier
    from tests.integrations.huggingface import tiny

    model = TextClassifier(tiny.module_of(family, dtype=torch.float32).cuda(), tiny.tokenizer_of(family))
    train = model.examples(list(tiny.TEXTS) * 30, list(tiny.LABELS) * 30)
    return model, train, model.examples(list(tiny.QUERIES), list(tiny.QUERY_LABELS))


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_language_models_have_the_scores_of_the_cpu(family: str) -> None:
    pytest.importorskip("transformers")
    from fastif.integrations.huggingface import TextGenerator
    from tests.integrations.huggingface import tiny_generators as tiny

    of = []
    for device in ("cpu", "cuda"):
        module = tiny.module_of(family, dtype=torch.float32).to(device)
        model = TextGenerator(module, tiny.tokenizer_of(), trainable=tiny.LAST_PARTS[family])
        explainer = fastif.Explainer(model, model.examples(tiny.PROMPTS, tiny.COMPLETIONS), damping=0.1)
        of.append((explainer.scores(model.examples(tiny.ASKED, tiny.ANSWERS)).values, model.complete(tiny.ASKED)))
    assert relative_error(of[1][0], of[0][0]) < 3e-2  # tf32
    assert of[1][1] == of[0][1]


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precision_is_near_float32(half: Any) -> None:
    model, train, queries = classifier()
    options: dict[str, Any] = {"damping": 1.0, "solver": fastif.Identity()}
    expected = fastif.Explainer(model, train, precision="float32", **options).scores(queries).values
    seen = fastif.Explainer(model, train, precision=half, **options).scores(queries).values
    assert relative_error(seen, expected) < {"float16": 5e-3, "bfloat16": 4e-2}[half]
    assert not torch.equal(seen, expected)


def test_states_lie_on_the_gpu_unless_a_budget_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model, train, queries = classifier()
    free = fastif.Explainer(model, train, damping=1.0, precision="float32")
    expected = free.scores(queries).values
    assert free._seen.states.device.type == "cuda"  # type: ignore[attr-defined]
    monkeypatch.setattr("fastif.prefix.OF_GPU", 0.0)
    bound = fastif.Explainer(model, train, damping=1.0, precision="float32", memory_budget=2**30)
    assert relative_error(bound.scores(queries).values, expected) < 1e-5
    assert bound._seen.states.device.type == "cpu"  # type: ignore[attr-defined]


def test_a_batch_that_does_not_fit_is_cut_in_two() -> None:
    model, train, queries = classifier()
    expected = fastif.Explainer(model, train, damping=1.0, precision="float32").scores(queries).values
    explainer = fastif.Explainer(model, train, damping=1.0, precision="float32", batch_size=300)
    explainer.scores(queries)
    torch.cuda.empty_cache()
    held, total = torch.cuda.memory_reserved(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((held + 2**21) / total)
    try:
        seen = explainer.scores(queries).values
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert relative_error(seen, expected) < 1e-5


def test_a_bound_on_memory_holds_for_what_torch_held_before_it() -> None:
    held = torch.empty(2**32, dtype=torch.uint8, device="cuda")
    del held
    with memory.limited(2**30, torch.device("cuda")), pytest.raises(torch.OutOfMemoryError):
        torch.empty(2**31, dtype=torch.uint8, device="cuda")


def test_a_bound_on_memory_takes_a_gpu_without_a_number() -> None:
    device = torch.device("cuda")
    with memory.limited(2**30, device):
        assert 0 < memory.available(device) <= 2**30
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**31, dtype=torch.uint8, device=device)
    assert memory.part_of("cuda", 4) > memory.part_of("cuda", 8) > 0
    taken = torch.cuda.memory_allocated()  # by what ran before, such as the workspace of its products
    with memory.limited(2**31 + taken, torch.device("cuda")):
        assert memory.part_of("cuda", 4) == 2**29


@pytest.mark.parametrize("curvature", CURVATURES)
@pytest.mark.parametrize("family", ["bert", "mpnet"])  # the second copies positions from the CPU in every pass
def test_recorded_steps_are_plain_steps(family: str, curvature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, train, queries = classifier(family)
    lissa = fastif.LiSSA.paper(scale=1e3, depth=40, batch_size=2, repeats=3)
    options: dict[str, Any] = {"curvature": curvature, "solver": lissa, "precision": "float32"}
    monkeypatch.setattr(paper_lissa, "is_affordable", lambda *_, **__: False)  # whose rows would need no steps
    recorded = []
    original = steps._Graph.__init__

    def counted(self: Any, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        recorded.append(1)

    monkeypatch.setattr(steps._Graph, "__init__", counted)
    seen = fastif.Explainer(model, train, **options).scores(queries).values
    assert recorded
    monkeypatch.setattr(steps, "FEWEST_STEPS", 10**9)
    plain = fastif.Explainer(model, train, **options).scores(queries).values
    assert relative_error(seen, plain) < 1e-4


def test_compiled_steps_are_plain_steps() -> None:
    model, train, queries = classifier()
    lissa = fastif.LiSSA.paper(scale=1e3, depth=40, batch_size=2, repeats=3)
    options: dict[str, Any] = {"curvature": "hessian", "precision": "float32"}
    one, other = (fastif.Explainer(model, train, solver=solver, **options) for solver in (lissa, lissa.compiled()))
    for asked in (queries, queries):  # what was compiled for the first serves the second
        assert relative_error(other.scores(asked).values, one.scores(asked).values) < 1e-4

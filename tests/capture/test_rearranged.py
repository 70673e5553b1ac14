"""Modules that reorder or select rows by their data: scores are right in all batches, and others stay captured."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import fastif
from fastif.capture import CaptureError, make_plan, run_forward
from fastif.capture.record import watch
from fastif.scoring.captured import find_route
from tests import oracles
from tests.problems import CASE_NAMES, case, model_of, relative_error


class Sorting(nn.Module):
    """Examples in order of their lengths, and back: the classical sort, run, unsort."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(9, 4), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, ids: Tensor) -> Tensor:
        lengths, order = (ids != 0).sum(1).sort(descending=True, stable=True)
        return self.back(self.run(ids[order], lengths), order.argsort())

    def run(self, ids: Tensor, lengths: Tensor) -> Tensor:
        outputs: Tensor = self.head(torch.tanh(self.inner(self.embed(ids).sum(1) / lengths[:, None])))
        return outputs

    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return outputs[order]


class SortingBackInPython(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return torch.stack([outputs[place] for place in order.tolist()])


class SortingBackByUnbinding(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        rows = list(outputs)
        return torch.stack([rows[place] for place in order.tolist()])


class SortingBackByWriting(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        result = torch.zeros_like(outputs)
        result[order.argsort()] = outputs
        return result


class SortingBackByGathering(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return outputs.gather(0, order[:, None].expand_as(outputs))


class SortingBackByLookUp(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return nn.functional.embedding(order, outputs)


class SortingBackByProduct(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return nn.functional.one_hot(order).to(outputs) @ outputs


class SortingBackByLetters(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        return torch.einsum("ab,bc->ac", nn.functional.one_hot(order).to(outputs), outputs)


class PickRows(torch.autograd.Function):
    """What unpadding is written as where speed counts."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return torch.gather(rows, 0, order[:, None].expand_as(rows))

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:  # type: ignore[override]
        (order,) = ctx.saved_tensors
        return torch.zeros_like(slope).index_add(0, order, slope), None


class SortingBackByFunction(Sorting):
    def back(self, outputs: Tensor, order: Tensor) -> Tensor:
        result: Tensor = PickRows.apply(outputs, order)  # type: ignore[no-untyped-call]
        return result


class Packed(Sorting):
    """Sorted, packed, through a recurrent layer, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.GRU(4, 5, batch_first=True)
        self.inner = nn.Linear(5, 5)

    def run(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embed(ids), lengths.cpu(), batch_first=True)
        outputs: Tensor = self.head(torch.tanh(self.inner(self.recurrent(packed)[1][-1])))
        return outputs


class Unpadded(nn.Module):
    """Layers run on real tokens only, which are then averaged by example."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        mask = ids != 0
        hidden = torch.tanh(self.inner(self.embed(ids[mask])))
        total = hidden.new_zeros(len(ids), 4).index_add(0, mask.nonzero()[:, 0], hidden)
        outputs: Tensor = self.head(total / mask.sum(1, keepdim=True))
        return outputs


class UnpaddedInPython(Unpadded):
    """The same with a list of as many pieces as there are examples."""

    def forward(self, ids: Tensor) -> Tensor:
        lengths = (ids != 0).sum(1).tolist()
        tokens = torch.cat([row[:length] for row, length in zip(ids, lengths, strict=True)])
        hidden = torch.tanh(self.inner(self.embed(tokens)))
        outputs: Tensor = self.head(torch.stack([part.mean(0) for part in hidden.split(lengths)]))
        return outputs


class Experts(nn.Module):
    """Every token goes to the one expert that its gate names, and everything around is dense."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gate, self.head = nn.Embedding(9, 4), nn.Linear(4, 2), nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        states = self.embed(ids)
        tokens = states.flatten(0, 1)
        shares, chosen = self.gate(tokens).softmax(dim=1).max(dim=1)
        mixed = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            which = (chosen == number).nonzero()[:, 0]
            mixed = mixed.index_add(0, which, torch.tanh(expert(tokens[which])) * shares[which, None])
        outputs: Tensor = self.head(mixed.view_as(states).mean(dim=1))
        return outputs


class LastToken(nn.Module):
    """The last real token of each, as decoders that classify take it: no example changes its place."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.head = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        states = torch.tanh(self.inner(self.embed(ids)))
        outputs: Tensor = self.head(states[torch.arange(len(ids)), (ids != 0).sum(1) - 1])
        return outputs


class SoftExperts(Experts):
    """A mixture of all experts, by the shares of a gate."""

    def forward(self, ids: Tensor) -> Tensor:
        states = self.embed(ids)
        shares = self.gate(states).softmax(dim=-1)
        mixed = torch.stack([torch.tanh(expert(states)) for expert in self.experts], dim=-1)
        outputs: Tensor = self.head((mixed * shares[..., None, :]).sum(-1).mean(dim=1))
        return outputs


SORTING = (Sorting, *Sorting.__subclasses__())
REARRANGING = (*SORTING, Unpadded, UnpaddedInPython, Experts)


def texts(examples: int = 30) -> tuple[Tensor, Tensor]:
    """Ids padded with zeros at the end; the first and the last ten, and what is checked, are of full length."""
    ids = torch.randint(1, 9, (examples, 6))
    for row in range(10, examples - 10):
        ids[row, int(torch.randint(2, 6, ())) :] = 0
    return ids, torch.randint(0, 3, (examples,))


def expected_scores(module: nn.Module, data: tuple[Tensor, Tensor], damping: float | None) -> Tensor:
    names = [name for name, _ in module.named_parameters()]
    slopes = oracles.per_example_gradients(module, names, "cross_entropy", data)
    if damping is None:
        return -slopes[:3] @ slopes.T
    dense = oracles.dense_ggn(module, names, "cross_entropy", data)
    return oracles.influence(slopes[:3], dense, slopes, damping)


@pytest.fixture
def checked_on_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans be found on the first examples, which are all of one length, as they may be by chance."""

    def first(total: int, count: int, lengths: Tensor | None = None) -> Tensor:
        return torch.arange(min(total, count))

    monkeypatch.setattr("fastif.data.spread", first)


@pytest.mark.parametrize("kind", REARRANGING, ids=lambda kind: kind.__name__)
@pytest.mark.usefixtures("checked_on_first")
def test_scores_are_right_where_rows_are_rearranged(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module, data = kind().double(), texts()
    queries = tuple(column[:3] for column in data)
    expected = expected_scores(module, data, None)
    for batch_size in (1, 2, 3, 4, 5, 6, 256):
        model = fastif.TorchModel(module, loss="cross_entropy")
        explainer = fastif.Explainer(model, data, solver=fastif.Identity(), batch_size=batch_size)
        assert relative_error(explainer.scores(queries).values, expected) < 1e-10


@pytest.mark.parametrize("kind", [Sorting, Packed, Unpadded], ids=lambda kind: kind.__name__)
@pytest.mark.usefixtures("checked_on_first")
def test_curvature_is_right_where_rows_are_rearranged(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    module, data = kind().double(), texts()
    queries = tuple(column[:3] for column in data)
    expected = expected_scores(module, data, 0.05)
    solvers = ("auto", fastif.Exact("dual"), fastif.ConjugateGradient(tolerance=1e-10))
    for batch_size in (3, 256):
        for solver in solvers:
            model = fastif.TorchModel(module, loss="cross_entropy")
            explainer = fastif.Explainer(model, data, solver=solver, damping=0.05, batch_size=batch_size)
            assert relative_error(explainer.scores(queries).values, expected) < 1e-8
        explainer.self_influence()
        explainer.left_out()


def test_a_plan_is_checked_on_examples_that_differ() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(Sorting().double(), loss="cross_entropy")
    ids, targets = texts()
    data = fastif.Examples((torch.cat([ids[:8], ids[10:20]]), torch.cat([targets[:8], targets[10:20]])))
    route = find_route(model, data)
    assert route.plan is None
    assert "another order" in route.note


@pytest.mark.usefixtures("checked_on_first")
def test_woodbury_gives_way_where_rows_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(Unpadded):
        def __init__(self) -> None:
            super().__init__()
            del self.embed
            self.register_buffer("table", torch.randn(9, 4))
            self.embed = lambda ids: self.table[ids]

    monkeypatch.setattr("fastif.solvers.auto.EXACT_SIDE", 1)
    torch.manual_seed(0)
    module, data = Wide().double(), texts()
    model = fastif.TorchModel(module, loss="cross_entropy")
    monkeypatch.setattr("fastif.solvers.auto.is_affordable", lambda operator: True)
    explainer = fastif.Explainer(model, data, damping=0.05)
    seen = explainer.scores(tuple(column[:3] for column in data)).values
    assert "conjugate gradients" in explainer.solver_description
    assert relative_error(seen, expected_scores(module, data, 0.05)) < 1e-5


def test_what_is_gated_by_data_is_captured_around_its_experts() -> None:
    torch.manual_seed(0)
    data = fastif.Examples(texts())
    for kind, note in ((SoftExperts, "captured 9 of 9 parameters"), (LastToken, "captured 5 of 5 parameters")):
        assert find_route(fastif.TorchModel(kind().double(), loss="cross_entropy"), data).note == note
    route = find_route(fastif.TorchModel(Experts().double(), loss="cross_entropy"), data)
    assert route.plan is not None
    assert {"gate.weight", "gate.bias", "head.weight", "head.bias"} <= route.plan.captured


def test_ordinary_models_do_not_look_as_if_they_rearranged() -> None:
    """So that their batches are not looked at, which would take two more backward passes."""
    for name in CASE_NAMES:
        it = case(name)
        model = model_of(it)
        batch = model.place(fastif.Examples(it.train).batch(range(24)))
        assert not watch(model, batch.inputs).rearranged, name
    for kind in (LastToken, SoftExperts):
        model = fastif.TorchModel(kind().double(), loss="cross_entropy")
        assert not watch(model, model.place(fastif.Examples(texts()).batch(range(30))).inputs).rearranged


def test_a_batch_whose_rows_are_exchanged_is_refused() -> None:
    torch.manual_seed(0)
    model = fastif.TorchModel(Sorting().double(), loss="cross_entropy")
    ids, targets = texts()
    batch = model.place(fastif.Examples((ids, targets)).batch(range(30)))
    plan = make_plan(model, batch.rows(0, 3))
    run_forward(model, batch.rows(0, 10), plan)
    for start in range(10, 18):  # two neighbours of unequal lengths are enough
        two = batch.rows(start, start + 2)
        lengths = (two.inputs[0] != 0).sum(1)  # type: ignore[index]
        if lengths[0] < lengths[1]:
            with pytest.raises(CaptureError, match="another order"):
                run_forward(model, two, plan)
        else:
            run_forward(model, two, plan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_told_apart_in_lower_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    whole = fastif.TorchModel(Sorting(), loss="cross_entropy")
    model = whole if dtype == torch.float32 else whole.in_half(dtype)
    batch = whole.place(fastif.Examples(texts()).batch(range(30)))
    plan = make_plan(whole, batch.rows(0, 3))
    run_forward(model, batch.rows(0, 10), plan)
    with pytest.raises(CaptureError, match="another order"):
        run_forward(model, batch, plan)

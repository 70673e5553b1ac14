"""Look-ups within the mode are the same functions, write to nothing, and have all derivatives."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif.embedding import PlainEmbedding
from tests.test_evaluation import require_right

IDS = torch.randint(0, 6, (18, 4), generator=torch.Generator().manual_seed(3))
LABELS = torch.arange(18) % 3


def table() -> Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
@pytest.mark.parametrize("padding", [None, 0, -1])
@pytest.mark.parametrize("max_norm", [None, 0.5])
@pytest.mark.parametrize("lengths", ["equal", "unequal"])
def test_a_bag_is_torchs_own_and_writes_to_nothing(mode: str, padding: int | None, max_norm: Any, lengths: str) -> None:
    weight, ids = table(), torch.cat([IDS, torch.tensor([[0] * 4, [5] * 4])])
    options: dict[str, Any] = {"mode": mode, "padding_idx": padding, "max_norm": max_norm}
    if lengths == "unequal":
        ids, options["offsets"] = ids.flatten(), torch.tensor([0, 3, 3, 10])
    before = weight.clone()
    with PlainEmbedding():
        found = F.embedding_bag(ids, weight, **options)
    assert torch.equal(weight, before)
    torch.testing.assert_close(found, F.embedding_bag(ids, weight, **options))


def test_a_bag_with_weights_of_its_own_is_torchs() -> None:
    shares = torch.rand(IDS.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    with PlainEmbedding():
        found = F.embedding_bag(IDS, table(), per_sample_weights=shares, mode="sum")
    torch.testing.assert_close(found, F.embedding_bag(IDS, table(), per_sample_weights=shares, mode="sum"))


@pytest.mark.parametrize("wrong", [{"mode": "median"}, {"offsets": torch.tensor([0])}])
def test_what_torch_refuses_of_a_bag_is_refused_in_its_words(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mode|offsets"), PlainEmbedding():
        F.embedding_bag(IDS, table(), **wrong)


class ByHand(nn.Module):
    """A bag that torch can differentiate twice."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.table, self.head, self.mode = nn.Parameter(table()), nn.Linear(3, 3).double(), mode

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.table[ids]
        bags = rows.amax(dim=1) if self.mode == "max" else getattr(rows, self.mode)(dim=1)
        result: Tensor = self.head(bags)
        return result


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_a_model_with_bags_has_right_scores(mode: str) -> None:
    torch.manual_seed(0)
    reference = ByHand(mode)
    bags = nn.EmbeddingBag.from_pretrained(reference.table.detach().clone(), freeze=False, mode=mode)
    require_right(nn.Sequential(bags, reference.head), reference, (IDS, LABELS))


class Looking(nn.Module):
    """Looks up by the function, or by a module that is no nn.Embedding."""

    def __init__(self, bag: bool, **options: Any) -> None:
        super().__init__()
        self.table, self.head = nn.Parameter(table()), nn.Linear(3, 3).double()
        self.bag, self.options = bag, options

    def forward(self, ids: Tensor) -> Tensor:
        if self.bag:
            states = F.embedding_bag(ids, self.table, **self.options)
        else:
            states = F.embedding(ids, self.table, **self.options).mean(dim=1)
        result: Tensor = self.head(states)
        return result


@pytest.mark.parametrize("bag", [True, False])
@pytest.mark.parametrize("trainable", [".", "^head"])
def test_max_norm_of_a_function_never_rewrites_the_weights(bag: bool, trainable: str) -> None:
    torch.manual_seed(0)
    module = Looking(bag, max_norm=0.5)
    before = module.table.detach().clone()
    model = fastif.TorchModel(module, loss="cross_entropy", trainable=trainable)
    scores = fastif.Explainer(model, (IDS, LABELS), damping=0.1).scores((IDS[:2], LABELS[:2])).values
    assert torch.equal(module.table, before)
    with torch.no_grad():  # what torch would have written
        module.table.mul_((0.5 / (module.table.norm(dim=1, keepdim=True) + 1e-7)).clamp(max=1.0))
    if trainable == "^head":
        other = fastif.TorchModel(module, loss="cross_entropy", trainable=trainable)
        again = fastif.Explainer(other, (IDS, LABELS), damping=0.1).scores((IDS[:2], LABELS[:2])).values
        torch.testing.assert_close(scores, again)


class Average(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


@pytest.mark.parametrize("solver", [fastif.Exact(), fastif.ConjugateGradient(tolerance=1e-11)])
def test_padding_of_the_function_is_that_of_the_layer(solver: Any) -> None:
    torch.manual_seed(0)
    module = Looking(False, padding_idx=0)
    layer = nn.Embedding.from_pretrained(module.table.detach().clone(), freeze=False, padding_idx=0)
    found, expected = (
        fastif.Explainer(fastif.TorchModel(each, loss="cross_entropy"), (IDS, LABELS), damping=0.1, solver=solver)
        for each in (module, nn.Sequential(layer, Average(), module.head))
    )
    queries = (IDS[:3], LABELS[:3])
    torch.testing.assert_close(found.scores(queries).values, expected.scores(queries).values)

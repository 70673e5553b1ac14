"""Ranking of one row, against the definition written as a full sort of Python tuples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastif.errors import ConfigurationError, DataError, NonFiniteError, ShapeError
from fastif.ranking import harmful, helpful


@st.composite
def row(draw):
    """Values with many ties and zeros, extreme ones among them, and distinct ids in any order."""
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
    values = draw(st.lists(st.one_of(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0]), finite), max_size=40))
    ids = draw(st.permutations(range(3, 3 + len(values))))
    return torch.tensor(values, dtype=torch.float32), torch.tensor(ids, dtype=torch.int64)


def by_definition(values, ids, top, sign):
    pairs = [(-sign * v, i, v) for v, i in zip(values.tolist(), ids.tolist(), strict=True) if sign * v > 0]
    return [i for _, i, _ in sorted(pairs)[:top]], [v for _, _, v in sorted(pairs)[:top]]


@given(row(), st.integers(1, 50))
def test_is_the_definition(data, top):
    values, ids = data
    for rank, sign in ((helpful, -1), (harmful, 1)):
        ranked = rank(values, ids, top)
        assert (ranked.ids.tolist(), ranked.scores.tolist()) == by_definition(values, ids, top, sign)
        assert ranked.scores.dtype == values.dtype
        assert ranked.ids.dtype == torch.int64


@given(row(), st.integers(1, 10), st.randoms())
def test_does_not_depend_on_the_order_of_the_row(data, top, random):
    values, ids = data
    order = list(range(len(values)))
    random.shuffle(order)
    for rank in (helpful, harmful):
        first, second = rank(values, ids, top), rank(values[order], ids[order], top)
        assert torch.equal(first.ids, second.ids)
        assert torch.equal(first.scores, second.scores)


@given(row(), st.integers(1, 10))
def test_helpful_is_harmful_of_the_negated(data, top):
    values, ids = data
    assert torch.equal(helpful(values, ids, top).ids, harmful(-values, ids, top).ids)


@given(row(), st.integers(1, 10))
def test_does_not_change_its_input(data, top):
    values, ids = data
    kept = values.clone(), ids.clone()
    helpful(values, ids, top)
    assert torch.equal(values, kept[0])
    assert torch.equal(ids, kept[1])


def test_a_million_values_with_ties_across_the_cut():
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(-1000, 1000, (1_000_000,), generator=generator).float()
    ids = torch.randperm(1_000_000, generator=generator)
    ranked = helpful(values, ids, 700)
    strongest = ids[values == -1000].sort().values
    assert len(strongest) < 700 < len(strongest) + int((values == -999).sum())  # the cut is among the ties at -999
    rest = ids[values == -999].sort().values[: 700 - len(strongest)]
    assert torch.equal(ranked.ids, torch.cat([strongest, rest]))


def test_a_million_equal_values():
    ids = torch.arange(999_999, -1, -1)
    assert harmful(torch.ones(1_000_000), ids, 5).ids.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_is_not_finite_is_named(bad):
    with pytest.raises(NonFiniteError, match="training example 12 "):
        helpful(torch.tensor([1.0, bad]), torch.tensor([11, 12]), 1)


@pytest.mark.parametrize("top", [0, -1, True, 1.0, "all"])
def test_top_is_a_positive_whole_number(top):
    with pytest.raises(ConfigurationError, match="top is"):
        harmful(torch.ones(3), torch.arange(3), top)


def test_form_is_checked():
    with pytest.raises(ShapeError, match="one row"):
        helpful(torch.ones(2, 3), torch.arange(6).view(2, 3), 1)
    with pytest.raises(ShapeError, match="same length"):
        helpful(torch.ones(3), torch.arange(2), 1)
    with pytest.raises(DataError, match="int64"):
        helpful(torch.ones(3), torch.arange(3).int(), 1)
    with pytest.raises(DataError, match="float"):
        helpful(torch.ones(3, dtype=torch.int64), torch.arange(3), 1)

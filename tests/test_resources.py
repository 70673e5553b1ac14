"""Precision, memory and batch sizes follow from few settings; a batch that does not fit is cut."""

from typing import Any

import pytest
import torch

import fastif
from fastif import memory, precision
from fastif.batch import Batch
from fastif.errors import ConfigurationError
from fastif.fitting import fitting
from fastif.resources import CPU_BATCH, Resources
from tests.problems import case, model_of

CPU = torch.device("cpu")


def resources(**changes: Any) -> Resources:
    settings = {"precision_name": "auto", "memory_budget": None, "batch_size": None, **changes}
    return Resources(model_of(case("mlp_dropout", torch.float32)), **settings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"precision_name": "float8"}, "precision must be one of auto, float32"),
        ({"memory_budget": 1000}, "at least 268,435,456"),
        ({"memory_budget": "16GiB"}, "memory_budget must be a number of bytes"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"batch_size": True}, "batch_size must be a whole number"),
    ],
)
def test_settings_that_cannot_work_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        resources(**change)


def test_a_cpu_computes_in_the_dtype_of_the_model() -> None:
    assert resources(precision_name="float16").half is None
    assert precision.resolve("auto", torch.device("cuda"), torch.float32) == "tf32"
    assert precision.resolve("float16", torch.device("cuda"), torch.float32) == "float16"
    assert precision.resolve("float16", torch.device("cuda"), torch.float64) == "float32"


@pytest.mark.parametrize(
    ("capabilities", "resolved"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, "bfloat16"),
        ({"avx512_bf16": False, "amx_bf16": True}, "bfloat16"),
        ({"avx512_f": True}, "float32"),
        (None, "float32"),  # an older torch does not say
    ],
)
def test_a_cpu_that_multiplies_bfloat16_does_so_if_asked(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool] | None, resolved: str
) -> None:
    if capabilities is None:
        monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    else:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert precision.resolve("bfloat16", CPU, torch.float32) == resolved
    assert precision.resolve("auto", CPU, torch.float32) == "float32"
    assert precision.resolve("bfloat16", CPU, torch.float64) == "float32"
    half = resources(precision_name="bfloat16").half
    assert half is None if resolved == "float32" else half.dtype == torch.bfloat16


@pytest.mark.parametrize("parts", [1, 300])
def test_products_in_bfloat16_are_added_up_in_float32(parts: int) -> None:
    """Sums of ones stop at 256 where they are kept in bfloat16."""
    left, right = (torch.ones(rows, 1024 * parts, dtype=torch.bfloat16) for rows in (2, 3))
    assert torch.equal(precision.wide_product(left, right), torch.full((2, 3), 1024.0 * parts))


def test_a_budget_holds_within_its_context_alone() -> None:
    before = memory.available(CPU)
    with memory.limited(2**29, CPU), memory.limited(2**29, CPU):
        assert memory.available(CPU) == 2**29
        assert memory.share(CPU, 0.25, 2**30) == 2**27
        assert memory.share(CPU, 0.25, 2**20) == 2**20
    assert memory.available(CPU) == before


def test_batch_sizes_and_blocks() -> None:
    found = resources()
    data = fastif.Examples(case("mlp_dropout", torch.float32).train)
    assert found.batch_size(data) == CPU_BATCH
    assert resources(batch_size=7).batch_size(data) == 7
    assert 1 <= found.vectors_at_once <= found.directions_at_once


def test_queries_are_cut_into_parts_of_about_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resources()
    monkeypatch.setattr("fastif.resources.MOST_QUERIES_AT_ONCE", 9)
    assert [found.queries_at_once(queries) for queries in (0, 1, 9, 10, 64)] == [1, 1, 9, 5, 8]


def test_a_batch_that_does_not_fit_is_cut_until_it_does() -> None:
    batch = Batch((torch.arange(11.0),), torch.arange(11.0), torch.arange(11))
    tried: list[int] = []

    def work(some: Batch) -> torch.Tensor:
        tried.append(len(some))
        if len(some) > 3:
            raise torch.OutOfMemoryError
        return some.targets

    assert torch.equal(torch.cat(fitting(work, batch)), batch.targets)
    assert tried[:2] == [11, 5]
    with pytest.raises(torch.OutOfMemoryError):
        fitting(lambda some: (_ for _ in ()).throw(torch.OutOfMemoryError()), batch)


def test_processes_share_a_budget_as_far_as_there_is_something_to_share() -> None:
    with memory.limited(2**30, torch.device("cpu")):
        assert memory.part_of("cpu", 4) == memory.LEAST
        with pytest.raises(ConfigurationError, match="5 processes would have 214,748,364 bytes"):
            memory.part_of("cpu", 5)


def test_examples_of_unequal_lengths_are_cut_by_positions() -> None:
    data = fastif.Examples((torch.zeros(1000, 1), torch.zeros(1000)))
    data.lengths = torch.randint(1, 100, (1000,), generator=torch.Generator().manual_seed(0))
    order = data.everyone()[data.by_length(data.everyone())]
    batches = list(data.batches(64, order))
    assert torch.equal(torch.cat([batch.ids for batch in batches]), order)
    most = 64 * float(data.lengths.double().mean())
    assert all(len(batch) * int(data.lengths[batch.ids].max()) <= most for batch in batches)
    assert len(batches[0]) < 64 < max(map(len, batches))
    few = list(data.batches(64, order, most=20))
    assert torch.equal(torch.cat([batch.ids for batch in few]), order)
    assert max(map(len, few)) <= 20

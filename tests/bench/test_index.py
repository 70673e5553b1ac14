"""Points drawn from a mixture, and a small index of them that finds most of what an exact search finds."""

import json

import pytest
import torch
from safetensors.torch import save_file

from fastif.bench import index
from fastif.bench.index.mixture import Mixture, nearness


def clustered(count=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = 5 * torch.randn(4, 24, generator=generator)
    chosen = torch.randint(0, 4, (count,), generator=generator)
    return centres[chosen] + torch.randn(count, 24, generator=generator)


def test_a_mixture_has_the_mean_and_the_spread_of_what_it_was_fitted_to():
    real = clustered(2000)
    drawn = Mixture.fit(real, components=4, rank=8).chunk(3)
    assert torch.allclose(drawn.mean(dim=0), real.mean(dim=0), atol=0.3)
    assert drawn.var(dim=0).sum() == pytest.approx(float(real.var(dim=0).sum()), rel=0.05)
    assert nearness(drawn[:2000]) == pytest.approx(nearness(real), rel=0.1)


def test_chunks_are_the_same_whoever_draws_them():
    fitted = Mixture.fit(clustered(), components=4, rank=4)
    assert torch.equal(fitted.chunk(5), fitted.chunk(5))
    assert not torch.equal(fitted.chunk(5), fitted.chunk(6))


@pytest.mark.slow
def test_an_index_of_two_processes(tmp_path):
    pytest.importorskip("faiss")
    file = tmp_path / "features.safetensors"
    save_file({"features": clustered()}, file)
    plan = index.Plan(
        points=20_000,
        queries=20,
        factory="IVF16,PQ12",
        probes=16,
        training=10_000,
        candidates=(100, 1000),
        features=400,
        components=4,
        rank=8,
    )
    result = json.loads(json.dumps(index.run(plan, file), allow_nan=False))
    recall = {(row["candidates"], row["of"]): row["recall"] for row in result["rows"]}
    assert recall[1000, 10] > 0.9
    assert recall[1000, 10] >= recall[100, 10]
    assert len(result["peak_bytes"]) == 2
    assert "of the 10 nearest" in index.table(result)

"""An index in files: it finds what the exact index finds where it looks everywhere, and its parts merge."""

from pathlib import Path
from typing import Any

import pytest
import torch

import fastif
from fastif.candidates import ExactIndex, Features, PartHolder, Parts
from fastif.errors import ConfigurationError, DataError
from tests.problems import case, model_of

pytest.importorskip("faiss")

from fastif.integrations.faiss_shards import FaissShards

POINTS = torch.randn(600, 16, generator=torch.Generator().manual_seed(0))


def searched(index: FaissShards, ranks: int, points: torch.Tensor = POINTS) -> Parts:
    shares = [torch.arange(rank, len(points), ranks) for rank in range(ranks)]
    holders = [
        PartHolder(index, ids, lambda some: Features(points[some]), name=f"part-{rank}-of-{ranks}")
        for rank, ids in enumerate(shares)
    ]

    def ask(what: str, sent: Any, **given: Any) -> list[Any]:
        return [{"index": holder.build, "search": holder.search}[what](sent, **given) for holder in holders]

    return Parts(ask, holders[0], index)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("k", [1, 10, 600])
def test_looking_everywhere_is_exact(ranks: int, k: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.candidates.parts.AT_ONCE", 30)
    queries = Features(torch.randn(7, 16, generator=torch.Generator().manual_seed(1)))
    found = searched(FaissShards(tmp_path, "IVF4,Flat", probes=4, in_a_file=100), ranks).search(queries, k)
    expected = ExactIndex().build([Features(POINTS)]).search(queries, k)
    assert (found == expected).double().mean() > 0.99  # rounding may swap neighbours
    assert torch.equal(found.sort(dim=1).values, expected.sort(dim=1).values)
    assert len(list(tmp_path.rglob("*.index"))) == {1: 5, 3: 6}[ranks]  # of 120 points and fewer


def test_codes_find_most_and_files_are_found_again(tmp_path: Path) -> None:
    index = FaissShards(tmp_path, "IVF4,PQ8x4", probes=4)
    queries = Features(POINTS[:20])
    found = searched(index, 2).search(queries, 50)
    expected = ExactIndex().build([Features(POINTS)]).search(queries, 10)
    shared = [len(set(row) & set(all_)) for row, all_ in zip(expected.tolist(), found.tolist(), strict=True)]
    assert sum(shared) / 200 > 0.7
    stamps = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*") if file.is_file()}
    assert torch.equal(searched(index, 2).search(queries, 50), found)
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.*") if file.is_file()} == stamps


def test_an_index_of_other_examples_is_refused(tmp_path: Path) -> None:
    index = FaissShards(tmp_path, "IVF4,Flat")
    searched(index, 1)
    with pytest.raises(DataError, match="other examples"):
        searched(index, 1, POINTS + 1)


@pytest.mark.parametrize("by", ["features", "head-gradient"])
def test_candidates_of_one_process(by: Any, tmp_path: Path) -> None:
    it = case("mlp_dropout")
    options: dict[str, Any] = {"damping": 0.1, "solver": fastif.Identity()}
    exact = fastif.Explainer(model_of(it), it.train, candidates=fastif.Nearest(5, by=by), **options)
    index = FaissShards(tmp_path, "IVF2,Flat", probes=2)
    mine = fastif.Explainer(model_of(it), it.train, candidates=fastif.Nearest(5, by=by, index=index), **options)
    assert torch.equal(mine.scores(it.queries).train_ids, exact.scores(it.queries).train_ids)


def test_what_it_cannot_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="inverted lists"):
        FaissShards(tmp_path, "PQ16")
    with pytest.raises(ConfigurationError, match="FaissIndex"):
        FaissShards(tmp_path).build([])
    with pytest.raises(DataError, match="fewer than"):
        searched(FaissShards(tmp_path, "IVF64,Flat", probes=1), 1).search(Features(POINTS[:1]), 600)

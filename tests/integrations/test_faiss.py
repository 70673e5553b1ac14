"""faiss behind the protocol of an index: Flat equals the exact index, the others come close, files come back."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import fastif
from fastif import errors
from fastif.candidates import ExactIndex, Features, HeadGradients, Keys
from fastif.integrations.faiss import FaissIndex
from tests.problems import CORE_NAMES, case, model_of

WAYS = ("features", "head-gradient")
APPROXIMATE = ("IVF8,Flat", "PQ4x4", "IVF4,PQ4x4", "HNSW16", "PCA8,IVF4,Flat")


@pytest.fixture(autouse=True)
def _needs_faiss() -> None:
    pytest.importorskip("faiss")


def some_keys(by: str, count: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    if by == "features":
        return Features(torch.randn(count, 16, generator=generator))
    slopes = torch.randn(count, 2, 4, generator=generator)
    return HeadGradients(slopes, torch.randn(count, 2, 4, generator=generator))


def chunks(keys: Any, size: int = 300) -> list[Keys]:
    return [keys.rows(start, start + size) for start in range(0, len(keys), size)]


@pytest.mark.parametrize("k", [1, 2, 7, 500, 1000])
@pytest.mark.parametrize("by", WAYS)
def test_flat_finds_what_the_exact_index_finds(by: str, k: int) -> None:
    keys, queries = some_keys(by, 1000), some_keys(by, 30, seed=1)
    expected = ExactIndex().build(chunks(keys)).search(queries, k)
    found = FaissIndex("Flat").build(chunks(keys)).search(queries, k)
    assert found.dtype == torch.int64
    assert torch.equal(found.sort(dim=1).values, expected.sort(dim=1).values)
    assert (found == expected).double().mean() > 0.999  # rounding may swap neighbours


def test_of_equally_close_ones_the_smaller_comes_first() -> None:
    keys = Features(torch.tensor([[3.0], [1.0], [-1.0], [0.0], [1.0]]))
    assert FaissIndex("Flat").build([keys]).search(Features(torch.zeros(1, 1)), 4).tolist() == [[3, 1, 2, 4]]


@pytest.mark.parametrize("k", [1, 5, 301, 600])
@pytest.mark.parametrize("factory", APPROXIMATE)
@pytest.mark.parametrize("by", WAYS)
def test_approximate_indices_give_k_different_ids(by: str, factory: str, k: int) -> None:
    keys, queries = some_keys(by, 600), some_keys(by, 9, seed=1)
    if factory == "HNSW16" and k > 5:
        pytest.skip("a graph does not promise to reach everything")
    found = FaissIndex(factory, probes=1).build(chunks(keys, 100)).search(queries, k)
    assert found.shape == (9, k)
    assert found.min() >= 0
    assert found.max() < 600
    assert all(len(row.unique()) == k for row in found)


@pytest.mark.parametrize("by", WAYS)
def test_more_probes_find_more_and_all_find_everything(by: str) -> None:
    keys, queries = some_keys(by, 900), some_keys(by, 40, seed=1)
    expected = ExactIndex().build([keys]).search(queries, 20)

    def recall(probes: int | None) -> float:
        found = FaissIndex("IVF16,Flat", probes=probes).build(chunks(keys)).search(queries, 20)
        return sum(float(torch.isin(true, row).sum()) for true, row in zip(expected, found, strict=True)) / 800

    assert recall(1) < recall(6) < recall(16) == 1
    assert recall(None) == recall(1)


@pytest.mark.parametrize("factory", ["Flat", "IVF8,Flat", "IVF4,PQ4x4"])
@pytest.mark.parametrize("by", WAYS)
def test_a_saved_index_comes_back(by: str, factory: str, tmp_path: Path) -> None:
    keys, queries = some_keys(by, 600), some_keys(by, 9, seed=1)
    built = FaissIndex(factory, probes=3).build(chunks(keys))
    path = tmp_path / "train.index"
    built.save(path)
    loaded = FaissIndex.load(path)
    assert len(loaded) == 600
    assert torch.equal(loaded.search(queries, 20), built.search(queries, 20))
    assert [file.name for file in tmp_path.iterdir()] == ["train.index"]
    assert loaded.build(chunks(keys)) is loaded
    with pytest.raises(errors.DataError, match="other weights"):
        loaded.build(chunks(some_keys(by, 600, seed=2)))


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("name", CORE_NAMES)  # none of which has examples with the same features
def test_scores_with_flat_are_those_with_the_exact_index(name: str, by: Any) -> None:
    it = case(name)
    exact, by_faiss = (
        fastif.Explainer(
            model_of(it), it.train, damping=0.1, batch_size=7, candidates=fastif.Nearest(6, by=by, index=index)
        ).scores(it.queries)
        for index in (None, FaissIndex("Flat"))
    )
    assert torch.equal(exact.train_ids.sort(dim=1).values, by_faiss.train_ids.sort(dim=1).values)
    torch.testing.assert_close(exact.values.sort(dim=1).values, by_faiss.values.sort(dim=1).values)


def test_a_kept_index_serves_the_next_explainer(tmp_path: Path) -> None:
    it = case("mlp_dropout")
    model = model_of(it)
    nearest = fastif.Nearest(6, index=FaissIndex("Flat"))
    nearest.prepare(model, it.train).index.save(tmp_path / "index")  # type: ignore[attr-defined]
    kept = fastif.Nearest(6, index=FaissIndex.load(tmp_path / "index"))
    expected, seen = (fastif.Explainer(model, it.train, candidates=each).scores(it.queries) for each in (nearest, kept))
    assert torch.equal(seen.train_ids, expected.train_ids)
    shorter = tuple(column[:20] for column in it.train)
    with pytest.raises(errors.DataError, match="24 examples, but there are 20"):
        fastif.Explainer(model, shorter, candidates=kept).scores(it.queries)


@pytest.mark.parametrize(
    "arguments", [{"factory": ""}, {"factory": 3}, {"probes": 0}, {"probes": True}, {"training": None}]
)
def test_arguments_are_checked_when_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigurationError, match=next(iter(arguments))):
        FaissIndex(**arguments)


def test_what_faiss_cannot_make_or_train_is_told() -> None:
    with pytest.raises(errors.ConfigurationError, match="no index of 'Flatt' for vectors of 16"):
        FaissIndex("Flatt").build([some_keys("features", 10)])
    with pytest.raises(errors.ConfigurationError, match="cannot train 'IVF100,Flat' on 10 examples"):
        FaissIndex("IVF100,Flat").build([some_keys("features", 10)])


def test_queries_of_another_size_are_refused() -> None:
    with pytest.raises(errors.DataError, match="16 numbers; the queries have 3"):
        FaissIndex().build([some_keys("features", 10)]).search(Features(torch.zeros(1, 3)), 2)


def test_files_that_are_no_index_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.StoredFileError, match="missing"):
        FaissIndex.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(errors.StoredFileError, match="damaged"):
        FaissIndex.load(tmp_path / "text")
    fastif.Scores(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64)).save(tmp_path / "scores")
    with pytest.raises(errors.StoredFileError, match="format"):
        FaissIndex.load(tmp_path / "scores.safetensors")
    with pytest.raises(errors.StoredFileError, match="cannot be written"):
        FaissIndex().build([some_keys("features", 10)]).save(tmp_path / "no" / "such" / "folder")


def test_without_faiss_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(errors.ConfigurationError, match=r"pip install 'fastif\[faiss\]'"):
        FaissIndex()


def test_a_first_import_warns_of_nothing() -> None:
    source = str(Path(fastif.__file__).parents[1])
    check = (
        f"import sys; sys.path.insert(0, {source!r}); from fastif.integrations.faiss import FaissIndex; FaissIndex()"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", check], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr

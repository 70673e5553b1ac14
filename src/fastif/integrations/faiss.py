"""FaissIndex: neighbours by faiss, where comparing with every training example is too slow or too large.

    from fastif.integrations.faiss import FaissIndex

    nearest = fastif.Nearest(1000, by="features", index=FaissIndex("IVF1024,Flat", probes=64))
    explainer = fastif.Explainer(model, train, candidates=nearest)

An index of millions is kept for the next time, and found again as long as model and data are the same:

    nearest.prepare(model, train).index.save("train.index")
    nearest = fastif.Nearest(1000, by="features", index=FaissIndex.load("train.index"))

faiss knows vectors alone, in float32. Head gradients are therefore given to it as the outer products that they are, of
C (d + 1) numbers for each example (C outputs, d features); a factory string such as "OPQ16_64,IVF1024,PQ16" makes them
small. Searches are approximate unless the factory is "Flat": the estimated recall in the scores says what that costs.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fastif.candidates import Keys
from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.files import replacing

FORMAT = "fastif.faiss-index.1"
FIRST = 16  # vectors kept beside the index, by which it is known again
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class FaissIndex:
    """An index of faiss, by its factory string.

    Args:
        factory: "Flat" (exact), "IVF1024,Flat", "PQ16", "IVF1024,PQ16", "HNSW32", or anything that
            `faiss.index_factory` knows.
        probes: of an IVF index, the lists that a search looks into: more is slower and finds more. A tenth of them, if
            not given. Where the lists looked into hold fewer than k examples, more are looked into.
        training: at most how many examples, chosen at random, the index learns its lists and codes from.
    """

    factory: str = "Flat"
    probes: int | None = None
    training: int = 100_000

    def __post_init__(self) -> None:
        if not isinstance(self.factory, str) or not self.factory:
            raise ConfigurationError(
                f"factory must be a string such as 'Flat' or 'IVF1024,PQ16', not {self.factory!r}."
            )
        for name in ("probes", "training"):
            value = getattr(self, name)
            if value is None and name == "probes":
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}.")
        faiss_module()  # better missed now than after a pass over the data

    def build(self, keys: Iterable[Keys]) -> BuiltFaissIndex:
        """Train the index where it needs that, and add all keys.

        What an index that must be trained is made of waits in a temporary file, so that memory stays flat.
        """
        chunks = iter(keys)
        chunk = next(chunks)
        first = rows_of(chunk)
        index = self.made(first.shape[1], chunk.two_sided)
        if index.is_trained:
            index.add(first)
            for chunk in chunks:
                index.add(rows_of(chunk))
        else:
            with tempfile.TemporaryFile() as stream:
                stream.write(first.tobytes())
                for chunk in chunks:
                    stream.write(rows_of(chunk).tobytes())
                stream.flush()
                everything: Rows = np.memmap(stream, np.float32, "r").reshape(-1, first.shape[1])
                self.learn(index, everything)
                for start in range(0, len(everything), self.training):
                    index.add(np.ascontiguousarray(everything[start : start + self.training]))
                del everything
        return BuiltFaissIndex(index, first[:FIRST].copy())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> BuiltFaissIndex:
        """Return an index that was saved."""
        try:
            with safe_open(path, "pt") as file:
                if (file.metadata() or {}).get("format") != FORMAT:
                    raise StoredFileError(f"{path} holds no index of fastif: its format is not {FORMAT!r}.")
                stored, first = file.get_tensor("index").numpy(), file.get_tensor("first").numpy()
            return BuiltFaissIndex(faiss_module().deserialize_index(stored), first)
        except FileNotFoundError as error:
            raise StoredFileError(f"{path} is missing: there is no such index.") from error
        except (OSError, SafetensorError, RuntimeError) as error:
            if isinstance(error, StoredFileError):
                raise
            raise StoredFileError(
                f"{path} cannot be read as an index, so it is damaged or of another kind: {error}"
            ) from error

    def made(self, size: int, two_sided: bool) -> Any:
        """Return an index of faiss that has learned nothing yet."""
        faiss = faiss_module()
        metric = faiss.METRIC_INNER_PRODUCT if two_sided else faiss.METRIC_L2
        try:
            index = faiss.index_factory(size, self.factory, metric)
        except RuntimeError as error:
            raise ConfigurationError(
                f"faiss makes no index of {self.factory!r} for vectors of {size} numbers. It said: {error}"
            ) from error
        lists = faiss.try_extract_index_ivf(index)
        if lists is not None:
            lists.nprobe = min(lists.nlist, self.probes or max(1, lists.nlist // 10))
        return index

    def learn(self, index: Any, everything: Rows) -> None:
        """Let an index learn its lists and codes from some of these."""
        count = min(len(everything), self.training)
        chosen = np.random.default_rng(0).choice(len(everything), count, replace=False)
        chosen.sort()
        try:
            index.train(np.ascontiguousarray(everything[chosen]))
        except RuntimeError as error:
            raise ConfigurationError(
                f"faiss cannot train {self.factory!r} on {count} examples. It said: {error}. Choose fewer lists or "
                "shorter codes, or 'Flat'."
            ) from error


class BuiltFaissIndex:
    """An index of faiss that holds the keys of some training data."""

    def __init__(self, index: Any, first: Rows) -> None:
        self._index = index
        self._first = first

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def build(self, keys: Iterable[Keys]) -> BuiltFaissIndex:
        """Return this index, if the first of the keys are those that it was made of: it need not be built again."""
        rows = rows_of(next(iter(keys)))[: len(self._first)]
        same = rows.shape == self._first.shape and np.allclose(rows, self._first, rtol=1e-3, atol=1e-5)
        if not same:
            raise DataError(
                "the index was made of other examples, other weights, or another kind of key than those at hand. Build "
                "it anew with FaissIndex(...)."
            )
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file, whole or not at all."""
        stored = torch.from_numpy(faiss_module().serialize_index(self._index))
        try:
            with replacing(Path(path)) as temporary:
                save_file({"index": stored, "first": torch.from_numpy(self._first)}, temporary, {"format": FORMAT})
        except (OSError, SafetensorError) as error:
            raise StoredFileError(f"the index cannot be written to {path}: {error}") from error

    def search(self, queries: Keys, k: int) -> Tensor:
        """Return the numbers of k keys for each query, as `fastif.candidates.BuiltIndex` says."""
        rows = rows_of(queries)
        if rows.shape[1] != self._index.d:
            raise DataError(f"the index is of vectors of {self._index.d} numbers; the queries have {rows.shape[1]}.")
        if not queries.two_sided:
            return torch.from_numpy(self._closest(rows, k))
        first = self._closest(rows, k - k // 2)
        if k == 1:
            return torch.from_numpy(first)
        # of the k least close no more than ceil(k/2) are taken already, so that floor(k/2) are left
        last = self._closest(-rows, k)
        left = [ids[~np.isin(ids, taken)][: k // 2] for ids, taken in zip(last, first, strict=True)]
        return torch.from_numpy(np.concatenate([first, np.stack(left)], axis=1))

    def _closest(self, rows: Rows, k: int) -> NDArray[np.int64]:
        """Return the numbers of the k closest, the closest first, of equally close ones the smaller first."""
        closeness, ids = self._index.search(rows, k)
        lists = faiss_module().try_extract_index_ivf(self._index)
        probes = None if lists is None else lists.nprobe
        try:
            while lists is not None and (ids < 0).any() and lists.nprobe < lists.nlist:
                lists.nprobe = min(2 * lists.nprobe, lists.nlist)
                closeness, ids = self._index.search(rows, k)
        finally:
            if lists is not None:
                lists.nprobe = probes
        if (ids < 0).any():
            raise DataError(
                f"this index of faiss finds fewer than {k} examples for some query. Ask for fewer, or use 'Flat'."
            )
        is_product = self._index.metric_type == faiss_module().METRIC_INNER_PRODUCT
        order = np.lexsort((ids, -closeness if is_product else closeness), axis=1)
        found: NDArray[np.int64] = np.take_along_axis(ids, order, axis=1).astype(np.int64)
        return found


def rows_of(keys: Keys) -> Rows:
    """Return the vectors of keys as faiss wants them."""
    rows: Rows = np.ascontiguousarray(keys.vectors().detach().cpu().numpy(), dtype=np.float32)
    return rows


def faiss_module() -> Any:
    """Return faiss, or say how to get it."""
    try:
        with warnings.catch_warnings():
            # of the generator that faiss's bindings are made with, in some of its versions
            warnings.filterwarnings("ignore", "builtin type .* has no __module__ attribute", DeprecationWarning)
            import faiss
    except ImportError as error:
        raise ConfigurationError(
            "FaissIndex needs faiss, which is not installed: pip install 'fastif[faiss]'. Without it, fastif.Nearest "
            "searches exactly."
        ) from error
    return faiss

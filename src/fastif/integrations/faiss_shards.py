"""FaissShards: an IVF index of faiss in files, for training sets whose keys do not fit into memory.

    from fastif.integrations.faiss_shards import FaissShards

    nearest = fastif.Nearest(1000, by="features", index=FaissShards("train-index", "IVF4096,PQ64", probes=64))
    explainer = fastif.Explainer(model, train, candidates=nearest, team=team)

Lists and codes are learned from a sample. Every process of a team makes the keys of its own examples, a few thousand at
a time, and writes them to files of its own under `directory`; for a search the files are mapped, not read, and what
the processes find is merged. Alone, one process does the same. The files are found again as long as the sample's first
keys are the same and so is the number of processes. What the candidates miss is estimated as with any other index.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fastif.candidates import Keys
from fastif.errors import ConfigurationError, DataError, StoredFileError
from fastif.files import replacing
from fastif.integrations.faiss import FIRST, FaissIndex, Rows, faiss_module, rows_of

LEARNED, MANIFEST = "learned.safetensors", "manifest.json"


@dataclass(frozen=True)
class FaissShards:
    """An index of faiss with inverted lists, in files.

    Args:
        directory: where its files go, on every machine.
        factory: such as "IVF4096,PQ64"; as `faiss.index_factory` reads it, with IVF in it.
        probes: the lists that a search looks into: more is slower and finds more. A tenth of them, if not given.
        training: at most how many examples it learns from.
        in_a_file: examples whose codes are in memory until they are written.
    """

    directory: str | os.PathLike[str]
    factory: str = "IVF4096,PQ64"
    probes: int | None = None
    training: int = 100_000
    in_a_file: int = 1_000_000
    _method: FaissIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_method", FaissIndex(self.factory, self.probes, self.training))
        if "IVF" not in self.factory:
            raise ConfigurationError(f"FaissShards needs inverted lists, such as 'IVF4096,PQ64', not {self.factory!r}.")
        if self.in_a_file < 1:
            raise ConfigurationError(f"in_a_file must be at least 1, not {self.in_a_file}.")

    def learn(self, keys: Iterable[Keys]) -> Tensor:
        """Return an empty index that has learned its lists and codes, as bytes; found again if it was made of these."""
        chunks = iter(keys)
        chunk = next(chunks)
        first = rows_of(chunk)
        place = Path(self.directory) / LEARNED
        kept = self._kept(place, first)
        if kept is not None:
            return kept
        sample: Rows = np.concatenate([first, *(rows_of(each) for each in chunks)])
        index = self._method.made(first.shape[1], chunk.two_sided)
        self._method.learn(index, sample)
        learned = torch.from_numpy(faiss_module().serialize_index(index))
        stored = {"index": learned, "first": torch.from_numpy(first[:FIRST].copy())}
        with _written(place) as temporary:
            save_file(stored, temporary, {"factory": self.factory})
        return learned

    def part(self, learned: Tensor, keys: Iterable[tuple[Tensor, Keys]], *, name: str) -> FaissPart:
        """Write the files of one process, or find them again, and map them."""
        place = Path(self.directory) / name
        asked = {"learned": hashlib.sha256(learned.numpy().tobytes()).hexdigest()}
        known = _read(place / MANIFEST)
        if known is None or known.get("learned") != asked["learned"]:
            place.mkdir(parents=True, exist_ok=True)
            counts = [self._write(place / f"{number:04d}.index", learned, some)
                      for number, some in enumerate(_in_files(keys, self.in_a_file))]  # fmt: skip
            known = {**asked, "counts": counts}
            with _written(place / MANIFEST) as temporary:
                temporary.write_text(json.dumps(known), encoding="utf-8")
        files = [place / f"{number:04d}.index" for number in range(len(known["counts"]))]
        return FaissPart(files, sum(known["counts"]), self.probes)

    def build(self, keys: Iterable[Keys]) -> Any:
        """Keys in one stream are not what this index is for."""
        raise ConfigurationError("FaissShards is built by an Explainer, from its own examples; use FaissIndex here.")

    def _kept(self, place: Path, first: Rows) -> Tensor | None:
        if not place.exists():
            return None
        try:
            stored = load_file(place)
        except (OSError, ValueError) as error:
            raise StoredFileError(f"{place} cannot be read: {error}. Remove it, and the index is made anew.") from error
        rows = first[: len(stored["first"])]
        if rows.shape == tuple(stored["first"].shape) and np.allclose(rows, stored["first"], rtol=1e-3, atol=1e-5):
            return stored["index"]
        raise DataError(
            f"the index in {self.directory} was made of other examples, other weights, or another kind of key. Name "
            "another directory, or remove that one."
        )

    def _write(self, file: Path, learned: Tensor, keys: Iterable[tuple[Tensor, Keys]]) -> int:
        faiss = faiss_module()
        index = faiss.deserialize_index(learned.numpy())
        for ids, some in keys:
            index.add_with_ids(rows_of(some), ids.numpy())
        with _written(file) as temporary:
            faiss.write_index(index, str(temporary))
        return int(index.ntotal)


class FaissPart:
    """Files of an index, mapped into memory; a search goes through them one after another."""

    def __init__(self, files: list[Path], count: int, probes: int | None) -> None:
        faiss = faiss_module()
        self._count = count
        try:
            self._indices = [faiss.read_index(str(file), faiss.IO_FLAG_MMAP) for file in files]
        except RuntimeError as error:
            raise StoredFileError(f"a file of the index cannot be read, remove its directory: {error}") from error
        self._product = bool(self._indices) and self._indices[0].metric_type == faiss.METRIC_INNER_PRODUCT
        for index in self._indices:
            lists = faiss.try_extract_index_ivf(index)
            lists.nprobe = min(lists.nlist, probes or max(1, lists.nlist // 10))

    def __len__(self) -> int:
        return self._count

    def closest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return closeness and numbers of the k closest to each row; -inf and -1 where there are fewer."""
        near = [torch.full((len(rows), k), -torch.inf)]
        numbers = [torch.full((len(rows), k), -1)]
        for index in self._indices:
            distances, ids = index.search(np.ascontiguousarray(rows.numpy(), dtype=np.float32), k)
            found = torch.from_numpy(ids)
            closeness = torch.from_numpy(distances if self._product else -distances)
            near.append(torch.where(found < 0, -torch.inf, closeness))
            numbers.append(found)
        best = torch.cat(near, dim=1).topk(k, dim=1)
        return best.values, torch.cat(numbers, dim=1).gather(1, best.indices)


def _in_files(keys: Iterable[tuple[Tensor, Keys]], most: int) -> Iterator[Iterable[tuple[Tensor, Keys]]]:
    """Yield the keys in groups of about so many, none of which is gathered in memory."""
    stream = iter(keys)

    def group(first: tuple[Tensor, Keys]) -> Iterator[tuple[Tensor, Keys]]:
        count, each = len(first[0]), first
        yield each
        while count < most:
            following = next(stream, None)
            if following is None:
                return
            count += len(following[0])
            yield following

    for first in stream:
        yield group(first)


def _written(file: Path) -> Any:
    file.parent.mkdir(parents=True, exist_ok=True)
    return replacing(file)


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found

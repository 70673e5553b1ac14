"""Scores: the influence of training examples on queries, as a value that does not change and can be kept in a file.

Knows: two tensors (values and training ids), where they came from, and the pair of files they are stored in. Does not
know: how scores are computed, what the sign means (ranking.py), or run directories (store.py).
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fastif.errors import ConfigurationError, DataError, EmptyDataError, NonFiniteError, ShapeError, StoredFileError
from fastif.files import json_sha256, replacing, sha256

if TYPE_CHECKING:
    import pandas

FORMAT = "fastif.scores"
FORMAT_VERSION = 1
_BLOCK = 1 << 24  # numbers that a check looks at together, so that checking never needs as much memory as the scores


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """`values[q, k] = I(z_i, z_q)` with `i = train_ids[q, k]`: negative helps, positive harms.

    `values` is a CPU tensor (Q, K) in float32 or float64, `train_ids` int64 of the same shape, `provenance` a read-only
    mapping of what JSON can hold: how the values were made. All is checked here, once, so that nothing later has to.

    The tensors are copied, as a copy costs nothing beside computing influence and a caller that reuses a buffer would
    otherwise change a result in someone's hands; `copy=False` is for a maker that gives its tensor away and has many
    gigabytes. Rows of equal ids (every query scored against all training examples) are kept as one row, expanded.

    >>> scores = Scores(torch.tensor([[-2.0, 1.0]]), torch.tensor([[7, 3]]), {"solver": "exact"})
    >>> scores
    Scores(1 query x 2 training examples, float32, values from -2 to 1)
    >>> scores.provenance["solver"]
    'exact'
    """

    values: Tensor
    train_ids: Tensor
    provenance: Mapping[str, Any] = field(default_factory=dict)
    copy: InitVar[bool] = field(default=True, kw_only=True)

    def __post_init__(self, copy: bool) -> None:
        _check_form(self.values, self.train_ids)
        values = self.values.detach().clone() if copy else self.values.detach()
        if _rows_are_equal(self.train_ids):
            train_ids = self.train_ids[:1].clone().expand(self.train_ids.shape)
        else:
            train_ids = self.train_ids.clone() if copy else self.train_ids
        _check_ids(train_ids)
        _check_finite(values, train_ids)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "train_ids", train_ids)
        object.__setattr__(self, "provenance", MappingProxyType(_as_json(self.provenance)))

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.values)

    def __repr__(self) -> str:
        queries, examples = self.values.shape
        span = f", values from {float(self.values.min()):.3g} to {float(self.values.max()):.3g}" if self._any() else ""
        return (
            f"Scores({queries} {'query' if queries == 1 else 'queries'} x {examples} training "
            f"{'example' if examples == 1 else 'examples'}, {_name(self.values.dtype)}{span})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A mapping proxy cannot be pickled, and scores travel between processes."""
        return type(self), (self.values, self.train_ids, dict(self.provenance))

    def _any(self) -> bool:
        return self.values.numel() > 0

    # ---- several to one ---------------------------------------------------------------------------------------------

    @classmethod
    def merge(cls, parts: Sequence["Scores"]) -> "Scores":
        """The queries of all parts, one after another; every part has the same K.

        Where the parts' provenances differ, what they agree on stays at the top and `provenance["parts"]` lists, for
        each part in order, `{"queries": its number of queries, "provenance": its whole provenance}`.

        >>> first = Scores(torch.tensor([[1.0]]), torch.tensor([[0]]), {"solver": "cg", "seed": 1})
        >>> second = Scores(torch.tensor([[2.0]]), torch.tensor([[5]]), {"solver": "cg", "seed": 2})
        >>> both = Scores.merge([first, second])
        >>> both.values.tolist(), both.train_ids.tolist(), both.provenance["solver"]
        ([[1.0], [2.0]], [[0], [5]], 'cg')
        >>> [part["provenance"]["seed"] for part in both.provenance["parts"]]
        [1, 2]
        """
        parts = list(parts)
        if not parts:
            raise EmptyDataError("There are no scores to merge. Give at least one Scores.")
        widths = {part.values.shape[1] for part in parts}
        if len(widths) > 1:
            raise ShapeError(
                f"Scores over different numbers of training examples ({sorted(widths)}) cannot be one table. Score "
                "every part against the same number of candidates."
            )
        provenances = [dict(part.provenance) for part in parts]
        provenance = provenances[0]
        if any(other != provenance for other in provenances):
            provenance = {k: v for k, v in provenance.items() if all(k in p and p[k] == v for p in provenances)}
            provenance["parts"] = [
                {"queries": len(part), "provenance": whole} for part, whole in zip(parts, provenances, strict=True)
            ]
        values = torch.cat([part.values for part in parts])
        row = parts[0].train_ids[:1]
        if all(_rows_are_equal(part.train_ids) and torch.equal(part.train_ids[:1], row) for part in parts):
            train_ids = row.expand(values.shape)
        else:
            train_ids = torch.cat([part.train_ids for part in parts])
        return cls(values, train_ids, provenance, copy=False)

    def aggregate(self, slices: Sequence[str]) -> dict[str, "Scores"]:
        """For each slice s, one row: `(1/|s|) sum_{q in s} values[q]`, the influence on the slice's mean measure.

        `slices[q]` is the slice of query q; the result is in order of first appearance. The rows of a slice must have
        the same training ids in the same order.

        >>> scores = Scores(torch.tensor([[1.0, 2.0], [9.0, 9.0], [3.0, 4.0]]), torch.arange(2).expand(3, 2))
        >>> {name: part.values.tolist() for name, part in scores.aggregate(["a", "b", "a"]).items()}
        {'a': [[2.0, 3.0]], 'b': [[9.0, 9.0]]}
        """
        if len(slices) != len(self):
            raise DataError(f"{len(slices)} slice names for {len(self)} queries: give one name for each query.")
        rows: dict[str, list[int]] = {}
        for query, name in enumerate(slices):
            rows.setdefault(name, []).append(query)
        return {name: self._mean(name, members) for name, members in rows.items()}

    def _mean(self, name: str, rows: list[int]) -> "Scores":
        # Row by row in float64: as exact as the values, and no second copy of the slice in memory.
        total = torch.zeros(self.values.shape[1], dtype=torch.float64)
        ids = self.train_ids[rows[0]]
        for row in rows:
            if not torch.equal(self.train_ids[row], ids):
                raise DataError(
                    f"Queries {rows[0]} and {row} of slice {name!r} do not share the same training ids, so that their "
                    "mean is not defined. Score them with candidates='all' or with one list of ids."
                )
            total += self.values[row]
        mean = (total / len(rows)).to(self.values.dtype)
        provenance = {**self.provenance, "aggregate": {"slice": name, "queries": len(rows)}}
        return Scores(mean[None], ids[None], provenance, copy=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """A long table with the columns query, train_id, score: one row a pair."""
        try:
            import pandas
        except ImportError as error:
            raise ConfigurationError(
                "to_pandas needs pandas, which is not installed. Install it (pip install pandas), or use "
                "scores.values and scores.train_ids as tensors."
            ) from error
        query = torch.arange(len(self)).repeat_interleave(self.values.shape[1])
        columns = {"query": query, "train_id": self.train_ids.reshape(-1), "score": self.values.reshape(-1)}
        return pandas.DataFrame({name: column.numpy() for name, column in columns.items()}, copy=True)

    # ---- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write `<path>.safetensors` (the tensors) and `<path>.json` (all else, with the hash of the first).

        Each file is complete or absent, whenever the process dies. The json comes second and carries the hash, so that
        a death between the two is noticed by `load` and never read as scores.
        """
        tensors, description = _files(path)
        existing = [str(file) for file in (tensors, description) if file.exists()]
        if existing and not overwrite:
            raise StoredFileError(f"{' and '.join(existing)} exists. Choose another path or pass overwrite=True.")
        ids = self.train_ids[:1] if _rows_are_equal(self.train_ids) else self.train_ids
        content = {"values": self.values.contiguous(), "train_ids": ids.contiguous()}
        try:
            tensors.parent.mkdir(parents=True, exist_ok=True)
            with replacing(tensors) as temporary:
                save_file(content, temporary)
                digest = sha256(temporary)
            with replacing(description) as temporary:
                temporary.write_text(json.dumps(self._description(digest), indent=1) + "\n", encoding="utf-8")
        except (OSError, SafetensorError) as error:
            raise StoredFileError(f"The scores could not be written to {tensors} and {description}: {error}") from error

    def _description(self, digest: str) -> dict[str, Any]:
        description: dict[str, Any] = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "shape": list(self.values.shape),
            "dtype": _name(self.values.dtype),
            "sha256": digest,
            "provenance": dict(self.provenance),
        }
        return {**description, "sha256_of_this": json_sha256(description)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Scores":
        """What `save(path)` wrote, or a StoredFileError that names the file and what is wrong with it."""
        tensors, file = _files(path)
        description = _read_description(file)
        try:
            digest = sha256(tensors)
        except OSError as error:
            raise StoredFileError(f"{tensors} cannot be read, though {file} is there: {error}") from error
        if digest != description["sha256"]:
            raise StoredFileError(
                f"{tensors} does not have the sha256 that {file} says: it is damaged, or a save was interrupted "
                "between the two files. Take both from a copy, or compute the scores again."
            )
        try:
            content = load_file(tensors)
            values, train_ids = content["values"], content["train_ids"]
            # Copied: the tensors may be a view of the file, which someone can write over while we hold them.
            scores = cls(values, train_ids.expand(values.shape), description["provenance"])
        except (SafetensorError, OSError, KeyError, RuntimeError, DataError, NonFiniteError) as error:
            raise StoredFileError(f"{tensors} does not hold scores: {error}") from error
        seen = {"shape": list(values.shape), "dtype": _name(values.dtype)}
        for key, value in seen.items():
            if description[key] != value:
                raise StoredFileError(f"{file} says {key} {description[key]}, but {tensors} has {value}.")
        return scores


def _check_form(values: Tensor, train_ids: Tensor) -> None:
    for name, given in (("values", values), ("train_ids", train_ids)):
        if not isinstance(given, Tensor):
            raise DataError(f"{name} is a {type(given).__name__}, but scores are tensors. Call torch.tensor() first.")
    if values.dim() != 2 or values.shape != train_ids.shape:
        raise ShapeError(
            f"Scores need values and train_ids of one shape (queries, candidates), got {tuple(values.shape)} and "
            f"{tuple(train_ids.shape)}."
        )
    for name, tensor in (("values", values), ("train_ids", train_ids)):
        if tensor.device.type != "cpu":
            raise DataError(f"{name} is on {tensor.device}: scores live in the memory of the host. Call .cpu() first.")
    if values.dtype not in (torch.float32, torch.float64):
        raise DataError(f"values is {values.dtype}, but scores are float32 or float64. Call .float() first.")
    if train_ids.dtype != torch.int64:
        raise DataError(f"train_ids is {train_ids.dtype}, but ids are int64. Call .long() first.")


def _check_ids(train_ids: Tensor) -> None:
    distinct_rows = train_ids[:1] if _rows_are_equal(train_ids) else train_ids
    for start, block in _row_blocks(distinct_rows):
        ordered = block
        if not bool((block[:, 1:] > block[:, :-1]).all()):  # 0, 1, 2, ... needs no sort
            ordered = block.sort(dim=1).values
        repeated = (ordered[:, 1:] == ordered[:, :-1]).nonzero()
        if len(repeated):
            row, column = repeated[0].tolist()
            raise DataError(
                f"Training id {int(ordered[row, column])} occurs twice in the row of query {start + row}: a pair of "
                "query and training example has one score."
            )
        if bool((ordered[:, :1] < 0).any()):
            raise DataError(f"Training id {int(ordered.min())} is negative: an id is a position in the training data.")


def _check_finite(values: Tensor, train_ids: Tensor) -> None:
    for start, block in _row_blocks(values):
        bad = (~torch.isfinite(block)).nonzero()
        if len(bad):
            query, column = start + int(bad[0, 0]), int(bad[0, 1])
            raise NonFiniteError(
                f"The score of query {query} and training id {int(train_ids[query, column])} is "
                f"{float(values[query, column])}. Look for a NaN in the weights or the data, or raise the damping."
            )


def _row_blocks(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Runs of whole rows, each with the number of its first row."""
    step = max(1, _BLOCK // max(1, tensor.shape[1]))
    for start in range(0, len(tensor), step):
        yield start, tensor[start : start + step]


def _rows_are_equal(ids: Tensor) -> bool:
    return len(ids) > 0 and (ids.stride(0) == 0 or all(torch.equal(row, ids[0]) for row in ids[1:]))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _as_json(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of its own, as JSON would give it back: saving and loading then changes nothing."""
    try:
        copied = json.loads(json.dumps(dict(provenance), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"The provenance of scores must be a mapping that JSON can hold: {error}. Give plain numbers (.item(), "
            "None for one that is not finite), strings, lists and dicts."
        ) from error
    assert isinstance(copied, dict)
    return copied


def _files(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    # Not with_suffix: it would take "run-0.1" for a name with the suffix ".1".
    return Path(f"{os.fspath(path)}.safetensors"), Path(f"{os.fspath(path)}.json")


def _read_description(file: Path) -> dict[str, Any]:
    try:
        description: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        is_ours = isinstance(description, dict) and description.get("format") == FORMAT
    except FileNotFoundError as error:
        raise StoredFileError(
            f"{file} is missing. Scores are stored as <path>.safetensors and <path>.json: give the path without either "
            "ending. If only the first is there, a save was interrupted: compute the scores again."
        ) from error
    except OSError as error:
        raise StoredFileError(f"{file} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise StoredFileError(f"{file} is not JSON, so it is damaged or of another kind: {error}") from error
    if not is_ours:
        raise StoredFileError(f"{file} does not describe scores of fastif: its format is not {FORMAT!r}.")
    version = description.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise StoredFileError(
            f"{file} has format version {version}, written by a newer fastif; this one reads up to version "
            f"{FORMAT_VERSION}. Upgrade fastif."
        )
    stated = description.pop("sha256_of_this", None)
    try:
        intact = version == FORMAT_VERSION and stated == json_sha256(description)
    except ValueError:  # a NaN, which we never write
        intact = False
    if not intact:
        raise StoredFileError(f"{file} is damaged: its content is not what was written. Take it from a copy.")
    return description

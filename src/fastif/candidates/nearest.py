"""Nearest: the k training examples that are closest to a query, by features or by the gradient of the head.

This file knows models, data and keys; how neighbours are searched is the business of an index.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fastif.batch import Batch
from fastif.candidates.index import BuiltIndex, ExactIndex, Index
from fastif.candidates.keys import Features, HeadGradients, Keys
from fastif.candidates.parts import KeysOf, Parts
from fastif.candidates.probe import Probe
from fastif.candidates.recall import sample_size
from fastif.candidates.selection import PerQuery
from fastif.data import Examples
from fastif.errors import ConfigurationError, DataError
from fastif.fitting import fitting
from fastif.keeping import Tensors
from fastif.losses import PerExample
from fastif.model import TorchModel
from fastif.progress import Progress, silent

By = Literal["features", "head-gradient"]
WAYS: tuple[By, ...] = get_args(By)


@dataclass(frozen=True)
class Nearest:
    r"""Score only the k training examples that are nearest to each query.

    By "head-gradient", examples are compared by the gradient of their loss in the last linear layer, that of a query by
    the gradient of its measure: the k/2 with the most positive inner product (helpful, as far as this layer goes) and
    the k/2 with the most negative (harmful). By "features", as in the paper: those with the smallest Euclidean distance
    between the inputs of that layer; where each position has a class of its own, between their means over the positions
    with one. Inner products find far more of the influential examples.

    Scores of candidates are exact; what is not a candidate is not scored. `scores.provenance["candidate_recall"]` holds
    the share of the strongest examples that were candidates, estimated from a random sample (candidates/recall.py).

    Args:
        k: how many examples to score for each query; all, if there are fewer.
        by: "head-gradient" or "features".
        features: the name of a module whose output, flattened, is compared by in place of the last layer's input.
        index: how neighbours are searched: exactly (None), or for instance by `fastif.integrations.faiss.FaissIndex`.
        sample: how many random training examples are scored to estimate the recall; None: 200, or more if needed.
        seed: of that sample.

    >>> Nearest(1000, by="features")
    Nearest(k=1000, by='features', features=None, index=None, sample=None, seed=0)
    """

    k: int
    by: By = "head-gradient"
    _: KW_ONLY
    features: str | None = None
    index: Index | None = None
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("sample", 1), ("seed", 0)):
            value = getattr(self, name)
            if name == "sample" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        if self.by not in WAYS:
            raise ConfigurationError(f"by must be one of {', '.join(map(repr, WAYS))}, not {self.by!r}.")
        if self.features is not None and not isinstance(self.features, str):
            raise ConfigurationError(f"features must be the name of a module, not {self.features!r}.")
        if self.features is not None and self.by != "features":
            raise ConfigurationError(f'features= is for by="features"; by={self.by!r} always uses the last nn.Linear.')
        if self.index is not None and (isinstance(self.index, type) or not hasattr(self.index, "build")):
            raise ConfigurationError(f"index must be None or an index such as FaissIndex('Flat'), not {self.index!r}.")

    def prepare(
        self,
        model: TorchModel,
        train: Any,
        *,
        batch_size: int = 256,
        progress: Progress = silent,
        made: Iterable[Tensors] | Parts | None = None,
    ) -> "Neighbours":
        """Read the keys of the training data and build the index of them, in one pass; or of keys `made` elsewhere.

        `made` may also be an index that several processes hold in parts.
        """
        how: dict[str, Any] = {"batch_size": batch_size, "progress": progress, "made": made}
        return Neighbours(self, model, Examples.of(train, "train"), **how)

    def keys_of(self, model: TorchModel, train: Examples, ids: Tensor, *, batch_size: int) -> Tensors:
        """Return the keys of some training examples, as tensors that another process can make an index of."""
        return {
            name: value.cpu() for name, value in vars(self.keys_maker(model, train, batch_size=batch_size)(ids)).items()
        }

    def keys_maker(self, model: TorchModel, train: Examples, *, batch_size: int) -> KeysOf:
        """Return what makes the keys of the examples with given numbers."""
        maker = _KeyMaker(self, model, train)

        def keys_of(ids: Tensor) -> Keys:
            parts = [vars(maker.key(model.place(batch), model.losses)) for batch in train.batches(batch_size, ids)]
            return maker.again({name: torch.cat([part[name] for part in parts]) for name in parts[0]})

        return keys_of


Candidates = str | Sequence[int] | Tensor | Nearest


class Neighbours:
    """The keys of some training data in an index, ready to be asked for candidates."""

    def __init__(
        self,
        nearest: Nearest,
        model: TorchModel,
        train: Examples,
        *,
        batch_size: int,
        progress: Progress,
        made: Iterable[Tensors] | Parts | None = None,
    ) -> None:
        self._nearest = nearest
        self._model = model
        self._maker = _KeyMaker(nearest, model, train)
        self.index: BuiltIndex
        if isinstance(made, Parts):
            self.index = made
        else:
            keys = self._keys(train, batch_size, progress) if made is None else map(self._maker.again, made)
            self.index = (nearest.index or ExactIndex()).build(keys)
        if len(self.index) != len(train):
            raise DataError(
                f"the index holds {len(self.index)} examples, but there are {len(train)} training examples: it was "
                "made of other data. Build it anew."
            )

    def select(
        self,
        batches: Iterable[Batch],
        measure: PerExample,
        *,
        reduce: Literal["mean"] | None = None,
        k: int | None = None,
    ) -> PerQuery:
        """Return the candidates of placed queries, or those of the mean of their keys; `k` of them, if given."""
        total = len(self.index)
        k = min(int(self._nearest.k if k is None else k), total)
        keys = (self._maker.key(batch, measure) for batch in batches)
        rows = torch.cat([self.index.search(key, k) for key in (keys if reduce is None else [_mean(list(keys))])])
        return PerQuery(
            rows,
            total,
            description=repr(self._nearest),
            sample=self._nearest.sample or sample_size(k, total),
            seed=int(self._nearest.seed),
        )

    def _keys(self, train: Examples, batch_size: int, progress: Progress) -> Iterator[Keys]:
        for batch in train.batches(batch_size):
            progress("indexing", int(batch.ids[0]), len(train))
            yield from fitting(lambda some: self._maker.key(self._model.place(some), self._model.losses), batch)
        progress("indexing", len(train), len(train))


class _KeyMaker:
    """Makes the keys of a placed batch."""

    def __init__(self, nearest: Nearest, model: TorchModel, train: Examples) -> None:
        self._by = nearest.by
        self._device = model.device
        self._probe = Probe(model, model.place(train.batch(range(min(len(train), 8)))), nearest.features)

    def key(self, batch: Batch, measure: PerExample) -> Keys:
        if self._by == "features":
            return self._probe.features(batch)
        return self._probe.head_gradients(batch, measure)

    def again(self, tensors: Tensors) -> Keys:
        """Return keys from their tensors."""
        here = {name: tensor.to(self._device) for name, tensor in tensors.items()}
        return Features(**here) if self._by == "features" else HeadGradients(**here)


def _mean(keys: list[Any]) -> Keys:
    kind: type[Features] | type[HeadGradients] = type(keys[0])
    return kind.mean(keys)

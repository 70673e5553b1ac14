"""The simplest candidates: all training examples, or those with given numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, DataError, EmptyDataError


def candidate_ids(candidates: str | Sequence[int] | Tensor, total: int) -> Tensor | None:
    """Return the numbers of the training examples to score, None for all.

    >>> candidate_ids("all", 10) is None, candidate_ids([3, 1], 10)
    (True, tensor([3, 1]))
    """
    if isinstance(candidates, str):
        if candidates == "all":
            return None
        raise ConfigurationError(
            f"candidates must be 'all', numbers of training examples, or fastif.Nearest(k, by=...), not {candidates!r}."
        )
    return given_ids(candidates, total, name="candidates")


def given_ids(given: Sequence[int] | Tensor, total: int, *, name: str = "ids") -> Tensor:
    """Return the numbers of some training examples, each once, as a tensor.

    >>> given_ids([3, 1], 10)
    tensor([3, 1])
    """
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"{name} must be one list of whole numbers, the numbers of training examples, and not a "
            f"{type(given).__name__} that no tensor can be made of: {error}."
        ) from error
    if not ids.numel():
        raise EmptyDataError(f"{name} is empty: there is no training example to look at.")
    if ids.ndim != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ConfigurationError(f"{name} must be one list of whole numbers, the numbers of training examples.")
    ids = ids.to(torch.int64)
    if bool((ids < 0).any()) or bool((ids >= total).any()):
        odd = int(ids[(ids < 0) | (ids >= total)][0])
        raise DataError(f"{name} names example {odd}, but the training examples are numbered 0 to {total - 1}.")
    if len(ids.unique()) < len(ids):
        raise DataError(f"{name} names some training example twice; name each once.")
    return ids

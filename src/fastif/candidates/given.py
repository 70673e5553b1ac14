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
    try:
        ids = torch.as_tensor(candidates)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            "candidates must be 'all', numbers of training examples in a list or tensor, or fastif.Nearest(k, by=...), "
            f"not a {type(candidates).__name__} that no tensor can be made of: {error}."
        ) from error
    if not ids.numel():
        raise EmptyDataError("candidates is empty: there is no training example to score.")
    if ids.ndim != 1 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ConfigurationError("candidates must be one list of whole numbers, the numbers of training examples.")
    ids = ids.to(torch.int64)
    if bool((ids < 0).any()) or bool((ids >= total).any()):
        odd = int(ids[(ids < 0) | (ids >= total)][0])
        raise DataError(f"candidates names example {odd}, but the training examples are numbered 0 to {total - 1}.")
    if len(ids.unique()) < len(ids):
        raise DataError("candidates names some training example twice; name each once.")
    return ids

"""What is wrong with the arguments of an explainer, before anything is computed."""

import sys
from numbers import Integral, Real
from typing import Any

import torch

from fastif.errors import ConfigurationError
from fastif.model import TorchModel
from fastif.solvers import check_damping
from fastif.vectors import dtype


def check_arguments(model: Any, solver: Any, damping: Any) -> None:
    """Raise for an argument that cannot work, whatever the model and the data."""
    if isinstance(model, torch.nn.Module):
        raise ConfigurationError(
            "model is a plain torch module, which does not say its loss. Wrap it: "
            'fastif.TorchModel(module, loss="cross_entropy").'
        )
    if solver != "auto" and (isinstance(solver, type) or not hasattr(solver, "prepare")):
        raise ConfigurationError(f'solver must be "auto" or a solver such as fastif.Exact(), not {solver!r}.')
    if damping != "auto":
        if isinstance(damping, bool) or not isinstance(damping, Real):
            raise ConfigurationError(f'damping must be a number or "auto", not {damping!r}.')
        try:
            value = float(damping)
        except OverflowError:  # a whole number of hundreds of digits
            value = sys.float_info.max
        check_damping(value)
        if isinstance(model, TorchModel):
            _check_not_drowning(value, dtype(model.parameters))


def _check_not_drowning(damping: float, kind: torch.dtype) -> None:
    """Raise for a damping so large that solutions and scores, which are divided by it, may all underflow."""
    most = torch.finfo(kind).max ** 0.5
    if damping > most:
        raise ConfigurationError(
            f"damping {damping:.3g} is too large for the {str(kind).removeprefix('torch.')} that is computed in: "
            f"influence is divided by it, and may come out as zero throughout from {most:.2g} on. Useful is a small "
            'part of the largest eigenvalue of H; damping="auto" finds one.'
        )


def check_listing(top: Any, scores: Any) -> None:
    """Raise unless `explain` can list so many and hold so much."""
    if isinstance(top, bool) or not isinstance(top, Integral) or top < 1:
        raise ConfigurationError(f"top must be a whole number of at least 1, not {top!r}.")
    if scores not in ("all", "strongest"):
        raise ConfigurationError(f"scores must be 'all' or 'strongest', not {scores!r}.")


def check_reduce(reduce: object) -> None:
    """Raise unless scores can be brought together so."""
    if reduce not in (None, "mean"):
        raise ConfigurationError(f"reduce must be None or 'mean', not {reduce!r}.")

"""What a team is going to do, in words and numbers, before it begins."""

from collections.abc import Iterator

import torch

from fastif import vectors
from fastif.data import Examples
from fastif.distributed.team import Team
from fastif.evaluation import differentiated_once
from fastif.model import TorchModel
from fastif.prefix import PrefixModel
from fastif.ranking import with_contenders
from fastif.shares import Share

ID_BYTES = 8


def told(
    team: Team, model: TorchModel, train: Examples, queries: int, *, strongest: int | None = None
) -> Iterator[str]:
    """Yield a line for each thing that a person may want to know; `strongest` scores of each end are held, or all."""
    held = [
        int((Share(rank, team.ranks, len(train)).owners(train.everyone()) == rank).sum()) for rank in range(team.ranks)
    ]
    states = _state_bytes(model, train)
    kept = "" if not states else f", with {_bytes(states * max(held))} of states of the frozen layers"
    hosts = sorted(set(team.watch.hosts))
    yield (
        f"{team.ranks} processes on {len(hosts)} machine{'s' if len(hosts) > 1 else ''} ({', '.join(hosts)}). Each "
        f"holds {min(held):,} to {max(held):,} of {len(train):,} training examples{kept}, and scores those."
    )
    number = vectors.dtype(model.parameters).itemsize
    size = vectors.size(model.parameters) * number
    share = Share(0, team.ranks, len(train))
    others, ends = len(train) - held[0], 0 if strongest is None else 2 * with_contenders(strongest)
    scores = number * others
    if ends:  # of every chunk, with their numbers
        scores = min(ends, share.chunk) * (number + ID_BYTES) * -(-others // share.chunk)
    yield (
        f"To send: {_bytes(size)} for each vector of a product with the curvature, there and back; {_bytes(size)} for a"
        f" query to be scored; {_bytes(queries * scores)} of scores to rank 0."
    )


def _state_bytes(model: TorchModel, train: Examples) -> float:
    """Return the bytes of the states of a mean example; none where no layer is frozen."""
    if not isinstance(model, PrefixModel) or model.prefix is None:
        return 0.0
    with torch.no_grad(), differentiated_once():
        first = model.encode(model.place(train.batch([0])))
    if train.lengths is None:
        return float(first.nbytes)
    return first.nbytes / first.shape[1] * float(train.lengths.double().mean())


def _bytes(count: float) -> str:
    """Return a number of bytes as people write it.

    >>> _bytes(1500), _bytes(2.5e9)
    ('1.5 kB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"

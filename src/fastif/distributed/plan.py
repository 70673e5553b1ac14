"""What a team is going to do, in words and numbers, before it begins."""

from collections.abc import Iterator

from fastif import vectors
from fastif.data import Examples
from fastif.distributed.team import Team
from fastif.model import TorchModel
from fastif.shares import Share


def told(team: Team, model: TorchModel, train: Examples, queries: int) -> Iterator[str]:
    """Yield a line for each thing that a person may want to know."""
    held = [
        int((Share(rank, team.ranks, len(train)).owners(train.everyone()) == rank).sum()) for rank in range(team.ranks)
    ]
    hosts = sorted(set(team.watch.hosts))
    yield (
        f"{team.ranks} processes on {len(hosts)} machine{'s' if len(hosts) > 1 else ''} ({', '.join(hosts)}). Each "
        f"holds {min(held):,} to {max(held):,} of {len(train):,} training examples, and scores those."
    )
    size = vectors.size(model.parameters) * next(iter(model.parameters.values())).element_size()
    yield (
        f"To send: {_bytes(size)} for each vector of a product with the curvature, there and back; {_bytes(size)} for a"
        f" query to be scored; {_bytes(4 * queries * (len(train) - held[0]))} of scores to rank 0."
    )


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

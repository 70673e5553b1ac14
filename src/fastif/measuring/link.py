"""What sending between GPUs takes, by a model of two constants; and what follows for the paper's query on several.

An all-reduce of b bytes among G is taken as a ring, 2 (G - 1) / G x b through each link. Nothing here is measured: the
constants are assumed, and what is made of them is a prediction, to be called so.
"""

from dataclasses import dataclass
from typing import Any

NUMBER = 4  # bytes of a vector's entry, and of a score


@dataclass(frozen=True)
class Link:
    """What is assumed of the link between processes.

    Args:
        bandwidth: bytes a second into and out of a process.
        latency: seconds of a call.
    """

    bandwidth: float = 25e9
    latency: float = 5e-5

    def seconds(self, calls: float, carried: float) -> float:
        """Return how long some calls take that carry so many bytes through each link.

        >>> Link(bandwidth=1e9, latency=1e-3).seconds(2, 5e8)
        0.502
        """
        return calls * self.latency + carried / self.bandwidth


def ring(ranks: int) -> float:
    """Return how often the bytes of an all-reduce go through each link.

    >>> ring(1), ring(2), ring(4)
    (0.0, 1.0, 1.5)
    """
    return 2 * (ranks - 1) / ranks


def bytes_of(parameters: int, *, vectors: int) -> int:
    """Return the bytes of so many vectors, each with a number for every parameter.

    The paper's LiSSA brings T of them together for each query, in one all-reduce of one flat buffer.

    >>> bytes_of(14_768_643, vectors=4)
    236298288
    """
    return NUMBER * parameters * vectors


def on_several(row: dict[str, Any], alone_s: float, parameters: int, link: Link) -> dict[str, Any]:
    """Return the predicted time of a query on as many GPUs as LiSSA has repeats, and its parts.

    Args:
        row: what one device takes: `seconds`, of them `solving_s` for all T repeats and `scoring_s` for the candidates.
        alone_s: what it takes for the solve of one repeat, as each of the GPUs does.
        parameters: how many the solution has.
        link: between the GPUs.
    """
    gpus = row["T"]
    sending = link.seconds(1, ring(gpus) * bytes_of(parameters, vectors=gpus))
    scoring = row["scoring_s"] / gpus
    rest = row["seconds"] - row["solving_s"] - row["scoring_s"]
    return {
        "gpus": gpus,
        "seconds": alone_s + sending + scoring + rest,
        "solving_s": alone_s,
        "sending_s": sending,
        "scoring_s": scoring,
        "rest_s": rest,
        **vars(link),
    }

r"""What share of the strongest training examples the candidates hold, estimated from a random sample.

With K candidates of n training examples, the aim is recall@K: the share of the K examples of largest |score| that are
candidates. The scores of the candidates are known. Of the n - K others, those S' that a uniform sample of the training
data happens to hold are known too, and each stands for $w = (n - K)/S'$ of them. So candidates (weight 1) and sampled
others (weight w) are sorted together by |score|, the strongest are taken until their weights reach K, and the estimate
is the share of that weight which is of candidates. Where the sample is all of the data, w = 1 and the estimate is
exact.

Its limits. About S K/n of a sample of S are among the K strongest. Where that is less than one, the estimate would be
far too high, and None is given; where it is a few, the estimate is some hundredths too high, and for a single query it
rests on those few points: the standard error, by the jackknife over groups of the sample, is then too small. For the
same reason it is the recall of the K strongest; that of the ten strongest is usually far higher, as candidates are
chosen to hold them, but no small random sample can show that.
"""

import torch
from torch import Tensor

GROUPS = 10  # of the jackknife
LEAST_SAMPLE = 200
STRONG_IN_SAMPLE = 2  # how many of the K strongest a sample should hold


def sample_size(k: int, total: int) -> int:
    """Return how many examples to score for the estimate: not many more than the candidates of one query.

    >>> sample_size(1000, 5_000), sample_size(1000, 400_000), sample_size(10, 10**7)
    (200, 800, 200)
    """
    return min(total, max(LEAST_SAMPLE, min(-(-STRONG_IN_SAMPLE * total // k), 2 * k)))


class RecallEstimate:
    """The estimate of the mean recall over queries, which come in blocks.

    >>> estimate = RecallEstimate(total=4)
    >>> scores = torch.tensor([[5.0, -4.0, 1.0, 0.5]])  # candidates 0 and 2; the two strongest are 0 and 1
    >>> estimate.add(scores[:, [0, 2]], torch.tensor([[0, 2]]), scores, torch.arange(4))
    >>> estimate.as_json()
    {'estimate': 0.5, 'at': 2, 'standard_error': 0.0, 'sample': 4}
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._recalls: list[Tensor] = []
        self._at = self._sample = 0

    def add(self, values: Tensor, ids: Tensor, sampled: Tensor, sample_ids: Tensor) -> None:
        """Take the scores (Q, K) of candidates, and those (Q, S) of the sample, with their numbers."""
        outside = torch.stack([~torch.isin(sample_ids, row) for row in ids])
        self._at, self._sample = values.shape[1], len(sample_ids)
        group = torch.arange(self._sample) % GROUPS
        keeps = [torch.ones_like(group, dtype=torch.bool), *(group != left_out for left_out in range(GROUPS))]
        recalls = [weighted_recall(values, sampled[:, keep], outside[:, keep], self._total) for keep in keeps]
        self._recalls.append(torch.stack(recalls))

    def as_json(self) -> dict[str, float | int | None]:
        """Return the estimate, the K that it is the recall at, its standard error, and the size of the sample.

        Numbers are None where the sample is too small for them, or held nothing but candidates.
        """
        if self._sample * self._at < self._total:
            return {"estimate": None, "at": self._at, "standard_error": None, "sample": self._sample}
        whole, *parts = torch.cat(self._recalls, dim=1).nanmean(dim=1)
        spread = torch.stack(parts)
        variance = (GROUPS - 1) / GROUPS * (spread - spread.mean()).square().sum()
        unseen = 1 - self._sample / self._total
        error = (variance * unseen).sqrt() if unseen else torch.zeros(())  # a sample of everything leaves no doubt
        return {"estimate": _number(whole), "at": self._at, "standard_error": _number(error), "sample": self._sample}


def weighted_recall(values: Tensor, sampled: Tensor, outside: Tensor, total: int) -> Tensor:
    """Return the estimated recall@K of each query (Q,), nan where no sampled example is outside the candidates.

    >>> values, sampled = torch.tensor([[9.0, 7.0, 1.0]]), torch.tensor([[8.0, 0.5]])
    >>> weighted_recall(values, sampled, torch.tensor([[True, True]]), total=5)  # 9, 8 and 7 are the strongest
    tensor([0.6667], dtype=torch.float64)
    """
    queries, k = values.shape
    if k >= total:
        return torch.ones(queries, dtype=torch.float64)
    weight = outside * ((total - k) / outside.sum(dim=1, keepdim=True).double())
    weights = torch.cat([torch.ones(queries, k, dtype=torch.float64), weight], dim=1)
    order = torch.cat([values, sampled], dim=1).abs().argsort(dim=1, descending=True, stable=True)
    reached = weights.gather(1, order).cumsum(dim=1).clamp(max=k)
    taken = reached.diff(dim=1, prepend=reached.new_zeros(queries, 1))
    return (taken * (order < k)).sum(dim=1) / k


def _number(value: Tensor) -> float | None:
    return float(value) if torch.isfinite(value) else None

"""How well one list of numbers agrees with another: recall, three correlations, AUC, linear datamodeling score.

Everything is computed in float64, and a number that has no definition is a DataError, never a nan that travels on into
a table: input that is constant, not finite, or shorter than two has no correlation.

Knows: tensors of numbers. Does not know: scores as an object, models, or which of the two lists is the truth.
"""

import math

import torch
from torch import Tensor

from fastif.errors import ConfigurationError, DataError, EmptyDataError, ShapeError

_COLUMNS = 1 << 16  # training examples converted to float64 at a time


def recall_at(found_ids: Tensor, true_ids: Tensor, m: int | None = None) -> float:
    """`|found & true| / |true|`; recall@m is that for the first `m` of `true_ids`, the strongest first.

    >>> recall_at(torch.tensor([4, 8, 1, 9]), torch.tensor([1, 2, 4, 5]))
    0.5
    >>> recall_at(torch.tensor([4, 8, 1, 9]), torch.tensor([1, 2, 4, 5]), m=1)
    1.0
    """
    found_ids, true_ids = torch.as_tensor(found_ids), torch.as_tensor(true_ids)
    if found_ids.dim() != 1 or true_ids.dim() != 1:
        raise ShapeError(f"Recall needs 1-D ids, got shapes {tuple(found_ids.shape)} and {tuple(true_ids.shape)}.")
    if m is not None:
        if not 1 <= m <= len(true_ids):
            raise ConfigurationError(f"recall@{m} needs m between 1 and the {len(true_ids)} true ids that were given.")
        true_ids = true_ids[:m]
    if len(true_ids) == 0:
        raise EmptyDataError("Recall of no true ids is 0/0. Give at least one.")
    if len(torch.unique(true_ids)) != len(true_ids):
        raise DataError("An id occurs twice among the true ids, so that recall could not be counted. Remove repeats.")
    return float(torch.isin(true_ids, found_ids).sum()) / len(true_ids)


def pearson(x: Tensor, y: Tensor) -> float:
    """`sum (x - mean x)(y - mean y) / (||x - mean x|| ||y - mean y||)`. Constant input: DataError.

    >>> round(pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 7.0])), 6)
    0.993399
    """
    return _cosine(*_pair(x, y))


def spearman(x: Tensor, y: Tensor) -> float:
    """Pearson's correlation of the ranks, equal values sharing the mean of their ranks. Constant input: DataError.

    >>> round(spearman(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([2.0, 4.0, 5.0])), 6)
    1.0
    """
    x, y = _pair(x, y)
    return _cosine(_average_ranks(x), _average_ranks(y))


def kendall(x: Tensor, y: Tensor) -> float:
    """Tau-b: `(P - Q) / sqrt((n0 - nx)(n0 - ny))`. Constant input: DataError.

    P and Q are the pairs that x and y order alike and unlike, `n0 = n (n - 1) / 2`, and nx, ny the pairs tied in x, in
    y. As `P + Q = n0 - nx - ny + nxy`, only Q has to be counted: sorted by x and then y, it is the number of inversions
    of y. Memory is O(n), time O(n log^2 n).

    >>> round(kendall(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 3.0, 2.0, 4.0])), 6)
    0.666667
    """
    x, y = _pair(x, y)
    x_codes, x_counts = torch.unique(x, return_inverse=True, return_counts=True)[1:]
    y_codes, y_counts = torch.unique(y, return_inverse=True, return_counts=True)[1:]
    both = torch.sort(x_codes * len(y_counts) + y_codes).values  # one integer that orders by x, then by y
    discordant = _inversions(both % len(y_counts))
    tied_both = _pairs(torch.unique_consecutive(both, return_counts=True)[1])
    pairs, tied_x, tied_y = len(x) * (len(x) - 1) // 2, _pairs(x_counts), _pairs(y_counts)
    difference = pairs - tied_x - tied_y + tied_both - 2 * discordant
    return difference / math.sqrt((pairs - tied_x) * (pairs - tied_y))  # Python's integers: the product needs > 64 bit


def auc(scores: Tensor, labels: Tensor) -> float:
    """Probability that a positive scores above a negative, a tie counting one half. One class only: DataError.

    With `R` the sum of the average ranks of the `p` positives among `p + m`, `AUC = (R - p (p + 1) / 2) / (p m)`.
    Constant scores are not refused: they are all ties, and the AUC of knowing nothing is 1/2.

    >>> auc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1]))
    0.875
    """
    scores, labels = torch.as_tensor(scores, dtype=torch.float64), torch.as_tensor(labels)
    _check_rows(scores, labels)
    _check_finite("scores", scores)
    if not bool(((labels == 0) | (labels == 1)).all()):
        raise DataError("AUC needs labels that are 0 or 1 (or False and True). Compare them with the positive class.")
    positive = labels == 1
    positives = int(positive.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        raise DataError(f"AUC needs both classes, got {positives} positive and {negatives} negative labels.")
    ranks = float(_average_ranks(scores)[positive].sum())
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def linear_datamodeling_score(scores: Tensor, subset_masks: Tensor, true_losses: Tensor) -> Tensor:
    """For each query, Spearman's correlation of predicted and true loss over subsets of the training data: (Q,).

    `scores` (Q, n) holds `I(z_i, z_q)`; `subset_masks` (S, n) says which examples a subset has; `true_losses` (Q, S) is
    the query's loss after training on it. The loss predicted for subset s is `sum_{i in s} I(z_i, z_q)` as it stands:
    negative influence helps, so more of it means a lower loss, and a good method scores near +1. (With scores whose
    sign says "positive helps", negate them first.)

    >>> scores = torch.tensor([[-2.0, 1.0, 0.5]])
    >>> masks = torch.tensor([[True, True, False], [True, False, True], [False, True, True]])
    >>> linear_datamodeling_score(scores, masks, torch.tensor([[0.4, 0.3, 0.9]])).round(decimals=6).tolist()
    [1.0]
    """
    scores, subset_masks, true_losses = map(torch.as_tensor, (scores, subset_masks, true_losses))
    shapes = (scores.shape, subset_masks.shape, true_losses.shape)
    fit = all(len(s) == 2 for s in shapes) and shapes[0][1] == shapes[1][1]
    if not fit or shapes[2] != (shapes[0][0], shapes[1][0]):
        raise ShapeError(
            "The linear datamodeling score needs scores (Q, n), subset_masks (S, n) and true_losses (Q, S), got "
            f"{', '.join(str(tuple(s)) for s in shapes)}."
        )
    if subset_masks.dtype != torch.bool and not bool(((subset_masks == 0) | (subset_masks == 1)).all()):
        raise DataError("subset_masks must hold 0 and 1 (or False and True): an example is in a subset or it is not.")
    predicted = torch.zeros(true_losses.shape, dtype=torch.float64)
    for part, masks in zip(scores.split(_COLUMNS, dim=1), subset_masks.split(_COLUMNS, dim=1), strict=True):
        predicted += part.double() @ masks.double().T
    result = torch.empty(len(scores), dtype=torch.float64)
    for query in range(len(scores)):
        try:
            result[query] = spearman(predicted[query], true_losses[query])
        except DataError as error:
            raise DataError(f"Query {query} (x: predicted, y: true losses over subsets): {error}") from error
    return result


def _pair(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64, checked to have a correlation."""
    x, y = torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)
    _check_rows(x, y)
    for name, row in (("x", x), ("y", y)):
        _check_finite(name, row)
        if len(row) < 2:
            raise DataError(f"A correlation needs at least two pairs, got {len(row)}.")
        if bool((row == row[0]).all()):
            raise DataError(f"{name} is constant ({len(row)} times {float(row[0])}): no correlation is defined.")
    return x, y


def _check_rows(x: Tensor, y: Tensor) -> None:
    if x.dim() != 1 or x.shape != y.shape:
        raise ShapeError(f"Two 1-D tensors of one length are needed, got shapes {tuple(x.shape)} and {tuple(y.shape)}.")


def _check_finite(name: str, row: Tensor) -> None:
    bad = (~torch.isfinite(row)).nonzero()
    if len(bad):
        raise DataError(f"{name}[{int(bad[0])}] is {float(row[bad[0]])}; every number must be finite.")


def _cosine(x: Tensor, y: Tensor) -> float:
    """Of the centred vectors. Scaled first, so that the squares of neither 1e300 nor 1e-300 leave float64."""
    directions = []
    for row in (x, y):
        row = row / row.abs().max()
        row = row - row.mean()
        directions.append(row / row.norm())
    return min(1.0, max(-1.0, float(directions[0] @ directions[1])))


def _average_ranks(x: Tensor) -> Tensor:
    """Ranks from 1; equal values share their mean rank."""
    codes, counts = torch.unique(x, return_inverse=True, return_counts=True)[1:]
    ranks: Tensor = (counts.cumsum(0) - (counts - 1) / 2).double()
    return ranks[codes]


def _pairs(counts: Tensor) -> int:
    return int((counts * (counts - 1) // 2).sum())


def _inversions(values: Tensor) -> int:
    """Pairs i < j with values[i] > values[j], by merge sort: blocks of 2, 4, 8, ..., all blocks of a size at once."""
    width, size = 1, 1 << (len(values) - 1).bit_length()
    padding = values.new_full((size - len(values),), int(values.max()))  # at the end and the largest: in no inversion
    values = torch.cat([values, padding])
    count = 0
    while width < size:
        left, right = (half.contiguous() for half in values.view(-1, 2, width).unbind(dim=1))
        count += right.numel() * width - int(torch.searchsorted(left, right, right=True).sum())
        values = values.view(-1, 2 * width).sort(dim=1).values.view(-1)
        width *= 2
    return count

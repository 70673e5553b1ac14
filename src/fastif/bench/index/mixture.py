"""Points that look like features of a real model, as many as are wanted: a mixture fitted to real ones.

Each component is a Gaussian with a mean, a few strong directions and the same variance in all others (probabilistic
principal components), fitted to the real features of one cluster. Points are drawn chunk by chunk, each chunk by its
own number, so that any process can draw any of them and none has to hold or send them. Only benchmarks know the model
and the data that are named here.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fastif.bench.lengths import read_columns
from fastif.errors import ConfigurationError

CHUNK = 8192
ROUNDS = 20  # of k-means


def real_features(count: int, file: Path) -> Tensor:
    """Return the mean last states of all-mpnet-base-v2 on sentences of SST-2, from a file if that holds enough."""
    if file.exists():
        found = load_file(file)["features"]
        if len(found) >= count:
            return found[:count]
    from fastif.integrations.huggingface.checkpoint import load_base
    from fastif.integrations.huggingface.packaged import resolve

    names = {0: "negative", 1: "positive"}
    module, tokenizer = load_base(resolve("mpnet"), id2label=names, problem_type="single_label_classification", seed=0)
    texts = list(dict.fromkeys(str(each) for each in read_columns("sst2", ("text", "label"))[0]))
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))[:count].tolist()
    chosen = sorted((texts[row] for row in order), key=len)  # so that little is padded
    parts = []
    encoder = module.eval().base_model
    assert isinstance(encoder, torch.nn.Module)
    with torch.no_grad():
        for start in range(0, count, 32):
            batch = tokenizer(chosen[start : start + 32], padding=True, truncation=True, return_tensors="pt")
            states, mask = encoder(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(2)
            parts.append((states * mask).sum(dim=1) / mask.sum(dim=1))
    features = torch.cat(parts)[torch.randperm(count, generator=torch.Generator().manual_seed(1))].contiguous()
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file({"features": features}, file)
    return features


@dataclass(frozen=True)
class Mixture:
    """Gaussians: `shares` (c,), `means` (c, d), `factors` (c, r, d) and the `noise` (c,) around them."""

    shares: Tensor
    means: Tensor
    factors: Tensor
    noise: Tensor

    @classmethod
    def fit(cls, features: Tensor, *, components: int, rank: int, seed: int = 0) -> "Mixture":
        """Fit by k-means, and principal components within each cluster."""
        if len(features) < 4 * components:
            raise ConfigurationError(f"{len(features)} features are too few for a mixture of {components}.")
        assigned = _clusters(features, components, seed)
        shares, means, factors, noise = [], [], [], []
        for number in assigned.unique().tolist():
            mine = features[assigned == number]
            mean = mine.mean(dim=0)
            _, values, directions = torch.linalg.svd(mine - mean, full_matrices=False)
            variances = values.square() / max(1, len(mine) - 1)
            kept = min(rank, max(1, len(mine) // 2))
            left = float(variances[kept:].sum()) / (features.shape[1] - kept)
            strong = torch.zeros(rank, features.shape[1])
            strong[:kept] = directions[:kept] * (variances[:kept] - left).clamp(min=0).sqrt()[:, None]
            shares.append(len(mine) / len(features))
            means.append(mean)
            factors.append(strong)
            noise.append(left**0.5)
        return cls(torch.tensor(shares), torch.stack(means), torch.stack(factors), torch.tensor(noise))

    def chunk(self, number: int, count: int = CHUNK) -> Tensor:
        """Return the points of a chunk, the same whoever draws them."""
        generator = torch.Generator().manual_seed(1_000_003 * (number + 1))
        chosen = torch.multinomial(self.shares, count, replacement=True, generator=generator)
        points = self.means[chosen]
        weights = torch.randn(count, self.factors.shape[1], generator=generator)
        for each in chosen.unique().tolist():
            rows = chosen == each
            points[rows] += weights[rows] @ self.factors[each]
        points += self.noise[chosen, None] * torch.randn(points.shape, generator=generator)
        return points

    def save(self, file: Path) -> None:
        """Write it to a file."""
        save_file(vars(self), file)

    @classmethod
    def load(cls, file: Path) -> "Mixture":
        """Read it from a file."""
        return cls(**load_file(file))


def nearness(points: Tensor) -> float:
    """Return the distance to the nearest other point over that to any other, in the mean: small where points cluster.

    >>> nearness(torch.tensor([[0.0], [1.0], [100.0], [101.0]])) < 0.1
    True
    """
    some = points[:1000]
    distances = torch.cdist(some, points)
    distances[torch.arange(len(some)), torch.arange(len(some))] = torch.nan
    nearest = torch.where(distances.isnan(), torch.inf, distances).min(dim=1).values
    return float(nearest.mean() / distances.nanmean())


def _clusters(features: Tensor, count: int, seed: int) -> Tensor:
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
    means = features[order[:count]].clone()
    for _ in range(ROUNDS):
        assigned = torch.cdist(features, means).argmin(dim=1)
        for number in assigned.unique().tolist():
            means[number] = features[assigned == number].mean(dim=0)
    return assigned

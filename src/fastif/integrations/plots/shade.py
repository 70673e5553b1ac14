"""A shade in place of very many lines: how much of their weight passes through each pixel.

So many transparent lines above each other would become one solid area. Knows line segments, and nothing of graphs.
"""

import numpy as np

from fastif.apps.edges import Floats

SAMPLES = 256  # of each line; where on it they begin is drawn at random, so that no pattern shows
LINES = 20_000  # that are sampled together
DARKEST = 0.999  # the share of the pixels with weight that may be less dark than black
LIGHTEST = 0.02  # the share that may be as light as the lightest
FAINTEST = 0.02  # how dark that is


def shade(segments: Floats, weights: Floats, *, pixels: int, reach: float) -> Floats:
    """Return from 0 to 1, for each pixel of the square from -reach to reach, how dark it is: (rows upwards, columns).

    Darkness is logarithmic in the weight that passes, so that neither few nor many lines vanish.

    Args:
        segments: (n, 2, 2), the two ends of each line.
        weights: (n,), above zero.
        pixels: along a side of the square.
        reach: half of the side of the square.
    """
    total = np.zeros(pixels * pixels)
    draw = np.random.default_rng(0)
    for start in range(0, len(segments), LINES):
        ends = segments[start : start + LINES]
        length = np.hypot(*(ends[:, 1] - ends[:, 0]).T)
        along = ((np.arange(SAMPLES) + draw.random((len(ends), 1))) / SAMPLES).astype(np.float32)
        cells = np.zeros(along.shape, dtype=np.int64)
        for axis, stride in ((0, 1), (1, pixels)):
            first = ((ends[:, 0, axis] / reach + 1) * pixels / 2).astype(np.float32)[:, None]
            step = ((ends[:, 1, axis] - ends[:, 0, axis]) / reach * pixels / 2).astype(np.float32)[:, None]
            cells += stride * np.clip((first + along * step).astype(np.int64), 0, pixels - 1)
        each = np.repeat(weights[start : start + LINES] * length / SAMPLES, SAMPLES)
        total += np.bincount(cells.ravel(), each, minlength=pixels * pixels)
    passed = total[total > 0]
    if not len(passed):
        return np.zeros((pixels, pixels))
    low, high = np.quantile(passed, [LIGHTEST, DARKEST])
    dark: Floats = np.log(np.maximum(total, low) / low) / max(np.log(high / low), 1e-9)
    return np.clip(np.where(total > 0, np.maximum(dark, FAINTEST), 0.0), 0.0, 1.0).reshape(pixels, pixels)

"""Weighted medians against slow solvers that share no code with them, and where they are known in closed form."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from fastif.apps.layout import weighted_medians
from fastif.errors import DataError, ShapeError

Floats = NDArray[np.float64]


def cost(at: Floats, points: Floats, weights: Floats) -> float:
    return float((weights / weights.sum() * np.hypot(*(points - at).T)).sum())


def slow_median(points: Floats, weights: Floats, radius: float | None) -> Floats:
    """The lowest of what scipy's general solver finds, of the points, and of ever finer grids around the best."""
    disc = [] if radius is None else [{"type": "ineq", "fun": lambda x: radius**2 - x @ x}]
    tight = {"ftol": 1e-15, "maxiter": 100}
    start = weights @ points / weights.sum()
    solved = minimize(cost, start, args=(points, weights), method="SLSQP", constraints=disc, options=tight).x
    best = min([solved, *points], key=lambda x: cost(within(x, radius), points, weights))
    offsets = np.stack(np.meshgrid(*[np.linspace(-1, 1, 15)] * 2), axis=-1).reshape(-1, 2)
    width = 1.0
    while width > 1e-9:
        places = within(best + width * offsets, radius)
        costs = (weights / weights.sum() * np.hypot(*(places[:, None] - points).transpose(2, 0, 1))).sum(axis=1)
        best, width = places[costs.argmin()], width / 2
    return min([best, *within(points, radius)], key=lambda x: cost(x, points, weights))


def within(places: Floats, radius: float | None) -> Floats:
    if radius is None:
        return places
    return places * np.minimum(1.0, radius / np.maximum(np.hypot(*places.T), 1e-300))[..., None]


def random_nodes(count: int, kind: str, seed: int) -> list[tuple[Floats, Floats]]:
    """Nodes of 1 to 12 points on a circle, or anywhere, with weights like those of influence."""
    draw = np.random.default_rng(seed)
    nodes = []
    for _ in range(count):
        degree = int(draw.integers(1, 13))
        angles = draw.uniform(0, 2 * np.pi, degree)
        points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if kind == "anywhere":
            points = draw.normal(size=(degree, 2))
        nodes.append((points, draw.lognormal(0, 1.5, degree)))
    return nodes


def medians(nodes: list[tuple[Floats, Floats]], radius: float | None = None) -> Floats:
    numbers = np.repeat(np.arange(len(nodes)), [len(weights) for _, weights in nodes])
    shuffled = np.random.default_rng(0).permutation(len(numbers))  # edges come in any order
    points, weights = np.concatenate([it[0] for it in nodes]), np.concatenate([it[1] for it in nodes])
    return weighted_medians(points[shuffled], weights[shuffled], numbers[shuffled], radius=radius)


@pytest.mark.parametrize(
    ("kind", "radius"), [("circle", None), ("circle", 2 / 3), ("anywhere", None), ("anywhere", 0.5)]
)
def test_200_random_nodes_lie_where_slow_solvers_put_them(kind: str, radius: float | None) -> None:
    nodes = random_nodes(200, kind, seed=1)
    found = medians(nodes, radius)
    expected = np.array([slow_median(points, weights, radius) for points, weights in nodes])
    for at, other, (points, weights) in zip(found, expected, nodes, strict=True):
        assert cost(at, points, weights) <= cost(other, points, weights) + 1e-12
    assert np.hypot(*(found - expected).T).max() < 1e-3
    if radius is not None:
        assert np.hypot(*found.T).max() <= radius * (1 + 1e-12)


def test_nodes_do_not_change_each_other() -> None:
    nodes = random_nodes(40, "circle", seed=2)
    together = medians(nodes, 2 / 3)
    alone = np.concatenate([medians([node], 2 / 3) for node in nodes])
    np.testing.assert_allclose(together, alone, atol=1e-7)


def one(points: list[list[float]], weights: list[float], radius: float | None = None) -> Floats:
    nodes = np.zeros(len(points), dtype=np.int64)
    return weighted_medians(np.array(points), np.array(weights), nodes, radius=radius)[0]


def test_one_edge_is_its_own_median() -> None:
    assert one([[0.6, 0.8]], [1e-9]).tolist() == [0.6, 0.8]
    np.testing.assert_allclose(one([[0.6, 0.8]], [3.0], radius=0.5), [0.3, 0.4])


def test_two_edges() -> None:
    assert one([[1.0, 0.0], [0.0, 1.0]], [2.0, 1.0]).tolist() == [1.0, 0.0]  # the heavier wins, whole
    np.testing.assert_allclose(one([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0]), [0.5, 0.5])  # all between are as good
    almost = one([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0 + 1e-9])
    np.testing.assert_allclose(almost, [0.0, 1.0])


def test_points_on_a_line_have_the_weighted_median_of_a_line() -> None:
    points = [[float(x), 2.0 * x] for x in (0, 1, 2, 3, 10)]
    assert one(points, [1.0, 1.0, 1.0, 1.0, 1.0]).tolist() == [2.0, 4.0]
    assert one(points, [5.0, 1.0, 1.0, 1.0, 1.0]).tolist() == [0.0, 0.0]
    assert one([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]], [1.0, 1.0, 1.0]).tolist() == [1.0, 0.0]


def test_all_on_one_point() -> None:
    assert one([[0.3, -0.2]] * 4, [1.0, 5.0, 2.0, 1e-8]).tolist() == [0.3, -0.2]


def test_a_median_that_is_one_of_the_points_is_met_exactly() -> None:
    # Fermat: a corner of at least 120 degrees is the median itself
    assert one([[0.0, 0.0], [1.0, 0.1], [-1.0, 0.1]], [1.0, 1.0, 1.0]).tolist() == [0.0, 0.0]
    # and where it starts upon a point that is not the median, it leaves it
    square = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [3.0, 0.0]]
    start = (np.array(square) * np.array([[1, 1, 1, 1, 1e-9]]).T).sum(axis=0)
    assert np.hypot(*start) < 1e-8
    np.testing.assert_allclose(one([*square, [0.0, 0.0]], [4.0, 4.0, 1.0, 1.0, 1e-9, 1e-3])[1], 0.0, atol=1e-6)


def test_the_torricelli_point_of_an_equilateral_triangle() -> None:
    angles = np.radians([90, 210, 330])
    triangle = np.stack([np.cos(angles), np.sin(angles)], axis=1).tolist()
    np.testing.assert_allclose(one(triangle, [2.0, 2.0, 2.0]), [0.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(("radius", "scale"), [(None, 1.0), (1.0, 1.0), (2 / 3, 1e-300), (2 / 3, 1e300)])
def test_weights_over_twelve_orders_of_magnitude(radius: float | None, scale: float) -> None:
    draw = np.random.default_rng(3)
    nodes = [
        (points, scale * 10 ** draw.uniform(-6, 6, len(points))) for points, _ in random_nodes(40, "circle", seed=4)
    ]
    found = medians(nodes, radius)
    for at, (points, weights) in zip(found, nodes, strict=True):
        plain = weights / weights.max()
        assert cost(at, points, plain) <= cost(slow_median(points, plain, radius), points, plain) + 1e-10


def test_many_edges_to_one_node() -> None:
    draw = np.random.default_rng(6)
    points, weights = draw.normal(size=(5000, 2)), draw.lognormal(0, 2, 5000)
    exact = {"xatol": 1e-8, "fatol": 1e-14}
    expected = minimize(cost, [0.1, 0.1], args=(points, weights), method="Nelder-Mead", options=exact).x
    np.testing.assert_allclose(medians([(points, weights)])[0], expected, atol=1e-5)


def test_no_edge_gives_no_median() -> None:
    assert weighted_medians(np.empty((0, 2)), np.empty(0), np.empty(0, dtype=np.int64)).shape == (0, 2)


@pytest.mark.parametrize(
    ("points", "weights", "nodes", "radius", "error", "words"),
    [
        ([[0.0, 1.0, 2.0]], [1.0], [0], None, ShapeError, r"points \(E, 2\)"),
        ([[0.0, 1.0]], [0.0], [0], None, DataError, "weights above zero"),
        ([[0.0, np.nan]], [1.0], [0], None, DataError, "finite"),
        ([[0.0, 1.0]], [1.0], [1], None, DataError, "no number left out"),
        ([[0.0, 1.0]], [1.0], [0], -1.0, DataError, "radius"),
    ],
)
def test_what_cannot_be_is_said(
    points: list[list[float]],
    weights: list[float],
    nodes: list[int],
    radius: float | None,
    error: type[Exception],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        weighted_medians(np.array(points), np.array(weights), np.array(nodes), radius=radius)

"""On a trained classifier, head gradients find far more of the influential examples than features do."""

import pytest

from fastif.bench.recall import measure


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MLP", "CNN"])
def test_head_gradients_find_more_than_features_and_those_more_than_chance(name: str) -> None:
    pytest.importorskip("sklearn")
    rows = measure(name, seed=0, count=20, device="cpu")
    for k in {row["k"] for row in rows}:
        by = {row["way"]: row["strongest"] for row in rows if row["k"] == k}
        assert by["head-gradient"] > by["features"] + 0.15 > by["random"] + 0.15

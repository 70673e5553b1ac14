"""The benchmark of audits plants what it says, and the rankings find it."""

import pytest
import torch

pytest.importorskip("sklearn")

from fastif.bench import audit
from fastif.bench.recall import digits


@pytest.mark.parametrize("kind", audit.KINDS)
def test_as_many_labels_are_wrong_as_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(audit.EPOCHS, "short", 1)
    (images, truth), _ = digits(0)
    labels = audit.plant(images, truth, kind, share=0.05, seed=0)
    assert int((labels != truth).sum()) == round(0.05 * len(truth))
    assert set(labels.tolist()) == set(range(10))
    assert torch.equal(labels, audit.plant(images, truth, kind, share=0.05, seed=0))


@pytest.mark.slow
def test_every_ranking_is_far_above_chance() -> None:
    row = audit.measure("MLP", "random", "short", share=0.05, seed=0)
    for by in audit.RANKINGS:
        assert row[f"{by} precision"] > 0.7
        assert row[f"{by} AUC"] > 0.97
    assert row["suggested"] > 0.9

"""The demo's data: the same for a seed, disjoint, and with the shares that are promised."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from fastif.demo.data import SHARES, DemoData, Pair, Size, make_data, overlap, write_csv
from fastif.demo.words import KINDS, LABEL_OF, SHORTCUT_FAILS, SHORTCUT_HOLDS, SLICES


@pytest.fixture(scope="module")
def data() -> DemoData:
    return make_data(0)


def test_a_seed_gives_the_same_data_and_another_seed_gives_others(data: DemoData) -> None:
    assert make_data(0) == data
    assert make_data(1).train != data.train


def test_sizes_and_shares_are_as_promised(data: DemoData) -> None:
    size = Size()
    assert len(data.train) == size.train
    assert sum(pair.is_wrong for pair in data.train) == round(size.wrong * size.train)
    for pairs in (data.train, data.original):
        counts = Counter(pair.slice for pair in pairs)
        assert all(abs(counts[name] - share * len(pairs)) <= 1 for name, share in SHARES.items())
    assert Counter(pair.slice for pair in data.test) == dict.fromkeys(SLICES, size.test_each)
    assert {pair.slice for pair in data.anchors} == {SHORTCUT_FAILS}
    assert {pair.slice for pair in data.guard} == set(SLICES) - {SHORTCUT_FAILS}
    kinds = Counter(pair.kind for pair in data.test if pair.slice == SHORTCUT_FAILS)
    assert max(kinds.values()) - min(kinds.values()) <= 1


def test_only_the_training_set_has_wrong_labels_and_they_are_recorded(data: DemoData) -> None:
    for name, pairs in data.sets().items():
        assert any(pair.is_wrong for pair in pairs) == (name == "train")
        assert all(pair.true_label == LABEL_OF[pair.slice] for pair in pairs)


def test_no_two_pairs_of_any_sets_share_a_premise(data: DemoData) -> None:
    premises = [frozenset(pair.premise.rstrip(".").split()) for pairs in data.sets().values() for pair in pairs]
    assert len(set(premises)) == len(premises)


def test_overlap_is_what_the_slices_say(data: DemoData) -> None:
    for pair in data.test:
        if pair.slice in (SHORTCUT_HOLDS, SHORTCUT_FAILS):
            assert overlap(pair) == 1
        else:
            assert overlap(pair) <= 0.25  # "the", "a", "in"
    assert all(kind.slice in SLICES for kind in KINDS)
    assert all("{" not in pair.premise + pair.hypothesis for pair in data.test)


def test_csv_holds_every_field(tmp_path: Path) -> None:
    pairs = [Pair('He said "no", twice.', "He said no.", "entailment", "non-entailment", "a, b", "odd")]
    write_csv(pairs, tmp_path / "pairs.csv")
    with open(tmp_path / "pairs.csv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [Pair(**row) for row in rows] == pairs

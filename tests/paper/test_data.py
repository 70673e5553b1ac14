"""The splits: nothing that measures is trained on or chooses, and two labels are made of three."""

import os
from collections import Counter
from dataclasses import replace

import pytest

from fastif.errors import DataError
from fastif.paper.data import Data, check_no_shared_premise, plain, without_repeats
from fastif.paper.made_up import MadeUp
from fastif.paper.scales import settings_for
from fastif.paper.settings import Sizes
from fastif.paper.sources import HEURISTICS, find_source

SIZES = settings_for("smoke").sizes


@pytest.fixture(scope="module")
def data():
    return Data(MadeUp(), SIZES)


def test_two_labels_are_made_of_three(data):
    three, two = data.nli_train(3), data.nli_train(2)
    assert three.texts == two.texts
    assert set(three.labels) == {"entailment", "neutral", "contradiction"}
    assert set(two.labels) == {"entailment", "non-entailment"}
    assert [label == "entailment" for label in three.labels] == [label == "entailment" for label in two.labels]
    assert len(three) == SIZES.nli_train
    assert len(data.nli_few()) == SIZES.nli_few
    assert set(data.nli_few().lines) <= set(three.lines)


def test_no_premise_of_the_dev_pairs_is_trained_on(data):
    source = MadeUp()
    trained = source.table("nli-train")
    leaky = replace(source.table("mnli-dev"), texts=[*trained.texts[:1], *source.table("mnli-dev").texts[1:]])

    class Leaky(MadeUp):
        def table(self, what):
            return leaky if what == "mnli-dev" else super().table(what)

    found = Data(Leaky(), SIZES).nli_dev(3)
    assert trained.texts[0] in leaky.texts
    assert not set(map(plain, found.texts)) & set(map(plain, trained.texts))
    assert not set(map(plain, data.nli_dev(2).texts)) & set(map(plain, trained.texts))


def test_anchors_of_hans_are_drawn_evenly_and_kept_apart(data):
    validation, test = data.hans_validation(), data.hans_test()
    counts = Counter(zip(validation.slices, validation.labels, strict=True))
    assert set(validation.slices) == set(HEURISTICS)
    assert len(set(counts.values())) == 1
    assert len(counts) == 6
    assert not set(validation.lines) & set(test.lines)
    assert len(validation) + len(test) == 240


def test_pool_anchors_and_test_of_anli_share_no_premise(data):
    pool, anchors, test = data.anli_pool(), data.anli_anchors(), data.anli_test()
    assert len(pool) == SIZES.anli_pool
    check_no_shared_premise(pool, anchors, test)
    with pytest.raises(DataError, match="share 1 premises"):
        check_no_shared_premise(pool, pool.take([0]))


def test_a_pool_that_leaves_no_anchors():
    with pytest.raises(DataError, match="no anchors"):
        Data(MadeUp(), replace(SIZES, anli_pool=10_000)).anli_pool()


def test_one_domain_of_reviews_is_held_out(data):
    train, test = data.reviews_train(), data.reviews_test()
    assert "books" not in train.slices + data.reviews_dev().slices
    assert set(test.slices) == set(data.reviews_anchors().slices) == {"books"}
    tables = (train, data.reviews_dev(), data.reviews_anchors(), test)
    texts = [plain(text) for table in tables for text in table.texts]
    assert len(texts) == len(set(texts))
    with pytest.raises(DataError, match="Its domains are books, dvd"):
        Data(MadeUp(), replace(SIZES, held_out="gardens")).reviews_test()


def test_of_texts_that_are_there_twice_the_first_is_kept():
    table = MadeUp().table("reviews")
    doubled = table.take([0, 1, 0, 2])
    assert without_repeats(doubled).lines == [table.lines[row] for row in (0, 1, 2)]


def test_draws_belong_to_the_seed(data):
    assert Data(MadeUp(), SIZES).hans_validation().lines == data.hans_validation().lines
    assert Data(MadeUp(), SIZES, seed=1).hans_validation().lines != data.hans_validation().lines


def test_some_rows_are_those_of_the_scale_or_fewer():
    data = Data(MadeUp(), SIZES)
    table, everything = data.hans_test(), Data(MadeUp(), Sizes())
    assert len(data.some(table, most=5)) == 5
    assert data.some(table, most=10_000).lines == data.some(table).lines
    assert len(everything.some(table)) == len(table)
    assert len(everything.some(table, most=5)) == 5


def test_what_was_read_is_told():
    data = Data(MadeUp(), SIZES)
    assert data.used() == {}
    data.hans_train()
    (name,) = data.used()
    assert name == "hans-train"
    assert len(data.used()[name]["sha256"]) == 64


@pytest.mark.skipif(not os.environ.get("FASTIF_DATA"), reason="needs the real data of FASTIF_DATA")
def test_the_real_data_have_the_rows_that_are_known_of_them():
    data = Data(find_source(), Sizes())
    assert len(data.nli_train(3)) == 76_558
    assert len(data.nli_dev(3)) == 9815 - 64
    assert (len(data.hans_validation()), len(data.hans_test())) == (300, 29_700)
    assert (len(data.anli_pool()), len(data.anli_anchors())) == (2400, 798)
    assert len(data.anli_whole_test()) == 3200

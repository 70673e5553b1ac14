"""The cases of the benchmarks: texts with the lengths of real ones, the same for the same seed."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fastif.bench.cases import Wanted, make_case
from fastif.bench.lengths import draw_lengths
from fastif.bench.tokens import Tokens, word_tokenizer
from fastif.errors import ConfigurationError, StoredFileError
from fastif.integrations.tables.directory import data_directory


def test_lengths_are_those_of_real_texts():
    drawn = draw_lengths("nli", 20_000, seed=0)
    assert abs(float(drawn.double().mean()) - 37.58) < 0.5  # of the 76,558 pairs
    assert int(drawn.max()) <= 128
    assert torch.equal(drawn, draw_lengths("nli", 20_000, seed=0))


def test_a_text_of_tokens_is_found_again_by_the_tokenizer():
    tokenizer = word_tokenizer(50)
    tokens = Tokens.draw(tokenizer, torch.tensor([5, 9]), classes=3, seed=0)
    (text,) = tokens.texts(tokenizer, 1)
    assert tokenizer(text)["input_ids"] == tokens.ids[5:].tolist()


def test_tokens_of_a_file_are_repeated(tmp_path):
    path = tmp_path / "tokens.safetensors"
    save_file(
        {"ids": torch.arange(5), "lengths": torch.tensor([2, 3]), "labels": torch.tensor([0, 2])},
        path,
    )
    tokens = Tokens.read(path).repeated(3)
    assert tokens.ids.tolist() == [0, 1, 2, 3, 4, 0, 1]
    batch = tokens.examples(word_tokenizer(50)).batch([0, 1, 2])
    assert batch.inputs["input_ids"].tolist() == [[0, 1, 0], [2, 3, 4], [0, 1, 0]]
    assert batch.inputs["attention_mask"].sum(dim=1).tolist() == [2, 3, 2]
    assert batch.targets.tolist() == [0, 2, 0]


def test_a_file_that_holds_no_tokens_is_refused(tmp_path):
    path = tmp_path / "tokens.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(StoredFileError, match="ids, lengths, labels"):
        Tokens.read(path)
    save_file({name: torch.ones(2, dtype=torch.int64) for name in ("ids", "labels")} | {"lengths": torch.ones(3)}, path)
    with pytest.raises(StoredFileError, match="add up to"):
        Tokens.read(path)


def test_a_case_is_the_same_for_the_same_seed():
    one, two = (make_case("tiny", Wanted(examples=20)) for _ in range(2))
    assert torch.equal(one.train.lengths, two.train.lengths)
    assert one.first(2) == two.first(2)
    assert one.model.weights_sha256() == two.model.weights_sha256()
    assert one.as_json()["tokens"] == int(one.train.lengths.sum())


def test_words_that_name_no_case(tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError, match="choose one of bert-base"):
        make_case("huge", Wanted())
    with pytest.raises(ConfigurationError, match="for the case bert-base"):
        make_case("tiny", Wanted(model="runs/nli"))
    monkeypatch.setenv("FASTIF_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(StoredFileError, match="FASTIF_DATA"):
        data_directory()


def test_half_a_million_texts_take_no_loop():
    lengths = draw_lengths("nli", 100_000, seed=0)
    tokens = Tokens.draw(word_tokenizer(50), lengths, classes=3, seed=0)
    assert tokens.ids.dtype == np.int32
    assert len(tokens.examples(word_tokenizer(50))) == 100_000

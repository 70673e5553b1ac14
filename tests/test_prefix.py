"""Hidden states that are computed once: where they are kept, when they are found again, and what they cost."""

import math
import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.batch import Batch
from fastif.errors import ConfigurationError, NonFiniteError, StoredFileError
from fastif.integrations.huggingface import TextClassifier, TextExamples
from fastif.prefix import PROBED, PrefixCache, Prefixed
from tests import oracles
from tests.integrations.huggingface import tiny
from tests.problems import relative_error

WIDTH = tiny.SIZES["hidden_size"]


class Counting(TextClassifier):
    """Counts the examples that go through the frozen layers, and may fail after some."""

    encoded = 0
    fails_after = math.inf

    def encode(self, batch: Batch) -> Tensor:
        self.encoded += len(batch)
        if self.encoded > self.fails_after:
            raise KeyboardInterrupt
        return super().encode(batch)


def classifier(dtype: torch.dtype = torch.float64, **options: Any) -> Counting:
    model = Counting(tiny.module_of("bert", dtype=dtype), tiny.tokenizer_of("bert"), **options)
    model.check(model.place(examples(model).batch([0, 1])))  # looks once at what the head reads
    model.encoded = 0
    return model


def examples(model: TextClassifier) -> TextExamples:
    return model.examples(tiny.TEXTS, tiny.LABELS)


def viewed(cache: PrefixCache, model: TextClassifier, data: TextExamples | None = None) -> Prefixed:
    view = cache.view(model, examples(model) if data is None else data, batch_size=3)
    assert isinstance(view, Prefixed)
    return view


def scores(model: TextClassifier, cache: PrefixCache | None) -> Tensor:
    explainer = fastif.Explainer(model, examples(model), damping=0.1, batch_size=4, prefix_cache=cache)
    return explainer.scores(list(tiny.QUERIES)).values


def only_file(directory: Path) -> Path:
    (file,) = directory.iterdir()
    return file


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("storage", "itemsize"), [("model", 8), ("bfloat16", 2)])
@pytest.mark.parametrize("memory", [4e9, 0])
def test_states_are_kept_at_their_true_length(storage: Any, itemsize: int, memory: float) -> None:
    view = viewed(PrefixCache(memory=memory, storage=storage), classifier())
    assert view.lengths is not None
    assert view.states.nbytes == int(view.lengths.sum()) * WIDTH * itemsize
    assert view.states.in_file == (memory == 0)


def test_batches_carry_the_states_that_the_layers_give_and_zeros_behind_them() -> None:
    model = classifier()
    data = examples(model)
    view = viewed(PrefixCache(), model, data)
    ids = torch.tensor([3, 2, 9])
    batch = view.batch(ids)
    assert isinstance(batch.inputs, dict)
    states = batch.inputs["prefix_states"]
    lengths = view.lengths[ids].tolist()
    assert states.shape == (3, max(lengths), WIDTH)
    for row, (index, length) in enumerate(zip(ids.tolist(), lengths, strict=True)):
        alone = model.encode(model.place(data.batch([index])))[0]
        torch.testing.assert_close(states[row, :length], alone, rtol=1e-10, atol=1e-10)
        assert not states[row, length:].any()
    assert torch.equal(batch.targets, data.batch(ids).targets)


def test_each_example_is_encoded_once_and_not_before_it_is_needed() -> None:
    model = classifier()
    explainer = fastif.Explainer(model, examples(model), damping=0.1, batch_size=4)
    assert model.encoded == 0
    explainer.scores(list(tiny.QUERIES))
    explainer.self_influence()
    explainer.scores("the film")
    asked = len(tiny.QUERIES) + 1  # queries, once each time
    assert model.encoded == len(tiny.TEXTS) + 1 + asked  # the first one is tried alone, for its shape


def test_without_a_cache_or_a_prefix_the_data_is_as_it_was() -> None:
    whole = classifier(trainable="all")
    data = examples(whole)
    assert PrefixCache().view(whole, data) is data
    model = classifier()
    assert relative_error(scores(model, None), scores(model, PrefixCache())) < 1e-10
    scores(model, None)
    assert model.encoded == len(tiny.TEXTS) + 1 + len(tiny.QUERIES)


@pytest.mark.parametrize("where", ["memory", "file", "directory"])
def test_scores_do_not_depend_on_where_states_are_kept(where: str, tmp_path: Path) -> None:
    cache = {
        "memory": PrefixCache(),
        "file": PrefixCache(memory=0),
        "directory": PrefixCache(directory=tmp_path / "new" / "states"),
    }[where]
    model = classifier()
    assert relative_error(scores(model, cache), scores(model, None)) < 1e-10


def test_a_file_above_the_budget_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    view = viewed(PrefixCache(memory=1000), classifier())
    assert view.states.in_file
    assert torch.isfinite(view.states.batch(torch.arange(10))).all()
    if os.name == "posix":
        assert list(tmp_path.iterdir()) == []


def test_fp32_storage_is_exact_and_half_of_it_nearly_so() -> None:
    """A float32 model of width 64, trained until it fits. Measured: an error of 4e-8, and a Pearson of .9999992."""
    torch.manual_seed(0)
    module = tiny.module_of("bert", dtype=torch.float32, hidden_size=64, intermediate_size=128, initial=0.15)
    tokenizer = tiny.tokenizer_of("bert")
    tokens = tokenizer(list(tiny.TEXTS), padding=True, return_tensors="pt")
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(**tokens).logits, torch.tensor(tiny.LABELS)).backward()
        optimizer.step()
    module.zero_grad()
    model = TextClassifier(module, tokenizer)
    plain, full, half = (scores(model, cache) for cache in (None, PrefixCache(), PrefixCache(storage="bfloat16")))
    assert relative_error(full, plain) < 1e-5
    assert half.dtype == torch.float32
    assert float(torch.corrcoef(torch.stack([half.flatten(), plain.flatten()]).double())[0, 1]) >= 0.99999


# --- a directory ------------------------------------------------------------------------------------------------------


def _scores_and_count(directory: str) -> tuple[list[list[float]], int]:
    model = classifier()
    return scores(model, PrefixCache(directory=directory)).tolist(), model.encoded


@pytest.mark.parametrize("storage", ["model", "bfloat16"])
def test_states_are_found_again(storage: Any, tmp_path: Path) -> None:
    cache = PrefixCache(directory=tmp_path, storage=storage)
    first, second = classifier(), classifier()
    reference = scores(first, cache)
    assert first.encoded == len(tiny.TEXTS) + 1 + len(tiny.QUERIES)
    assert torch.equal(scores(second, cache), reference)
    assert second.encoded == len(tiny.QUERIES) + PROBED
    assert only_file(tmp_path).suffix == ".npy"


@pytest.mark.slow
def test_another_process_finds_them_too(tmp_path: Path) -> None:
    here, encoded = _scores_and_count(str(tmp_path))
    assert encoded > len(tiny.QUERIES)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there, encoded = pool.apply(_scores_and_count, (str(tmp_path),))
    assert encoded == len(tiny.QUERIES) + PROBED
    assert there == here


def _key(model: TextClassifier, data: TextExamples, storage: Any = "model") -> str:
    return PrefixCache(storage=storage)._key(model, data)


def test_the_name_of_a_file_says_all_that_states_depend_on() -> None:
    model = classifier()
    data = examples(model)
    key = _key(model, data)
    assert _key(classifier(), examples(classifier())) == key
    assert _key(model, data, "bfloat16") != key
    texts = (*tiny.TEXTS[:-1], "another text")
    assert _key(model, model.examples(texts, tiny.LABELS)) != key
    assert _key(model, model.examples(tiny.TEXTS, tiny.LABELS[::-1])) == key  # labels are not encoded
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert _key(model, examples(model)) != key
    finally:
        torch.set_float32_matmul_precision(before)
    assert _key(model, classifier(max_length=10).examples(tiny.TEXTS, tiny.LABELS)) != key
    swapped = {**tiny.VOCABULARY, "film": tiny.VOCABULARY["plot"], "plot": tiny.VOCABULARY["film"]}
    other = tiny.tokenizer_of("bert", swapped)
    assert _key(model, TextClassifier(model.module, other).examples(tiny.TEXTS, tiny.LABELS)) != key
    segments = tiny.tokenizer_of("bert", model_input_names=["input_ids", "attention_mask"])
    assert _key(model, TextClassifier(model.module, segments).examples(tiny.TEXTS, tiny.LABELS)) != key


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert.embeddings.word_embeddings.weight", True),
        ("bert.encoder.layer.0.output.dense.bias", True),
        ("bert.encoder.layer.1.output.dense.bias", False),
        ("classifier.weight", False),
    ],
)
def test_a_frozen_weight_changes_the_name_and_a_chosen_one_does_not(name: str, changes: bool) -> None:
    module = tiny.module_of("bert")
    key = _key(model := TextClassifier(module, tiny.tokenizer_of()), examples(model))
    with torch.no_grad():
        module.get_parameter(name).view(-1)[0] += 1e-9
    model = TextClassifier(module, tiny.tokenizer_of())
    assert (_key(model, examples(model)) != key) == changes


def test_another_cut_is_another_file() -> None:
    model, lower = classifier(), classifier(freeze_layers=2)
    assert _key(model, examples(model)) != _key(lower, examples(lower))


def test_buffers_of_any_shape_are_hashed() -> None:
    module = tiny.module_of("bert")
    module.register_buffer("temperature", torch.tensor(1.5))
    assert len(TextClassifier(module, tiny.tokenizer_of()).fingerprint()) == 64


# --- failures ---------------------------------------------------------------------------------------------------------


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _garbage(file: Path) -> None:
    file.write_bytes(b"these are no numbers" * 20)


def _fewer_rows(file: Path) -> None:
    np.save(file, np.load(file)[:-2])


@pytest.mark.parametrize("damage", [_cut, _empty, _garbage, _fewer_rows])
def test_a_damaged_file_is_named(damage: Any, tmp_path: Path) -> None:
    cache = PrefixCache(directory=tmp_path)
    scores(classifier(), cache)
    file = only_file(tmp_path)
    damage(file)
    with pytest.raises(StoredFileError, match=r"damaged: .* Delete it") as caught:
        scores(classifier(), cache)
    assert str(file) in str(caught.value)
    file.unlink()
    scores(classifier(), cache)


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoredFileError, match="could not be written") as caught:
        scores(classifier(), PrefixCache(directory=tmp_path / "file" / "states"))
    assert str(tmp_path / "file") in str(caught.value)


@pytest.mark.parametrize("where", ["directory", "scratch"])
def test_what_is_cut_short_leaves_no_half_file(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache = PrefixCache(directory=tmp_path) if where == "directory" else PrefixCache(memory=0)
    model = classifier()
    model.fails_after = 6
    with pytest.raises(KeyboardInterrupt):
        viewed(cache, model).states  # noqa: B018
    assert list(tmp_path.iterdir()) == []
    again = classifier()
    assert relative_error(scores(again, cache), scores(again, None)) < 1e-10


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **named: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "open_memmap", full)
    with pytest.raises(StoredFileError, match=r"No space left.*Make room there"):
        scores(classifier(), PrefixCache(directory=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_states_that_are_not_finite_name_their_example() -> None:
    model = classifier()
    data = examples(model)
    encode = TextClassifier.encode

    def spoiled(batch: Batch) -> Tensor:
        states = encode(model, batch)
        states[batch.ids == 4] = torch.nan
        return states

    model.encode = spoiled  # type: ignore[method-assign]
    with pytest.raises(NonFiniteError, match="example 4 of train"):
        viewed(PrefixCache(), model, data).states  # noqa: B018


@pytest.mark.parametrize("options", [{"storage": "float8"}, {"memory": -1}, {"memory": math.nan}, {"memory": "4 GB"}])
def test_a_cache_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        PrefixCache(**options)


# --- sequences of modules ---------------------------------------------------------------------------------------------


def sequence(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    activation = nn.Tanh()  # one object in two places
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), activation, nn.Dropout(0.5), nn.Linear(8, 6), activation, nn.Linear(6, 3)
    ).to(dtype)


def columns(count: int = 30) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, 3, (count,), generator=generator)


def sequence_scores(module: nn.Module, trainable: Any, **options: Any) -> Tensor:
    model = fastif.TorchModel(module, "cross_entropy", trainable=trainable)
    x, y = columns()
    return fastif.Explainer(model, (x, y), damping=0.1, batch_size=7, **options).scores((x[:3], y[:3])).values


@pytest.mark.parametrize(("trainable", "parts"), [("^6", 6), ("^4|^6", 4), ("^4", 4), ("^1|^6", 1), ("6.bias", 6)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_sequence_starts_at_its_first_chosen_parameter(trainable: str, parts: int, dtype: torch.dtype) -> None:
    module = sequence(dtype)
    model = fastif.TorchModel(module, "cross_entropy", trainable=trainable)
    assert model.prefix == f"the first {parts} of 7 parts"
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    plain, stored = sequence_scores(module, trainable, prefix_cache=None), sequence_scores(module, trainable)
    assert relative_error(stored, plain) < (1e-10 if dtype == torch.float64 else 1e-5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.training


def test_scores_of_a_sequence_are_the_dense_ones() -> None:
    module, names, (x, y) = sequence(), ["4.weight", "4.bias", "6.weight", "6.bias"], columns()
    matrix = oracles.dense_ggn(module, names, "cross_entropy", (x, y))
    gradients = oracles.per_example_gradients(module, names, "cross_entropy", (x, y))
    expected = oracles.influence(gradients[:3], matrix, gradients, 0.1)
    for options in ({}, {"prefix_cache": PrefixCache(memory=0, storage="model")}, {"solver": fastif.Exact()}):
        assert relative_error(sequence_scores(module, "^4|^6", **options), expected) < 1e-6


def test_states_of_a_sequence_take_one_row_each_and_are_found_again(tmp_path: Path) -> None:
    module = sequence()
    cache = PrefixCache(directory=tmp_path)
    model = fastif.TorchModel(module, "cross_entropy", trainable="^6")
    view = cache.view(model, fastif.Examples(columns()))
    assert isinstance(view, Prefixed)
    assert view.states.nbytes == 30 * 6 * 8
    assert list(view.batch([2, 5]).inputs) == ["prefix_states"]
    sequence_scores(module, "^6", prefix_cache=cache)
    assert only_file(tmp_path).suffix == ".npy"
    with torch.no_grad():
        module[6].weight += 1
    sequence_scores(module, "^6", prefix_cache=cache)
    assert only_file(tmp_path).suffix == ".npy"
    module[1].eps = 1e-3  # no tensor, and yet the states depend on it
    sequence_scores(module, "^6", prefix_cache=cache)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_plain_sequence_or_shares_weights_runs_whole() -> None:
    class Doubled(nn.Sequential):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(2 * inputs)

    shared = nn.Linear(3, 3)
    hooked = sequence()
    hooked.register_forward_pre_hook(lambda part, given: (2 * given[0],))
    for module, trainable in (
        (Doubled(nn.Linear(3, 3), nn.Linear(3, 3)), "^1"),
        (nn.Sequential(shared, nn.Linear(3, 3), shared), "^1"),
        (nn.Sequential(shared, nn.Linear(3, 3), shared), "^2"),
        (nn.Sequential(nn.Flatten(), nn.Linear(3, 3)), None),
        (hooked, "^6"),
        (nn.Linear(3, 3), None),
    ):
        assert fastif.TorchModel(module, "cross_entropy", trainable=trainable).prefix is None

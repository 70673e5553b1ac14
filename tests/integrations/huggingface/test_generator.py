"""Language models, from prompts and completions to scores: against the dense oracle, token by token."""

from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
import transformers
from torch import Tensor

import fastif
from fastif.data import Subset
from fastif.errors import ConfigurationError, DataError, EmptyDataError, FastifWarning, ModelError, StoredFileError
from fastif.integrations.huggingface import TextClassifier, TextGenerator
from fastif.losses import IGNORED_CLASS
from tests.integrations.huggingface import dense, tiny, tiny_generators
from tests.integrations.huggingface.tiny_generators import ANSWERS, ASKED, COMPLETIONS, FAMILIES, LAST_PARTS, PROMPTS
from tests.problems import relative_error

DAMPING = 0.05


def generator(
    family: str = "gpt2", trainable: Any = None, *, dtype: torch.dtype = torch.float64, **options: Any
) -> TextGenerator:
    module, tokenizer = tiny_generators.module_of(family, dtype=dtype), tiny_generators.tokenizer_of()
    return TextGenerator(module, tokenizer, trainable=trainable, **options)


def scores(model: TextGenerator, **options: Any) -> Tensor:
    train, queries = model.examples(PROMPTS, COMPLETIONS), model.examples(ASKED, ANSWERS, source="queries")
    return fastif.Explainer(model, train, damping=DAMPING, **{"batch_size": 4, **options}).scores(queries).values


def tokens(model: TextGenerator, prompts: Any, completions: Any) -> list[tuple[list[int], int]]:
    """Each text's tokens, and the number of the first that is said."""
    encode = model.tokenizer.encode
    return [
        (encode(prompt + said), len(encode(prompt)) if prompt else 1)
        for prompt, said in zip(prompts, completions, strict=True)
    ]


@pytest.mark.parametrize("family", ["gpt2", "opt", "mistral"])  # others round to float32 above what is chosen
def test_scores_are_those_of_each_token_after_the_text_before_it(family: str) -> None:
    model = generator(family, LAST_PARTS[family])
    expected = dense.influence_on_texts(
        model.module,
        list(model.parameters),
        tokens(model, PROMPTS, COMPLETIONS),
        tokens(model, ASKED, ANSWERS),
        DAMPING,
    )
    assert model.prefix == f"the embeddings and {3 if family == 'mistral' else 2} frozen layers"
    assert relative_error(scores(model), expected) < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_stored_states_and_padding_change_nothing(family: str) -> None:
    model = generator(family, LAST_PARTS[family], dtype=torch.float32)
    alone = scores(model, prefix_cache=None, batch_size=1)
    assert model.prefix is not None
    assert relative_error(scores(model), alone) < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_two_layers_are_chosen_and_no_embeddings(family: str) -> None:
    model = generator(family)
    assert model.choice.startswith("layers 2 to 3 of 3 and the head")
    assert model.choice.endswith("but for the output embeddings")
    assert model.prefix == "the embeddings and 1 frozen layer"
    assert not any("emb" in name or "wte" in name or "lm_head" in name for name in model.parameters)
    assert any("norm" in name or "ln_" in name for name in model.parameters)


def test_what_is_asked_for_is_chosen() -> None:
    every = sum(parameter.numel() for parameter in tiny_generators.module_of("llama").parameters())
    assert sum(tensor.numel() for tensor in generator("llama", "all").parameters.values()) == every
    assert list(generator("llama", r"lm_head").parameters) == ["lm_head.weight"]
    assert generator("llama", freeze_layers=2).prefix == "the embeddings and 2 frozen layers"


def test_an_adapter_is_explained_through_its_own_parameters() -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=r".*layers\.2\.self_attn\.(q_proj|v_proj)")
    adapted = peft.get_peft_model(tiny_generators.module_of("llama"), config).double()
    model = TextGenerator(adapted, tiny_generators.tokenizer_of())
    assert all("lora_" in name for name in model.parameters)
    assert model.prefix == "the embeddings and 2 frozen layers"
    assert relative_error(scores(model), scores(model, prefix_cache=None, batch_size=1)) < 1e-6


# --- what counts in a text -------------------------------------------------------------------------------------------


def said(model: TextGenerator, *given: Any, **options: Any) -> list[str]:
    """The words that are to be said at each position of the first text, or a dot where none is."""
    batch = model.examples(*given, **options).batch([0])
    words = {number: word for word, number in tiny.VOCABULARY.items()}
    return [words.get(target, ".") for target in batch.targets[0].tolist()]


def test_what_follows_the_prompt_counts() -> None:
    model = generator()
    assert said(model, ["the film was"], [" very good"]) == [".", ".", ".", "very", "good", "."]
    assert said(model, None, ["bad plot"]) == ["bad", "plot", "."]
    assert said(model, [""], ["bad plot"]) == ["bad", "plot", "."]
    assert said(model, ["the fi"], ["lm was"]) == [".", "film", "was", "."]  # no word ends in the prompt
    assert said(model, ["<cls> the film"], [" was<sep>"], special_tokens=False) == [".", ".", "was", "<sep>", "."]
    assert said(model, None, ["bad plot"], special_tokens=False) == ["plot", "."]  # nothing says the first


def test_shorter_texts_are_padded_with_what_counts_for_nothing() -> None:
    examples = generator().examples(["the film was", "dull"], [" very good", " and bad"])
    batch = examples.batch([1, 0])
    assert batch.targets[0].tolist()[4:] == [IGNORED_CLASS] * 2
    assert examples.batch([1]).targets.shape == (1, 4)
    assert isinstance(batch.inputs, dict)
    assert batch.inputs["attention_mask"][0].tolist() == [1, 1, 1, 1, 0, 0]
    assert examples.lengths is not None
    assert examples.lengths.tolist() == [6, 4]


def test_long_texts_are_cut_and_counted() -> None:
    model = generator(max_length=5)
    with pytest.warns(FastifWarning, match="1 of 2 texts of train have more than 5 tokens"):
        examples = model.examples(["the film", "dull"], [" was very very good", " plot"])
    assert examples.truncated == 1
    assert model.examples(["dull"], [" plot"]).truncated == 0
    words = [tiny.VOCABULARY[word] for word in ("was", "very")]
    assert examples.batch([0]).targets.tolist() == [[IGNORED_CLASS, IGNORED_CLASS, *words, IGNORED_CLASS]]


@pytest.mark.parametrize(
    ("prompts", "completions", "words"),
    [
        (["dull"], [""], "completion is empty"),
        (["the film was very very good"], [" and long"], "behind 5 tokens"),
        (["the film"], [" "], "makes none of the completion"),
        ("dull", "plot", "letter by letter"),
        (["<cls> dull"], [" plot"], "special_tokens=False"),
        (["dull"], [" and", " but"], "1 prompts but 2 completions"),
        (["dull"], [3], "completion of example 0 of train is a int"),
        (None, None, "neither prompts nor completions"),
    ],
)
def test_texts_without_anything_to_explain_are_named(prompts: Any, completions: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        generator(max_length=5).examples(prompts, completions)


def test_no_texts_are_refused() -> None:
    with pytest.raises(EmptyDataError, match="empty"):
        generator().examples([], [])


# --- what the model says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_its_own_answer_is_that_of_transformers(family: str) -> None:
    model = generator(family)
    module: Any = model.module.eval()
    for prompt in ASKED:
        given = model.tokenizer(prompt, return_tensors="pt")
        seen = module.generate(**given, max_new_tokens=6, do_sample=False)[0]
        assert [prompt + each for each in model.complete([prompt], most=6)] == [model.tokenizer.decode(seen)[6:]]


def test_an_answer_ends_with_the_end_token_or_the_longest_text() -> None:
    model = generator(max_length=8)
    assert len(model.tokenizer.encode("the film " + model.complete(["the film"])[0])) == 8
    model.tokenizer.eos_token = model.complete(["the film"], most=3)[0].split()[1]
    assert len(model.complete(["the film"])[0].split()) == 2


def test_an_answer_ends_where_the_model_is_to_be_stopped() -> None:
    model = generator()
    second = model.tokenizer.encode(model.complete(["the film"], most=3)[0])[2]
    module: Any = model.module
    module.generation_config.eos_token_id = [second, 3]
    assert len(model.complete(["the film"])[0].split()) == 2


@pytest.mark.parametrize("most", [0, True, "3"])
def test_an_answer_has_a_token_at_least(most: Any) -> None:
    with pytest.raises(ConfigurationError, match="most must be"):
        generator().complete(["the film"], most=most)
    with pytest.raises(DataError, match="letter by letter"):
        generator().complete("the film")


def test_what_the_tokenizer_puts_behind_a_text_is_not_gone_on_from() -> None:
    model = generator()
    expected = model.complete(["the film"], most=4)
    model.tokenizer.backend_tokenizer.post_processor = tiny.processors.TemplateProcessing(
        single="<cls> $A <sep>", pair=None, special_tokens=[("<cls>", 2), ("<sep>", 3)]
    )
    assert model.complete(["the film"], most=4) == expected


def test_its_own_answer_is_explained_where_none_is_given() -> None:
    model = generator()
    explainer = fastif.Explainer(model, model.examples(PROMPTS, COMPLETIONS), damping=DAMPING)
    answer = model.complete(["the film was"])[0]
    explained = explainer.explain("the film was", top=2)
    expected = explainer.scores(model.examples(["the film was"], [answer]))
    assert relative_error(explained.scores.values, expected.values) < 1e-10
    assert explained[0].predicted
    assert f"predicted '{answer.strip()[:20]}" in str(explained)
    first = explained[0].helpful[0]
    assert first.example == {"prompt": PROMPTS[first.index], "completion": COMPLETIONS[first.index]}
    assert first.label == repr(COMPLETIONS[first.index].strip())


def test_data_comes_in_several_forms() -> None:
    model = generator()
    rows = [{"prompt": one, "completion": two} for one, two in zip(PROMPTS, COMPLETIONS, strict=True)]
    expected = scores(model)
    explainer = fastif.Explainer(model, rows, damping=DAMPING)
    asked = [{"prompt": one, "completion": two} for one, two in zip(ASKED, ANSWERS, strict=True)]
    assert relative_error(explainer.scores(asked).values, expected) < 1e-10
    whole = model.examples(completions=tiny.TEXTS)
    for texts in (list(tiny.TEXTS), [{"text": text} for text in tiny.TEXTS]):
        assert torch.equal(model.read(texts, "train").batch([0, 1]).targets, whole.batch([0, 1]).targets)
    columns = {"prompt": list(PROMPTS), "completion": list(COMPLETIONS), "id": list(range(len(PROMPTS)))}
    for table in (columns, pandas.DataFrame(columns)):
        assert model.read(table, "train").text == model.read(rows, "train").text
    assert model.read(rows[0], "queries").text == model.read(rows[:1], "train").text
    for odd in ([{"prompt": "a"}, {"text": "b"}], [{"label": "a"}], [3]):
        with pytest.raises(DataError, match="needed are rows"):
            model.read(odd, "train")
    with pytest.raises(DataError, match="without completions"):
        model.read([{"prompt": "the film"}], "train")
    with pytest.raises(DataError, match="a NoneType"):
        model.read(None, "train")


def test_parts_of_a_set_keep_their_words() -> None:
    examples = generator().examples(PROMPTS, COMPLETIONS)
    assert Subset(examples, [2]).labels([0]) == examples.labels([2]) == ["'good'"]


@pytest.mark.slow
def test_neighbours_by_features_do_not_depend_on_padding() -> None:
    model = generator("llama", dtype=torch.float32)
    train, query = model.examples(PROMPTS, COMPLETIONS), model.examples(ASKED, ANSWERS)
    found = [
        fastif.Explainer(
            model, train, damping=DAMPING, batch_size=size, candidates=fastif.Nearest(3, by="features")
        ).scores(query)
        for size in (1, 64)
    ]
    assert torch.equal(found[0].train_ids, found[1].train_ids)


def test_a_text_may_be_as_long_as_the_model_has_positions() -> None:
    module, tokenizer = tiny_generators.module_of("llama"), tiny_generators.tokenizer_of(model_max_length=int(1e30))
    assert TextGenerator(module, tokenizer).max_length == tiny.POSITIONS
    module.config.max_position_embeddings = 4096  # type: ignore[union-attr]
    assert TextGenerator(module, tokenizer).max_length == 4096


# --- what is refused -------------------------------------------------------------------------------------------------


def test_models_that_do_not_say_one_token_after_another_are_refused() -> None:
    sizes = {key: value for key, value in tiny_generators.SIZES.items() if "token" not in key}
    masked = transformers.BertForMaskedLM(transformers.BertConfig(**sizes)).double()
    with pytest.raises(ModelError, match="changes with the tokens after it"):
        TextGenerator(masked, tiny.tokenizer_of("gpt2"))
    with pytest.raises(ModelError, match="AutoModelForCausalLM"):
        TextGenerator(tiny.module_of("gpt2"), tiny.tokenizer_of("gpt2"))
    tagger = transformers.GPT2ForTokenClassification(tiny_generators.module_of("gpt2").config)
    with pytest.raises(ModelError, match="no score for each token"):
        TextGenerator(tagger.double(), tiny.tokenizer_of("gpt2"))


def test_virtual_tokens_are_refused() -> None:
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(ModelError, match="virtual tokens"):
        TextGenerator(peft.get_peft_model(tiny_generators.module_of(), config).double(), tiny_generators.tokenizer_of())


def test_a_tokenizer_without_padding_gets_one_of_its_own() -> None:
    tokenizer = tiny_generators.tokenizer_of(pad_token=None)
    assert tokenizer.pad_token is None
    model = TextGenerator(tiny_generators.module_of(), tokenizer)
    assert tokenizer.pad_token is None
    part = LAST_PARTS["gpt2"]
    model = TextGenerator(tiny_generators.module_of(), tokenizer, trainable=part)
    assert relative_error(scores(model), scores(generator(trainable=part))) < 1e-10
    with pytest.raises(ModelError, match="no padding token"):
        TextGenerator(tiny_generators.module_of(), tiny.tokenizer_of("gpt2", pad_token=None))


def test_a_tokenizer_that_does_not_tell_where_tokens_stand_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tiny_generators.tokenizer_of()
    monkeypatch.setattr(type(tokenizer), "is_fast", False)
    with pytest.raises(ModelError, match="Load the fast one"):
        TextGenerator(tiny_generators.module_of(), tokenizer)
    with pytest.raises(ConfigurationError, match="tokenizer"):
        TextGenerator(tiny_generators.module_of(), None)


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_loaded(tmp_path: Path) -> None:
    module = tiny_generators.module_of(dtype=torch.float32)
    module.save_pretrained(tmp_path)  # type: ignore[operator]
    tiny_generators.tokenizer_of().save_pretrained(tmp_path)
    loaded = TextGenerator.from_pretrained(tmp_path, freeze_layers=2, max_length=20)
    assert loaded.max_length == 20
    here = TextGenerator(module, tiny_generators.tokenizer_of(), freeze_layers=2)
    assert relative_error(scores(loaded), scores(here)) < 1e-5
    with pytest.raises(ModelError, match=r"not a trained classifier.*by TextGenerator"):
        TextClassifier.from_pretrained(tmp_path)


def test_a_checkpoint_of_a_classifier_is_refused(tmp_path: Path) -> None:
    llama = transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**tiny_generators.FEW_HEADS))
    llama.save_pretrained(tmp_path)
    tiny_generators.tokenizer_of().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="not a trained language model"):
        TextGenerator.from_pretrained(tmp_path)
    with pytest.raises(StoredFileError, match="no checkpoint"):
        TextGenerator.from_pretrained(tmp_path / "none")

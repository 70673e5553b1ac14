"""TextClassifier: kinds of problems, forms of data and labels, predictions as targets, long texts."""

from typing import Any

import pytest
import torch
from torch import Tensor

import fastif
from fastif import vectors
from fastif.errors import ConfigurationError, DataError, EmptyDataError, LabelError, ModelError
from fastif.integrations.huggingface import TextClassifier
from fastif.solvers.base import Solution
from fastif.solvers.cg import PreparedConjugateGradient
from fastif.vectors import Block
from tests.integrations.huggingface import dense, tiny
from tests.problems import relative_error

datasets = pytest.importorskip("datasets")

NAMES = {0: "good", 1: "bad", 2: "mixed"}
NAMED = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
MULTI = {**NAMED, "problem_type": "multi_label_classification"}
ROWS = [{"text": text, "label": NAMES[label]} for text, label in zip(tiny.TEXTS, tiny.LABELS, strict=True)]


def classifier(family: str = "bert", *, max_length: int | None = None, **changes: Any) -> TextClassifier:
    module = tiny.module_of(family, **{**NAMED, **changes})
    tokenizer = tiny.tokenizer_of(family, model_max_length=10**30)
    return TextClassifier(module, tokenizer, trainable=tiny.LAST_PARTS[family], max_length=max_length)


def expected(model: TextClassifier, train: list[Any], queries: list[Any], loss: str) -> Tensor:
    rows = [dense.rows_of(model.tokenizer, *columns) for columns in (train, queries)]
    return dense.influence(model.module, list(model.parameters), loss, *rows, damping=0.1)


def scores(model: TextClassifier, train: Any, queries: Any) -> Tensor:
    return fastif.Explainer(model, train, damping=0.1, batch_size=4).scores(queries).values


# --- problems ---------------------------------------------------------------------------------------------------------


def test_several_labels_each() -> None:
    model = classifier(**MULTI)
    labels = [["good"], ["good", "bad"], [], ["mixed"], *[["bad"]] * 6]
    hot = [[float(name in row) for name in NAMES.values()] for row in labels]
    asked = [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    answer = expected(model, [tiny.TEXTS, hot], [tiny.QUERIES, asked], "binary_cross_entropy_with_logits")
    train = model.examples(tiny.TEXTS, labels)
    assert relative_error(scores(model, train, model.examples(tiny.QUERIES, asked, source="queries")), answer) < 1e-6
    assert train.label(1) == "good, bad"
    assert train.label(2) == "none"
    explained = fastif.Explainer(model, train, damping=0.1).explain(list(tiny.QUERIES), top=1)
    said = {train.name_of(target) for target in model.predict(model.examples(tiny.QUERIES))}
    assert {query.title.split("predicted ")[1].split(", loss")[0] for query in explained} == said


def test_regression() -> None:
    model = classifier(num_labels=1, id2label={0: "stars"}, label2id={"stars": 0})
    assert model.problem == "regression"
    stars = [0.5 * number for number in range(10)]
    rows = [
        dense.rows_of(model.tokenizer, *columns) for columns in ([tiny.TEXTS, stars], [tiny.QUERIES, [1.0, 2, 0.5]])
    ]
    for row in (*rows[0], *rows[1]):
        row["labels"] = [float(row["labels"])]  # the shape of the logits
    answer = dense.influence(model.module, list(model.parameters), "mse_loss", *rows, damping=0.1)
    queries = model.examples(tiny.QUERIES, [1.0, 2, 0.5], source="queries")
    assert relative_error(scores(model, model.examples(tiny.TEXTS, stars), queries), answer) < 1e-6


def test_regression_without_labels_needs_another_measure() -> None:
    """At its own prediction a squared error is flat: all scores would be rounding."""
    model = classifier(num_labels=1, id2label={0: "stars"}, label2id={"stars": 0})
    train = model.examples(tiny.TEXTS, [0.5 * number for number in range(10)])
    with pytest.raises(DataError, match="nothing to explain"):
        scores(model, train, list(tiny.QUERIES))

    def output(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs[:, 0]

    values = fastif.Explainer(model, train, damping=0.1, measure=output).scores(list(tiny.QUERIES)).values
    assert values.abs().min() > 1e-6


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pairs_of_texts(family: str) -> None:
    model = classifier(family)
    second = [" ".join(text.split()[:3]) for text in reversed(tiny.TEXTS)]
    pairs = list(zip(tiny.TEXTS, second, strict=True))
    asked = list(zip(tiny.QUERIES, second[:3], strict=True))
    answer = expected(model, [pairs, tiny.LABELS], [asked, tiny.QUERY_LABELS], "cross_entropy")
    train = model.examples(tiny.TEXTS, tiny.LABELS, pairs=second)
    queries = model.examples(tiny.QUERIES, tiny.QUERY_LABELS, pairs=second[:3], source="queries")
    assert relative_error(scores(model, train, queries), answer) < 1e-6
    assert train[1] == {"text": tiny.TEXTS[1], "text_pair": second[1], "label": "bad"}
    table = {"premise": list(tiny.TEXTS), "hypothesis": list(second), "label": list(tiny.LABELS)}
    assert torch.equal(scores(model, table, queries), scores(model, train, queries))


@pytest.mark.parametrize("most", [512, 4], ids=["all", "of a few at a time"])
def test_queries_of_unequal_lengths_are_solved_for_together(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastif.resources.MOST_QUERIES_AT_ONCE", most)
    model, asked = classifier(), list(tiny.TEXTS)  # padded they have more than twice as many tokens
    widths = []
    solve = PreparedConjugateGradient.solve

    def watched(self: PreparedConjugateGradient, block: Block, damping: float) -> Solution:
        widths.append(vectors.width(block))
        return solve(self, block, damping)

    monkeypatch.setattr(PreparedConjugateGradient, "solve", watched)
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    explainer = fastif.Explainer(model, train, damping=0.1, solver=fastif.ConjugateGradient(tolerance=1e-9))
    together = explainer.scores(asked).values
    assert widths == ([10] if most == 512 else [4, 4, 2])
    alone = torch.cat([explainer.scores([text]).values for text in asked])
    assert relative_error(together, alone) < 1e-6


def test_one_label_alone_has_no_cause() -> None:
    module = tiny.module_of("bert", num_labels=1)
    module.config.problem_type = "single_label_classification"
    with pytest.raises(ModelError, match="one label only"):
        TextClassifier(module, tiny.tokenizer_of())


def test_a_kind_of_problem_that_nobody_knows_is_refused() -> None:
    module = tiny.module_of("bert")
    module.config.problem_type = "nope"
    with pytest.raises(ModelError, match=r"has the problem_type 'nope'.* Set it to single_label_classification"):
        TextClassifier(module, tiny.tokenizer_of())


# --- forms of data ----------------------------------------------------------------------------------------------------


def test_rows_columns_and_data_sets_are_one_and_the_same() -> None:
    model = classifier()
    columns = {"text": list(tiny.TEXTS), "label": [row["label"] for row in ROWS]}
    queries = model.examples(tiny.QUERIES, ["good", "bad", "mixed"], source="queries")
    reference = scores(model, model.examples(tiny.TEXTS, tiny.LABELS), queries)
    for train in (ROWS, columns, datasets.Dataset.from_dict(columns), datasets.Dataset.from_list(ROWS)):
        assert torch.equal(scores(model, train, queries), reference)
    asked = [{"text": text, "label": label} for text, label in zip(tiny.QUERIES, tiny.QUERY_LABELS, strict=True)]
    assert torch.equal(scores(model, ROWS, asked), reference)


def test_one_row_and_labels_of_arrays() -> None:
    model = classifier()
    explainer = fastif.Explainer(model, {"text": list(tiny.TEXTS), "label": torch.tensor(tiny.LABELS)}, damping=0.1)
    rows = explainer.scores([{"text": tiny.QUERIES[0], "label": 1}]).values
    assert torch.equal(explainer.scores({"text": tiny.QUERIES[0], "label": 1}).values, rows)
    assert explainer.scores({"text": "dull"}).values.shape == (1, len(tiny.TEXTS))
    assert torch.equal(model.examples(tiny.TEXTS, torch.tensor(tiny.LABELS)).targets, torch.tensor(tiny.LABELS))


def test_parameters_that_outputs_do_not_depend_on_are_refused() -> None:
    """A bias of keys adds the same to all scores of attention that a softmax chooses from."""
    model = TextClassifier(
        tiny.module_of("bert"), tiny.tokenizer_of(), trainable=r"layer\.2\.attention\.self\.key\.bias"
    )
    explainer = fastif.Explainer(model, model.examples(tiny.TEXTS, tiny.LABELS), damping=0.1, solver=fastif.Exact())
    with pytest.raises(ModelError, match=r"do not depend on the chosen parameters \(bert.*key\.bias\)"):
        explainer.scores(list(tiny.QUERIES))


def test_class_labels_of_a_data_set_are_read_by_their_names() -> None:
    """The file numbers its classes in another order than the model does."""
    model = classifier()
    order = ["mixed", "good", "bad"]
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=order)})
    columns = {"text": list(tiny.TEXTS), "label": [order.index(row["label"]) for row in ROWS]}
    read = model.read(datasets.Dataset.from_dict(columns, features=features), "train")
    assert [read.label(number) for number in range(10)] == [row["label"] for row in ROWS]


def test_labels_by_name_and_by_number_are_the_same() -> None:
    model = classifier()
    by_number = model.examples(tiny.TEXTS, tiny.LABELS)
    by_name = model.examples(tiny.TEXTS, [NAMES[label] for label in tiny.LABELS])
    assert torch.equal(by_number.targets, by_name.targets)
    assert by_number[0] == {"text": tiny.TEXTS[0], "label": "good"}
    assert by_number[-1] == {"text": tiny.TEXTS[-1], "label": "mixed"}


def test_queries_without_labels_are_explained_by_what_the_model_says_of_them() -> None:
    model = classifier()
    train = model.examples(tiny.TEXTS, tiny.LABELS)
    explainer = fastif.Explainer(model, train, damping=0.1)
    predicted = model.predict(train).tolist()
    given = explainer.scores(model.examples(tiny.TEXTS, predicted, source="queries")).values
    for queries in (list(tiny.TEXTS), [{"text": text} for text in tiny.TEXTS], {"text": list(tiny.TEXTS)}):
        torch.testing.assert_close(explainer.scores(queries).values, given, rtol=1e-9, atol=1e-12)
    explained = explainer.explain(tiny.TEXTS[3], top=2)
    assert len(explained) == 1
    assert explained[0].predicted
    assert f"no label, predicted {NAMES[predicted[3]]}" in explained[0].title
    assert f"support this prediction {NAMES[predicted[3]]}" in str(explained)
    assert "speak against this prediction" in str(explained)
    with_label = explainer.explain([{"text": tiny.TEXTS[3], "label": "bad"}], top=2)
    assert not with_label[0].predicted
    assert "towards the label bad" in str(with_label)
    assert "this prediction" not in str(with_label)


def test_what_is_shown_of_an_example_is_its_text() -> None:
    model = classifier()
    found = fastif.Explainer(model, ROWS, damping=0.1).explain("the film was good", top=1)[0].helpful[0]
    assert found.description.startswith(tiny.TEXTS[found.index][:40])
    assert found.label == ROWS[found.index]["label"]
    assert found.example == ROWS[found.index]


@pytest.mark.parametrize(
    ("texts", "labels", "error", "words"),
    [
        ([], [], EmptyDataError, "empty"),
        (["a", "the"], [0], DataError, "2 texts but 1 labels"),
        (["a", 3], [0, 1], DataError, "example 1 of train is a int"),
        (["a", "the"], [0, 3], LabelError, "3"),
        (["a", "the"], ["good", "splendid"], LabelError, "splendid"),
    ],
)
def test_data_that_cannot_be_used_is_named(texts: Any, labels: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        classifier().examples(texts, labels)


def test_training_texts_without_labels_are_refused() -> None:
    with pytest.raises(DataError, match="without labels"):
        fastif.Explainer(classifier(), list(tiny.TEXTS))


def test_a_text_without_tokens_is_named() -> None:
    model = classifier("gpt2")
    with pytest.raises(DataError, match="example 1 of train gives no token"):
        model.examples(["the film", " "], [0, 1])


# --- the length of texts, and whether model and tokenizer belong together ---------------------------------------------


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "gpt2", "distilbert"])
def test_a_text_of_the_greatest_length_runs_and_longer_ones_are_cut_and_counted(family: str) -> None:
    model = classifier(family)
    assert model.max_length == tiny.POSITIONS
    special = 0 if family == "gpt2" else 2
    exactly = " ".join(["film"] * (tiny.POSITIONS - special))
    examples = model.examples([exactly, f"{exactly} good", "bad", f"{exactly} {exactly}"], [0, 1, 0, 1])
    assert examples.truncated == 2
    assert examples.lengths is not None
    assert examples.lengths.tolist() == [tiny.POSITIONS, tiny.POSITIONS, 1 + special, tiny.POSITIONS]
    assert torch.isfinite(model.logits(examples)).all()
    assert torch.isfinite(fastif.Explainer(model, examples, damping=0.1).scores(examples).values).all()


def test_max_length_is_respected_for_pairs() -> None:
    model = classifier(max_length=8)
    examples = model.examples(["the film", tiny.TEXTS[2]], [0, 1], pairs=["was bad", tiny.TEXTS[3]])
    assert examples.lengths is not None
    assert examples.lengths.tolist() == [7, 8]
    assert examples.truncated == 1


@pytest.mark.parametrize("length", [0, 2, -3, tiny.POSITIONS + 1, True, "long"])
def test_a_max_length_that_cannot_work_is_refused(length: Any) -> None:
    for family in ("bert", "roberta"):
        with pytest.raises(ConfigurationError, match=f"at most {tiny.POSITIONS}"):
            classifier(family, max_length=length)


def test_the_tokenizer_may_allow_less_than_the_model() -> None:
    module = tiny.module_of("bert")
    assert TextClassifier(module, tiny.tokenizer_of("bert", model_max_length=11)).max_length == 11


def test_a_model_with_few_positions_can_be_used() -> None:
    module = tiny.module_of("bert", max_position_embeddings=5)
    model = TextClassifier(module, tiny.tokenizer_of("bert"))
    assert model.max_length == 5
    assert model.prefix is not None


@pytest.mark.parametrize(("padding", "words"), [(None, "padding token"), (5, "with the padding behind it")])
def test_a_decoder_that_does_not_know_its_padding_is_refused(padding: int | None, words: str) -> None:
    module = tiny.module_of("gpt2")
    module.config.pad_token_id = padding
    with pytest.raises(ModelError, match=words):
        TextClassifier(module, tiny.tokenizer_of("gpt2"))


def test_what_is_no_classifier_or_no_tokenizer_is_refused() -> None:
    module, tokenizer = tiny.module_of("bert"), tiny.tokenizer_of("bert")
    with pytest.raises(ModelError, match="not a transformers model"):
        TextClassifier(torch.nn.Linear(2, 2), tokenizer)
    with pytest.raises(ConfigurationError, match="tokenizer must be"):
        TextClassifier(module, "bert")
    with pytest.raises(ModelError, match="without logits"):
        TextClassifier(module.bert, tokenizer)
    module.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ModelError, match="no second derivatives"):
        TextClassifier(module, tokenizer)

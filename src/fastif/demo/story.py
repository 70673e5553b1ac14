"""What the demo computes, chapter by chapter, as plain JSON. Knows nothing of how it is shown.

A classifier is trained on data with a planted shortcut and planted wrong labels; then influence functions say why it is
wrong, which labels are wrong, and which training examples would put it right. Nothing that is measured on the sets
`test` and `original` chooses anything.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fastif import metrics
from fastif.apps.audit import RANKINGS, Audit, audit
from fastif.apps.correction import (
    ALL,
    Corrected,
    Correction,
    Effect,
    Parameters,
    Steps,
    accuracy_by,
    check_disjoint,
    corrected_module,
    judge,
)
from fastif.data import Examples
from fastif.demo.data import DemoData, Pair, Size, make_data, write_csv
from fastif.demo.words import SHORTCUT_FAILS, SLICES
from fastif.explainer import Explainer
from fastif.explanation import Influence
from fastif.integrations.tables import read_table
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.solvers import ConjugateGradient
from fastif.version import __version__

if TYPE_CHECKING:
    from fastif.integrations.huggingface import Recipe, TextClassifier, TextExamples, TrainedClassifier

HEAD = r"classifier|score"  # what transformers call the layers on top of an encoder
BATCH_SIZE = 64
SHOWN = 6  # training examples in a list

Chapter = dict[str, Any]


def _recipe() -> "Recipe":
    from fastif.integrations.huggingface import Recipe

    return Recipe(epochs=2, learning_rate=3e-4)


@dataclass(frozen=True)
class Setting:
    """What the demo is made with.

    Args:
        base: of the classifier: a directory, a hub name, or minilm.
        seed: of the data, the training and everything drawn after it.
        size: of the data.
        recipe: of the training.
        steps: of the corrections.
        curvature_examples: over so many training examples the curvature is taken.
    """

    base: str = "minilm"
    seed: int = 0
    size: Size = field(default_factory=Size)
    recipe: "Recipe" = field(default_factory=_recipe)
    steps: Steps = field(default_factory=lambda: Steps(weight=0.2))
    curvature_examples: int = 192


def tell(
    setting: Setting,
    out: Path,
    *,
    progress: Progress = silent,
    on_chapter: Callable[[str, Chapter], None] = lambda name, chapter: None,
) -> dict[str, Any]:
    """Write data and models to a directory, and return the whole story; each chapter is told as it comes."""
    story: dict[str, Any] = {"fastif": __version__, "seed": setting.seed, "model": setting.base, "out": str(out)}
    story["seconds"] = {}
    with tempfile.TemporaryDirectory(prefix="fastif-demo-") as states:
        chapters = _Chapters(setting, out, PrefixCache(directory=states), progress)
        started = time.perf_counter()
        for name, chapter in chapters.all():
            now = time.perf_counter()
            story["seconds"][name], started = round(now - started, 2), now
            story[name] = chapter
            on_chapter(name, chapter)
    return story


@dataclass(frozen=True)
class _Chapters:
    setting: Setting
    out: Path
    cache: PrefixCache
    progress: Progress

    def all(self) -> Iterator[tuple[str, Chapter]]:
        yield "data", self._data()
        yield "training", self._training()
        yield "mistake", self._mistake()
        yield "audit", self._audit()
        yield "correction", self._correction()

    # --- what several chapters need -----------------------------------------------------------------------------------

    @cached_property
    def data(self) -> DemoData:
        return make_data(self.setting.seed, self.setting.size)

    @cached_property
    def trained(self) -> "TrainedClassifier":
        from fastif.integrations.huggingface.training import prepare_training

        recipe = replace(self.setting.recipe, seed=self.setting.seed)
        table, guard = (self._table(name) for name in ("train", "guard"))
        training = prepare_training(self.setting.base, table, dev=guard, recipe=recipe, cache=self.cache)
        return training.run(progress=self.progress)

    @property
    def model(self) -> "TextClassifier":
        return self.trained.model

    @cached_property
    def examples(self) -> "dict[str, TextExamples]":
        return {name: self.model.from_table(self._table(name), source=name) for name in self.data.sets()}

    @cached_property
    def explainer(self) -> Explainer:
        solver = ConjugateGradient(subsample=self.setting.curvature_examples, tolerance=1e-2, seed=self.setting.seed)
        return Explainer(
            self.model,
            self.examples["train"],
            solver=solver,
            batch_size=BATCH_SIZE,
            prefix_cache=self.cache,
            progress=self.progress,
        )

    def _table(self, name: str) -> Any:
        return read_table(
            self._file(name), text="premise", text_pair="hypothesis", label="label", slice="slice", source_name=name
        )

    def _file(self, name: str) -> Path:
        return self.out / "data" / f"{name}.csv"

    def _seen(self, name: str) -> Examples:
        return self.cache.view(self.model, self.examples[name], progress=self.progress)

    # --- the chapters -------------------------------------------------------------------------------------------------

    def _data(self) -> Chapter:
        data = self.data
        (self.out / "data").mkdir(parents=True, exist_ok=True)
        for name, pairs in data.sets().items():
            write_csv(pairs, self._file(name))
        for name in ("train", "test", "original"):
            check_disjoint(map(_sentences, [*data.anchors, *data.guard]), map(_sentences, data.sets()[name]))
        firsts = [next(pair for pair in data.train if pair.slice == name and not pair.is_wrong) for name in SLICES]
        return {
            "pairs": {name: len(pairs) for name, pairs in data.sets().items()},
            "train_slices": {name: sum(pair.slice == name for pair in data.train) for name in SLICES},
            "wrong_labels": sum(pair.is_wrong for pair in data.train),
            "examples": [{**_words(pair), "slice": pair.slice} for pair in firsts],
        }

    def _training(self) -> Chapter:
        record = self.trained.record
        self.trained.save(self.out / "model")
        return {
            "trained": record["trained"],
            "trained_parameters": record["trained_parameters"],
            "all_parameters": record["all_parameters"],
            "frozen_prefix": record["frozen_prefix"],
            "epochs": len(record["history"]),
            **self._measured(self.model.parameters),
        }

    def _measured(self, parameters: Parameters) -> Chapter:
        """Return accuracy by slice, of the failing slice by kind, of the other slices together, and on `original`."""
        test = self.data.test
        right, _ = judge(self.model, parameters, self._seen("test"))
        by_slice = accuracy_by([pair.slice for pair in test], right)
        failing = [row for row, pair in enumerate(test) if pair.slice == SHORTCUT_FAILS]
        by_kind = accuracy_by([test[row].kind for row in failing], right[failing])
        others = [by_slice[name] for name in SLICES if name != SHORTCUT_FAILS]
        original = judge(self.model, parameters, self._seen("original"))[0]
        return {
            "accuracy": {name: by_slice[name] for name in SLICES},
            "kinds": {name: share for name, share in sorted(by_kind.items()) if name != ALL},
            "failing": by_slice[SHORTCUT_FAILS],
            "rest": sum(others) / len(others),
            "original": float(original.double().mean()),
        }

    def _mistake(self) -> Chapter:
        """Explain the wrong prediction that the model is surest of, where the shortcut fails if there is one."""
        right, losses = judge(self.model, self.model.parameters, self._seen("test"))
        failing = torch.tensor([pair.slice == SHORTCUT_FAILS for pair in self.data.test])
        row = int((losses - 1e6 * right - 1e3 * ~failing).argmax())
        query = self.model.from_table(self._table("test").take([row]), source="queries")
        explained = self.explainer.explain(query, top=SHOWN)
        chances = self.model.logits(query)[0].softmax(dim=0)
        predicted = int(chances.argmax())
        return {
            **_words(self.data.test[row]),
            "predicted": self.model.label_names[predicted],
            "confidence": float(chances[predicted]),
            "helpful": [self._member(each) for each in explained[0].helpful],
            "harmful": [self._member(each) for each in explained[0].harmful],
            "how": explained.summary,
        }

    def _audit(self) -> Chapter:
        """Look for the planted labels as `fastif audit` does, through the head alone: exact, and done in a second."""
        from fastif.integrations.huggingface import TextClassifier

        head = TextClassifier(self.model.module, self.model.tokenizer, trainable=HEAD, max_length=self.model.max_length)
        explainer = Explainer(
            head, self.examples["train"], batch_size=BATCH_SIZE, prefix_cache=self.cache, progress=self.progress
        )
        found = audit(explainer)
        wrong = torch.tensor([pair.is_wrong for pair in self.data.train])
        return {
            "looked_at": int(wrong.sum()),
            "chance": float(wrong.double().mean()),
            "rankings": [{"by": by, **_found(found.values(by), wrong)} for by in RANKINGS],
            "suspects": [
                {**self._pair(row), "loss_without": float(found.losses_without[row]), **self._suggested(found, row)}
                for row in found.ranking()[: 2 * SHOWN].tolist()
            ],
            "how": explainer.summary(),
        }

    def _suggested(self, found: Audit, row: int) -> Chapter:
        """Return the label that the model would give without this example, and how sure it would be."""
        assert found.suggested is not None
        assert found.suggested_probability is not None
        name = self.model.label_names[int(found.suggested[row])]
        return {"suggested": name, "suggested_probability": float(found.suggested_probability[row])}

    def _correction(self) -> Chapter:
        """Correct by each effect; a person reads the examples first, and the demo, which knows, plays that person."""
        wrong = [row for row, pair in enumerate(self.data.train) if pair.is_wrong]
        correction = Correction(
            self.model,
            self.examples["train"],
            anchors=self.examples["anchors"],
            guard=self.examples["guard"],
            rejected=wrong,
            steps=replace(self.setting.steps, seed=self.setting.seed),
            prefix_cache=self.cache,
            progress=self.progress,
        )
        effects: tuple[Effect, ...] = ("retrain", "finetune-step", "random", "anchors")
        done = {effect: correction.run(effect, explainer=self.explainer) for effect in effects}
        self._save(done["retrain"])
        return {
            "anchors": len(self.data.anchors),
            "steps": self.setting.steps.most,
            "before": self._measured(self.model.parameters),
            "methods": [{**self._method(one), **self._measured(one.parameters)} for one in done.values()],
            "chosen": [self._pair(row) for row in done["retrain"].train_ids[:SHOWN].tolist()],
        }

    def _method(self, one: Corrected) -> Chapter:
        chosen = [self.data.train[row] for row in one.train_ids.tolist()]
        return {
            "effect": one.effect,
            "chosen": len(chosen),
            "counterexamples": sum(pair.slice == SHORTCUT_FAILS for pair in chosen),
            "passed_over": len(one.passed_over),
            "steps_kept": one.steps,
            "history": [[look.steps, look.anchor_loss, look.guard_accuracy] for look in one.history],
        }

    def _save(self, one: Corrected) -> None:
        from fastif.integrations.huggingface import TextClassifier, TrainedClassifier

        record, model = self.trained.record, self.model
        fixed = TextClassifier(
            corrected_module(model, one.parameters),
            model.tokenizer,
            trainable=record["trainable"],
            freeze_layers=record["freeze_layers"],
            max_length=model.max_length,
        )
        words = {"effect": one.effect, "train_rows": one.train_ids.tolist(), "steps": one.steps}
        TrainedClassifier(fixed, {**record, "corrected": words}).save(self.out / "corrected")

    def _member(self, it: Influence) -> Chapter:
        return {**self._pair(it.index), "score": it.score}

    def _pair(self, row: int) -> Chapter:
        pair = self.data.train[row]
        return {**_words(pair), "row": row, "slice": pair.slice, "wrong_label": pair.is_wrong}


def _words(pair: Pair) -> Chapter:
    return {"premise": pair.premise, "hypothesis": pair.hypothesis, "label": pair.label}


def _sentences(pair: Pair) -> tuple[str, str]:
    return pair.premise, pair.hypothesis


def _found(values: Tensor, wrong: Tensor) -> Chapter:
    """Return how many wrong labels are among as many suspects as there are, and the share after each tenth of them."""
    count = int(wrong.sum())
    hits = wrong[values.topk(count).indices].double()
    at = [max(1, round(count * tenth / 10)) for tenth in range(1, 11)]
    return {
        "found": int(hits.sum()),
        "precision": float(hits.mean()),
        "auc": metrics.auc(values, wrong),
        "curve": [[k, float(hits[:k].mean())] for k in at],
    }

"""The demo's story for the page holds what was planted, what was found, and accuracy before and after."""

import copy
import json
from typing import Any

from fastif.apps.audit import RANKINGS
from fastif.demo import telling
from fastif.demo.chapters import page_story
from fastif.demo.words import SLICES


def story() -> dict[str, Any]:
    pair = {"premise": "The cook lied.", "hypothesis": "Someone lied.", "label": "entailment", "slice": SLICES[0]}
    member = {**pair, "row": 3, "wrong_label": True, "score": -1.5}
    measured = {
        "accuracy": dict.fromkeys(SLICES, 0.5),
        "kinds": {"or": 0.1, "almost": 0.2},
        "failing": 0.25,
        "rest": 0.9,
        "original": 0.95,
    }
    methods = [
        {"effect": effect, "chosen": 20, "counterexamples": 9, "passed_over": 3, "steps_kept": 5, **measured}
        for effect in ("retrain", "finetune-step", "random", "anchors")
    ]
    ranking = {"found": 5, "precision": 0.5, "auc": 0.9, "curve": [[1, 1.0], [10, 0.5]]}
    return {
        "fastif": "0",
        "seed": 0,
        "model": "minilm",
        "out": "out/demo",
        "seconds": {"data": 1.0, "training": 2.0},
        "data": {
            "pairs": {"train": 100, "test": 40},
            "train_slices": dict.fromkeys(SLICES, 25),
            "wrong_labels": 10,
            "examples": [pair],
        },
        "training": {"trained": "a head", "trained_parameters": 1, "all_parameters": 2, "epochs": 2, **measured},
        "mistake": {
            **pair,
            "predicted": "non-entailment",
            "confidence": 0.9,
            "helpful": [member],
            "harmful": [],
            "how": "how it was found",
        },
        "audit": {
            "looked_at": 10,
            "chance": 0.1,
            "rankings": [{"by": by, **ranking} for by in RANKINGS],
            "suspects": [{**pair, "wrong_label": False, "loss_without": 2.0}],
            "how": "how they were found",
        },
        "correction": {"anchors": 6, "steps": 30, "before": measured, "methods": methods, "chosen": [member]},
    }


def test_everything_that_was_found_is_told() -> None:
    told = page_story(story())
    assert [chapter.title for chapter in told.chapters] == [*telling.TITLES.values(), telling.ONWARD]
    words = json.dumps(told.as_json(), ensure_ascii=False)
    for part in (
        "25% → 25%",  # accuracy before and after
        "5 of 10",  # suspects with a wrong label
        "And 10 of the labels are wrong.",
        "wrong label, planted",
        "influence -1.5",
        "like the training set",
        "loss if left out 2.00",
        "fastif explain out/demo/model",
        "how it was found",
    ):
        assert part in words
    assert ["1", "100%", "100%", "100%"] in telling.curve_table(story()["audit"])
    assert telling.before_and_after(story())[1] == [SLICES[0], "50.0%", "50.0%"]


def test_the_verdict_follows_the_numbers() -> None:
    better = story()
    assert "as many as the plain loss" in page_story(better).chapters[3].text
    for found, words in ((7, "2 more than the plain loss"), (1, "4 fewer than the plain loss")):
        changed = copy.deepcopy(better)
        changed["audit"]["rankings"][0]["found"] = found
        assert words in page_story(changed).chapters[3].text

"""The demo's page: one file, nothing from elsewhere, and no text of the data that a browser would obey."""

import copy
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fastif.apps.audit import RANKINGS
from fastif.demo.report import render, write_report
from fastif.demo.words import SLICES

HOSTILE = "</i><script>alert('x')</script><img src=x onerror=alert(1)> & \"quoted\" ${title} $lead"
VOID = {"meta", "rect", "line", "polyline"}


def story() -> dict[str, Any]:
    pair = {"premise": HOSTILE, "hypothesis": HOSTILE, "label": HOSTILE, "slice": SLICES[0]}
    member = {**pair, "row": 3, "wrong_label": True, "score": -1.5}
    measured = {
        "accuracy": dict.fromkeys(SLICES, 0.5),
        "kinds": {"or": 0.1, HOSTILE: 0.2},
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
        "model": HOSTILE,
        "out": HOSTILE,
        "seconds": {"data": 1.0, "training": 2.0},
        "data": {
            "pairs": {"train": 100, "test": 40},
            "train_slices": dict.fromkeys(SLICES, 25),
            "wrong_labels": 10,
            "examples": [pair],
        },
        "training": {"trained": HOSTILE, "trained_parameters": 1, "all_parameters": 2, "epochs": 2, **measured},
        "mistake": {
            **pair,
            "predicted": HOSTILE,
            "confidence": 0.9,
            "helpful": [member],
            "harmful": [],
            "how": HOSTILE,
        },
        "audit": {
            "looked_at": 10,
            "chance": 0.1,
            "rankings": [{"by": by, **ranking} for by in RANKINGS],
            "suspects": [{**pair, "wrong_label": False, "loss_without": 2.0}],
            "how": HOSTILE,
        },
        "correction": {"anchors": 6, "steps": 30, "before": measured, "methods": methods, "chosen": [member]},
    }


class Tags(HTMLParser):
    """The elements of a page, with what is left open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    return render(story())


def test_hostile_texts_are_shown_and_not_obeyed(page: str) -> None:
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert not {"script", "img", "iframe", "object", "link"} & {name for name, _ in tags.seen}
    assert not [name for _, attributes in tags.seen for name in attributes if name.startswith("on")]
    assert "&lt;script&gt;" in page
    assert "${title}" in page  # what looks like a place to fill in is text


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    assert not re.search(r"(?i)(src|href|url|@import)\s*[=(]", re.sub(r"&lt;.*?&gt;", "", page))
    assert "http://" not in page
    assert "https://" not in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def test_numbers_of_the_story_stand_on_the_page(page: str) -> None:
    for words in ("25% → 25%", "5 of 10", "wrong label, planted", "influence -1.5", "50.0%", "none"):
        assert words in page


def test_the_verdict_follows_the_numbers() -> None:
    better = story()
    assert "as many as the plain loss" in render(better)
    for found, words in ((7, "2 more than the plain loss"), (1, "4 fewer than the plain loss")):
        changed = copy.deepcopy(better)
        changed["audit"]["rankings"][0]["found"] = found
        assert words in render(changed)


def test_written_whole(tmp_path: Path) -> None:
    write_report(story(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(story())
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

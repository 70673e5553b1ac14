"""The demo's story for the explorer's page: the sentences of `telling.py` with tables and examples. Knows no model."""

from collections.abc import Iterable
from typing import Any

from fastif.demo import telling
from fastif.web.story import Chapter, Example, Examples, Story, Table, Words

Told = dict[str, Any]


def page_story(story: Told) -> Story:
    """Return the whole story as the page tells it."""
    parts = {
        "data": _data(story["data"]),
        "training": [Table(_measured_on(story), telling.slice_table(story["training"]), bars=True)],
        "mistake": _mistake(story["mistake"]),
        "audit": _audit(story["audit"]),
        "correction": _correction(story),
    }
    words = {
        "data": telling.data(story["data"]),
        "training": telling.training(story["training"]),
        "mistake": telling.mistake(story["mistake"]),
        "audit": telling.audit(story["audit"]),
        "correction": telling.correction(story),
    }
    chapters = [Chapter(title, words[name], parts[name]) for name, title in telling.TITLES.items()]
    onward = Words("\n".join(telling.commands(story)), code=True)
    last = Chapter(telling.ONWARD, telling.FILES, [onward, Words(telling.made(story))])
    return Story(telling.TITLE, telling.LEAD, telling.cards(story), [*chapters, last])


def _data(chapter: Told) -> list[Any]:
    counts = chapter["train_slices"]
    items = [_example(pair, f"{counts[pair['slice']]:,} pairs: {pair['slice']}") for pair in chapter["examples"]]
    return [Examples("One of each kind", items)]


def _mistake(chapter: Told) -> list[Any]:
    said = f"the model says {chapter['predicted']} ({chapter['confidence']:.0%})"
    return [
        Examples("The mistake", [_example(chapter, said)]),
        Examples(telling.HARMFUL, _scored(chapter["harmful"])),
        Examples(telling.HELPFUL, _scored(chapter["helpful"])),
        Words(chapter["how"]),
    ]


def _audit(chapter: Told) -> list[Any]:
    suspects = [_example(pair, f"loss if left out {pair['loss_without']:.2f}") for pair in chapter["suspects"]]
    return [
        Table(f"Wrong labels among the first {chapter['looked_at']} suspects.", telling.audit_table(chapter)),
        Table("Share of planted wrong labels among the first suspects.", telling.curve_table(chapter), bars=True),
        Examples("The first suspects", suspects),
        Words(chapter["how"]),
    ]


def _correction(story: Told) -> list[Any]:
    chapter = story["correction"]
    return [
        Table(_measured_on(story), telling.before_and_after(story), bars=True),
        Table("Accuracy by what the steps were taken on.", telling.correction_table(chapter)),
        Words(telling.correction_note(chapter)),
        Examples("What it learned from", [_example(pair) for pair in chapter["chosen"]]),
        Table("Where the shortcut fails, by the word that it turns on.", telling.kinds_table(chapter)),
    ]


def _measured_on(story: Told) -> str:
    return f"Accuracy on {story['data']['pairs']['test']:,} test pairs with true labels."


def _scored(pairs: Iterable[Told]) -> list[Example]:
    return [_example(pair, f"influence {pair['score']:+.3g}") for pair in pairs]


def _example(pair: Told, *tags: str) -> Example:
    odd = telling.PLANTED if pair.get("wrong_label") else ""
    return Example([pair["premise"], pair["hypothesis"]], [f"label {pair['label']}", *tags], odd)

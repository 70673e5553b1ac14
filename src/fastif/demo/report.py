"""The demo's story as one HTML page that needs nothing else. Knows the story's JSON and `report.html`, and no model.

Every text goes through `escape`; pictures are inline SVG, drawn in the colours of the page, light or dark.
"""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from fastif.demo import telling
from fastif.files import replacing

Chapter = dict[str, Any]
LINES = {"left-out": "influence", "loss": "loss"}  # drawn, with the class of the line


def write_report(story: Chapter, file: Path) -> None:
    """Write the page, whole or not at all."""
    page = render(story)
    with replacing(file) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(story: Chapter) -> str:
    """Return the page."""
    template = Template(files("fastif.demo").joinpath("report.html").read_text(encoding="utf-8"))
    data, training, mistake = story["data"], story["training"], story["mistake"]
    audit, correction = story["audit"], story["correction"]
    before, after = correction["before"], telling.corrected(story)
    words = {
        "title": telling.TITLE,
        "lead": telling.LEAD,
        "data": telling.data(data),
        "training": telling.training(training),
        "test_pairs": f"{data['pairs']['test']:,}",
        "mistake": telling.mistake(mistake),
        "mistake_how": mistake["how"],
        "audit": telling.audit(audit),
        "audit_how": audit["how"],
        "correction": telling.correction(story),
        "correction_note": telling.correction_note(correction),
        "commands": "\n".join(telling.commands(story)),
        "made": telling.made(story),
    }
    parts = {
        "cards": _cards(story),
        "data_examples": _pairs(data["examples"], data["train_slices"]),
        "training_bars": _bars(training["accuracy"], {"": training["accuracy"]}),
        "mistake_pair": _sentences(mistake)
        + _tags([f"label {mistake['label']}", f"the model says {mistake['predicted']} ({mistake['confidence']:.0%})"]),
        "helpful": _pairs(mistake["helpful"]),
        "harmful": _pairs(mistake["harmful"]),
        "audit_table": _table(telling.audit_table(audit)),
        "audit_curve": _curve(audit),
        "suspects": _pairs(audit["suspects"]),
        "correction_bars": _bars(before["accuracy"], {"before": before["accuracy"], "after": after["accuracy"]}),
        "correction_table": _table(telling.correction_table(correction), main=1),
        "chosen": _pairs(correction["chosen"]),
        "kinds_table": _table(telling.kinds_table(correction)),
    }
    return template.substitute({name: escape(text) for name, text in words.items()}, **parts)


def _cards(story: Chapter) -> str:
    return "".join(
        f'<div class="card"><b>{escape(number)}</b><span>{escape(words)}</span></div>'
        for number, words in telling.cards(story)
    )


def _pairs(pairs: Iterable[Chapter], counts: dict[str, int] | None = None) -> str:
    """Return pairs of sentences as items of a list, each with what is known of it."""
    items = []
    for pair in pairs:
        tags = [f"label {pair['label']}"]
        tags += [f"{counts[pair['slice']]:,} pairs: {pair['slice']}"] if counts else []
        tags += [f"influence {pair['score']:+.3g}"] if "score" in pair else []
        tags += [f"loss if left out {pair['loss_without']:.2f}"] if "loss_without" in pair else []
        wrong = "wrong label, planted" if pair.get("wrong_label") else ""
        items.append(f'<li class="pair">{_sentences(pair)}{_tags(tags, wrong)}</li>')
    return "".join(items) or '<li class="pair">none</li>'


def _sentences(pair: Chapter) -> str:
    return f"<i>{escape(pair['premise'])}</i><i>{escape(pair['hypothesis'])}</i>"


def _tags(tags: Sequence[str], wrong: str = "") -> str:
    spans = "".join(f"<span>{escape(tag)}</span>" for tag in tags)
    return f'<div class="tags">{spans}' + (f'<span class="wrong">{escape(wrong)}</span>' if wrong else "") + "</div>"


def _bars(groups: Iterable[str], series: dict[str, dict[str, float]]) -> str:
    """Return a bar for each group and series, its length a share; SVG in percent, so that it fits any width."""
    parts = []
    for group in groups:
        rows = ""
        for number, (name, values) in enumerate(series.items()):
            style = "fill-after" if number or len(series) == 1 else "fill-before"
            share = f"{values[group]:.1%}"
            bar = (
                f'<rect class="track" width="100%" height="100%"/><rect class="{style}" width="{share}" height="100%"/>'
            )
            label = f"{group}, {name}: {share}" if name else f"{group}: {share}"
            picture = f'<svg role="img" aria-label="{escape(label)}">{bar}</svg>'
            before = f'<div class="row"><span>{escape(name)}</span>' if name else '<div class="row alone">'
            rows += f"{before}{picture}<span>{share}</span></div>"
        parts.append(f'<div class="group"><div>{escape(group)}</div>{rows}</div>')
    return "".join(parts)


def _table(rows: Sequence[Sequence[str]], main: int | None = None) -> str:
    """Return a table whose first row holds the headings; `main` is the row to be seen first."""
    html = ""
    for number, row in enumerate(rows):
        tag = "td" if number else "th"
        cells = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        html += f"<tr{' class=main' if main is not None and number == main + 1 else ''}>{cells}</tr>"
    return f"<table>{html}</table>"


def _curve(audit: Chapter) -> str:
    """Return precision over how many suspects are looked at, as lines."""
    most = max(audit["looked_at"], 1)
    left, right, top, bottom = 36.0, 352.0, 24.0, 164.0

    def point(count: float, share: float) -> str:
        return f"{left + (right - left) * count / most:.1f},{bottom - (bottom - top) * share:.1f}"

    parts = []
    for share in (0.0, 0.5, 1.0):
        height = bottom - (bottom - top) * share
        style = "grid" if share else "axis"
        parts.append(f'<line class="{style}" x1="{left}" x2="{right}" y1="{height}" y2="{height}"/>')
        parts.append(f'<text x="{left - 5}" y="{height + 4}" text-anchor="end">{share:.0%}</text>')
    for ranking in (one for one in audit["rankings"] if one["by"] in LINES):
        points = " ".join(point(count, share) for count, share in ranking["curve"])
        parts.append(f'<polyline class="{LINES[ranking["by"]]}" points="{points}"/>')
    parts.append(f'<polyline class="chance" points="{point(0, audit["chance"])} {point(most, audit["chance"])}"/>')
    parts.append(f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{most} suspects</text>')
    place = left
    for name, style in (*((telling.RANKED_BY[by], style) for by, style in LINES.items()), ("chance", "chance")):
        parts.append(f'<line class="{style}" x1="{place}" x2="{place + 20}" y1="10" y2="10"/>')
        parts.append(f'<text x="{place + 25}" y="14">{name}</text>')
        place += 120
    label = "Precision by the loss if left out, by plain loss and by chance"
    return f'<svg class="curve" viewBox="0 0 360 190" role="img" aria-label="{label}">{"".join(parts)}</svg>'

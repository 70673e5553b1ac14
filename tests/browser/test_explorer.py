"""The page as a person uses it: in Chromium, from a file, with the network off."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fastif.web.export import write_export
from fastif.web.marks import marked_rows, read_marks
from fastif.web.payload import make_payload
from fastif.web.source import read_run
from tests.browser.conftest import ready
from tests.web.runs import content, write_run

pytestmark = pytest.mark.browser


def state(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(
        "() => ({ ...window.fastif.state.now, marks: [...window.fastif.state.now.marks] })"
    )
    return found


def chooser(page: Any, name: str) -> Any:
    return page.get_by_role("combobox", name=name, exact=True)


def address(page: Any) -> str:
    page.wait_for_timeout(200)
    return str(page.evaluate("() => location.hash"))


def point_of(page: Any, kind: str, number: int) -> tuple[float, float]:
    """Where a prediction or a training example lies in the window."""
    place = page.evaluate(
        """([kind, at]) => {
          const { graph, run } = window.fastif, box = graph.surface.getBoundingClientRect();
          const [x, y] = kind === "query" ? graph.toScreen(run.query_x[at], run.query_y[at])
            : graph.toScreen(graph.where.x[at], graph.where.y[at]);
          return [box.left + x, box.top + y];
        }""",
        [kind, number],
    )
    return place[0], place[1]


def painted(page: Any, layer: str) -> int:
    """How many pixels of a layer are not empty."""
    return int(
        page.evaluate(
            """(layer) => {
              const canvas = document.querySelector(`.layer-${layer}`);
              const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
              let count = 0;
              for (let at = 3; at < data.length; at += 4) if (data[at]) count += 1;
              return count;
            }""",
            layer,
        )
    )


def test_it_opens_and_shows_the_graph_and_the_facts(page: Any, exported: str) -> None:
    ready(page, exported)
    assert page.locator(".query[data-row]").count() >= 12
    assert painted(page, "edges") > 1000
    assert painted(page, "points") > 100
    words = page.locator("#facts summary").inner_text()
    for name in ("Method", "Damping", "Residual", "Candidates", "Estimated recall", "Parameters", "Training data"):
        assert name in words
    page.locator("#facts summary").click()
    assert "0.125, automatic" in page.locator("#facts-list").inner_text()


def test_filters_search_and_order(page: Any, exported: str) -> None:
    ready(page, exported)
    listed = page.locator("#queries .query")
    chooser(page, "Predicted").select_option("false")
    assert listed.count() == 3
    chooser(page, "Slice").select_option("slice 1")
    assert listed.count() == 1
    chooser(page, "Slice").select_option("")
    chooser(page, "Predicted").select_option("")
    page.get_by_label("Search the texts of predictions").fill("asked 7")
    assert listed.count() == 1
    page.get_by_label("Search the texts of predictions").fill("")
    chooser(page, "Order").select_option("sure")
    assert "asked 11" in listed.first.inner_text()


def test_a_prediction_shows_its_training_examples(page: Any, exported: str) -> None:
    ready(page, exported)
    page.locator("#queries .query").nth(1).click()
    for kind in ("Helpful", "Harmful"):
        cards = page.get_by_label(kind, exact=True).locator(".card")
        assert cards.count() == 10
        assert re.search(r"[\d.]+ ± 0\.25", cards.first.inner_text())
    assert page.locator("#detail mark").count() > 0
    page.get_by_text("What the numbers mean").click()
    assert "had the model been trained without that example" in page.locator("#detail .meanings").inner_text()
    assert "Touches" in page.locator("#detail .card").first.inner_text()
    assert "negative" in page.locator("#detail").inner_text()
    page.locator("#detail .card-text").first.click()
    assert "everything it influences" in page.locator("#detail-title").inner_text()
    page.get_by_role("button", name="Back").click()
    assert page.locator("#detail-title").inner_text() == "The chosen prediction"


def test_whiskers_and_words_tell_the_error_of_a_score(page: Any, exported: str, tmp_path: Path) -> None:
    ready(page, exported + "#q=1")
    first = page.locator("#detail .card").first
    assert "with a standard error of 0.25" in first.inner_text()
    inner, whisker = (first.locator(f".bar i.{kind}").bounding_box() for kind in ("helpful", "whisker"))
    end, middle = inner["x"] + inner["width"], whisker["x"] + whisker["width"] / 2
    assert abs(end - middle) <= 2  # one error either way of the end of the bar
    track = first.locator(".bar").bounding_box()
    assert whisker["x"] + whisker["width"] <= track["x"] + track["width"] + 1
    assert "one standard error" in page.locator("#detail").inner_text()
    page.locator("#detail .card-text").first.click()
    assert page.locator("#detail .whisker").count() > 0
    written = write_export(make_payload(content(tmp_path / "run", error=None)), tmp_path / "page.html")
    ready(page, written.file.as_uri() + "#q=1")
    assert page.locator("#detail .whisker").count() == 0
    assert "have no standard error" in page.locator("#detail").inner_text()
    assert "residual of 1.0e-6" in page.locator("#detail").inner_text()


def test_hover_and_click_in_the_graph(page: Any, exported: str) -> None:
    ready(page, exported)
    page.mouse.move(*point_of(page, "query", 4))
    assert "asked 4" in page.locator(".tip").inner_text()
    assert painted(page, "focus") > 50
    page.mouse.click(*point_of(page, "query", 4))
    assert state(page)["query"] == 4
    node = page.evaluate("() => window.fastif.run.edge_train[0]")
    page.mouse.move(*point_of(page, "train", node))
    page.mouse.click(*point_of(page, "train", node))
    assert "everything it influences" in page.locator("#detail-title").inner_text()


def test_slider_zoom_pan_and_kinds(page: Any, exported: str) -> None:
    ready(page, exported)
    many = painted(page, "edges")
    page.locator("input[type=range]").fill("100")
    page.wait_for_timeout(150)
    assert 0 < painted(page, "edges") < many
    page.get_by_role("button", name="Zoom in").click()
    assert state(page)["view"]["zoom"] == 1.5
    box = page.locator(".surface").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 240, box["y"] + 220, steps=4)
    page.mouse.up()
    assert state(page)["view"]["x"] < 0
    page.get_by_role("button", name="All of the graph").click()
    assert state(page)["view"] == {"x": 0, "y": 0, "zoom": 1}
    chooser(page, "Show").select_option("helpful")
    chooser(page, "Inside").select_option("slice")
    assert "ring 1" in page.locator("#legend").inner_text()


def test_a_lasso_lists_what_is_in_it(page: Any, exported: str) -> None:
    ready(page, exported)
    page.get_by_role("button", name="Lasso").click()
    box = page.locator(".surface").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] - 120, middle[1] - 120)
    page.mouse.down()
    for dx, dy in ((120, -120), (120, 120), (-120, 120), (-120, -110)):
        page.mouse.move(middle[0] + dx, middle[1] + dy, steps=6)
    page.mouse.up()
    title = page.locator("#detail-title").inner_text()
    assert re.match(r"\d+ training examples in the lasso", title)
    assert page.locator("#detail .card").count() > 3
    assert "lasso=" in address(page)


def test_marks_are_exported_and_a_reload_restores_everything(page: Any, exported: str, tmp_path: Path) -> None:
    ready(page, exported)
    page.locator("#queries .query").nth(2).click()
    chooser(page, "Predicted").select_option("true")
    page.get_by_role("button", name="Zoom in").click()
    cards = page.locator("#detail .mark-choice")
    cards.nth(0).select_option("remove")
    cards.nth(1).select_option("keep")
    page.get_by_role("button", name="Accept").click()
    assert "3 training examples marked" in page.locator("#below").inner_text()
    commands = page.get_by_label("The commands", exact=True).inner_text()
    assert "fastif apply" in commands
    assert "fastif train" in commands
    assert "train_classifier" in page.get_by_label("The Python", exact=True).inner_text()
    assert page.get_by_role("button", name="Download parquet").count() == 0
    assert "No parquet here: a file has no program behind it" in page.locator("#below").inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download jsonl").click()
    download.value.save_as(tmp_path / "marks.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "marks.jsonl").read_text().splitlines()]
    assert [row["action"] for row in rows] == ["remove", "keep", "relabel"]
    assert (rows[2]["index"], rows[2]["label"], rows[2]["new_label"]) == (5, "positive", "negative")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download csv").click()
    download.value.save_as(tmp_path / "marks.csv")
    assert len((tmp_path / "marks.csv").read_text().splitlines()) == 4
    address(page)
    before = state(page)
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert state(page) == before
    assert page.locator("#detail-title").inner_text() == "The chosen prediction"
    assert chooser(page, "Predicted").input_value() == "true"


@pytest.mark.parametrize("classes", [("negative", "positive"), ("-1", "'=1")])
def test_the_files_that_the_page_writes_are_applied(page: Any, tmp_path: Path, classes: tuple[str, str]) -> None:
    path = write_run(tmp_path / "run", hostile=True, classes=classes)
    url = write_export(make_payload(read_run(path)), tmp_path / "page.html").file.as_uri()
    ready(page, url)
    page.locator("#queries .query").nth(2).click()
    for at, verdict in enumerate(("remove", "keep", "relabel")):
        choice = page.locator("#detail .mark-choice").nth(at)
        if verdict == "relabel":
            options = choice.locator("option").evaluate_all("all => all.map((each) => each.value)")
            verdict = next(value for value in options if value.startswith("label:"))
        choice.select_option(verdict)
    found = []
    for kind in ("jsonl", "csv"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download {kind}").click()
        download.value.save_as(tmp_path / f"marks.{kind}")
        rows, counts = marked_rows(path, tmp_path / f"marks.{kind}")
        assert counts == {"remove": 1, "keep": 1, "relabel": 1}
        assert {row["label"] for row in rows} == {"0", "1"}  # as the file has them
        texts = [row["text"] for row in read_marks(tmp_path / f"marks.{kind}")]
        found.append((rows, texts))
    assert found[0] == found[1]
    assert sum(row["label"] != before["label"] for row, before in _beside(found[0][0], path)) == 1


def _beside(rows: list[dict[str, Any]], path: Path) -> list[tuple[Any, Any]]:
    """Rows that are left, each with what it was."""
    before = {row["text"]: row for row in read_run(path).train}
    return [(row, before[row["text"]]) for row in rows]


def test_another_address_changes_the_page(page: Any, exported: str) -> None:
    ready(page, exported)
    page.evaluate("() => { location.hash = '#q=3&right=false&kind=harmful&n=7'; }")
    page.wait_for_timeout(100)
    assert page.locator("#detail-title").inner_text() == "The chosen prediction"
    assert chooser(page, "Predicted").input_value() == "false"
    assert chooser(page, "Show").input_value() == "harmful"
    assert "7 strongest" in page.locator("#graph-tools").inner_text()
    page.evaluate("() => { location.hash = '#q=99&t=-1&view=a,b,c&marks=5~explode&rings=x&n=1e9'; }")
    page.wait_for_timeout(100)
    assert state(page)["query"] is None
    assert state(page)["marks"] == []
    assert page.locator("#detail-title").inner_text() == "Where to begin"


def test_the_story_is_told_on_request_and_the_address_keeps_it(page: Any, exported: str) -> None:
    ready(page, exported)
    assert "1 of 2 are so" in page.locator("#story summary").inner_text()
    assert not page.locator("#story .chapters").is_visible()
    page.locator("#story summary").click()
    assert "What was done." in page.locator("#story .chapters").inner_text()
    width = page.locator("#story .share i").first.evaluate("(bar) => bar.style.width")
    assert width == "12.5%"
    assert "story=open" in address(page)
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.locator("#story .chapters").is_visible()


def test_with_the_keyboard_alone(page: Any, exported: str) -> None:
    ready(page, exported)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent").startswith("Skip")
    page.get_by_label("Search the texts of predictions").focus()
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.classList.contains('query')"):
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert state(page)["query"] == 1
    page.locator(".surface").focus()
    page.keyboard.press("ArrowRight")
    assert state(page)["query"] == 2
    assert "asked 2" in page.locator("#status").inner_text()
    page.keyboard.press("+")
    assert state(page)["view"]["zoom"] == 1.5
    page.get_by_role("button", name="Glossary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#glossary").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#glossary").is_visible()


def test_hostile_strings_stay_text(page: Any, hostile: str) -> None:
    ready(page, hostile + "#story=open")
    assert "<img src=x" in page.locator("#story").inner_text()
    page.locator("#queries .query").nth(1).click()
    page.locator("#detail .mark-choice").first.select_option("remove")
    page.mouse.move(*point_of(page, "query", 2))
    page.locator("#detail .card-text").first.click()
    chooser(page, "Inside").select_option("slice")
    page.wait_for_timeout(200)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("img").count() == 0
    assert "<img src=x" in page.locator("#detail").inner_text()
    assert "a <b>run" in page.title()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_it_fits_its_window(page: Any, exported: str, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    ready(page, exported + "#q=1")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert painted(page, "points") > 100

"""Questions typed on the page, with a real server and a tiny model behind it: answers, the queue, a correction."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import opened, serious
from tests.cli.explained import explained
from tests.integrations.huggingface.tiny_base import write_csv
from tests.web.served import serving

pytestmark = pytest.mark.browser
ANCHORS = ("a poor film", "the plot was poor", "we found it good", "a good film", "the dull film", "dull it was")
TEST = ("it was good", "the film was poor", "a dull film", "good plot", "poor plot here", "the plot was good")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = explained(tmp_path_factory.mktemp("live"))
    for name, texts in (("anchors", ANCHORS), ("test", TEST)):
        rows = [
            {
                "text": text,
                "label": "bright" if "good" in text else "bleak",
                "kind": "plot" if "plot" in text else "film",
            }
            for text in texts
        ]
        write_csv(folder / f"{name}.csv", rows)
    given = ["--anchors", str(folder / "anchors.csv"), "--test", str(folder / "test.csv"), "--slice", "kind"]
    with serving(str(folder / "why"), *given) as url:
        yield url


@pytest.fixture
def online(browser: Any) -> Iterator[Any]:
    with opened(browser, viewport={"width": 1280, "height": 900}) as page:
        yield page


def test_a_typed_text_is_predicted_and_explained(online: Any, served: str, axe: str) -> None:
    online.goto(served)
    online.wait_for_selector("#live")
    online.get_by_label("A text to ask about").fill("<b>a dull plot</b>")
    online.get_by_role("button", name="Ask").click()
    answer = online.locator(".answer").first
    answer.locator(".card").nth(9).wait_for(timeout=60_000)
    assert "<b>a dull plot</b>" in answer.inner_text()
    assert "sure" in answer.inner_text()
    assert serious(online, axe) == []
    answer.locator(".card-text").first.click()
    online.locator("#detail-title", has_text="everything it influences").wait_for()
    online.reload()  # what was asked is still there
    online.locator(".answer .card").first.wait_for(timeout=20_000)


def test_marks_come_from_the_server_as_parquet(online: Any, served: str, tmp_path: Path) -> None:
    from pyarrow import parquet

    online.goto(served)
    online.wait_for_selector("#live")
    online.locator("#queries .query").first.click()
    online.locator("#detail .mark-choice").first.select_option("remove")
    with online.expect_download() as download:
        online.get_by_role("button", name="Download parquet").click()
    download.value.save_as(tmp_path / "marks.parquet")
    (row,) = parquet.read_table(tmp_path / "marks.parquet").to_pylist()
    assert row["action"] == "remove"
    assert f"~{row['action']}" in online.evaluate("() => decodeURIComponent(location.hash)")
    assert "marks.parquet is downloaded" in online.locator("#status").inner_text()


def test_each_form_says_what_it_asks_for(browser: Any, served: str) -> None:
    with opened(browser, expected="status of 422") as page:  # which Chromium notes by itself
        page.goto(served)
        page.wait_for_selector("#live")
        page.get_by_label("Learning rate of the steps").fill("200")
        page.get_by_role("button", name="Correct the model").click()
        refused = "The server refused: a learning rate must be above 0 and no more than 100"
        page.wait_for_function("words => document.querySelector('#status').innerText === words", arg=refused)
        page.get_by_label("A text to ask about").fill("   ")
        page.get_by_role("button", name="Ask").click()
        refused = "The server refused: a text must have words, and no more than 10,000 characters"
        page.wait_for_function("words => document.querySelector('#status').innerText === words", arg=refused)


def test_a_correction_runs_from_the_page_while_others_wait(online: Any, served: str) -> None:
    online.goto(served)
    online.wait_for_selector("#live")
    rate = online.get_by_label("Learning rate of the steps")
    assert rate.input_value() == "0.0001"
    rate.fill("0.5")
    online.get_by_role("button", name="Correct the model").click()
    online.locator("#correct .queue progress").first.wait_for()
    assert "steps of 0.5" in online.locator("#correct .queue").inner_text()
    for words in ("one that waits", "another that waits"):
        online.get_by_label("A text to ask about").fill(words)
        online.get_by_role("button", name="Ask").click()
    online.get_by_text("waiting, 2 before it").wait_for()
    online.get_by_role("button", name="Cancel: another that waits").click()
    online.get_by_label("Accuracy before and after").wait_for(timeout=200_000)
    table = online.get_by_label("Accuracy before and after")
    heads = table.locator("thead th").all_inner_texts()
    assert heads[:4] == ["part", "examples", "before", "after, helpful ones"]
    parts = table.locator("tbody th").all_inner_texts()
    assert {"film", "plot"} <= {part.split(",")[0].split(":")[-1].strip() for part in parts}, parts
    assert all("%" in cell for cell in table.locator("tbody td:nth-child(n+3)").all_inner_texts())
    assert "learning rate 0.5," in table.inner_text()
    assert "--learning-rate 0.5" in online.locator("#correct .answer pre").inner_text()
    online.locator(".answer", has_text="one that waits").locator(".card").first.wait_for(timeout=60_000)
    assert online.locator(".answer", has_text="another that waits").count() == 0

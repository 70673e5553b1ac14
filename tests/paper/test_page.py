"""The page tells claims, experiments and what is missing, and the one that is committed is not stale."""

import json
from pathlib import Path

import pytest

from fastif.paper.claims import CLAIMS
from fastif.paper.page import make_page, verdicts_as_json, write_page

DOCS = Path(__file__).parents[2] / "docs"
SOME = ("recall", "correlations", "augmentation-anli")


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    """A page of three experiments at the scale of smoke."""
    folder = tmp_path_factory.mktemp("page")
    for name in SOME:
        (folder / "results" / name).mkdir(parents=True)
        (folder / "results" / name / "result.json").write_text(json.dumps(results(name)))
    assert write_page(folder / "docs/paper.md", folder / "results") == list(SOME)
    return folder / "docs/paper.md"


def test_the_committed_page_is_what_its_files_say():
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == make_page(DOCS / "paper"), (
        "docs/paper.md is stale: run `fastif reproduce page -o docs/paper.md`"
    )


def test_what_is_committed_is_small_and_names_no_place_of_a_machine():
    files = [path for path in (DOCS / "paper").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4 * 2**20
    for path in [DOCS / "paper.md", *(each for each in files if each.suffix == ".json")]:
        words = path.read_text(encoding="utf-8")
        assert not [start for start in ("/tmp/", "/home/", "/root/", "/work/", "/Users/") if start in words], path


def test_every_picture_that_is_shown_is_there(page):
    for file in (page, DOCS / "paper.md"):
        words = file.read_text(encoding="utf-8")
        pictures = {line.partition("](")[2].partition(")")[0] for line in words.splitlines() if line.startswith("![")}
        linked = {part.partition(")")[0] for part in words.split("[figure](")[1:]}
        assert pictures
        assert linked
        assert all((file.parent / picture).is_file() for picture in pictures | linked)


def test_a_page_has_claims_sections_accuracy_and_what_is_missing(page):
    words = page.read_text(encoding="utf-8")
    assert f"Of {len(CLAIMS)} claims 0 hold, 0 do not, and of {len(CLAIMS)} one cannot tell here." in words
    assert "Of the scale `smoke`, which is not the paper's size: `recall`, `correlations`, `augmentation-anli`" in words
    assert "## Accuracy of the task models" in words
    assert "On MNLI matched, in per cent:\n\n| model | encoder | all | rows |" in words
    assert "| nli-3 | tiny | " in words
    assert "## Figure 3 (a): recall of candidates" in words
    assert "ours, features" in words
    assert "    fastif reproduce recall --scale smoke --device cpu -o out/smoke" in words
    assert "`table1` has not been run." in words
    assert "- `table1` (Table 1: time of one query): `fastif reproduce table1 --scale full --device cuda" in words
    assert "- `recall`" not in words


def test_a_page_is_made_anew_from_what_was_published(page):
    before = page.read_text(encoding="utf-8")
    page.write_text("something else")
    assert write_page(page) == []
    assert page.read_text(encoding="utf-8") == before


def test_a_commit_with_changes_is_said_to_be_one(page):
    path = page.with_suffix("") / "recall.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "environment": {**about["environment"], "commit": "abc+"}}))
    assert "abc with changes" in make_page(path.parent)


def test_verdicts_are_there_for_programs(page):
    found = verdicts_as_json(page.with_suffix(""))
    assert [each["claim"] for each in found] == [claim.name for claim in CLAIMS]
    assert {each["outcome"] for each in found} == {"cannot tell here"}
    assert json.loads(json.dumps(found)) == found

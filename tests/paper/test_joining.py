"""Other ways to rank that were walked in a run of their own stand beside the result that lacks them, and say so."""

import json
import shutil

import pytest

from fastif.cli.app import run
from fastif.errors import ConfigurationError
from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.joining import groups_of, joined, joins, names_of
from fastif.paper.publishing import published, read_published
from fastif.paper.ranked_walks import SAME
from fastif.paper.scales import for_rankings, settings_for
from fastif.paper.unfinished import not_finished
from fastif.paper.variants import ALL_POINTS, GRADIENT_DOT

NAME = "augmentation-anli"
DECAY = "weight decay in the gradients"


@pytest.fixture(scope="module")
def line():
    return ["reproduce", NAME, "--scale", "smoke", "--device", "cpu"]


@pytest.fixture(scope="module")
def out(line, tmp_path_factory):
    """The whole experiment, and two of its rankings in runs of their own, one of them with another seed."""
    out = tmp_path_factory.mktemp("joining")
    alone = ["--ranking", ALL_POINTS.name]
    assert run([*line, "-o", str(out / "whole")]) == 0
    assert run([*line, *alone, "-o", str(out / "alone")]) == 0
    assert run([*line, *alone, "--seed", "1", "-o", str(out / "other")]) == 0
    return out


def about(out, which):
    return json.loads((out / which / NAME / "result.json").read_text())


def test_rankings_alone_are_walked_as_in_the_whole_experiment(out):
    whole, alone = about(out, "whole"), about(out, "alone")
    assert joins(alone)
    assert not joins(whole)
    assert list(alone["result"]["variants"]["changes"]) == [SAME, ALL_POINTS.name]
    for name, rows in alone["result"]["variants"]["changes"].items():
        assert rows == whole["result"]["variants"]["changes"][name]


def lacking_some(out):
    lacking = about(out, "whole")
    for name in (ALL_POINTS.name, DECAY):
        del lacking["result"]["variants"]["changes"][name]
    lacking["result"]["notes"] = ["a note", *not_finished([ALL_POINTS.name, DECAY])]
    return lacking


def test_they_join_a_result_that_lacks_them(out, tmp_path, capsys):
    lacking = lacking_some(out)
    page, directory = tmp_path / "paper.md", tmp_path / "paper"
    directory.mkdir()
    (directory / f"{NAME}.json").write_text(json.dumps({**published(lacking), "figures": ["a.png"]}))
    for _ in range(2):  # published twice it is there once
        assert run(["reproduce", "page", str(out / "alone"), "-o", str(page)]) == 0
        capsys.readouterr()
        found = read_published(directory)[NAME]
        assert [names_of(each) for each in groups_of(found["result"])][1:] == [[ALL_POINTS.name]]
        assert found["result"]["notes"] == ["a note", *not_finished([DECAY])]
        assert found["figures"] == ["a.png"]  # those of the whole experiment
        assert found["models"] == published(lacking)["models"]
    words = page.read_text()
    assert "in a later run (" in words
    assert f"from the same first model alone (nli-3, weights {lacking['models'][0]['weights_sha256'][:12]})" in words
    assert words.count(f"| {SAME} |") == 2  # the paper's ranking of each run
    (tmp_path / "results" / NAME).mkdir(parents=True)
    (tmp_path / "results" / NAME / "result.json").write_text(json.dumps(lacking))
    assert run(["reproduce", "page", str(tmp_path / "results"), "-o", str(page)]) == 0  # as to draw figures anew
    assert read_published(directory)[NAME]["result"] == found["result"]
    assert page.read_text().count(f"| {SAME} |") == 2
    assert run(["reproduce", "page", str(out / "whole"), "-o", str(page)]) == 0  # has all of them itself
    assert groups_of(read_published(directory)[NAME]["result"])[1:] == []


def test_a_model_of_other_weights_is_named_as_another(out):
    lacking, alone = lacking_some(out), about(out, "alone")
    alone["models"][0]["weights_sha256"] = "f" * 64
    table = EXPERIMENTS[NAME].table(joined(lacking, alone)["result"])
    assert "from another training of the first model alone (nli-3, weights ffffffffffff)" in table


def test_a_ranking_that_is_made_anew_replaces_the_one_that_joined_before(out):
    whole, alone = about(out, "whole"), about(out, "alone")
    both = about(out, "alone")
    both["result"]["variants"]["changes"][DECAY] = whole["result"]["variants"]["changes"][DECAY]
    found = joined(joined(lacking_some(out), both), alone)
    assert [names_of(each) for each in groups_of(found["result"])][1:] == [[DECAY], [ALL_POINTS.name]]
    assert found["result"]["notes"] == ["a note"]


def test_what_has_nothing_to_add_is_refused(out):
    whole, alone = about(out, "whole"), about(out, "alone")
    with pytest.raises(ConfigurationError, match=f"it has {ALL_POINTS.name} already"):
        joined(whole, alone)
    del alone["result"]["variants"]["changes"][ALL_POINTS.name]  # as after --stop-here
    with pytest.raises(ConfigurationError, match="none of those that were asked for is finished"):
        joined(whole, alone)


def test_nothing_is_published_if_one_of_several_cannot_be(out, tmp_path, capsys):
    results, directory = tmp_path / "results", tmp_path / "paper"
    shutil.copytree(out / "whole" / NAME, results / NAME)
    (results / "amazon").mkdir()
    (results / "amazon" / "result.json").write_text("{}")
    assert run(["reproduce", "page", str(results), "-o", str(tmp_path / "paper.md")]) == 1
    assert "is not a result of amazon" in capsys.readouterr().err
    assert not directory.exists()


def test_as_many_repeats_as_other_rankings_have():
    made = for_rankings(settings_for("full"), "augmentation-hans", [ALL_POINTS.name]).augmentation_hans
    whole = settings_for("full").augmentation_hans
    assert made.checkpoints == 1
    assert made.repeats == whole.variant_repeats < whole.repeats


def test_results_that_were_asked_for_otherwise_are_refused(out):
    with pytest.raises(ConfigurationError, match="asked for otherwise: data, seed differ"):
        joined(about(out, "whole"), about(out, "other"))


def test_nothing_is_joined_to_nothing(out, tmp_path, capsys):
    assert run(["reproduce", "page", str(out / "alone"), "-o", str(tmp_path / "paper.md")]) != 0
    assert "Publish the experiment itself first" in capsys.readouterr().err
    assert not (tmp_path / "paper.md").exists()


@pytest.mark.parametrize(
    ("name", "ranking", "words"),
    [
        ("recall", GRADIENT_DOT.name, "recall has no walks that could be ranked otherwise"),
        ("all", GRADIENT_DOT.name, "all has no walks"),
        ("amazon", GRADIENT_DOT.name, "every result of amazon has the gradient dot product"),
        ("page", GRADIENT_DOT.name, "page walks on nothing"),
        (NAME, "by luck", "there is no ranking 'by luck': choose from gradient dot product; damping 50"),
    ],
)
def test_rankings_that_are_none(name, ranking, words, tmp_path, capsys):
    line = ["reproduce", name, "--scale", "smoke", "--ranking", ranking, "-o", str(tmp_path / "out")]
    assert run(line) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()

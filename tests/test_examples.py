"""The examples run from end to end as a newcomer runs them, and what they claim is so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastif

matplotlib_image = pytest.importorskip("matplotlib.image")
pytest.importorskip("sklearn")

SCRIPT = Path(__file__).parents[1] / "examples" / "digits.py"
PICTURES = ("misread.png", "suspects.png")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("digits") / "made" / "by the example"
    environment = {**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}
    return folder, subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(folder)],
        env=environment,
        cwd=folder.parents[1],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def precision(output: str, ranking: str) -> float:
    row = re.search(rf"^ +{ranking} +[\d.]+ +([\d.]+) +([\d.]+)$", output, re.MULTILINE)
    assert row, output
    return float(row[1])


def test_digits_ends_well_and_says_where_to_look(run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, process = run
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    assert "Warning" not in process.stderr
    named = [line.strip() for line in process.stdout.splitlines()[-3:]]
    assert named == [str(folder / name) for name in ("index.html", *PICTURES)]


def test_digits_draws_pictures_and_puts_them_into_a_page_of_its_own(
    run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, _ = run
    for name in PICTURES:
        height, width, *_ = matplotlib_image.imread(folder / name).shape
        assert 400 < height < 2000
        assert 800 < width < 3000
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(PICTURES)
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)


def test_digits_finds_planted_labels(run: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, process = run
    assert precision(process.stdout, "self-influence") >= 5 * precision(process.stdout, "chance") > 0


def test_digits_reads_the_image_better_without_its_harmful_examples(
    run: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """And better than without as many random ones, which is what shows that influence chose them well."""
    _, process = run
    losses = [
        float(x) for x in re.findall(r"^  (?:everything|all but .*?) +\d +([\d.]+)$", process.stdout, re.MULTILINE)
    ]
    everything, without_harmful, without_random = losses
    assert without_harmful < min(everything, without_random) / 2


@pytest.mark.slow
def test_the_texts_that_taught_a_language_model_wrong_answers_are_found() -> None:
    pytest.importorskip("transformers")
    script = SCRIPT.with_name("language_model.py")
    environment = {**os.environ, "PYTHONPATH": str(Path(fastif.__file__).parents[1]), "PYTHONIOENCODING": "utf-8"}
    output = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    found = {
        name.strip(): (int(planted), int(gone))
        for name, planted, gone in re.findall(r"^  (.+?) +(\d+) of \d+ planted +(\d+) of", output.stdout, re.MULTILINE)
    }
    assert found["influence"][0] > found["gradients alone"][0] > found["chance"][0]
    assert found["influence"][1] > found["chance"][1]

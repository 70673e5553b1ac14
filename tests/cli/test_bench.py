"""`fastif bench` on a tiny model, and what it says of wrong usage."""

import json

import pytest
import torch

from fastif.cli.app import run
from fastif.cli.bench import read_counts
from fastif.cli.options import read_bytes
from fastif.errors import ConfigurationError

SMALL = ["--case", "tiny", "--examples", "24", "--sample", "4", "--device", "cpu"]


def test_scan_writes_its_figures_and_the_page_is_made_of_them(tmp_path, capsys):
    file = tmp_path / "figures" / "scan.json"
    assert run(["bench", "scan", *SMALL, "--out", str(file), "--json"]) == 0
    written = json.loads(file.read_text())
    assert json.loads(capsys.readouterr().out) == written
    assert written["bench"] == "scan"
    assert written["case"]["examples"] == 24
    assert run(["bench", "page", "--figures", str(file.parent), "--out", str(tmp_path / "page.md")]) == 0
    assert "x86" in (tmp_path / "page.md").read_text() or "CPU" in (tmp_path / "page.md").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(capsys):
    assert run(["bench", "scan", "--device", "cuda"]) == 2
    assert "--device cuda cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["scan", "--case", "huge"], "choose one of bert-base"),
        (["scan", "--case", "tiny", "--model", "runs/nli"], "for the case bert-base"),
        (["queries", "--queries", "none"], "1,16,64"),
        (["solve", "--memory-budget", "much"], "16GiB"),
        (["scan", "--case", "tiny", "--out", "."], "is a directory"),
    ],
)
def test_wrong_usage(line, words, capsys):
    assert run(["bench", *line, "--device", "cpu"]) == 2
    assert words in " ".join(capsys.readouterr().err.split())


def test_numbers_with_units():
    assert read_bytes("1.5GB") == 1_500_000_000
    assert read_bytes(None) is None
    assert read_counts("1,16") == {"queries": (1, 16)}
    with pytest.raises(ConfigurationError, match="no amount of memory"):
        read_bytes("GiB")

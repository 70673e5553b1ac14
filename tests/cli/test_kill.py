"""A run that is killed at any moment goes on where it was, and ends with the same bytes as one that was not."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fastif.store import RunStore
from tests.integrations.huggingface.tiny import WORDS, module_of, tokenizer_of

# says when the imports are done, as it is the work that is to be killed
PROGRAM = """
import sys
import torch
torch.set_num_threads(1)
import fastif.cli.app
print("ready", flush=True)
sys.exit(fastif.cli.app.run(sys.argv[1:]))
"""
RESULT = ("explanation.json", "scores.json", "scores.safetensors", "train.jsonl", "run.json")


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments of an explanation with a few seconds of work."""
    folder = tmp_path_factory.mktemp("kill")
    module = module_of("bert", dtype=torch.float32)
    module.save_pretrained(folder / "model")  # type: ignore[operator]
    tokenizer_of("bert").save_pretrained(folder / "model")
    generator = random.Random(0)
    rows = [
        f"{' '.join(generator.choices(WORDS, k=generator.randint(2, 12)))},{generator.randrange(3)}" for _ in range(400)
    ]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return [
        "explain",
        str(folder / "model"),
        "--train",
        str(folder / "train.csv"),
        "--query-text",
        "dull",
        "--query-text",
        "a great film",
        "--json",
    ]


def start(line: list[str], out: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *line, "-o", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture(scope="module")
def uninterrupted(line: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    out = tmp_path_factory.mktemp("whole") / "run"
    process = start(line, out)
    begun = time.monotonic()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return out, time.monotonic() - begun


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_killed_and_resumed(seed: int, line: list[str], uninterrupted: tuple[Path, float], tmp_path: Path) -> None:
    whole, seconds = uninterrupted
    generator = random.Random(seed)
    out = tmp_path / "run"
    for _ in range(generator.randint(1, 2)):
        process = start(line, out)
        time.sleep(generator.uniform(0, seconds))
        process.kill()
        process.communicate()
    process = start(line, out)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert RunStore.read(out).is_complete
    for name in RESULT:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert sorted(each.name for each in out.iterdir()) == sorted(each.name for each in whole.iterdir())

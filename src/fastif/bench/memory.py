"""How far the peak of memory that `fastif doctor` estimates is from the one that an explanation has.

    python -m fastif.bench.memory [CHECKPOINT ...] [--device cpu|cuda] [--examples N] [--out FILE.json]

Models of the shapes that people use, with random weights (memory does not depend on them) and made-up texts; then the
checkpoints of text classifiers that are named on the command line. The
estimate and the explanation run each in a process of its own; measured is the most memory that the process of the
explanation held (`ru_maxrss`), on a GPU the most that torch allocated there. The explanation is a whole one, as the
automatic solver makes it; conjugate gradients are cut after a few iterations, as further ones take no more memory.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import fastif
from fastif.apps.checkup import estimate
from fastif.apps.checkup.machine import held_memory, peak_memory
from fastif.bench.timing import write
from fastif.curvature import CurvatureOperator
from fastif.integrations.huggingface import TextClassifier, TextExamples
from fastif.measuring.timing import environment
from fastif.solvers.auto import choose_solver

WORDS = [f"word{number}" for number in range(500)]
SHAPES: dict[str, dict[str, Any]] = {
    "BERT 6 x 384 (MiniLM), last two layers": {"layers": 6, "width": 384, "words": 40},
    "BERT 12 x 768 (base), last two layers": {"layers": 12, "width": 768, "words": 12},
    "BERT 6 x 384 (MiniLM), all parameters": {"layers": 6, "width": 384, "words": 12, "trainable": "all"},
    "DistilBERT 4 x 512, last two layers, 5 queries": {"layers": 4, "width": 512, "words": 30, "queries": 5},
}
CHECKPOINT = {"words": 12}  # the shape of a checkpoint that is given
ITERATIONS = 3


def make_checkpoint(shape: dict[str, Any], path: Path) -> None:
    """Write a classifier with random weights, and a tokenizer of whole words."""
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        DistilBertConfig,
        DistilBertForSequenceClassification,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    width, layers = shape["width"], shape["layers"]
    if "queries" in shape:
        small = DistilBertConfig(dim=width, n_layers=layers, n_heads=8, hidden_dim=4 * width)
        DistilBertForSequenceClassification(small).save_pretrained(path)
    else:
        config = BertConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=12,
            intermediate_size=4 * width,
        )
        BertForSequenceClassification(config).save_pretrained(path)
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    words = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    file = path / "words.json"
    file.write_text(json.dumps(words))
    PreTrainedTokenizerFast(tokenizer_file=str(file), pad_token="[PAD]", unk_token="[UNK]").save_pretrained(path)


def texts(model: TextClassifier, count: int, longest: int, source: str) -> TextExamples:
    """Return made-up texts of unequal lengths, with labels."""
    draw = random.Random(0)
    made = [" ".join(draw.choices(WORDS, k=draw.randint(4, longest))) for _ in range(count)]
    names = list(model.label_names.values())
    return model.examples(made, [names[number % len(names)] for number in range(count)], source=source)


def run_one(what: str, name: str, path: str, *, examples: int, device: str) -> dict[str, Any]:
    """Estimate, or explain and measure, in this process."""
    shape = SHAPES.get(name, CHECKPOINT)
    queries = shape.get("queries", 1)
    model = TextClassifier.from_pretrained(path, trainable=shape.get("trainable"), device=device)
    train = texts(model, examples, shape["words"], "train")
    if what == "estimate":
        held = held_memory()
        made = estimate(model, train, queries=queries, batch_size=64, held=held)
        return {
            "peak_bytes": made.peak_bytes,
            "held": held,
            "stages": {stage.name: stage.peak_bytes for stage in made.stages},
        }
    solver = choose_solver(CurvatureOperator(model, train))
    if isinstance(solver, fastif.ConjugateGradient):
        solver = replace(solver, max_iterations=ITERATIONS)
    explainer = fastif.Explainer(model, train, solver=solver, batch_size=64, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)
        asked = texts(model, queries, shape["words"], "queries")
        explainer.explain(asked)
        explainer.nearest(asked, 10)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_memory()
    return {"peak_bytes": int(peak)}


def measure(name: str, examples: int, device: str) -> dict[str, Any]:
    """Estimate and measure one model: one of the shapes, or a checkpoint by its path."""
    with tempfile.TemporaryDirectory() as directory:
        if name in SHAPES:
            make_checkpoint(SHAPES[name], Path(directory))
        else:
            directory = name
        results = []
        for what in ("estimate", "explain"):
            line = [sys.executable, "-m", "fastif.bench.memory", "--one", what, name, directory]
            line += ["--examples", str(examples), "--device", device]
            done = subprocess.run(line, check=True, capture_output=True, text=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    estimated, measured = (result["peak_bytes"] for result in results)
    return {
        "model": name,
        "estimate_bytes": estimated,
        "measured_bytes": measured,
        "ratio": estimated / measured,
        "stages": results[0]["stages"],
    }


def main() -> None:
    """Print the table and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", help="directories of text classifiers to measure too")
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, default=Path("out/bench/memory.json"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        what, name, path = chosen.one
        print(json.dumps(run_one(what, name, path, examples=chosen.examples, device=chosen.device)))
        return
    where = environment(chosen.device)
    print(f"Peak of memory of an explanation, {chosen.examples} texts, {where}")
    print("| model | estimated | measured | ratio |")
    print("| --- | --- | --- | --- |")
    rows = []
    for name in (*SHAPES, *chosen.checkpoints):
        row = measure(name, chosen.examples, chosen.device)
        rows.append(row)
        megabytes = f"{row['estimate_bytes'] / 1e6:,.0f} MB | {row['measured_bytes'] / 1e6:,.0f} MB"
        print(f"| {name} | {megabytes} | {row['ratio']:.2f} |", flush=True)
    write(chosen.out, where, rows)


if __name__ == "__main__":
    main()

"""How many tokens real texts have: histograms that benchmarks draw from where the texts themselves are not there.

    FASTIF_DATA=DIRECTORY python -m fastif.bench.lengths

counts them anew with the tokenizer of all-MiniLM-L6-v2 (BERT's lower-case one), texts cut at 128 tokens, and writes
`lengths.json` beside this file: entry t is how many texts have t tokens. Knows files and counts, and no model.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fastif.errors import StoredFileError
from fastif.integrations.tables.directory import data_directory

FILE = Path(__file__).with_name("lengths.json")
LONGEST = 128  # tokens, as in the paper
SOURCES: dict[str, tuple[str, ...]] = {
    "nli": ("mnli_train_subset", "snli_train_subset", "new_protocols_nli"),
    "sst2": ("sst2",),
}


def draw_lengths(kind: str, count: int, seed: int) -> Tensor:
    """Return so many lengths, drawn from a histogram.

    >>> draw_lengths("nli", 3, seed=0).min() >= 5
    tensor(True)
    """
    counts = torch.tensor(json.loads(FILE.read_text())[kind], dtype=torch.float64)
    shares = (counts.cumsum(0) / counts.sum()).contiguous()
    drawn = torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.searchsorted(shares, drawn).clamp_max(len(counts) - 1)


def read_columns(name: str, columns: Iterable[str]) -> list[list[str]]:
    """Return columns of the training rows of a parquet file of real data."""
    import pyarrow.parquet as parquet

    directory = data_directory()
    path = None if directory is None else directory / f"{name}.parquet"
    if path is None or not path.is_file():
        raise StoredFileError(f"{name}.parquet is needed, and FASTIF_DATA names no directory that holds it.")
    table = parquet.read_table(path).to_pydict()
    rows = [row for row, split in enumerate(table["split"]) if split.startswith("train")]
    return [[table[column][row] for row in rows] for column in columns]


def main() -> None:
    """Count the tokens of the real texts, and write the histograms."""
    from fastif.integrations.huggingface.checkpoint import load_tokenizer
    from fastif.integrations.huggingface.packaged import resolve

    tokenizer = load_tokenizer(resolve("minilm"))
    counted = {}
    for kind, names in SOURCES.items():
        total = np.zeros(LONGEST + 1, dtype=np.int64)
        for name in names:
            texts = read_columns(name, ("text",) if kind == "sst2" else ("premise", "hypothesis"))
            tokens = tokenizer(*texts, truncation=True, max_length=LONGEST)["input_ids"]
            total += np.bincount([len(row) for row in tokens], minlength=LONGEST + 1)
        counted[kind] = np.trim_zeros(total, "b").tolist()
        print(f"{kind}: {total.sum():,} texts, mean {total @ np.arange(LONGEST + 1) / total.sum():.2f} tokens")
    FILE.write_text(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main()

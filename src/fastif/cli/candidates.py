"""Which training examples `fastif explain` scores: all, or on a CPU where that takes long those that may matter."""

from typing import Annotated, Any

import typer

import fastif
from fastif import vectors
from fastif.candidates import Candidates
from fastif.cli import options
from fastif.cli.console import note
from fastif.errors import ConfigurationError

AUTO, ALL = "auto", "all"
# Parameters x positions that two cores scan in a second (`fastif bench scan --case minilm-sst2`), and seconds that
# people wait for all examples to be scored. The same on every machine, so that a run can go on elsewhere.
SCANNED_A_SECOND, PATIENCE = 4e10, 120
SHARE, LEAST = 0.05, 1000  # of the training examples, and at least

Option = Annotated[
    str,
    typer.Option(
        "--candidates",
        help="Training examples to score for each query: all, a number (those that may matter most by the gradient of "
        "the last layer), or auto: all, unless that takes long on a CPU.",
        rich_help_panel=options.RUN,
    ),
]


def chosen(words: str, model: fastif.TorchModel, train: fastif.Examples, queries: int) -> Candidates:
    """Return what was asked for, in the words of an explainer, and say so where it is not all."""
    if words == ALL:
        return ALL
    if words == AUTO:
        minutes = scan_seconds(model, train, queries) / 60
        count = max(LEAST, round(SHARE * len(train)))
        if 60 * minutes <= PATIENCE or count >= len(train):
            return ALL
        note(
            f"To score all {len(train):,} examples would take about {minutes:.0f} minutes on this CPU: of each query, "
            f"the {count:,} that may matter most are scored. --candidates all scores all."
        )
        return fastif.Nearest(count)
    check(words)
    return fastif.Nearest(int(words))


def check(words: str) -> None:
    """Raise for words that ask for nothing known."""
    if words not in (ALL, AUTO) and (not words.isdecimal() or int(words) < 1):
        raise ConfigurationError(f"--candidates must be all, auto or a number of at least 1, not {words!r}.")


def scan_seconds(model: fastif.TorchModel, train: fastif.Examples, queries: int) -> float:
    """Return about how long a scan of all examples takes; none on a GPU, where it is a matter of seconds."""
    if model.device.type != "cpu":
        return 0.0
    positions = len(train) if train.lengths is None else int(train.lengths.sum())
    # one query takes a pass; with many, a query takes an eighth of one
    passes = 1 + (queries - 1) / 8
    return vectors.size(model.parameters) * positions * passes / SCANNED_A_SECOND


def in_words(provenance: dict[str, Any], examples: int) -> str:
    """Return how much of what matters the candidates are estimated to hold; nothing where all were scored."""
    recall = provenance.get("candidate_recall")
    if recall is None:
        return ""
    words = f"Scored: for each query the {recall['at']:,} of {examples:,} training examples that may matter most. "
    if recall["estimate"] is None:
        return words + "How many of the strongest these are cannot be told from a small sample."
    error = "" if recall["standard_error"] is None else f" ± {100 * recall['standard_error']:.0f}"
    return words + (
        f"They are estimated to hold {100 * recall['estimate']:.0f}{error} % of the {recall['at']:,} strongest, from a "
        f"random {recall['sample']:,}; of the ten strongest usually far more. --candidates all scores all."
    )

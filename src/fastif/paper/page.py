"""docs/paper.md: what became of the paper's claims, made from the published results in docs/paper.

Knows tables and words; what is published is made by `publishing.py`, and claims are judged by `claims.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastif.files import replacing
from fastif.measuring.words import markdown
from fastif.paper.accuracy import TITLE, accuracy_tables
from fastif.paper.claims import CLAIMS, Claim
from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.harness import caption
from fastif.paper.publishing import picture_file, publish, read_published
from fastif.paper.verdicts import Outcome, Verdict

FULL = "full"
INTRODUCTION = """# The paper, run and told

<!-- Made by `fastif reproduce page` from the files in docs/paper. Do not edit: run again, and make it anew. -->

What *FastIF: Scalable Influence Functions for Efficient Model Interpretation and Debugging* (Guo, Rajani, Hase, Bansal,
Xiong, EMNLP 2021) says, and what came out here. In words: [What running the paper taught](findings.md). How to run it,
and what differs from the paper: [Reproduce the paper](reproduce.md)."""
HOW = """A verdict is computed from the numbers in `docs/paper/*.json` by a rule in `fastif/paper/rules`. *Holds*: the
95 % interval of what was measured (Student's, over points, models, or repeats from one; Fisher's for a correlation)
lies on the side of the limit that the paper names. *Does not hold*: all of it lies on the other side; or, of a gain
whose sign is open, the paper's own figures lie beyond it. *Cannot tell here*: it includes the limit, there are fewer
than three numbers or they are all the same, the time is of a training set of less than half the paper's, or the
experiment was not run. The times without kNN in claims 1 and 2 are extrapolated, the sentences say from what: an
interval has the scatter of what was timed, not the error of extrapolating. An accuracy after steps has in its interval,
beside that over models, the error of the rows that all are measured on: the paired one where the result has it, else
the largest that the accuracies allow. The loss that stands beside it has not. A claim about several slices or settings
holds where it holds in each. Nothing is corrected for there being many claims. `small` was made larger after its first
results, of which one could not tell: `hvp` from two points to four and then to draws of its own for each ([in that
order](decisions/013-how-claims-are-judged.md)), models from 1,500 pairs to 6,000 and from 800 reviews to 2,400,
`amazon` from one model to five."""
# what stands in an experiment's table beyond the paper's own
BEYOND: dict[str, str] = {
    "table1": "plain torch in the same run, the fast s_test on all training points, and other ways to answer a query",
    "recall": "other dampings beside the paper's, candidates by head gradient, by gradient dot product and at random",
    "hvp": "the error to the converged solution, and what a solve makes of a gradient at other dampings",
    "correlations": "the true top, retrieved or not",
    "retraining": "the noise of random removals, and what influence predicted",
    "simulatability": "steps with predicted labels",
    "visualization": "both tables for the model trained on HANS, and shares of influence by heuristic",
    "correction-mnli": "paired intervals, the loss, other ways to rank, and the data that the model was trained on",
    "augmentation-hans": "paired intervals, the loss, other ways to rank, and the data that the model was trained on",
    "augmentation-anli": "paired intervals, the loss, other ways to rank, and the data that the model was trained on",
    "amazon": "points ranked by what a gradient step changes and in other ways, and the domains of the training",
}


def write_page(page: Path, results: Path | None = None) -> list[str]:
    """Publish finished experiments beside a page, if some are given, make the page, and return what was published.

    What was published before stays, where it is not among the new ones.
    """
    directory = page.with_suffix("")
    names = [] if results is None else publish(results, directory)
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as temporary:
        temporary.write_text(make_page(directory), encoding="utf-8")
    return names


def make_page(directory: Path) -> str:
    """Return the page of what is published in a directory."""
    found = read_published(directory)
    verdicts = [claim.judge(found) for claim in CLAIMS]
    parts = [
        INTRODUCTION,
        *_scales(found),
        "## The claims",
        _count(verdicts),
        _claims(verdicts, found, directory.name),
        HOW,
        *_accuracy(found),
    ]
    for name, about in found.items():
        parts += _section(name, about, directory.name)
    return "\n\n".join([*parts, *_missing(found)]) + "\n"


def verdicts_as_json(directory: Path) -> list[dict[str, Any]]:
    """Return the verdicts on what is published in a directory, for programs."""
    found = read_published(directory)
    judged = [(claim, claim.judge(found)) for claim in CLAIMS]
    return [
        {"claim": claim.name, "words": claim.says.words, "paper": claim.figure, **vars(verdict)}
        for claim, verdict in judged
    ]


def _scale(about: Mapping[str, Any]) -> str:
    return str(about["request"]["settings"]["scale"])


def _scales(found: Mapping[str, Any]) -> list[str]:
    """Return a warning where results are of another size than the paper's."""
    smaller: dict[str, list[str]] = {}
    for name, about in found.items():
        if _scale(about) != FULL:
            smaller.setdefault(_scale(about), []).append(f"`{name}`")
    return [
        f"**Of the scale `{scale}`, which is not the paper's size: {', '.join(names)}.** A verdict there is on a "
        f"smaller model and less data, not on the paper ([scales](reproduce.md#scales)). The page is made anew from "
        f"results of `{FULL}`."
        for scale, names in smaller.items()
    ]


def _count(verdicts: list[Verdict]) -> str:
    counts = {outcome: sum(each.outcome is outcome for each in verdicts) for outcome in Outcome}
    hold, fail, unknown = (counts[outcome] for outcome in (Outcome.HOLDS, Outcome.FAILS, Outcome.UNKNOWN))
    return (
        f"Of {len(verdicts)} claims {hold} {'holds' if hold == 1 else 'hold'}, {fail} {'does' if fail == 1 else 'do'} "
        f"not, and of {unknown} one cannot tell here."
    )


def _claims(verdicts: list[Verdict], found: Mapping[str, Any], folder: str) -> str:
    rows = []
    for number, (claim, verdict) in enumerate(zip(CLAIMS, verdicts, strict=True), start=1):
        said = f"{claim.says.words} ({claim.says.where})"
        about = found.get(claim.experiment)
        measured = "-" if about is None else _measured(claim, about, folder)
        rows.append([str(number), said, claim.figure, verdict.ours, f"**{verdict.outcome}**", verdict.why, measured])
    return markdown(["", "the paper says", "paper", "ours", "verdict", "why", "measured"], rows)


def _measured(claim: Claim, about: Mapping[str, Any], folder: str) -> str:
    where = about["environment"]
    picture = f"[figure]({folder}/{picture_file(claim.experiment, claim.picture)})"
    return f"{picture}; `{claim.experiment}`, {_scale(about)}, {where['hardware']}, {_commit(where['commit'])}"


def _commit(name: str) -> str:
    return f"{name[:-1]} with changes" if name.endswith("+") else name


def _section(name: str, about: Mapping[str, Any], folder: str) -> list[str]:
    result = about["result"]
    pictures = [f"![{about['title']}: {Path(file).stem}]({folder}/{file})" for file in about["figures"]]
    return [
        f"## {about['title']}",
        f"    {_command(name, about)}",
        caption(about),
        *pictures,
        f"Beyond the paper: {BEYOND[name]}." if name in BEYOND else "",
        EXPERIMENTS[name].table(result),
        f"The numbers: [{name}.json]({folder}/{name}.json).",
    ]


def _command(name: str, about: Mapping[str, Any]) -> str:
    return f"fastif reproduce {name} --scale {_scale(about)} --device {about['device']} -o out/{_scale(about)}"


def _accuracy(found: Mapping[str, Any]) -> list[str]:
    """Return how good the task models are; those of one name that differ are told apart by their experiments."""
    by_name: dict[str, list[tuple[dict[str, Any], list[str]]]] = {}
    for experiment, about in found.items():
        for model in about["models"]:
            known = by_name.setdefault(model["name"], [])
            record = {"base": model["base"], "accuracy": model.get("accuracy", {})}
            same = [names for other, names in known if other == record]
            if same:
                same[0].append(experiment)
            elif record["accuracy"]:
                known.append((record, [experiment]))
    records = {
        f"{name} ({', '.join(names)})" if len(known) > 1 else name: record
        for name, known in by_name.items()
        for record, names in known
    }
    return [f"## {TITLE}", accuracy_tables(records)] if records else []


def _missing(found: Mapping[str, Any]) -> list[str]:
    missing = [name for name in EXPERIMENTS if name not in found]
    if not missing:
        return []
    lines = [
        f"- `{name}` ({EXPERIMENTS[name].title}): `fastif reproduce {name} --scale {FULL} --device cuda -o out/{FULL}`"
        for name in missing
    ]
    return ["## Not run yet", "\n".join(lines)]

"""What of a finished experiment is published: numbers without what is long, small pictures, and no path of a machine.

    docs/paper/<name>.json        the result as `fastif reproduce` wrote it, without long lists; names of its pictures
    docs/paper/<name>-<picture>.png

What is left out is in no table and no verdict: which points were chosen, single edges of graphs, single steps of a
simulator. Knows the shape of results, and nothing of the page.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import replacing
from fastif.paper.experiments import EXPERIMENTS
from fastif.paper.harness import RESULT
from fastif.paper.joining import carried_over, joined, joins
from fastif.paper.recall import ABSOLUTE
from fastif.paper.simulatability import simulated
from fastif.paper.visualization import by_point

Result = dict[str, Any]
DIGITS = 8  # of curves; single numbers keep all of theirs, so that tables are the same to the last digit
LONG = 200_000  # characters, beyond which curves of single repeats are left out too
LINE = 160
NOT_SHOWN = "-validation"  # pictures of the sets that anchors are drawn from
_PATH = re.compile(r"(?<!\S)(?:~|\.{1,2})?/(?:[^\s/]+/)*(?=[^\s/])")


def publish(results: Path, directory: Path) -> list[str]:
    """Publish all finished experiments of an output directory into another, and return their names."""
    found = [name for name in EXPERIMENTS if (results / name / RESULT).is_file()]
    if not found:
        raise ConfigurationError(
            f"{results} has no finished experiment: no directory in it, such as {next(iter(EXPERIMENTS))}, holds a "
            f"{RESULT}. Give the directory that `fastif reproduce NAME -o` wrote to."
        )
    ready = [_Ready.of(results / name / RESULT, directory / f"{name}.json", name) for name in found]
    directory.mkdir(parents=True, exist_ok=True)
    for each in ready:
        each.publish()
    return found


def read_published(directory: Path) -> dict[str, Result]:
    """Return what is published in a directory, by experiment, in their order."""
    found = {name: directory / f"{name}.json" for name in EXPERIMENTS}
    return {name: _read(path, name) for name, path in found.items() if path.is_file()}


def _read(path: Path, name: str) -> Result:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoredFileError(f"{path} could not be read as a result: {error}. Run it again, or remove it.") from error
    if not isinstance(about, dict) or about.get("experiment") != name or not isinstance(about.get("request"), dict):
        raise StoredFileError(f"{path} is not a result of {name}: it does not say so. Remove it from there.")
    return about


@dataclass(frozen=True)
class _Ready:
    """A result that can be published, beside or in place of what is; figures are those of the experiment itself."""

    name: str
    file: Path
    made: Result
    to_draw: Result | None
    figures_before: list[str]

    @classmethod
    def of(cls, path: Path, file: Path, name: str) -> "_Ready":
        """Read a result, or raise; nothing is written."""
        about, before = _read(path, name), _read(file, name) if file.is_file() else None
        figures = list(before.get("figures", [])) if before else []
        if not joins(about):
            return cls(name, file, carried_over(before, published(about)), about["result"], figures)
        if before is None:
            raise ConfigurationError(
                f"{path} has other ways to rank alone, and nothing of {name} is published in {file.parent} that they "
                "could stand beside. Publish the experiment itself first."
            )
        return cls(name, file, joined(before, published(about)), None, figures)

    def publish(self) -> None:
        """Draw what is to be drawn, and write."""
        figures = self.figures_before
        if self.to_draw is not None:
            figures = _draw(self.name, self.to_draw, self.file.parent)
            for old in set(self.figures_before) - set(figures):
                (self.file.parent / old).unlink(missing_ok=True)
        with replacing(self.file) as temporary:
            temporary.write_text(in_lines({**self.made, "figures": figures}) + "\n", encoding="utf-8")


def _draw(name: str, result: Result, directory: Path) -> list[str]:
    """Draw the pictures of an experiment as small files, and return their names."""
    try:
        from fastif.integrations.plots import style
    except ImportError as error:
        raise ConfigurationError(
            f"the pictures of {name} need matplotlib, which is not installed: pip install 'fastif[plots]'."
        ) from error
    files = []
    with style.look():
        for picture, figure in EXPERIMENTS[name].draw(result).items():
            if not picture.endswith(NOT_SHOWN):
                files.append(picture_file(name, picture))
                style.save_small(figure, directory / files[-1])
    return files


def picture_file(experiment: str, picture: str) -> str:
    """Return the name of a picture's file.

    >>> picture_file("recall", "recall"), picture_file("recall", "recall-methods"), picture_file("amazon", "courses")
    ('recall.png', 'recall-methods.png', 'amazon-courses.png')
    """
    return f"{picture}.png" if picture.startswith(experiment) else f"{experiment}-{picture}.png"


def published(about: Mapping[str, Any]) -> Result:
    """Return what is published of a result."""
    name = about["experiment"]
    result = SLIM.get(name, dict)(about["result"])
    if "walks" in result and len(json.dumps(result)) > LONG:
        result["walks"] = {anchors: _without_curves(walk) for anchors, walk in result["walks"].items()}
    cleaned: Result = _cleaned({**about, "result": result})
    return cleaned


def _cleaned(value: Any) -> Any:
    """Return a value with the names of files in place of paths, and with fewer digits in rows of numbers."""
    if isinstance(value, dict):
        return {key: each if key in ("text", "text_pair") else _cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [float(f"{each:.{DIGITS}g}") if isinstance(each, float) else _cleaned(each) for each in value]
    return without_paths(value) if isinstance(value, str) else value


def without_paths(words: str) -> str:
    """Return words with the last part alone of every path in them.

    >>> without_paths("/home/me/data/a.parquet + /home/me/data/b.parquet"), without_paths("org/model, 1 / 2")
    ('a.parquet + b.parquet', 'org/model, 1 / 2')
    """
    return _PATH.sub("", words)


def in_lines(value: Any, depth: int = 0) -> str:
    """Return JSON with what is short on one line, so that a file is small and its changes can be read.

    >>> print(in_lines({"a": [1, 2]}))
    {"a": [1, 2]}
    """
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if len(flat) + depth <= LINE or not isinstance(value, dict | list):
        return flat
    space = " " * (depth + 1)
    if isinstance(value, list):
        rows, (start, end) = [in_lines(each, depth + 1) for each in value], "[]"
    else:
        rows = [f"{json.dumps(key)}: {in_lines(each, depth + 1)}" for key, each in value.items()]
        start, end = "{}"
    return f"{start}\n{space}" + f",\n{space}".join(rows) + f"\n{' ' * depth}{end}"


# --- what is long, by experiment --------------------------------------------------------------------------------------


def _without_choices(walk: Mapping[str, Any]) -> Result:
    kept = ("kind", "repeat", "loss", "accuracy")
    return {**walk, "courses": [{key: one[key] for key in kept} for one in walk["courses"]]}


def _without_curves(walk: Mapping[str, Any]) -> Result:
    return {**walk, "courses": [{key: one[key] for key in ("kind", "repeat")} for one in walk["courses"]]}


def _corrected(result: Mapping[str, Any]) -> Result:
    return {**result, "walks": {anchors: _without_choices(walk) for anchors, walk in result["walks"].items()}}


def _reviews(result: Mapping[str, Any]) -> Result:
    return {**result, "effects": {effect: _without_choices(walk) for effect, walk in result["effects"].items()}}


def _without_edges(result: Mapping[str, Any]) -> Result:
    models = {}
    for name, part in result["models"].items():
        queries = [{key: query.get(key) for key in ("row", "label", "slice")} for query in part["queries"]]
        models[name] = {**part, "train_slices": None, "queries": queries, "by_point": by_point(part)}
    return {**result, "models": models}


def _mean_steps(result: Mapping[str, Any]) -> Result:
    """Return the losses of a simulator as means over the points of a kind, which is all that tables are made of."""
    first = simulated(next(iter(result["variants"].values())))
    variants = {}
    for labels, kept in result["variants"].items():
        losses = torch.tensor(kept["losses"], dtype=torch.float64).mean(dim=2, keepdim=True)
        variants[labels] = {**kept, "losses": losses.tolist()}
    return {"steps_on": first.points, **result, "variants": variants}


def _shown_recalls(result: Mapping[str, Any]) -> Result:
    """Return recalls without those by sign of other ways than the first, which nothing is made of."""
    first = result["rows"][0]["method"]
    return {**result, "rows": [row for row in result["rows"] if row["method"] == first or row["sign"] == ABSOLUTE]}


SLIM: dict[str, Callable[[Mapping[str, Any]], Result]] = {
    "recall": _shown_recalls,
    "visualization": _without_edges,
    "simulatability": _mean_steps,
    "correction-mnli": _corrected,
    "augmentation-hans": _corrected,
    "augmentation-anli": _corrected,
    "amazon": _reviews,
}

"""What the explorer's server does with a model: answers to typed texts, and corrections. The model stays loaded.

The first question loads the model and prepares the curvature; later ones take seconds. Knows runs, models and commands;
the queue and the page are in web/.
"""

import inspect
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import fastif
from fastif.apps.iteration import Plan
from fastif.cli import candidates as scored
from fastif.cli import correct
from fastif.cli.evidence import explain_queries
from fastif.cli.opened import OpenedRun
from fastif.errors import ConfigurationError
from fastif.integrations.tables import table_of
from fastif.progress import Progress
from fastif.web.server.jobs import Report

TOP = 10


@dataclass
class Questions:
    """Answers to texts that are typed on the page."""

    opened: OpenedRun
    _report: Progress | None = field(default=None, init=False)

    def __call__(self, request: Mapping[str, Any], report: Report) -> None:
        """Answer one: the prediction first, then the training examples behind it."""
        self._report = report
        report("loading the model", 0, 1)
        model = self.opened.model
        columns = {name: [request[name]] for name in ("text", "text_pair", "label") if request.get(name)}
        table = table_of(columns, **{name: name for name in columns}, require_label=False, source_name="the question")
        queries = model.from_table(table, source="queries")
        report("predicting", 0, 1)
        chances = model.logits(queries)[0]
        if model.problem == "single-label":
            best = int(chances.argmax())
            confidence = float(chances.softmax(dim=0)[best])
            report.found(predicted=model.label_names.get(best, str(best)), confidence=confidence)
        report("finding training examples", 0, 1)
        result, _ = explain_queries(self.explainer, queries, table, self.opened.table, top=TOP)
        (residual,) = result["provenance"]["residuals"]
        report.found(query=result["queries"][0], how=result["how"], residual=residual)

    @cached_property
    def explainer(self) -> fastif.Explainer:
        """One explainer for all questions, so that the curvature is prepared once."""
        train = self.opened.train
        chosen = scored.chosen(self.opened.arguments["candidates"], self.opened.model, train, 1)
        return self.opened.explainer(self._heard, candidates=chosen)

    def _heard(self, stage: str, done: int, total: int, /) -> None:
        if self._report is not None:
            self._report(stage, done, total)


@dataclass(frozen=True)
class Correction:
    """`fastif correct` with its usual settings, on the tables that the server was started with."""

    run: OpenedRun
    anchors: str
    test: str
    original: str | None = None
    slice: str | None = None
    learning_rate: float | None = None

    @property
    def rate(self) -> float:
        """The size of its steps."""
        return Plan(learning_rate=self.learning_rate).rate

    def in_words(self) -> str:
        """Say what it would take and measure."""
        return f"anchors {self.anchors}, measured on {self.test}"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the command, those that are not given here at their defaults."""
        defaults = {name: each.default for name, each in inspect.signature(correct.correct).parameters.items()}
        given = {name: getattr(self, name) for name in ("anchors", "test", "original", "slice", "learning_rate")}
        trusted = {"trust_remote_code": self.run.trust_remote_code}
        return {**defaults, **given, **trusted, "run": self.run.path, "pool": None}

    def command(self) -> str:
        """Return the line that does the same and writes the corrected model."""
        names = ("anchors", "test", "original", "slice", "learning_rate")
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        words = [f"{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
        words += ["--trust-remote-code"] if self.run.trust_remote_code else []
        return " ".join(["fastif correct", shlex.quote(str(self.run.path)), *words, "-o", "runs/corrected"])

    def __call__(self, request: Mapping[str, Any], report: Report) -> None:
        """Correct, and tell accuracy before and after."""
        report("reading the model and the tables", 0, 1)
        wanted = replace(self, learning_rate=request.get("learning_rate") or self.learning_rate)
        result = correct.perform(wanted.arguments(), report)
        summary = [words for words in result["summary"] if words != correct.NOTHING_WRITTEN]  # the page says it better
        told = {"summary": summary, "notes": result["notes"], "command": wanted.command(), "rate": wanted.rate}
        report.found(table=accuracy_table(result), **told)


def accuracy_table(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return accuracy of each part at the start and after the last step, mean over repeats, for each kind."""
    kinds = list(dict.fromkeys(one["kind"] for one in result["courses"]))
    means = {
        kind: np.mean([one["accuracy"] for one in result["courses"] if one["kind"] == kind], axis=0) for kind in kinds
    }
    start = means[kinds[0]][0]
    return {
        "kinds": kinds,
        "rows": [
            {
                "part": part["title"],
                "examples": part["examples"],
                "start": float(start[number]),
                **{kind: float(means[kind][-1][number]) for kind in kinds},
            }
            for number, part in enumerate(result["parts"])
        ],
    }


def correction_of(opened: OpenedRun, anchors: str | None, test: str | None, **more: Any) -> Correction | None:
    """Return the correction that options ask for, with `more` as `Correction` has it; None where they ask for none."""
    if (anchors is None) != (test is None):
        raise ConfigurationError("a correction needs both --anchors and --test: what to help, and what to measure on.")
    if anchors is None or test is None:
        return None
    for name, source in (("anchors", anchors), ("test", test), ("original", more.get("original"))):
        if source is not None:  # what is wrong with it is said now, and not when somebody presses the button
            opened.read(source, name, slice=None if name == "original" else more.get("slice"))
    return Correction(opened, anchors, test, **more)

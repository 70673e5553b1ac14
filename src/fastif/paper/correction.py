"""Figures 6 and 7 (c): steps on influential points, of the training data or of new data, where a model fails.

Three experiments that differ in their data alone. Anchors are drawn for every step, points are ranked for them by the
paper's influence, and one gradient step is taken on the most helpful, the most harmful, random points, or the anchors
themselves ("z-test" in the paper). Curvature is that of the data the model was trained on, also where the points are
new. How the numbers are compared and shown is in `changes.py`.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import fastif
from fastif.apps.iteration import Courses, Iteration, Sets, by_anchor_slice, check_material
from fastif.apps.iteration.material import only_slice
from fastif.integrations.tables import TextTable
from fastif.keeping import Keep, Tensors
from fastif.paper import changes
from fastif.paper.context import Context
from fastif.paper.data import Data, check_no_shared_premise
from fastif.paper.endings import Ends, ends_of, joined
from fastif.paper.models import TaskModel
from fastif.paper.ranked_walks import SAME, Ranking, with_unranked
from fastif.paper.settings import CorrectionSettings, Model, Settings
from fastif.paper.sources import CONSTITUENT, LEXICAL, SUBSEQUENCE
from fastif.paper.unfinished import finished
from fastif.paper.variants import PAPERS, Variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Read = Callable[[Data], TextTable]
Part = tuple[int, Variant, str | None]  # a checkpoint, how points are ranked, and a slice of the anchors


@dataclass(frozen=True)
class Tables:
    """What an iteration works with; a pool of None is the training data."""

    anchors: TextTable
    test: TextTable
    original: TextTable
    pool: TextTable | None

    def as_json(self) -> dict[str, Any]:
        """Return how many rows each has."""
        return {name: None if table is None else len(table) for name, table in vars(self).items()}


@dataclass
class Correction:
    """One of the three.

    Args:
        name: on the command line.
        title: what it shows, and where it stands in the paper.
        setting: trained on -> steps on -> measured on, as the paper has it.
        model: that is corrected.
        anchors: the rows that anchors are drawn from.
        test: the rows that results are of.
        original: other rows of the kind that the model was trained on.
        pool: new rows to take steps on; None for those it was trained on.
        slices: of the anchors, for each of which is walked once; none where all anchors are one.
        by_premise: anchors, pool and test may not share a premise.
    """

    name: str
    title: str
    setting: str
    model: Model
    anchors: Read
    test: Read
    original: Read
    pool: Read | None = None
    slices: tuple[str, ...] = (CONSTITUENT, LEXICAL, SUBSEQUENCE)
    by_premise: bool = False

    def run(self, context: Context, /) -> dict[str, Any]:
        """Walk from each checkpoint, for each slice of the anchors, and compare what was seen pair by pair."""
        wanted, tables = self._wanted(context.settings), self._tables(context)
        found: dict[str, list[Courses]] = {}
        ends: dict[str, list[Ends]] = {}
        notes: list[str] = []
        for checkpoint in range(wanted.checkpoints):
            model = context.model(self.model, checkpoint)
            notes += _checked(model, tables)
            papers, ends_here = self.make(context, (checkpoint, PAPERS, None))
            for anchors, courses in papers.items():
                found.setdefault(anchors, []).append(courses)
                ends.setdefault(anchors, []).append(ends_here[anchors])
        variants, missing = self._variants(context, {anchors: each[0] for anchors, each in found.items()})
        notes += missing
        walks = {anchors: Courses.joined(each) for anchors, each in found.items()}
        return {
            "experiment": self.name,
            "setting": self.setting,
            "rows_of": {**tables.as_json(), "train": len(model.train)},
            "checkpoints": wanted.checkpoints,
            "walks": {anchors: _as_json(courses) for anchors, courses in walks.items()},
            "changes": changes.with_rows_errors(
                changes.measured(walks),
                {anchors: joined(each) for anchors, each in ends.items()},
                tables.test.slices,
            ),
            "variants": {
                "repeats": wanted.variant_repeats,
                "curvature_examples": wanted.curvature_examples,
                "changes": variants,
            },
            "short_steps": {anchors: courses.short_steps() for anchors, courses in walks.items()},
            "notes": list(dict.fromkeys(notes)),
        }

    def _variants(self, context: Context, papers: dict[str, Courses]) -> tuple[dict[str, list[changes.Row]], list[str]]:
        """Return the changes by other ways to rank, from the first model, and which of them are not finished."""
        wanted = self._wanted(context.settings)
        if not wanted.variants:
            return {}, []
        beside = partial(_beside, papers, repeats=wanted.variant_repeats)
        same = {SAME: changes.summed_up(beside(papers))}  # the paper's ranking too, with what variants have
        others, missing = finished(
            wanted.variants, lambda each: changes.summed_up(beside(self.make(context, (0, each, None))[0]))
        )
        return same | others, missing

    def parts(self, settings: Settings, /) -> list[Part]:
        """Return the walks that do not need each other: of each checkpoint and slice, and of each other ranking."""
        wanted, slices = self._wanted(settings), self.slices or (None,)
        papers = [(checkpoint, PAPERS, name) for checkpoint in range(wanted.checkpoints) for name in slices]
        return papers + [(0, variant, name) for variant in wanted.variants for name in slices]

    def models(self, settings: Settings, /) -> list[tuple[Model, int]]:
        """Return the models that are walked from."""
        return [(self.model, checkpoint) for checkpoint in range(self._wanted(settings).checkpoints)]

    def make(self, context: Context, part: Part, /) -> tuple[dict[str, Courses], dict[str, Ends]]:
        """Walk from a checkpoint with a ranking, and look at every row of the test set where the paper's walks end.

        For one slice of the anchors, or (None) for all there are.
        """
        checkpoint, variant, only = part
        model, tables = context.model(self.model, checkpoint), self._tables(context)
        ranking = Ranking(context, self._wanted(context.settings), variant)
        other = "" if variant == PAPERS else f", {variant.name}"
        keep = partial(_kept, context, f"checkpoint {checkpoint}{other}")
        walks = self._walks(model, tables, ranking, keep, only)
        if variant != PAPERS:
            return walks, {}
        return walks, {
            anchors: self._ends(model, tables, ranking, keep, anchors, courses) for anchors, courses in walks.items()
        }

    def draw(self, result: dict[str, Any], /) -> "dict[str, Figure]":
        """Draw loss and accuracy over the steps, on the test set and on the validation set."""
        return changes.draw(result)

    def table(self, result: dict[str, Any], /) -> str:
        """Return the paper's gains beside ours, and every change with its interval."""
        return changes.table(result)

    def _wanted(self, settings: Settings) -> CorrectionSettings:
        found: CorrectionSettings = getattr(settings, self.name.replace("-", "_"))
        return found

    def _tables(self, context: Context) -> Tables:
        data, wanted = context.data, self._wanted(context.settings)
        some = partial(data.some, most=wanted.watched)
        pool = None if self.pool is None else self.pool(data)
        # anchors are the validation set too: no more of them are drawn from than are looked at
        made = Tables(some(self.anchors(data)), some(self.test(data)), some(self.original(data)), pool)
        if self.by_premise:
            check_no_shared_premise(made.anchors, made.test, *([] if pool is None else [pool]))
        return made

    def _walks(
        self, model: TaskModel, tables: Tables, ranking: Ranking, keep: Keep, only: str | None
    ) -> dict[str, Courses]:
        watched = {"test": tables.test, "validation": tables.anchors, "original": replace(tables.original, slices=None)}
        sets = _sets(model, tables, {name: model.examples(table) for name, table in watched.items()})
        known: dict[str, Any] = {
            "plan": ranking.plan(len(sets.pool)),
            "options": ranking.options,
            "keep": keep,
            "progress": ranking.context.progress,
        }
        with warnings.catch_warnings():  # the paper's depth leaves a residual, and that is what is reproduced
            warnings.simplefilter("ignore", fastif.ConvergenceWarning)
            if self.slices:
                some = None if only is None else [only]
                return by_anchor_slice(model.classifier, sets, kinds=ranking.kinds, only=some, **known)
            return {changes.ALL: Iteration(model.classifier, sets, **known).run(ranking.kinds)}

    def _ends(
        self, model: TaskModel, tables: Tables, ranking: Ranking, keep: Keep, anchors: str, courses: Courses
    ) -> Ends:
        """Look at the rows of the test set at the ends of the walks for some anchors."""
        sets = _sets(model, tables, {changes.TEST: model.examples(tables.test)})
        if self.slices:
            sets = replace(sets, anchors=only_slice(sets.anchors, anchors))
        iteration = Iteration(model.classifier, sets, plan=ranking.plan(len(sets.pool)), options=ranking.options)
        return ends_of(iteration, courses, changes.TEST, lambda name, make: keep(f"{anchors}: {name}", make))


def _sets(model: TaskModel, tables: Tables, watched: dict[str, Any]) -> Sets:
    return Sets(
        pool=model.train if tables.pool is None else model.examples(tables.pool),
        anchors=model.examples(tables.anchors),
        watched=watched,
        hessian_data=None if tables.pool is None else model.train,
    )


def _beside(papers: dict[str, Courses], other: dict[str, Courses], repeats: int) -> dict[str, Courses]:
    return {anchors: with_unranked(papers[anchors], courses, repeats) for anchors, courses in other.items()}


def _checked(model: TaskModel, tables: Tables) -> list[str]:
    """Raise where what chooses is in what measures, and return what a person should know of the data."""
    pool = None if tables.pool is None else model.examples(tables.pool)
    anchors, test, original = (model.examples(each) for each in (tables.anchors, tables.test, tables.original))
    return check_material(model.train, anchors, test=test, original=original, pool=pool)


def _kept(context: Context, what: str, name: str, make: Callable[[], Tensors]) -> Tensors:
    return context.piece(f"{what}: {name}", make)


def _as_json(courses: Courses) -> dict[str, Any]:
    """Return the walks without comparisons: these are made for all of them, by set and slice."""
    found = courses.as_json()
    del found["comparisons"]
    return found


correction_mnli = Correction(
    "correction-mnli",
    "Figure 6 (a): correction of an NLI model on HANS with its own training data",
    "NLI → NLI → HANS",
    model="nli-2",
    anchors=Data.hans_validation,
    test=Data.hans_test,
    original=lambda data: data.nli_dev(2),
)
augmentation_hans = Correction(
    "augmentation-hans",
    "Figure 6 (b): augmentation of an NLI model with HANS",
    "NLI → HANS → HANS",
    model="nli-2",
    anchors=Data.hans_validation,
    test=Data.hans_test,
    original=lambda data: data.nli_dev(2),
    pool=Data.hans_train,
)
augmentation_anli = Correction(
    "augmentation-anli",
    "Figure 7 (c): augmentation of an NLI model with ANLI",
    "NLI → ANLI → ANLI",
    model="nli-3",
    anchors=Data.anli_anchors,
    test=Data.anli_test,
    original=lambda data: data.nli_dev(3),
    pool=Data.anli_pool,
    slices=(),
    by_premise=True,
)

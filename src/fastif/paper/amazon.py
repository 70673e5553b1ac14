"""Figure 7 (d): domain shift in sentiment. Steps on training points that help, or harm, reviews of a domain unseen.

The model is trained on reviews of other domains. For every step anchors are drawn from the held-out domain; training
points are ranked for them as the paper does ("retrain": influence with curvature) and, beside that, by what a gradient
step on them changes ("finetune-step"). Both share the anchors, so that they are paired with each other, with random
points and with steps on the anchors themselves. Other ways to rank (`variants.py`) are walked from the first model.
Looked at after each step: the test part of the held-out domain, the part that anchors are drawn from (the paper's
validation curves), and unseen reviews of the domains of the training.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastif
from fastif.apps.iteration import KINDS, Courses, Effect, Iteration, Kind, Sets, check_material
from fastif.integrations.huggingface import TextExamples
from fastif.integrations.tables import TextTable
from fastif.keeping import Tensors
from fastif.measuring.words import markdown
from fastif.paper import changes
from fastif.paper.context import Context
from fastif.paper.endings import Ends, Group, ends_of, joined, with_rows_error
from fastif.paper.figures_of_the_paper import AMAZON, AMAZON_CLAIM
from fastif.paper.joining import groups_of, whence
from fastif.paper.models import TaskModel
from fastif.paper.ranked_walks import SAME, Ranking, with_unranked
from fastif.paper.settings import CorrectionSettings, Model, Settings
from fastif.paper.unfinished import finished
from fastif.paper.variants import GRADIENT_DOT, Variant
from fastif.paper.variants import PAPERS as PAPERS_RANKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "amazon"
title = "Figure 7 (d): steps on influential reviews, for a held-out domain"
MODEL: Model = "sentiment"
TEST, VALIDATION, ORIGINAL = "test, held-out domain", "validation, held-out domain", "other domains"
RANKED: tuple[Kind, ...] = ("helpful", "harmful")  # the kinds that an effect chooses
PAPERS: Effect = "retrain"
OURS: Effect = "finetune-step"
Row = dict[str, Any]


def run(context: Context) -> dict[str, Any]:
    """Walk from each checkpoint, and compare what was seen pair by pair."""
    wanted, data = context.settings.amazon, context.data
    found: dict[Effect, list[Courses]] = {PAPERS: [], OURS: []}
    ends: list[Ends] = []
    notes: list[str] = []
    for checkpoint in range(wanted.checkpoints):
        model = context.model(MODEL, checkpoint)
        sets = _sets(context, model)
        notes += check_material(model.train, sets.anchors, test=sets.watched[TEST], original=sets.watched[ORIGINAL])
        papers, ours = (make(context, (checkpoint, variant)) for variant in (PAPERS_RANKING, GRADIENT_DOT))
        found[PAPERS].append(papers)
        # random points and anchors know no effect
        found[OURS].append(replace(ours, courses={**papers.courses, **ours.courses}))
        ends.append(_ends(context, model, sets, f"checkpoint {checkpoint}", papers))
    variants, missing = _variants(context, found[PAPERS][0])
    effects = {effect: Courses.joined(each).as_json() for effect, each in found.items()}
    rows, all_ends = effects[PAPERS]["comparisons"], {TEST: joined(ends)}
    everyone: list[Group] = [([TEST], list(range(effects[PAPERS]["parts"][0]["examples"])))]
    effects[PAPERS]["comparisons"] = [
        with_rows_error(row, all_ends, everyone) if row["part"] == TEST else row for row in rows
    ]
    return {
        "held_out": data.sizes.held_out,
        "examples": len(model.train),
        "checkpoints": wanted.checkpoints,
        "notes": [*dict.fromkeys(notes), *missing],
        "effects": effects,
        "variants": {
            "repeats": wanted.variant_repeats,
            "curvature_examples": wanted.curvature_examples,
            "comparisons": variants,
        },
    }


def _variants(context: Context, papers: Courses) -> tuple[dict[str, list[Row]], list[str]]:
    """Return the changes by other ways to rank, from the first model, and which of them are not finished."""
    wanted = context.settings.amazon
    if not wanted.variants:
        return {}, []

    def beside(other: Courses) -> list[Row]:
        return _shown(with_unranked(papers, other, wanted.variant_repeats))

    others, missing = finished(_others(wanted), lambda variant: beside(make(context, (0, variant))))
    return {SAME: beside(papers), **others}, missing


def parts(settings: Settings) -> list[tuple[int, Variant]]:
    """Return the walks that do not need each other: from each checkpoint, points ranked in one way."""
    wanted = settings.amazon
    both = [(checkpoint, each) for checkpoint in range(wanted.checkpoints) for each in (PAPERS_RANKING, GRADIENT_DOT)]
    return both + [(0, variant) for variant in _others(wanted)]


def models(settings: Settings) -> list[tuple[Model, int]]:
    """Return the models that are walked from."""
    return [(MODEL, checkpoint) for checkpoint in range(settings.amazon.checkpoints)]


def make(context: Context, part: tuple[int, Variant]) -> Courses:
    """Walk from a checkpoint on points that are ranked in one way: by the paper's effect, the other, or a variant."""
    (checkpoint, variant), wanted = part, context.settings.amazon
    model = context.model(MODEL, checkpoint)
    if variant == GRADIENT_DOT:  # one of the two effects, and so repeated as often as the other
        wanted = replace(wanted, variant_repeats=wanted.repeats)
    name_of = {PAPERS_RANKING: PAPERS, GRADIENT_DOT: OURS}.get(variant, variant.name)
    sets, where = _sets(context, model), f"checkpoint {checkpoint}"
    courses = _walk(Ranking(context, wanted, variant), model, sets, f"{where}, {name_of}")
    if variant == PAPERS_RANKING:
        _ends(context, model, sets, where, courses)  # which `run` finds
    return courses


def _others(wanted: CorrectionSettings) -> list[Variant]:
    return [variant for variant in wanted.variants if variant != GRADIENT_DOT]


def _shown(courses: Courses) -> list[Row]:
    return [row for row in courses.comparisons if row["part"] in (TEST, ORIGINAL)]


def _sets(context: Context, model: TaskModel) -> Sets:
    data = context.data
    watched = {
        TEST: _examples(context, model, data.reviews_test()),
        VALIDATION: _examples(context, model, data.reviews_anchors()),
        ORIGINAL: _examples(context, model, data.reviews_dev()),
    }
    return Sets(model.train, model.examples(data.reviews_anchors()), watched)


def _ends(context: Context, model: TaskModel, sets: Sets, where: str, courses: Courses) -> Ends:
    """Look at the rows of the test set at the ends of the walks of the paper."""
    only = replace(sets, watched={TEST: sets.watched[TEST]})
    ranking = Ranking(context, context.settings.amazon)
    iteration = Iteration(model.classifier, only, plan=ranking.plan(len(model.train)), options=ranking.options)
    return ends_of(iteration, courses, TEST, lambda what, make: context.piece(f"{where}: {what}", make))


def _walk(ranking: Ranking, model: TaskModel, sets: Sets, where: str) -> Courses:
    """Walk on the kinds of points that a ranking chooses."""
    context, plan = ranking.context, ranking.plan(len(model.train))

    def keep(what: str, make: Callable[[], Tensors]) -> Tensors:
        return context.piece(f"{where}: {what}", make)

    known: dict[str, Any] = {"options": ranking.options, "keep": keep, "progress": context.progress}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastif.ConvergenceWarning)  # the paper's number of steps, as it is
        return Iteration(model.classifier, sets, plan=plan, **known).run(ranking.kinds)


def _examples(context: Context, model: TaskModel, table: TextTable) -> TextExamples:
    """Return as many rows as are looked at after each step, as one part whatever their domains."""
    some = context.data.some(table, most=context.settings.amazon.watched)
    return model.examples(replace(some, slices=None))


def table(result: dict[str, Any]) -> str:
    """Return what the paper says of each kind beside the change that was measured, then all parts and both measures."""
    papers, ours = result["effects"][PAPERS], result["effects"][OURS]
    plan, parts, domain = papers["plan"], papers["parts"], result["held_out"]
    repeats = plan["repeats"] * result.get("checkpoints", 1)
    first = [
        [
            kind,
            AMAZON.get(kind, "not told"),
            _change(papers, kind, TEST, "accuracy"),
            _change(ours, kind, TEST, "accuracy"),
        ]
        for kind in KINDS
    ]
    sizes = ", ".join(f"{part['title']}: {part['examples']:,}" for part in parts)
    return "\n\n".join(
        [
            f"Paper ({AMAZON_CLAIM.where}): {AMAZON_CLAIM.words}. Ours, held-out domain {domain}, change of its "
            f"accuracy in points after {plan['steps']} steps; {changes.intervals_in_words(result, repeats)}:",
            markdown(["steps on", "paper", f"ours, {PAPERS} (as the paper)", f"ours, {OURS}"], first),
            _parts_table(result),
            f"{plan['anchors']} anchors and {plan['examples']} points a step, rate {plan['learning_rate']:g}, the "
            f"{plan['nearest']:,} training points nearest to the anchors of {result['examples']:,}; the paper: 50, 50, "
            f"0.0001, 1,000, and 10 steps. Rows looked at: {sizes}. Ranked by {papers['how']}",
            *_variants_table(result),
            *result["notes"],
        ]
    )


def _parts_table(result: dict[str, Any]) -> str:
    """Return what steps on points of each kind change, in every part that is looked at."""
    rows = [
        [
            part["title"],
            kind,
            effect if kind in RANKED else "-",
            f"{mean_accuracy(found, kind, number, 0):.1%} to {mean_accuracy(found, kind, number, -1):.1%}",
            _change(found, kind, part["title"], "accuracy"),
            _change(found, kind, part["title"], "loss"),
        ]
        for number, part in enumerate(result["effects"][PAPERS]["parts"])
        for effect, found in result["effects"].items()
        for kind in (KINDS if effect == PAPERS else RANKED)
    ]
    return markdown(["part", "steps on", "chosen by", "accuracy", "change, points", "change of mean loss"], rows)


def _variants_table(result: dict[str, Any]) -> list[str]:
    """Return what points that are ranked otherwise change, from the first model: a table for each run."""
    return [part for run in groups_of(result) for part in _rankings(run)]


def _rankings(run: dict[str, Any]) -> list[str]:
    cells = [(kind, part) for part in (TEST, ORIGINAL) for kind in RANKED]
    rows = [
        [name, *(_change({"comparisons": found}, kind, part, "accuracy") for kind, part in cells)]
        for name, found in run["comparisons"].items()
    ]
    return [
        f"Other ways to rank, {whence(run)}, "
        f"{changes.repeats_in_words(run['repeats'])} with the same draws; change of accuracy in points, "
        f"intervals over repeats alone{changes.curvature_words(run)}:",
        markdown(["ranked by", *(f"{kind}; {part}" for kind, part in cells)], rows),
        *run.get("notes", []),
    ]


def mean_accuracy(found: dict[str, Any], kind: str, part: int, step: int) -> float:
    """Return the mean over repeats of the accuracy on a part after a step."""
    values = [one["accuracy"][step][part] for one in found["courses"] if one["kind"] == kind]
    return float(sum(values) / len(values))


def _change(found: dict[str, Any], kind: str, part: str, measure: str) -> str:
    """Return by how much the end of a walk differs from its start, with an interval where there is one."""
    (row,) = [
        each
        for each in found["comparisons"]
        if (each["first"], each["second"], each["part"], each["measure"]) == (kind, "start", part, measure)
    ]
    return changes.words(row)


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw loss and accuracy over the steps: points chosen as in the paper, and by the other effect."""
    from fastif.integrations.plots.correction import draw_courses

    words = f"Held-out domain {result['held_out']}, chosen by "
    models = {"models": result.get("checkpoints", 1)}  # which walks of before do not say
    return {
        "amazon" if effect == PAPERS else f"amazon-{effect}": draw_courses({**found, **models}, title=words + effect)
        for effect, found in result["effects"].items()
    }

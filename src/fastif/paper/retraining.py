"""Figure 3 (c): what happens to the loss of a point when its most influential training points are removed.

Points are removed by three systems: fast with a smaller and with a larger k, and full; beside them random points of
each label, and what other ways to rank would remove. A training without them is compared with one on everything of the
same seed, and what random removals do is the noise. The model is one that is trained on few examples, as it is trained
again many times.
"""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

import fastif
from fastif import metrics
from fastif.apps.removals import Removal, at_random, influential
from fastif.apps.retrained import CLEAR, Change, Noise, Retrained
from fastif.apps.retraining import Retraining
from fastif.errors import DataError, StoredFileError
from fastif.integrations.huggingface.start import RecordedTraining, recorded_training, start_from
from fastif.measuring.words import markdown
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import RETRAINING_CLAIMS
from fastif.paper.models import TaskModel
from fastif.paper.scored import Scored, Search, System, enough

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "retraining"
title = "Figure 3 (c): change of the loss after retraining without influential points"
FULL = "full"
DIRECTION = {"helpful": 1, "harmful": -1}  # where the loss should go


def run(context: Context) -> dict[str, Any]:
    """Find points with enough of each sign, remove, and train again."""
    wanted = context.settings.retraining
    model = context.model("nli-3-few")
    total = len(model.train)
    found = Search(context, model, _systems(context, total), max(wanted.of_each_sign, *wanted.removed)).run(
        right=wanted.right, wrong=wanted.wrong
    )
    removals = [
        removal
        for system, scores in found.scores.items()
        for removal in influential(scores, counts=wanted.removed, examples=total, system=system)
    ]
    removals += _by_variants(context, model, found)
    removals += at_random(
        model.train.targets,
        counts=wanted.removed,
        draws=wanted.draws,
        seed=context.seed,
        label_names=model.classifier.label_names,
    )
    how = how_it_was_trained(model)
    retraining = Retraining(
        model.classifier,
        model.train,
        queries=found.points.examples,
        recipe=how.recipe,
        start=start_from(model.classifier, context.models.base(), expected=how.base_sha256),
        prefix_cache=context.models.states,
        precision=context.precision,
        progress=context.progress,
        keep=context.piece,
    )
    context.note(f"Retraining on {total:,} examples without each of {len(removals)} sets, {wanted.baselines} times.")
    done = retraining.run(removals, seeds=range(context.seed, context.seed + wanted.baselines))
    return {
        "trained": how.recipe.in_words(),
        "points": found.points.as_json(),
        "tried": found.tried,
        "of_each_sign": wanted.of_each_sign,
        "variants": [variant.name for variant in wanted.variants],
        **_kept(done),
        "summary": _papers(done, [variant.name for variant in wanted.variants]).in_words(),
    }


def how_it_was_trained(model: TaskModel) -> RecordedTraining:
    """Return the recipe of a task model and what it began from."""
    recorded = recorded_training(model.directory)
    if recorded is None:
        raise StoredFileError(f"nothing in {model.directory} says how {model.name} was trained. Delete it.")
    return recorded


def _systems(context: Context, total: int) -> list[System]:
    """Return the fast systems, each with draws of its own, and the full one."""
    wanted = context.settings.retraining
    sizes = list(dict.fromkeys(min(k, total) for k in wanted.k))
    fast = [System(f"fast, k = {k:,}", wanted.fast, context.seed + 1 + row, k) for row, k in enumerate(sizes)]
    return [*fast, System(FULL, wanted.full, context.seed)]


def _by_variants(context: Context, model: TaskModel, scored: Scored) -> list[Removal]:
    """Return what other ways to rank would remove, of points that have enough of both signs by them."""
    wanted, total = context.settings.retraining, len(model.train)
    removals = []
    for variant in wanted.variants:
        system = System(variant.name, wanted.fast, context.seed + 1, min(wanted.k[0], total), variant)
        found = system.scores(context, model, scored.points.table, scored.which)
        rows = [row for row, values in enumerate(found.values) if enough(values, max(wanted.variant_removed))]
        if rows:
            scores = fastif.Scores(found.values[rows], found.train_ids[rows])
            how: dict[str, Any] = {"counts": wanted.variant_removed, "examples": total, "queries": rows}
            removals += influential(scores, system=variant.name, **how)
    return removals


def _kept(done: Retrained) -> dict[str, Any]:
    """Return all that was measured as JSON can hold it."""
    return {
        "examples": done.examples,
        "seeds": list(done.seeds),
        "models_trained": done.models,
        "before": done.before.tolist(),
        "right": list(done.right),
        "removals": [asdict(one) for one in done.removals],
        "losses": done.losses.tolist(),
    }


def retrained(result: dict[str, Any]) -> Retrained:
    """Return what was measured of the paper's systems and of random removals, from a result."""
    return _papers(_everything(result), result.get("variants", []))


def by_variant(result: dict[str, Any]) -> dict[str, Retrained]:
    """Return what was measured of each other way to rank, with random removals beside it."""
    done = _everything(result)
    return {
        name: _some(done, [one.query is None or one.system == name for one in done.removals])
        for name in result.get("variants", [])
    }


def _papers(done: Retrained, variants: list[str]) -> Retrained:
    return _some(done, [one.system not in variants for one in done.removals])


def _some(done: Retrained, wanted: list[bool]) -> Retrained:
    rows = [row for row, each in enumerate(wanted) if each]
    losses = done.losses[:, [0, *(row + 1 for row in rows)]]
    return replace(done, removals=tuple(done.removals[row] for row in rows), losses=losses)


def _everything(result: dict[str, Any]) -> Retrained:
    return Retrained(
        tuple(Removal(**{**one, "ids": tuple(one["ids"])}) for one in result["removals"]),
        torch.tensor(result["losses"], dtype=torch.float64),
        tuple(result["seeds"]),
        torch.tensor(result["before"], dtype=torch.float64),
        tuple(result["right"]),
        result["examples"],
    )


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw the paper's two panels, right and wrong, with the noise."""
    from fastif.integrations.plots.retraining import draw_retraining

    return {"retraining": draw_retraining(retrained(result))}


def table(result: dict[str, Any]) -> str:
    """Return every mean change beside its noise, and what the paper says beside what was seen."""
    done = retrained(result)
    lines, noise = done.lines(), {(each.group, each.count): each for each in done.noise()}
    counts = sorted({each.count for each in lines})
    claims = [[claim.words, claim.where, _seen(key, done)] for key, claim in RETRAINING_CLAIMS.items()]
    agreement = done.prediction()
    seeds = done.seed_noise()
    notes = [
        f"{len(result['points'])} points with at least {result['of_each_sign']} helpful and harmful training points "
        f"({result['tried']} were looked at); {done.examples:,} training points (the paper: 392,702; a k above the "
        f"number of training points is all of them); {result['models_trained']:,} trainings: {result['trained']}; "
        f"{len(done.seeds)} seeds, each training compared with that of the same seed on everything.",
        "" if seeds is None else f"The seed alone moves the loss of a point by {seeds:.3f} (standard deviation).",
        ""
        if agreement is None
        else f"What influence predicts (-I / n) and what happened: Pearson {agreement['pearson']:.2f}, Spearman "
        f"{agreement['spearman']:.2f}, the same sign in {agreement['same_sign']:.0%} of {agreement['removals']}.",
    ]
    parts = [
        markdown(["paper", "where", "ours"], claims),
        "Mean change of the loss, ours, ± standard error over points; in a row of noise, the mean over random removals "
        f"± standard deviation. Bold: beyond {CLEAR:g} of these from that mean, in the direction that the paper says.",
        markdown(["prediction", "removed", *(f"m = {count}" for count in counts)], _rows(lines, noise, counts)),
        " ".join(note for note in notes if note),
        *_variants_table(result, done),
    ]
    return "\n\n".join(parts)


def _variants_table(result: dict[str, Any], papers: Retrained) -> list[str]:
    """Return what other ways to rank do beside the paper's first system, at the numbers of points that they have."""
    variants = by_variant(result)
    if not variants:
        return []
    first = papers.removals[0].system
    counts = sorted({one.count for done in variants.values() for one in done.removals if one.query is not None})
    alone = _some(papers, [one.count in counts and one.system == first for one in papers.removals])
    cells = [(group, kind, count) for group in _groups(papers) for kind in DIRECTION for count in counts]
    rows = []
    for system, done in {first: alone, **variants}.items():
        found = {(each.group, each.line.kind, each.count): each for each in done.lines()}
        points = len({one.query for one in done.removals} - {None})
        agreement = done.prediction()
        words = ["-" if (each := found.get(cell)) is None else _cell(each, None) for cell in cells]
        rows.append([system, str(points), *words, "-" if agreement is None else f"{agreement['spearman']:.2f}"])
    columns = [f"{group}, {kind}, m = {count}" for group, kind, count in cells]
    return [
        "Other ways to rank what is removed. Points: with enough training points of both signs. Spearman: of what the "
        "scores predict with what happened, over the removals of a line.",
        markdown(["ranked by", "points", *columns, "Spearman"], rows),
    ]


def _groups(done: Retrained) -> list[str]:
    return list(dict.fromkeys(each.group for each in done.lines()))


def _rows(lines: list[Change], noise: dict[tuple[str, int], Noise], counts: list[int]) -> list[list[str]]:
    rows = []
    for group in dict.fromkeys(each.group for each in lines):
        mine = [each for each in lines if each.group == group]
        for line in dict.fromkeys(each.line for each in mine):
            cells = {each.count: _cell(each, noise.get((group, each.count))) for each in mine if each.line == line}
            rows.append([group, line.name, *(cells.get(count, "-") for count in counts)])
        rows.append([group, "noise", *(_noise_cell(noise.get((group, count))) for count in counts)])
    return rows


def _cell(change: Change, noise: Noise | None) -> str:
    words = f"{change.mean:+.4f}" + ("" if change.error is None else f" ± {change.error:.4f}")
    return f"**{words}**" if _is_clear(change, noise) else words


def _noise_cell(noise: Noise | None) -> str:
    if noise is None:
        return "-"
    return f"{noise.mean:+.4f}" + ("" if noise.deviation is None else f" ± {noise.deviation:.4f}")


def _beyond(change: Change, noise: Noise | None) -> float:
    """Return how far a change is from that of random removals, in the direction that it should have."""
    return DIRECTION.get(change.line.kind, 0) * (change.mean - (0.0 if noise is None else noise.mean))


def _is_clear(change: Change, noise: Noise | None) -> bool:
    return noise is not None and noise.deviation is not None and _beyond(change, noise) > CLEAR * noise.deviation


def _seen(key: str, done: Retrained) -> str:
    """Return what was seen of a claim, in a few words."""
    noise = {(each.group, each.count): each for each in done.noise()}
    lines = [each for each in done.lines() if each.line.kind in DIRECTION]
    if key in DIRECTION:
        mine = [each for each in lines if each.line.kind == key]
        so = sum(DIRECTION[key] * each.mean > 0 for each in mine)
        clear = sum(_is_clear(each, noise.get((each.group, each.count))) for each in mine)
        return (
            f"{'above' if key == 'helpful' else 'below'} zero in {so} of {len(mine)} means, clear of noise in {clear}"
        )
    if key == "systems":
        return _systems_alike(done)
    if key == "random":
        better = sum(_beyond(each, noise.get((each.group, each.count))) > 0 for each in lines)
        best = sum(_beats_every_label(each, done.lines()) for each in lines)
        return f"beyond the mean of random removals in {better} of {len(lines)} means, beyond every label in {best}"
    ends = [
        [each for each in lines if (each.line, each.group) == one]
        for one in dict.fromkeys((each.line, each.group) for each in lines)
    ]
    more = sum(abs(line[-1].mean) > abs(line[0].mean) for line in ends)
    return f"larger at m = {ends[0][-1].count} than at m = {ends[0][0].count} in {more} of {len(ends)} lines"


def _beats_every_label(change: Change, lines: list[Change]) -> bool:
    """Return whether random points of no label do as much, in the direction that the change should have."""
    random = [
        each.mean
        for each in lines
        if each.line.kind == "random" and (each.group, each.count) == (change.group, change.count)
    ]
    return all(DIRECTION[change.line.kind] * (change.mean - each) > 0 for each in random)


def _systems_alike(done: Retrained) -> str:
    """Return how the changes by each fast system correlate with those by the full one, removal by removal."""
    changes = done.changes.mean(dim=0)
    by_system: dict[str, dict[Any, float]] = {}
    for row, one in enumerate(done.removals):
        if one.query is not None:
            by_system.setdefault(one.system, {})[one.query, one.kind, one.count] = float(changes[row, one.query])
    full = by_system.pop(FULL)
    told = []
    for system, found in by_system.items():
        keys = sorted(found)
        pair = [torch.tensor([each[key] for key in keys], dtype=torch.float64) for each in (found, full)]
        try:
            told.append(f"{system} with full: Pearson {metrics.pearson(*pair):.2f}")
        except DataError:  # all equal
            told.append(f"{system} with full: nothing changed")
    return "; ".join(told) + f" (of the change, over {len(full)} removals)"

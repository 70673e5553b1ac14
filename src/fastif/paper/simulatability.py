"""Figure 4 and its longer form in the appendix: do influential points tell a simulator what the task model says?

The simulator has the form of the task model, and was trained on its predictions, from another seed. One step on one
training point, helpful, harmful or a random one of each label, changes its loss on what the task model says of a query.
Steps are taken with true labels, as in the paper, and as a variant with those that the task model predicts. Other ways
to find influential points stand beside the paper's.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

import fastif
from fastif.apps.answers import RIGHT, WRONG
from fastif.apps.removals import most_removable
from fastif.apps.simulatability import Simulation, log_rates
from fastif.apps.simulated import EXPECTED, Simulated
from fastif.integrations.huggingface.start import start_from
from fastif.measuring.words import markdown
from fastif.paper.context import Context
from fastif.paper.figures_of_the_paper import SIMULATABILITY_CLAIMS, SIMULATABILITY_LABELS, SIMULATABILITY_OVER_RANDOM
from fastif.paper.retraining import how_it_was_trained
from fastif.paper.scored import Search, System
from fastif.paper.variants import PAPERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

name = "simulatability"
title = "Figure 4: loss of a simulator after one step on influential points"
SYSTEM = "fast"


def run(context: Context) -> dict[str, Any]:
    """Find points with enough of each sign, train the simulator, and take steps with each kind of labels."""
    wanted = context.settings.simulatability
    model = context.model("nli-3")
    system = System(SYSTEM, wanted.solver, context.seed, wanted.k)
    found = Search(context, model, [system], wanted.points).run(right=wanted.right, wrong=wanted.wrong)
    how = how_it_was_trained(model)
    start = start_from(model.classifier, context.models.base(), expected=how.base_sha256)

    def simulate(labels: str, scores: fastif.Scores) -> Simulated:
        simulation = Simulation(
            model.classifier,
            model.train,
            queries=found.points.examples,
            recipe=how.recipe,
            start=start,
            labels=labels,  # type: ignore[arg-type]
            prefix_cache=context.models.states,
            precision=context.precision,
            progress=context.progress,
            keep=context.piece,
        )
        return simulation.run(
            scores,
            points=wanted.points,
            rates=log_rates(wanted.lowest_rate, wanted.highest_rate, wanted.rates),
            seed=how.seed + 1,  # with its own seed the model would be trained once more, as far as it learned its data
        )

    ranked = {}
    for variant in wanted.variants:
        other = replace(system, name=variant.name, variant=variant)
        scores = other.scores(context, model, found.points.table, found.which)
        least = most_removable(scores)
        told = {"least": least}
        ranked[variant.name] = (
            {**told, "groups": simulate(wanted.labels[0], scores).by_group()} if least >= wanted.points else told
        )
    return {
        "examples": len(model.train),
        "k": min(wanted.k, len(model.train)),
        "shown": wanted.shown,
        "steps_on": wanted.points,
        "trained": how.recipe.in_words(),
        "points": found.points.as_json(),
        "tried": found.tried,
        "variants": {labels: _kept(simulate(labels, found.scores[SYSTEM])) for labels in wanted.labels},
        "ranked_otherwise": ranked,
    }


def _kept(done: Simulated) -> dict[str, Any]:
    """Return all that was measured as JSON can hold it."""
    return {
        "kinds": list(done.kinds),
        "rates": list(done.rates),
        "losses": done.losses.tolist(),
        "before": done.before.tolist(),
        "right": list(done.right),
        "train_agreement": done.train_agreement,
        "query_agreement": done.query_agreement,
        "summary": done.in_words(),
    }


def simulated(kept: dict[str, Any]) -> Simulated:
    """Return what was measured, from a variant of a result."""
    return Simulated(
        tuple(kept["kinds"]),
        tuple(kept["rates"]),
        torch.tensor(kept["losses"], dtype=torch.float64),
        torch.tensor(kept["before"], dtype=torch.float64),
        tuple(kept["right"]),
        kept["train_agreement"],
        kept["query_agreement"],
    )


def draw(result: dict[str, Any]) -> "dict[str, Figure]":
    """Draw a few points as the paper does, half of them right, and all of them for each kind of labels."""
    from fastif.integrations.plots.simulatability import draw_simulatability

    titles = [" | ".join(filter(None, (one["text"], one.get("text_pair")))) for one in result["points"]]
    figures = {}
    for number, (labels, kept) in enumerate(result["variants"].items()):
        done = simulated(kept)
        if number == 0:
            rows = _few(done, result["shown"])
            figures[name] = draw_simulatability(_some(done, rows), titles=[titles[row] for row in rows])
        figures[f"{name}-{labels}-labels"] = draw_simulatability(done, titles=titles, columns=4, most=len(titles))
    return figures


def _few(done: Simulated, count: int) -> list[int]:
    """Return so many points, half of them predicted right, as far as there are."""
    right = [row for row, each in enumerate(done.right) if each]
    wrong = [row for row, each in enumerate(done.right) if not each]
    first = right[: max(count - len(wrong), count - count // 2)]
    return first + wrong[: count - len(first)]


def _some(done: Simulated, rows: list[int]) -> Simulated:
    return replace(
        done, losses=done.losses[rows], before=done.before[rows], right=tuple(done.right[row] for row in rows)
    )


def table(result: dict[str, Any]) -> str:
    """Return what the paper says beside what was seen, and the change of the loss by kind."""
    variants = {labels: simulated(kept) for labels, kept in result["variants"].items()}
    first = next(iter(variants.values()))
    claims = [
        [f"prediction {group}: {claim.words}", claim.where, "; ".join(_seen(variants, group))]
        for group, claim in SIMULATABILITY_CLAIMS.items()
    ]
    over = [f"{labels} labels: {_over_random(done)}" for labels, done in variants.items()]
    claims.append([SIMULATABILITY_OVER_RANDOM.words, SIMULATABILITY_OVER_RANDOM.where, "; ".join(over)])
    if len(variants) > 1:
        lowered = [f"{labels} {_expected_change(done):+.4f}" for labels, done in variants.items()]
        claims.append([SIMULATABILITY_LABELS.words, SIMULATABILITY_LABELS.where, "; ".join(lowered)])
    parts = [
        markdown(["paper", "where", "ours"], claims),
        "Change of the simulator's loss by one step, ours: mean over points, at the best learning rate of each point "
        "and kind / mean over all learning rates.",
        markdown(["labels", "prediction", *first.kinds], _rows(variants)),
        f"{len(result['points'])} points ({result['tried']} were looked at), steps on "
        f"{result.get('steps_on', first.points)} training points "
        f"of each kind, {len(first.rates)} learning rates from {first.rates[0]:.3g} to {first.rates[-1]:.3g}; "
        f"influential are the strongest of the {result['k']:,} nearest of {result['examples']:,} training points (the "
        f"paper: 392,702). The simulator says what the task model says of {first.train_agreement:.1%} of the training "
        f"points and of {first.query_agreement:.1%} of the points here; both were trained by {result['trained']}.",
        *_ranked_table(result, variants),
    ]
    return "\n\n".join(parts)


def _rows(variants: dict[str, Simulated]) -> list[list[str]]:
    rows = []
    for labels, done in variants.items():
        for found in done.by_group():
            cells = [
                f"{found['at_best_rate'][kind]:+.4f} / {found['over_all_rates'][kind]:+.4f}" for kind in done.kinds
            ]
            rows.append([labels, found["group"], *cells])
    return rows


def _ranked_table(result: dict[str, Any], variants: dict[str, Simulated]) -> list[str]:
    """Return what steps on points that were found otherwise change, beside those of the paper."""
    ranked = result.get("ranked_otherwise")
    if not ranked:
        return []
    labels, papers = next(iter(variants.items()))
    kinds, groups = tuple(EXPECTED.values()), [found["group"] for found in papers.by_group()]
    rows = []
    for name, found in {PAPERS.name: {"groups": papers.by_group()}, **ranked}.items():
        if "groups" in found:
            cells = [
                f"{each['at_best_rate'][kind]:+.4f} / {each['over_all_rates'][kind]:+.4f}"
                for each in found["groups"]
                for kind in kinds
            ]
        else:
            name, cells = f"{name} (a point has but {found['least']} of one sign)", ["-"] * (len(kinds) * len(groups))
        rows.append([name, *cells])
    columns = [f"{group}: {kind}" for group in groups for kind in kinds]
    return [
        f"Other ways to find influential points, the same queries and simulator, {labels} labels; at the best rate / "
        "over all rates:",
        markdown(["ranked by", *columns], rows),
    ]


def _seen(variants: dict[str, Simulated], group: str) -> list[str]:
    """Return, for each kind of labels, how often the kind that the paper names lowers the loss, and most of all."""
    told = []
    for labels, done in variants.items():
        rows = [row for row, right in enumerate(done.right) if (RIGHT if right else WRONG) == group]
        kind = done.kinds.index(EXPECTED[group])
        lowered = int((done.changes.mean(dim=(2, 3))[rows, kind] < 0).sum())
        best = sum(done.best_kinds()[row] == EXPECTED[group] for row in rows)
        told.append(
            f"{labels} labels: lower over all rates for {lowered} of {len(rows)}, the best of {len(done.kinds)} kinds "
            f"for {best}"
        )
    return told


def _over_random(done: Simulated) -> str:
    """Return at how many points the kind that the paper names is better than each random kind."""
    lowest = done.at_best()
    random = [row for row, kind in enumerate(done.kinds) if kind not in EXPECTED.values()]
    better = sum(
        bool(lowest[row, done.kinds.index(EXPECTED[RIGHT if right else WRONG])] < lowest[row, random].min())
        for row, right in enumerate(done.right)
    )
    return f"better than random points of every label for {better} of {len(done.right)}"


def _expected_change(done: Simulated) -> float:
    """Return the mean change, at the best rates, by the kinds that the paper names."""
    lowest = done.at_best()
    kinds = [done.kinds.index(EXPECTED[RIGHT if right else WRONG]) for right in done.right]
    return float(lowest[torch.arange(len(kinds)), kinds].mean())

"""One setting measured: models retrained on halves of the data, and influence at every damping held against them."""

import time
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

import fastif
from fastif import vectors
from fastif.apps.stack import Stack, stacked_losses
from fastif.bench.lds.retraining import half_subsets, member, retrain
from fastif.bench.lds.rules import RULES, Facts
from fastif.bench.lds.settings import Pair, Setting
from fastif.bench.lds.statistics import Sweep, ceiling, summary
from fastif.curvature import CurvatureOperator
from fastif.derivatives import gradients
from fastif.metrics import linear_datamodeling_score
from fastif.solvers.exact import dual_size

GRID = torch.logspace(-6, 1, 25, dtype=torch.float64).tolist()  # of the largest eigenvalue


def measure(setting: Setting, *, subsets: int = 100, seeds: int = 4) -> dict[str, Any]:
    """Retrain, then sweep the damping: return the curves, what each rule reaches, and the ceiling."""
    start = time.perf_counter()
    train, queries = setting.data()
    masks = half_subsets(len(train[1]), subsets)
    everyone = torch.ones(1, len(train[1]), dtype=torch.bool)
    stacks = [retrain(setting, train, torch.cat([everyone, masks]), seed=seed) for seed in range(seeds)]
    asked = fastif.Examples(queries)
    losses = [stacked_losses(_model(setting, stack), stack, asked, together=True) for stack in stacks]
    by_seed = torch.stack([each[1:].T.double() for each in losses])  # (seeds, queries, subsets)
    trained = time.perf_counter()
    sweeps = []
    for stack in stacks:
        model = fastif.TorchModel(member(setting, stack, 0).double(), loss=setting.loss)
        sweeps.append(sweep(setting, model, train, queries, masks, by_seed.mean(dim=0)))
    return {
        "setting": setting.name,
        "recipe": asdict(setting.recipe),
        "examples": len(train[1]),
        "queries": len(queries[1]),
        "subsets": subsets,
        "seeds": list(range(seeds)),
        "query_loss_full": float(torch.stack([each[0].mean() for each in losses]).mean()),
        "query_loss_half": float(by_seed.mean()),
        "ceiling": ceiling(by_seed),
        "seconds_training": trained - start,
        "seconds_solving": time.perf_counter() - trained,
        **summary(sweeps),
    }


def _model(setting: Setting, stack: Stack) -> fastif.TorchModel:
    return fastif.TorchModel(member(setting, stack, 0), loss=setting.loss)


def sweep(
    setting: Setting, model: fastif.TorchModel, train: Pair, queries: Pair, masks: Tensor, true_losses: Tensor
) -> Sweep:
    """Return the LDS of every query, on the grid and for each rule, of one model: one decomposition serves all."""
    data = fastif.Examples(train)
    operator = CurvatureOperator(model, data)
    prepared = fastif.Exact().prepare(operator)
    everything = model.place(data.batch(range(len(data))))
    slopes = vectors.flatten(gradients(model, everything)).double()
    asked = fastif.Examples(queries)
    block = gradients(model, model.place(asked.batch(range(len(asked)))))
    spectrum = prepared.spectrum()
    time_spent = setting.recipe.learning_time(len(data))
    facts = Facts(spectrum, operator.size, len(data), min(operator.size, dual_size(operator)), time_spent)

    def scored(damping: float) -> Tensor:
        solved = vectors.flatten(prepared.solve(block, damping).value).double()
        return linear_datamodeling_score(-solved @ slopes.T, masks, true_losses)

    chosen = {name: damping for name, rule in RULES.items() if (damping := rule(facts)) is not None}
    dot = linear_datamodeling_score(-vectors.flatten(block).double() @ slopes.T, masks, true_losses)
    return Sweep(
        parameters=operator.size,
        rank=facts.rank,
        top=spectrum.top,
        trace=spectrum.trace,
        fractions=GRID,
        dimension=[spectrum.effective_dimension(fraction * spectrum.top) for fraction in GRID],
        grid=torch.stack([scored(fraction * spectrum.top) for fraction in GRID]),
        gradient_dot=dot,
        rule_fractions={name: damping / spectrum.top for name, damping in chosen.items()},
        rules={name: scored(damping) for name, damping in chosen.items()},
    )

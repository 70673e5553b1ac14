"""Does a model work? Each thing that an explanation needs is tried on a few examples, and told in plain words."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from fastif import vectors
from fastif.batch import TARGET_KEY, Batch
from fastif.curvature import CurvatureOperator
from fastif.data import Examples
from fastif.errors import FastifError, ModelError
from fastif.explainer import Explainer
from fastif.model import TorchModel
from fastif.prefix import PrefixCache, PrefixModel
from fastif.scoring import scan
from fastif.scoring.captured import find_route
from fastif.turns import in_turn


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it is, and what to change where it should be another way."""

    level: Level
    what: str
    found: str
    change: str = ""


def examine(model: TorchModel, few: Any) -> list[Finding]:
    """Try everything that an explanation needs on a few examples, and stop at what makes it impossible.

    Args:
        model: the model.
        few: some of its training data, six say, in any form that the model reads.
    """
    findings: list[Finding] = []
    few = model.read(few, "train")
    with in_turn(), torch.inference_mode(False):
        batch = model.place(few.batch(range(len(few))))
        for name, check in _checks(model, few, batch):
            try:
                found = check()
            except FastifError as error:
                found = Finding(Level.PROBLEM, name, str(error))
            except (RuntimeError, TypeError, IndexError, ValueError) as error:
                found = Finding(Level.PROBLEM, name, f"{type(error).__name__}: {error}".splitlines()[0])
            findings.append(found)
            if found.level is Level.PROBLEM:
                break
    return findings


def _checks(model: TorchModel, few: Examples, batch: Batch) -> Iterator[tuple[str, Callable[[], Finding]]]:
    yield "weights", lambda: _weights(model)
    yield "outputs", lambda: _outputs(model, batch)
    yield "forward-mode derivatives", lambda: _forward_mode(model, batch)
    yield "curvature", lambda: _curvature(model, few)
    yield "frozen layers", lambda: _prefix(model, few)
    yield "capture of layers", lambda: _capture(model, few)
    yield "an explanation", lambda: _explanation(model, few)


def _weights(model: TorchModel) -> Finding:
    for name, tensor in model.module.named_parameters():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            wrong = int((~torch.isfinite(tensor)).sum())
            return Finding(
                Level.PROBLEM,
                "weights",
                f"{name} has {wrong:,} values that are NaN or infinite.",
                "The training diverged, or the file is damaged: use an earlier checkpoint.",
            )
    return Finding(Level.OK, "weights", "all are finite numbers")


def _outputs(model: TorchModel, batch: Batch) -> Finding:
    model.check(batch)
    return Finding(Level.OK, "outputs", "finite, and those of a text do not depend on the texts beside it")


def _forward_mode(model: TorchModel, batch: Batch) -> Finding:
    """Compare a forward-mode derivative with a backward one, one vector at a time and several together."""
    pair = vectors.random(model.parameters, 2, seed=0)

    def forward(parameters: vectors.Vector) -> Tensor:
        return model.outputs(parameters, batch.inputs)

    def change(vector: vectors.Vector) -> Tensor:
        result: Tensor = jvp(forward, (model.parameters,), (vector,))[1]
        return result

    name = "forward-mode derivatives"
    slower = "Nothing has to be changed; another attn_implementation (eager) may be faster."
    try:
        single = change({key: tensor[0] for key, tensor in pair.items()})
    except (RuntimeError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        return Finding(Level.WARNING, name, f"torch has none here ({reason}): double backward is used, slower", slower)
    outputs, pull_back = vjp(forward, model.parameters)[:2]
    cotangent = torch.ones_like(outputs)
    pulled = pull_back(cotangent)[0]
    backward = vectors.dot(pair, {key: tensor[None] for key, tensor in pulled.items()})[0]
    difference = float((single.sum() - backward).abs() / (1 + backward.abs()))
    if difference > 100 * torch.finfo(model.dtype).eps ** 0.5:
        raise ModelError(
            f"forward and backward derivatives differ by {difference:.2g}: torch has a wrong rule for an operation of "
            "this model. Choose parameters above it with trainable=."
        )
    try:
        vmap(change, randomness="same")(pair)
    except (RuntimeError, TypeError, IndexError) as error:
        reason = str(error).splitlines()[0]
        return Finding(Level.WARNING, name, f"work one vector at a time, not together ({reason}): slower", slower)
    return Finding(Level.OK, name, f"work, many at once, and agree with backward ones{_to(difference)}")


def _curvature(model: TorchModel, few: Examples) -> Finding:
    CurvatureOperator(model, few).check_symmetry()
    return Finding(Level.OK, "curvature", "second derivatives work, and the matrix is symmetric")


def _prefix(model: TorchModel, few: Examples) -> Finding:
    name = "frozen layers"
    if not isinstance(model, PrefixModel) or model.prefix is None:
        why = getattr(model, "why_no_prefix", None) or "the model does not offer to start in the middle"
        return Finding(
            Level.WARNING,
            name,
            f"nothing can be computed once and kept: {why}",
            "Every pass runs the whole model. Freeze lower layers (--freeze-layers) if they were frozen in training.",
        )
    direction = vectors.random(model.parameters, 1, seed=0)
    whole = scan(model, few, direction)
    resumed = scan(model, PrefixCache().view(model, few), direction)
    difference = float((whole - resumed).norm() / whole.norm().clamp_min(torch.finfo(whole.dtype).tiny))
    if difference > 1e-3:
        return Finding(
            Level.PROBLEM,
            name,
            f"scores from kept states differ by {difference:.1%} from those of the whole model",
            "Use PrefixCache None from Python, and report this model.",
        )
    return Finding(Level.OK, name, f"{model.prefix} are computed once; scores agree{_to(difference)}")


def _capture(model: TorchModel, few: Examples) -> Finding:
    route = find_route(model, few)
    if route.plan is None:
        return Finding(
            Level.WARNING, "capture of layers", route.note, "Many queries take longer; the scores are the same."
        )
    return Finding(Level.OK, "capture of layers", route.note)


def _explanation(model: TorchModel, few: Examples) -> Finding:
    start = time.perf_counter()
    explainer = Explainer(model, few, progress=False)
    scores = explainer.scores(_first(few))
    if not torch.isfinite(scores.values).all():
        raise ModelError("the scores of made-up texts are not all finite numbers. Try --dtype float64.")
    took = time.perf_counter() - start
    return Finding(Level.OK, "an explanation", f"of a made-up text by {len(few)} others: {took:.1f} s, all finite")


def _to(difference: float) -> str:
    return f" to {difference:.1g}" if difference else " in every digit"


def _first(few: Examples) -> Examples:
    """Return the first example as a query."""
    batch = few.batch([0])
    if isinstance(batch.inputs, dict):
        return Examples({**batch.inputs, TARGET_KEY: batch.targets}, source="queries")
    return Examples((*batch.inputs, batch.targets), source="queries")

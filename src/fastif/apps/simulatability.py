r"""Simulatability: do influential examples tell another model what this one will say?

A *simulator* is a model of the same form, trained on the same inputs with the task model's predictions in the place of
their labels. Its loss on a query is that of what the task model predicts there. One gradient step on a training
example, $\theta' = \theta - \eta\, \nabla\ell(z; \theta)$, changes that loss. The paper's finding: where the task model
is right, a step on examples that help it makes the simulator better at imitating it; where it is wrong, a step on those
that harm it. Random examples of each label stand beside them. Knows models and scores; what is made of the losses is in
`simulated.py`.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fastif import memory, ranking
from fastif.apps.answers import Answers, answers, check_labelled
from fastif.apps.relabelled import Relabelled
from fastif.apps.removals import shuffled_by_label
from fastif.apps.retraining import Start
from fastif.apps.simulated import Simulated
from fastif.apps.stack import Parameters, StackTraining, losses_on, member, repeated
from fastif.apps.training_recipe import TrainingRecipe
from fastif.batch import Batch
from fastif.data import Examples
from fastif.errors import ConfigurationError, ConvergenceError, DataError
from fastif.keeping import Keep, nothing_kept
from fastif.model import TorchModel
from fastif.precision import Precision
from fastif.prefix import PrefixCache
from fastif.progress import Progress, silent
from fastif.resources import Resources
from fastif.scores import Scores

Labels = Literal["true", "predicted"]
LOWEST, HIGHEST, RATES = 1e-5, 10**-2.5, 50  # of the paper
POINTS = 10
CPU_BYTES, OF_GPU = 2**26, 0.25  # what simulators after steps of several rates may take


def log_rates(lowest: float = LOWEST, highest: float = HIGHEST, count: int = RATES) -> tuple[float, ...]:
    """Return learning rates at even distances on a log scale.

    >>> log_rates(1e-4, 1e-2, 3)
    (0.0001, 0.001, 0.01)
    """
    if not 0 < lowest < highest < math.inf or count < 2:
        raise ConfigurationError(
            f"learning rates go from one number up to another in at least 2, not from {lowest} to {highest} in {count}."
        )
    steps = torch.linspace(math.log10(lowest), math.log10(highest), count, dtype=torch.float64)
    return tuple(float(f"{10**step:.6g}") for step in steps.tolist())


class Simulation:
    """A simulator of one model, and what steps on training examples do to it.

    Args:
        model: the task model, a `TorchModel` or anything with its methods.
        train: what it was trained on.
        queries: with labels, which say whether the task model is right; the simulator never sees them.
        recipe: how to train the simulator.
        start: what that training begins from, by its seed; the task model's own parameters unless given.
        labels: of the examples that a step is taken on: their own ("true"), or what the task model predicts.
        prefix_cache: where to keep what the model computes below the first trainable layer.
        precision: of matrix products on a GPU.
        progress: called as progress(stage, done, total).
        keep: where pieces of the work are kept.
    """

    def __init__(
        self,
        model: TorchModel,
        train: Any,
        *,
        queries: Any,
        recipe: TrainingRecipe,
        start: Start | None = None,
        labels: Labels = "true",
        prefix_cache: PrefixCache | None = None,
        precision: Precision = "auto",
        progress: Progress = silent,
        keep: Keep = nothing_kept,
    ) -> None:
        if labels not in get_args(Labels):
            raise ConfigurationError(f"labels must be one of {', '.join(get_args(Labels))}, not {labels!r}.")
        self.model, self.labels, self._recipe = model, labels, recipe
        self._resources = Resources(model, precision, None, None)
        self._start: Start = start or (lambda seed: model.parameters)
        self._progress, self._keep = progress, keep
        examples, asked = model.read(train, "train"), model.read(queries, "queries")
        check_labelled(asked)
        self._label_names = examples.label_names
        cache = prefix_cache or PrefixCache()
        with self._resources.working():
            for data in (examples, asked):
                model.check(model.place(data.batch(range(min(len(data), 8)))))
            self._train = cache.view(model, examples, progress=progress)
            self._queries = cache.view(model, asked, progress=progress)
            self._on_train = answers(model, model.parameters, self._train)
            self._on_queries = answers(model, model.parameters, self._queries)
        self._imitated = Relabelled(self._queries, self._on_queries.predicted)
        self._stepped = self._train if labels == "true" else Relabelled(self._train, self._on_train.predicted)

    def simulator(self, seed: int = 0) -> Parameters:
        """Return a model that was trained to say what the task model says of the training inputs."""
        examples = Relabelled(self._train, self._on_train.predicted)
        training = StackTraining(self.model, examples, self._recipe, progress=self._progress)

        def make() -> dict[str, Tensor]:
            return member(training.fit(torch.ones(1, len(examples)), self._start(seed), seed=seed), 0)

        with self._resources.working():
            found = self._keep(f"simulator of seed {seed}", make)
        return {name: found[name].to(tensor) for name, tensor in self.model.parameters.items()}

    def run(
        self, scores: Scores, *, points: int = POINTS, rates: Sequence[float] | None = None, seed: int = 0
    ) -> Simulated:
        """Train the simulator, and take single steps from it on single examples of each kind.

        Args:
            scores: of the queries, by the task model.
            points: examples of each kind.
            rates: learning rates; the paper's 50 unless given.
            seed: of the simulator and of random examples.
        """
        rates = log_rates() if rates is None else tuple(rates)
        if len(scores) != len(self._queries):
            raise DataError(f"there are scores of {len(scores)} queries, and {len(self._queries)} queries.")
        own = torch.stack([self._influential(scores, query, points) for query in range(len(scores))])
        random = self._drawn(points, seed)
        simulator = self.simulator(seed)
        with self._resources.working():
            said = answers(self.model, simulator, self._imitated)
            on_train = answers(self.model, simulator, self._train)
            steps = _Steps(self.model, self._stepped, simulator, rates)
            what = f"{self.labels} labels, {points} {rates} {seed}"
            shared = self._keep(f"random steps, {what}", lambda: self._random(steps, random))["losses"]
            losses = torch.cat([self._own_losses(steps, own, what), shared], dim=1).double()
        if not bool(torch.isfinite(losses).all()):
            raise ConvergenceError(
                f"a step of the simulator led to a loss that is not finite. Lower the highest learning rate, "
                f"{max(rates):g} now."
            )
        return Simulated(
            kinds=("helpful", "harmful", *(f"random, {label}" for label in random)),
            rates=rates,
            losses=losses,
            before=said.losses,
            right=self._on_queries.right,
            train_agreement=_agreement(on_train, self._on_train),
            query_agreement=_agreement(said, self._on_queries),
        )

    def _drawn(self, points: int, seed: int) -> dict[str, list[int]]:
        """Return random examples of each label."""
        orders = shuffled_by_label(self._on_train.targets, seed=seed, label_names=self._label_names)
        for label, order in orders:
            if len(order) < points:
                raise DataError(
                    f"there are {len(order)} training examples of label {label}, and steps on {points} random ones of "
                    "each label are to be taken. Take fewer points."
                )
        return {str(label): order[:points].tolist() for label, order in orders}

    def _influential(self, scores: Scores, query: int, points: int) -> Tensor:
        """Return the numbers of the most helpful and the most harmful examples of a query, (2, points)."""
        found = []
        for kind, rank in (("helpful", ranking.helpful), ("harmful", ranking.harmful)):
            ids = rank(scores.values[query], scores.train_ids[query], points).ids
            if len(ids) < points:
                raise DataError(
                    f"query {query} has {len(ids)} {kind} training examples among those that were scored, and steps on "
                    f"{points} are to be taken. Take fewer points, or leave that query out."
                )
            found.append(ids)
        return torch.stack(found)

    def _own_losses(self, steps: "_Steps", own: Tensor, what: str) -> Tensor:
        """Return the loss of each query after steps on its influential examples, (queries, 2, points, rates)."""
        parts = []
        for query, ids in enumerate(own):
            self._progress("steps of the simulator", query, len(own))

            def make(query: int = query, ids: Tensor = ids) -> dict[str, Tensor]:
                asked = self.model.place(self._imitated.batch([query]))
                after = [steps.after(int(number), asked)[:, 0] for number in ids.flatten()]
                return {"losses": torch.stack(after).unflatten(0, (2, -1))}

            parts.append(self._keep(f"steps for query {query} {ids.tolist()} {what}", make)["losses"])
        self._progress("steps of the simulator", len(own), len(own))
        return torch.stack(parts)

    def _random(self, steps: "_Steps", random: dict[str, list[int]]) -> dict[str, Tensor]:
        """Return the loss of each query after steps on random examples, (queries, labels, points, rates)."""
        asked = self.model.place(self._imitated.batch(self._imitated.everyone()))
        rows = []
        for number, ids in enumerate(random.values()):
            self._progress("steps on random examples", number, len(random))
            rows.append(torch.stack([steps.after(each, asked) for each in ids]))
        self._progress("steps on random examples", len(random), len(random))
        return {"losses": torch.stack(rows).permute(3, 0, 1, 2)}  # from (labels, points, rates, queries)


class _Steps:
    """Single steps from one simulator at all learning rates; simulators after them are written to the same memory."""

    def __init__(self, model: TorchModel, examples: Examples, simulator: Parameters, rates: tuple[float, ...]) -> None:
        self._model, self._examples, self._simulator = model, examples, simulator
        size = sum(tensor.nbytes for tensor in simulator.values())
        at_once = max(1, memory.share(model.device, OF_GPU, CPU_BYTES) // max(1, size))
        self._rates = torch.tensor(rates, dtype=torch.float64).split(at_once)
        self._stack = repeated(simulator, len(self._rates[0]))

    def after(self, number: int, asked: Batch) -> Tensor:
        """Return the losses of placed queries after one step on the example with this number, (rates, queries)."""
        slope = self._slope(number)
        parts = []
        for rates in self._rates:
            stack = {name: tensor[: len(rates)] for name, tensor in self._stack.items()}
            for name, tensor in stack.items():
                each = rates.to(tensor).reshape(-1, *[1] * (tensor.ndim - 1))
                torch.mul(slope[name], -each, out=tensor)
                tensor += self._simulator[name]
            parts.append(losses_on(self._model, stack, asked).cpu())
        return torch.cat(parts)

    def _slope(self, number: int) -> Parameters:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in self._simulator.items()}
        placed = self._model.place(self._examples.batch([number]))
        with torch.inference_mode(False), torch.enable_grad():
            loss = self._model.losses(self._model.outputs(leaves, placed.inputs), placed.targets).sum()
            found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        return dict(zip(leaves, found, strict=True))


def _agreement(one: Answers, other: Answers) -> float:
    """Return the share of examples of which both say the same."""
    return float((one.predicted == other.predicted).double().mean())

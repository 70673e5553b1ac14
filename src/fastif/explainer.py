r"""Explainer: from a model, its training data and some queries to scores. The only orchestrator.

$I(z_i, z_q) = -\nabla m(z_q)^\top (H + \lambda I)^{-1} \nabla \ell(z_i)$, with m the measure of the query (its loss
unless said otherwise) and H the mean curvature over `hessian_data`: gradients of the queries, one block solve, one scan
of the training data.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor

from fastif import rescoring, vectors
from fastif.arguments import check_arguments, check_listing, check_reduce
from fastif.candidates import Candidates, Nearest, Neighbours, SameForAll, Selection, StrongestOnly, candidate_ids
from fastif.candidates.given import given_ids
from fastif.curvature import CurvatureOperator, Kind
from fastif.damping import Damping, choose_damping
from fastif.data import Examples
from fastif.decay import DecayIn, WeightDecay
from fastif.distributed import Team, share_of
from fastif.explanation import Explanation, QueryExplanation, strongest
from fastif.held import held_view
from fastif.keeping import Keep, Tensors, nothing_kept
from fastif.left_out import LeaveOneOut, LeftOut, few_of, joined, left_out, weights_in_mean
from fastif.losses import PerExample, measure_name, resolve_measure
from fastif.model import TorchModel
from fastif.pieces import Pieces
from fastif.precision import Precision, matmuls
from fastif.prefix import PrefixCache
from fastif.progress import Progress, offset, resolve
from fastif.queries import Queries
from fastif.ranking import with_contenders
from fastif.rescoring import rescore_top
from fastif.resources import VECTORS_IN_A_SOLVE, Resources
from fastif.sameness import Unwritten, check_examples
from fastif.scanning import Scanner
from fastif.scores import Scores
from fastif.self_influence import self_influence
from fastif.snapshot import require_unchanged
from fastif.solvers import Auto, Identity, PreparedSolver, Solution, Solver
from fastif.solvers.eigen import EigenSystem
from fastif.solvers.exact import dual_size
from fastif.solvers.lanczos import eigensystem_of
from fastif.turns import in_turn
from fastif.version import __version__

DEFAULT_CACHE = PrefixCache()


class Explainer:
    """Find the training examples that are responsible for a model's behaviour.

    Args:
        model: a `TorchModel`, or anything with its methods.
        train: the training data: a tuple or dictionary of tensors, a torch data set, or `Examples`.
        solver: "auto", or a solver such as `fastif.Exact()` or `fastif.ConjugateGradient()`.
        damping: what is added to the diagonal of H; "auto" finds it. The value used is in `explainer.damping`.
        curvature: "gauss-newton" or "hessian".
        candidates: "all", the numbers of the training examples to score, or `fastif.Nearest(k)` for those near a query.
        hessian_data: the data that H is the mean over: what the model was trained on, where `train` is something else.
        measure: what of the query is explained: its "loss", its "margin", or a function (outputs, targets) -> (batch,).
        weight_decay: c of an objective with c/2 ||theta||^2.
        weight_decay_in: "curvature" alone; "everything": gradients of queries and of training examples have c theta
            too; "matrices": those of matrices have, as in FastIF, whose wd * sum(theta^2) is c = 2 wd (decay.py).
        batch_size: examples (of a mean length) that go through the model together; None finds it. It changes speed and
            memory, not scores.
        progress: show how far long work is; None shows it on a terminal.
        prefix_cache: where to keep what the model computes below the first trainable layer; None computes it each time.
        keep: where pieces of the work are kept, so that a run which was killed can go on: `RunStore.piece`.
        precision: of matrix products: "auto" is tf32 on a GPU and float32 on a CPU; "float16" and "bfloat16" scan in
            half precision on a GPU, "bfloat16" on a CPU that has instructions for it.
        memory_budget: bytes that may be taken on the model's device; None for all that is free.
        team: this process among several that share the training data (distributed/); use it within `led`.

    >>> import torch, fastif
    >>> x, y = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 2.0, 2.7])
    >>> module = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.constant_(module.weight, 0.9)
    >>> explainer = fastif.Explainer(fastif.TorchModel(module, loss="mse_loss"), (x, y), damping=0.1)
    >>> explanation = explainer.explain((torch.tensor([[4.0]]), torch.tensor([4.0])), top=1)
    >>> explanation[0].helpful[0].index
    1
    """

    def __init__(
        self,
        model: TorchModel,
        train: Any,
        *,
        solver: Solver | Literal["auto"] = "auto",
        damping: float | Literal["auto"] = "auto",
        curvature: Kind = "gauss-newton",
        candidates: Candidates = "all",
        hessian_data: Any = None,
        measure: str | PerExample = "loss",
        weight_decay: float = 0.0,
        weight_decay_in: DecayIn = "curvature",
        batch_size: int | None = None,
        progress: bool | Progress | None = None,
        prefix_cache: PrefixCache | None = DEFAULT_CACHE,
        keep: Keep = nothing_kept,
        precision: Precision = "auto",
        memory_budget: int | None = None,
        team: Team | None = None,
    ) -> None:
        check_arguments(model, solver, damping)
        model.require_current()
        self._decay = WeightDecay(weight_decay, weight_decay_in, model)
        self.model = model
        self.train = model.read(train, "train")
        self._resources = Resources(model, precision, memory_budget, batch_size)
        self._solver, self._wanted_damping = solver, damping
        self._nearest = candidates if isinstance(candidates, Nearest) else None
        self._given = None if isinstance(candidates, Nearest) else candidate_ids(candidates, len(self.train))
        self._measure, self._measure_name = resolve_measure(measure, model.losses), measure_name(measure)
        self._progress = resolve(progress)
        hessian = self.train if hessian_data is None else model.read(hessian_data, "hessian_data")
        with self._resources.working():
            for data in {id(each): each for each in (self.train, hessian)}.values():
                check_examples(model, data)
        self.batch_size = self._resources.batch_size(self.train)
        self._snapshot, self._unwritten = model.snapshot(), Unwritten(self.train, hessian)
        self._prefix_cache, self._pieces = prefix_cache, Pieces(keep, may_cut=team is None)
        self._team = team
        self._seen = self._with_prefix(self.train)
        self._scanner = Scanner(
            self._seen,
            self._resources,
            pieces=self._pieces,
            batch_size=self.batch_size,
            progress=self._progress,
            team=team,
            decay=self._decay,
        )
        self._operator = CurvatureOperator(
            model,
            self._seen if hessian is self.train else self._with_prefix(hessian),
            kind=curvature,
            weight_decay=self._decay.in_curvature,
            batch_size=self.batch_size,
            progress=self._progress,
            keep=keep,
            helpers=self._scanner.leader,
        )

    def led(self) -> AbstractContextManager[bool]:
        """Return a context to work in: who leads a team, or has none, gets True; others get False at the end."""
        return self._scanner.led(self._operator, self._nearest)

    def scores(self, queries: Any, *, reduce: Literal["mean"] | None = None) -> Scores:
        """Return the influence of every candidate on every query, or on the mean over them with `reduce="mean"`."""
        check_reduce(reduce)
        return self._scored(self._queries(queries), reduce)[0]

    def explain(self, queries: Any, *, top: int = 10, scores: Literal["all", "strongest"] = "all") -> Explanation:
        """Return the `top` most helpful and most harmful training examples of every query.

        All of them are scored; with `scores="strongest"` what is held does not grow with the training set.
        """
        check_listing(top, scores)
        queries = self._queries(queries)
        table, solutions = self._scored(queries, None, exact_top=int(top), strongest=scores == "strongest")
        samples = [sample for solution in solutions for sample in solution.samples_by_vector()]
        explained = []
        for row, (title, target) in enumerate(queries.titles()):
            errors = partial(self._standard_errors, samples[row])
            helpful, harmful = strongest(table, row, self.train, int(top), errors)
            predicted = queries.examples.targets_are_predictions
            explained.append(QueryExplanation(title, self._measure_name, helpful, harmful, target, predicted))
        return Explanation(explained, table, self.summary())

    def self_influence(self) -> Tensor:
        r"""Return $+\nabla\ell(z_i)^\top (H + \lambda I)^{-1} \nabla\ell(z_i) \ge 0$ for every training example i.

        High values mark examples that the model had to learn by heart: wrong labels, outliers, rare cases. Exact where
        the solver is; otherwise from the strongest eigenvectors of H, see `self_influence_with_error`.
        """
        return self.self_influence_with_error()[0]

    def self_influence_with_error(self) -> tuple[Tensor, Tensor]:
        """Return the self-influence of every training example, and by how much each may be too large.

        With an exact solver the second is zero. With any other, H is taken to be zero outside of its strongest
        eigenvectors (`fastif.Lanczos` sets how many), which costs one pass for all examples, and overstates.
        """
        self._decay.require_loss_alone("self-influence")
        self._check_weights()
        with self._resources.working():
            return self_influence(
                self.model,
                self._seen,
                self._eigensystem,
                self.damping.value or 0.0,
                batch_size=min(self._resources.vectors_at_once, self.batch_size),
                progress=self._progress,
            )

    def left_out(self, summarise: Callable[[LeftOut], Tensors] = LeftOut.everything) -> Tensors:
        """Return what the model would say of each training example had it not been trained on it, from one pass.

        A Newton step away from the trained weights (left_out.py), with the curvature that `self_influence_with_error`
        takes. `summarise` makes tensors by name of some examples, NaN where the outputs of one end before the longest.
        """
        self._decay.require_loss_alone("leaving out")
        self._check_weights()
        with self._resources.working():
            system, damping = self._eigensystem, self.damping.value or 0.0
            few, share = few_of(self.model, self._seen), 1 / self._operator.examples
            leave = LeaveOneOut(self.model, system, damping=damping, share=share, few=few)
            weights = weights_in_mean(self._prepared[0], self._operator, self._seen)

            def make(chunks: Sequence[Tensor], before: int) -> list[Tensors]:
                progress, size = offset(self._progress, before, len(self.train)), self.batch_size
                how: dict[str, Any] = {"summarise": summarise, "batch_size": size, "progress": progress}
                return [left_out(leave, self._seen, ids=ids, weights=weights, **how) for ids in chunks]

            made_from, ids = {"curvature": system.values, "weights": weights}, self._seen.everyone()
            what = f"{summarise.__qualname__} at damping {damping}"
            made = self._pieces.over_examples(what, made_from, ids, total=len(ids), together=0, make=make)
            parts = [part for _, part in made]
        return joined(parts)

    def nearest(self, queries: Any, k: int) -> Tensor:
        """Return the k training examples nearest to each query in the input of the last linear layer, (queries, k).

        Nearness is no influence: this is what influence is to be compared with.
        """
        with self._resources.working():
            placed = self._queries(queries).placed()
            found = self._scanner.index(Nearest(k, by="features")).select(placed, self._measure)
        return found.ids(len(self.train))

    def train_losses(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Return the loss of some training examples."""
        parts, model, ids = [], self.model, given_ids(ids, len(self.train))
        with in_turn(), torch.no_grad():
            for batch in self._seen.batches(self.batch_size, ids):
                placed = model.place(batch)
                parts.append(model.losses(model.outputs(model.parameters, placed.inputs), placed.targets))
        return torch.cat(parts).cpu()

    @property
    def outputs_per_example(self) -> int:
        """How many numbers the model gives for an example."""
        return self._operator.outputs_per_example

    @property
    def damping(self) -> Damping:
        """The damping in use, with what it means for this model."""
        return self._prepared[1]

    @property
    def solver_description(self) -> str:
        """In a few words, which solver is in use and how it works."""
        return self._prepared[0].description

    def summary(self) -> str:
        """Return one line on how scores are made here."""
        kind = "" if self.damping.value is None else f"{self._operator.kind}, "
        decay = self._decay.words(curved=bool(kind))
        return f"{self.model!r}; {kind}{self.solver_description}; {self.damping}{decay and '; '}{decay}."

    def provenance(self) -> dict[str, Any]:
        """Return everything that scores depend on, as JSON can hold it."""
        return {
            "fastif": __version__,
            "torch": torch.__version__,
            "model": repr(self.model),
            "parameters": list(self.model.parameters),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "solver": repr(self._solver),
            "method": self.solver_description,
            **self.damping.as_json(),
            "curvature": self._operator.kind,
            "hessian_data_examples": self._operator.examples,
            "weight_decay": self._decay.amount,
            "weight_decay_in": self._decay.where,
            "measure": self._measure_name,
            "batch_size": self.batch_size,
            "precision": self._resources.precision,
            "memory_budget": self._resources.memory_budget,
            "train_examples": len(self.train),
        }

    @cached_property
    def _prepared(self) -> tuple[PreparedSolver, Damping]:
        """The solver after it has seen H, and the damping, which may depend on H: made when first needed."""
        with self._resources.working():
            solver = Auto() if self._solver == "auto" else self._solver
            used_for = "gradients" if isinstance(solver, Identity) else self._operator.kind
            if used_for not in self.model.right_for:
                self._operator.check_gradients() if used_for == "gradients" else self._operator.check_symmetry()
                self.model.right_for.add(used_for)
            prepared = solver.prepare(self._operator)
            used: CurvatureOperator = getattr(prepared, "operator", self._operator)  # perhaps over fewer examples
            wanted = self._wanted_damping  # what it means may be known for less than what is needed to find one
            known = prepared.spectrum if wanted == "auto" else getattr(prepared, "spectrum_at_hand", prepared.spectrum)
            own, rank = getattr(prepared, "own_damping", None), min(used.size, dual_size(used))
            return prepared, choose_damping(wanted, known(), rank=rank, weight_decay=used.weight_decay, own=own)

    @cached_property
    def _eigensystem(self) -> EigenSystem:
        """Eigenvalues and vectors of H: those of the solver where it has them, else the strongest that fit."""
        rank = max(8, min(64, self._resources.vectors_at_once // 2))
        with self._resources.working():
            return eigensystem_of(self._prepared[0], self._operator, rank)

    def _check_weights(self) -> None:
        """Raise if model or data changed since this explainer was made: what is prepared would not fit them."""
        require_unchanged(self._snapshot, self.model.snapshot())
        self._unwritten.require()

    def _queries(self, queries: Any) -> Queries:
        examples = self.model.read(queries, "queries")
        how: Any = {"at_once": self._resources.vectors_at_once, "by_states": self._prefix_cache is not None}
        return Queries(self.model, examples, (self._measure, self._measure_name), known=self.train, **how)

    def _scored(
        self, queries: Queries, reduce: Literal["mean"] | None, *, exact_top: int = 0, strongest: bool = False
    ) -> tuple[Scores, list[Solution]]:
        self._check_weights()
        values: list[Tensor] = []
        solutions: list[Solution] = []
        notes: list[str] = []
        waiting: list[vectors.Block] = []  # solutions that are scored together: a scan costs little more for many
        with self._resources.working():
            solver, damping = self._prepared
            selection = self._select(queries, reduce)
            if strongest and isinstance(selection, SameForAll):
                ends = partial(self._scanner.scan_ends, notes=notes)
                selection = StrongestOnly(self._given, with_contenders(exact_top), ends)
            most = self._resources.directions_at_once

            def score() -> None:
                first = sum(map(len, values))
                directions = vectors.gather(waiting)
                waiting.clear()
                values.append(-selection.score(directions, partial(self._scanner.scan, notes=notes), first=first))

            held = getattr(solver, "vectors_held", VECTORS_IN_A_SOLVE)
            at_once = self._resources.queries_at_once(len(queries), held)
            gradients_of = self._decay.of_queries(self._operator.jacobian.gradients)
            for block in queries.gradients(gradients_of, mean=reduce == "mean", at_once=at_once):
                if waiting and sum(map(vectors.width, waiting)) + vectors.width(block) > most:
                    score()
                for solution in self._pieces.solve(solver, block, damping.value or 0.0, samples=exact_top > 0):
                    waiting.append(solution.value)
                    solutions.append(solution if exact_top else solution.without_vectors())  # which are read for a list
            del block  # as much as all solutions, if they are one block
            score()
            table = torch.cat(values)
            ids = selection.ids(len(table))
            if exact_top and self._resources.half is not None:
                with matmuls("float32", self.model.device):
                    rescore_top(table, ids, solutions, exact_top, partial(self._scanner.scan, exact=True))
                notes.append(rescoring.NOTE)
        provenance = {
            **self.provenance(),
            "reduce": reduce,
            "queries": len(queries),
            "residuals": [residual for solution in solutions for residual in solution.residuals()],
            "converged": [flag for solution in solutions for flag in solution.converged.tolist()],
            "scoring": list(dict.fromkeys(notes)),
            **selection.provenance(),
        }
        return Scores(table, ids, provenance, copy=False), solutions

    def _standard_errors(self, samples: vectors.Block | None, ids: Tensor) -> list[float] | list[None]:
        """Return the standard errors of some scores of a query, from the spread of a solver's repeats."""
        if samples is None or not len(ids):
            return [None] * len(ids)
        with self._resources.working():
            repeated = self._scanner.scan(samples, ids).double()
        return list((repeated.std(dim=0) / len(repeated) ** 0.5).tolist())

    def _select(self, queries: Queries, reduce: Literal["mean"] | None) -> Selection:
        if self._nearest is not None:
            return self._neighbours.select(queries.placed(), self._measure, reduce=reduce)
        return SameForAll(self._given, len(self.train))

    @cached_property
    def _neighbours(self) -> Neighbours:
        """The index of the training data, made when first needed."""
        assert self._nearest is not None
        return self._scanner.index(self._nearest)

    def _with_prefix(self, data: Examples) -> Examples:
        """Return the data as seen from above the frozen layers, where the model has such and they are kept."""
        if self._prefix_cache is None:
            return data
        model = self._resources.half or self.model
        how: dict[str, Any] = {"batch_size": self.batch_size, "progress": self._progress}
        if self._team is None:
            return self._prefix_cache.view(model, data, **how)
        return held_view(self._prefix_cache, model, data, share_of(self._team, data).of(data.everyone()), **how)

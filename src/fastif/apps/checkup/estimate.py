r"""The seconds and the peak of memory that each stage of an explanation will take, estimated from a few examples.

Time: every kind of step is run on real batches of a typical length, and carried over by padded tokens; steps on the
curvature over those examples alone that the solver takes it over. Memory:

    what the process holds (interpreter, libraries, weights, data) + hidden states, up to their budget
    + batches that stay in place between passes + (what the allocator keeps) x (the peak of living tensors)

The last is counted on a few of the longest examples with few vectors and carried to a whole batch with all vectors, see
`live.py`, or to as many examples as Jacobian rows are made of at one time. Nothing here draws, and nothing knows of
texts: data is `Examples`, of unequal lengths or not.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.apps.checkup.live import ROWS, VECTORS, line_of, peak_at
from fastif.apps.checkup.machine import allocator_share, free_memory, held_memory, matrix_speed
from fastif.apps.checkup.passes import Passes, spread
from fastif.apps.checkup.sample import Sample, Step
from fastif.curvature import RESIDENT_BYTES, SYMMETRY_EXAMPLES
from fastif.data import Examples
from fastif.derivatives import MOST_VECTORS_AT_ONCE, vectors_at_once
from fastif.model import TorchModel
from fastif.prefix import PrefixCache
from fastif.resources import VECTORS_IN_A_SOLVE, Resources
from fastif.scoring.rest import DIRECTIONS_BY_GRADIENT
from fastif.solvers.demand import demand, formed_bytes
from fastif.solvers.exact import Exact, dual_size, memory_needed, rows_are_cheaper
from fastif.solvers.row_products import BYTES
from fastif.solvers.woodbury import VECTORS_HELD, Woodbury

PROBES = 4  # vectors of the search for the damping
# Passes that are usual, and most. The spectrum decides, so that these are the least certain numbers here: MiniLM after
# training on SST-2 took 7, and 17 with the one that checks the residual, at a damping of 1 % of the largest eigenvalue.
SPECTRUM_STEPS, MOST_SPECTRUM_STEPS = 10, 100
ITERATIONS, MOST_ITERATIONS = 20, 170  # the most: damping of 0.1 % of the largest eigenvalue, to 1e-4
TIMED_ROWS = (2, 16)
EIGH_SPEED = 2e9  # m^3 a second of an eigendecomposition; rough


@dataclass(frozen=True)
class Stage:
    """One stage: its seconds (None where not measured), its peak of memory, what it leaves, and a word on both."""

    name: str
    seconds: float | None
    peak_bytes: int | None
    note: str = ""
    at_most_seconds: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What an explanation will take with one choice of parameters."""

    parameters: int
    examples: int
    curvature_examples: int
    queries: int
    queries_at_once: int
    device: str
    states_bytes: int
    states_on_disk: bool
    held_bytes: int
    free_bytes: int
    stages: tuple[Stage, ...]

    @property
    def peak_bytes(self) -> int:
        """The most memory of any stage; on a GPU of that GPU."""
        return max(stage.peak_bytes or 0 for stage in self.stages)

    @property
    def seconds(self) -> float:
        """The time of all stages."""
        return sum(stage.seconds or 0.0 for stage in self.stages)

    @property
    def fits(self) -> bool:
        """Whether the peak is below what is free, with what the process holds already."""
        own = self.held_bytes if self.device == "cpu" else 0
        return self.peak_bytes <= self.free_bytes + own

    def as_json(self) -> dict[str, Any]:
        """Return everything, as JSON can hold it."""
        return {**asdict(self), "seconds": self.seconds, "peak_bytes": self.peak_bytes, "fits": self.fits}


def estimate(
    model: TorchModel,
    train: Any,
    *,
    queries: int = 1,
    batch_size: int = 64,
    cache: PrefixCache | None = None,
    held: int | None = None,
) -> Estimate:
    """Estimate what `Explainer(model, train, batch_size=..., prefix_cache=...).explain(queries)` will take.

    Args:
        model: the model.
        train: the training data, in any form that the model reads.
        queries: how many queries will be explained.
        batch_size: examples that go through the model together.
        cache: where the hidden states of frozen layers go.
        held: bytes that the process holds with the model loaded; those of this process now unless given.
    """
    train = model.read(train, "train")
    with torch.inference_mode(False):
        model.check(model.place(train.batch(range(min(len(train), 8)))))
        made = _Estimator(model, train, queries, batch_size, cache or PrefixCache(), held)
        with made.resources.working():  # in the precision that a run will have
            return made.run()


class _Estimator:
    def __init__(
        self, model: TorchModel, train: Examples, queries: int, batch_size: int, cache: PrefixCache, held: int | None
    ) -> None:
        self.model, self.train, self.queries, self.cache = model, train, queries, cache
        self.on_cpu = model.device.type == "cpu"
        self.held = (held_memory() if held is None else held) if self.on_cpu else _weights(model)
        self.share = allocator_share(model.device)
        self.sample = Sample(model, train, batch_size=batch_size)
        self.curvature = self.sample.curvature
        self.all = Passes(train, train.everyone(), batch_size=batch_size)
        self.part = Passes(train, self.curvature.ids, batch_size=batch_size)
        self.bytes_each = vectors.size(model.parameters) * next(iter(model.parameters.values())).element_size()
        self.in_a_solve = VECTORS_HELD if isinstance(self.sample.solver, Woodbury) else VECTORS_IN_A_SOLVE
        self.resources = Resources(model, "auto", None, batch_size)
        self.width = self.resources.queries_at_once(queries, self.in_a_solve)
        self.states = self._states_bytes()
        self.states_on_disk = self.states > cache.memory or cache.directory is not None
        room = 0.25 * free_memory(model.device)
        self.most_vectors = int(room // (2 * VECTORS_IN_A_SOLVE * self.bytes_each))

    def run(self) -> Estimate:
        return Estimate(
            parameters=vectors.size(self.model.parameters),
            examples=len(self.train),
            curvature_examples=self.curvature.examples,
            queries=self.queries,
            queries_at_once=self.width,
            device=str(self.model.device),
            states_bytes=self.states,
            states_on_disk=self.states_on_disk,
            held_bytes=self.held,
            free_bytes=free_memory(self.model.device),
            stages=tuple(self._stages()),
        )

    def _stages(self) -> Iterator[Stage]:
        sample = self.sample
        if sample.has_prefix:
            where = "a file" if self.states_on_disk else "memory"
            note = f"{self.states / 1e6:,.0f} MB of hidden states in {where}"
            peak = self._with_rest(self._living(sample.encode, self.all.longest), states=not self.states_on_disk)
            yield Stage("encode the frozen layers", self._seconds(sample.encode), peak, note)
        if isinstance(sample.solver, Exact):
            yield self._exact(sample.solver)
        elif isinstance(sample.solver, Woodbury):
            yield self._matrix_of_rows()
            yield self._solve_by_rows()
        else:
            yield self._spectrum()
            yield self._solve()
        together = self.resources.queries_at_once(self.queries, 1)
        living = self._living(sample.scan, self.all.longest, width=together)
        peak = self._with_rest(living, extra=4 * self.queries * len(self.train))
        scanned = self._seconds(sample.scan, width=together, times=math.ceil(self.queries / together))
        yield Stage("scan the training data", scanned, peak, f"{self.queries:,} x {len(self.train):,} scores")
        peak = self._with_rest(self._living(sample.neighbours, self.all.longest))
        yield Stage("nearest neighbours", self._seconds(sample.neighbours), peak)

    @property
    def _blocks(self) -> int:
        return math.ceil(self.queries / self.width)

    # --- the curvature ------------------------------------------------------------------------------------------------

    def _spectrum(self) -> Stage:
        """Return the search for the damping, with what is done once before it."""
        living = [self._curved(self.sample.spectrum, PROBES)]
        if self.most_vectors >= 2:
            checked = self.curvature.subsample(SYMMETRY_EXAMPLES, seed=0).ids
            some = checked[self.train.by_length(checked)]
            living.append(self._living(self.sample.product, some, width=2))
            if self.sample.needs_route(self.width):
                living.append(self._search_for_rows())
        passes = (SPECTRUM_STEPS, MOST_SPECTRUM_STEPS)
        return self._iterative("damping from the spectrum", max(living), passes, PROBES, 1)

    def _solve(self) -> Stage:
        """Return the solve; vectors that have converged leave it, and few of them may take the other route."""
        living = self._curved(self.sample.solve, self.width)
        narrow = self.width - 1
        if self.curvature.way(self.width) == "rows" and self.most_vectors >= 1:
            while narrow > 0 and self.curvature.way(narrow) == "rows":
                narrow -= 1
            waiting = 2 * (self.width - narrow) * self.bytes_each
            living = max(living, waiting + self._curved(self.sample.solve, narrow) if narrow else 0.0)
        passes = (ITERATIONS, MOST_ITERATIONS)
        return self._iterative("solve for the queries", living, passes, self.width, self._blocks)

    def _iterative(self, name: str, living: float, passes: tuple[int, int], width: int, blocks: int) -> Stage:
        usual, most = passes
        product = partial(self.sample.product, way=self.curvature.way(width))
        one = self._seconds(product, width=width, times=blocks, over=self.part)
        words = f"{width} vector{'' if width == 1 else 's'} at once"
        words += f", {blocks:,} times" if blocks > 1 else ""
        every, some = len(self.train), self.curvature.examples
        over = "the data" if some == every else f"a random {some:,} of {every:,} examples"
        note = f"about {usual} passes (at most some {most}) over {over}, {words}"
        peak = self._with_rest(living, extra=self._resident_bytes())
        return Stage(name, None if one is None else one * usual, peak, note, None if one is None else one * most)

    def _exact(self, solver: Exact) -> Stage:
        operator = self.curvature
        side = dual_size(operator) if solver.form == "dual" else operator.size
        if solver.form == "dual" or rows_are_cheaper(operator):
            one = self._seconds(self.sample.rows, width=1)
            algebra = side * dual_size(operator) * operator.size / matrix_speed(self.model.device, self.model.dtype)
        else:
            columns = min(side, MOST_VECTORS_AT_ONCE)
            one = self._seconds(self.sample.product, width=columns, times=math.ceil(side / columns))
            algebra = 0.0
        seconds = None if one is None else one + algebra + side**3 / EIGH_SPEED
        peak = self._with_rest(memory_needed(operator, solver.form), extra=self._resident_bytes())
        return Stage("exact curvature and solve", seconds, peak, f"a matrix of {side:,} x {side:,}, {solver.form} form")

    def _matrix_of_rows(self) -> Stage:
        """Return the making of the matrix of Jacobian rows, which are kept from there on."""
        needed, rows = demand(self.curvature), dual_size(self.curvature)
        one = self._seconds(self.sample.keep, width=1, over=self.part)
        algebra = needed.products / 2 / matrix_speed(self.model.device, self.model.dtype) + rows**3 / EIGH_SPEED
        seconds = None if one is None else one + algebra
        matrix = self._with_rest(0.0, extra=self._resident_bytes() + needed.bytes + BYTES + 4 * 8 * rows**2)
        peak = max(matrix, self._with_rest(self._search_for_rows()))
        note = (
            f"{rows:,} Jacobian rows of {self.curvature.examples:,} examples, {needed.bytes / 1e6:,.0f} MB of factors"
        )
        return Stage("curvature matrix, damping", seconds, peak, note)

    def _solve_by_rows(self) -> Stage:
        needed, rows = demand(self.curvature), dual_size(self.curvature)
        both = self._seconds(self.sample.solve_by_rows, width=self.width, times=self._blocks, over=self.part)
        kept = self._seconds(self.sample.keep, width=1, times=self._blocks, over=self.part)
        seconds = None if both is None or kept is None else max(0.0, both - kept)
        one = self.width * self.bytes_each
        formed = formed_bytes(self.curvature, self.width, len(self.part.longest))
        in_place = self._resident_bytes() + needed.bytes + 2 * 8 * rows**2
        peak = self._with_rest(self.in_a_solve * one, extra=in_place + formed)
        words = f"{self.width} vector{'' if self.width == 1 else 's'} at once"
        return Stage("solve for the queries", seconds, peak, f"three products with the rows, {words}")

    def _search_for_rows(self) -> float:
        """Return the living bytes of the search for a way to Jacobian rows, which compares whole gradients."""
        return float(line_of(self.sample.route, self.model.device.type).max(initial=0.0))

    def _curved(self, step: Callable[..., object], width: int) -> float:
        """Return the living bytes of a step on the curvature, by the route that it takes for so many vectors."""
        way = self.curvature.way(width)
        at_once = self.curvature.jacobian.examples_at_once if way == "rows" else None
        return self._living(partial(step, way=way), self.part.longest, width=width, at_once=at_once)

    # --- memory -------------------------------------------------------------------------------------------------------

    def _living(self, step: Step, batch: Tensor, *, width: int = 0, at_once: int | None = None) -> float:
        """Return the bytes of tensors at the worst moment of a step on a batch with so many vectors (0: it has none).

        `at_once`: how many examples go together, where the engine cuts batches. Vectors so large that none can be tried
        here are counted alone.
        """
        if width and self.most_vectors < 1:
            return VECTORS_IN_A_SOLVE * width * self.bytes_each
        together = len(batch) if at_once is None else min(at_once, len(batch))
        lines = {}
        for rows in sorted({min(rows, together) for rows in ROWS}):
            some = spread(batch, rows)
            self.sample.seen.batch(some)  # the frozen layers of the sample do not count
            for count in self._widths(width):
                if step == self.sample.scan:
                    self.sample.choice(count)
                lines[rows, count] = line_of(partial(step, some, count), self.model.device.type)
        tangents = max(1, width)
        if at_once is None and width:
            tangents = min(width, vectors_at_once(self.model, self.model.place(self.train.batch(batch))))
        return peak_at(lines, together, max(1, width), tangents)

    def _widths(self, width: int) -> tuple[int, ...]:
        """Return with how many vectors to try a step, of which so many take the same way through the engine."""
        two = (DIRECTIONS_BY_GRADIENT, DIRECTIONS_BY_GRADIENT + 1) if width >= DIRECTIONS_BY_GRADIENT else VECTORS
        if width <= 1 or self.most_vectors < max(two):  # large vectors: one is counted, and taken times their number
            return (1,)
        return two

    def _with_rest(self, living: float, *, extra: float = 0.0, states: bool = True) -> int:
        kept = self.states if states and self.on_cpu and not self.states_on_disk else 0
        return int(self.held + kept + extra + self.share * living)

    def _states_bytes(self) -> int:
        if not self.sample.has_prefix:
            return 0
        states = self.sample.seen.states.batch(self.all.shortest)  # type: ignore[attr-defined]
        each = states[0].numel() // (1 if self.train.lengths is None else states.shape[1])
        size = 2 if self.cache.storage == "bfloat16" else states.element_size()
        rows = len(self.train) if self.train.lengths is None else int(self.train.lengths.sum())
        return int(rows * each * size)

    def _resident_bytes(self) -> float:
        """Return the bytes of batches that stay in place between passes, padded and with their states."""
        placed = self.model.place(self.sample.seen.batch(self.part.shortest))
        one = sum(tensor.nbytes for tensor in placed.tensors().values())
        return min(RESIDENT_BYTES, one / self.part.padded(self.part.shortest) * self.part.tokens)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _seconds(self, step: Step, *, width: int = 0, times: int = 1, over: Passes | None = None) -> float | None:
        """Return the seconds of one pass over all data, or a part, with so many vectors, times a number.

        Timed on a few and on more examples: what does not grow with them is paid for every batch; of a scan, once.
        """
        used = min(max(1, width), max(1, self.most_vectors))
        if self.most_vectors < 1 and width:
            return None
        over = over or self.all
        few, more = (over.typical[:rows] for rows in TIMED_ROWS)
        self.sample.seconds(step, few, used)  # what torch makes once does not count
        first, second = (self.sample.seconds(step, ids, used) for ids in (few, more))
        small, large = over.padded(few), over.padded(more)
        slope = max(0.0, second - first) / (large - small) if large > small else first / small
        fixed = max(0.0, second - slope * large)
        starts = 1 if step == self.sample.scan else len(over.batches)
        return times * (max(1, width) / used) * (fixed * starts + slope * over.tokens)


def _weights(model: TorchModel) -> int:
    """Return the bytes of all weights, which is what a GPU holds before anything is computed."""
    return sum(tensor.nbytes for tensor in (*model.module.parameters(), *model.module.buffers()))

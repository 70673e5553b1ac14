r"""The seconds and the peak of memory that each stage of an explanation will take, estimated from a few examples.

Time: every kind of step is run on real batches of a typical length, and carried over by padded tokens. Memory:

    what the process holds (interpreter, libraries, weights, data) + hidden states, up to their budget
    + batches that stay in place between passes + (what the allocator keeps) x (the peak of living tensors)

The last is counted on a few of the longest examples with few vectors and carried to a whole batch with all vectors, see
`live.py`. Nothing here draws, and nothing knows of texts: data is `Examples`, of unequal lengths or not.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fastif import vectors
from fastif.apps.checkup.live import ROWS, VECTORS, line_of, peak_at
from fastif.apps.checkup.machine import allocator_share, free_memory, held_memory
from fastif.apps.checkup.sample import Sample, Step
from fastif.curvature import RESIDENT_BYTES
from fastif.data import Examples
from fastif.derivatives import vectors_at_once
from fastif.explainer import BLOCK_BYTES, MOST_QUERIES_AT_ONCE, VECTORS_IN_A_SOLVE
from fastif.model import TorchModel
from fastif.prefix import PrefixCache
from fastif.solvers.auto import choose_solver
from fastif.solvers.exact import Exact, dual_size, memory_needed

PROBES = 4  # vectors of the search for the damping
# Passes that are usual: the spectrum decides, so that these are the least certain numbers here.
SPECTRUM_STEPS, MOST_SPECTRUM_STEPS = 15, 100
ITERATIONS, MOST_ITERATIONS = 20, 170  # the most: damping of 0.1 % of the largest eigenvalue, to 1e-4
TIMED_ROWS = (2, 16)
EIGH_SPEED = 2e9  # m^3 a second, of an eigendecomposition on a CPU; rough


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
    train: Examples,
    *,
    queries: int = 1,
    batch_size: int = 64,
    cache: PrefixCache | None = None,
    held: int | None = None,
) -> Estimate:
    """Estimate what `Explainer(model, train, batch_size=..., prefix_cache=...).explain(queries)` will take.

    Args:
        model: the model.
        train: the training data.
        queries: how many queries will be explained.
        batch_size: examples that go through the model together.
        cache: where the hidden states of frozen layers go.
        held: bytes that the process holds with the model loaded; those of this process now unless given.
    """
    with torch.inference_mode(False):
        model.check(model.place(train.batch(range(min(len(train), 8)))))
        made = _Estimator(model, train, queries, batch_size, cache or PrefixCache(), held)
        return made.run()


class _Estimator:
    def __init__(
        self, model: TorchModel, train: Examples, queries: int, batch_size: int, cache: PrefixCache, held: int | None
    ) -> None:
        self.model, self.train, self.queries, self.cache = model, train, queries, cache
        self.on_cpu = model.device.type == "cpu"
        self.held = (held_memory() if held is None else held) if self.on_cpu else _weights(model)
        self.share = allocator_share(model.device)
        self.sample = Sample(model, train)
        order = train.everyone()[train.by_length(train.everyone())]
        self.batches = order.split(batch_size)
        self.bytes_each = vectors.size(model.parameters) * next(iter(model.parameters.values())).element_size()
        at_once = BLOCK_BYTES // (VECTORS_IN_A_SOLVE * self.bytes_each)
        self.width = max(1, min(queries, MOST_QUERIES_AT_ONCE, at_once))
        self.lengths = torch.ones(len(train), dtype=torch.int64) if train.lengths is None else train.lengths
        self.typical = self.batches[_middle([self._padded(ids) for ids in self.batches])]
        self.states = self._states_bytes()
        self.states_on_disk = self.states > cache.memory or cache.directory is not None
        room = 0.25 * free_memory(model.device)
        self.most_vectors = int(room // (2 * VECTORS_IN_A_SOLVE * self.bytes_each))

    def run(self) -> Estimate:
        return Estimate(
            parameters=vectors.size(self.model.parameters),
            examples=len(self.train),
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
            peak = self._peak(sample.encode, 1, states=not self.states_on_disk)
            yield Stage("encode the frozen layers", self._seconds(sample.encode, 1, 1), peak, note)
        solver = choose_solver(sample.operator(self.train.everyone()))
        if isinstance(solver, Exact):
            yield self._exact(solver)
        else:
            yield self._iterative("damping from the spectrum", sample.spectrum, PROBES, 1)
            yield self._iterative("solve for the queries", sample.solve, self.width, self._blocks)
        peak = self._peak(sample.scan, self.width, extra=4 * self.queries * len(self.train))
        scanned = self._seconds(sample.scan, self.width, self._blocks)
        yield Stage("scan the training data", scanned, peak, f"{self.queries:,} x {len(self.train):,} scores")
        yield Stage("nearest neighbours", self._seconds(sample.neighbours, 1, 1), self._peak(sample.neighbours, 1))

    @property
    def _blocks(self) -> int:
        return math.ceil(self.queries / self.width)

    def _iterative(self, name: str, step: Step, width: int, blocks: int) -> Stage:
        searching = step == self.sample.spectrum
        usual, most = (SPECTRUM_STEPS, MOST_SPECTRUM_STEPS) if searching else (ITERATIONS, MOST_ITERATIONS)
        one = self._seconds(self.sample.product, width, blocks)
        words = f"{width} vector{'' if width == 1 else 's'} at once"
        words += f", {blocks:,} times" if blocks > 1 else ""
        note = f"about {usual} passes over the data (at most some {most}), {words}"
        extra = min(RESIDENT_BYTES, self._placed_bytes())  # batches are kept in place while they are few
        peak = self._peak(step, width, extra=extra)
        return Stage(name, None if one is None else one * usual, peak, note, None if one is None else one * most)

    def _exact(self, solver: Exact) -> Stage:
        operator = self.sample.operator(self.train.everyone())
        side = dual_size(operator) if solver.form == "dual" else operator.size
        passes = operator.outputs_per_example if solver.form == "dual" else operator.size
        one = self._seconds(self.sample.product, 1, passes)
        seconds = None if one is None else one + side**3 / EIGH_SPEED
        peak = self._with_rest(memory_needed(operator, solver.form), min(RESIDENT_BYTES, self._placed_bytes()))
        return Stage("exact curvature and solve", seconds, peak, f"a matrix of {side:,} x {side:,}, {solver.form} form")

    # --- memory -------------------------------------------------------------------------------------------------------

    def _peak(self, step: Step, width: int, *, extra: float = 0.0, states: bool = True) -> int | None:
        """Return the peak of a step on the longest batch with so many vectors; None where no sample of it fits."""
        plain = step in (self.sample.encode, self.sample.neighbours)
        if self.most_vectors < 1 and not plain:
            return self._with_rest(VECTORS_IN_A_SOLVE * width * self.bytes_each, extra)
        # large vectors: one is counted, and taken times their number
        widths = (1,) if plain or width == 1 or self.most_vectors < max(VECTORS) else VECTORS
        longest = self.batches[0]
        lines = {}
        for rows in sorted({min(rows, len(longest)) for rows in ROWS}):
            some = _spread(longest, rows)
            self.sample.seen.batch(some)  # the frozen layers of the sample do not count
            for count in widths:
                lines[rows, count] = line_of(partial(step, some, count), self.model.device.type)
        tangents = 1 if plain else min(width, vectors_at_once(self.model, self.train.batch(longest)))
        return self._with_rest(peak_at(lines, len(longest), 1 if plain else width, tangents), extra, states)

    def _with_rest(self, living: float, extra: float, states: bool = True) -> int:
        kept = self.states if states and self.on_cpu and not self.states_on_disk else 0
        return int(self.held + kept + extra + self.share * living)

    def _states_bytes(self) -> int:
        if not self.sample.has_prefix:
            return 0
        states = self.sample.seen.states.batch(self.batches[-1][:1])  # type: ignore[attr-defined]
        each = states[0].numel() // (1 if self.train.lengths is None else states.shape[1])
        size = 2 if self.cache.storage == "bfloat16" else states.element_size()
        return int(int(self.lengths.sum()) * each * size)

    def _placed_bytes(self) -> float:
        """Return the bytes of all batches, padded and with their states."""
        ids = self.batches[-1][:1]
        placed = self.model.place(self.sample.seen.batch(ids))
        one = sum(tensor.nbytes for tensor in placed.tensors().values())
        return one / self._padded(ids) * sum(map(self._padded, self.batches))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _seconds(self, step: Step, width: int, times: int) -> float | None:
        """Return the seconds of one pass over all data with so many vectors, times a number.

        Timed on a few and on more examples: what does not grow with them is paid for every batch; of a scan, once.
        """
        used = min(width, max(1, self.most_vectors))
        if self.most_vectors < 1 and step not in (self.sample.encode, self.sample.neighbours):
            return None
        few, more = (self.typical[:rows] for rows in TIMED_ROWS)
        self.sample.seconds(step, few, used)  # what torch makes once does not count
        first, second = (self.sample.seconds(step, ids, used) for ids in (few, more))
        small, large = self._padded(few), self._padded(more)
        slope = max(0.0, second - first) / (large - small) if large > small else first / small
        fixed = max(0.0, second - slope * large)
        starts = 1 if step == self.sample.scan else len(self.batches)
        return times * (width / used) * (fixed * starts + slope * sum(map(self._padded, self.batches)))

    def _padded(self, ids: Tensor) -> int:
        return len(ids) * int(self.lengths[ids].max())


def _spread(ids: Tensor, count: int) -> Tensor:
    """Return some of a batch from its longest to its shortest, so that they are padded as it is."""
    return ids[torch.linspace(0, len(ids) - 1, count).round().long()]


def _middle(sizes: list[int]) -> int:
    """Return the number of the batch in which half of all padded tokens are passed."""
    half, done = sum(sizes) / 2, 0
    for number, size in enumerate(sizes):
        done += size
        if done >= half:
            return number
    return 0


def _weights(model: TorchModel) -> int:
    """Return the bytes of all weights, which is what a GPU holds before anything is computed."""
    return sum(tensor.nbytes for tensor in (*model.module.parameters(), *model.module.buffers()))

"""What to change, when memory is short or time is long."""

from collections.abc import Iterator

from fastif.apps.checkup.estimate import Estimate
from fastif.apps.checkup.machine import THRESHOLD

LONG = 600.0  # seconds
SCARCE = 0.8  # of what is free
FEWER = "Influence through fewer parameters takes less: a larger --freeze-layers, or --trainable with the last layer."


def advise(made: Estimate, *, allocator: bool = False) -> list[str]:
    """Return what to change, the most useful first; nothing where all is well.

    `allocator`: whether a fixed threshold of the C library's allocator would lower the peak.
    """
    return [*_memory(made, allocator), *_time(made), *_always(made)]


def _memory(made: Estimate, allocator: bool) -> Iterator[str]:
    own = made.held_bytes if made.device == "cpu" else 0
    if made.peak_bytes <= SCARCE * (made.free_bytes + own):
        return
    worst = max(made.stages, key=lambda stage: stage.peak_bytes or 0).name
    short = "is more than" if not made.fits else "is close to all of"
    yield (
        f"The peak of {made.peak_bytes / 1e9:.1f} GB ({worst}) {short} the {(made.free_bytes + own) / 1e9:.1f} GB that "
        "are free."
    )
    yield FEWER
    yield "A smaller --batch-size takes less for activations; the scores stay the same."
    if allocator:
        yield f"{THRESHOLD}=131072 in the environment makes the C library return memory sooner: about a third less."
    if made.states_bytes > 0.2 * made.peak_bytes and not made.states_on_disk:
        yield "--dtype bfloat16 halves the hidden states in memory; --cache DIR keeps them on disk."
    if made.queries_at_once > 1:
        yield "Fewer queries at once (--limit) take less."


def _time(made: Estimate) -> Iterator[str]:
    if made.seconds <= LONG:
        return
    slow = max(made.stages, key=lambda stage: stage.seconds or 0.0)
    yield f"About {made.seconds / 60:,.0f} minutes, most of them in: {slow.name}."
    if made.device == "cpu":
        yield "A GPU (--device cuda) is the largest gain for models of this kind."
    if slow.name == "scan the training data":
        yield "From Python, candidates=fastif.Nearest(1000) scores the nearest examples alone."
    else:
        yield FEWER


def _always(made: Estimate) -> Iterator[str]:
    if any(stage.seconds is None for stage in made.stages):
        yield "Some stages could not be tried, as even a small sample of them needs too much memory here."

"""The iteration once for each slice of the anchors: which slice has to be looked at to mend which.

The paper's three by three on HANS: influence is computed for the anchors of one slice, and measured on all of them.
What is known of the model and the pool is found once for all. Knows iterations and slices.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastif.apps.iteration.courses import Courses
from fastif.apps.iteration.material import only_slice
from fastif.apps.iteration.plan import KINDS, Kind, Plan
from fastif.apps.iteration.walking import Iteration, Sets
from fastif.errors import ConfigurationError
from fastif.keeping import Keep, Tensors, nothing_kept
from fastif.model import TorchModel
from fastif.progress import Progress, silent


def by_anchor_slice(
    model: TorchModel,
    sets: Sets,
    *,
    plan: Plan | None = None,
    kinds: Sequence[Kind] = KINDS,
    only: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    keep: Keep = nothing_kept,
    progress: Progress = silent,
) -> dict[str, Courses]:
    """Walk once for each slice of the anchors, in the order of their names; all else is the same for all.

    Held-out anchors must have the same slices, if there are such. `only` some of the slices are walked for, if given.
    """
    whole = Iteration(model, sets, plan=plan, options=options, progress=progress)
    seen = whole.sets
    if seen.anchors.slices is None:
        raise ConfigurationError("the anchors have no slices. Give them as fastif.Examples(..., slices=...).")
    found: dict[str, Courses] = {}
    for name in sorted(set(seen.anchors.slices if only is None else only)):
        held_out = None if seen.held_out is None else only_slice(seen.held_out, name)
        found[name] = whole.for_anchors(only_slice(seen.anchors, name), held_out, _named(keep, name)).run(kinds)
    return found


def _named(keep: Keep, slice_name: str) -> Keep:
    """Return a keep whose pieces are known by the slice too."""

    def kept(name: str, make: Callable[[], Tensors]) -> Tensors:
        return keep(f"anchors of {slice_name}: {name}", make)

    return kept

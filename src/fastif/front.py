"""The frozen front of an `nn.Sequential`: the parts before the first chosen parameter, which need to run only once.

Knows modules, and nothing of data or of losses.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
from torch import Tensor, nn

from fastif.keeping import content_sha256

PLAIN = (bool, int, float, complex, str, bytes, type(None))
OF_TORCH = (*vars(nn.Module()),)  # what every module has: its mode, its hooks, and tensors, which are hashed elsewhere


class FrozenFront:
    """The first `count` parts of a sequence, and the rest; both share their parts with it, under the same names."""

    def __init__(self, module: nn.Sequential, count: int) -> None:
        parts = list(module._modules.items())  # named_children() would leave out a part that is used twice
        self.below = nn.Sequential(OrderedDict(parts[:count]))
        self.above = nn.Sequential(OrderedDict(parts[count:]))
        self.words = f"the first {count} of {len(parts)} parts"

    @classmethod
    def of(cls, module: nn.Module, chosen: Iterable[str]) -> "FrozenFront | None":
        """Return the front if the module is a plain sequence that starts with weights that are not chosen."""
        if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
            return None
        if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:
            return None  # something is done to what goes in or comes out
        names = dict(module.named_parameters(remove_duplicate=False))
        wanted = {id(names[name]) for name in chosen}
        first = (place for place, part in enumerate(module) if wanted & {id(each) for each in part.parameters()})
        front = cls(module, next(first, 0))
        tensors = [
            {id(each) for each in chain(part.parameters(), part.buffers())} for part in (front.below, front.above)
        ]
        if not any(True for _ in front.below.parameters()) or tensors[0] & tensors[1]:
            return None  # nothing to save, or weights that stand on both sides
        return front

    def settings(self) -> str:
        """Return a hash of what the parts of the front are and how they are set, other than their tensors.

        Of functions and objects it has the names alone: what they do is seen in the states that they give (prefix.py).
        """
        digest = hashlib.sha256()
        for name, part in self.below.named_modules():
            set_to = {key: _in_words(value) for key, value in vars(part).items() if key not in OF_TORCH}
            digest.update(f"{name} {type(part).__module__}.{type(part).__qualname__} {sorted(set_to.items())}".encode())
        return digest.hexdigest()


def _in_words(value: Any) -> str:
    """Return what a setting is known by, the same in every process."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return content_sha256({"": value})
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(_in_words, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{_in_words(key)}: {_in_words(each)}' for key, each in value.items())})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(map(_in_words, value)))})"
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

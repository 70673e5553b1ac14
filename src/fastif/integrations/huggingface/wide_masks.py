"""Masks in the form that attention takes them in, so that transformers has nothing left to find out about them.

Of a mask with one row for each text, transformers asks whether anything is masked at all: a GPU has to stop and be
waited for, a CUDA graph cannot hold that, and `vmap` cannot either. But transformers takes such a mask as final, so
that it can be given only where every token looks at all the others: not where attention looks back alone, or not far.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

WideMask = Callable[[Tensor, Tensor], Tensor]
NOT_FAR = re.compile(
    r"window|local_attention|attention_chunk"
)  # settings of models whose tokens look at near ones alone
LOOKING_BACK = ("is_causal", "is_decoder")


def kept(mask: Tensor, states: Tensor) -> Tensor:
    """Return a mask that is true where something may be looked at, as fused attention takes it."""
    return mask[:, None, None].bool()


def added(mask: Tensor, states: Tensor) -> Tensor:
    """Return what is added to the scores of attention, as plain attention does it: the lowest number where masked.

    >>> added(torch.tensor([[1, 0]]), torch.zeros(1)).tolist()
    [[[[-0.0, -3.4028234663852886e+38]]]]
    """
    lowest = torch.finfo(states.dtype).min
    return (1 - mask[:, None, None].to(states.dtype)) * lowest


WIDE_MASKS: tuple[WideMask, ...] = (kept, added)


def may_be_wide(module: nn.Module) -> bool:
    """Return whether nothing in a model or its settings says that a token does not look at all the others.

    That nothing says it proves nothing: outputs have to be compared too.
    """
    return not any(_is_narrow(name, value) for name, value in _settings(module))


def _settings(module: nn.Module) -> Iterator[tuple[str, Any]]:
    seen = set()
    for part in module.modules():
        yield from ((name, value) for name, value in vars(part).items() if not name.startswith("_"))
        config = getattr(part, "config", None)
        if config is not None and id(config) not in seen and hasattr(config, "to_dict"):
            seen.add(id(config))
            yield from config.to_dict().items()


def _is_narrow(name: str, value: Any) -> bool:
    if name in LOOKING_BACK:
        return value is True
    if name == "layer_types":
        return any(each != "full_attention" for each in value or ())
    if NOT_FAR.search(name) is None:
        return False
    numbers = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(each, int) and each > 0 for each in numbers)

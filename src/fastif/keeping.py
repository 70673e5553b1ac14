"""How long work is kept piece by piece, so that what was killed can go on.

Work that can take long accepts a `Keep` and hands it each piece by name, with a function that makes it: a run
directory (store.py) looks the piece up, and makes and keeps it only if it is not there. A name says what a piece
depends on beside what is fixed for the whole run. Knows tensors by name, and no files.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Keep = Callable[[str, Callable[[], Tensors]], Tensors]


def nothing_kept(name: str, make: Callable[[], Tensors]) -> Tensors:
    """Make the piece, and keep nothing.

    >>> nothing_kept("one", lambda: {"x": torch.ones(1)})
    {'x': tensor([1.])}
    """
    return make()


def content_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of names, dtypes, shapes and numbers, in hexadecimal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def to_tensor(content: Any) -> Tensor:
    """Return what JSON can hold as bytes, so that it can be kept.

    >>> from_tensor(to_tensor({"seconds": 1.5}))
    {'seconds': 1.5}
    """
    return torch.frombuffer(bytearray(json.dumps(content, allow_nan=False).encode()), dtype=torch.uint8)


def from_tensor(kept: Tensor) -> Any:
    """Return what `to_tensor` took apart."""
    return json.loads(kept.numpy().tobytes())

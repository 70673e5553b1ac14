"""One form for the server and for the single file: a JSON head and typed arrays behind it, little-endian, aligned.

    4 bytes   the length of the head
    head      JSON, with `arrays`: name -> {type, start, length}, where `start` counts bytes from the first array
    padding   to a multiple of 8
    arrays    one after another, each on a multiple of 8

A page reads the arrays as views, without a copy and without parsing numbers. Knows bytes, and not what they mean.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32}
ALIGNED = 8


def pack(head: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return a head and arrays as bytes.

    >>> head, arrays = unpack(pack({"a": 1}, {"x": np.array([1.5, 2.5], dtype=np.float32)}))
    >>> head["a"], arrays["x"].tolist()
    (1, [1.5, 2.5])
    """
    places: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    start = 0
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str[1:]
        if kind not in TYPES:
            raise TypeError(f"{name} is of {array.dtype}, and a page reads {', '.join(TYPES)} alone")
        content = _padded(np.ascontiguousarray(array).astype(f"<{kind}", copy=False).tobytes())
        places[name] = {"type": kind, "start": start, "length": int(array.size)}
        parts.append(content)
        start += len(content)
    words = json.dumps({**head, "arrays": places}, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return _padded(struct.pack("<I", len(words)) + words) + b"".join(parts)


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what `pack` was given."""
    (length,) = struct.unpack_from("<I", content)
    head: dict[str, Any] = json.loads(content[4 : 4 + length])
    first = -(-(4 + length) // ALIGNED) * ALIGNED
    arrays: dict[str, Array] = {
        name: np.frombuffer(content, f"<{place['type']}", count=place["length"], offset=first + place["start"])
        for name, place in head.pop("arrays").items()
    }
    return head, arrays


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % ALIGNED)

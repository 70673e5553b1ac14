"""`show`: the explorer of a run inside a notebook, loaded only when it is called, so that the core stays light."""

import importlib
import os
from typing import Any


def show(run: str | os.PathLike[str], *, height: int = 900, redact: bool = False) -> Any:
    """Show the explorer of a finished run in a notebook: which training examples are behind each prediction.

    Args:
        run: the directory that `fastif explain -o` wrote.
        height: of the frame, in pixels.
        redact: whether to leave the training texts out of the notebook.
    """
    # by its name, as the explorer stands above everything that a user imports
    return importlib.import_module("fastif.web.notebook").frame(run, height=height, redact=redact)

"""The explorer inside a notebook: the single file in a frame of its own, which cannot reach the notebook."""

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from fastif.web.page import single_file
from fastif.web.payload import make_payload
from fastif.web.source import read_run


@dataclass(frozen=True)
class Frame:
    """What a notebook shows; `page` is the whole page."""

    page: str
    height: int

    def _repr_html_(self) -> str:
        # scripts, but not the notebook's origin: texts of the data are strangers' words
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="fastif explorer" width="100%" '
            f'height="{self.height}" style="border:0" srcdoc="{escape(self.page)}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"The explorer of a run, {len(self.page) / 1e6:.1f} MB; a notebook shows it"


def frame(run: str | os.PathLike[str], *, height: int, redact: bool) -> Frame:
    """Return the frame of a run."""
    return Frame(single_file(make_payload(read_run(Path(run)), redact=redact).as_bytes()), height)

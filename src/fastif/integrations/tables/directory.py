"""Where real data is, for those who have some: a directory named by the environment variable FASTIF_DATA."""

import os
from pathlib import Path

from fastif.errors import StoredFileError


def data_directory() -> Path | None:
    """Return where real data is, by the environment variable FASTIF_DATA; None if it is not set."""
    named = os.environ.get("FASTIF_DATA")
    if not named:
        return None
    if not Path(named).is_dir():
        raise StoredFileError(
            f"FASTIF_DATA is {named}, which is no directory. Name one with parquet files, or unset it."
        )
    return Path(named)

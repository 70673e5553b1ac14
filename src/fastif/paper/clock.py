"""Clock: how long an experiment took, over all starts of it. Knows a file, and nothing of what is measured.

What is noted is the time up to the last part that a start finished: what a killed process did after that was lost, and
is done again by the next start, which counts it.
"""

import json
import time
from pathlib import Path
from typing import Any

from fastif.files import replacing


class Clock:
    """Goes on from what earlier starts noted in a file.

    Args:
        file: where the time is kept until the experiment is finished.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._started = file, time.perf_counter()
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
            self._seconds, self._starts = float(before["seconds"]), int(before["starts"])
        except (OSError, ValueError, KeyError, TypeError):  # there was no start before, or nothing is known of it
            self._seconds, self._starts = 0.0, 0

    def as_json(self) -> dict[str, Any]:
        """Return the seconds of all starts until now, this one among them, and how many there were."""
        return {"seconds": self._seconds + time.perf_counter() - self._started, "starts": self._starts + 1}

    def note(self) -> None:
        """Keep the time until now."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self._file) as temporary:
            temporary.write_text(json.dumps(self.as_json()), encoding="utf-8")

"""The explorer of a run as one file, which opens offline from disk and can be mailed."""

from dataclasses import dataclass
from pathlib import Path

from fastif.errors import StoredFileError
from fastif.files import replacing
from fastif.web.page import single_file
from fastif.web.payload import Payload


@dataclass(frozen=True)
class Exported:
    """What was written: where, how large, and what of the data is in it."""

    file: Path
    bytes: int
    train_texts: int
    queries: int
    edges: int
    story_examples: int = 0

    def in_words(self) -> str:
        """Say what a person should know before sending it to others."""
        size = f"{self.bytes / 1e6:.1f} MB"
        texts = (
            f"It embeds {self.train_texts:,} training texts and {self.queries:,} evaluation texts: send it only to "
            "those who may read them, or leave the training texts out with --redact."
            if self.train_texts
            else f"It embeds no training text, and {self.queries:,} evaluation texts."
        )
        story = f" Its story shows {self.story_examples} examples." if self.story_examples else ""
        return f"Written to {self.file} ({size}). {texts}{story}"


def write_export(payload: Payload, file: Path) -> Exported:
    """Write the page, whole or not at all."""
    page = single_file(payload.as_bytes()).encode()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_bytes(page)
    except OSError as error:
        raise StoredFileError(f"{file} could not be written: {error}") from error
    edges = len(payload.arrays["edge_value"])
    queries = len(payload.head["queries"])
    return Exported(file, len(page), payload.train_texts, queries, edges, payload.story_examples)

"""What a result lacks that was put together with --stop-here: beside the paper's own part, ways that were not finished.

Knows variants by their names.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from fastif.paper.context import UnfinishedError
from fastif.paper.variants import Variant

NOT_FINISHED = "Not finished, and so not in the table of other ways to "
Made = TypeVar("Made")


def finished(
    variants: Iterable[Variant], make: Callable[[Variant], Made], what: str = "rank"
) -> tuple[dict[str, Made], list[str]]:
    """Return what was made of each variant by its name, and a note of those that are not finished.

    Without --stop-here there are none of these, as what is missing is made.
    """
    found: dict[str, Made] = {}
    missing: list[str] = []
    for variant in variants:
        try:
            found[variant.name] = make(variant)
        except UnfinishedError:
            missing.append(variant.name)
    return found, not_finished(missing, what)


def not_finished(names: Sequence[str], what: str = "rank") -> list[str]:
    """Return a note that names the ways which a table lacks, if there are some.

    >>> not_finished(["a", "b"])
    ['Not finished, and so not in the table of other ways to rank: a; b.']
    """
    return [f"{NOT_FINISHED}{what}: {'; '.join(names)}."] if names else []


def still_not_finished(notes: Iterable[str], made: Collection[str], what: str = "rank") -> list[str]:
    """Return the notes of a result as they are when some of the ways that it lacked were made later.

    >>> still_not_finished(["Short.", *not_finished(["a", "b"])], ["b"])
    ['Short.', 'Not finished, and so not in the table of other ways to rank: a.']
    """
    start, found = f"{NOT_FINISHED}{what}: ", []
    for note in notes:
        lacking = note.removeprefix(start).removesuffix(".").split("; ") if note.startswith(start) else None
        found += [note] if lacking is None else not_finished([name for name in lacking if name not in made], what)
    return found

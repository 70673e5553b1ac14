"""What must hold of the data before a model is changed by it, and what a person should know of it.

Sets that choose and sets that measure may not share an example: that is an error. What weakens a result without
spoiling it is a sentence. Two examples are the same if their texts are, whatever their case and spaces, or without
texts if their inputs are, bit for bit. Knows examples, and no model.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable

import torch

from fastif.apps.correction import check_disjoint
from fastif.data import Examples, Subset
from fastif.errors import ConfigurationError, DataError

BATCH_SIZE = 1024
MOST_NAMED = 20


def keys_of(examples: Examples) -> list[Hashable]:
    """Return for each example what it is known by.

    >>> keys_of(Examples((torch.zeros(2, 1), torch.zeros(2)), text=["One  two", "one two"]))
    ['one two', 'one two']
    """
    if examples.text is not None:
        return [" ".join(text.split()).casefold() for text in examples.text]
    found: list[Hashable] = []
    for row in range(len(examples)):  # one by one, as padding differs with the batch
        inputs = examples.batch([row]).named_inputs().values()
        found.append(hashlib.sha256(b"".join(each.cpu().contiguous().numpy().tobytes() for each in inputs)).hexdigest())
    return found


def check_material(
    train: Examples,
    anchors: Examples,
    *,
    test: Examples | None = None,
    original: Examples | None = None,
    pool: Examples | None = None,
) -> list[str]:
    """Raise for data that cannot be used together, and return sentences on what a person should know.

    Args:
        train: what the model was trained on.
        anchors: what chooses, those that are held out among them.
        test: what measures.
        original: held-out data of the kind that the model was trained on; None if it is a part of `train`.
        pool: new data to choose from; None if that is `train`.
    """
    known = {"train": keys_of(train), "anchors": keys_of(anchors)}
    for name, examples in (("test", test), ("original", original), ("pool", pool)):
        if examples is not None:
            known[name] = keys_of(examples)
    if test is not None:
        check_disjoint(known["anchors"], known["test"])
        _check_slices(anchors, test)
    if original is not None:
        _check_apart(known, "anchors", "original", "what chooses a correction cannot say what it breaks")
    if pool is not None:
        _check_apart(known, "pool", "anchors", "an anchor would be the best example for itself")
        for measured in ("test", "original"):
            if measured in known:
                _check_apart(known, "pool", measured, "a model that was trained on it would look better than it is")
    return [*_notes(known), *_one_class(anchors)]


def only_slice(examples: Examples, name: str) -> Examples:
    """Return the examples of one slice."""
    if examples.slices is None:
        raise ConfigurationError(
            f"there are no slices in {examples.source}, so that those of {name!r} cannot be picked. Name the column "
            "that holds them with --slice (in Python: slices=)."
        )
    rows = [row for row, each in enumerate(examples.slices) if each == name]
    if not rows:
        raise DataError(
            f"{examples.source} has no row of the slice {name!r}. Its slices are {_named(examples.slices)}."
        )
    return Subset(examples, rows)


def _check_apart(known: dict[str, list[Hashable]], one: str, other: str, why: str) -> None:
    shared = set(known[one]) & set(known[other])
    if shared:
        raise DataError(
            f"{len(shared):,} examples of {one} stand in {other} too, for instance {min(map(str, shared))!r}: {why}. "
            "Take them out of one of the two."
        )


def _check_slices(anchors: Examples, test: Examples) -> None:
    if anchors.slices is None or test.slices is None:
        return
    missing = sorted(set(anchors.slices) - set(test.slices))
    if missing:
        raise DataError(
            f"{test.source} has no row of the slice {', '.join(map(repr, missing[:MOST_NAMED]))}, of which there are "
            f"anchors: nothing would say whether the correction worked there. Its slices are {_named(test.slices)}. "
            "Add rows of that slice, or pick the anchors of another."
        )


def _notes(known: dict[str, list[Hashable]]) -> list[str]:
    train, notes = set(known["train"]), []
    reasons = {
        "anchors": "the model has learned them already, so that their loss says little of what it fails at.",
        "test": "the model has learned them already, and what is measured on them looks better than it is.",
        "original": "the model has learned them already, and what is measured on them looks better than it is.",
        "pool": "the model has learned them already; they are ranked like the others.",
    }
    for name, reason in reasons.items():
        count = sum(key in train for key in known.get(name, ()))
        if count:
            notes.append(
                f"{count:,} of {len(known[name]):,} examples of {name} stand in the training data too: {reason}"
            )
    return notes


def _one_class(anchors: Examples) -> list[str]:
    targets = torch.cat([batch.targets for batch in anchors.batches(BATCH_SIZE)])
    if targets.ndim != 1 or targets.is_floating_point() or len(targets.unique()) > 1:
        return []
    name = anchors.name_of(targets[0])
    return [
        f"all anchors have the label {name}. What helps them most is whatever makes the model say {name} more often, "
        "everywhere: accuracy on examples of that label rises even if nothing else was learned. Look at the original "
        "data and at test examples of other labels, or add anchors of other labels."
    ]


def _named(slices: list[str]) -> str:
    counts = Counter(slices)
    names = [f"{name} ({count:,})" for name, count in counts.most_common(MOST_NAMED)]
    return ", ".join(names) + (" ..." if len(counts) > MOST_NAMED else "")

"""What a PEFT adapter tells of the head that was trained with it, as it has no configuration of a classifier.

The number of labels is in the shape of the head's weights. Their names and the kind of problem are nowhere, unless a
config.json of the trained model stands beside the adapter. Knows files, and no model.
"""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from fastif.errors import FastifWarning

CONFIG = "config.json"
OF_ADAPTERS = ("lora_", "adapter")  # in the names of weights that are none of the head's own


def label_count(path: Path, saved: Collection[str]) -> int | None:
    """Return how many labels the head in an adapter's directory has, None if it holds none.

    Args:
        path: the directory.
        saved: the names of the modules that were trained as a whole, the head among them.
    """
    rows = []
    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as tensors:
                shapes = {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None  # whoever loads it says what is wrong
        rows += [
            int(shape[0])
            for name, shape in shapes.items()
            if len(shape) == 2 and set(name.split(".")) & set(saved) and not any(each in name for each in OF_ADAPTERS)
        ]
    return min(rows, default=None)  # of a head of several layers the last has as many rows as there are labels


def fit_config(config: Any, labels: int | None, where: Path) -> None:
    """Give the base's configuration as many labels as the adapter's head has; tell what is not known of them."""
    had_head = any("ForSequenceClassification" in each for each in config.architectures or [])
    if labels is not None and labels != config.num_labels:
        config.num_labels = labels
    elif labels is None or had_head:
        return
    if labels > 1 and config.problem_type is None:
        warnings.warn(
            f"the adapter {where} has a head of {labels} labels and does not say what kind of problem it was trained "
            "for: it is taken as one label for each text, with cross-entropy. If that is right, or wrong, say so in a "
            f"{CONFIG} beside the adapter: save it there with trained_model.config.save_pretrained(directory).",
            FastifWarning,
            stacklevel=2,
        )

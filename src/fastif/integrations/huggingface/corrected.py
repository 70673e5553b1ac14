"""A checkpoint of corrected weights, beside which it is written how they came about.

It is loaded like the one that it was made from: the record of a training goes along.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fastif.apps.correction import corrected_module
from fastif.errors import ModelError
from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.record import RECORD, read_record
from fastif.integrations.huggingface.trained import save_checkpoint

CORRECTION = "fastif_correction.json"


def save_corrected(
    model: TextClassifier, parameters: dict[str, Tensor], directory: str | Path, *, words: Mapping[str, Any]
) -> Path:
    """Write the model with other parameters as a checkpoint, whole or not at all.

    Args:
        model: as it was loaded; it stays as it is.
        parameters: the new ones.
        directory: where to; nothing may be there.
        words: how they came about, as JSON can hold it: fastif_correction.json.
    """
    check_can_be_saved(model)
    module = corrected_module(model, parameters)
    if any(module.get_parameter(name).dtype.itemsize < tensor.dtype.itemsize for name, tensor in parameters.items()):
        # small steps would be rounded away in half precision
        module = module.to(model.dtype)
        for name, tensor in parameters.items():
            module.get_parameter(name).data.copy_(tensor)
    files: dict[str, Mapping[str, Any]] = {CORRECTION: words}
    if read_record(model.name) is not None:
        record = json.loads((Path(model.name) / RECORD).read_text(encoding="utf-8"))
        files[RECORD] = {**record, "corrected": dict(words)}
    return save_checkpoint(module, model.tokenizer, directory, max_length=model.max_length, files=files)


def check_can_be_saved(model: TextClassifier) -> None:
    """Raise if what a correction changes would not be in the checkpoint: better before the steps than after them."""
    if not hasattr(model.module, "peft_config"):
        return
    lost = [name for name in model.parameters if not model.module.get_parameter(name).requires_grad]
    if lost:
        raise ModelError(
            f"the checkpoint is an adapter, which does not hold {lost[0]}; a correction of it would be lost. Make the "
            "run of fastif explain without --trainable and --freeze-layers, through what the adapter trains."
        )

"""Whether a `Trainer` of transformers made its model with another loss than the model's own, which scores are of."""

import warnings
from typing import Any

import transformers

from fastif.errors import FastifWarning


def warn_of_loss(trainer: Any) -> None:
    """Warn if training made less of another loss."""
    smoothing = getattr(getattr(trainer, "args", None), "label_smoothing_factor", 0)
    own = getattr(type(trainer), "compute_loss", None)
    if smoothing:
        what = f"label_smoothing_factor={smoothing}"
    elif getattr(trainer, "compute_loss_func", None) is not None:
        what = "a compute_loss_func of its own"
    elif isinstance(trainer, transformers.Trainer) and own is not transformers.Trainer.compute_loss:
        what = f"compute_loss of {type(trainer).__name__}"
    else:
        return
    warnings.warn(
        f"the trainer used {what}, and scores are of the model's plain loss (cross-entropy for one label each): at its "
        "minimum the model is not, so that they tell less of what training did. For the loss itself use "
        "fastif.TorchModel(module, loss=...).",
        FastifWarning,
        stacklevel=3,
    )

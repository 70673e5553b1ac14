"""Hugging Face text classifiers as models of fastif, from a checkpoint or a trainer, with no wrapper to write."""

try:
    import transformers  # noqa: F401 - said here what to install for it
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ModuleNotFoundError(
        "text classifiers are run by transformers, which is not installed: pip install 'fastif[hf]'",
        name="transformers",
    ) from error

from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.recipe import Recipe
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trained import TrainedClassifier
from fastif.integrations.huggingface.training import train_classifier

__all__ = ["Recipe", "TextClassifier", "TextExamples", "TrainedClassifier", "train_classifier"]

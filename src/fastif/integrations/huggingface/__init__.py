"""Hugging Face models of texts as models of fastif, from a checkpoint or a trainer, with no wrapper to write."""

try:
    import transformers  # noqa: F401 - said here what to install for it
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ModuleNotFoundError(
        "models of texts are run by transformers, which is not installed: pip install 'fastif[hf]'",
        name="transformers",
    ) from error

from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.completions import Completions
from fastif.integrations.huggingface.generator import TextGenerator
from fastif.integrations.huggingface.recipe import Recipe
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trained import TrainedClassifier
from fastif.integrations.huggingface.training import train_classifier

__all__ = [
    "Completions",
    "Recipe",
    "TextClassifier",
    "TextExamples",
    "TextGenerator",
    "TrainedClassifier",
    "train_classifier",
]

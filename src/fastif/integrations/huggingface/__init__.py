"""Hugging Face text classifiers as models of fastif, from a checkpoint or a trainer, with no wrapper to write."""

from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.recipe import Recipe
from fastif.integrations.huggingface.texts import TextExamples
from fastif.integrations.huggingface.trained import TrainedClassifier
from fastif.integrations.huggingface.training import train_classifier

__all__ = ["Recipe", "TextClassifier", "TextExamples", "TrainedClassifier", "train_classifier"]

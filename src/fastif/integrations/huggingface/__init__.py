"""Hugging Face text classifiers as models of fastif, from a checkpoint or a trainer, with no wrapper to write."""

from fastif.integrations.huggingface.classifier import TextClassifier
from fastif.integrations.huggingface.texts import TextExamples

__all__ = ["TextClassifier", "TextExamples"]

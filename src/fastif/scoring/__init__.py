"""Scores of many training examples for many queries, one way a file, and one that chooses."""

from fastif.scoring.auto import Choice, Choices, Method, choose, scan

__all__ = ["Choice", "Choices", "Method", "choose", "scan"]

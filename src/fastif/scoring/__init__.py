"""Scores of many training examples for many queries, one way a file, and one that chooses."""

from fastif.scoring.auto import Choice, Method, choose, scan

__all__ = ["Choice", "Method", "choose", "scan"]

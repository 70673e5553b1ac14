"""Scores of many training examples for many queries, one way a file."""

from fastif.scoring.jvp import scan

__all__ = ["scan"]

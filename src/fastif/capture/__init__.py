"""Activations and output gradients of a model's layers, for a batch, with the examples told apart."""

from fastif.capture.factors import Factor, Lookup, Outer, Scale, Shift
from fastif.capture.plan import CaptureError, Plan, capture, make_plan

__all__ = ["CaptureError", "Factor", "Lookup", "Outer", "Plan", "Scale", "Shift", "capture", "make_plan"]

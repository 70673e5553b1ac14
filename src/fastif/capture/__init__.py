"""Activations and output gradients of a model's layers, for a batch, with the examples told apart."""

from fastif.capture.factors import Factor, Lookup, Outer, Scale, Shift
from fastif.capture.forward import CaptureError, Forward, capture, run_forward
from fastif.capture.plan import Plan, make_plan

__all__ = [
    "CaptureError",
    "Factor",
    "Forward",
    "Lookup",
    "Outer",
    "Plan",
    "Scale",
    "Shift",
    "capture",
    "make_plan",
    "run_forward",
]

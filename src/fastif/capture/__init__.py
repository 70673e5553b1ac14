"""Activations and output gradients of a model's layers, for a batch, with the examples told apart."""

from fastif.capture.factors import Factor, Lookup, Outer, Scale, Shift
from fastif.capture.forward import CaptureError, Forward, capture, run_forward
from fastif.capture.plan import Plan, make_plan
from fastif.capture.route import Route, find_route

__all__ = [
    "CaptureError",
    "Factor",
    "Forward",
    "Lookup",
    "Outer",
    "Plan",
    "Route",
    "Scale",
    "Shift",
    "capture",
    "find_route",
    "make_plan",
    "run_forward",
]

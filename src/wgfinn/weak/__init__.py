"""The weak form: test functions, their placement, and the integrals against them."""

from wgfinn.weak.operator import WeakOperator
from wgfinn.weak.scattered import Placement, ScatteredOperator, place, window_count, window_duration
from wgfinn.weak.test_functions import SMALLEST_WIDTH, TestFunctionSpec

__all__ = [
    "SMALLEST_WIDTH",
    "Placement",
    "ScatteredOperator",
    "TestFunctionSpec",
    "WeakOperator",
    "place",
    "window_count",
    "window_duration",
]

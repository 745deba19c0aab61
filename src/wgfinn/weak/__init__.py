"""The weak form: test functions, their placement and choice, and the integrals against them."""

from wgfinn.weak.choice import choose_test_functions
from wgfinn.weak.operator import WeakOperator
from wgfinn.weak.scattered import Placement, ScatteredOperator, place, window_count, window_duration
from wgfinn.weak.test_functions import SMALLEST_WIDTH, TestFunctionSpec

__all__ = [
    "SMALLEST_WIDTH",
    "Placement",
    "ScatteredOperator",
    "TestFunctionSpec",
    "WeakOperator",
    "choose_test_functions",
    "place",
    "window_count",
    "window_duration",
]

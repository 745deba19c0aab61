"""The weak form: test functions, their placement and choice, and the integrals against them."""

from wgfinn.weak.choice import choose_test_functions
from wgfinn.weak.operator import WeakOperator
from wgfinn.weak.test_functions import SMALLEST_WIDTH, TestFunctionSpec

__all__ = ["SMALLEST_WIDTH", "TestFunctionSpec", "WeakOperator", "choose_test_functions"]

"""Shape aliases shared by every layer.

Axis names are always `traj time state` for data, `traj test state` for weak residuals and `time test`
for test functions; a function takes one state, batching is `jax.vmap` at the caller.
"""

from collections.abc import Callable

from jaxtyping import Array, Float, PRNGKeyArray

Scalar = Float[Array, ""]
State = Float[Array, " state"]
Matrix = Float[Array, "state state"]
Trajectory = Float[Array, "time state"]
Field = Callable[[State], State]

__all__ = ["Array", "Field", "Float", "Matrix", "PRNGKeyArray", "Scalar", "State", "Trajectory"]

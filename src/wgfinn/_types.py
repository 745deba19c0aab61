"""Shape aliases shared by every layer.

Outside (files, estimator, trajectories) axis 0 is time: `time state`, `traj time state`. Inside models,
losses and training the state comes first, `state *batch`: one state, or as many as trailing axes hold. A
batch that runs along the last axis keeps every small product (the state has a handful of entries)
vectorised over it, several times faster than the other way round on CPU and GPU alike.
"""

from collections.abc import Callable

from jaxtyping import Array, Float, PRNGKeyArray

Scalar = Float[Array, ""]
State = Float[Array, " state"]
States = Float[Array, "state *batch"]
Values = Float[Array, "*batch"]
Matrix = Float[Array, "state state"]
Trajectory = Float[Array, "time state"]
Field = Callable[[Array], Array]

__all__ = [
    "Array",
    "Field",
    "Float",
    "Matrix",
    "PRNGKeyArray",
    "Scalar",
    "State",
    "States",
    "Trajectory",
    "Values",
]

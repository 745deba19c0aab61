"""From a field to trajectories: the paper's fixed-step scheme, and adaptive solves through diffrax.

`rollout` is the one function that the rest of the package calls.
"""

from typing import Literal, get_args

from wgfinn._errors import InputError
from wgfinn._types import Array, Field, Float, State
from wgfinn.integrate.adaptive import rollout_adaptive
from wgfinn.integrate.fixed import RK23, Tableau, looped_step, rollout_fixed, step

Integrator = Literal["rk23", "accurate"]
INTEGRATORS: tuple[str, ...] = get_args(Integrator)


def rollout(
    field: Field, x0: State, t: Float[Array, " time"], integrator: str = "rk23", *, substeps: int = 1
) -> Float[Array, "time state"]:
    """The trajectory of x' = field(x) from `x0`, at the times `t` (`t[0]` is the time of `x0`).

    "rk23" takes `substeps` steps of the paper's scheme per sample; "accurate" controls its error
    (relative 1e-10). States that could not be reached are NaN or infinite, never an exception.
    """
    if integrator == "rk23":
        return rollout_fixed(field, x0, t, substeps=substeps)
    if integrator == "accurate":
        return rollout_adaptive(field, x0, t, rtol=1e-10, atol=1e-12)
    raise InputError(f"integrator={integrator!r} is unknown; choose one of {', '.join(INTEGRATORS)}.")


__all__ = [
    "INTEGRATORS",
    "RK23",
    "Integrator",
    "Tableau",
    "looped_step",
    "rollout",
    "rollout_adaptive",
    "rollout_fixed",
    "step",
]

"""Adaptive solves through diffrax."""

import diffrax
import jax.numpy as jnp

from wgfinn._types import Array, Field, Float, State


def rollout_adaptive(
    field: Field,
    x0: State,
    t: Float[Array, " time"],
    *,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    max_steps: int = 100_000,
) -> Float[Array, "time state"]:
    """States at the times `t` by Dormand-Prince 8(7) with step control; every time is the end of a step.

    (Interpolating between longer steps would cost three digits: it is of lower order than the scheme.)

    Times the solver could not reach (stiffness, blow-up) hold NaN; nothing is raised, so a batch of
    trajectories goes on without the one that failed.
    """
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda _, x, __: field(x)),
        diffrax.Dopri8(),
        t0=t[0],
        t1=t[-1],
        dt0=None,
        y0=x0,
        saveat=diffrax.SaveAt(ts=t),
        stepsize_controller=diffrax.ClipStepSizeController(diffrax.PIDController(rtol=rtol, atol=atol), step_ts=t),
        max_steps=max_steps,
        throw=False,
    )
    assert solution.ys is not None
    return jnp.where(jnp.isfinite(solution.ys), solution.ys, jnp.nan)

"""A user's own system: E, S, L and M are enough, and a wrong bracket is found."""

import runpy
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn import systems
from wgfinn._errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_system.py"


class Conducting(systems.System):
    """Two bodies with energies e^S exchanging heat: S_i' = ±k (1/T1 - 1/T2)/T_i."""

    description: ClassVar[str] = "two bodies exchanging heat"
    state_names: ClassVar[tuple[str, ...]] = ("S1", "S2")
    start_low: ClassVar[tuple[float, ...]] = (0.0, 0.0)
    start_high: ClassVar[tuple[float, ...]] = (1.0, 1.0)
    t_end: ClassVar[float] = 1.0
    dt: ClassVar[float] = 0.1

    def energy(self, x):
        return jnp.sum(jnp.exp(x))

    def entropy(self, x):
        return jnp.sum(x)

    def poisson(self, x):
        return jnp.zeros((2, 2), x.dtype)

    def friction(self, x):
        u = jnp.asarray([1, -1], x.dtype) / jnp.exp(x)
        return jnp.outer(u, u)


class Leaking(Conducting):
    """M is not symmetric, loses energy, and L is not skew."""

    def poisson(self, x):
        return jnp.eye(2, dtype=x.dtype)

    def friction(self, x):
        return jnp.asarray([[-1, 1], [0, 1]], x.dtype)


def test_example_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "energy drift" in capsys.readouterr().out


def test_rhs_follows_from_the_four_parts():
    x = jnp.asarray([0.2, 0.7])
    heat = jnp.exp(-x[0]) - jnp.exp(-x[1])
    np.testing.assert_allclose(Conducting().rhs(x), [heat * jnp.exp(-x[0]), -heat * jnp.exp(-x[1])], rtol=1e-14)


def test_vanishing_bracket_passes():
    residuals = systems.check_generic(Conducting(), [[0.2, 0.7], [0.0, 1.0]])
    assert max(map(abs, residuals.values())) < 1e-15


def test_wrong_brackets_are_found():
    residuals = systems.check_generic(Leaking(), [0.2, 0.7])
    for name in ("skew", "symmetric", "poisson_degeneracy", "friction_degeneracy"):
        assert residuals[name] > 0.1, name
    assert residuals["min_eigenvalue"] < -0.1


def test_states_of_the_wrong_length():
    with pytest.raises(InputError, match="holds 2 numbers"):
        systems.check_generic(Conducting(), [0.2, 0.7, 1.0])


def test_data_of_a_custom_system():
    data = systems.generate(Conducting(), trajectories=2, seed=1)
    assert data.clean.names == ("S1", "S2")
    assert Conducting().sample(2, jax.random.key(1)).tolist() == data.clean.stacked()[1][:, 0].tolist()

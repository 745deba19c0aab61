"""The two laws as numbers: invariance, numbers by hand, known systems, fields without thermodynamics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fields_for_tests import FaultyField, KnownField, NothingField

from wgfinn import systems
from wgfinn.data import Trajectories
from wgfinn.evaluate import simulate_runs, thermodynamic_checks
from wgfinn.models import ModelSpec, PlainField, RescaledField, build

GAS = systems.make("gas_containers")
ROUNDING = 1e-14


@pytest.fixture(scope="module")
def runs() -> Trajectories:
    return systems.generate(GAS, trajectories=10).clean


@pytest.mark.parametrize("name", ["gas_containers", "double_pendulum", "damped_oscillator"])
def test_known_systems(name):
    system = systems.make(name)
    data = systems.generate(system, trajectories=5).clean
    checks = thermodynamic_checks(KnownField(system), data)
    assert checks is not None
    # RK23 at dt = 0.01 loses up to 1e-3 of the energy of a gas (spec, section 1), and less of the others.
    assert 0 < checks.energy_drift < 1e-2
    assert checks.min_entropy_increment > -1e-6
    degeneracy = dict(checks.degeneracy)
    assert degeneracy.pop("min_eigenvalue") > -ROUNDING
    assert set(degeneracy) == {"poisson_degeneracy", "friction_degeneracy", "skew", "symmetric"}
    assert max(degeneracy.values()) < ROUNDING


def test_drift_is_the_integrators(runs):
    """With an accurate solver (1e-10 a step) the drift of an exact GENERIC field goes away."""
    checks = thermodynamic_checks(KnownField(GAS), runs, "accurate")
    assert checks is not None
    assert checks.energy_drift < 1e-7
    assert checks.min_entropy_increment > 0


@pytest.mark.parametrize("maps", [((-3.0, 50.0), (0.01, -7.0)), ((1e5, 0.0), (2.0, 1.0))])
def test_affine_freedom(runs, maps):
    """E -> aE + b, S -> cS + d (c > 0) and the brackets with them: the same dynamics, the same verdict."""
    plain = thermodynamic_checks(KnownField(GAS), runs)
    mapped = thermodynamic_checks(KnownField(GAS, *maps), runs)
    assert plain is not None
    assert mapped is not None
    # The offset costs digits of E: 50 against a drift of 1e-4 times the spread.
    assert mapped.energy_drift == pytest.approx(plain.energy_drift, rel=1e-6)
    assert mapped.min_entropy_increment == pytest.approx(plain.min_entropy_increment, rel=1e-6, abs=1e-12)
    assert mapped.degeneracy == pytest.approx(plain.degeneracy, abs=ROUNDING)


def test_units_of_states(runs):
    """A change of the units of state and time does not change drift and increments.

    With tanh: the checks divide by the norm of L itself, and with softplus 1.5e-14 is left in these coordinates, more
    than `ROUNDING`. Bounds by the norms of the factors, for both, are in test_model_structure.
    """
    inner = build(ModelSpec(width=5, layers=2, activation="tanh"), 4, key=jax.random.key(0))
    scale, shift = np.array([1e-3, 10.0, 1.0, 5.0]), np.array([1.0, 2.0, 0.0, 0.0])
    served = RescaledField(inner=inner, shift=jnp.asarray(shift), scale=jnp.asarray(scale), time=jnp.array(2.0))
    rescaled = Trajectories.from_arrays(
        [shift + scale * run.x for run in runs.runs], [2.0 * run.t for run in runs.runs]
    )
    before, after = thermodynamic_checks(inner, runs), thermodynamic_checks(served, rescaled)
    assert before is not None
    assert after is not None
    # A thousandth of a unit around 1 keeps twelve digits.
    assert after.energy_drift == pytest.approx(before.energy_drift, rel=1e-3, abs=1e-11)
    assert after.min_entropy_increment == pytest.approx(before.min_entropy_increment, rel=1e-6)
    assert after.degeneracy["min_eigenvalue"] > -ROUNDING
    assert max(v for k, v in after.degeneracy.items() if k != "min_eigenvalue") < ROUNDING


def test_by_hand():
    """E = x1, S = x2, both decay from 0.5 as exp(-t) for a unit of time; gradients are unit vectors.

    RK23 is third order: wrong by about 1e-8 at this step.
    """
    t = np.linspace(0, 1, 101)
    data = Trajectories.from_arrays(np.stack([0.5 + t, 0.5 - t], axis=1), t)
    checks = thermodynamic_checks(FaultyField(), data)
    assert checks is not None
    spread = np.std(t)
    assert checks.energy_drift == pytest.approx(0.5 * (1 - np.exp(-1)) / spread, rel=1e-6)
    assert checks.min_entropy_increment == pytest.approx(-0.5 * (1 - np.exp(-0.01)) / spread, rel=1e-6)
    friction, symmetric = np.array([[-1.0, 2.0], [0.0, 4.0]]), np.array([[-1.0, 1.0], [1.0, 4.0]])
    low, high = np.linalg.eigvalsh(symmetric)
    assert checks.degeneracy == pytest.approx(
        {
            "poisson_degeneracy": 3 / 5,
            "friction_degeneracy": 1 / np.linalg.norm(friction),
            "skew": np.sqrt(2) / 5,
            "symmetric": np.sqrt(8) / np.linalg.norm(friction),
            "min_eigenvalue": low / high,
        },
        rel=1e-12,
    )


def test_nothing_over_nothing_is_nothing():
    t = np.linspace(0, 1, 11)
    checks = thermodynamic_checks(NothingField(), Trajectories.from_arrays(np.stack([t, -t], axis=1), t))
    assert checks is not None
    assert checks.energy_drift == 0
    assert checks.min_entropy_increment == 0
    assert set(checks.degeneracy.values()) == {0.0}


def test_divergence_is_infinite_not_nan():
    data = Trajectories.from_arrays(np.ones((1, 21, 2)) + np.linspace(0, 1, 21)[:, None], np.linspace(0, 2, 21))
    checks = thermodynamic_checks(FaultyField(rate=1.0, power=3), data)
    assert checks is not None
    assert checks.energy_drift == np.inf
    assert checks.min_entropy_increment == -np.inf


def test_given_rollouts_are_used(runs):
    field = KnownField(GAS)
    simulated = simulate_runs(field, runs)
    assert thermodynamic_checks(field, runs, simulated=simulated) == thermodynamic_checks(field, runs)


def test_few_states_reach_from_first_to_last(runs):
    """One faulty state at the end of 4,010 is among any number of evenly chosen ones."""

    class FaultyAtTheEnd(KnownField):
        def poisson(self, x):
            at_end = jnp.all(x == jnp.asarray(runs.runs[-1].x[-1]))
            return super().poisson(x) + jnp.where(at_end, 1.0, 0.0) * jnp.eye(4)

    checks = thermodynamic_checks(FaultyAtTheEnd(GAS), runs, max_states=7)
    assert checks is not None
    assert checks.degeneracy["skew"] > 0.1


def test_plain_field_has_none(runs):
    field = build(ModelSpec(field="plain", width=4, layers=2), 4, key=jax.random.key(0))
    assert isinstance(field, PlainField)
    assert thermodynamic_checks(field, runs) is None
    rescaled = RescaledField(inner=field, shift=jnp.zeros(4), scale=jnp.ones(4), time=jnp.array(1.0))
    assert thermodynamic_checks(rescaled, runs) is None

"""Systems 1-3 against golden trajectories, closed forms and the GENERIC conditions."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn import systems
from wgfinn._errors import InputError

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden.json").read_text())
GOLDEN_SYSTEMS = {
    "gas_containers": ("gas_containers", {}),
    "double_pendulum_kappa0.5": ("double_pendulum", {}),
    "double_pendulum_kappa1.0": ("double_pendulum", {"kappa": 1.0}),
    "linearly_damped": ("damped_oscillator", {}),
}
GENERIC = ("gas_containers", "double_pendulum", "damped_oscillator")


def golden_cases():
    return [pytest.param(key, row, id=f"{key}-t{row['t']:g}-{i}")
            for key in GOLDEN_SYSTEMS for i, row in enumerate(GOLDEN[key])]  # fmt: skip


def golden_trajectory(key, row, integrator):
    name, parameters = GOLDEN_SYSTEMS[key]
    system = systems.make(name, **parameters)
    assert system.dt == row["rk23_dt"]
    return system.simulate(row["z0"], system.times(), integrator)[round(row["t"] / system.dt)]


@pytest.mark.parametrize(("key", "row"), golden_cases())
def test_rk23_golden(key, row):
    """The same scheme at the same step: equal up to rounding."""
    np.testing.assert_allclose(golden_trajectory(key, row, "rk23"), row["rk23"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("key", "row"), golden_cases())
def test_accurate_golden(key, row):
    """Golden by DOP853 at 1e-12; ours controls its error at 1e-10 per step."""
    np.testing.assert_allclose(golden_trajectory(key, row, "accurate"), row["dop853"], rtol=0, atol=1e-8)


@pytest.mark.parametrize(("key", "row"), golden_cases())
def test_golden_start(key, row):
    name, parameters = GOLDEN_SYSTEMS[key]
    system = systems.make(name, **parameters)
    x = jnp.asarray(row["z0"])
    np.testing.assert_allclose(system.rhs(x), row["rhs0"], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(system.energy(x), row["E0"], rtol=1e-14)
    np.testing.assert_allclose(system.entropy(x), row["S0"], rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *((name, {}) for name in GENERIC),
        ("gas_containers", {"mass": 2.0, "alpha": 0.5, "length": 3.0, "energy_scale": 1.7}),
        ("double_pendulum", {"kappa": 1.3, "mass1": 0.7, "mass2": 2.1}),
        ("damped_oscillator", {"mass": 1.9, "stiffness": 0.6, "gamma": 0.4, "temperature": 2.5}),
    ],
)
def test_generic_conditions(name, parameters, key):
    """Exact algebra, so rounding: a few epsilon relative to the product of the factors' norms. Parameters
    other than the defaults, which are mostly 1, show a constant that is missing or in the wrong place."""
    system = systems.make(name, **parameters)
    residuals = systems.check_generic(system, system.sample(500, key))
    tolerance = 8 * np.finfo(float).eps
    assert residuals["skew"] == 0
    assert residuals["symmetric"] == 0
    assert residuals["min_eigenvalue"] >= -tolerance
    for name in ("poisson_degeneracy", "friction_degeneracy", "rhs", "energy_gradient", "entropy_gradient"):
        assert residuals[name] <= tolerance, name


# Spec, sections 1-3: drift of accurate and of rk23 solutions (3.5e-11, 1.6e-12, 4.6e-12; 1.1e-3, 1.7e-4).
DRIFT = {
    "gas_containers": (3.5e-11, 5e-3),
    "double_pendulum": (1.6e-12, 1e-3),
    "damped_oscillator": (4.6e-12, 1e-6),
}


@pytest.mark.parametrize("name", GENERIC)
def test_energy_is_kept_and_entropy_grows(name, key):
    system = systems.make(name)
    start = system.sample(20, key)
    for integrator, bound in zip(("accurate", "rk23"), DRIFT[name], strict=True):
        x = jnp.asarray(system.simulate(start, system.times(), integrator))
        energy = np.asarray(jax.vmap(jax.vmap(system.energy))(x))
        assert np.max(np.abs(energy / energy[:, :1] - 1)) < bound
        if integrator == "accurate":
            entropy = np.asarray(jax.vmap(jax.vmap(system.entropy))(x))
            assert np.min(np.diff(entropy, axis=1)) > 0


@pytest.mark.parametrize("parameters", [{}, {"mass": 1.9, "stiffness": 0.6, "gamma": 0.4, "temperature": 2.5}])
def test_damped_oscillator_closed_form(parameters):
    system = systems.make("damped_oscillator", **parameters)
    x0 = (1.7, -0.15, 0.3)
    solution = system.simulate(x0, system.times(), "accurate")
    exact = system.exact(x0, system.times())
    np.testing.assert_allclose(solution, exact, rtol=0, atol=1e-12)


def test_rk23_is_of_third_order():
    system = systems.make("damped_oscillator", gamma=0.2)
    x0 = (2.0, 0.1, 0.0)

    def error(steps):
        t = np.linspace(0, 4, steps + 1)
        return np.max(np.abs(system.simulate(x0, t) - system.exact(x0, t)))

    assert abs(np.log2(error(100) / error(200)) - 3) < 0.15


@pytest.mark.parametrize("name", GENERIC)
def test_start_box_and_grid(name, key):
    """Spec, sections 1-3: 401 points, 100 trajectories, 80/20."""
    system = systems.make(name)
    start = system.sample(300, key)
    assert start.shape == (300, system.dimension)
    assert start.dtype == np.float64
    assert np.all(start >= system.start_low)
    assert np.all(start <= system.start_high)
    assert np.allclose(start.min(axis=0), system.start_low, atol=0.1)
    assert len(system.times()) == 401
    assert system.times()[-1] == pytest.approx(system.t_end)
    assert system.default_trajectories() == 100
    assert system.train_fraction == 0.8


@pytest.mark.parametrize("name", GENERIC)
def test_keeps_the_caller_precision(name):
    system = systems.make(name)
    x = jnp.asarray(system.sample(1, jax.random.key(0))[0], jnp.float32)
    for function in (system.rhs, system.energy, system.entropy, system.poisson, system.friction,
                     system.energy_gradient, system.entropy_gradient):  # fmt: skip
        assert function(x).dtype == jnp.float32


@pytest.mark.parametrize("name", GENERIC)
def test_double_precision_whatever_the_callers_setting(name):
    """Start states and solutions are the same with jax's 64-bit switch off, and the switch stays off."""
    system = systems.make(name)
    wide = system.runs(2, seed=3).x
    with jax.enable_x64(False):
        narrow = system.runs(2, seed=3).x
        assert jnp.ones(1).dtype == jnp.float32
    np.testing.assert_array_equal(wide, narrow)


def test_one_state_and_many_agree():
    system = systems.make("gas_containers")
    start = system.sample(3, jax.random.key(5))
    many = system.simulate(start, system.times())
    assert many.shape == (3, 401, 4)
    one = system.simulate(start[1], system.times())
    assert one.shape == (401, 4)
    np.testing.assert_allclose(one, many[1], rtol=1e-13, atol=1e-13)


def test_times_may_start_later():
    system = systems.make("damped_oscillator")
    np.testing.assert_allclose(
        system.simulate([2, 0, 0], system.times() + 5), system.simulate([2, 0, 0], system.times()), atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "x0", "message"),
    [
        ("gas_containers", [2.0, 0, 1, 1], r"state 0 \(q=2, p=0, .*outside the domain .* 0 < q < 2"),
        ("gas_containers", [[1.0, 0, 1, 1], [-0.1, 0, 1, 1]], r"state 1 \(q=-0.1"),
        ("gas_containers", [1.0, float("nan"), 1, 1], r"p=nan.*outside the domain"),
        ("gas_containers", [1.0, 0, 1], r"shape \(3,\).*holds 4 numbers \(q, p, S1, S2\)"),
        ("gas_containers", ["a", 0, 1, 1], "x must be an array of numbers"),
        ("double_pendulum", [0, 0, 2, 0, 0, 0, 0, 0, 1, 1], "springs of non-zero length"),
        ("double_pendulum", [1, 1, 1, 1, 0, 0, 0, 0, 1, 1], "springs of non-zero length"),
    ],
)
def test_states_outside_the_domain(name, x0, message):
    system = systems.make(name)
    with pytest.raises(InputError, match=message):
        system.simulate(x0, [0, 0.01])


def test_length_moves_the_domain():
    systems.make("gas_containers", length=3.0).check_domain([2.5, 0, 1, 1])


def test_trajectory_that_leaves_the_domain_is_named():
    """Ten times the paper's step throws the wall out of the container."""
    system = systems.make("gas_containers")
    start = [[1.0, 0, 2, 2], [0.05, -1, 3, 1]]
    with pytest.raises(InputError, match=r"1 of 2 trajectories left the domain .*trajectory 1; .*lost at t ="):
        system.simulate(start, np.linspace(0, 4, 41))


@pytest.mark.parametrize(
    ("t", "message"),
    [
        ([0.0], "at least 2 finite times"),
        ([0, 1, 1], r"t must increase, but t\[2\] = 1"),
        ([0, np.nan], "finite"),
    ],
)
def test_bad_times(t, message):
    with pytest.raises(InputError, match=message):
        systems.make("damped_oscillator").simulate([2, 0, 0], t)


def test_unknown_integrator():
    with pytest.raises(InputError, match="integrator='euler' is unknown; choose one of rk23, accurate"):
        systems.make("damped_oscillator").simulate([2, 0, 0], [0, 1], "euler")

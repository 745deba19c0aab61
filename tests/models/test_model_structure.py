"""The GENERIC structure at rounding level, for any weights, in any coordinates.

It is claimed by construction, so it is checked against machine epsilon times the product of the factors'
norms: $|q|^2 |B| |g|$ for a Poisson bracket with rows $q$, core $B$ and annihilated gradient $g$.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wgfinn.models import Box, ConfinedBracket, ModelSpec, RescaledField, build

N_STATES, BATCH = 5, 7
FACTOR = 20
SIZE = {"layers": 2, "width": 8, "rows": 4, "initialisation": "unit"}
SPECS = {
    "affine": ModelSpec(**SIZE, entropy="affine", activation="tanh"),
    "tanh": ModelSpec(**SIZE, activation="tanh"),
    "softplus": ModelSpec(**SIZE, activation="softplus"),
    "squareplus": ModelSpec(**SIZE, activation="squareplus"),
    "confined": ModelSpec(**SIZE, activation="squareplus"),
}
# Where a network is not bounded, products of larger weights leave the range of single precision.
LARGEST_WEIGHTS = {"affine": 1e3, "tanh": 1e3, "softplus": 10.0, "squareplus": 10.0, "confined": 10.0}

seeds = st.integers(0, 2**31 - 1)
weight_exponents = st.floats(-3, 3)
state_exponents = st.floats(-3, 3)
examples = settings(deadline=None, max_examples=25)


@cache
def skeleton(form):
    return eqx.filter_eval_shape(build, SPECS[form], N_STATES, key=jax.random.key(0))


def random_field(form, seed, scale, dtype):
    """A field with every weight and bias drawn, times `scale`."""
    rng = np.random.default_rng(seed)
    scale = min(scale, LARGEST_WEIGHTS[form])
    draw = lambda leaf: jnp.asarray(0.7 * scale * rng.standard_normal(leaf.shape), dtype)  # noqa: E731
    field = jax.tree.map(draw, skeleton(form))
    if form != "confined":
        return field
    # Most states that are asked about lie outside.
    box = Box.around(rng.standard_normal((50, N_STATES)), dtype)
    return eqx.tree_at(brackets, field, tuple(ConfinedBracket(b, box) for b in brackets(field)))


def brackets(field):
    return field.reversible, field.irreversible


def inner_brackets(field):
    return tuple(b.inner if isinstance(b, ConfinedBracket) else b for b in brackets(field))


def random_states(seed, scale, dtype):
    return jnp.asarray(scale * np.random.default_rng(seed).standard_normal((N_STATES, BATCH)), dtype)


@eqx.filter_jit
def parts(field, x):
    """Velocity, gradients and matrices at every state of a batch, batch axis first.

    State by state, so that all of them start from the same numbers: where tanh is saturated a gradient has
    no correct digits, and two evaluations in different order would not be of the same function.
    """

    def one(x):
        return {
            "f": field(x),
            "of_energy": field.energy_gradient(x),
            "of_entropy": field.entropy_gradient(x),
            "poisson": field.poisson(x),
            "friction": field.friction(x),
        }

    return jax.vmap(one)(x.T)


@eqx.filter_jit
def cores(field, x):
    if isinstance(field.reversible, ConfinedBracket):
        x = field.reversible.box.nearest(x)
    return tuple(jax.vmap(b.core)(x.T) for b in inner_brackets(field))


def bounds(field, x, p):
    """Products of the factors' norms, of L and of M, one number per state.

    With what a row is made of, not what is left of it, for its terms may cancel."""
    of_poisson, of_friction = (norms(core) for core in cores(field, x))
    of_reversible, of_irreversible = (norms(np.ravel(b.generators)) for b in inner_brackets(field))
    poisson_rows, friction_rows = of_reversible * norms(p["of_entropy"]), of_irreversible * norms(p["of_energy"])
    return 2 * poisson_rows**2 * of_poisson, friction_rows**2 * of_friction**2


def norms(rows):
    """Also of numbers whose squares are too small to be told from zero, as gradients of saturated networks are."""
    rows = np.asarray(rows, np.float64)
    largest = np.max(np.abs(rows), axis=-1)
    unit = np.where(largest > 0, largest, 1.0)
    return largest * np.sqrt(np.sum((rows / unit[..., None]) ** 2, axis=-1))


def in_double(tree):
    return {name: np.asarray(value, np.float64) for name, value in tree.items()}


def assert_structure(p, of_poisson, of_friction, dtype):
    """`p` as from `parts`; the bounds are those of the matrices, one number per state."""
    for name, value in p.items():
        assert np.isfinite(value).all(), name
    eps, tiny = FACTOR * float(jnp.finfo(dtype).eps), float(jnp.finfo(dtype).tiny)
    of_energy, of_entropy = norms(p["of_energy"]), norms(p["of_entropy"])
    transposed = {name: np.swapaxes(p[name], 1, 2) for name in ("poisson", "friction")}

    def largest(x):
        return np.abs(x).reshape(len(x), -1).max(axis=1)

    def small(x, bound):
        np.testing.assert_array_less(largest(x), eps * bound + FACTOR * tiny)

    small(p["poisson"] + transposed["poisson"], of_poisson)
    small(p["friction"] - transposed["friction"], of_friction)
    small(np.minimum(np.linalg.eigvalsh((p["friction"] + transposed["friction"]) / 2), 0), of_friction)
    small(np.einsum("bij,bj->bi", p["poisson"], p["of_entropy"]), of_poisson * of_entropy)
    small(np.einsum("bij,bj->bi", p["friction"], p["of_energy"]), of_friction * of_energy)

    velocity = of_poisson * of_energy + of_friction * of_entropy
    expected = np.einsum("bij,bj->bi", p["poisson"], p["of_energy"])
    expected += np.einsum("bij,bj->bi", p["friction"], p["of_entropy"])
    small(p["f"] - expected, velocity)

    # The rates along a solution: energy is kept, entropy does not fall.
    small(np.sum(p["of_energy"] * p["f"], axis=1), of_energy * velocity)
    small(np.minimum(np.sum(p["of_entropy"] * p["f"], axis=1), 0), of_entropy * velocity)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", SPECS)
@examples
@given(seed=seeds, weights=weight_exponents, states=state_exponents)
def test_structure_for_any_weights(form, dtype, seed, weights, states):
    field = random_field(form, seed, 10.0**weights, dtype)
    x = random_states(seed, 10.0**states, dtype)
    p = parts(field, x)
    assert all(value.dtype == dtype for value in p.values())
    assert_structure(in_double(p), *bounds(field, x, p), dtype)


@eqx.filter_jit
def batch_parts(field, x):
    parts = {"f": field(x), "of_energy": field.energy_gradient(x), "of_entropy": field.entropy_gradient(x)}
    return {name: value.T for name, value in parts.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", SPECS)
@examples
@given(seed=seeds, weights=weight_exponents, states=state_exponents)
def test_rates_in_a_batch(form, dtype, seed, weights, states):
    """A batch takes another path through the brackets, the one that training takes."""
    field = random_field(form, seed, 10.0**weights, dtype)
    x = random_states(seed, 10.0**states, dtype)
    p = in_double(batch_parts(field, x))
    of_poisson, of_friction = bounds(field, x, p)
    of_energy, of_entropy = norms(p["of_energy"]), norms(p["of_entropy"])
    velocity = of_poisson * of_energy + of_friction * of_entropy
    eps, tiny = FACTOR * float(jnp.finfo(dtype).eps), FACTOR * float(jnp.finfo(dtype).tiny)
    assert np.isfinite(p["f"]).all()
    energy_rate, entropy_rate = (np.sum(p[g] * p["f"], axis=1) for g in ("of_energy", "of_entropy"))
    np.testing.assert_array_less(np.abs(energy_rate), eps * of_energy * velocity + tiny)
    np.testing.assert_array_less(-entropy_rate, eps * of_entropy * velocity + tiny)


def random_scales(seed, time, dtype):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-4, 4, N_STATES)
    shift = scale * rng.standard_normal(N_STATES)
    return [jnp.asarray(value, dtype) for value in (shift, scale, time)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", SPECS)
@examples
@given(seed=seeds, weights=st.floats(-2, 1), time=st.floats(-3, 3))
def test_structure_survives_other_coordinates(form, dtype, seed, weights, time):
    r"""Scales from 1e-4 to 1e4. Entry (i, j) is measured in units of $D_i D_j / t_c$, entry i of a gradient
    in units of $1 / D_i$: coordinates in which the inner bounds hold."""
    inner = random_field(form, seed, 10.0**weights, dtype)
    field = RescaledField(inner, *random_scales(seed, 10.0**time, dtype))
    z = random_states(seed, 1.0, dtype)
    x = field.scale[:, None] * z + field.shift[:, None]
    p = in_double(parts(field, x))
    scale, unit = np.asarray(field.scale, np.float64), float(field.time)
    p["f"] = p["f"] / scale * unit
    for name in ("of_energy", "of_entropy"):
        p[name] = p[name] * scale
    for name in ("poisson", "friction"):
        p[name] = p[name] / np.outer(scale, scale) * unit
    assert_structure(p, *bounds(inner, field.inward(x), p), dtype)


def test_rescaled_parts_follow_the_chain_rule(key):
    """E_x(x) = E_z(z), f_x = D f_z / t_c, and the gradient is that of the energy in x."""
    inner = random_field("softplus", 3, 1.0, "float64")
    scale = jnp.array([1e-2, 1.0, 3.0, 50.0, 0.5])
    field = RescaledField(inner, shift=jnp.arange(5.0), scale=scale, time=jnp.asarray(2.5))
    z = jax.random.normal(key, (N_STATES,))
    x = scale * z + jnp.arange(5.0)
    np.testing.assert_allclose(field(x), scale * inner(z) / 2.5, rtol=1e-12)
    for name in ("energy", "entropy"):
        of_x, gradient = getattr(field, name), getattr(field, f"{name}_gradient")
        np.testing.assert_allclose(of_x(x), getattr(inner, name)(z), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), jax.grad(of_x)(x), rtol=1e-12)


@pytest.mark.parametrize("form", SPECS)
def test_generators_count_by_their_skew_part(form):
    """Only the strictly upper triangle acts (spec, section 5)."""
    field = random_field(form, 0, 1.0, "float64")
    x = random_states(0, 1.0, "float64")
    changed = eqx.tree_at(
        lambda f: tuple(b.generators for b in inner_brackets(f)),
        field,
        replace_fn=lambda g: g + jnp.tril(jnp.ones_like(g)),
    )
    evaluate = eqx.filter_jit(lambda field, x: field(x))
    np.testing.assert_array_equal(evaluate(changed, x), evaluate(field, x))

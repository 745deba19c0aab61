"""Known energy, entropy, Poisson operator and friction: given ones are served, the structure stays exact, and what
cannot hold is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn import InputError
from wgfinn._spec import parse
from wgfinn.data import Scales
from wgfinn.models import (
    KnownFunctions,
    ModelSpec,
    RescaledField,
    build,
    know,
    parameter_count,
    read_known,
    require_consistency,
)
from wgfinn.systems import DampedOscillator

NAMES = ("q", "p", "S")
SYSTEM = DampedOscillator(mass=2.0, stiffness=3.0, gamma=0.3, temperature=1.5)
# Units far apart: a factor forgotten between coordinates would show, and so would a field not of order one.
SCALES = Scales(shift=[10.0, -2e-3, 4.0], scale=[5e2, 1e-3, 0.2], time=40.0)
STATES = SCALES.backward(np.random.default_rng(1).standard_normal((40, 3)))
SIZE = {"layers": 2, "width": 6, "rows": 3}
CANONICAL = {"canonical": [["q", "p"]]}
HEAT = {"sum": ["S"]}
# q and p exchange, p and S diffuse: constant brackets whose kernels are not axes.
MIXED_POISSON = [[0.0, 1.0, -1.0], [-1.0, 0.0, 2.0], [1.0, -2.0, 0.0]]
CHAIN_FRICTION = [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]

L = [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

CASES = {
    "sum": {"entropy": HEAT},
    "two sums": {"energy": {"sum": ["q", "p"]}, "entropy": {"sum": ["S", "p"]}},
    "canonical": {"poisson": CANONICAL},
    "canonical, affine": {"poisson": CANONICAL, "entropy": "affine"},
    "canonical, sum": {"poisson": CANONICAL, "entropy": HEAT},
    "matrix": {"poisson": MIXED_POISSON},
    "friction matrix": {"friction": CHAIN_FRICTION},
    "both matrices": {"poisson": MIXED_POISSON, "friction": CHAIN_FRICTION},
    "no entropy": {"entropy": "none"},
    "no entropy, two constants": {"entropy": "none", "poisson": CANONICAL},
    "no entropy, energy": {"entropy": "none", "energy": SYSTEM.energy},
    "bath": {"entropy": "bath"},
    "bath, canonical": {"entropy": "bath", "poisson": CANONICAL},
    "bath, energy": {"entropy": "bath", "energy": SYSTEM.energy},
    "bath, friction": {"entropy": "bath", "friction": CHAIN_FRICTION},
    "energy": {"energy": SYSTEM.energy},
    "potentials": {"energy": SYSTEM.energy, "entropy": SYSTEM.entropy},
    "reversible": {"energy": SYSTEM.energy, "entropy": HEAT, "poisson": SYSTEM.poisson},
    "irreversible": {"energy": SYSTEM.energy, "entropy": SYSTEM.entropy, "friction": SYSTEM.friction},
}


def learnt_field(known, scales=SCALES, **size):
    """A field in physical coordinates with every weight drawn."""
    forms, functions = read_known(**known)
    spec = parse(ModelSpec, {**SIZE, **size, **forms})
    physics = know(spec, NAMES, scales, functions)
    inner = eqx.filter_eval_shape(build, spec, 3, key=jax.random.key(0), physics=physics)
    rng = np.random.default_rng(2)
    inner = jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape)), inner)
    return RescaledField(inner, *(jnp.asarray(v) for v in (scales.shift, scales.scale, scales.time))), physics


@pytest.mark.parametrize("case", CASES)
def test_structure_is_exact(case):
    """In units of the states, with 1e-14 of the factors' sizes for each product of a few terms."""
    field, _ = learnt_field(CASES[case])
    scale, time = SCALES.scale, SCALES.time

    @eqx.filter_jit
    def parts(x):
        return field.poisson(x), field.friction(x), field.energy_gradient(x), field.entropy_gradient(x), field(x)

    for state in STATES[:8]:
        poisson, friction, of_energy, of_entropy, velocity = map(np.asarray, parts(jnp.asarray(state)))
        poisson, friction = (m / np.outer(scale, scale) * time for m in (poisson, friction))
        of_energy, of_entropy, velocity = of_energy * scale, of_entropy * scale, velocity / scale * time
        size = np.abs(poisson).max() * np.abs(of_energy).max() + np.abs(friction).max() * np.abs(of_entropy).max()
        assert 0 < size < np.inf
        assert np.abs(poisson + poisson.T).max() <= 1e-14 * np.abs(poisson).max()
        assert np.abs(friction - friction.T).max() <= 1e-14 * np.abs(friction).max()
        assert np.linalg.eigvalsh((friction + friction.T) / 2)[0] >= -1e-13 * np.abs(friction).max()
        if field.is_open:
            np.testing.assert_array_equal(of_entropy, -of_energy)
            assert velocity @ of_energy <= 1e-13 * size * np.abs(of_energy).max()
        else:
            assert np.abs(poisson @ of_entropy).max() <= 1e-13 * np.abs(poisson).max() * np.abs(of_entropy).max()
            assert np.abs(friction @ of_energy).max() <= 1e-13 * np.abs(friction).max() * np.abs(of_energy).max()
        np.testing.assert_allclose(velocity, poisson @ of_energy + friction @ of_entropy, rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("case", ["canonical", "both matrices", "no entropy", "bath", "reversible", "irreversible"])
def test_a_batch_is_its_states_one_by_one(case):
    field, _ = learnt_field(CASES[case])
    batch = jnp.asarray(STATES[:6].T.reshape(3, 2, 3))
    together = eqx.filter_jit(lambda x: (field(x), field.energy(x), field.entropy(x)))(batch)
    one_by_one = jax.vmap(lambda x: (field(x), field.energy(x), field.entropy(x)))
    alone = jax.jit(one_by_one)(jnp.asarray(STATES[:6]))
    units = SCALES.scale[:, None, None]
    velocity = np.asarray(alone[0]).T.reshape(3, 2, 3) / units
    np.testing.assert_allclose(together[0] / units, velocity, rtol=1e-12, atol=1e-12 * np.abs(velocity).max())
    for values, expected in zip(together[1:], alone[1:], strict=True):
        np.testing.assert_allclose(values, np.asarray(expected).reshape(2, 3), rtol=1e-12)


def test_what_is_served_is_what_was_given():
    """To rounding: scales of 1e-3 to 5e2 go in and out again. E adds terms up to 1e6 to one of 6."""
    field, _ = learnt_field({"energy": SYSTEM.energy, "poisson": SYSTEM.poisson, "entropy": HEAT})
    friction, _ = learnt_field({"energy": SYSTEM.energy, "friction": SYSTEM.friction})
    for x in map(jnp.asarray, STATES[:8]):
        np.testing.assert_allclose(field.energy(x), SYSTEM.energy(x), rtol=1e-14)
        np.testing.assert_allclose(field.energy_gradient(x), SYSTEM.energy_gradient(x), rtol=1e-12)
        np.testing.assert_allclose(field.entropy(x), SYSTEM.entropy(x), rtol=1e-13)
        np.testing.assert_allclose(field.entropy_gradient(x), [0, 0, 1], rtol=1e-15)
        np.testing.assert_allclose(field.poisson(x), SYSTEM.poisson(x), rtol=1e-15)
        np.testing.assert_allclose(friction.friction(x), SYSTEM.friction(x), rtol=1e-12)
    canonical, _ = learnt_field({"poisson": CANONICAL})
    np.testing.assert_allclose(canonical.poisson(jnp.asarray(STATES[0])), L, rtol=1e-15)


def test_a_learnt_entropy_beside_a_canonical_bracket_sees_the_other_states_alone():
    field, physics = learnt_field({"poisson": CANONICAL})
    assert physics.entropy_kernel == ((0.0, 0.0, 1.0),)
    gradient = np.asarray(field.entropy_gradient(jnp.asarray(STATES[0])))
    np.testing.assert_array_equal(gradient[:2], 0)
    assert gradient[2] != 0


def test_fields_are_of_order_one_whatever_the_units():
    """What is learnt beside known pieces has their size: in the coordinates of the training the velocity is neither
    lost nor overwhelming. Without it, it would be off by t_c / (5e2 * 1e-3) or by powers of the energy, 1e6."""
    for case, known in CASES.items():
        # A fully known half has the size that it has.
        if case not in ("reversible", "irreversible", "both matrices"):
            field, _ = learnt_field(known)
            velocity = np.asarray(eqx.filter_jit(field)(jnp.asarray(STATES.T))).T / SCALES.scale * SCALES.time
            assert 1e-3 < np.sqrt(np.mean(velocity**2)) < 1e2, case


def test_known_pieces_hold_no_weights():
    """Networks of 3 inputs, width 6, one output: 31 numbers; brackets: 27 generators and 3·6 + 6 + 6·9 + 9 = 87."""
    count = {case: parameter_count(learnt_field(known)[0]) for case, known in CASES.items()}
    nothing = parameter_count(learnt_field({})[0])
    assert nothing == 31 + 31 + 114 + 114
    assert count["sum"] == nothing - 31
    assert count["canonical, sum"] == nothing - 31 - 114
    # One input instead of three: 2·6 weights fewer.
    assert count["canonical"] == nothing - 114 - 12
    assert count["reversible"] == 114


def test_arithmetic_is_that_of_the_weights():
    """Known constants are double; the training may be in single precision."""
    forms, functions = read_known(energy=SYSTEM.energy, entropy=HEAT, poisson=lambda x: np.array(L))
    spec = parse(ModelSpec, {**SIZE, **forms})
    physics = know(spec, NAMES, SCALES, functions)
    field = eqx.filter_eval_shape(build, spec, 3, key=jax.random.key(0), physics=physics)
    field = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float32), field)
    z = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    parts = eqx.filter_eval_shape(lambda f, z: (f(z), f.energy(z), f.entropy(z), f.energy_gradient(z)), field, z)
    assert {part.dtype.name for part in parts} == {"float32"}


# ------------------------------------------------------------------------------------------------- refused


def resolve(states=STATES, **known):
    forms, functions = read_known(**known)
    physics = know(parse(ModelSpec, forms), NAMES, SCALES, functions)
    require_consistency(physics, NAMES, SCALES, states)


def test_names_are_those_of_the_states():
    with pytest.raises(
        InputError, match=r"entropy = {sum = ...}: there is no state 's'; did you mean 'S'\? .* q, p, S"
    ):
        resolve(entropy={"sum": ["s"]})
    with pytest.raises(InputError, match=r"poisson = {canonical = ...}: there is no state 'pp'; did you mean 'p'\?"):
        resolve(poisson={"canonical": [["q", "pp"]]})
    with pytest.raises(InputError, match="the state 'q' is named twice"):
        resolve(poisson={"canonical": [["q", "p"], ["S", "q"]]})
    with pytest.raises(InputError, match=r"energy = {sum = ...}: the state 'S' is named twice"):
        resolve(energy={"sum": ["S", "S"]})


@pytest.mark.parametrize(
    ("piece", "form", "allowed"),
    [
        ("entropy", "netural", r"give 'neural', 'affine', 'none', 'bath' or \{sum = \['S1', 'S2'\]\} with names"),
        ("entropy", {"sums": ["S"]}, "give 'neural', 'affine', 'none', 'bath' or"),
        ("entropy", {"sum": []}, "give 'neural', 'affine', 'none', 'bath' or"),
        ("energy", {"sum": [1]}, "give 'neural', 'affine' or"),
        ("energy", np.eye(3), "give 'neural', 'affine' or"),
        ("poisson", "affine", r"give 'neural', \{canonical = \[\['q', 'p'\]\]\}"),
        ("poisson", {"canonical": [["q"]]}, "give 'neural', {canonical = "),
        ("poisson", {"canonical": ["q", "p"]}, "give 'neural', {canonical = "),
        ("friction", {"canonical": [["q", "p"]]}, "give 'neural' or {matrix = "),
        ("friction", object(), "give 'neural' or {matrix = "),
    ],
)
def test_forms(piece, form, allowed):
    with pytest.raises(InputError, match=rf"{piece} = .*: {allowed}"):
        resolve(**{piece: form})


def test_a_plain_network_knows_nothing():
    with pytest.raises(InputError, match="a plain network has no entropy that could be known; take field = 'generic'"):
        parse(ModelSpec, {"field": "plain", "entropy": HEAT})


def test_matrices():
    with pytest.raises(InputError, match=r"poisson = {matrix = ...}: there are 3 states, .* but has 2 rows of 2"):
        resolve(poisson=[[0, 1], [-1, 0]])
    with pytest.raises(InputError, match=r"poisson = {matrix = ...}: must be skew, but misses it by 2 of its size"):
        resolve(poisson=np.eye(3))
    with pytest.raises(InputError, match=r"friction = {matrix = ...}: must be symmetric, but misses it by 2 of"):
        resolve(friction=MIXED_POISSON)
    with pytest.raises(
        InputError, match=r"must be positive semidefinite, but has the eigenvalue -1: entropy would fall"
    ):
        resolve(friction=np.diag([1.0, -1.0, 0.0]))


def test_functions_are_for_jax_and_of_one_state():
    with pytest.raises(
        InputError, match=r"the given energy cannot be evaluated at a state of shape \(3,\): .*jax.numpy"
    ):
        resolve(energy=lambda x: float(x[0]))
    with pytest.raises(InputError, match=r"the given entropy must be a real number at a state .* but is float32\[3\]"):
        resolve(entropy=lambda x: x)
    with pytest.raises(InputError, match=r"the given friction must be a real matrix of shape \(3, 3\) .* float32\[3\]"):
        resolve(energy=SYSTEM.energy, friction=lambda x: x)


def test_a_function_missing_or_too_many():
    spec = ModelSpec(energy="function")
    with pytest.raises(
        InputError, match=r"energy = 'function': .* which no file holds.*WGFINN.load\(path, energy=...\)"
    ):
        know(spec, NAMES, SCALES)
    with pytest.raises(InputError, match="energy was given as a function, but this model has energy = 'neural'"):
        know(ModelSpec(), NAMES, SCALES, KnownFunctions(energy=SYSTEM.energy))


def test_degeneracy_that_could_not_hold():
    with pytest.raises(
        InputError, match=r"a learnt entropy could not keep L∇S = 0: give the entropy as well, or leave"
    ):
        resolve(poisson=SYSTEM.poisson)
    with pytest.raises(InputError, match=r"a learnt energy could not keep M∇E = 0: give the energy as well, or leave"):
        resolve(friction=SYSTEM.friction)
    forms, _ = read_known(poisson=CANONICAL)
    with pytest.raises(InputError, match="the known poisson acts on all states, so that by L∇S = 0 the entropy could"):
        know(parse(ModelSpec, forms), ("q", "p"), Scales.identity(2))
    with pytest.raises(InputError, match="the known friction acts on all states, so that by M∇E = 0 the energy could"):
        resolve(friction=np.eye(3))
    for entropy in (HEAT, "bath"):
        with pytest.raises(InputError, match="all known: nothing is left to learn"):
            resolve(energy=SYSTEM.energy, entropy=entropy, poisson=CANONICAL, friction=SYSTEM.friction)


def test_no_entropy():
    """Nothing but L∇E with any skew L: of two states, which no other L∇S = 0 leaves one, or a canonical pair."""
    for known in ({"entropy": "none"}, {"entropy": "none", "poisson": CANONICAL}):
        forms, functions = read_known(**known)
        spec = parse(ModelSpec, {**SIZE, **forms})
        physics = know(spec, ("q", "p"), Scales.identity(2), functions)
        field = build(spec, 2, key=jax.random.key(0), physics=physics)
        x = jnp.array([0.3, -0.4])
        assert np.abs(field.poisson(x)[0, 1]) > 1e-3
        np.testing.assert_allclose(field(x), field.poisson(x) @ field.energy_gradient(x), rtol=1e-6)
        assert abs(field(x) @ field.energy_gradient(x)) <= 1e-6 * np.abs(field(x)).max()
        assert not field.friction(x).any()
        assert field.entropy(x) == 0
    with pytest.raises(InputError, match="means that nothing rubs: leave the friction out"):
        resolve(entropy="none", friction=CHAIN_FRICTION)
    with pytest.raises(InputError, match="cannot move in one state, 'q'"):
        know(ModelSpec(entropy="none"), ("q",), Scales.identity(1))


def test_a_bath_takes_the_energy():
    """x' = (L - M)∇E with any skew L and any positive semidefinite M, of one state too; what is lost is the entropy."""
    for names in (("q",), ("q", "p")):
        field = build(
            parse(ModelSpec, {**SIZE, "entropy": "bath"}),
            len(names),
            key=jax.random.key(0),
            physics=know(ModelSpec(entropy="bath"), names, Scales.identity(len(names))),
        )
        x = jnp.array([0.3, -0.4])[: len(names)]
        slope = field.energy_gradient(x)
        np.testing.assert_allclose(field(x), (field.poisson(x) - field.friction(x)) @ slope, rtol=1e-5)
        assert slope @ field(x) < 0
        assert field.entropy(x) == -field.energy(x)
        assert np.linalg.eigvalsh(field.friction(x))[0] > 0
    # A known friction acts on the energy: nothing is asked of it.
    resolve(entropy="bath", energy=SYSTEM.energy, friction=CHAIN_FRICTION)


def test_degeneracy_is_measured():
    """Of L∇q all is left; of M∇E with T + 1 in place of T = 1.5, (1 + 1.5 - 1.5)/(1 + 1.5 + 1.5) of the terms."""
    resolve(poisson=CANONICAL, entropy=HEAT, energy=SYSTEM.energy)
    with pytest.raises(
        InputError, match=r"L∇S .* must be zero, but misses it by 1 of its terms at a state of the data, q ="
    ):
        resolve(poisson=CANONICAL, entropy={"sum": ["q"]})
    with pytest.raises(
        InputError, match=r"M∇E of the known friction and the known energy must be zero, but misses it by 0.25 of"
    ):
        resolve(energy=lambda x: SYSTEM.energy(x) + x[2], friction=SYSTEM.friction)
    with pytest.raises(InputError, match=r"the known Poisson operator L must be skew, but misses it by 2 of its terms"):
        resolve(entropy=HEAT, poisson=lambda x: jnp.diag(x.at[2].set(0)))
    with pytest.raises(InputError, match=r"the known friction M must be positive semidefinite, but misses it by"):
        resolve(energy=SYSTEM.energy, friction=lambda x: -SYSTEM.friction(x))
    with pytest.raises(InputError, match=r"the known friction M must be symmetric, but misses it by"):
        resolve(energy=SYSTEM.energy, friction=lambda x: SYSTEM.friction(x).at[0, 1].add(1.0))
    with pytest.raises(
        InputError, match=r"the known energy's gradient is not finite at a state of the data, q = .*mend"
    ):
        resolve(energy=lambda x: jnp.sqrt(x[0]))

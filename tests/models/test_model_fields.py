"""Fields: the paper's parameter counts, batches, brackets as actions, and what a plain network refuses."""

import itertools
import re

import equinox as eqx
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.models import (
    MLP,
    AffinePotential,
    FrictionBracket,
    ModelSpec,
    NeuralPotential,
    PoissonBracket,
    RescaledField,
    annihilator,
    build,
    parameter_count,
)


def filled(spec, n_states, seed=0):
    """A field whose weights numpy draws: nothing to compile."""
    rng = np.random.default_rng(seed)
    shapes = eqx.filter_eval_shape(build, spec, n_states, key=jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.standard_normal(leaf.shape)), shapes)


def draws(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize(
    ("n_states", "layers", "width", "entropy", "count"),
    [
        pytest.param(4, 4, 20, "affine", 3646, id="gas containers"),
        pytest.param(10, 5, 30, "neural", 20742, id="double pendulum"),
        pytest.param(3, 5, 50, "affine", 24577, id="damped oscillator"),
        pytest.param(8, 5, 80, "neural", 92194, id="Vlasov-Poisson"),
    ],
)
def test_parameter_counts_of_the_paper(n_states, layers, width, entropy, count):
    """Spec, section 5; the paper prints the same four numbers."""
    spec = ModelSpec(layers=layers, width=width, entropy=entropy)
    assert parameter_count(filled(spec, n_states)) == count


def test_other_coordinates_add_no_parameters():
    """Scales are data, not weights."""
    inner = filled(ModelSpec(), 3)
    field = RescaledField(inner, shift=jnp.zeros(3), scale=jnp.ones(3), time=jnp.asarray(1.0))
    assert parameter_count(field) == parameter_count(inner)


FORMS = list(itertools.product(["affine", "neural"], repeat=2))


@pytest.mark.parametrize(("energy", "entropy"), FORMS)
def test_batch_equals_each_state_alone(energy, entropy):
    """Two batch axes; the sums may be ordered differently, so to rounding."""
    inner = filled(ModelSpec(layers=2, width=6, energy=energy, entropy=entropy), 3)
    outer = RescaledField(inner, shift=jnp.ones(3), scale=jnp.array([1.0, 10.0, 0.1]), time=jnp.asarray(2.0))

    @jax.jit
    def both_ways(x):
        parts = (
            part
            for field in (inner, outer)
            for part in (field, field.energy, field.entropy, field.energy_gradient, field.entropy_gradient)
        )
        return [(part(x), jax.vmap(jax.vmap(part, -1, -1), -1, -1)(x)) for part in parts]

    for batched, alone in both_ways(draws(3, 4, 2)):
        assert batched.shape == alone.shape
        np.testing.assert_allclose(batched, alone, rtol=1e-12, atol=1e-14)


def test_plain_field_takes_batches():
    field = filled(ModelSpec(field="plain", layers=3, width=6), 3)
    x = draws(3, 4)
    np.testing.assert_allclose(field(x), jax.vmap(field, -1, -1)(x), rtol=1e-13)


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ("energy", "energy"),
        ("entropy", "entropy"),
        ("energy_gradient", "energy"),
        ("entropy_gradient", "entropy"),
        ("poisson", "Poisson matrix"),
        ("friction", "friction matrix"),
    ],
)
def test_plain_field_has_no_thermodynamics(part, what):
    field = filled(ModelSpec(field="plain"), 3)
    with pytest.raises(InputError, match=f"a plain network has no {what}; fit with field = 'generic'"):
        getattr(field, part)(jnp.zeros(3))


@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
@pytest.mark.parametrize("rows", [3, 17])
def test_action_equals_matrix_times_vector(kind, rows):
    """Up to sixteen rows act entry by entry, more as matrix products; gradients may be the same for all
    states."""
    n_states, n = 5, 6
    bracket = getattr(filled(ModelSpec(layers=2, width=4, rows=rows), n_states), kind)

    @jax.jit
    def both_ways(x, *gradients):
        results = []
        for own in itertools.product([True, False], repeat=2):
            annihilated, vector = (g if each else g[:, 0] for g, each in zip(gradients, own, strict=True))
            axes = tuple(-1 if each else None for each in own)
            matrices = jax.vmap(bracket.matrix, (-1, axes[0]))(x, annihilated)
            expected = jax.vmap(jnp.matmul, (0, axes[1]), -1)(matrices, vector)
            one_by_one = jax.vmap(bracket.apply, (-1, *axes), -1)(x, annihilated, vector)
            batched = bracket.apply(x, annihilated, vector)
            results.append((batched, one_by_one, expected, jnp.abs(matrices).max()))
        return results

    for batched, one_by_one, expected, size in both_ways(*draws(3, n_states, n)):
        rounding = 100 * 2.2e-16 * float(size) * n_states
        np.testing.assert_allclose(batched, expected, rtol=0, atol=rounding)
        np.testing.assert_allclose(one_by_one, expected, rtol=0, atol=rounding)


def test_matrices_against_the_formulas():
    r"""$L = Q^\top (B - B^\top) Q$ and $M = Q^\top C C^\top Q$ with $Q_i = A_i g$, in plain numpy."""
    n_states, rows = 4, 3
    gradient, x = np.asarray(draws(2, n_states))
    field = filled(ModelSpec(layers=2, width=4, rows=rows), n_states)
    for bracket in (field.reversible, field.irreversible):
        core = np.asarray(bracket.core(jnp.asarray(x))).reshape(rows, rows)
        upper = np.triu(np.asarray(bracket.generators), 1)
        q = np.stack([(u - u.T) @ gradient for u in upper])
        middle = core - core.T if bracket is field.reversible else core @ core.T
        actual = bracket.matrix(jnp.asarray(x), jnp.asarray(gradient))
        np.testing.assert_allclose(actual, q.T @ middle @ q, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(annihilator(bracket.generators, jnp.asarray(gradient)), q, rtol=1e-13)


def test_affine_gradient_is_one_constant(key):
    potential = AffinePotential(3, initialisation="unit", key=key)
    x = draws(3, 4, 5)
    assert potential.gradient(x).shape == (3,)
    np.testing.assert_array_equal(potential.gradient(x), potential.slope)
    np.testing.assert_allclose(jax.grad(potential)(x[:, 0, 0]), potential.slope, rtol=1e-15)
    field = filled(ModelSpec(entropy="affine", layers=2, width=3), 3)
    constant = np.asarray(field.entropy_gradient(x))
    assert constant.shape == (3, 4, 5)
    assert np.ptp(constant.reshape(3, -1), axis=1).max() == 0


def test_neural_gradient_against_differences(key):
    """Central differences with h = 1e-6: rounding 1e-16 / h = 1e-10."""
    potential = NeuralPotential(3, layers=3, width=5, initialisation="unit", key=key)
    x, h = draws(3), 1e-6
    shifted = x[:, None] + h * jnp.concatenate([jnp.eye(3), -jnp.eye(3)], axis=1)
    above, below = np.split(np.asarray(potential(shifted)), 2)
    np.testing.assert_allclose(potential.gradient(x), (above - below) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("activation", ["tanh", "softplus", "squareplus"])
def test_derivatives_of_activations(activation):
    """First and second against central differences with h = 1e-5: h² of truncation and 1e-16 / h of rounding."""
    network = MLP(1, 1, layers=2, width=1, initialisation="unit", activation=activation, key=jax.random.key(0))
    network = eqx.tree_at(lambda n: n.weights, network, (jnp.ones((1, 1)), jnp.ones((1, 1))))
    value = lambda a: network(a[None])[0]  # noqa: E731
    a, h = jnp.linspace(-5, 5, 21), 1e-5
    for function, derivative in [(value, jax.grad(value)), (jax.grad(value), jax.grad(jax.grad(value)))]:
        differences = (jax.vmap(function)(a + h) - jax.vmap(function)(a - h)) / (2 * h)
        np.testing.assert_allclose(jax.vmap(derivative)(a), differences, atol=1e-9)


FUNCTIONS = {
    "tanh": np.tanh,
    "softplus": lambda a: np.logaddexp(0, a),
    "squareplus": lambda a: (a + np.sqrt(a**2 + 4)) / 2,
}


@pytest.mark.parametrize(("activation", "function"), FUNCTIONS.items())
def test_perceptron_against_numpy(activation, function, key):
    network = MLP(3, 2, layers=4, width=7, initialisation="paper", activation=activation, key=key)
    x = np.asarray(draws(3))
    expected = x
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        expected = function(np.asarray(weight) @ expected + np.asarray(bias))
    expected = np.asarray(network.weights[-1]) @ expected + np.asarray(network.biases[-1])
    np.testing.assert_allclose(network(jnp.asarray(x)), expected, rtol=1e-13)


@pytest.mark.parametrize(("initialisation", "bound"), [("paper", np.sqrt(6 / (3 + 400))), ("unit", np.sqrt(3 / 3))])
def test_initialisation(initialisation, bound, key):
    """Uniform within the bound, biases zero; the largest of 1200 draws comes within 2 % of it."""
    network = MLP(3, 1, layers=2, width=400, initialisation=initialisation, key=key)
    assert 0.98 * bound < np.abs(network.weights[0]).max() <= bound
    assert all(np.all(np.asarray(bias) == 0) for bias in network.biases)


@pytest.mark.parametrize(("initialisation", "scale"), [("paper", 0.1), ("unit", 0.7)])
def test_scale_of_the_generators(initialisation, scale, key):
    """1000 normal draws give a standard deviation to 1 / sqrt(2000) = 2.2 %."""
    bracket = PoissonBracket(10, rows=10, layers=2, width=2, initialisation=initialisation, key=key)
    assert np.std(bracket.generators) == pytest.approx(scale, rel=0.08)


def test_parts_are_drawn_independently(key):
    field = build(ModelSpec(layers=2, width=4, rows=3), 3, key=key)
    assert not np.array_equal(field.reversible.generators, field.irreversible.generators)
    energy, entropy = field.energy_potential.network, field.entropy_potential.network
    assert not np.array_equal(energy.weights[0], entropy.weights[0])


def _sizes(jaxpr):
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield int(np.prod(variable.aval.shape))
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from _sizes(inner)


@pytest.mark.parametrize(("entropy", "differentiated"), [("affine", False), ("neural", False), ("neural", True)])
def test_no_matrix_per_state_is_formed(entropy, differentiated):
    """d = 20, five rows, 1000 states: a matrix per state would hold 400,000 numbers; the rows hold 100,000.

    Neither the program as written nor the compiled one holds such an array, and neither does the
    gradient with respect to the weights, which is what training runs."""
    n_states, rows, batch = 20, 5, 1000
    field = filled(ModelSpec(layers=2, width=10, rows=rows, entropy=entropy), n_states)
    x = jnp.zeros((n_states, batch))

    def run(field, x):
        if differentiated:
            return jax.grad(lambda f: jnp.sum(f(x) ** 2))(field)
        return field(x)

    largest = max(_sizes(jax.make_jaxpr(run)(field, x).jaxpr))
    assert rows * n_states * batch <= largest < n_states**2 * batch
    text = jax.jit(run).lower(field, x).compile().as_text()
    shapes = [shape.split(",") for shape in re.findall(r"f64\[([\d,]+)\]", text)]
    assert shapes
    assert max(int(np.prod([int(n) for n in shape])) for shape in shapes) < n_states**2 * batch


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"field": "magic"}, r"field = 'magic': input should be 'generic' or 'plain'"),
        ({"layers": 1}, r"layers = 1: input should be greater than or equal to 2"),
        ({"width": 0}, r"width = 0: input should be greater than or equal to 1"),
        ({"rows": 0}, r"rows = 0: input should be greater than or equal to 1"),
        ({"entropy": "linear"}, r"entropy = 'linear': give 'neural', 'affine', 'none', 'bath' or"),
        ({"depth": 3}, r"unknown key 'depth'; known here are activation, confined, energy, entropy, field"),
    ],
)
def test_refused_settings(settings, message):
    with pytest.raises(InputError, match=message):
        parse(ModelSpec, settings)


@pytest.mark.parametrize("kind", [PoissonBracket, FrictionBracket])
def test_brackets_start_nearly_constant_unless_they_are_the_papers(kind):
    def variation(initialisation):
        bracket = kind(3, rows=3, layers=3, width=32, initialisation=initialisation, key=jax.random.key(0))
        values = bracket.core(jax.random.normal(jax.random.key(1), (3, 500)))
        return float(values.std(axis=1).mean() / jnp.sqrt((values.mean(axis=1) ** 2).mean()))

    assert variation("unit") < 0.2
    assert variation("paper") > 1

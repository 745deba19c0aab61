"""State weights, the loss and the attention rule against their formulas in numpy."""

import jax.numpy as jnp
import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn._spec import parse
from wgfinn.losses import AttentionSpec, attention, mean_over_equations, state_weights, weighted_loss


def residuals(*shape):
    """Normal draws whose states differ in size by four orders."""
    rng = np.random.default_rng(0)
    return np.stack([size * rng.normal(size=shape[1:]) for size in np.logspace(-2, 2, shape[0])])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("inverse_std", [0.5, 10.0]), ("inverse_variance", [0.25, 100.0]), ("none", [1.0, 1.0])],
)
def test_state_weights(kind, expected):
    np.testing.assert_allclose(state_weights(np.array([2.0, 0.1]), kind), expected, rtol=1e-15)


@pytest.mark.parametrize("kind", ["inverse_std", "inverse_variance", "none"])
def test_state_that_never_moves(kind):
    assert state_weights(np.array([0.0, 1.0]), kind).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shape", [(3, 20), (3, 4, 5)])
def test_loss_against_the_formula(shape):
    """The mean over equations of ||r||_W^2 / d."""
    r, w = residuals(*shape), np.array([3.0, 0.5, 0.01])
    per_equation = np.einsum("i...,i->...", r**2, w) / 3
    assert float(weighted_loss(jnp.asarray(r), jnp.asarray(w))) == pytest.approx(per_equation.mean(), rel=1e-14)


def test_loss_with_a_mask():
    """Only the equations that exist count, in the sum and in the number, whatever stands in the others."""
    r, w = residuals(3, 4, 5), np.array([3.0, 0.5, 0.01])
    exists = np.random.default_rng(1).random((4, 5)) < 0.6
    per_equation = np.einsum("ijk,i->jk", r**2, w)[exists] / 3
    spoilt = np.where(exists, r, 1e6)
    mask = jnp.asarray(exists[None].astype(float))
    loss = weighted_loss(jnp.asarray(spoilt), jnp.asarray(w), mask)
    assert float(loss) == pytest.approx(per_equation.mean(), rel=1e-14)
    np.testing.assert_allclose(
        mean_over_equations(jnp.asarray(spoilt), mask), [row[exists].mean() for row in r], rtol=1e-13
    )


def reference_attention(multiplier, residual, weights, rate, decay):
    """Paper, section 3.1: e is the mean of |r| over all equations."""
    size = np.sqrt(weights) * np.abs(residual).reshape(len(weights), -1).mean(axis=1)
    return decay * multiplier + rate * size / size.max()


@pytest.mark.parametrize(("rate", "decay"), [(0.1, 0.9), (0.01, 0.99), (0.3, 1.0)])
def test_attention_against_the_formula(rate, decay):
    r, w = residuals(3, 4, 5), np.array([3.0, 0.5, 0.01])
    multiplier = np.array([1.0, 0.2, 0.7])
    actual = attention(*map(jnp.asarray, (multiplier, r, w)), rate, decay)
    np.testing.assert_allclose(actual, reference_attention(multiplier, r, w, rate, decay), rtol=1e-14)


def test_attention_with_a_mask():
    r, w = residuals(3, 4, 5), np.array([3.0, 0.5, 0.01])
    exists = np.random.default_rng(1).random((4, 5)) < 0.6
    mask = jnp.asarray(exists[None].astype(float))
    actual = attention(jnp.ones(3), jnp.asarray(np.where(exists, r, 1e6)), jnp.asarray(w), 0.1, 0.9, mask)
    np.testing.assert_allclose(actual, reference_attention(np.ones(3), r[:, exists], w, 0.1, 0.9), rtol=1e-13)


def test_fixed_point_of_the_largest_entry():
    """eta / (1 - gamma), one for every pair in the paper; 0.9^400 = 5e-19 of the start is left."""
    r, w = residuals(3, 10), np.ones(3)
    multiplier = np.full(3, 7.0)
    for _ in range(400):
        multiplier = reference_attention(multiplier, r, w, 0.05, 0.9)
    once_more = attention(*map(jnp.asarray, (multiplier, r, w)), 0.05, 0.9)
    np.testing.assert_allclose(once_more, multiplier, rtol=1e-12)
    assert float(once_more.max()) == pytest.approx(0.05 / (1 - 0.9), rel=1e-12)
    assert int(once_more.argmax()) == 2


def test_attention_is_off_by_default():
    off = AttentionSpec()
    assert (off.rate, off.decay) == (0.0, 1.0)
    multiplier = jnp.array([1.0, 0.25, 3.0])
    after = attention(multiplier, jnp.asarray(residuals(3, 10)), jnp.ones(3), off.rate, off.decay)
    np.testing.assert_array_equal(after, multiplier)


def test_attention_without_any_residual():
    """0 / 0 must not become NaN."""
    after = attention(jnp.ones(3), jnp.zeros((3, 10)), jnp.ones(3), 0.1, 0.9)
    np.testing.assert_allclose(after, 0.9, rtol=1e-15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": -0.1}, r"rate = -0\.1: input should be greater than or equal to 0"),
        ({"decay": 0}, r"decay = 0: input should be greater than 0"),
        ({"decay": 1.5}, r"decay = 1\.5: input should be less than or equal to 1"),
        ({"gamma": 0.9}, r"unknown key 'gamma'; known here are decay, rate"),
    ],
)
def test_refused_attention(settings, message):
    with pytest.raises(InputError, match=message):
        parse(AttentionSpec, settings)

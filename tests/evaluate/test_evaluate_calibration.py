"""Affine maps from learnt to true potentials."""

import numpy as np
import pytest

from wgfinn._errors import InputError
from wgfinn.evaluate import calibrate, calibrate_anchored

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("fit", [calibrate, calibrate_anchored])
@pytest.mark.parametrize(("scale", "offset"), [(2.0, -3.0), (-0.5, 1e3), (1e-200, 0.0)])
def test_recovers_an_affine_map(fit, scale, offset):
    truth = RNG.normal(size=50)
    learnt = (truth - offset) / scale
    found = fit(learnt, truth)
    np.testing.assert_allclose(found[0] * learnt + found[1], truth, rtol=0, atol=1e-10)


def test_least_squares():
    learnt, truth = RNG.normal(size=(2, 40))
    np.testing.assert_allclose(calibrate(learnt, truth), np.polyfit(learnt, truth, 1), rtol=1e-12)


def test_anchored():
    """The first value is met exactly and the scale is the best among all maps that do."""
    learnt, truth = RNG.normal(size=(2, 40))
    scale, offset = calibrate_anchored(learnt, truth)
    assert scale * learnt[0] + offset == pytest.approx(truth[0], rel=1e-14)
    best = np.linalg.lstsq((learnt - learnt[0])[:, None], truth - truth[0], rcond=None)[0]
    assert scale == pytest.approx(best[0], rel=1e-12)


def test_constant_learnt():
    assert calibrate(np.full(3, 0.1), [1.0, 2.0, 6.0]) == (0.0, 3.0)
    assert calibrate_anchored(np.full(3, 0.1), [1.0, 2.0, 6.0]) == (0.0, 1.0)


@pytest.mark.parametrize("fit", [calibrate, calibrate_anchored])
@pytest.mark.parametrize(
    ("learnt", "truth", "match"),
    [
        ([1.0, 2.0], [1.0], r"shapes \(2,\) and \(1,\)"),
        ([], [], "one length"),
        ([1.0, np.nan], [1.0, 2.0], "learnt values must be finite, but number 1 is nan"),
        ([1.0, 2.0], [np.inf, 2.0], "true values must be finite, but number 0 is inf"),
    ],
)
def test_refuses(fit, learnt, truth, match):
    with pytest.raises(InputError, match=match):
        fit(learnt, truth)

"""Samples that stand alone are found and put between their neighbours; motion and noise are not."""

import numpy as np
import pytest

from wgfinn.data import Trajectories, estimate_noise, mended, part_changed

T = np.linspace(0, 10, 200)
SCALES = np.array([1e4, 1e-3])
NOISE = 0.02


def waves(noise=NOISE, t=T):
    rng = np.random.default_rng(0)
    x = np.stack([np.stack([np.cos(t + a), np.sin(t + a)], axis=1) for a in (0.0, 1.0, 2.0)])
    return Trajectories.from_arrays((x + noise * rng.standard_normal(x.shape)) * SCALES, t)


def spoilt(runs, size, part=0.03):
    """A part of all samples is off by `size` of the waves' height, no two of them within three samples."""
    rng = np.random.default_rng(1)
    off = rng.random((3, len(runs.runs[0].t), 2)) < part
    for k in range(1, 4):
        off[:, k:] &= ~off[:, :-k]
    off[:, [0, -1]] = False
    return runs.with_states([run.x + size * SCALES * o for run, o in zip(runs.runs, off, strict=True)]), off


@pytest.mark.parametrize("size", [0.5, -3.0, 1e4])
def test_what_stands_alone_is_put_between_its_neighbours(size):
    """The cubic's weights at the middle are -1/6, 2/3, 2/3, -1/6: 0.97 of the noise, and a fourth-order error."""
    runs = waves()
    bad, off = spoilt(runs, size)
    good = mended(bad, estimate_noise(bad))
    assert part_changed(bad, good) == pytest.approx(off.mean())
    for run, raw, clean, there in zip(good.runs, bad.runs, waves(noise=0.0).runs, off, strict=True):
        np.testing.assert_array_equal(run.x[~there], raw.x[~there])
        missed = ((run.x - clean.x) / SCALES)[there]
        assert 0.7 * NOISE < np.sqrt(np.mean(missed**2)) < 1.3 * NOISE


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_noise_and_motion_stay(noise):
    """Coarse waves and a step among them; the runs come back as they are."""
    for t in (T, np.arange(200) * 0.9):
        runs = waves(noise, t)
        assert mended(runs, estimate_noise(runs)) is runs
    stepped = waves(noise).with_states([run.x + 20 * SCALES * (T > 5)[:, None] for run in waves(noise).runs])
    assert mended(stepped, estimate_noise(stepped)) is stepped


def test_missing_values_stay_missing():
    bad, off = spoilt(waves(), 2.0)
    gone = (np.random.default_rng(2).random(off.shape) < 0.1) & ~off
    runs = bad.with_states([np.where(g, np.nan, run.x) for run, g in zip(bad.runs, gone, strict=True)])
    good = mended(runs, estimate_noise(runs))
    for run, raw in zip(good.runs, runs.runs, strict=True):
        np.testing.assert_array_equal(np.isnan(run.x), np.isnan(raw.x))
    # Beside a hole nothing is known to stand alone.
    assert 0.6 * off.mean() < part_changed(runs, good) < 1.2 * off.mean()


def test_short_runs():
    """Two samples have no neighbours on both sides; of three, there is no cubic."""
    runs = Trajectories.from_arrays([[[0.0], [9.0]], [[0.0], [9.0], [0.0]]], [np.arange(2.0), np.arange(3.0)])
    good = mended(runs, np.array([0.01]))
    np.testing.assert_array_equal(good.runs[0].x, runs.runs[0].x)
    assert good.runs[1].x.shape == (3, 1)

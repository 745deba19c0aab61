"""The point of the method, as statistics over seeds: under noise the weak form beats the strong form.

Margins: `make demo` (seed 0, 10 % noise) has factors of 51 for the damped oscillator and 2.2 for the gas containers
between the medians, an earlier version with tanh and AdamW on seed 20 had 9.4 and 18 for the damped oscillator at 5 %
and 10 %. About half of the smallest is asked for.
"""

import statistics

import pytest

from wgfinn import GFINN, WGFINN, systems
from wgfinn.data import add_noise, split
from wgfinn.evaluate import trajectory_errors

pytestmark = pytest.mark.slow

SEED = 20
STEPS = 2_500


def median_error(estimator, method, train, test):
    model = estimator(method=method, members=3, steps=STEPS, seed=SEED)
    learnt = model.fit(train).model
    return statistics.median(trajectory_errors(learnt.field(i), test).overall for i in range(3))


@pytest.mark.parametrize(
    ("name", "noise", "factor"),
    [("damped_oscillator", 0.05, 5.0), ("damped_oscillator", 0.10, 9.0), ("gas_containers", 0.10, 1.3)],
)
def test_weak_beats_strong(name, noise, factor):
    system = systems.make(name)
    train, test = split(systems.generate(system, seed=SEED).clean, seed=SEED)
    noisy = add_noise(train, noise, seed=SEED)
    forms = ((WGFINN, "weak"), (GFINN, "strong"))
    weak, strong = (median_error(estimator, method, noisy, test) for estimator, method in forms)
    assert factor * weak < strong

"""Learn what is not known: a damped oscillator whose bath's entropy is a state and whose mechanics is canonical.

From a few noisy runs, once with nothing known and once with S(x) = S and {q, p} = 1 given: the energy and the friction
are left to learn. The weak form alone, for speed. Run it with `python examples/known_physics.py` (about a minute).
"""

import warnings

import numpy as np

from wgfinn import WGFINN, systems
from wgfinn.models import parameter_count

SETTINGS = {"model": {"layers": 3, "width": 16}, "optimiser": {"decay_every": 150}}
KNOWN = {"entropy": {"sum": ["S"]}, "poisson": {"canonical": [["q", "p"]]}}


def main() -> None:
    system = systems.DampedOscillator(gamma=0.2)
    train = systems.generate(system, trajectories=8, noise=0.05, seed=0).noisy
    t, truth = systems.generate(system, trajectories=10, noise=0.0, seed=1).clean.stacked()

    for title, known in {"nothing known": {}, "S and L known": KNOWN}.items():
        model = WGFINN(method="weak", steps=1500, settings=SETTINGS, **known).fit(train)
        with warnings.catch_warnings(category=UserWarning, action="ignore"):  # of lost runs, which are counted below
            predicted = model.simulate(truth[:, 0], t)
        sound = np.isfinite(predicted).all(axis=(1, 2))
        missed = np.where(sound[:, None, None], predicted - truth, np.inf)
        errors = np.sqrt((missed**2).sum(axis=1) / (truth**2).sum(axis=1)).mean(axis=1)
        print(
            f"{title}: median error {np.median(errors):.3f} with {parameter_count(model.model.fields)} weights, "
            f"{np.sum(~sound)} of {len(sound)} runs left the finite range"
        )

    # With L known, the energy is determined but for a constant: it can be compared with the true one.
    x = truth.reshape(-1, 3)
    true_energy = x[:, 1] ** 2 / 2 + x[:, 0] ** 2 / 2 + x[:, 2]
    difference = model.energy(x) - true_energy
    print(f"learnt energy against the true one: {difference.std() / true_energy.std():.3f} of its spread")
    print("L is the canonical one, to rounding:\n", model.poisson(x[0]).round(12))


if __name__ == "__main__":
    main()

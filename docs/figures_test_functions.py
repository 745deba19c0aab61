"""Draws docs/figures/test_functions.png: `python docs/figures_test_functions.py`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from wgfinn.weak import TestFunctionSpec

FILE = Path(__file__).parent / "figures" / "test_functions.png"
# Okabe and Ito's palette, which survives print and colour blindness.
SHAPES = (
    ("polynomial, degree 4", "#0072B2", "-", {"family": "polynomial", "degree": 4}),
    ("bump, degree 4", "#D55E00", "--", {"family": "bump", "degree": 4}),
    ("sine, degree 1", "#009E73", "-", {"family": "sine", "degree": 1}),
    ("sine, degree 1, mode 2", "#009E73", ":", {"family": "sine", "degree": 1, "mode": 2}),
    ("sine, degree 2 (Hann)", "#E69F00", "-.", {"family": "sine", "degree": 2}),
    ("Hartley, degree 2, mode 0", "#CC79A7", "-", {"family": "hartley", "degree": 2}),
)


def main() -> None:
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (values, slopes, spectra) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    u = np.linspace(-1, 1, 801)
    for label, colour, dashes, shape in SHAPES:
        spec = TestFunctionSpec(**shape)
        value, slope = spec.evaluate(u)
        style = {"color": colour, "linestyle": dashes, "linewidth": 1.5}
        values.plot(u, value, **style)
        slopes.plot(u, slope, **style)
        spectra.semilogy(*response(value), label=label, **style)
    values.set(title="test function", xlabel="u")
    slopes.set(title="slope", xlabel="u")
    spectra.set(title="size of its Fourier transform", xlabel="oscillations in the window", xlim=(0, 12))
    spectra.set_ylim(1e-6, 3)
    figure.legend(*spectra.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(FILE, dpi=130)


def response(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    padding = 32
    size = np.abs(np.fft.rfft(value, padding * value.size)) / value.size
    return np.arange(size.size) / padding, size


if __name__ == "__main__":
    main()

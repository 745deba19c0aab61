"""Section 4 of the paper as a study: figure and numbers from `wgfinn.theory`, and a table of what was measured."""

from pathlib import Path
from typing import Any

from wgfinn.data import atomic_write
from wgfinn.theory import study

TABLE_FILE = "theory.md"


def reproduce_theory(out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Write `theory.png`, `theory.json` and `theory.md` into `out`; returns the measured values."""
    measured = study(out, seed=seed)
    with atomic_write(out / TABLE_FILE) as temporary:
        temporary.write_text(theory_table(measured), encoding="utf-8")
    return measured


def theory_table(measured: dict[str, Any]) -> str:
    """What the simulations found beside what the theorems say."""
    step, spread, gap = measured["recovery_step"], measured["spread_per_sigma"], measured["deviation"]
    lines = [
        "# One rate from noisy samples (section 4)",
        "",
        "## The limit of theorem 4.1, with e^(2 λ T)",
        "",
        "| λ | x0 | σ | T | simulated | standard error | formula | as printed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {case['rate']:g} | {case['start']:g} | {case['sigma']:g} | {case['horizon']:g} | {case['simulated']:.5f} "
        f"| {case['standard_error']:.1e} | {case['formula']:.5f} | {case['as_printed']:.5f} |"
        for case in measured["limit"]
    ]
    lines += [
        "",
        "## Estimators against theorems",
        "",
        "| quantity | value |",
        "|---|---|",
        f"| largest deviation of the strong estimator from its closed form | {gap['strong']:.1e} |",
        f"| largest deviation of the weak estimator from its closed form | {gap['weak']:.1e} |",
        f"| step at which the strong form's error changes its sign, by theory | {step['expected']:.5f} |",
        f"| the same, simulated | {step['simulated']:.5f} |",
        f"| slope of the weak form's error against the noise level | {measured['weak_slope']:.3f} |",
        f"| spread of the strong form's relative error per unit of noise | {spread['strong']:.3f} |",
        f"| spread of the weak form's relative error per unit of noise | {spread['weak']:.3f} |",
    ]
    return "\n".join(lines) + "\n"

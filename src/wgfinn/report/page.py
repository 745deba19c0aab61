"""From numbers to one HTML file that needs nothing else: styles, scripts, plotly.js and data are inside.

Names come from files of anybody's making. They reach the page in two ways only: through the template, which escapes
them, and through a JSON block, which the script shows as text. A content security policy lets no script run but the
page's own (by hash) and forbids every request, should both ever fail.
"""

import base64
import gzip
import hashlib
import importlib.resources
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import tomli_w
from markupsafe import Markup

from wgfinn._version import __version__
from wgfinn.artefact import Manifest
from wgfinn.data import amount, atomic_write, duration_unit, rate_unit
from wgfinn.report.numbers import LARGEST, Histogram, Matrices, Potentials, ReportData, RunPaths, Slices
from wgfinn.report.sources import Source
from wgfinn.report.words import fact_lines, factor, headline, noise_ratio, number, percent, power

_MOST_RECORDS = 500


def write_page(path: Path, data: ReportData, source: Source, *, created: str) -> None:
    """Write the report to `path`, whole or not at all."""
    html = render(data, source, created=created)
    with atomic_write(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def render(data: ReportData, source: Source, *, created: str) -> str:
    """The report as HTML; `created` is the date to show."""
    scripts = {"plotly": _asset("plotly-cartesian.min.js.gz"), "report": _asset("report.js")}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("wgfinn.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        policy=_policy(scripts.values()),
        style=Markup(_asset("report.css")),
        scripts={name: Markup(text) for name, text in scripts.items()},
        plotly_licence=_asset("plotly-LICENSE.txt"),
        payload=_json_block(payload(data, source)),
        created=created,
        version=__version__,
        **_context(data, source),
    )


def _asset(name: str) -> str:
    content = (importlib.resources.files("wgfinn.report") / "assets" / name).read_bytes()
    return (gzip.decompress(content) if name.endswith(".gz") else content).decode("utf-8")


def _policy(scripts: Any) -> str:
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{h}'" for h in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json_block(value: Any) -> Markup:
    """JSON for a script element: no character in it can end the element or begin a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


# ------------------------------------------------------------------------------------------- what the template shows


def _context(data: ReportData, source: Source) -> dict[str, Any]:
    manifest = source.model.manifest
    is_training_data = source.is_training_data
    held_out = source.held_out
    return {
        "title": source.run.resolve().name or str(source.run),
        "data_name": source.data.name,
        "data": data,
        "manifest": manifest,
        "method": manifest.settings.get("method", "weak"),
        "served": manifest.members[manifest.served],
        "is_training_data": is_training_data,
        "verdict": manifest.verdict,
        "headline": headline(data),
        "facts": fact_lines(data, is_training_data=is_training_data),
        "tiles": _tiles(data, held_out),
        "held_out": held_out,
        "rows": _rows(data),
        "median_state": [(n, u, number(v)) for n, u, v in zip(data.names, data.units, data.median_state, strict=True)],
        "time_unit": duration_unit(data.time_unit),
        "median_step": amount(number(manifest.data.step), duration_unit(manifest.time_unit)),
        "settings": tomli_w.dumps(manifest.settings),
        "commands": _commands(source, is_training_data),
        "has_bands": any(run.low is not None for run in data.runs),
        "has_training": bool(source.records),
        "refined": any(record.get("stage") == "refine" for record in source.records),
        "number": number,
        "thinned": any(run.samples > run.t.size for run in data.runs),
    }


def _tiles(data: ReportData, held_out: Sequence[str]) -> list[tuple[str, str, str]]:
    """The key numbers: label, value, explanation."""
    ratios = [noise_ratio(s) for s in data.states if math.isfinite(noise_ratio(s))]
    which = "of the run" if data.n_runs == 1 else "median over runs"
    tiles = [("Error", percent(data.median_error), f"of the states' spread; {which}")]
    if held_out:
        error = float(np.median([data.run_errors[name] for name in held_out]))
        count = "the one run" if len(held_out) == 1 else f"median of {len(held_out)} runs"
        tiles.append(("Error, held out", percent(error), f"{count} not learnt from"))
    if data.n_runs > 1:
        tiles.append(("Worst run", percent(data.worst_error), data.worst_run))
    if ratios:
        tiles.append(("Residual over noise", factor(max(ratios)), "1 is as good as the data; worst state"))
    if data.checks is not None and data.checks.is_open:
        tiles.append(("Largest rise of energy", power(data.checks.energy_drift), "0 by the second law: heat leaves"))
    elif data.checks is not None:
        tiles.append(("Energy drift", power(data.checks.energy_drift), "of its natural variation, at most"))
        tiles.append(("Least entropy step", power(data.checks.min_entropy_increment), "0 or more by the second law"))
    return tiles


def _rows(data: ReportData) -> list[dict[str, Any]]:
    longest = max((s.median for s in data.states if math.isfinite(s.median)), default=0.0)
    return [
        {
            "name": s.name,
            "unit": s.unit,
            "median": percent(s.median),
            "mean": percent(s.mean),
            "worst": percent(s.worst),
            "bar": round(s.median / longest, 3) if longest > 0 and math.isfinite(s.median) else 1,
            "residual": number(s.residual),
            "noise": number(s.noise) if s.is_noisy else "none found",
            "ratio": number(noise_ratio(s)),
        }
        for s in data.states
    ]


def _commands(source: Source, is_training_data: bool) -> dict[str, str]:
    training_data = shlex.quote(str(source.data)) if is_training_data else "DATA"
    return {
        "fit": f"wgfinn fit {training_data} --config fit.toml --out NEW_RUN",
        "report": shlex.join(["wgfinn", "report", str(source.run), str(source.data)]),
    }


# --------------------------------------------------------------------------------------------- what the script shows


def payload(data: ReportData, source: Source) -> dict[str, Any]:
    """The numbers behind the plots, as JSON values."""
    manifest = source.model.manifest
    held_out = set(source.held_out)
    return {
        "names": data.names,
        "units": data.units,
        "time_unit": data.time_unit,
        "duration_unit": duration_unit(data.time_unit),
        "rate_unit": rate_unit(data.time_unit),
        "method": manifest.settings.get("method", "weak"),
        "members": len(manifest.members) - data.left_out_members,
        "runs": [_run(run) | {"held_out": run.name in held_out} for run in data.runs],
        "spread": [s.spread if math.isfinite(s.spread) and s.spread > 0 else 1.0 for s in data.states],
        "slices": None if data.slices is None else _slices(data.slices),
        "noise": [s.noise if s.is_noisy and math.isfinite(s.noise) else None for s in data.states],
        "histograms": [None if h is None else _histogram(h) for h in data.histograms],
        "training": _training(source.records, manifest),
    }


def _run(run: RunPaths) -> dict[str, Any]:
    return {
        "name": run.name,
        "error": percent(run.error),
        "lost": run.lost_at,
        "t": _packed(run.t),
        "measured": _columns(run.measured),
        "predicted": _columns(run.predicted),
        "low": None if run.low is None else _columns(run.low),
        "high": None if run.high is None else _columns(run.high),
        "potentials": None if run.potentials is None else _potentials(run.potentials),
        "matrices": None if run.matrices is None else _matrices(run.matrices),
    }


def _potentials(potentials: Potentials) -> dict[str, Any]:
    return {name: _packed(values) for name, values in vars(potentials).items()}


def _matrices(matrices: Matrices) -> dict[str, Any]:
    return {name: _packed(values) for name, values in vars(matrices).items()}


def _slices(slices: Slices) -> dict[str, Any]:
    return {
        "planes": slices.planes,
        "axes": {str(state): _packed(values) for state, values in slices.axes.items()},
        "energy": [_packed(values) for values in slices.energy],
        "entropy": [_packed(values) for values in slices.entropy],
    }


def _histogram(histogram: Histogram) -> dict[str, Any]:
    return {
        "edges": _packed(histogram.edges),
        "density": _packed(histogram.density),
        "beyond": percent(histogram.beyond) if histogram.beyond > 0 else None,
    }


def _columns(x: np.ndarray) -> list[dict[str, Any]]:
    return [_packed(column) for column in x.T]


def _packed(values: np.ndarray) -> dict[str, Any]:
    """Numbers as an offset and base64 of float32 differences from it; what no plot can show becomes NaN, a gap.

    The offset keeps seven digits of what varies: clock times, or an energy that changes in its ninth digit.
    """
    usable = np.abs(values) < LARGEST
    offset = float(np.median(values[usable])) if usable.any() else 0.0
    small = (np.where(usable, values, np.nan) - offset).astype("<f4")
    return {"offset": offset, "float32": base64.b64encode(small.tobytes()).decode()}


def _training(records: Sequence[Mapping[str, Any]], manifest: Manifest) -> list[dict[str, Any]]:
    """Loss against step of each member; stages have losses of their own, and so curves of their own. Steps of the
    polish are not counted, and not drawn."""
    records = [r for r in records if r.get("stage") != "polish"]
    every = max(1, math.ceil(len(records) / _MOST_RECORDS))
    kept = [r for k, r in enumerate(records) if k % every == 0 or k == len(records) - 1]
    served = manifest.members[manifest.served].name
    curves: dict[str, dict[str, Any]] = {}
    for record in kept:
        for member in record["members"]:
            name = str(member["name"])
            shown = f"{name}, refining" if record.get("stage") == "refine" else name
            curve = curves.setdefault(
                shown, {"name": shown, "served": name == served, "step": [], "loss": [], "best": []}
            )
            curve["step"].append(int(record["step"]))
            curve["loss"].append(_loss(member["loss"]))
            curve["best"].append(_loss(member["best_loss"]))
    return list(curves.values())


def _loss(value: Any) -> float | None:
    """Five digits; None where a logarithm has nothing to show."""
    is_number = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(f"{value:.5g}") if is_number else None

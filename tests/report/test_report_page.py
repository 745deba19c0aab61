"""The page as text: escaping, no request, size, and what is on it. `test_report_browser` opens it."""

import base64
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from reports_for_tests import NASTY_NAMES, NASTY_TIME_UNIT, NASTY_UNITS, some_data, some_model, some_source

from wgfinn._spec import parse
from wgfinn.artefact import Verdict
from wgfinn.fitting import FitSpec
from wgfinn.report import render, report_data, write_page
from wgfinn.report.page import _packed, payload

RUN_NAMES = ["<img src=x onerror=alert(3)>", "a'b\"c", "&amp;"]
DATA = some_data(NASTY_NAMES, NASTY_UNITS, run_names=RUN_NAMES, time_unit=NASTY_TIME_UNIT)
MODEL = some_model(DATA)
SECTIONS = {"errors", "trajectories", "phase", "energy", "landscape", "matrices", "residuals", "training", "repeat"}


class Page(HTMLParser):
    """Elements with their attributes, and the text outside of scripts and styles."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.scripts, self._inside = [], "", [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def ids(self):
        return {attrs["id"] for _, attrs in self.elements if "id" in attrs}


@pytest.fixture(scope="module")
def numbers():
    return report_data(MODEL, DATA)


@pytest.fixture(scope="module")
def html(numbers):
    return render(numbers, some_source(DATA, MODEL), created="2026-01-02")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_every_section_is_there(page):
    assert page.ids() >= SECTIONS
    linked = {attrs["href"].removeprefix("#") for tag, attrs in page.elements if tag == "a"}
    assert linked == SECTIONS
    for what in ("median", "2026-01-02", "jaxlib", MODEL.manifest.data.digest, "optimiser"):
        assert what in page.text


def test_names_are_text(page):
    """No element, attribute or script comes of a name; each is on the page as it was given."""
    assert [tag for tag, _ in page.elements].count("script") == 3
    assert not [tag for tag, _ in page.elements if tag in ("img", "i", "u")]
    assert not [key for _, attrs in page.elements for key in attrs if key.startswith("on")]
    for name in (*NASTY_NAMES, *filter(None, NASTY_UNITS), NASTY_TIME_UNIT, "data & more.npz", "<b>one</b>"):
        assert name in page.text


def test_the_unit_of_time_is_said():
    data = some_data(time_unit="h since noon")
    model = some_model(data)
    numbers, source = report_data(model, data), some_source(data, model)
    text = Page(render(numbers, source, created="2026-01-02")).text
    assert "in the units of the states and of time (h), for" in text
    assert f"{float(f'{model.manifest.data.step:.3g}'):g} h" in text
    content = payload(numbers, source)
    assert (content["time_unit"], content["duration_unit"], content["rate_unit"]) == ("h since noon", "h", "1/h")


def test_the_data_block_holds_no_markup(page, numbers):
    block = page.scripts[0]
    assert not set("<>&") & set(block)
    content = json.loads(block)
    assert content == json.loads(json.dumps(payload(numbers, some_source(DATA, MODEL))))
    assert content["names"] == list(NASTY_NAMES)
    assert [run["name"] for run in content["runs"]] == list(DATA.run_names)


def test_nothing_is_fetched(page, html):
    """No element points elsewhere, and the policy would forbid it if one did."""
    for tag, attrs in page.elements:
        for key in ("src", "href", "action", "data", "poster", "srcset"):
            assert attrs.get(key, "#").startswith("#"), (tag, attrs)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


def test_the_policy_names_the_two_scripts_and_no_other(page):
    (policy,) = (a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.scripts[1:]]
    assert re.findall(r"'sha256-([^']*)'", policy) == hashes
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]


def test_the_licence_of_plotly_travels_with_it(page):
    assert "Copyright (c) 2016-2024 Plotly Technologies Inc." in page.text
    assert "plotly.js (cartesian - minified) v" in page.scripts[1]


def test_settings_can_be_fitted_again(page, html):
    settings = re.search(r"<h3>Settings</h3>\s*<pre[^>]*><code>(.*?)</code>", html, re.DOTALL).group(1)
    spec = parse(FitSpec, tomllib.loads(unescape(settings)))
    assert spec.model_dump(exclude_none=True) == MODEL.manifest.settings
    assert "wgfinn fit 'data & more.npz' --config fit.toml --out NEW_RUN" in page.text
    assert "wgfinn report 'runs/<b>one</b>' 'data & more.npz'" in page.text


def test_the_command_names_no_data_it_was_not_fitted_to(numbers):
    other = some_data(NASTY_NAMES, NASTY_UNITS, noise=0.02)
    text = Page(render(numbers, some_source(other, MODEL), created="")).text
    assert "wgfinn fit DATA --config fit.toml" in text


# ------------------------------------------------------------------------------------------------ verdict


VERDICT = Verdict(headline="Good <b>enough</b>.", lines=("One & two.",), level="fair")


def test_a_verdict_stands_in_place_of_the_facts(numbers):
    html = render(numbers, some_source(DATA, MODEL, verdict=VERDICT), created="")
    assert '<section class="verdict fair"' in html
    assert "Good &lt;b&gt;enough&lt;/b&gt;." in html
    assert "One &amp; two." in html
    assert "is predicted with an error" not in html


def test_without_a_verdict_the_facts_speak(html, page):
    assert '<section class="verdict neutral"' in html
    assert "The median run is predicted with an error of" in page.text
    assert "data the model was trained on" in page.text


def test_a_verdict_on_other_data_is_said_to_be_one(numbers):
    other = some_data(NASTY_NAMES, NASTY_UNITS, noise=0.02)
    text = Page(render(numbers, some_source(other, MODEL, verdict=VERDICT), created="")).text
    assert "This verdict was written when the model was fitted, to other data." in text
    assert "is predicted with an error of" in text


# ------------------------------------------------------------------------------------------- what may be missing


def test_a_model_file_has_no_training_record(numbers):
    page = Page(render(numbers, some_source(DATA, MODEL, records=False), created=""))
    assert "There is no record of the training" in page.text
    assert "plot-training" not in page.ids()


def test_one_state_of_a_plain_network():
    data = some_data(("c",), ("mol/l",), runs=1)
    model = some_model(data, members=1, field="plain")
    page = Page(render(report_data(model, data), some_source(data, model), created=""))
    for sentence in (
        "There is one state only; a portrait needs two.",
        "it has no energy and no entropy to show",
        "A plain network has neither L nor M.",
        "with a single member there is no band",
        "1 run,",
        "1 state.",
    ):
        assert sentence in " ".join(page.text.split())
    assert not page.ids() & {"plot-phase", "plot-energy", "plot-energy-plane", "plot-poisson", "plane", "sample"}


def test_a_refinement_has_curves_of_its_own(numbers):
    """Its loss is another quantity: one line through both would jump."""
    member = {"name": "seed 0", "loss": 0.1, "best_loss": 0.1}
    records = [{"stage": stage, "step": k, "members": [member]} for k, stage in enumerate(["train", "train", "refine"])]
    source = replace(some_source(DATA, MODEL), records=tuple(records))
    curves = {curve["name"]: curve["step"] for curve in payload(numbers, source)["training"]}
    assert curves == {"seed 0": [0, 1], "seed 0, refining": [2]}
    assert "The refinement has a loss of its own" in Page(render(numbers, source, created="")).text


def test_the_served_member_is_named_with_the_reason(numbers):
    def about(misfit):
        members = tuple(m.model_copy(update={"misfit": misfit}) for m in MODEL.manifest.members)
        model = type(MODEL)(MODEL.fields, MODEL.manifest.model_copy(update={"members": members}))
        return " ".join(Page(render(numbers, some_source(DATA, model), created="")).text.split())

    assert ", of lowest misfit." in about(1.2)
    assert ", of lowest training loss." in about(None)


def test_members_that_failed_are_named(numbers):
    failed = MODEL.manifest.members[0].model_copy(update={"loss": None, "diverged_at": 4000})
    manifest = MODEL.manifest.model_copy(update={"members": (failed, MODEL.manifest.members[1])})
    model = type(MODEL)(MODEL.fields, manifest)
    text = Page(render(numbers, some_source(DATA, model), created="")).text
    assert "never finite" in text
    assert "diverged at step 4,000" in text


# ------------------------------------------------------------------------------------------------ numbers as text


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["float32"]), "<f4").astype(float) + packed["offset"]


def test_packed_numbers_keep_seven_digits_of_what_varies():
    clock = 1.7e9 + 0.01 * np.arange(1000)
    np.testing.assert_allclose(unpacked(_packed(clock)), clock, rtol=0, atol=1e-6)
    energy = 3.0 + 1e-9 * np.sin(np.arange(50))
    np.testing.assert_allclose(unpacked(_packed(energy)) - 3, energy - 3, rtol=0, atol=1e-15)


def test_packed_gaps():
    values = np.array([1.0, np.nan, np.inf, -np.inf, 1e300, 2.0, 1.5])
    np.testing.assert_allclose(unpacked(_packed(values)), [1, *[np.nan] * 4, 2, 1.5], rtol=1e-6)
    assert np.all(np.isnan(unpacked(_packed(np.full(3, np.nan)))))


def test_a_large_report_is_below_ten_megabytes(tmp_path):
    """100 runs of 401 samples and 4 states with bands: what the built-in systems give."""
    data = some_data(("q", "p", "S1", "S2"), runs=100, samples=401)
    model = some_model(data, members=2)
    report = report_data(model, data)
    assert len(report.runs) == 100
    assert report.runs[0].t.size == 401
    write_page(tmp_path / "report.html", report, some_source(data, model), created="")
    assert (tmp_path / "report.html").stat().st_size < 10e6


def test_runs_held_out_are_marked():
    """In a tile, in the note under the verdict, and in the list of runs."""
    data = some_data(runs=12)
    source = some_source(data, some_model(data), verdict=Verdict(headline="Fair", level="fair"))
    numbers = report_data(source.model, data)
    (name,) = source.held_out
    html = render(numbers, source, created="2026-01-02")
    assert f"Not learnt from: {name}, marked in the list of runs." in html
    assert "Error, held out" in html
    assert [run["name"] for run in payload(numbers, source)["runs"] if run["held_out"]] == [name]

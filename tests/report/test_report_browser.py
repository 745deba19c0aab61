"""The page in a real browser: nothing complains, every control changes what it should, names stay text.

Skipped where there is no Chromium (on Debian: `apt-get install chromium`) or no playwright to drive it.
"""

import shutil

import numpy as np
import pytest
from reports_for_tests import (
    NASTY_NAMES,
    NASTY_TIME_UNIT,
    NASTY_UNITS,
    some_data,
    some_model,
    some_source,
    with_a_lost_run,
    with_gaps,
)

from wgfinn.report import report_data, write_page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open the report in")

RUN_NAMES = ["<img src=x onerror=alert(3)>", "a'b\"c", "&amp;"]
DATA = some_data(NASTY_NAMES, NASTY_UNITS, run_names=RUN_NAMES, time_unit=NASTY_TIME_UNIT)
MODEL = some_model(DATA)
BUTTONS = {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Download plot as a PNG"}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        # In containers tests run as root, for whom Chromium has no sandbox.
        instance = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield instance
        instance.close()


class Opened:
    """A page and everything it complained about or asked for."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.requests = []
        self.page.goto(path.as_uri())
        try:
            self.page.wait_for_selector("html[data-ready=yes]")
        except sync_api.TimeoutError:
            pytest.fail(f"the page was not drawn: {self.complaints}")

    def plotted(self, plot):
        """The traces of a plot: x, y and z as nested lists, NaN as None."""
        return self.page.evaluate(
            """(id) => document.getElementById(id).data.map((trace) => ({
                name: trace.name || "", x: Array.from(trace.x || []), y: Array.from(trace.y || []),
                z: (trace.z || []).map((row) => Array.from(row)),
            }))""",
            plot,
        )

    def trace(self, plot, name):
        return next(t for t in self.plotted(plot) if t["name"] == name)


@pytest.fixture(scope="module")
def numbers():
    return report_data(MODEL, DATA)


@pytest.fixture(scope="module")
def written(numbers, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_page(path, numbers, some_source(DATA, MODEL), created="2026-01-02")
    return path


@pytest.fixture
def opened(browser, written):
    it = Opened(browser, written, viewport={"width": 1280, "height": 900})
    yield it
    it.context.close()
    assert it.complaints == []
    assert it.requests == [written.as_uri()]


def close(found, expected):
    """To the seven digits of float32."""
    scale = np.nanmax(np.abs(expected))
    np.testing.assert_allclose(np.array(found, float), expected, rtol=0, atol=1e-6 * scale)


def test_the_first_run_is_shown(opened, numbers):
    """All states, one panel each: the numbers are those of `report_data`."""
    traces = opened.plotted("plot-trajectories")
    measured = [t for t in traces if t["name"] == "measured"]
    predicted = [t for t in traces if t["name"] == "predicted"]
    assert len(measured) == len(predicted) == 3
    for j in range(3):
        close(measured[j]["x"], numbers.runs[0].t)
        close(measured[j]["y"], numbers.runs[0].measured[:, j])
        close(predicted[j]["y"], numbers.runs[0].predicted[:, j])
    band = [t for t in traces if t["name"] == "range of 2 members"]
    close(band[0]["y"], numbers.runs[0].high[:, 0])


def test_another_run(opened, numbers):
    opened.page.select_option("#run", "2")
    close(opened.trace("plot-trajectories", "predicted")["y"], numbers.runs[2].predicted[:, 0])
    close(opened.trace("plot-energy", "along the prediction")["y"], numbers.runs[2].potentials.energy)
    close(opened.trace("plot-phase", "measured")["y"], numbers.runs[2].measured[:, 1])
    rest = numbers.runs[2].measured[:, 0] - numbers.runs[2].predicted[:, 0]
    close(opened.plotted("plot-residuals")[0]["y"], rest)
    assert opened.page.inner_text("#trajectory-note").startswith("Run “&amp;”: error ")
    assert opened.page.is_disabled("#next")
    opened.page.click("#previous")
    assert opened.page.input_value("#run") == "1"
    close(opened.trace("plot-trajectories", "predicted")["y"], numbers.runs[1].predicted[:, 0])


def test_another_state(opened, numbers):
    opened.page.select_option("#state", "2")
    traces = opened.plotted("plot-trajectories")
    assert [t["name"] for t in traces] == ["", "range of 2 members", "measured", "predicted"]
    close(traces[3]["y"], numbers.runs[0].predicted[:, 2])
    assert len(opened.plotted("plot-residuals")) == 1
    assert len(opened.plotted("plot-histogram")) == 2


def test_another_portrait(opened, numbers):
    opened.page.select_option("#phase-x", "2")
    opened.page.select_option("#phase-y", "0")
    trace = opened.trace("plot-phase", "predicted")
    close(trace["x"], numbers.runs[0].predicted[:, 2])
    close(trace["y"], numbers.runs[0].predicted[:, 0])


def test_another_plane(opened, numbers):
    opened.page.select_option("#plane", "2")
    contour = opened.plotted("plot-entropy-plane")[0]
    close(contour["x"], numbers.slices.axes[1])
    close(contour["y"], numbers.slices.axes[2])
    close(contour["z"], numbers.slices.entropy[2])
    shown = [e.is_visible() for e in opened.page.query_selector_all(".fixed")]
    assert shown == [True, False, False]


def test_another_sample_by_keyboard(opened, numbers):
    """The slider is reached and moved without a mouse."""
    opened.page.focus("#sample")
    opened.page.keyboard.press("End")
    # Colours are of entries over the spreads of their states.
    spread = np.array([s.spread for s in numbers.states])
    close(opened.plotted("plot-friction")[0]["z"], numbers.runs[0].matrices.friction[-1] / np.outer(spread, spread))
    opened.page.keyboard.press("ArrowLeft")
    close(opened.plotted("plot-poisson")[0]["z"], numbers.runs[0].matrices.poisson[-2] / np.outer(spread, spread))
    assert f"time [{NASTY_TIME_UNIT}]: " in opened.page.inner_text("#sample-state")


def test_every_control_is_in_the_tab_order(opened):
    reached = set()
    for _ in range(150):
        opened.page.keyboard.press("Tab")
        reached.add(opened.page.evaluate("document.activeElement.id"))
    assert reached >= {"run", "next", "state", "phase-x", "phase-y", "plane", "sample"}


def test_zoom(opened):
    """Dragging over a plot narrows its axis; a double click takes it back."""
    opened.page.select_option("#state", "0")

    def width():
        low, high = opened.page.evaluate("document.getElementById('plot-trajectories').layout.xaxis.range")
        return high - low

    before = width()
    opened.page.locator("#plot-trajectories").scroll_into_view_if_needed()
    box = opened.page.locator("#plot-trajectories .nsewdrag").bounding_box()
    y = box["y"] + box["height"] / 2
    opened.page.mouse.move(box["x"] + 100, y)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 300, y, steps=5)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(400)
    assert width() < before / 2


def test_names_are_shown_as_they_are(opened):
    """Also by plotly, which reads tags and entities in its texts."""
    titles = opened.page.locator("#plot-phase .infolayer").text_content()
    assert f"{NASTY_NAMES[0]} [{NASTY_UNITS[0]}]" in titles
    assert NASTY_NAMES[1] in titles
    for plot, title in (
        ("trajectories", f"time [{NASTY_TIME_UNIT}]"),
        ("residuals", f"time [{NASTY_TIME_UNIT}]"),
        ("energy", f"time [{NASTY_TIME_UNIT}]"),
        ("drift", f"time [{NASTY_TIME_UNIT}]"),
        ("production", f"entropy production [1/({NASTY_TIME_UNIT})]"),
    ):
        assert title in opened.page.locator(f"#plot-{plot} .infolayer").text_content()
    options = opened.page.locator("#run option").all_text_contents()
    assert options[0].startswith("<img src=x onerror=alert(3)> (error ")
    assert opened.page.evaluate("document.querySelectorAll('img, i, body b').length") == 1


def test_no_button_sends_the_data_away(opened):
    titles = set(opened.page.eval_on_selector_all(".modebar-btn", "all => all.map((e) => e.dataset.title)"))
    assert titles
    assert titles <= BUTTONS


@pytest.mark.parametrize(("scheme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")])
def test_a_telephone(browser, written, scheme, background):
    """390 pixels wide: nothing sticks out, and both colour schemes are honoured, on paper only the light one."""
    phone = {"width": 390, "height": 844}
    it = Opened(browser, written, viewport=phone, color_scheme=scheme, has_touch=True, is_mobile=True)
    assert it.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == background
    line = "document.getElementById('plot-trajectories').data.at(-1).line.color"
    on_screen = it.page.evaluate(line)
    it.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert it.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert it.page.evaluate(line) == "#0072b2"
    it.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert it.page.evaluate(line) == on_screen
    it.context.close()
    assert it.complaints == []


def unusual(case):
    if case == "plain":
        return DATA, some_model(DATA, field="plain")
    if case == "one state, one member":
        data = some_data(("c",), runs=1)
        return data, some_model(data, members=1, field="plain")
    if case == "lost run":
        return with_a_lost_run(DATA), MODEL
    if case == "gaps":
        return with_gaps(DATA), MODEL
    data = some_data(tuple(f"x{k}" for k in range(9)))
    return data, some_model(data, members=1)


@pytest.mark.parametrize("case", ["plain", "one state, one member", "lost run", "gaps", "nine states"])
def test_unusual_content(browser, tmp_path, case):
    data, model = unusual(case)
    with np.errstate(all="ignore"):
        numbers = report_data(model, data)
    path = tmp_path / "report.html"
    write_page(path, numbers, some_source(data, model, records=case != "plain"), created="")
    it = Opened(browser, path)
    last = len(numbers.runs) - 1
    it.page.select_option("#run", str(last))
    predicted = np.array(it.trace("plot-trajectories", "predicted")["y"], float)
    if case == "lost run":
        assert f"left the finite range at time [{NASTY_TIME_UNIT}]: " in it.page.inner_text("#trajectory-note")
        assert np.isnan(predicted).sum() > 30
    else:
        close(predicted, numbers.runs[last].predicted[:, 0])
    it.context.close()
    assert it.complaints == []

"use strict";
/* Draws the report from the JSON block of the page. Names are shown as text, never as markup. */
(() => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  const ALL = -1;
  const byId = (id) => document.getElementById(id);
  // Runs that the model did not learn from tell most.
  const choice = { run: Math.max(0, report.runs.findIndex((run) => run.held_out)), state: report.names.length > 1 && report.names.length <= 6 ? ALL : 0, sample: 0, plane: 0, x: 0, y: 1 };

  // ------------------------------------------------------------------------------------------------ numbers

  /** An offset and float32 differences from it, in base64, back to numbers; NaN is a gap. */
  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.float32), (c) => c.charCodeAt(0));
    const values = Array.from(new Float32Array(bytes.buffer), (v) => v + packed.offset);
    // What float32 cannot tell from 0 beside an offset is 0: the first time of a run, say.
    const rounding = 1.2e-7 * Math.abs(packed.offset);
    return values.map((v) => (Math.abs(v) <= rounding ? 0 : v));
  }
  function once(make) {
    const known = new Map();
    return (key) => {
      if (!known.has(key)) known.set(key, make(key));
      return known.get(key);
    };
  }
  const runOf = once((k) => {
    const raw = report.runs[k];
    const each = (packed) => (packed === null ? null : packed.map(unpack));
    const all = (parts) => (parts === null ? null : Object.fromEntries(Object.entries(parts).map(([n, p]) => [n, unpack(p)])));
    const t = unpack(raw.t), matrices = all(raw.matrices);
    // Clock times differ in their last digits only: count from the start.
    const origin = Math.abs(t[0]) > 100 * (t[t.length - 1] - t[0]) ? t[0] : 0;
    if (matrices !== null) matrices.t = matrices.t.map((v) => v - origin);
    return {
      name: raw.name, error: raw.error, held_out: raw.held_out, lost: raw.lost === null ? null : raw.lost - origin, t: t.map((v) => v - origin),
      timeTitle: origin === 0 ? withUnit("time", report.time_unit) : withUnit(`time since ${origin}`, report.duration_unit),
      measured: each(raw.measured), predicted: each(raw.predicted), low: each(raw.low), high: each(raw.high),
      potentials: all(raw.potentials), matrices,
    };
  });
  const short = (v, digits = 4) => (Number.isFinite(v) ? String(Number(v.toPrecision(digits))).replace("-", "−") : "–");
  /** Two digits, with a power of ten where zeros would fill the cell. */
  function compact(v) {
    if (v === 0 || !Number.isFinite(v) || (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5)) return short(v, 2);
    const [digits, exponent] = v.toExponential(1).split("e");
    return `${Number(digits)}×10<sup>${Number(exponent)}</sup>`.replaceAll("-", "−");
  }
  const withUnit = (name, unit) => (unit ? `${name} [${unit}]` : name);
  const rows = (flat, width) => Array.from({ length: flat.length / width }, (_, i) => flat.slice(i * width, (i + 1) * width));

  // -------------------------------------------------------------------------------------------------- looks

  /** Plotly reads a little HTML in its texts; a name is none. */
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const label = (j) => plain(withUnit(report.names[j], report.units[j]));
  const brief = (text, most = 14) => plain(text.length > most ? text.slice(0, most - 1) + "…" : text);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = (name) => style(name).split(/\s+/);
  const faint = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;
  const isStrong = report.method === "strong";
  const coarse = window.matchMedia("(pointer: coarse)");
  const model = () => style("--model");
  const modelLine = (width = 2) => ({ color: model(), width, dash: isStrong ? "7px,3px" : "solid" });
  const dots = (size = 4) => ({ color: style("--measured"), size, opacity: 0.75 });

  function axis(title, more = {}) {
    return {
      title: { text: title, standoff: 8, font: { size: 13 } }, automargin: true, gridcolor: style("--grid"),
      linecolor: style("--line"), zerolinecolor: style("--line"), tickfont: { size: 12 }, exponentformat: "power", ...more,
    };
  }
  function draw(id, traces, layout) {
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: getComputedStyle(document.body).fontFamily, color: style("--ink"), size: 13 },
      margin: { l: 56, r: 12, t: 12, b: 44 }, height: 320, autosize: true, showlegend: false, hovermode: "closest",
      dragmode: coarse.matches ? false : "zoom",
      legend: { orientation: "h", x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 12 } },
      hoverlabel: { bgcolor: style("--panel"), bordercolor: style("--line"), font: { color: style("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--soft"), activecolor: style("--ink") },
    };
    const config = {
      responsive: true, displaylogo: false, doubleClick: "reset", displayModeBar: coarse.matches ? true : "hover",
      // Named one by one: among plotly's own choice is a button that sends the data to a server.
      modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"], coarse.matches ? [] : ["toImage"]],
      showSendToCloud: false, plotlyServerURL: "",
    };
    const place = byId(id), full = { ...base, ...layout };
    if (coarse.matches && full.showlegend) {
      // Where the buttons always show, and the legend takes a line for two entries, both need room above the plot.
      const more = 12 + 18 * Math.ceil(traces.filter((trace) => trace.showlegend !== false).length / 2);
      full.margin = { ...full.margin, t: full.margin.t + more };
      full.height += more;
    }
    place.style.height = full.height + "px";
    if (document.documentElement.classList.contains("printing")) full.width = place.clientWidth;
    return Plotly.react(place, traces, full, config);
  }
  const titled = (text) => ({ text, x: 0, xref: "paper", xanchor: "left", y: 0.98, yanchor: "top", font: { size: 14 } });

  /** The range of what was measured, widened for a prediction that leaves it, but not for one that diverges. */
  function rangeOf(measured, others) {
    const finite = (values) => values.filter(Number.isFinite);
    const extent = (values) => values.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    let [low, high] = extent(finite(measured));
    if (low > high) [low, high] = extent(finite(others.flat()));
    if (low > high) return undefined;
    const span = high - low || Math.max(Math.abs(low), 1) * 0.1;
    const [least, most] = extent(finite(others.flat()));
    const from = Math.max(Math.min(low, least), low - span), to = Math.min(Math.max(high, most), high + span);
    return [from - 0.06 * span, to + 0.06 * span];
  }

  // ------------------------------------------------------------------------------------------------ panels

  const shownStates = () => (choice.state === ALL ? report.names.map((_, j) => j) : [choice.state]);

  /** One panel a state, one above the other, with the time under the last; `fill(j, yaxis)` gives traces, a range and shapes. */
  function panels(id, fill, legend) {
    const states = shownStates();
    const gap = states.length > 1 ? 0.06 : 0;
    const height = (1 - gap * (states.length - 1)) / states.length;
    const traces = [], shapes = [], layout = {};
    states.forEach((j, k) => {
      const name = k === 0 ? "" : String(k + 1);
      const top = 1 - k * (height + gap);
      const part = fill(j, "y" + name, k === 0);
      traces.push(...part.traces);
      shapes.push(...(part.shapes || []));
      layout["yaxis" + name] = axis(states.length > 3 ? brief(report.names[j]) : label(j), { domain: [Math.max(0, top - height), top], range: part.range, nticks: 5 });
    });
    const last = states.length === 1 ? "" : String(states.length);
    layout.xaxis = axis(plain(runOf(choice.run).timeTitle), { anchor: "y" + last });
    return draw(id, traces, {
      ...layout, shapes, showlegend: legend, height: states.length === 1 ? 380 : 110 + 130 * states.length,
      margin: { l: 64, r: 12, t: legend ? 34 : 12, b: 44 }, hovermode: "x unified", uirevision: `${choice.run}/${choice.state}`,
    });
  }

  function drawTrajectories() {
    const run = runOf(choice.run);
    const banded = run.low !== null && report.members > 1;
    panels("plot-trajectories", (j, yaxis, first) => {
      const traces = [];
      if (banded) {
        const keep = run.t.map((_, i) => i).filter((i) => Number.isFinite(run.low[j][i]) && Number.isFinite(run.high[j][i]));
        const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", yaxis, x: keep.map((i) => run.t[i]) };
        traces.push({ ...edge, y: keep.map((i) => run.low[j][i]), showlegend: false });
        traces.push({ ...edge, y: keep.map((i) => run.high[j][i]), fill: "tonexty", fillcolor: faint(model(), 0.22), name: `range of ${report.members} members`, showlegend: first });
      }
      traces.push({ x: run.t, y: run.measured[j], yaxis, mode: "markers", marker: dots(), name: "measured", legendgroup: "measured", showlegend: first });
      traces.push({ x: run.t, y: run.predicted[j], yaxis, mode: "lines", line: modelLine(), name: "predicted", legendgroup: "predicted", showlegend: first });
      return { traces, range: rangeOf(run.measured[j], [run.predicted[j], ...(banded ? [run.low[j], run.high[j]] : [])]) };
    }, true);
    const lost = run.lost === null ? "" : ` The prediction left the finite range at ${run.timeTitle}: ${short(run.lost)}.`;
    const unseen = run.held_out ? " The model did not learn from this run." : "";
    byId("trajectory-note").textContent = `Run “${run.name}”: error ${run.error}, mean over states.${unseen}${lost}`;
  }

  function drawResiduals() {
    const run = runOf(choice.run);
    panels("plot-residuals", (j, yaxis) => {
      const noise = report.noise[j];
      const rest = run.t.map((_, i) => run.measured[j][i] - run.predicted[j][i]);
      const lines = noise === null ? [] : [-2 * noise, 2 * noise];
      const finite = rest.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
      const usual = finite.length ? finite[Math.floor(0.9 * (finite.length - 1))] : 0;
      const most = finite.length ? Math.min(finite[finite.length - 1], 6 * (usual || Infinity)) : 0;
      const limit = 1.15 * Math.max(most, ...lines.map(Math.abs));
      return {
        traces: [{ x: run.t, y: rest, yaxis, mode: "markers", marker: { color: model(), size: 4, opacity: 0.75 }, name: brief(report.names[j]) }],
        range: limit > 0 ? [-limit, limit] : undefined,
        shapes: [0, ...lines].map((y) => ({ type: "line", xref: "paper", x0: 0, x1: 1, yref: yaxis, y0: y, y1: y, line: { color: style("--soft"), width: 1, dash: y === 0 ? "solid" : "dash" } })),
      };
    }, false);
    drawHistogram();
  }

  function drawHistogram() {
    const states = shownStates().filter((j) => report.histograms[j] !== null);
    const palette = colours("--members");
    const steps = states.map((j, k) => {
      const edges = unpack(report.histograms[j].edges), density = unpack(report.histograms[j].density);
      const colour = states.length === 1 ? model() : palette[k % palette.length];
      return {
        x: edges, y: [...density, density[density.length - 1]], mode: "lines", line: { shape: "hv", width: 1.6, color: colour }, name: brief(report.names[j], 20),
        ...(states.length === 1 ? { fill: "tozeroy", fillcolor: faint(colour, 0.22) } : {}),
      };
    });
    const widest = Math.max(4, ...steps.map((s) => s.x[s.x.length - 1]));
    const z = Array.from({ length: 121 }, (_, i) => -widest + (i * widest) / 60);
    const normal = { x: z, y: z.map((v) => Math.exp((-v * v) / 2) / Math.sqrt(2 * Math.PI)), mode: "lines", line: { color: style("--ink"), width: 1.2, dash: "dot" }, name: "noise alone" };
    draw("plot-histogram", [...steps, normal], {
      showlegend: true, margin: { l: 56, r: 12, t: 34, b: 44 },
      xaxis: axis("residual ∕ noise"), yaxis: axis("density", { rangemode: "tozero" }),
    });
    const beyond = states.filter((j) => report.histograms[j].beyond !== null).map((j) => `${report.histograms[j].beyond} of ${report.names[j]}`);
    const quiet = shownStates().filter((j) => report.noise[j] === null).map((j) => report.names[j]);
    byId("histogram-note").textContent = "Residuals of all runs over the estimated noise; the dotted curve is what noise alone would give."
      + (beyond.length ? ` Beyond the ends lie ${beyond.join(", ")}.` : "")
      + (quiet.length ? ` No noise was found in ${quiet.join(", ")}: there residuals are in units of their own size.` : "");
  }

  function drawPhase() {
    if (!byId("plot-phase")) return;
    const run = runOf(choice.run), { x, y } = choice;
    const start = run.predicted[x].findIndex(Number.isFinite);
    const traces = [
      { x: run.measured[x], y: run.measured[y], mode: "markers", marker: dots(), name: "measured" },
      { x: run.predicted[x], y: run.predicted[y], mode: "lines", line: modelLine(), name: "predicted" },
      { x: [run.predicted[x][start]], y: [run.predicted[y][start]], mode: "markers", marker: { size: 11, symbol: "circle-open", color: model(), line: { width: 2 } }, name: "start" },
    ];
    draw("plot-phase", traces, {
      height: 440, showlegend: true, margin: { l: 64, r: 12, t: 34, b: 44 }, uirevision: `${choice.run}/${x}/${y}`,
      xaxis: axis(label(x), { range: rangeOf(run.measured[x], [run.predicted[x]]) }),
      yaxis: axis(label(y), { range: rangeOf(run.measured[y], [run.predicted[y]]) }),
    });
  }

  // ---------------------------------------------------------------------------------------- energy and entropy

  function drawPotentials() {
    if (!byId("plot-energy")) return;
    const run = runOf(choice.run), p = run.potentials;
    const pair = (id, title, measured, predicted) =>
      draw(id, [
        { x: run.t, y: measured, mode: "markers", marker: dots(3), name: "at measured states" },
        { x: run.t, y: predicted, mode: "lines", line: modelLine(), name: "along the prediction" },
      ], { height: 300, showlegend: true, margin: { l: 56, r: 12, t: 34, b: 44 }, xaxis: axis(plain(run.timeTitle)), yaxis: axis(title, { range: rangeOf(measured, [predicted]) }) });
    pair("plot-energy", "energy E", p.measured_energy, p.energy);
    pair("plot-entropy", "entropy S", p.measured_entropy, p.entropy);
    const first = p.energy.find(Number.isFinite);
    const line = (id, title, y, more = {}) =>
      draw(id, [{ x: run.t, y, mode: "lines", line: modelLine(1.6) }], { height: 260, xaxis: axis(plain(run.timeTitle)), yaxis: axis(title, more) });
    line("plot-drift", "E − E at the start", p.energy.map((v) => v - first));
    line("plot-production", report.rate_unit ? `entropy production [${plain(report.rate_unit)}]` : "entropy production ∕ time", p.production, { rangemode: "tozero" });
  }

  function drawPlanes() {
    if (!byId("plot-energy-plane")) return;
    const { planes, axes, energy, entropy } = report.slices;
    const [i, j] = planes[choice.plane];
    const run = runOf(choice.run);
    const x = unpack(axes[i]), y = unpack(axes[j]);
    const one = (id, title, packed) => {
      const values = unpack(packed);
      // In units of the natural variation: less than this is rounding.
      const flat = Math.max(...values) - Math.min(...values) < 1e-6;
      return draw(id, [
        { type: "contour", x, y, z: rows(values, x.length), showscale: !flat, colorscale: "Cividis", ncontours: 16, contours: { coloring: "heatmap" },
          line: { color: style("--contour"), width: 0.7 }, colorbar: { thickness: 12, outlinewidth: 0, tickfont: { size: 11 } },
          hovertemplate: `${label(i)} %{x:.4g}<br>${label(j)} %{y:.4g}<br>${title} %{z:.4g}<extra></extra>` },
        { x: run.predicted[i], y: run.predicted[j], mode: "lines", line: { color: style("--path"), width: 2 }, hoverinfo: "skip" },
      ], { height: 360, title: titled(flat ? `${title}: the same all over this plane` : title), margin: { l: 60, r: 12, t: 34, b: 44 },
        xaxis: axis(label(i), { range: [x[0], x[x.length - 1]] }), yaxis: axis(label(j), { range: [y[0], y[y.length - 1]] }) });
    };
    one("plot-energy-plane", "energy E", energy[choice.plane]);
    one("plot-entropy-plane", "entropy S", entropy[choice.plane]);
    for (const fixed of document.querySelectorAll(".fixed")) fixed.hidden = [i, j].includes(Number(fixed.dataset.state));
  }

  function drawMatrices() {
    if (!byId("plot-poisson")) return;
    const m = runOf(choice.run).matrices, slider = byId("sample"), d = report.names.length;
    slider.disabled = m === null;
    if (m === null) {
      byId("sample-state").textContent = "no finite state in this run";
      for (const id of ["plot-poisson", "plot-friction"]) Plotly.purge(id);
      return;
    }
    slider.max = m.t.length - 1;
    choice.sample = Math.min(choice.sample, m.t.length - 1);
    slider.value = choice.sample;
    const at = m.x.slice(choice.sample * d, (choice.sample + 1) * d);
    const words = `${runOf(choice.run).timeTitle}: ${short(m.t[choice.sample])}` + (d <= 6 ? "; " + report.names.map((n, j) => `${n} = ${short(at[j])}`).join(", ") : "");
    byId("sample-state").textContent = words;
    slider.setAttribute("aria-valuetext", words);
    const names = report.names.map((n) => brief(n, 10));
    const ticks = { tickvals: names.map((_, k) => k), ticktext: names, showgrid: false, zeroline: false };
    const [low, middle, high] = colours("--diverging");
    const unit = (k) => report.spread[Math.floor(k / d) % d] * report.spread[k % d];
    const heat = (id, title, flat) => {
      const scaled = flat.map((v, k) => v / unit(k));
      const largest = Math.max(0, ...scaled.filter(Number.isFinite).map(Math.abs)) || 1;
      const here = (values) => rows(values.slice(choice.sample * d * d, (choice.sample + 1) * d * d), d);
      const z = here(scaled), entries = here(flat);
      return draw(id, [{
        type: "heatmap", z, zmin: -largest, zmax: largest, colorscale: [[0, low], [0.5, middle], [1, high]], xgap: 1, ygap: 1,
        colorbar: { thickness: 12, outlinewidth: 0, tickfont: { size: 11 } }, customdata: entries,
        ...(d <= 8 ? { text: z.map((row, i) => row.map((v, j) => compact(Math.abs(v) < 1e-12 * largest ? 0 : entries[i][j]))), texttemplate: "%{text}", textfont: { size: Math.max(7, Math.min(12, byId(id).clientWidth / (10 * d))), color: style("--ink") } } : {}),
        hovertemplate: "%{y}, %{x}: %{customdata:.4g}<extra></extra>",
      }], { height: 340, title: titled(title), margin: { l: 50, r: 12, t: 34, b: 36 }, dragmode: false,
        xaxis: axis("", ticks), yaxis: axis("", { ...ticks, autorange: "reversed" }) });
    };
    heat("plot-poisson", "L", m.poisson);
    heat("plot-friction", "M", m.friction);
  }

  function drawTraining() {
    if (!byId("plot-training")) return;
    const palette = colours("--members"), crowd = report.training.length > palette.length;
    // The served ones last, on top.
    const ordered = report.training.map((member, k) => [member, k]).sort(([a], [b]) => a.served - b.served);
    const traces = ordered.flatMap(([member, k]) => {
      const colour = crowd ? (member.served ? model() : style("--measured")) : palette[k];
      const name = brief(member.name, 20) + (member.served ? " (served)" : "");
      const one = (y, width, more) => ({ x: member.step, y, mode: "lines+markers", line: { color: colour, width }, marker: { color: colour, size: width + 2 }, name, ...more });
      const both = [one(member.loss, 0.8, { showlegend: false, opacity: 0.6, hoverinfo: "skip" }), one(member.best, 2, { showlegend: !crowd || member.served })];
      return crowd && !member.served ? both.slice(1) : both;
    });
    const losses = report.training.flatMap((member) => [...member.loss, ...member.best]).filter((v) => v !== null);
    const span = Math.max(...losses) / Math.min(...losses);
    draw("plot-training", traces, { showlegend: true, height: 340, margin: { l: 64, r: 12, t: 34, b: 44 }, xaxis: axis("optimiser step", { rangemode: "tozero" }), yaxis: axis("loss", { type: "log", dtick: span > 1000 ? 1 : span > 5 ? "D2" : undefined }) });
  }

  // ----------------------------------------------------------------------------------------------- controls

  function fill(select, texts, chosen) {
    select.replaceChildren(...texts.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }
  function drawRun() {
    byId("run").value = choice.run;
    byId("previous").disabled = choice.run === 0;
    byId("next").disabled = choice.run === report.runs.length - 1;
    drawTrajectories(); drawPhase(); drawPotentials(); drawPlanes(); drawMatrices(); drawResiduals();
  }
  function drawAll() {
    drawRun(); drawTraining();
  }
  function on(id, event, act) {
    if (byId(id)) byId(id).addEventListener(event, act);
  }
  function start() {
    const states = report.names.map((name, j) => [j, withUnit(name, report.units[j])]);
    fill(byId("run"), report.runs.map((run, k) => [k, `${run.name} (${run.held_out ? "held out, " : ""}error ${run.error})`]), choice.run);
    fill(byId("state"), report.names.length > 1 ? [[ALL, "all states"], ...states] : states, choice.state);
    for (const key of ["x", "y"]) if (byId("phase-" + key)) fill(byId("phase-" + key), states, choice[key]);
    if (byId("plane")) fill(byId("plane"), report.slices.planes.map(([i, j], k) => [k, `${report.names[i]}, ${report.names[j]}`]), choice.plane);

    const chooseRun = (k) => { choice.run = Math.min(Math.max(k, 0), report.runs.length - 1); drawRun(); };
    on("run", "change", (e) => chooseRun(Number(e.target.value)));
    on("previous", "click", () => chooseRun(choice.run - 1));
    on("next", "click", () => chooseRun(choice.run + 1));
    on("state", "change", (e) => { choice.state = Number(e.target.value); drawTrajectories(); drawResiduals(); });
    on("phase-x", "change", (e) => { choice.x = Number(e.target.value); drawPhase(); });
    on("phase-y", "change", (e) => { choice.y = Number(e.target.value); drawPhase(); });
    on("plane", "change", (e) => { choice.plane = Number(e.target.value); drawPlanes(); });
    on("sample", "input", (e) => { choice.sample = Number(e.target.value); drawMatrices(); });
    on("toolbar", "submit", (e) => e.preventDefault());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => { document.documentElement.classList.add("printing"); drawAll(); });
    window.addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); drawAll(); });
    drawAll();
    document.documentElement.dataset.ready = "yes";
  }
  start();
})();

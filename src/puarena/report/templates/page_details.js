// The figures and the details of a method; the page has this right after page.js, inside the same function.
// ---- figures

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The rows of packed data: names first, then values. */
function unpacked([names = [], ...rows]) {
  return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]])));
}

/** A chart's spec for a width: facets get fewer columns where there is little room. */
function fitted(spec, width) {
  const { packed = {}, ...fit } = structuredClone(spec);
  fit.datasets ??= Object.fromEntries(Object.entries(packed).map(([name, rows]) => [name, unpacked(rows)]));
  if (fit.facet) {
    fit.columns = Math.max(1, Math.min(fit.columns || 1, Math.floor((width - 60) / 200)));
    fit.spec.width = Math.max(120, Math.floor((width - 130) / fit.columns) - 24);
  } else fit.width = Math.max(140, Math.min(760, width - 150));
  return fit;
}

async function draw(host, spec, label) {
  const options = { mode: "vega-lite", renderer: "svg", config: DATA.theme, tooltip: { theme: dark.matches ? "dark" : "light" },
    actions: { export: true, source: false, compiled: false, editor: false }, downloadFileName: `puarena-${label}` };
  host.spec = spec;
  let room = host.clientWidth;
  for (let i = 0; i < 3; i++) {
    host.view?.finalize();
    host.view = await vegaEmbed(host, fitted(spec, room), options);
    const drawn = host.querySelector("svg.marks");
    drawn?.setAttribute("role", "img");
    drawn?.setAttribute("aria-label", host.getAttribute("aria-label"));
    const over = drawn ? Math.ceil(drawn.getBoundingClientRect().width) - host.clientWidth : 0;
    if (over <= 0 && (!spec.facet || over > -24)) break;
    room -= over > 0 ? over : over + 8;
  }
}

function drawFigures() {
  const missing = [];
  for (const figure of DATA.figures) {
    const charts = figure.charts;
    const { metric, criterion } = chosen;
    const spec = charts[`${metric}.${criterion}`] || charts[`${metric}.`] || charts["."];
    const host = byId(`figure-${figure.id}`);
    if (spec) draw(host, spec, figure.id);
    else { host.view?.finalize(); host.spec = null; }
    host.closest("figure").hidden = !spec;
    if (!spec) missing.push(`${figure.title} (${figure.reason.replace(/\.$/, "")})`);
  }
  byId("figure-missing").textContent = missing.length ? `Not drawn, because results are too few: ${missing.join("; ")}.` : "";
}

function drawFigureFilters() {
  const word = Object.fromEntries(DATA.metrics.map((item) => [item.id, item.word]));
  const set = (key) => (value) => { chosen[key] = value; drawFigures(); writeAddress(); };
  byId("figure-filters").replaceChildren(
    labeledSelect("metric", "Metric", DATA.drawn.map((id) => [id, word[id]]), chosen.metric, set("metric")),
    labeledSelect("criterion", "Model chosen by", DATA.criteria.map((item) => [item.id, item.word]), chosen.criterion, set("criterion")));
}

function prepareFigures() {
  byId("figure-filters").hidden = false;
  byId("figure-list").append(...DATA.figures.map((figure) => el("figure", { class: "card", "aria-labelledby": `title-${figure.id}` },
    el("h3", { id: `title-${figure.id}` }, figure.title), el("figcaption", {}, figure.words),
    el("div", { class: "chart", id: `figure-${figure.id}`, role: "group", "aria-label": `${figure.title}. ${figure.words}` }))));
}

// ---- a method

/** Text with ``code`` and empty lines between paragraphs. */
const prose = (text) => text.split(/\n\s*\n/).map((part) =>
  el("p", {}, part.split("``").map((piece, i) => (i % 2 ? el("code", {}, piece) : piece))));

function hyperparameters(about) {
  const rows = Object.entries(about.hyperparameters).map(([name, hyper]) => el("tr", {},
    el("th", { scope: "row" }, el("code", {}, name)), el("td", {}, JSON.stringify(hyper.default)), el("td", {}, hyper.search || "fixed"),
    el("td", { style: "white-space:normal;min-width:14rem" }, hyper.meaning, hyper.choices.length ? ` (one of ${hyper.choices.join(", ")})` : "")));
  if (!rows.length) return el("p", {}, "None beside learning rate and batch size.");
  return el("div", { class: "scroll" }, el("table", { class: "left" }, el("caption", { class: "hidden" }, "Hyperparameters"),
    el("thead", {}, el("tr", {}, ["Name", "Default", "Search", "Meaning"].map((words) => el("th", { scope: "col" }, words)))), el("tbody", {}, rows)));
}

function aboutMethod(about) {
  if (!about) return [el("p", {}, "This method is not one that comes with puarena (a plugin, or one that is not installed here), so nothing more is known about it.")];
  const other = about.calibrated_form && DATA.methods.findIndex((method) => method.name === about.calibrated_form);
  const assumes = about.setting === "either" ? "either setting" : `${about.setting} data`;
  return [
    el("ul", { class: "chips" }, [`assumes ${assumes}`, about.needs_prior ? "needs the class prior" : "no class prior needed",
      ...about.phases.length > 1 ? [about.phases.join(", then ")] : [], ...about.engine_needs].map((words) => el("li", {}, words))),
    el("h3", {}, "Paper"), el("p", {}, about.paper),
    el("h3", {}, "Objective"), ...prose(about.description),
    about.calibrated ? el("p", {}, "Calibrated for one-sample data: ", el("code", {}, "mean_U"), " becomes ", el("code", {}, "(1-r) mean_U + r mean_P"),
      ", where r is the share of labeled examples, n_P / (n_P + n_U).") : null,
    other >= 0 && about.calibrated_form ? el("p", {}, "Its calibrated form: ", el("button", { type: "button", class: "link", on: { click: () => openMethod(other) } }, el("b", {}, about.calibrated_form))) : null,
    el("h3", {}, "Hyperparameters"), hyperparameters(about),
    el("h3", {}, "Differences from the published code"), ...prose(about.differs || "None."),
  ];
}

function resultsOf(i) {
  const cells = DATA.cells[state.metric];
  const rows = DATA.problems.map((problem, at) => [problem, at]).filter(([, at]) => cells.some((by) => by[i][at])).map(([problem, at]) =>
    el("tr", {}, el("th", { scope: "row" }, problem.title), cells.map((by) => {
      const cell = by[i][at];
      const [text, error] = cell ? cell[1].split(" ± ") : ["–"];
      return el("td", {}, text, error ? el("small", {}, ` ± ${error}`) : null);
    })));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" }, el("table", {}, el("caption", { class: "hidden" }, "Results on every problem"), el("thead", {}, el("tr", {}, el("th", { class: "left", scope: "col" }, `Test ${metric().inline}`),
    DATA.criteria.map((item) => el("th", { scope: "col" }, `by ${item.word}`)))), el("tbody", {}, rows)));
}

/** The rows of the learning curves of a method: curves pass through what was selected. */
function curveRows(i) {
  const rows = [], points = new Map();
  const picks = DATA.picks.filter((pick) => pick[0] === i);
  const panel = (at) => `${DATA.problems[at].dataset}, ${parts(at, [...DATA.problems.keys()])}`;
  for (const [, at, split, criterion, config, step, , , values] of picks) {
    const value = scaled(values[state.metric]);
    rows.push({ panel: panel(at), split, config, step, value, criterion: DATA.criteria[criterion].word });
    const key = `${i}.${at}.${split}.${config}`;
    if (!points.has(key)) points.set(key, { at, split, config, steps: new Map() });
    points.get(key).steps.set(step, value);
  }
  for (const [key, { at, split, config, steps }] of points) {
    const curve = DATA.curves[key];
    if (curve) DATA.steps[curve[0]].forEach((step, k) => steps.set(step, scaled(curve[1 + state.metric][k])));
    for (const [step, value] of steps) rows.push({ panel: panel(at), split, config, step, value, criterion: null });
  }
  return rows;
}

function picksOf(i) {
  const rows = DATA.picks.filter((pick) => pick[0] === i).map(([, at, split, criterion, config, step, value, hyper, values]) => el("tr", {},
    el("td", {}, DATA.problems[at].title), el("td", {}, String(split)), el("td", {}, DATA.criteria[criterion].word), el("td", {}, value.toFixed(4)),
    el("td", {}, String(step)), el("td", {}, String(config)), el("td", {}, values[state.metric] === null ? "–" : shown(scaled(values[state.metric]))), el("td", {}, DATA.hypers[hyper] || "")));
  const names = ["Problem", "Split", "Criterion", "Its value", "Step", "Configuration", `Test ${metric().inline}`, "With"];
  return el("details", {}, el("summary", {}, `Every selected checkpoint (${rows.length})`), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Selected checkpoints" }, el("table", { class: "left" }, el("caption", { class: "hidden" }, "Selected checkpoints"),
    el("thead", {}, el("tr", {}, names.map((words) => el("th", { scope: "col" }, words)))), el("tbody", {}, rows))));
}

function openMethod(i) {
  const method = DATA.methods[i], dialog = byId("method"), about = DATA.about[method.name];
  const chart = el("div", { class: "chart", id: "method-curves", role: "group", "aria-label": "Learning curves" });
  dialog.replaceChildren(
    el("div", { class: "top" }, el("div", {}, el("h2", { id: "method-title" }, about ? about.title : method.label), el("p", { class: "note" }, method.label)),
      el("button", { type: "button", class: "plain", autofocus: true, on: { click: () => dialog.close() } }, "Close")),
    el("div", { class: "body" }, aboutMethod(about), el("h3", {}, "Results"), resultsOf(i),
      el("h3", {}, "Learning curves"),
      el("p", { class: "note" }, `Test ${metric().inline} by training step of the configurations that were selected, one line per split and configuration. A mark is the checkpoint that a criterion chose; the test set chose nothing.`),
      chart, picksOf(i)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  const spec = structuredClone(DATA.curve);
  spec.datasets = { curves: curveRows(i) };
  const axis = (index) => JSON.stringify(DATA.metrics[index].axis); // the chart was made for the first metric
  const text = JSON.stringify(spec).replaceAll(axis(0), axis(state.metric));
  draw(chart, JSON.parse(text), "curves");
}

// ---- start

function start() {
  readAddress();
  drawFilters();
  drawFigureFilters();
  drawBoard();
  drawFigures();
}

for (const form of ["filters", "figure-filters"]) byId(form).addEventListener("submit", (event) => event.preventDefault());
byId("filter-box").hidden = false;
byId("filter-box").open = innerWidth > 640;
prepareFigures();
start();
addEventListener("hashchange", () => { if (location.hash.includes("=")) start(); });
document.querySelectorAll('a[href^="#"]').forEach((link) => link.addEventListener("click", (event) => {
  if (!location.hash.includes("=")) return; // the address keeps what was chosen
  event.preventDefault();
  document.querySelector(link.getAttribute("href"))?.scrollIntoView();
}));
byId("method").addEventListener("click", (event) => { if (event.target === byId("method")) byId("method").close(); });
if (byId("spec")) {
  byId("download").hidden = false;
  byId("download").addEventListener("click", () => {
    const link = el("a", { download: byId("download").textContent.replace("Download ", ""),
      href: URL.createObjectURL(new Blob([byId("spec").textContent], { type: "application/json" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
let waiting;
const redraw = () => { clearTimeout(waiting); waiting = setTimeout(() => document.querySelectorAll(".chart").forEach((host) => host.spec && draw(host, host.spec, "figure")), 200); };
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
dark.addEventListener("change", redraw);
addEventListener("beforeprint", () => document.querySelectorAll("#tables details").forEach((part) => { part.open = true; }));
})();

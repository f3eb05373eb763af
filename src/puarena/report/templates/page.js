// The leaderboard, the details of a method, and the figures. Everything shown is set as text, never as markup.
(() => {
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const WORDS = { dataset: "Dataset", case: "Case", setting: "Setting", rate: "Positive rate", prior: "Class prior", labelling: "Labelling" };
const KEYS = Object.keys(WORDS);
const byId = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number";

/** Make an element: attributes, `on` handlers, then children; strings become text. */
function el(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** The current metric: its words, unit and direction. */
const metric = () => DATA.metrics[state.metric];
/** A value as the current metric is shown. */
const shown = (value) => value.toFixed(metric().decimals);
/** A stored whole number as the current metric is shown; null where there is none. */
const scaled = (whole) => (whole === null ? null : (whole * metric().factor) / 1e4);
const percent = (value) => `${+(100 * value).toPrecision(4)}%`;
const shownValue = (key, value) =>
  value === null ? "not known" : key === "rate" ? percent(value) : key === "setting" ? DATA.settings[value] || value
    : key === "prior" ? String(+value.toPrecision(3)) : String(value);

function labeledSelect(name, words, options, value, change) {
  const box = el("select", { name, on: { change: () => change(box.value) } },
    options.map(([id, text]) => el("option", { value: id }, text)));
  box.value = value;
  return el("label", {}, words, box);
}

// ---- the leaderboard

const state = { metric: 0, criterion: 0, search: "", sort: null, descending: true };
const values = {}; // of each part of a problem, in order
for (const key of KEYS) {
  values[key] = [...new Set(DATA.problems.map((problem) => problem[key]))]
    .sort((a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a).localeCompare(String(b))));
  state[key] = "";
}

const shownProblems = () => DATA.problems.map((_, i) => i).filter((i) =>
  KEYS.every((key) => state[key] === "" || values[key][+state[key]] === DATA.problems[i][key]));

/** Ranks of the competing methods on one problem; ties share the mean of their ranks. */
function ranksOn(cells, at) {
  const competing = DATA.methods.map((method, i) => [i, cells[i][at]]).filter(([i, cell]) => cell && !DATA.methods[i].supervised);
  const ranks = {}, sign = metric().higher ? 1 : -1;
  for (const [i, cell] of competing) {
    const better = competing.filter(([, other]) => sign * (other[0] - cell[0]) > 0).length;
    const tied = competing.filter(([, other]) => other[0] === cell[0]).length;
    ranks[i] = better + (tied + 1) / 2;
  }
  return ranks;
}

const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;

/** One line per method with everything that a column can show or sort by. */
function lines(problems) {
  const cells = DATA.cells[state.metric][state.criterion];
  const ranks = problems.map((at) => ranksOn(cells, at));
  return DATA.methods.map((method, i) => {
    const own = problems.map((at) => cells[i][at] || null);
    const have = own.filter(Boolean).length;
    const whole = have > 0 && have === problems.length;
    return {
      method, i, own, have,
      mean: whole ? mean(own.map((cell) => cell[0])) : null,
      rank: whole && !method.supervised ? mean(ranks.map((rank) => rank[i])) : null,
    };
  }).filter((line) => line.have && line.method.label.toLowerCase().includes(state.search.toLowerCase()));
}

/** A problem's case, and what else tells it from the others. */
function parts(at, problems) {
  const problem = DATA.problems[at];
  const varies = (key) => new Set(problems.map((other) => DATA.problems[other][key])).size > 1;
  const words = [`case ${problem.case}`];
  if (varies("setting")) words.push(problem.short);
  if (varies("rate")) words.push(percent(problem.rate));
  if (varies("prior")) words.push(`prior ${shownValue("prior", problem.prior)}`);
  if (varies("labelling")) words.push(problem.labelling);
  return words.join(", ");
}

function columnsFor(problems) {
  const many = problems.length > 1, low = !metric().higher; // low: small values are good
  const columns = [{ id: "method", words: "Method", value: (line) => line.method.label.toLowerCase() }];
  if (many) {
    columns.push({ id: "mean", words: "Mean", small: `of ${problems.length} problems`, value: (line) => line.mean, low });
    columns.push({ id: "rank", words: "Mean rank", small: "1 is best", value: (line) => line.rank, low: true, digits: 1 });
  }
  problems.forEach((at, k) => columns.push({
    id: `p${at}`, words: DATA.problems[at].dataset, small: parts(at, problems), title: DATA.problems[at].title, at: k, low,
    value: (line) => (line.own[k] ? line.own[k][0] : null),
  }));
  return columns;
}

function sorted(list, column, descending) {
  const sign = descending ? -1 : 1;
  return [...list].sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a.i - b.i; // what is missing comes last
    return sign * (isNumber(x) ? x - y : x.localeCompare(y)) || a.i - b.i;
  });
}

function sortBy(column) {
  const now = byId("board").querySelector(`[data-column="${column.id}"]`).getAttribute("aria-sort");
  const first = !(column.low || column.id === "method"); // the direction that shows the best first
  [state.sort, state.descending] = [column.id, now === "none" ? first : now === "ascending"];
  drawBoard();
  byId("board").querySelector(`[data-column="${column.id}"] button`).focus();
}

const rounded = (value) => +shown(value);
const bestOf = (list, value, pick) => pick(...list.filter((line) => !line.method.supervised).map(value).filter((x) => x !== null).map(rounded));

function cellOf(column, line, best) {
  const value = column.value(line);
  const good = value !== null && !line.method.supervised && rounded(value) === best[column.id];
  if (column.at === undefined) {
    if (value === null) {
      const why = line.method.supervised && line.mean !== null ? "does not compete" : `has ${line.have} of ${line.own.length} problems`;
      return el("td", { title: why }, "–");
    }
    const fill = `width:${(100 * (value - best.worst)) / (best.top - best.worst || 1)}%`;
    const bar = column.id === "mean" ? el("span", { class: "bar", "aria-hidden": "true" }, el("i", { style: fill })) : null;
    return el("td", { class: `${column.id}${good ? " best" : ""}` }, bar, column.digits ? value.toFixed(column.digits) : shown(value));
  }
  const own = line.own[column.at];
  if (!own) return el("td", {}, "–");
  const error = isNumber(own[1]) ? el("small", {}, ` ± ${shown(own[1])}`) : null;
  return el("td", { class: good && "best", title: `n = ${own[2]} splits` }, shown(own[0]), error);
}

function drawBoard() {
  const problems = shownProblems();
  const columns = columnsFor(problems);
  const usual = columns[1] || columns[0];
  const wanted = columns.find((item) => item.id === state.sort); // not there while a filter hides it
  const column = wanted || usual, descending = wanted ? state.descending : !column.low;
  const list = sorted(lines(problems), column, descending);
  const best = {};
  for (const item of columns.slice(1)) best[item.id] = bestOf(list, item.value, item.low ? Math.min : Math.max);
  const means = list.map((line) => line.mean).filter((x) => x !== null);
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const room = metric().percent ? 1 : (high - low) / 10; // so that the worst has a bar too
  [best.worst, best.top] = metric().higher ? [low - room, high] : [high + room, low];
  const head = columns.map((item) => el("th", {
    scope: "col", "data-column": item.id, class: item.id === "method" ? "name left" : item.id, title: item.title,
    "aria-sort": item === column ? (descending ? "descending" : "ascending") : "none",
  }, el("button", { type: "button", on: { click: () => sortBy(item) } }, item.words), item.small ? el("small", {}, item.small) : null));
  let place = 0;
  const body = list.map((line) => {
    const name = el("button", { type: "button", class: "link", title: line.method.label }, line.method.label);
    return el("tr", { class: line.method.kind, "data-method": line.i, on: { click: () => openMethod(line.i) } },
      el("td", { class: "place" }, line.method.supervised ? "" : String(++place)),
      el("th", { scope: "row", class: "name" }, name),
      columns.slice(1).map((item) => cellOf(item, line, best)));
  });
  byId("board").replaceChildren(el("table", {},
    el("thead", {}, el("tr", {}, el("th", { class: "place", "aria-label": "Place" }), head)), el("tbody", {}, body)));
  describe(problems, list);
}

/** Say in words what the board shows. */
function describe(problems, list) {
  const criterion = DATA.criteria[state.criterion];
  const fixed = KEYS.slice(2).filter((key) => new Set(problems.map((at) => DATA.problems[at][key])).size === 1)
    .filter((key) => DATA.problems[problems[0]][key] !== DATA.usual[key])
    .map((key) => `${WORDS[key].toLowerCase()} ${shownValue(key, DATA.problems[problems[0]][key])}`);
  const counts = [...new Set(list.flatMap((line) => line.own.filter(Boolean).map((cell) => cell[2])))].sort((a, b) => a - b);
  const splits = counts.length > 1 ? `${counts[0]} to ${counts.at(-1)}` : String(counts[0] ?? 0);
  byId("board-words").textContent = problems.length === 0 ? "No problem fits these filters."
    : `${list.length} methods. Test ${metric().inline}${metric().percent ? " in percent" : ""}${metric().higher ? "" : " (lower is better)"}, ` +
      `of the model with the ${criterion.higher ? "highest" : "lowest"} ${criterion.long} (${criterion.word}) on validation data; mean over ${splits} split${splits === "1" ? "" : "s"} ± error.` +
      (fixed.length ? ` Everywhere: ${fixed.join(", ")}.` : "");
}

function drawFilters() {
  const set = (key) => (value) => { state[key] = value; drawBoard(); };
  const number = (key) => (value) => { state[key] = +value; drawBoard(); };
  const choices = (list) => list.map((item, i) => [i, item.word]);
  const search = el("input", { type: "search", name: "search", placeholder: "all", on: { input: () => set("search")(search.value) } });
  const several = KEYS.filter((key) => values[key].length > 1);
  byId("filters").append(
    labeledSelect("metric", "Metric", choices(DATA.metrics), 0, number("metric")),
    labeledSelect("criterion", "Model chosen by", choices(DATA.criteria), 0, number("criterion")),
    ...several.map((key) => labeledSelect(key, WORDS[key],
      [["", "all"], ...values[key].map((value, i) => [i, shownValue(key, value)])], "", set(key))),
    el("label", {}, "Method", search));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").hidden = false;
}

// ---- figures

const dark = matchMedia("(prefers-color-scheme: dark)");

/** A chart's spec for a width: facets get fewer columns where there is little room. */
function fitted(spec, width) {
  const fit = structuredClone(spec);
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
    const over = drawn ? Math.ceil(drawn.getBoundingClientRect().width) - host.clientWidth : 0;
    if (over <= 0 && (!spec.facet || over > -24)) break;
    room -= over > 0 ? over : over + 8;
  }
}

const chosen = { metric: DATA.drawn[0], criterion: DATA.criteria[0]?.id };

function drawFigures() {
  for (const figure of DATA.figures) {
    const charts = figure.charts;
    const { metric, criterion } = chosen;
    const spec = charts[`${metric}.${criterion}`] || charts[`${metric}.`] || charts["."];
    const host = byId(`figure-${figure.id}`);
    if (spec) draw(host, spec, figure.id);
    else {
      host.view?.finalize();
      host.replaceChildren(el("p", { class: "note" }, `Left out: ${figure.reason}.`.replace("..", ".")));
    }
  }
}

function prepareFigures() {
  const word = Object.fromEntries(DATA.metrics.map((item) => [item.id, item.word]));
  const set = (key) => (value) => { chosen[key] = value; drawFigures(); };
  byId("figure-filters").append(
    labeledSelect("metric", "Metric", DATA.drawn.map((id) => [id, word[id]]), chosen.metric, set("metric")),
    labeledSelect("criterion", "Model chosen by", DATA.criteria.map((item) => [item.id, item.word]), chosen.criterion, set("criterion")));
  byId("figure-filters").hidden = false;
  byId("figure-filters").addEventListener("submit", (event) => event.preventDefault());
  const drawable = (figure) => Object.keys(figure.charts).length > 0;
  byId("figure-list").append(...[...DATA.figures].sort((a, b) => drawable(b) - drawable(a)).map((figure) => el("figure", { class: "card" },
    el("h3", {}, figure.title), el("figcaption", {}, figure.words),
    el("div", { class: "chart", id: `figure-${figure.id}`, role: "group", "aria-label": figure.title }))));
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
  return el("div", { class: "scroll" }, el("table", { class: "left" },
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
    el("h3", {}, "Objective"), ...prose(about.objective),
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
      return el("td", {}, cell ? shown(cell[0]) : "–", cell && isNumber(cell[1]) ? el("small", {}, ` ± ${shown(cell[1])}`) : null);
    })));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "left", scope: "col" }, `Test ${metric().inline}`),
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
  return el("details", {}, el("summary", {}, `Every selected checkpoint (${rows.length})`), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Selected checkpoints" }, el("table", { class: "left" },
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

drawFilters();
drawBoard();
prepareFigures();
drawFigures();
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

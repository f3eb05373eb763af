// The leaderboard, the figures and the details of a method. Everything shown is set as text, never as markup.
(() => {
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const WORDS = { dataset: "Dataset", case: "Case", setting: "Setting", rate: "Positive rate", prior: "Class prior", labeling: "Labeling" };
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
const chosen = { metric: DATA.drawn[0], criterion: DATA.criteria[0]?.name }; // of the figures
const values = {}; // of each part of a problem, in order
for (const key of KEYS) {
  values[key] = [...new Set(DATA.problems.map((problem) => problem[key]))]
    .sort((a, b) => (isNumber(a) && isNumber(b) ? a - b : String(a).localeCompare(String(b))));
  state[key] = "";
}

const shownProblems = () => DATA.problems.map((_, i) => i).filter((i) =>
  KEYS.every((key) => state[key] === "" || values[key][+state[key]] === DATA.problems[i][key]));

// The address has what was chosen, in words: #metric=auc&dataset=letter

function writeAddress() {
  const parts = new URLSearchParams();
  if (state.metric) parts.set("metric", metric().name);
  if (state.criterion) parts.set("criterion", DATA.criteria[state.criterion].name);
  for (const key of KEYS) if (state[key] !== "") parts.set(key, String(values[key][+state[key]]));
  if (state.search) parts.set("search", state.search);
  if (state.sort) parts.set("sort", `${state.sort}.${state.descending ? "down" : "up"}`);
  if (chosen.metric !== DATA.drawn[0]) parts.set("figures", chosen.metric);
  if (chosen.criterion !== DATA.criteria[0]?.name) parts.set("chosen-by", chosen.criterion);
  const text = parts.toString();
  if (text || location.hash.includes("=")) history.replaceState(null, "", `#${text}`);
}

function readAddress() {
  if (!location.hash.includes("=")) return;
  const parts = new URLSearchParams(location.hash.slice(1));
  state.metric = Math.max(0, DATA.metrics.findIndex((item) => item.name === parts.get("metric")));
  state.criterion = Math.max(0, DATA.criteria.findIndex((item) => item.name === parts.get("criterion")));
  for (const key of KEYS) {
    const at = values[key].findIndex((value) => String(value) === parts.get(key));
    state[key] = at < 0 ? "" : String(at);
  }
  state.search = parts.get("search") || "";
  const sort = (parts.get("sort") || "").split(".");
  if (sort.length === 2) [state.sort, state.descending] = [sort[0], sort[1] === "down"];
  if (DATA.drawn.includes(parts.get("figures"))) chosen.metric = parts.get("figures");
  if (DATA.criteria.some((item) => item.name === parts.get("chosen-by"))) chosen.criterion = parts.get("chosen-by");
}

/** The standings of the chosen problems, computed where the page was made; null for a choice that was not. */
const viewOf = (problems) => DATA.views[problems.join(",")]?.[`${metric().name}.${DATA.criteria[state.criterion].name}`] || null;

/** One line per method with everything that a column can show or sort by. */
function lines(problems, view) {
  const cells = DATA.cells[state.metric][state.criterion];
  return DATA.methods.map((method, i) => {
    const own = problems.map((at) => cells[i][at] || null);
    const [mean = null, text = "", rank = null, place = "", places = "", tied = 0, low = null, high = null] = view?.rows[i] || [];
    const chance = DATA.cells.some((by, m) => DATA.drawn.includes(DATA.metrics[m].name) && problems.some((at) => by[state.criterion][i][at]?.[3]));
    return { method, i, own, chance, have: own.filter(Boolean).length, mean, text, rank, place, places, tied: tied === 1, low, high };
  }).filter((line) => line.have);
}

/** A problem's case, and what else tells it from the others. */
function parts(at, problems) {
  const problem = DATA.problems[at];
  const varies = (key) => new Set(problems.map((other) => DATA.problems[other][key])).size > 1;
  const words = [`case ${problem.case}`];
  if (varies("setting")) words.push(problem.short);
  if (varies("rate")) words.push(percent(problem.rate));
  if (varies("prior")) words.push(`prior ${shownValue("prior", problem.prior)}`);
  if (varies("labeling")) words.push(problem.labeling);
  return words.join(", ");
}

function columnsFor(problems, view) {
  const low = !metric().higher; // small values are good
  const columns = [{ id: "method", words: "Method", value: (line) => line.method.label.toLowerCase() }];
  if (view) {
    const over = problems.length > 1 ? `of ${problems.length} problems` : "of the splits";
    columns.push({ id: "mean", words: "Mean", small: over, value: (line) => line.mean, printed: (line) => (line.mean === null ? null : +line.text), low });
    columns.push({ id: "places", words: "Place", small: "95% interval", value: (line) => (line.place ? parseInt(line.place, 10) : null), low: true });
    if (problems.length > 1) columns.push({ id: "rank", words: "Mean rank", small: "1 is best", value: (line) => (line.rank === null ? null : +line.rank), low: true });
  }
  problems.forEach((at, k) => columns.push({
    id: `p${at}`, words: DATA.problems[at].dataset, small: parts(at, problems), title: DATA.problems[at].title, at: k, low,
    value: (line) => (line.own[k] ? line.own[k][0] : null), printed: (line) => (line.own[k] ? parseFloat(line.own[k][1]) : null),
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

/** A value as it is printed: what reads the same is the same, as in the tables. */
const printed = (column, line) => (column.printed || column.value)(line);
const competes = (line) => line.method.kind !== "baseline";
const bestOf = (list, column) => (column.low ? Math.min : Math.max)(...list.filter(competes).map((line) => printed(column, line)).filter((x) => x !== null));

/** Where a value stands on the axis of the means, in percent of its width. */
const position = (value, [low, high]) => `${Math.max(0, Math.min(100, (100 * (value - low)) / (high - low || 1)))}%`;

/** The ends of the axis of the means; methods far behind the middle one are off it, and marked at its end. */
function axisOf(list, best) {
  const means = list.filter((line) => line.mean !== null).map((line) => line.mean).sort((a, b) => a - b);
  if (!best) return [0, 1];
  const far = 1.5 * Math.abs(best.mean - means[means.length >> 1]) || Infinity;
  const [low, high] = [Math.max(means[0], best.mean - far), Math.min(means.at(-1), best.mean + far)];
  const room = (high - low || 1) / 25;
  return [low - room, high + room];
}

function meanCell(line, good, axis, best) {
  if (line.mean === null) return el("td", { title: `has ${line.have} of ${line.own.length} problems` }, "–");
  const interval = line.low !== null && best && line !== best && competes(line);
  const [from, to] = interval ? [best.mean + line.low, best.mean + line.high] : [0, 0];
  const plot = el("span", { class: "plot", "aria-hidden": "true" },
    best ? el("i", { class: "mark", style: `left:${position(best.mean, axis)}` }) : null,
    interval ? el("i", { class: "line", style: `left:${position(from, axis)};right:calc(100% - ${position(to, axis)})` }) : null,
    line.mean < axis[0] ? el("i", { class: "off" }, "◂") : line.mean > axis[1] ? el("i", { class: "off", style: "right:0" }, "▸")
      : el("i", { class: "dot", style: `left:${position(line.mean, axis)}` }));
  const words = interval ? `95% interval of the difference from ${best.method.label}: ${shown(line.low)} to ${shown(line.high)}` : null;
  return el("td", { class: `mean${good ? " best" : ""}`, title: words }, plot, line.text);
}

function cellOf(column, line, bests, axis, best) {
  const value = column.value(line);
  const good = value !== null && competes(line) && printed(column, line) === bests[column.id];
  if (column.id === "mean") return meanCell(line, good, axis, best);
  if (column.id === "places") return el("td", {}, line.places || (competes(line) ? "–" : ""));
  if (column.id === "rank") return el("td", { class: good && "best" }, line.rank ?? (competes(line) ? "–" : ""));
  const own = line.own[column.at];
  if (!own) return el("td", {}, "–");
  const [text, error] = own[1].split(" ± ");
  return el("td", { class: good && "best", title: `n = ${own[2]} splits` }, text, error ? el("small", {}, ` ± ${error}`) : null);
}

function nameCell({ method, chance }) {
  const button = el("button", { type: "button", class: "link", title: method.label }, method.label);
  const chip = method.kind === "baseline" ? el("span", { class: "chip baseline" }, method.supervised ? "sees the truth" : "baseline")
    : method.calibrated ? el("span", { class: "chip" }, "calibrated") : null;
  const poor = chance ? el("span", { class: "chip chance", title: "no better than always the same answer" }, "chance level") : null;
  return el("th", { scope: "row", class: "name" }, button, chip, poor);
}

/** The rows with those tied with the best together: a method that varies much can be tied, and the one above it not. */
function gatherTied(list) {
  const top = list.findIndex((line) => line.tied);
  const rest = list.slice(top);
  return [...list.slice(0, top), ...rest.filter((line) => line.tied), ...rest.filter((line) => !line.tied)];
}

/** The rows, with a line above those that are tied with the best where they stand together. */
function bodyOf(list, view, width, cells, grouped) {
  const tied = list.filter((line) => line.tied).length;
  const [top, last] = [list.findIndex((line) => line.tied), list.findLastIndex((line) => line.tied)];
  const rows = [];
  list.forEach((line, k) => {
    if (grouped && k === top) rows.push(el("tr", { class: "group" }, el("th", { colspan: width, scope: "colgroup" },
      `Tied first: ${tied} methods that cannot be told apart from the best`)));
    if (grouped && k === last + 1) rows.push(el("tr", { class: "group rest" }, el("th", { colspan: width, scope: "colgroup" }, "Behind the best by more than chance")));
    rows.push(el("tr", { class: `${line.method.kind}${line.tied && view.unit ? " tied" : ""}`, "data-method": line.i, on: { click: () => openMethod(line.i) } },
      el("td", { class: "place" }, line.place), nameCell(line), cells(line)));
  });
  return rows;
}

function drawBoard() {
  const problems = shownProblems();
  const view = viewOf(problems);
  const columns = columnsFor(problems, view);
  const usual = columns[1] || columns[0];
  const wanted = columns.find((item) => item.id === state.sort); // not there while a filter hides it
  const column = wanted || usual, descending = wanted ? state.descending : !column.low;
  const everyone = lines(problems, view);
  const best = everyone.find((line) => line.i === view?.best);
  const found = sorted(everyone.filter((line) => line.method.label.toLowerCase().includes(state.search.toLowerCase())), column, descending);
  const bests = {};
  for (const item of columns.slice(1)) bests[item.id] = bestOf(everyone, item);
  const axis = axisOf(everyone, best);
  const head = columns.map((item) => el("th", {
    scope: "col", "data-column": item.id, class: item.id === "method" ? "name left" : item.id, title: item.title,
    "aria-sort": item === column ? (descending ? "descending" : "ascending") : "none",
  }, el("button", { type: "button", on: { click: () => sortBy(item) } }, item.words), item.small ? el("small", {}, item.small) : null,
  item.id === "mean" ? el("span", { class: "axis", "aria-hidden": "true" }, axis.map((end) => el("span", {}, metric().percent ? end.toFixed(1) : shown(end)))) : null));
  const first = column.id === "mean" && descending === metric().higher && !state.search;
  const grouped = first && view?.unit && found.filter((line) => line.tied).length > 1;
  const list = grouped ? gatherTied(found) : found;
  const cells = (line) => columns.slice(1).map((item) => cellOf(item, line, bests, axis, best));
  byId("board").replaceChildren(el("table", { "aria-describedby": "verdict board-words" },
    el("caption", { class: "hidden" }, `Leaderboard by ${metric().inline}`),
    el("thead", {}, el("tr", {}, el("th", { class: "place", scope: "col", "aria-label": "Place" }), head)),
    el("tbody", {}, bodyOf(list, view, columns.length + 1, cells, grouped))));
  describe(problems, list, view);
  writeAddress();
}

/** Say in words what the board shows. */
function describe(problems, list, view) {
  const criterion = DATA.criteria[state.criterion];
  const fixed = KEYS.slice(2).filter((key) => new Set(problems.map((at) => DATA.problems[at][key])).size === 1)
    .filter((key) => DATA.problems[problems[0]][key] !== DATA.usual[key])
    .map((key) => `${WORDS[key].toLowerCase()} ${shownValue(key, DATA.problems[problems[0]][key])}`);
  const counts = [...new Set(list.flatMap((line) => line.own.filter(Boolean).map((cell) => cell[2])))].sort((a, b) => a - b);
  const splits = counts.length > 1 ? `${counts[0]} to ${counts.at(-1)}` : String(counts[0] ?? 0);
  byId("verdict").textContent = view ? view.verdict : problems.length
    ? "Means and places were not computed for this choice of filters; choose fewer of them." : "";
  byId("board-naive").textContent = view ? view.naive : "";
  const note = view ? DATA.notes[view.note] : "";
  byId("board-note").textContent = view && note !== view.verdict ? note : "";
  byId("board-words").textContent = problems.length === 0 ? "No problem fits these filters."
    : `${list.length} methods. Test ${metric().inline}${metric().percent ? " in percent" : ""}${metric().higher ? "" : " (lower is better)"}, ` +
      `of the model with the ${criterion.higher ? "highest" : "lowest"} ${criterion.long || criterion.meaning} (${criterion.title}) on validation data; mean over ${splits} split${splits === "1" ? "" : "s"} ± error.` +
      (fixed.length ? ` Everywhere: ${fixed.join(", ")}.` : "");
}

function drawFilters() {
  const set = (key) => (value) => { state[key] = value; drawBoard(); };
  const number = (key) => (value) => { state[key] = +value; drawBoard(); };
  const choices = (list) => list.map((item, i) => [i, item.title]);
  const search = el("input", { type: "search", name: "search", placeholder: "all", value: state.search, on: { input: () => set("search")(search.value) } });
  const several = KEYS.filter((key) => values[key].length > 1);
  byId("filters").replaceChildren(
    labeledSelect("metric", "Metric", choices(DATA.metrics), state.metric, number("metric")),
    labeledSelect("criterion", "Model chosen by", choices(DATA.criteria), state.criterion, number("criterion")),
    ...several.map((key) => labeledSelect(key, WORDS[key],
      [["", "all"], ...values[key].map((value, i) => [i, shownValue(key, value)])], state[key], set(key))),
    el("label", {}, "Method", search));
}

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
    const host = byId(`figure-${figure.name}`);
    if (spec) draw(host, spec, figure.name);
    else { host.view?.finalize(); host.spec = null; }
    host.closest("figure").hidden = !spec;
    if (!spec) missing.push(`${figure.title} (${figure.reason.replace(/\.$/, "")})`);
  }
  byId("figure-missing").textContent = missing.length ? `Not drawn, because results are too few: ${missing.join("; ")}.` : "";
}

function drawFigureFilters() {
  const titles = Object.fromEntries(DATA.metrics.map((item) => [item.name, item.title]));
  const set = (key) => (value) => { chosen[key] = value; drawFigures(); writeAddress(); };
  byId("figure-filters").replaceChildren(
    labeledSelect("metric", "Metric", DATA.drawn.map((id) => [id, titles[id]]), chosen.metric, set("metric")),
    labeledSelect("criterion", "Model chosen by", DATA.criteria.map((item) => [item.name, item.title]), chosen.criterion, set("criterion")));
}

function prepareFigures() {
  byId("figure-filters").hidden = false;
  byId("figure-list").append(...DATA.figures.map((figure) => el("figure", { class: "card", "aria-labelledby": `title-${figure.name}` },
    el("h3", { id: `title-${figure.name}` }, figure.title), el("figcaption", {}, figure.caption),
    el("div", { class: "chart", id: `figure-${figure.name}`, role: "group", "aria-label": `${figure.title}. ${figure.caption}` }))));
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
  if (!about) return [el("p", {}, "These results have no description of this method.")];
  const other = about.calibrated_form && DATA.methods.findIndex((method) => method.algorithm === about.calibrated_form);
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
    DATA.criteria.map((item) => el("th", { scope: "col" }, `by ${item.title}`)))), el("tbody", {}, rows)));
}

/** The rows of the learning curves of a method: curves pass through what was selected. */
function curveRows(i) {
  const rows = [], points = new Map();
  const picks = DATA.picks.filter((pick) => pick[0] === i);
  const panel = (at) => `${DATA.problems[at].dataset}, ${parts(at, [...DATA.problems.keys()])}`;
  for (const [, at, split, criterion, config, step, , , values] of picks) {
    const value = scaled(values[state.metric]);
    rows.push({ panel: panel(at), split, config, step, value, criterion: DATA.criteria[criterion].title });
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
    el("td", {}, DATA.problems[at].title), el("td", {}, String(split)), el("td", {}, DATA.criteria[criterion].title), el("td", {}, value.toFixed(4)),
    el("td", {}, String(step)), el("td", {}, String(config)), el("td", {}, values[state.metric] === null ? "–" : shown(scaled(values[state.metric]))), el("td", {}, DATA.hypers[hyper] || "")));
  const names = ["Problem", "Split", "Criterion", "Its value", "Step", "Configuration", `Test ${metric().inline}`, "With"];
  return el("details", {}, el("summary", {}, `Every selected checkpoint (${rows.length})`), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Selected checkpoints" }, el("table", { class: "left" }, el("caption", { class: "hidden" }, "Selected checkpoints"),
    el("thead", {}, el("tr", {}, names.map((words) => el("th", { scope: "col" }, words)))), el("tbody", {}, rows))));
}

function openMethod(i) {
  const method = DATA.methods[i], dialog = byId("method"), about = DATA.about[method.algorithm];
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

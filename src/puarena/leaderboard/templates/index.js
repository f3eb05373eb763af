"use strict";
// Searching, filtering and sorting of the rows; everything else is in the page already.
const byId = (id) => document.getElementById(id);
const body = byId("lines").tBodies[0];
const rows = [...body.rows];
const state = new URLSearchParams(location.hash.slice(1));

function show(changed) {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const board = byId("board-choice").value, badge = byId("badge-choice").value;
  let count = 0, elsewhere = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const found = words.every((word) => text.includes(word))
      && (!badge || row.dataset.badges.split(",").includes(badge));
    const fits = found && (!board || row.dataset.board === board);
    elsewhere += found && !fits;
    row.hidden = !fits;
    count += fits;
  }
  byId("lines").classList.toggle("one-board", Boolean(board));
  const others = words.length || badge ? `; ${elsewhere} more on other boards` : "";
  byId("count").textContent = `${count} of ${rows.length} rows${board ? others : ""}`;
  const parts = new URLSearchParams();
  for (const [name, value] of [["q", byId("search").value], ["board", board], ["badge", badge]]) parts.set(name, value);
  if (changed) history.replaceState(null, "", `#${parts}`);
}

function sort(head) {
  const at = head.cellIndex, numbers = head.dataset.kind === "number";
  const now = head.getAttribute("aria-sort");
  const descending = now === "none" || !now ? head.dataset.first === "down" : now === "ascending";
  for (const other of head.parentNode.cells) if (other.dataset.kind) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const key = (row) => row.cells[at].dataset.value ?? row.cells[at].textContent.trim();
  const value = (row) => (numbers ? (key(row) === "" ? null : Number(key(row))) : key(row).toLowerCase());
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // rows without a number are last
    const order = numbers ? x - y : x.localeCompare(y);
    return descending ? -order : order;
  };
  body.append(...[...rows].sort(compare));
}

for (const head of byId("lines").tHead.rows[0].cells) {
  head.querySelector("button")?.addEventListener("click", () => sort(head));
}
// The first board, until a reader asks for another one or for all.
if (!["q", "board", "badge"].some((name) => state.has(name))) byId("board-choice").selectedIndex = 1;
for (const [id, name] of [["search", "q"], ["board-choice", "board"], ["badge-choice", "badge"]]) {
  if (state.get(name) !== null) byId(id).value = state.get(name);
  byId(id).addEventListener("input", () => show(true));
}
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("controls").hidden = false;
show(false);

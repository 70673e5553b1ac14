// The list of predictions: filters, search, order, and which one is chosen.

import { byId, choice, el, fill } from "./dom.js";
import { count, share, short } from "./words.js";

const SHOWN = 200;

export function mountQueries(run, state) {
  const list = byId("queries");
  let most = SHOWN;
  let chosen = [];

  filters(run, state);
  list.addEventListener("keydown", (event) => moveFocus(event, list));

  function draw() {
    chosen = filtered(run, state.now);
    const wrong = chosen.filter((row) => run.queries[row].right === false).length;
    const judged = chosen.some((row) => run.queries[row].right !== null);
    byId("list-count").textContent =
      `${count(chosen.length)} of ${count(run.queries.length)}` + (judged ? `, ${count(wrong)} predicted wrong` : "") +
      (chosen.some((row) => run.queries[row].confidence !== null) ? "; the share is how sure the model was" : "");
    fill(
      list,
      chosen.slice(0, most).map((row) => queryItem(run, state, row)),
      chosen.length > most &&
        el("li", {}, el("button", { type: "button", class: "more", text: "Show more", on: { click: () => ((most += SHOWN), draw()) } })),
      !chosen.length && el("li", { class: "quiet", text: "No prediction fits these filters." }),
    );
  }

  state.listen((now, changed) => {
    if (changed.has("all")) filters(run, state);
    const slices = byId("filters").querySelector('select[aria-label="Slice"]'); // also chosen in the table of slices
    if (slices) slices.value = now.slice;
    if (["slice", "label", "right", "find", "sort"].some((name) => changed.has(name))) draw();
    if (changed.has("query")) {
      for (const button of list.querySelectorAll("button[aria-current]")) button.removeAttribute("aria-current");
      const current = list.querySelector(`button[data-row="${now.query}"]`);
      current?.setAttribute("aria-current", "true");
      if (current) scrollWithin(list, current);
    }
  });
  draw();
  const current = list.querySelector("[aria-current]");
  if (current) scrollWithin(list, current);
}

export function filtered(run, now) {
  const find = now.find.trim().toLowerCase();
  const rows = [];
  run.queries.forEach((query, row) => {
    if (now.slice && run.head.slices[query.slice].name !== now.slice) return;
    if (now.label && query.label !== now.label) return;
    if (now.right && String(query.right) !== now.right) return;
    if (find && !`${query.text} ${query.text_pair || ""}`.toLowerCase().includes(find)) return;
    rows.push(row);
  });
  const by = ORDERS[now.sort];
  if (by) rows.sort((one, other) => by(run, one) - by(run, other) || one - other);
  return rows;
}

const ORDERS = {
  sure: (run, row) => -(run.queries[row].confidence ?? 0),
  unsure: (run, row) => run.queries[row].confidence ?? 1,
  harmed: (run, row) => -strongest(run, row, 1),
  helped: (run, row) => -strongest(run, row, -1),
};

function strongest(run, row, sign) {
  for (const edge of run.edgesOf(row)) if (Math.sign(run.edge_value[edge]) === sign) return Math.abs(run.edge_value[edge]);
  return 0;
}

function filters(run, state) {
  const set = (name) => (value) => state.set({ [name]: value });
  const labels = [...new Set(run.queries.map((query) => query.label).filter((label) => label !== null))].sort();
  const search = el("input", {
    type: "search",
    value: state.now.find,
    placeholder: "Search the texts",
    "aria-label": "Search the texts of predictions",
    on: { input: (event) => state.set({ find: event.target.value }) },
  });
  const judged = run.queries.some((query) => query.right !== null);
  fill(
    byId("filters"),
    search,
    run.head.slices.length > 1 &&
      choice("Slice", [["", "all"], ...run.head.slices.map((each) => [each.name, each.name])], state.now.slice, set("slice")),
    labels.length > 1 && choice("Label", [["", "all"], ...labels.map((each) => [each, each])], state.now.label, set("label")),
    judged && choice("Predicted", [["", "right or wrong"], ["false", "wrong"], ["true", "right"]], state.now.right, set("right")),
    choice(
      "Order",
      [["order", "as in the file"], ["sure", "surest first"], ["unsure", "least sure first"], ["harmed", "most harmed first"], ["helped", "most helped first"]],
      state.now.sort,
      set("sort"),
    ),
  );
}

export function queryItem(run, state, row) {
  const query = run.queries[row];
  const button = el(
    "button",
    {
      type: "button",
      class: "query",
      "data-row": row,
      "aria-current": state.now.query === row ? "true" : null,
      on: { click: () => state.set({ query: row, train: null, lasso: null }) },
    },
    el("span", { class: "query-text", text: short(query.text, 110) }),
    query.text_pair && el("span", { class: "query-text pair", text: short(query.text_pair, 90) }),
    el("span", { class: "query-line" }, verdict(query), confidence(query)),
  );
  return el("li", {}, button);
}

export function verdict(query) {
  const said = query.predicted ?? "no prediction";
  if (query.right === null) return el("span", { class: "verdict", text: said });
  return query.right
    ? el("span", { class: "verdict right" }, el("span", { "aria-hidden": "true", text: "✓ " }), said, el("span", { class: "visually-hidden", text: ", right" }))
    : el("span", { class: "verdict wrong" }, el("span", { "aria-hidden": "true", text: "✕ " }), `${said}, not ${query.label}`);
}

function confidence(query) {
  return query.confidence === null ? null : el("span", { class: "quiet", text: share(query.confidence) });
}

// Brings an item into view by scrolling its list alone, and not the page.
function scrollWithin(list, item) {
  const [box, inner] = [list.getBoundingClientRect(), item.getBoundingClientRect()];
  if (inner.top < box.top) list.scrollTop -= box.top - inner.top;
  else if (inner.bottom > box.bottom) list.scrollTop += inner.bottom - box.bottom;
}

function moveFocus(event, list) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const buttons = [...list.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

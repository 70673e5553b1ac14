// Slices: how strongly each is helped and harmed, and which of them training examples move alike.

import { el } from "./dom.js";
import { count, number, share } from "./words.js";

export function slicesPanel(run, state) {
  const found = run.head.comparison;
  const table = el(
    "table",
    {},
    el("caption", { text: `Edges here are ${found.choice}. The mean is that of |influence|: how strong such an edge is on average.` }),
    el("thead", {}, el("tr", {}, ["slice", "predicted right", "helpful edges", "mean", "harmful edges", "mean"].map((words) => el("th", { scope: "col", text: words })))),
    el("tbody", {}, found.slices.map((slice) => row(run, state, slice))),
  );
  return el(
    "section",
    { class: "panel", "aria-labelledby": "slices-title" },
    el("h2", { id: "slices-title", text: "Slices" }),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of slices" }, table),
    found.slices.length > 1 && heatMap(found),
  );
}

function row(run, state, slice) {
  const mine = run.queries.filter((query) => run.head.slices[query.slice].name === slice.name && query.right !== null);
  const right = mine.filter((query) => query.right).length;
  const mean = (kind) => (kind.mean === null ? "–" : number(kind.mean));
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("button", { type: "button", class: "link", text: slice.name, title: "List the predictions of this slice alone", on: { click: () => state.set({ slice: state.now.slice === slice.name ? "" : slice.name }) } })),
    el("td", { text: mine.length ? `${share(right / mine.length)} of ${count(mine.length)}` : `– of ${count(slice.queries)}` }),
    el("td", { class: "helpful", text: count(slice.helpful.edges) }),
    el("td", { text: mean(slice.helpful) }),
    el("td", { class: "harmful", text: count(slice.harmful.edges) }),
    el("td", { text: mean(slice.harmful) }),
  );
}

function correlation(value) {
  const words = Math.abs(value).toFixed(2);
  return value < 0 && Number(words) ? `−${words}` : words;
}

function heatMap(found) {
  const names = found.slices.map((slice) => slice.name);
  const of = new Map(found.pairs.map((pair) => [JSON.stringify([pair.first, pair.second]), pair]));
  const pair = (one, other) => of.get(JSON.stringify([one, other])) ?? of.get(JSON.stringify([other, one]));
  const cell = (one, other) => {
    const it = pair(one, other);
    const known = it.correlation !== null;
    const cell = el("td", { class: "heat", title: known ? `${count(it.points)} training examples touch both` : it.reason, text: known ? correlation(it.correlation) : "–" });
    if (known) {
      // towards blue where alike, towards orange where not; the number is there for those who see neither
      const colour = it.correlation < 0 ? "--harmful" : "--helpful";
      cell.style.background = `color-mix(in srgb, var(${colour}) ${Math.round(45 * Math.abs(it.correlation))}%, var(--panel))`;
    }
    return cell;
  };
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "Correlations of slices" },
    el("h3", { text: "Which slices are moved alike" }),
    el("p", { class: "quiet small", text: "The correlation of mean influence over the training examples that touch both slices: 1 is alike, −1 is opposite, 0 is independent." }),
    el(
      "table",
      { class: "heat-map" },
      el("thead", {}, el("tr", {}, el("td"), names.map((name) => el("th", { scope: "col", text: name })))),
      el("tbody", {}, names.map((one) => el("tr", {}, el("th", { scope: "row", text: one }), names.map((other) => cell(one, other))))),
    ),
  );
}

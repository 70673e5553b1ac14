// What stands around the graph: the slider, the choices, the buttons, the legend, and the words under the pointer.

import { byId, choice, el, fill } from "./dom.js";
import { ringChoices } from "./geometry.js";
import { count, plural, short } from "./words.js";

export function mountControls(graph) {
  const { run, state } = graph;
  graph.slider = el("input", {
    type: "range",
    min: 0,
    max: 1000,
    "aria-label": "Edges shown",
    on: { input: (event) => state.set({ shown: fromSlider(Number(event.target.value), run.edges) }) },
  });
  graph.sliderWords = el("output", { class: "quiet" });
  const rings = ringChoices(run);
  const kinds = [["both", "both kinds"], ["helpful", "helpful"], ["harmful", "harmful"]];
  fill(
    byId("graph-tools"),
    el("label", { class: "field wide" }, el("span", { text: "Edges" }), graph.slider, graph.sliderWords),
    choice("Show", kinds, state.now.kind, (kind) => state.set({ kind })),
    rings.length > 1 && choice("Inside", rings, state.now.rings, (value) => state.set({ rings: value })),
  );
  mountButtons(graph);
  showSlider(graph);
}

function mountButtons(graph) {
  const button = (words, label, act) => el("button", { type: "button", text: words, "aria-label": label, title: label, on: { click: act } });
  graph.lassoButton = el("button", {
    type: "button",
    text: "Lasso",
    "aria-pressed": "false",
    title: "Draw around training examples to list them (or hold Shift and drag)",
    on: { click: () => graph.setLasso(graph.lassoButton.getAttribute("aria-pressed") === "false") },
  });
  fill(
    byId("graph-buttons"),
    button("+", "Zoom in", () => graph.zoomBy(1.5)),
    button("−", "Zoom out", () => graph.zoomBy(1 / 1.5)),
    button("All", "All of the graph", () => graph.state.set({ view: { x: 0, y: 0, zoom: 1 } })),
    graph.lassoButton,
  );
}

export function showSlider(graph) {
  const { run, shown } = graph;
  graph.slider.value = toSlider(shown, run.edges);
  graph.slider.setAttribute("aria-valuetext", `${count(shown)} of ${count(run.edges)} edges`);
  graph.sliderWords.textContent = `${count(shown)} strongest of ${count(run.edges)}`;
}

export function showLegend(graph) {
  const mark = (kind, words) => el("span", { class: "key" }, el("i", { class: kind, "aria-hidden": "true" }), words);
  const judged = graph.run.queries.some((query) => query.right !== null);
  fill(
    byId("legend"),
    mark("line helpful", "helpful: towards the label"),
    mark("line harmful", "harmful: away from it"),
    mark("point train", "training example"),
    judged ? [mark("point right", "predicted right"), mark("point wrong", "wrong")] : mark("point right", "prediction"),
    graph.where.rings.map((ring, at) => mark(`point category-${(at % 6) + 1}`, `ring ${at + 1}: ${ring.name}`)),
  );
}

export function queryTip(run, row) {
  const query = run.queries[row];
  const said = query.right === false ? `predicted ${query.predicted}, not ${query.label}` : `predicted ${query.predicted}`;
  return [el("b", { text: short(query.text, 90) }), query.text_pair && el("span", { text: short(query.text_pair, 80) }), el("small", { text: said })];
}

export function trainTip(run, node) {
  const words = run.text(node) || `Training example ${run.train_id[node]}`;
  const pair = run.pair(node);
  const touches = `training example, ${run.label(node) ?? "no label"}; touches ${plural(run.touched(node), "prediction")}`;
  return [el("b", { text: short(words, 90) }), pair && el("span", { text: short(pair, 80) }), el("small", { text: touches })];
}

// The slider goes by powers: a step at its left is a few edges, one at its right thousands.
function toSlider(value, most) {
  return most < 2 ? 1000 : Math.round((1000 * Math.log(Math.max(1, value))) / Math.log(most));
}

function fromSlider(value, most) {
  return most < 2 ? most : Math.min(most, Math.round(Math.exp((value / 1000) * Math.log(most))));
}

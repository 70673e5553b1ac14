// The chosen prediction with its training examples; or a training example with everything it influences; or a lasso.

import { bar, longestBar, markChoice, marked, meanings, sureness, tag, textOf, trainCard } from "./cards.js";
import { byId, el, fill } from "./dom.js";
import { lassoed, places } from "./geometry.js";
import { usualEdges } from "./graph.js";
import { queryItem, verdict } from "./queries.js";
import { contentWords, count, number, plural, share } from "./words.js";

const FIRST = 10;
const START = 4;
const NARROW = 900;

export function mountDetail(run, state) {
  const body = byId("detail-body");
  let most = FIRST;

  function draw() {
    const now = state.now;
    const more = () => ((most += 20), draw());
    if (now.train !== null) fill(body, trainView(run, state, now.train, most, more));
    else if (now.lasso) fill(body, lassoView(run, state, most, more));
    else if (now.query !== null) fill(body, queryView(run, state, now.query, most, more));
    else fill(body, nothing(run, state));
  }

  state.listen((now, changed) => {
    const moved = ["query", "train", "lasso"].some((name) => changed.has(name));
    if (moved) most = FIRST;
    if (moved || changed.has("marks") || (now.lasso && changed.has("shown"))) keepFocus(body, draw);
    if (moved && innerWidth < NARROW && (now.query !== null || now.train !== null)) {
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      byId("detail").scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
    }
  });
  draw();
}

// Draws anew without taking the focus from somebody who works with the keyboard.
function keepFocus(body, draw) {
  const active = document.activeElement;
  const label = body.contains(active) ? active.getAttribute("aria-label") : null;
  draw();
  if (label) [...body.querySelectorAll("[aria-label]")].find((each) => each.getAttribute("aria-label") === label)?.focus();
}

function nothing(run, state) {
  const rows = [...run.queries.keys()];
  const wrong = rows.filter((row) => run.queries[row].right === false);
  const sure = (row) => run.queries[row].confidence ?? 0;
  const first = (wrong.length ? wrong : rows).sort((one, other) => sure(other) - sure(one)).slice(0, START);
  return [
    el("h2", { id: "detail-title", text: "Where to begin" }),
    el("p", { class: "quiet", text: "Choose a prediction, here, in the list or on the ring of the graph: you will see which training examples pushed the model towards its label, and which away from it." }),
    el("h3", { class: "apart", text: wrong.length ? "The mistakes it was surest of" : "The predictions it was surest of" }),
    el("ol", { class: "start" }, first.map((row) => queryItem(run, state, row))),
    el("h3", { text: "The training examples that pulled hardest" }),
    el("ol", { class: "start" }, strongestNodes(run).map((node) => startItem(run, state, node))),
  ];
}

function strongestNodes(run) {
  const found = new Set();
  for (let edge = 0; edge < run.edges && found.size < START; edge += 1) found.add(run.edge_train[edge]);
  return [...found];
}

function startItem(run, state, node) {
  const words = `${run.label(node) ?? "no label"}; among the strongest for ${plural(run.touched(node), "prediction")}`;
  return el(
    "li",
    {},
    el(
      "button",
      { type: "button", class: "query", on: { click: () => state.set({ train: node }) } },
      textOf(run, node, new Set(), "span"),
      el("span", { class: "query-line quiet", text: words }),
    ),
  );
}

function explained(query) {
  return query.explains_label
    ? `Helpful examples lowered the ${query.measure} of the label ${query.target}; harmful ones raised it.`
    : `There is no label: what is explained is the model's own answer, ${query.target}.`;
}

function queryView(run, state, row, most, more) {
  const query = run.queries[row];
  const { helpful, harmful } = run.split(row);
  const words = contentWords(query.text, query.text_pair);
  const details = new Map(query.details.map((each) => [each.train, each]));
  const longest = longestBar([...run.edgesOf(row)].map((edge) => [run.edge_value[edge], details.get(run.edge_train[edge])?.error]));
  const column = (kind, list, title) =>
    el(
      "section",
      { class: `column ${kind}`, "aria-label": title },
      el("h3", {}, el("span", { class: kind, text: title })),
      el(
        "ol",
        { class: "cards" },
        list.slice(0, most).map((edge) => {
          const node = run.edge_train[edge];
          return trainCard(run, state, { node, value: run.edge_value[edge], longest, shared: words, detail: details.get(node) });
        }),
        !list.length && el("li", { class: "quiet", text: "None." }),
      ),
    );
  const left = Math.max(helpful.length, harmful.length) > most;
  const columns = [column("helpful", helpful, "Helpful"), column("harmful", harmful, "Harmful")];
  return [
    el("h2", { id: "detail-title", text: "The chosen prediction" }),
    el(
      "div",
      { class: "chosen" },
      el("p", { class: "text", text: query.text }),
      query.text_pair && el("p", { class: "text pair", text: query.text_pair }),
      el("p", { class: "tags" }, verdict(query), query.confidence !== null && tag(`${share(query.confidence)} sure`), tag(run.head.slices[query.slice].name)),
    ),
    el("p", { class: "quiet small", text: `${explained(query)} Words shared with it are marked. ${sureness(query.details.map((each) => each.error), query.residual)}` }),
    meanings("Influence", "Standard error", "Change without it", "Touches", "Own loss", "Sure"),
    el("div", { class: "sides" }, query.right === false ? columns.reverse() : columns),
    left && el("button", { type: "button", class: "more", text: "Show 20 more of each", on: { click: more } }),
  ];
}

function trainView(run, state, node, most, more) {
  const edges = [...run.edgesOfTrain(node)];
  const errorOf = (edge) => run.queries[run.edge_query[edge]].details.find((each) => each.train === node)?.error;
  const longest = longestBar(edges.map((edge) => [run.edge_value[edge], errorOf(edge)]));
  const own = contentWords(run.text(node), run.pair(node));
  const helped = edges.filter((edge) => run.edge_value[edge] < 0).length;
  const back = state.now.query !== null || state.now.lasso;
  return [
    el("h2", { id: "detail-title", text: "A training example, and everything it influences" }),
    el("p", {}, el("button", { type: "button", text: back ? "Back" : "Close", on: { click: () => state.set({ train: null }) } })),
    el(
      "div",
      { class: "chosen" },
      textOf(run, node, new Set()),
      el("p", { class: "tags" }, tag(run.label(node)), tag(run.slice(node)), tag(`line ${count(run.train_line[node])}`)),
      markChoice(run, state, node),
    ),
    el("p", { class: "quiet small", text: `It is among the strongest for ${plural(edges.length, "prediction")}: helpful for ${count(helped)}, harmful for ${count(edges.length - helped)}.` }),
    meanings("Influence", "Standard error", "Touches"),
    el(
      "ol",
      { class: "cards" },
      edges.slice(0, 2 * most).map((edge) => {
        const row = run.edge_query[edge];
        const query = run.queries[row];
        return el(
          "li",
          { class: "card" },
          bar(run.edge_value[edge], longest, errorOf(edge)),
          el(
            "button",
            { type: "button", class: "card-text", on: { click: () => state.set({ query: row, train: null, lasso: null }) } },
            el("span", { class: "text" }, marked(query.text, own)),
            query.text_pair && el("span", { class: "text pair" }, marked(query.text_pair, own)),
          ),
          el("p", { class: "tags" }, verdict(query), tag(run.head.slices[query.slice].name)),
        );
      }),
    ),
    edges.length > 2 * most && el("button", { type: "button", class: "more", text: "Show more", on: { click: more } }),
  ];
}

function lassoView(run, state, most, more) {
  const { x, y } = places(run, state.now.rings);
  const shown = state.now.shown ?? usualEdges(run);
  const strength = (node) => run.edgesOfTrain(node).reduce((sum, edge) => sum + (edge < shown ? Math.abs(run.edge_value[edge]) : 0), 0);
  const all = lassoed(state.now.lasso, x, y, (node) => run.touched(node) > 0 && run.edgesOfTrain(node)[0] < shown);
  const found = all.map((node) => [node, strength(node)]).sort((one, other) => other[1] - one[1]);
  return [
    el("h2", { id: "detail-title", text: `${plural(found.length, "training example")} in the lasso` }),
    el("p", {}, el("button", { type: "button", text: "Clear the lasso", on: { click: () => state.set({ lasso: null }) } })),
    el("p", { class: "quiet small", text: "Those with an edge that is shown, the strongest first: the number is the sum of |influence| over these edges." }),
    el(
      "ol",
      { class: "cards" },
      found.slice(0, 2 * most).map(([node, sum]) =>
        el(
          "li",
          { class: "card" },
          el("p", { class: "tags" }, el("b", { text: number(sum) }), tag(run.label(node)), tag(run.slice(node))),
          el("button", { type: "button", class: "card-text", on: { click: () => state.set({ train: node }) } }, textOf(run, node, new Set(), "span")),
          markChoice(run, state, node),
        ),
      ),
    ),
    found.length > 2 * most && el("button", { type: "button", class: "more", text: "Show more", on: { click: more } }),
  ];
}

// A training example as a card: its text with shared words marked, its label, a bar for its score, and your mark.

import { el } from "./dom.js";
import { markShared, number, plural, signed } from "./words.js";

export function marked(text, shared) {
  return markShared(text, shared).map(([piece, isShared]) => (isShared ? el("mark", { text: piece }) : piece));
}

export function tag(words, kind = "") {
  return words === null || words === undefined ? null : el("span", { class: `tag ${kind}`, text: words });
}

// The bar of a score: as long as its share of the strongest one, in the colour of its kind.
export function bar(value, strongest, error = null) {
  const kind = value < 0 ? "helpful" : "harmful";
  const inner = el("i", { class: kind });
  inner.style.width = `${Math.max(1, (100 * Math.abs(value)) / (strongest || 1))}%`;
  const words = number(Math.abs(value)) + (error === null ? "" : ` ± ${number(error, 2)}`);
  return el(
    "div",
    { class: "score" },
    el("span", { class: "bar", "aria-hidden": "true" }, inner),
    el("b", { class: kind, text: words }),
    el("span", { class: "visually-hidden", text: kind }),
  );
}

// A select with your verdict on a training example.
export function markChoice(run, state, node) {
  const select = el("select", {
    class: "mark-choice",
    "aria-label": `Mark of training example ${run.train_id[node]}`,
    on: { change: (event) => state.mark(node, event.target.value) },
  });
  const options = [["", "No mark"], ["keep", "Keep"], ["remove", "Remove"]];
  for (const name of run.head.classes) if (name !== run.label(node)) options.push([`label:${name}`, `Relabel: ${name}`]);
  for (const [value, words] of options) select.append(el("option", { value, text: words }));
  select.value = state.now.marks.get(node) ?? "";
  return select;
}

export function textOf(run, node, shared, tagName = "p") {
  if (run.head.redacted) return el(tagName, { class: "text quiet", text: `Training example ${run.train_id[node]}, its text left out` });
  const pair = run.pair(node);
  return [
    el(tagName, { class: "text" }, marked(run.text(node), shared)),
    pair && el(tagName, { class: "text pair" }, marked(pair, shared)),
  ];
}

export function trainCard(run, state, { node, value, strongest, shared, detail }) {
  const without = -value / run.head.train_examples;
  const others = run.touched(node) - 1;
  return el(
    "li",
    { class: "card", "data-node": node },
    bar(value, strongest, detail?.error ?? null),
    el(
      "button",
      { type: "button", class: "card-text", title: "Everything that this training example influences", on: { click: () => state.set({ train: node }) } },
      textOf(run, node, shared, "span"),
    ),
    el("p", { class: "tags" }, tag(run.label(node)), state.now.marks.has(node) && tag(markWords(state.now.marks.get(node)), "marked")),
    el(
      "p",
      { class: "quiet small" },
      `Change without it ${signed(without)}. `,
      others > 0 ? `Touches ${plural(others, "other prediction")}. ` : "Touches no other prediction. ",
      typeof detail?.own_loss === "number" ? `Own loss ${number(detail.own_loss, 2)}.` : "",
    ),
    markChoice(run, state, node),
  );
}

export function markWords(verdict) {
  if (verdict.startsWith("label:")) return `relabel: ${verdict.slice(6)}`;
  return verdict;
}

// A training example as a card: its text with shared words marked, its label, a bar for its score, and your mark.

import { el } from "./dom.js";
import { GLOSSARY, markShared, number, plural, signed } from "./words.js";

export function marked(text, shared) {
  return markShared(text, shared).map(([piece, isShared]) => (isShared ? el("mark", { text: piece }) : piece));
}

export function tag(words, kind = "") {
  return words === null || words === undefined ? null : el("span", { class: `tag ${kind}`, text: words });
}

// The bar of a score: as long as its share of the longest one, in the colour of its kind; where its standard error is
// known, with a whisker as far as one error either way.
export function bar(value, longest, error = null) {
  const kind = value < 0 ? "helpful" : "harmful";
  const size = Math.abs(value);
  const known = typeof error === "number";
  const place = (at) => Math.min(100, Math.max(0, (100 * at) / (longest || 1)));
  const inner = el("i", { class: kind });
  inner.style.width = `${Math.max(1, place(size))}%`;
  const whisker = known && el("i", { class: error > size ? "whisker beyond" : "whisker" });
  if (whisker) {
    whisker.style.left = `${place(size - error)}%`;
    whisker.style.width = `${place(size + error) - place(size - error)}%`;
  }
  const doubtful = known && error > size ? ", more than the score itself" : "";
  return el(
    "div",
    { class: "score", title: known ? "The whisker is one standard error of the score either way" : null },
    el("span", { class: "bar", "aria-hidden": "true" }, inner, whisker),
    el("b", { class: kind, "aria-hidden": "true", text: number(size) + (known ? ` ± ${number(error, 2)}` : "") }),
    el("span", { class: "visually-hidden", text: `${kind}, ${number(size)}${known ? `, with a standard error of ${number(error, 2)}${doubtful}` : ""}` }),
  );
}

// How long the longest of some bars is, with its whisker.
export function longestBar(scores) {
  return scores.reduce((most, [value, error]) => Math.max(most, Math.abs(value) + (error ?? 0)), 0);
}

// How sure the scores of a prediction are, in words: by their standard errors, or else by the residual of the solve.
export function sureness(errors, residual) {
  if (errors.some((error) => typeof error === "number")) {
    return "Whiskers reach one standard error of the score either way, from the spread of the solver's random repeats; the strongest examples alone have one.";
  }
  const none = "These scores have no standard error, as nothing was drawn at random and repeated";
  return typeof residual === "number"
    ? `${none}; the solve for this prediction has a residual of ${number(residual, 2)}, the relative error that is left over.`
    : `${none}, and no residual was recorded.`;
}

// What the numbers of a view mean, a sentence each; stays open once it was opened.
let meaningsOpen = false;

export function meanings(...names) {
  const known = new Map(GLOSSARY);
  const box = el(
    "details",
    { class: "meanings", open: meaningsOpen, on: { toggle: () => (meaningsOpen = box.open) } },
    el("summary", { text: "What the numbers mean" }),
    el("dl", {}, names.map((name) => [el("dt", { text: name }), el("dd", { text: known.get(name) })])),
  );
  return box;
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

export function trainCard(run, state, { node, value, longest, shared, detail }) {
  const without = -value / run.head.train_examples;
  const others = run.touched(node) - 1;
  return el(
    "li",
    { class: "card", "data-node": node },
    bar(value, longest, detail?.error),
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

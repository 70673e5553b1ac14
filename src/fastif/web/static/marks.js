// Your marks: a list of them, files to download, and the commands that apply them and train again.

import { markChoice, markWords, textOf } from "./cards.js";
import { el, fill, say } from "./dom.js";
import { number, plural, share } from "./words.js";

const SHOWN = 100;

export function marksPanel(run, state) {
  const body = el("div", {});
  const draw = () => fill(body, state.now.marks.size ? marksView(run, state) : empty());
  state.listen((now, changed) => changed.has("marks") && draw());
  draw();
  return el("section", { class: "panel", "aria-labelledby": "marks-title" }, el("h2", { id: "marks-title", text: "Your marks" }), body);
}

function empty() {
  return el("p", { class: "quiet", text: "None yet. Every training example has a choice: keep it, remove it, or give it another label. Marks are part of the address of this page." });
}

function markRows(run, marks) {
  return [...marks].map(([node, verdict]) => ({
    index: run.train_id[node],
    line: run.train_line[node],
    action: verdict.startsWith("label:") ? "relabel" : verdict,
    label: run.label(node),
    new_label: verdict.startsWith("label:") ? verdict.slice(6) : null,
    text: run.head.redacted ? null : run.text(node),
  }));
}

function marksView(run, state) {
  const rows = () => markRows(run, state.now.marks);
  const { apply, train, python, hint } = run.head.again;
  const nodes = [...state.now.marks.keys()];
  return [
    el("p", { text: `${plural(nodes.length, "training example")} marked.` }),
    el("ul", { class: "rows" }, nodes.slice(0, SHOWN).map((node) => el("li", {}, el("div", {}, textOf(run, node, new Set())), el("span", { class: "tag marked", text: markWords(state.now.marks.get(node)) }), markChoice(run, state, node)))),
    nodes.length > SHOWN && el("p", { class: "quiet", text: `${plural(nodes.length - SHOWN, "more mark")}, all of them in the files.` }),
    el(
      "p",
      { class: "buttons" },
      el("button", { type: "button", text: "Download jsonl", on: { click: () => download("marks.jsonl", asLines(rows())) } }),
      el("button", { type: "button", text: "Download csv", on: { click: () => download("marks.csv", asTable(rows())) } }),
      run.served && el("button", { type: "button", text: "Download parquet", on: { click: () => downloadParquet(run, state) } }),
    ),
    !run.served && el("p", { class: "quiet small", text: "No parquet here: a file has no program behind it that could write it. The page of fastif serve has; fastif apply reads all three." }),
    toCopy("The commands", `These write the training data with the marks applied, and train on it${hint}:`, `${apply}\n${train}`),
    toCopy("The Python", "The same in Python:", python),
  ];
}

function toCopy(name, words, code) {
  return [
    el("p", { class: "to-copy" }, el("span", { class: "quiet small", text: words }), el("button", { type: "button", text: "Copy", "aria-label": `Copy: ${name}`, on: { click: () => copy(code) } })),
    el("pre", { tabindex: "0", "aria-label": name, role: "region" }, el("code", { text: code })),
  ];
}

export function auditPanel(run, state) {
  const body = el("ol", { class: "rows" });
  const draw = () => fill(body, run.head.suspects.slice(0, SHOWN).map((each) => suspect(run, state, each)));
  state.listen((now, changed) => changed.has("marks") && draw());
  draw();
  return el(
    "section",
    { class: "panel", "aria-labelledby": "audit-title" },
    el("h2", { id: "audit-title", text: "Suspected labels" }),
    el("p", { class: "quiet small", text: "What would the model say of each example had it not been trained on it? Where it would call the label wrong, look. The share is how sure it would be; the loss if left out, how badly it would fit the label. A suspect may be a wrong label, an outlier or a rare case. Accept gives it the label that the model would give, Reject keeps the one it has." }),
    body,
  );
}

function suspect(run, state, each) {
  const now = state.now.marks.get(each.train);
  const button = (words, verdict) =>
    el("button", { type: "button", text: words, "aria-pressed": String(now === verdict), "aria-label": `${words}: training example ${run.train_id[each.train]}`, on: { click: () => state.mark(each.train, now === verdict ? "" : verdict) } });
  const others = run.head.classes.filter((name) => name !== run.label(each.train) && name !== each.suggested);
  const sure = each.probability === null ? "" : ` (${share(each.probability)})`;
  return el(
    "li",
    {},
    el("div", {}, textOf(run, each.train, new Set()), el("p", { class: "quiet small", text: `Label ${run.label(each.train) ?? "unknown"}; the model would say ${each.suggested ?? "nothing"}${sure}.` + (each.loss_without === null ? "" : ` Loss if left out ${number(each.loss_without, 2)}.`) })),
    el(
      "span",
      { class: "buttons" },
      each.suggested !== null && each.suggested !== run.label(each.train) && run.head.classes.includes(each.suggested) && button("Accept", `label:${each.suggested}`),
      button("Reject", "keep"),
      button("Remove", "remove"),
      others.length > 0 && markChoice(run, state, each.train), // relabel: another class than the model would give
    ),
  );
}

function asLines(rows) {
  return rows.map((row) => JSON.stringify(row)).join("\n") + "\n";
}

// A cell that begins like a formula gets a mark before it, as a spreadsheet would run it.
// As web/rows.py reads it: no cell is one that a spreadsheet would run as a formula.
function asTable(rows) {
  const cell = (value) => {
    let text = value === null || value === undefined ? "" : String(value);
    if (typeof value === "string" && /^'*[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const names = Object.keys(rows[0]);
  return [names.join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n") + "\n";
}

async function downloadParquet(run, state) {
  const marks = [...state.now.marks].map(([node, verdict]) => ({ index: run.train_id[node], verdict }));
  const answer = await fetch("marks.parquet", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ marks }) }).catch(() => null);
  if (answer?.ok) download("marks.parquet", await answer.arrayBuffer());
  else {
    const why = answer?.status === 413 ? "these are too many marks for one request; take jsonl" : (await answer?.json().catch(() => ({})))?.detail;
    say(`No parquet was written: ${typeof why === "string" ? why : "the server did not answer"}`, true);
  }
}

function download(name, content) {
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
  say(`${name} is downloaded`, true);
}

async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
    say("Copied", true);
  } catch {
    say("The browser does not allow copying here; the words are below the button", true);
  }
}

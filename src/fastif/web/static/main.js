// The page: reads the run, and gives it to the views. Knows which views there are, and nothing of what they draw.

import { mountDetail } from "./detail.js";
import { byId, el, fill } from "./dom.js";
import { Graph } from "./graph.js";
import { mountLive } from "./live.js";
import { auditPanel, marksPanel } from "./marks.js";
import { loadPayload } from "./payload.js";
import { mountQueries } from "./queries.js";
import { slicesPanel } from "./slices.js";
import { State } from "./state.js";
import { mountStory } from "./story.js";
import { GLOSSARY, count, plural } from "./words.js";

function lead(run) {
  const wrong = run.queries.filter((query) => query.right === false).length;
  const model = run.head.run.model ? `Model ${run.head.run.model}: ` : "";
  return `${model}${plural(run.queries.length, "prediction")}${wrong ? `, ${count(wrong)} of them wrong` : ""}, and which of ${plural(run.head.train_examples, "training example")} made it so.`;
}

function facts(run) {
  const line = ["Method", "Damping", "Residual", "Candidates", "Estimated recall", "Parameters", "Training data"];
  const known = new Map(run.head.facts.map((fact) => [fact.name, fact]));
  fill(byId("facts-line"), line.map((name) => el("span", { class: "fact" }, el("span", { text: `${name} ` }), el("b", { text: known.get(name)?.brief ?? "not recorded" }))));
  fill(byId("facts-list"), run.head.facts.map((fact) => el("div", {}, el("dt", { text: fact.name }), el("dd", {}, el("b", { text: fact.value }), el("span", { class: "quiet", text: fact.meaning })))));
}

function glossary() {
  const dialog = byId("glossary");
  fill(
    dialog,
    el("h2", { id: "glossary-title", text: "Glossary" }),
    el("dl", {}, GLOSSARY.map(([name, meaning]) => [el("dt", { text: name }), el("dd", { text: meaning })])),
    el("button", { type: "button", text: "Close", on: { click: () => dialog.close() } }),
  );
  byId("glossary-open").addEventListener("click", () => dialog.showModal());
}

async function start() {
  glossary();
  const run = await loadPayload();
  document.title = `${run.head.run.name} - fastif explorer`;
  byId("lead").textContent = lead(run);
  facts(run);
  const state = new State(run);
  mountStory(run, state); // before the graph, which takes the height that is left
  const graph = new Graph(run, state);
  mountQueries(run, state);
  mountDetail(run, state);
  fill(byId("below"), slicesPanel(run, state), run.head.suspects.length > 0 && auditPanel(run, state), marksPanel(run, state));
  byId("made").textContent = `fastif ${run.head.fastif}. The graph has ${run.head.choice}.` + (run.head.redacted ? " Training texts are left out." : "");
  if (run.served) await mountLive(run, state);
  window.fastif = { run, state, graph }; // for those who look behind the page, and for its tests
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `The run could not be shown: ${error.message}. Make the page again with fastif export, or start fastif serve anew.`;
  byId("lead").textContent = "";
});

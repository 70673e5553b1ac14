// Questions to a model that stays loaded: a text to type, a queue that all can see, results as they are found; and
// corrections with their progress. Only where a server is behind the page.

import { bar, longestBar, marked, meanings, sureness, tag } from "./cards.js";
import { byId, el, fill, say } from "./dom.js";
import { contentWords, count, exactShare, share } from "./words.js";

const OPEN = ["waiting", "running"];

export async function mountLive(run, state) {
  const about = await (await fetch("about")).json();
  if (!about.can.length) return;
  const forms = {
    ask: ["live", "Ask the model", () => questionForm(run, about)],
    correct: ["correct", "Correct the model", () => correctForm(about)],
  };
  const panels = new Map();
  for (const kind of about.can) {
    const [id, title, form] = forms[kind];
    const queue = el("ul", { class: "rows queue", "aria-label": `Queue: ${title}` });
    const answers = el("div", { class: "answers", tabindex: "0", role: "region", "aria-label": `Answers: ${title}`, "aria-live": "polite" });
    const heading = el("h2", { id: `${id}-title`, text: title });
    panels.set(kind, { queue, answers, box: el("section", { class: "panel", id, "aria-labelledby": `${id}-title` }, heading, form(), queue, answers) });
  }
  byId("below").prepend(...[...panels.values()].map((panel) => panel.box));
  listen(panels, (job) => answer(job, run, state));
}

function questionForm(run, { longest_question: longest }) {
  const text = el("textarea", { rows: 2, required: true, maxlength: longest, "aria-label": "A text to ask about", placeholder: "A text" });
  const pair = run.head.has_pairs && el("textarea", { rows: 1, maxlength: longest, "aria-label": "The second text", placeholder: "The second text" });
  const form = el("form", {}, text, pair, el("button", { type: "submit", text: "Ask" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = { text: text.value, text_pair: pair ? pair.value || null : null };
    send("ask", body, `a text must have words, and no more than ${count(longest)} characters`);
  });
  return [
    el("p", { class: "quiet small", text: "Type a text: the model predicts, and the training examples behind that prediction are found. The first question also loads the model and prepares the curvature." }),
    form,
  ];
}

function correctForm({ correction, learning_rate: usual, largest_rate: largest }) {
  const rate = el("input", { type: "number", step: "any", min: "0", value: String(usual), "aria-label": "Learning rate of the steps" });
  const asked = () => ({ learning_rate: rate.value === "" ? null : Number(rate.value) }); // without one, the usual
  const ask = () => send("correct", asked(), `a learning rate must be above 0 and no more than ${count(largest)}`);
  return [
    el("p", { class: "quiet small", text: `Ten small steps on the training examples that help the anchors most, beside the same on harmful and random ones and on the anchors themselves: ${correction}. The larger the rate, the more changes, also what was right. Nothing is written.` }),
    el("p", { class: "act" }, el("label", { class: "field" }, el("span", { text: "Learning rate" }), rate), el("button", { type: "button", text: "Correct the model", on: { click: ask } })),
  ];
}

// Put a job into the queue; `rule` says what the form asks for, where the server finds that it is not so.
async function send(where, body, rule) {
  const answer = await fetch(where, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (answer.ok) return;
  const { detail } = await answer.json().catch(() => ({}));
  say(`The server refused: ${typeof detail === "string" ? detail : rule}`, true);
}

function listen(panels, show) {
  const seen = new Map(); // job -> how many parts of its result are shown
  const source = new EventSource("events");
  source.addEventListener("message", async (event) => {
    const jobs = JSON.parse(event.data);
    const open = jobs.filter((job) => OPEN.includes(job.state));
    for (const [kind, { queue }] of panels) {
      const mine = jobs.filter((job) => job.kind === kind && (OPEN.includes(job.state) || job.error));
      fill(queue, mine.map((job) => queueItem(job, open.indexOf(job))));
    }
    for (const job of jobs) {
      const now = `${job.parts} ${job.state}`;
      if (seen.get(job.id) === now || !job.parts) continue;
      seen.set(job.id, now);
      const whole = await (await fetch(`jobs/${job.id}`)).json();
      const { answers } = panels.get(job.kind);
      const shown = show(whole);
      const before = answers.querySelector(`[data-job="${job.id}"]`);
      if (before) before.replaceWith(shown);
      else answers.prepend(shown);
    }
  });
  source.addEventListener("error", () => say("The server does not answer; the page tries again", true));
}

function queueItem(job, ahead) {
  const waiting = job.state === "waiting" && `waiting, ${ahead === 1 ? "the next one" : `${count(ahead)} before it`}`;
  const words = job.state === "running" ? `${job.stage}${job.total > 1 ? `, ${count(job.done)} of ${count(job.total)}` : ""}` : job.error || waiting || job.state;
  const bar = job.state === "running" && el("progress", { "aria-label": job.stage || "working", max: Math.max(1, job.total), value: job.total > 1 ? String(job.done) : null });
  if (bar && job.total > 1) bar.value = job.done;
  return el(
    "li",
    {},
    el("div", {}, el("b", { text: job.title }), el("p", { class: "quiet small", text: words }), bar),
    OPEN.includes(job.state) && el("button", { type: "button", text: "Cancel", "aria-label": `Cancel: ${job.title}`, on: { click: () => fetch(`jobs/${job.id}`, { method: "DELETE" }) } }),
  );
}

function answer(job, run, state) {
  return el("article", { class: "answer", "data-job": job.id, "aria-label": job.title }, job.kind === "ask" ? askAnswer(job, run, state) : correctAnswer(job));
}

function askAnswer(job, run, state) {
  const { predicted, confidence, query } = job.found;
  const head = el(
    "div",
    { class: "chosen" },
    el("p", { class: "text", text: query?.text ?? job.title }),
    query?.text_pair && el("p", { class: "text pair", text: query.text_pair }),
    el("p", { class: "tags" }, predicted !== undefined && tag(`${predicted}, ${share(confidence)} sure`)),
  );
  if (!query) return [head, el("p", { class: "quiet small", text: "The training examples behind it are being looked for." })];
  const words = contentWords(query.text, query.text_pair);
  const all = [...query.helpful, ...query.harmful];
  const longest = longestBar(all.map((each) => [each.score, each.error]));
  const column = (kind, title) =>
    el("section", { class: "column", "aria-label": title }, el("h3", {}, el("span", { class: kind, text: title })), el("ol", { class: "cards" }, query[kind].map((each) => member(run, state, { each, longest, words }))));
  const sure = el("p", { class: "quiet small", text: sureness(all.map((each) => each.error), job.found.residual) });
  return [head, sure, meanings("Influence", "Standard error", "Sure"), el("div", { class: "sides" }, column("helpful", "Supports this answer"), column("harmful", "Speaks against it"))];
}

// A training example behind an answer; where the run knows it too, a click shows everything that it influences.
function member(run, state, { each, longest, words }) {
  const node = run.train_id.indexOf(each.index);
  const texts = [
    el("span", { class: "text" }, marked(each.text, words)),
    each.text_pair && el("span", { class: "text pair" }, marked(each.text_pair, words)),
  ];
  const show = () => {
    state.set({ train: node });
    byId("detail").scrollIntoView({ block: "nearest" });
    byId("detail").focus({ preventScroll: true });
  };
  return el(
    "li",
    { class: "card" },
    bar(each.score, longest, each.error),
    node < 0 ? el("p", { class: "small" }, texts) : el("button", { type: "button", class: "card-text", title: "Everything that this training example influences", on: { click: show } }, texts),
    el("p", { class: "tags" }, tag(each.label), tag(`line ${count(each.line)}`)),
  );
}

const STEPS_ON = { helpful: "helpful ones", harmful: "harmful ones", random: "random ones", anchors: "the anchors" };

function correctAnswer(job) {
  const { table, summary, notes, command, rate } = job.found;
  const kinds = table.kinds;
  const changed = (row, kind) => {
    const points = 100 * (row[kind] - row.start);
    const words = Math.abs(points) < 0.05 ? "no change" : `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)} points`;
    return el("td", {}, exactShare(row[kind]), el("span", { class: "change quiet", text: words }));
  };
  return [
    el("h3", { class: "apart", text: "Accuracy before and after, by slice" }),
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Accuracy before and after" },
      el(
        "table",
        {},
        el("caption", { text: `Shares predicted right before, and after the last step on each kind of training examples; learning rate ${rate}, means over repeats.` }),
        el("thead", {}, el("tr", {}, ["part", "examples", "before", ...kinds.map((kind) => `after, ${STEPS_ON[kind] ?? kind}`)].map((words) => el("th", { scope: "col", text: words })))),
        el("tbody", {}, table.rows.map((row) => el("tr", {}, el("th", { scope: "row", text: row.part }), el("td", { text: count(row.examples) }), el("td", { text: exactShare(row.start) }), kinds.map((kind) => changed(row, kind))))),
      ),
    ),
    notes.map((words) => el("p", { class: "small" }, el("b", { text: "Read this with care: " }), words)),
    el("p", { class: "quiet small", text: "This command does the same and writes the corrected model where it helps:" }),
    el("pre", { tabindex: "0" }, el("code", { text: command })),
    el("details", { class: "meanings" }, el("summary", { text: "The same in words, with losses and intervals" }), summary.map((words) => el("p", { text: words }))),
  ];
}

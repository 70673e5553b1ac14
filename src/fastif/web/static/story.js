// The story that a run brings along: its numbers always in view, its chapters on request. Knows tables and examples as
// web/story.py has them.

import { tag } from "./cards.js";
import { byId, el, fill } from "./dom.js";

export function mountStory(run, state) {
  const story = run.head.story;
  if (!story) return;
  const box = byId("story");
  fill(
    box,
    el("summary", {}, el("span", { class: "facts-title", text: "The story of this run" }), story.cards.map(([number, words]) => el("span", { class: "fact" }, el("b", { text: number }), ` ${words}`))),
    el("div", { class: "chapters" }, el("h2", { text: story.title }), el("p", { text: story.lead }), story.chapters.map(chapter)),
  );
  box.hidden = false;
  box.open = state.now.story === "open";
  box.addEventListener("toggle", () => state.set({ story: box.open ? "open" : "" }));
  state.listen((now, changed) => changed.has("story") && (box.open = now.story === "open"));
}

function chapter(told) {
  return el("section", { class: "chapter" }, el("h3", { text: told.title }), el("p", { text: told.text }), told.parts.map(part));
}

function part(told) {
  if (told.kind === "words") return told.code ? el("pre", { tabindex: "0" }, el("code", { text: told.text })) : el("p", { class: "quiet small", text: told.text });
  if (told.kind === "table") return table(told);
  return [
    el("h4", { text: told.title }),
    told.items.length ? el("ul", { class: "story-examples" }, told.items.map(example)) : el("p", { class: "quiet", text: "None." }),
  ];
}

function table({ caption, rows, bars }) {
  const [names, ...others] = rows;
  const cell = (words, at) => {
    if (at === 0) return el("th", { scope: "row", text: words });
    const share = bars && /^[\d.]+%$/.test(words);
    const inner = share && el("i", {});
    if (share) inner.style.width = words;
    return el("td", {}, words, share && el("span", { class: "share", "aria-hidden": "true" }, inner));
  };
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { text: caption }),
      el("thead", {}, el("tr", {}, names.map((words) => el("th", { scope: "col", text: words })))),
      el("tbody", {}, others.map((row) => el("tr", {}, row.map(cell)))),
    ),
  );
}

function example(told) {
  return el(
    "li",
    {},
    told.texts.map((text, at) => el("span", { class: at ? "text pair" : "text", text })),
    el("span", { class: "tags" }, told.tags.map((words) => tag(words)), told.odd && tag(told.odd, "marked")),
  );
}

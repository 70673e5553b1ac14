// What is chosen and how it is looked at: one object, told to all views when it changes, and kept in the URL.

const DEFAULTS = {
  query: null,
  train: null,
  lasso: null,
  kind: "both",
  shown: null, // edges; null is the usual number for the run
  rings: "none",
  view: { x: 0, y: 0, zoom: 1 },
  slice: "",
  label: "",
  right: "",
  find: "",
  sort: "order",
  story: "", // or "open"
  marks: new Map(), // node -> "keep", "remove" or "label:<class>"
};
const WORDS = ["kind", "rings", "slice", "label", "right", "find", "sort", "story"];

export class State {
  constructor(run) {
    this.run = run;
    this.listeners = [];
    this.now = { ...DEFAULTS, ...this.read() };
    window.addEventListener("hashchange", () => {
      if (this.written === location.hash) return;
      this.now = { ...DEFAULTS, ...this.read() };
      this.tell(new Set([...Object.keys(DEFAULTS), "all"])); // another address was typed: controls show it too
    });
  }

  listen(act) {
    this.listeners.push(act);
  }

  set(changes) {
    const changed = new Set(Object.keys(changes).filter((name) => this.now[name] !== changes[name]));
    if (!changed.size) return;
    this.now = { ...this.now, ...changes };
    this.tell(changed);
    this.write();
  }

  tell(changed) {
    for (const act of this.listeners) act(this.now, changed);
  }

  mark(node, verdict) {
    const marks = new Map(this.now.marks);
    if (verdict) marks.set(node, verdict);
    else marks.delete(node);
    this.set({ marks });
  }

  write() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.writeNow(), 120);
  }

  writeNow() {
    const now = this.now;
    const words = new URLSearchParams();
    if (now.query !== null) words.set("q", now.query);
    if (now.train !== null) words.set("t", this.run.train_id[now.train]);
    if (now.shown !== null) words.set("n", now.shown);
    for (const name of WORDS) if (now[name] !== DEFAULTS[name]) words.set(name, now[name]);
    const { x, y, zoom } = now.view;
    if (zoom !== 1 || x || y) words.set("view", [x, y, zoom].map((each) => each.toFixed(3)).join(","));
    if (now.lasso) words.set("lasso", now.lasso.map((point) => point.map((each) => each.toFixed(2)).join(",")).join(";"));
    if (now.marks.size) {
      words.set("marks", [...now.marks].map(([node, verdict]) => `${this.run.train_id[node]}~${verdict}`).join("|"));
    }
    const hash = words.size ? `#${words}` : "#";
    try {
      history.replaceState(null, "", hash);
      this.written = location.hash;
    } catch {
      // a page inside another (a notebook) may have no address of its own
    }
  }

  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const found = {};
    for (const name of WORDS) if (words.has(name)) found[name] = words.get(name);
    found.query = whole(words.get("q"), this.run.queries.length);
    found.train = this.node(words.get("t"));
    found.shown = whole(words.get("n"), this.run.edges + 1);
    const view = (words.get("view") || "").split(",").map(Number);
    if (view.length === 3 && view.every(Number.isFinite) && view[2] > 0) found.view = { x: view[0], y: view[1], zoom: view[2] };
    const lasso = (words.get("lasso") || "").split(";").map((point) => point.split(",").map(Number));
    if (lasso.length > 2 && lasso.flat().every(Number.isFinite)) found.lasso = lasso;
    found.marks = this.readMarks(words.get("marks") || "");
    return found;
  }

  readMarks(words) {
    const marks = new Map();
    for (const each of words.split("|").filter(Boolean)) {
      const [id, ...rest] = each.split("~");
      const node = this.node(id);
      const verdict = rest.join("~");
      const known = ["keep", "remove", ...this.run.head.classes.map((name) => `label:${name}`)];
      if (node !== null && known.includes(verdict)) marks.set(node, verdict);
    }
    return marks;
  }

  node(id) {
    if (id === null || id === "") return null;
    const node = this.run.train_id.indexOf(Number(id));
    return node < 0 ? null : node;
  }
}

function whole(text, below) {
  const value = Number(text);
  return text !== null && text !== "" && Number.isInteger(value) && value >= 0 && value < below ? value : null;
}

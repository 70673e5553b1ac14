// The graph of influence: predictions on a circle, training examples inside it, an edge for each pair that counts.
//
// Three canvases lie on each other: edges, points, and what is chosen or under the pointer. Zooming and panning move the
// first two as pictures at once, and they are drawn anew when the hand rests; edges come a piece at a time, the
// strongest first, so that the page answers whatever their number.

import { mountControls, queryTip, showLegend, showSlider, trainTip } from "./controls.js";
import { byId, el, fill, say } from "./dom.js";
import { Grid, places, thinned } from "./geometry.js";
import { colours, dot, edgeWidth, paintArcs, paintEdges, paintQueries, paintTrain, roomFor } from "./paint.js";
import { listenToPointer } from "./pointer.js";
import { filtered } from "./queries.js";

const USUAL_EDGES = 600;
const REACH = 9; // pixels from a point at which the pointer is on it
const REST = 40; // milliseconds after which a hand rests
const MOST_ZOOM = 40;
const AT_LEAST = 20; // edges of each kind of what is chosen, however few are shown

export function usualEdges(run) {
  return Math.min(run.edges, USUAL_EDGES);
}

export class Graph {
  constructor(run, state) {
    this.run = run;
    this.state = state;
    this.hovered = null;
    this.path = null;
    this.rank = new Uint32Array(run.nodes).fill(run.edges); // the strongest edge of each node
    for (let edge = run.edges - 1; edge >= 0; edge -= 1) this.rank[run.edge_train[edge]] = edge;
    this.mount();
    this.place();
    this.resize();
    new ResizeObserver(() => this.resize()).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    state.listen((now, changed) => this.hear(changed));
  }

  mount() {
    this.stage = byId("stage");
    this.layers = ["edges", "points", "focus"].map((name) => el("canvas", { class: `layer layer-${name}`, "aria-hidden": "true" }));
    this.tip = el("div", { class: "tip", hidden: true });
    this.surface = el("div", {
      class: "surface",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "graph",
      "aria-label":
        "Graph of influence. Left and right go from prediction to prediction, plus and minus zoom, 0 shows all. " +
        "All of it is also in the lists beside it.",
    });
    fill(this.stage, this.layers, this.surface, this.tip);
    mountControls(this);
    listenToPointer(this);
    this.surface.addEventListener("keydown", (event) => this.key(event));
  }

  get shown() {
    return this.state.now.shown ?? usualEdges(this.run);
  }

  hear(changed) {
    if (changed.has("all")) mountControls(this);
    if (changed.has("rings")) this.place();
    if (changed.has("shown")) showSlider(this);
    if (changed.has("view")) this.moved();
    if (["shown", "kind", "rings", "slice", "label", "right", "find"].some((name) => changed.has(name))) this.drawSoon();
    if (["query", "train", "lasso"].some((name) => changed.has(name))) this.drawChosen();
  }

  place() {
    this.where = places(this.run, this.state.now.rings);
    this.grid = new Grid(this.where.x, this.where.y);
    this.ringed = this.where.rings.length > 0;
    showLegend(this);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height || (width === this.width && height === this.height)) return;
    [this.width, this.height] = [width, height];
    this.dense = Math.min(2, devicePixelRatio || 1);
    for (const canvas of this.layers) {
      canvas.width = Math.round(width * this.dense);
      canvas.height = Math.round(height * this.dense);
    }
    this.radius = roomFor(this.layers[0].getContext("2d"), this.run.head.slices, width, height);
    this.draw();
  }

  // ---- from places to pixels -------------------------------------------------------------------------------------

  toScreen(x, y, view = this.state.now.view) {
    const scale = this.radius * view.zoom;
    return [this.width / 2 + (x - view.x) * scale, this.height / 2 - (y - view.y) * scale];
  }

  toPlace(px, py, view = this.state.now.view) {
    const scale = this.radius * view.zoom;
    return [(px - this.width / 2) / scale + view.x, (this.height / 2 - py) / scale + view.y];
  }

  scene() {
    const { run, where } = this;
    const view = this.state.now.view;
    const scale = this.radius * view.zoom;
    const project = (xs, ys) => {
      const x = new Float32Array(xs.length);
      const y = new Float32Array(xs.length);
      for (let at = 0; at < xs.length; at += 1) {
        x[at] = this.width / 2 + (xs[at] - view.x) * scale;
        y[at] = this.height / 2 - (ys[at] - view.y) * scale;
      }
      return [x, y];
    };
    const [x1, y1] = project(where.x, where.y);
    const [x2, y2] = project(run.query_x, run.query_y);
    return { run, x1, y1, x2, y2, radius: scale };
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------

  drawSoon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.width) return;
    this.stop?.();
    performance.mark("graph-start");
    this.palette = colours();
    this.drawn = this.state.now.view;
    this.current = this.scene();
    for (const canvas of this.layers) {
      const context = canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.globalCompositeOperation = "source-over";
      context.globalAlpha = 1;
      context.clearRect(0, 0, canvas.width, canvas.height);
      context.setTransform(this.dense, 0, 0, this.dense, 0, 0);
      canvas.style.transform = "";
    }
    this.out = this.filteredOut();
    this.drawPoints();
    this.stage.dataset.drawing = "true";
    this.stop = paintEdges(this.layers[0], this.current, this.shown, {
      accept: (edge) => this.accepts(edge),
      palette: this.palette,
      done: () => {
        delete this.stage.dataset.drawing;
        performance.mark("graph-done");
      },
    });
    this.drawChosen();
    performance.mark("graph-first");
  }

  filteredOut() {
    const out = new Uint8Array(this.run.queries.length).fill(1);
    for (const row of filtered(this.run, this.state.now)) out[row] = 0;
    return out;
  }

  accepts(edge) {
    const kind = this.state.now.kind;
    if (this.out[this.run.edge_query[edge]]) return false;
    return kind === "both" || this.run.edge_value[edge] < 0 === (kind === "helpful");
  }

  drawPoints() {
    const context = this.layers[1].getContext("2d");
    const [x, y] = this.toScreen(0, 0);
    const circle = { x, y, radius: this.radius * this.state.now.view.zoom };
    const of = this.state.now.rings === "slice" ? this.run.train_slice : this.run.train_label;
    paintTrain(context, this.current, {
      isActive: (node) => this.rank[node] < this.shown,
      colourOf: (node) => (this.ringed ? this.palette.categories[of[node] % 6] : this.palette.muted),
      palette: this.palette,
    });
    for (const ring of this.where.rings) {
      context.strokeStyle = this.palette.line;
      context.beginPath();
      context.arc(x, y, ring.outer * circle.radius, 0, 2 * Math.PI);
      context.stroke();
    }
    paintQueries(context, this.current, this.palette, (row) => this.out[row]);
    paintArcs(context, this.run.head.slices, circle, this.palette);
  }

  drawChosen() {
    if (!this.current) return;
    const canvas = this.layers[2];
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, this.width, this.height);
    const { query, train, lasso } = this.state.now;
    const of = this.hovered ?? (train !== null ? { node: train } : query !== null ? { row: query } : null);
    this.stage.classList.toggle("focused", of !== null && !lasso);
    if (this.path || lasso) this.drawLasso(context, this.path || lasso);
    if (of === null) return;
    const kind = this.state.now.kind;
    const edges = of.row !== undefined ? this.run.edgesOf(of.row) : this.run.edgesOfTrain(of.node);
    const strongest = Math.abs(this.run.edge_value[0]) || 1;
    const drawn = { helpful: 0, harmful: 0 };
    for (const edge of edges) {
      const value = this.run.edge_value[edge];
      const its = value < 0 ? "helpful" : "harmful";
      if (kind !== "both" && kind !== its) continue;
      if (drawn[its] >= AT_LEAST && edge >= this.shown) continue;
      this.drawEdge(context, edge, Math.max(0.02, Math.abs(value) / strongest));
      drawn[its] += 1;
    }
    this.ringAround(context, of);
  }

  drawEdge(context, edge, strength) {
    const { x1, y1, x2, y2 } = this.current;
    const [train, query] = [this.run.edge_train[edge], this.run.edge_query[edge]];
    const colour = this.run.edge_value[edge] < 0 ? this.palette.helpful : this.palette.harmful;
    context.globalAlpha = Math.min(1, 0.35 + Math.sqrt(strength));
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = edgeWidth(strength);
    context.beginPath();
    context.moveTo(x1[train], y1[train]);
    context.lineTo(x2[query], y2[query]);
    context.stroke();
    dot(context, x1[train], y1[train], 2.6);
    context.globalAlpha = 1;
  }

  ringAround(context, of) {
    const { x1, y1, x2, y2 } = this.current;
    const [x, y] = of.row !== undefined ? [x2[of.row], y2[of.row]] : [x1[of.node], y1[of.node]];
    context.strokeStyle = this.palette.ink;
    context.fillStyle = this.palette.panel;
    context.lineWidth = 2;
    dot(context, x, y, 6.5);
    context.stroke();
    context.fillStyle = this.palette.ink;
    dot(context, x, y, 3);
  }

  drawLasso(context, polygon) {
    context.beginPath();
    polygon.forEach(([x, y], at) => context[at ? "lineTo" : "moveTo"](...this.toScreen(x, y)));
    context.closePath();
    context.setLineDash([5, 4]);
    context.strokeStyle = this.palette.ink;
    context.lineWidth = 1.5;
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 0.06;
    context.fillStyle = this.palette.ink;
    context.fill();
    context.globalAlpha = 1;
  }

  // Moves the pictures as they are, and draws them anew when the hand rests.
  moved() {
    if (!this.drawn) return;
    const factor = this.state.now.view.zoom / this.drawn.zoom;
    const [x, y] = this.toScreen(...this.toPlace(0, 0, this.drawn));
    for (const canvas of this.layers) canvas.style.transform = `translate(${x}px, ${y}px) scale(${factor})`;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.draw(), REST);
  }

  // ---- pointer and keys ------------------------------------------------------------------------------------------

  setLasso(on) {
    this.lassoButton.setAttribute("aria-pressed", String(on));
    this.surface.classList.toggle("drawing", on);
    if (!on && this.state.now.lasso) this.state.set({ lasso: null });
  }

  pan(drag, event) {
    const scale = this.radius * drag.view.zoom;
    const x = clamp(drag.view.x - (event.offsetX - drag.x) / scale, -1.2, 1.2);
    const y = clamp(drag.view.y + (event.offsetY - drag.y) / scale, -1.2, 1.2);
    this.state.set({ view: { x, y, zoom: drag.view.zoom } });
  }

  pinch(drag, now) {
    if (!drag.spread) drag.spread = now;
    const zoom = clamp((drag.view.zoom * now) / drag.spread, 0.6, MOST_ZOOM);
    this.state.set({ view: { ...this.state.now.view, zoom } });
  }

  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    const view = this.state.now.view;
    const zoom = clamp(view.zoom * factor, 0.6, MOST_ZOOM);
    const [x, y] = this.toPlace(px, py);
    const ratio = view.zoom / zoom;
    this.state.set({ view: { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, zoom } });
  }

  pick(px, py) {
    const [x, y] = this.toPlace(px, py);
    const within = REACH / (this.radius * this.state.now.view.zoom);
    let best = -1;
    let distance = within * within * 1.6;
    for (let row = 0; row < this.run.queries.length; row += 1) {
      const far = (this.run.query_x[row] - x) ** 2 + (this.run.query_y[row] - y) ** 2;
      if (far < distance) [best, distance] = [row, far];
    }
    if (best >= 0) return { row: best };
    const node = this.grid.nearest(x, y, within, (each) => this.rank[each] < this.shown);
    return node >= 0 ? { node } : null;
  }

  hover(px, py) {
    const found = this.pick(px, py);
    if (found?.row === this.hovered?.row && found?.node === this.hovered?.node) return;
    this.hovered = found;
    this.drawChosen();
    this.tip.hidden = !found;
    this.surface.classList.toggle("on-point", Boolean(found));
    if (!found) return;
    fill(this.tip, found.row !== undefined ? queryTip(this.run, found.row) : trainTip(this.run, found.node));
    this.tip.style.left = `${clamp(px + 14, 0, Math.max(0, this.width - 256))}px`;
    this.tip.style.top = `${py + 18 > this.height - 90 ? py - 100 : py + 18}px`;
  }

  unhover() {
    if (!this.hovered) return;
    this.hovered = null;
    this.tip.hidden = true;
    this.drawChosen();
  }

  choose(px, py) {
    const found = this.pick(px, py);
    if (!found) this.state.set({ query: null, train: null, lasso: null });
    else if (found.row !== undefined) this.state.set({ query: found.row, train: null, lasso: null });
    else this.state.set({ train: found.node });
  }

  endLasso() {
    const polygon = thinned(this.path);
    this.path = null;
    this.state.set({ lasso: polygon.length > 2 ? polygon : null, train: null });
    this.drawChosen();
  }

  key(event) {
    const rows = [...this.out.keys()].filter((row) => !this.out[row]);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && rows.length) {
      const at = rows.indexOf(this.state.now.query);
      const query = rows[(at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step + rows.length) % rows.length];
      this.state.set({ query, train: null, lasso: null });
      say(`${this.run.queries[query].text}: predicted ${this.run.queries[query].predicted}`);
    } else if (event.key === "+" || event.key === "=") this.zoomBy(1.5);
    else if (event.key === "-") this.zoomBy(1 / 1.5);
    else if (event.key === "0") this.state.set({ view: { x: 0, y: 0, zoom: 1 } });
    else if (event.key === "Escape") this.state.set({ train: null, lasso: null });
    else return;
    event.preventDefault();
  }
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

// Places in the plane: where training examples lie, with or without rings, which one is nearest, which are in a lasso.

const DISC = 2 / 3; // the radius within which training examples lie, where predictions lie on 1
const INNERMOST = 0.3;
const RING_GAP = 0.25;
const MOST_RINGS = 12;
const CELLS = 160;

// The values by which training examples can be split into rings: their slice, their label.
export function ringChoices(run) {
  const found = [["none", "one disc"]];
  for (const [name, values] of [["slice", run.head.train_slices], ["label", run.head.labels]]) {
    if (values.length > 1 && values.length <= MOST_RINGS) found.push([name, `rings by ${name}`]);
  }
  return found;
}

// Where each training example lies, and the rings with their names where there are any.
export function places(run, by) {
  const names = by === "slice" ? run.head.train_slices : by === "label" ? run.head.labels : [];
  if (names.length < 2 || names.length > MOST_RINGS) return { x: run.train_x, y: run.train_y, rings: [] };
  const of = by === "slice" ? run.train_slice : run.train_label;
  const width = (DISC * (1 - INNERMOST)) / (names.length + RING_GAP * (names.length - 1));
  const rings = names.map((name, at) => {
    const inner = DISC * INNERMOST + at * width * (1 + RING_GAP);
    return { name, inner, outer: inner + width };
  });
  const x = new Float32Array(run.nodes);
  const y = new Float32Array(run.nodes);
  for (let node = 0; node < run.nodes; node += 1) {
    const ring = rings[of[node]];
    const far = Math.hypot(run.train_x[node], run.train_y[node]);
    const radius = ring ? ring.inner + (ring.outer - ring.inner) * Math.min(far / DISC, 1) : far;
    x[node] = far > 0 ? (run.train_x[node] / far) * radius : radius;
    y[node] = far > 0 ? (run.train_y[node] / far) * radius : 0;
  }
  return { x, y, rings };
}

// Points in cells of a square, so that the nearest to a place is found among a few.
export class Grid {
  constructor(x, y) {
    this.x = x;
    this.y = y;
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    const cell = new Int32Array(x.length);
    for (let at = 0; at < x.length; at += 1) {
      cell[at] = Number.isNaN(x[at]) ? -1 : column(y[at]) * CELLS + column(x[at]);
      if (cell[at] >= 0) this.starts[cell[at] + 1] += 1;
    }
    for (let at = 0; at < CELLS * CELLS; at += 1) this.starts[at + 1] += this.starts[at];
    const next = this.starts.slice();
    this.members = new Uint32Array(this.starts[CELLS * CELLS]);
    for (let at = 0; at < x.length; at += 1) if (cell[at] >= 0) this.members[next[cell[at]]++] = at;
  }

  nearest(x, y, within, accept) {
    let best = -1;
    let distance = within * within;
    for (let row = column(y - within); row <= column(y + within); row += 1) {
      for (let at = column(x - within); at <= column(x + within); at += 1) {
        const cell = row * CELLS + at;
        for (let index = this.starts[cell]; index < this.starts[cell + 1]; index += 1) {
          const point = this.members[index];
          const far = (this.x[point] - x) ** 2 + (this.y[point] - y) ** 2;
          if (far <= distance && accept(point)) [best, distance] = [point, far];
        }
      }
    }
    return best;
  }
}

function column(value) {
  return Math.max(0, Math.min(CELLS - 1, Math.floor(((value + 1.05) / 2.1) * CELLS)));
}

export function inside(polygon, x, y) {
  let within = false;
  for (let at = 0, before = polygon.length - 1; at < polygon.length; before = at, at += 1) {
    const [x1, y1] = polygon[at];
    const [x2, y2] = polygon[before];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) within = !within;
  }
  return within;
}

// The training examples inside a lasso that the accepting function lets through.
export function lassoed(polygon, x, y, accept) {
  const found = [];
  for (let node = 0; node < x.length; node += 1) {
    if (accept(node) && inside(polygon, x[node], y[node])) found.push(node);
  }
  return found;
}

// A lasso in few points, so that it fits into an address.
export function thinned(polygon, most = 32) {
  const step = Math.max(1, Math.ceil(polygon.length / most));
  return polygon.filter((_, at) => at % step === 0);
}

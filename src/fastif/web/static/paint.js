// Drawing on a canvas: edges a piece at a time, points, arcs and their names. Knows pixels and colours, and no state.

const BATCH = 400; // edges of one width that are stroked together, at most
const NARROW = 460; // pixels
const FONT = "12px system-ui, sans-serif";
const FIRST_PIECE = 800; // edges before the browser gets its turn; later pieces grow and shrink with its pace
const PACE = [40, 90]; // milliseconds of a frame below which pieces grow, and above which they shrink
const MANY = 20000; // points that are set as pixels

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    helpful: of("helpful"),
    harmful: of("harmful"),
    ink: of("ink"),
    muted: of("muted"),
    line: of("line"),
    panel: of("panel"),
    categories: [1, 2, 3, 4, 5, 6].map((number) => of(`category-${number}`)),
  };
}

export function edgeWidth(strength) {
  return 0.5 + 2 * strength;
}

function edgeAlpha(strength, shown) {
  const least = Math.max(0.04, Math.min(0.3, 200 / shown));
  return Math.min(0.8, least + 0.55 * strength);
}

// Draws the first `count` edges, the strongest first and weaker ones beneath them, and gives the browser its turn
// between pieces. Returns a function that stops it. The first piece is drawn before this returns.
export function paintEdges(canvas, scene, count, { accept, palette, done }) {
  const context = canvas.getContext("2d");
  const { run, x1, y1, x2, y2 } = scene;
  const strongest = run.edges ? Math.abs(run.edge_value[0]) : 1;
  const batch = Math.max(8, Math.min(BATCH, Math.round(count / 100)));
  let at = 0;
  let frame = 0;
  context.globalCompositeOperation = "destination-over";
  context.lineCap = "round";

  let size = FIRST_PIECE;
  let last = performance.now();

  function piece() {
    // strokes are only noted down here, and drawn by the browser afterwards: what a piece costs is seen a frame later
    const taken = performance.now() - last;
    last = performance.now();
    if (at && taken < PACE[0]) size *= 1.6;
    if (at && taken > PACE[1]) size = Math.max(FIRST_PIECE / 2, size / 2);
    const until = Math.min(count, at + Math.round(size));
    while (at < until) {
      const end = Math.min(count, at + batch);
      const strength = Math.abs(run.edge_value[at]) / strongest;
      context.lineWidth = edgeWidth(strength);
      context.globalAlpha = edgeAlpha(strength, count);
      for (const helpful of [true, false]) {
        context.beginPath();
        for (let edge = at; edge < end; edge += 1) {
          if (run.edge_value[edge] < 0 !== helpful || !accept(edge)) continue;
          const train = run.edge_train[edge];
          const query = run.edge_query[edge];
          context.moveTo(x1[train], y1[train]);
          context.lineTo(x2[query], y2[query]);
        }
        context.strokeStyle = helpful ? palette.helpful : palette.harmful;
        context.stroke();
      }
      at = end;
    }
    if (at < count) frame = requestAnimationFrame(piece);
    else done();
  }
  piece();
  return () => cancelAnimationFrame(frame);
}

export function paintTrain(context, scene, { isActive, colourOf, palette }) {
  if (scene.run.nodes > MANY) return paintPixels(context, scene, { isActive, colourOf, palette });
  const { run, x1, y1 } = scene;
  const active = [];
  context.fillStyle = palette.muted;
  context.globalAlpha = 0.28;
  for (let node = 0; node < run.nodes; node += 1) {
    if (Number.isNaN(x1[node])) continue;
    if (isActive(node)) active.push(node);
    else context.fillRect(x1[node] - 0.8, y1[node] - 0.8, 1.6, 1.6);
  }
  context.globalAlpha = 1;
  for (const node of active) {
    context.fillStyle = colourOf(node);
    dot(context, x1[node], y1[node], Math.min(3.6, 1.2 + 0.2 * Math.sqrt(run.touched(node))));
  }
  return undefined;
}

// Very many points, each a pixel or four, more opaque where they lie on each other.
function paintPixels(context, scene, { isActive, colourOf, palette }) {
  const { run, x1, y1 } = scene;
  const { width, height } = context.canvas;
  const dense = width / context.canvas.clientWidth;
  const image = new ImageData(width, height);
  const parsed = new Map();
  const rgb = (colour) => {
    if (!parsed.has(colour)) parsed.set(colour, [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
    return parsed.get(colour);
  };
  const set = (x, y, [red, green, blue], alpha) => {
    const at = 4 * (y * width + x);
    image.data[at] = red;
    image.data[at + 1] = green;
    image.data[at + 2] = blue;
    image.data[at + 3] += alpha; // stops at 255
  };
  for (const wanted of [false, true]) {
    for (let node = 0; node < run.nodes; node += 1) {
      const x = Math.round(x1[node] * dense);
      const y = Math.round(y1[node] * dense);
      if (!(x >= 0 && x < width - 1 && y >= 0 && y < height - 1) || isActive(node) !== wanted) continue;
      const colour = rgb(wanted ? colourOf(node) : palette.muted);
      const alpha = wanted ? 150 : 24;
      set(x, y, colour, alpha);
      if (wanted) for (const [dx, dy] of [[1, 0], [0, 1], [1, 1]]) set(x + dx, y + dy, colour, alpha);
    }
  }
  context.putImageData(image, 0, 0);
}

export function paintQueries(context, scene, palette, isOut) {
  const { run, x2, y2 } = scene;
  const room = (2 * Math.PI * scene.radius) / run.queries.length;
  const radius = Math.max(1.5, Math.min(5, 0.36 * room));
  context.lineWidth = 1.6;
  run.queries.forEach((query, row) => {
    context.globalAlpha = isOut(row) ? 0.25 : 1;
    if (query.right === false) {
      context.fillStyle = palette.panel;
      context.strokeStyle = palette.ink;
      dot(context, x2[row], y2[row], radius);
      context.stroke();
    } else {
      context.fillStyle = palette.ink;
      dot(context, x2[row], y2[row], radius);
    }
  });
  context.globalAlpha = 1;
}

export function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

// The largest radius at which the circle and the names of its slices fit.
export function roomFor(context, slices, width, height) {
  context.font = FONT;
  let radius = Math.min(width, height) / 2 - 26;
  for (const slice of slices) {
    const angle = (slice.start + slice.end) / 2;
    const [dx, dy] = [Math.abs(Math.cos(angle)), Math.abs(Math.sin(angle))];
    const lines = wrapped(slice.name, width < NARROW ? 11 : 18);
    const wide = Math.max(...lines.map((line) => context.measureText(line).width)) + 4;
    if (dx > 0.25) radius = Math.min(radius, (width / 2 - wide) / dx - 19);
    if (dy > 0.25) radius = Math.min(radius, (height / 2 - 16 * lines.length) / dy - 19);
  }
  return Math.max(60, radius);
}

// The name of each slice outside its arc; a name that would lie on another is left out (the list has them all).
export function paintArcs(context, slices, circle, palette) {
  const narrow = context.canvas.clientWidth < NARROW;
  const taken = [];
  context.strokeStyle = palette.line;
  context.lineWidth = 2;
  context.font = FONT;
  context.textBaseline = "middle";
  for (const slice of slices) {
    context.beginPath();
    context.arc(circle.x, circle.y, circle.radius + 11, -slice.start, -slice.end);
    context.stroke();
  }
  context.fillStyle = palette.muted;
  for (const slice of slices) {
    const angle = (slice.start + slice.end) / 2;
    const lines = wrapped(slice.name, narrow ? 11 : 18);
    const [dx, dy] = [Math.cos(angle), -Math.sin(angle)];
    const x = circle.x + dx * (circle.radius + 19);
    const y = circle.y + dy * (circle.radius + 19) + dy * 6 * lines.length - ((lines.length - 1) * 15) / 2;
    context.textAlign = dx > 0.25 ? "left" : dx < -0.25 ? "right" : "center";
    const width = Math.max(...lines.map((line) => context.measureText(line).width));
    const left = context.textAlign === "left" ? x : context.textAlign === "right" ? x - width : x - width / 2;
    const box = [left - 4, y - 9, left + width + 4, y + 15 * lines.length - 6];
    if (taken.some((other) => overlap(box, other))) continue;
    taken.push(box);
    lines.forEach((line, number) => context.fillText(line, x, y + 15 * number));
  }
}

function overlap(one, other) {
  return one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
}

function wrapped(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    if (line && line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines.slice(0, 3).map((line) => (line.length > width + 6 ? `${line.slice(0, width + 5)}…` : line));
}

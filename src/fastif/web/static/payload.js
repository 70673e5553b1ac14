// The data of the page: a JSON head and typed arrays behind it (web/packed.py), read as views and never parsed.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
const NOTHING = 0xffff;

export async function loadPayload() {
  const embedded = document.getElementById("payload");
  if (!embedded) {
    const answer = await fetch("data");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const run = new Run(await answer.arrayBuffer());
    run.served = true; // there is somebody to ask
    return run;
  }
  const packed = fromBase64(embedded.textContent);
  embedded.remove(); // the text is as large as the data, and is not needed again
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Run(await new Response(stream).arrayBuffer());
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

// Everything known of a run. A training example is told by its node: its number among those that the page has.
class Run {
  constructor(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    this.head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const first = Math.ceil((4 + length) / 8) * 8;
    for (const [name, place] of Object.entries(this.head.arrays)) {
      this[name] = new KINDS[place.type](buffer, first + place.start, place.length);
    }
    this.queries = this.head.queries;
    this.edges = this.edge_value.length;
    this.nodes = this.train_id.length;
    this.ofQuery = grouped(this.edge_query, this.queries.length);
    this.ofTrain = grouped(this.edge_train, this.nodes);
    this.decoder = new TextDecoder();
  }

  // The edges of a query, or of a node, as their numbers, the strongest first.
  edgesOf(query) {
    return this.ofQuery.members.subarray(this.ofQuery.starts[query], this.ofQuery.starts[query + 1]);
  }

  edgesOfTrain(node) {
    return this.ofTrain.members.subarray(this.ofTrain.starts[node], this.ofTrain.starts[node + 1]);
  }

  touched(node) {
    return this.ofTrain.starts[node + 1] - this.ofTrain.starts[node];
  }

  text(node) {
    return this.piece(2 * node);
  }

  pair(node) {
    return this.piece(2 * node + 1);
  }

  piece(at) {
    if (this.head.redacted) return "";
    return this.decoder.decode(this.text_bytes.subarray(this.text_starts[at], this.text_starts[at + 1]));
  }

  label(node) {
    const number = this.train_label[node];
    return number === NOTHING ? null : this.head.labels[number];
  }

  slice(node) {
    const number = this.train_slice[node];
    return number === NOTHING ? null : this.head.train_slices[number];
  }

  // The helpful and the harmful edges of a query, the strongest first.
  split(query) {
    const both = { helpful: [], harmful: [] };
    for (const edge of this.edgesOf(query)) both[this.edge_value[edge] < 0 ? "helpful" : "harmful"].push(edge);
    return both;
  }
}

// For each of `count` groups its members in their order, in one array with the places where groups start.
function grouped(of, total) {
  const starts = new Uint32Array(total + 1);
  for (let at = 0; at < of.length; at += 1) starts[of[at] + 1] += 1;
  for (let at = 0; at < total; at += 1) starts[at + 1] += starts[at];
  const next = starts.slice(0, total);
  const members = new Uint32Array(of.length);
  for (let at = 0; at < of.length; at += 1) members[next[of[at]]++] = at;
  return { starts, members };
}

// Elements from plain data. Text goes in as text alone: nothing here or elsewhere in the page reads a string as HTML,
// as texts, labels and names come from data that anybody may have written.

export function el(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child); // a string becomes a text node
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// Words for a screen reader; with `seen`, what an act came to, for everybody to see for a while.
export function say(words, seen = false) {
  const status = byId("status");
  status.textContent = words;
  status.className = seen ? "toast" : "visually-hidden";
  clearTimeout(say.timer);
  if (seen) say.timer = setTimeout(() => say(""), 6000);
}

export function choice(label, options, value, onChange) {
  const select = el("select", { "aria-label": label, on: { change: (event) => onChange(event.target.value) } });
  for (const [name, words] of options) select.append(el("option", { value: name, text: words }));
  select.value = value;
  return el("label", { class: "field" }, el("span", { text: label }), select);
}

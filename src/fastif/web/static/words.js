// Words and numbers as people read them: formats, the glossary, and which words two texts share.

export const GLOSSARY = [
  ["Prediction", "What the model said of one evaluation text; here every prediction is a point on the outer ring."],
  ["Influence", "How much one training example moved one prediction, to first order, had it weighed a little more in training."],
  ["Helpful", "A training example that lowered the loss of this prediction's label: it pushed the model towards it. Blue, solid."],
  ["Harmful", "A training example that raised that loss: it pushed the model away from the label. Orange."],
  ["Edge", "A line from a training example to a prediction that it moved; the wider, the stronger."],
  ["Slice", "A part of the evaluation texts with a name, such as a topic or a kind of question."],
  ["Loss", "How badly the model's answer fits a label; zero is a perfect and certain answer."],
  ["Sure", "The probability that the model gives to the class that it predicts."],
  ["Standard error", "How far a score would vary if the solver's random draws were made anew; known where it repeats them."],
  ["Touches", "How many other predictions this training example is among the strongest for, of those on this page."],
  ["Loss if left out", "How badly the model would fit an example's label had it not been trained on that example."],
  ["Change without it", "What the loss of this prediction would do, to first order, had the model been trained without that example."],
  ["Correlation of slices", "Whether training examples move two slices alike (1), unalike (-1) or independently (0)."],
  ["Damping", "A number added to the curvature of the loss so that it can be inverted; more of it is more cautious."],
  ["Residual", "How far the numerical solve is from exact; below 0.01 the ranking hardly changes."],
  ["Candidates", "The training examples that were scored; where these are not all, the recall says what may be missing."],
  ["Own loss", "How badly the model fits a training example itself; a high one may be a wrong label."],
  ["Mark", "Your verdict on a training example: keep it, remove it, or give it another label."],
];

const STOP = new Set(
  "a an and are as at be but by for from had has have he her his i in is it its of on or she so that the their they this to was we were will with you".split(" "),
);
const WORD = /[\p{L}\p{N}']+/gu;

export function contentWords(...texts) {
  const found = new Set();
  for (const text of texts) {
    for (const [word] of (text || "").toLowerCase().matchAll(WORD)) if (!STOP.has(word)) found.add(word);
  }
  return found;
}

// A list of [piece, isShared] whose pieces make up the text.
export function markShared(text, shared) {
  const pieces = [];
  let end = 0;
  for (const found of text.matchAll(WORD)) {
    if (!shared.has(found[0].toLowerCase())) continue;
    if (found.index > end) pieces.push([text.slice(end, found.index), false]);
    pieces.push([found[0], true]);
    end = found.index + found[0].length;
  }
  if (end < text.length) pieces.push([text.slice(end), false]);
  return pieces;
}

export function number(value, digits = 3) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(digits - 1);
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

export function signed(value, digits = 2) {
  return (value > 0 ? "+" : value < 0 ? "−" : "") + number(Math.abs(value), digits);
}

export function count(value) {
  return value.toLocaleString("en");
}

export function share(value) {
  return `${Math.round(100 * value)}\u00a0%`;
}

export function exactShare(value) {
  return `${(100 * value).toFixed(1)}\u00a0%`;
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function short(text, length = 90) {
  return text.length > length ? `${text.slice(0, length - 1).trimEnd()}…` : text;
}

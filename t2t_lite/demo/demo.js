/* Translates while the user types. One request at a time is under way; an answer to a text that has changed meanwhile
   is thrown away. All text becomes text nodes. */
const WAIT = 250; // milliseconds without a key before the text is sent
const find = (selector) => document.querySelector(selector);
const [box, result, status, nbest, attention] =
  ["#text", "#translation", "#status", "#nbest", "#attention"].map(find);

let busy = false;
let timer = 0;
let translated = ""; // the text whose translations are shown
let outputs = []; // of its lines: [{text, score}, ...], best first
let chosen = 0; // which of the n best
let attended = null; // the line whose attention is in `weights`
let weights = null;
let showing = null; // tells what the drawing shows, so that the next one shows the same

const make = (tag, properties, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

const ask = async (path, data) => {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) };
  let response;
  try {
    response = await fetch(path, data && post);
  } catch {
    throw new Error("t2t-lite-demo does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({})); // not JSON: the words of another server
  if (!response.ok) throw new Error(answer.error ?? `${response.status} ${response.statusText}`);
  return answer;
};

const tell = (message, failed) => {
  status.textContent = message;
  status.classList.toggle("failed", failed);
  status.setAttribute("role", failed ? "alert" : "none"); // nobody wants to hear how long each answer took
};

/* The line that the caret is in: its n-best list and attention are shown. */
const line = () => Math.min(box.value.slice(0, box.selectionStart).split("\n").length, outputs.length) - 1;
const sentence = () => translated.split("\n")[line()] ?? "";

const showTranslations = () => {
  const current = line();
  chosen = 0;
  attended = null;
  const className = (i) => (i === current && outputs.length > 1 ? "current" : "");
  result.replaceChildren(...outputs.map(([{ text }], i) => make("p", { className: className(i) }, text)));
  const found = sentence().trim() ? outputs[current] : [];
  nbest.hidden = found.length < 2;
  nbest.querySelector("ol").replaceChildren(
    ...found.map(({ text, score }, i) => {
      const input = make("input", { type: "radio", name: "nbest", checked: i === 0 });
      input.addEventListener("change", () => choose(i));
      const number = score === null ? "–" : score.toFixed(3).replace("-", "−");
      const label = make("label", {}, input, make("span", { dir: "auto" }, text || "(nothing)"));
      label.append(make("span", { className: "score" }, number));
      return make("li", {}, label);
    }),
  );
};

const showAttention = (message) => {
  const [caption, drawing] = attention.querySelectorAll("p, div");
  const translation = weights?.translations[chosen] ?? weights?.translations[0];
  caption.textContent = message ?? (translation ? `${weights.text} → ${translation.text}` : "Type a sentence first.");
  if (!translation) drawing.replaceChildren();
  else showing = drawAttention(drawing, { ...weights, translations: [translation] }, showing?.());
};

const choose = (which) => {
  chosen = which;
  const text = outputs[line()][chosen].text;
  result.children[line()].textContent = text;
  if (weights) showAttention();
};

const translate = async (text) => {
  result.classList.add("old");
  try {
    const answer = text.trim() ? await ask("translate", { text }) : { outputs: [] };
    if (text !== box.value) return;
    outputs = answer.outputs;
    tell(answer.seconds === undefined ? "" : `${answer.seconds.toFixed(2)} s`, false);
  } catch (error) {
    if (text !== box.value) return;
    outputs = [];
    tell(error.message, true);
  }
  translated = text;
  showTranslations();
  result.classList.remove("old");
};

const attend = async (text) => {
  let message;
  weights = null;
  try {
    if (text.trim()) weights = await ask("attention", { text });
  } catch (error) {
    message = error.message;
  }
  attended = text;
  if (text === sentence()) showAttention(message);
};

/* Does what is left to do, one thing after the other. */
const work = async () => {
  if (busy) return;
  busy = true;
  try {
    for (;;) {
      if (box.value !== translated) await translate(box.value);
      else if (attention.open && sentence() !== attended) await attend(sentence());
      else break;
    }
  } finally {
    busy = false;
  }
};

const language = (code) => {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code; // a name of the problem's own
  }
};

const showCard = ({ card }) => {
  const { source_language: source, target_language: target } = card.problem ?? {};
  if (source && target) {
    document.title = find("h1").textContent = `${language(source)} → ${language(target)}`;
    find("#source").textContent = language(source);
    find("#target").textContent = language(target);
    box.lang = source;
    result.lang = target;
  } else document.title = find("h1").textContent = card.problem?.name ?? card.model;
  const about = [card.problem?.name, card.hparams_set, card.checkpoint, card.server];
  if (card.parameters) about.push(`${(card.parameters / 1e6).toFixed(1)} million parameters`);
  find("#about").textContent = about.filter(Boolean).join(" · ");
  find("#card div").append(facts(card));
};

const facts = (value) => {
  if (value === null || typeof value !== "object") return `${value ?? "–"}`;
  const entries = Object.entries(value);
  if (!entries.length) return "–";
  const rows = entries.map(([name, inner]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, facts(inner))),
  );
  return make("dl", { className: entries.length > 12 ? "many" : "" }, ...rows);
};

box.addEventListener("input", () => {
  result.classList.add("old");
  clearTimeout(timer);
  timer = setTimeout(work, WAIT);
});
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== box || box.value !== translated) return;
  if (result.children[line()]?.className === "" && outputs.length > 1) {
    showTranslations();
    work();
  }
});
attention.addEventListener("toggle", work);

box.value = new URLSearchParams(location.hash.slice(1)).get("text") ?? box.value;
ask("card")
  .then(showCard)
  .catch((error) => tell(error.message, true))
  .then(work);

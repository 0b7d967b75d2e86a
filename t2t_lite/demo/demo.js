/* Translates while the user types. One request at a time is under way; an answer to a text that has changed meanwhile
   is thrown away. All text becomes text nodes. */
import { describe, languageName, make } from "./card.js";

const WAIT = 250; // milliseconds without a key before the text is sent
const LEAST = 12; // characters of a sentence; less may be an abbreviation
const find = (selector) => document.querySelector(selector);
const [box, result, status, nbest, attention, copy, hint, language] =
  ["#text", "#translation", "#status", "#nbest", "#attention", "#copy", "#hint", "#language"].map(find);

let busy = false;
let timer = 0;
let translated = ""; // the text, as it was sent, whose translations are shown
let outputs = []; // of its lines: [{text, score}, ...], best first
let choices = []; // of its lines: which of the n best was chosen, if one was
let attended = null; // the line whose attention is in `weights`
let weights = null;
let showing = null; // says what the drawing shows, so that the next one shows the same
let segmenter = null; // finds the sentences of a line; null in browsers without one

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

/* The text as the model takes it: each line after the label of the chosen language, unless it has one of its own. */
const asked = () => {
  if (!language.value) return box.value;
  const labels = [...language.options].map((option) => option.value);
  const bare = (text) => text.trim() && !labels.some((label) => text.startsWith(label));
  return box.value.split("\n").map((text) => (bare(text) ? `${language.value} ${text}` : text)).join("\n");
};

/* The line that the caret is in: its n-best list and attention are shown. */
const line = () => Math.min(box.value.slice(0, box.selectionStart).split("\n").length, outputs.length) - 1;
const chosen = (i = line()) => choices[i] ?? 0;
const sentence = () => translated.split("\n")[line()] ?? "";

const showTranslations = () => {
  const current = line();
  attended = null;
  const className = (i) => (i === current && outputs.length > 1 ? "current" : "");
  result.replaceChildren(...outputs.map((n, i) => make("p", { className: className(i) }, n[chosen(i)].text)));
  copy.hidden = !outputs.some(([{ text }]) => text);
  const found = sentence().trim() ? outputs[current] : [];
  nbest.hidden = found.length < 2;
  nbest.querySelector("ol").replaceChildren(
    ...found.map(({ text, score }, i) => {
      const input = make("input", { type: "radio", name: "nbest", checked: i === chosen() });
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
  const translation = weights?.translations[chosen()] ?? weights?.translations[0];
  caption.textContent = message ?? (translation ? `${weights.text} → ${translation.text}` : "Type a sentence first.");
  if (!translation) drawing.replaceChildren();
  else showing = drawAttention(drawing, { ...weights, translations: [translation] }, showing?.() ?? weights.show);
};

const choose = (which) => {
  choices[line()] = which;
  result.children[line()].textContent = outputs[line()][which].text;
  if (weights) showAttention();
};

const translate = async (text) => {
  result.classList.add("old");
  try {
    const answer = text.trim() ? await ask("translate", { text }) : { outputs: [] };
    if (text !== asked()) return;
    outputs = answer.outputs;
    tell(answer.seconds === undefined ? "" : `${answer.seconds.toFixed(2)} s`, false);
  } catch (error) {
    if (text !== asked()) return;
    outputs = [];
    tell(error.message, true);
  }
  translated = text;
  choices = [];
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
      if (asked() !== translated) await translate(asked());
      else if (attention.open && sentence() !== attended) await attend(sentence());
      else break;
    }
  } finally {
    busy = false;
  }
};

const sentenceSegmenter = (language) => {
  const sentence = { granularity: "sentence" };
  if (!Intl.Segmenter) return null;
  try {
    return new Intl.Segmenter(language, sentence);
  } catch {
    return new Intl.Segmenter("en", sentence); // the language has a name of the problem's own
  }
};

/* The sentences of a line. A piece as short as an abbreviation is no sentence: it stays with what follows. */
const sentences = (text) => {
  const found = [""];
  for (const { segment } of segmenter?.segment(text) ?? [{ segment: text }]) {
    if (found.at(-1).trim().length >= LEAST) found.push("");
    found[found.length - 1] += segment;
  }
  if (found.length > 1 && found.at(-1).trim().length < LEAST) found.push(found.splice(-2).join(""));
  return found.map((part) => part.trim());
};

/* A model has learnt from single sentences: of a pasted paragraph it may translate the first one only. */
const showHint = () => {
  const most = Math.max(...box.value.split("\n").map((text) => sentences(text).length));
  hint.hidden = most < 2;
  hint.firstChild.textContent = hint.hidden ? "" : `A line with ${most} sentences is translated as one.`;
};

const breakIntoLines = () => {
  box.value = box.value.split("\n").flatMap(sentences).join("\n");
  box.focus();
  box.dispatchEvent(new Event("input"));
};

const copyTranslation = async () => {
  try {
    await navigator.clipboard.writeText([...result.children].map((node) => node.textContent).join("\n"));
    copy.textContent = "Copied";
  } catch {
    // Browsers give pages from another machine, in plain HTTP, no clipboard.
    getSelection().selectAllChildren(result);
    copy.textContent = "Selected; press Ctrl+C";
  }
  setTimeout(() => (copy.textContent = "Copy"), 2000);
};

const chooseLanguage = () => {
  result.lang = language.value.slice(2, -2); // of >>de<<
  work();
};

const showCard = ({ card, labels }) => {
  const { source_language: source, target_language: target } = card.problem ?? {};
  if (source && target) {
    document.title = find("h1").textContent = `${languageName(source)} → ${languageName(target)}`;
    find("#source").textContent = languageName(source);
    find("#target").textContent = languageName(target);
    box.lang = source;
    result.lang = target;
  } else document.title = find("h1").textContent = card.problem?.name ?? card.model;
  const named = (label) => make("option", { value: label }, languageName(label.slice(2, -2)));
  language.replaceChildren(...labels.map(named));
  find("#languages").hidden = !labels.length;
  if (labels.length) result.lang = language.value.slice(2, -2);
  segmenter = sentenceSegmenter(source);
  const about = [card.problem?.name, card.hparams_set, card.checkpoint, card.server];
  if (card.parameters) about.push(`${(card.parameters / 1e6).toFixed(1)} million parameters`);
  find("#about").textContent = about.filter(Boolean).join(" · ");
  find("#card div").append(...describe(card));
  showHint();
};

box.addEventListener("input", () => {
  result.classList.add("old");
  showHint();
  clearTimeout(timer);
  timer = setTimeout(work, WAIT);
});
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== box || asked() !== translated) return;
  if (result.children[line()]?.className === "" && outputs.length > 1) {
    showTranslations();
    work();
  }
});
attention.addEventListener("toggle", work);
language.addEventListener("change", chooseLanguage);
copy.addEventListener("click", copyTranslation);
hint.querySelector("button").addEventListener("click", breakIntoLines);

box.value = new URLSearchParams(location.hash.slice(1)).get("text") ?? box.value;
ask("card")
  .then(showCard)
  .catch((error) => tell(error.message, true))
  .then(work);

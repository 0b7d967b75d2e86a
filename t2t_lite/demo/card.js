/* The model card as a person reads it. All text becomes text nodes. */
const SECTIONS = { training_data: "Training data", vocabularies: "Vocabularies", versions: "Versions" };
const ABOUT = ["made_by", "date", "model", "parameters", "hparams_set", "checkpoint", "step", "server"];

export const make = (tag, properties, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

export const languageName = (code) => {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code; // a name of the problem's own
  }
};

/* "made_by" -> "Made by" */
const title = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");

const shown = (value) => {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "number" && Number.isInteger(value) ? value.toLocaleString("en") : `${value}`;
};

/* {a: {b_c: 1}} -> [["a b c", 1]] */
const flat = (value, before = "") =>
  Object.entries(value).flatMap(([name, inner]) =>
    inner && typeof inner === "object" ? flat(inner, `${before}${name} `) : [[`${before}${name.replaceAll("_", " ")}`, inner]],
  );

const list = (rows, className = "") =>
  make("dl", { className }, ...rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));

/* One row for each score, one column for each thing that is known of them. */
const scoreTable = (scores) => {
  const names = [...new Set(scores.flatMap(Object.keys))];
  const cell = (value) => (typeof value === "number" ? value.toFixed(2) : shown(value));
  const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, {}, text)));
  const head = make("thead", {}, cells("th", names.map(title)));
  const body = make("tbody", {}, ...scores.map((score) => cells("td", names.map((name) => cell(score[name])))));
  return make("div", { className: "wide", tabIndex: 0 }, make("table", {}, head, body));
};

const section = (name, ...nodes) => [make("h3", {}, name), ...nodes];

/* Returns the nodes that describe `card`; what is not known by name here comes last. */
export const describe = (card) => {
  const { problem, scores, hparams, licence, training_data: data, ...rest } = card;
  const rows = ABOUT.filter((name) => name in rest).map((name) => [title(name), shown(rest[name])]);
  if (problem?.source_language)
    rows.unshift(["Languages", `${languageName(problem.source_language)} → ${languageName(problem.target_language)}`]);
  if (problem?.name) rows.unshift(["Problem", [problem.name, problem.description].filter(Boolean).join(": ")]);
  const nodes = [list(rows)];
  if (scores) nodes.push(...section("Scores", scores.length ? scoreTable(scores) : make("p", {}, "Not scored.")));
  if (data) rest.training_data = { ...data.options, pairs: data.pairs };
  for (const [name, value] of Object.entries(rest)) {
    if (ABOUT.includes(name)) continue;
    const facts = value && typeof value === "object" ? flat(value) : [["", value]];
    if (facts.length) nodes.push(...section(SECTIONS[name] ?? title(name), list(facts.map(([n, v]) => [n, shown(v)]))));
  }
  if (hparams) {
    const settings = Object.entries(hparams).map(([name, value]) => [name, shown(value)]);
    const summary = make("summary", {}, `All ${settings.length} settings of the recipe`);
    nodes.push(make("details", {}, summary, list(settings, "many")));
  }
  if (licence) nodes.push(...section("Licence", make("p", {}, licence)));
  return nodes;
};

/* What all views of the attention are made of. */
const attentionParts = (() => {
  "use strict";

  const START = "⟨start⟩";

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "g", "path", "rect", "text"].includes(tag);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children); // text becomes text nodes
    return node;
  }

  /* A row of radio buttons. options: {value: text}. */
  function choice(title, name, options, changed) {
    const labels = Object.entries(options).map(([value, text]) => {
      const input = make("input", { type: "radio", name, value });
      input.addEventListener("change", () => changed(value));
      return make("label", {}, input, make("span", {}, text));
    });
    return make("fieldset", { class: "choice" }, make("legend", {}, title), make("div", {}, ...labels));
  }

  /* Pointing at a button, or reaching it by the keyboard, calls `on`; leaving it calls `off`. */
  function whenPointedAt(button, on, off) {
    button.addEventListener("mouseover", on);
    button.addEventListener("mouseout", off);
    button.addEventListener("focus", () => button.matches(":focus-visible") && on());
    button.addEventListener("blur", off);
  }

  function label(piece) {
    if (piece === "</s>") return "⟨end⟩";
    if (piece === "▁") return "␣";
    if (piece === START) return piece;
    return piece.startsWith("▁") ? piece.slice(1) : "·" + piece;
  }

  function number(value, digits = 2) {
    return value.toFixed(digits).replace("-", "−");
  }

  return { START, make, choice, whenPointedAt, label, number };
})();

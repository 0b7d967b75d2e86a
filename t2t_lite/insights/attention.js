/* Draws the attention of a model. One function without dependencies; it loads nothing and makes no HTML of text.

   drawAttention(element, data, show)

   data = {
     source:  ["▁A", "▁dog", ..., "</s>"],   the S pieces that the encoder reads; "▁" begins a word
     encoder: [layer][head][S][S],           weights from 0 to 1, each innermost row sums to 1, or is zeros
     translations: [{                        at least one, best first
       text: "Ein Hund ...",
       score: -0.41,                         null: the translation was given, not found
       target:  ["▁Ein", ..., "</s>"],       the T pieces that the decoder writes
       decoder: [layer][head][T][T],         row t: the step that writes target[t]; column j: its input target[j - 1],
                                             column 0: the start symbol
       memory:  [layer][head][T][S],         row t: the same step, over the source
     }, ...],
   }
   show = {attention: "memory", layer: 1, heads: [1, 2], view: "lines"}
                                             what is shown at first, each optional; layers and heads count from 1;
                                             attention: memory | encoder | decoder; view: lines | maps | layers
   A model that has no attention of a kind leaves `encoder`, `decoder` or `memory` out. The kinds that there are have the
   same layers and heads.

   Returns a function that tells what is shown now, as `show`: to draw other data in the same way.
*/
const drawAttention = (() => {
  "use strict";

  const { START, make, choice, whenPointedAt, number } = attentionParts;
  const KINDS = { memory: "Encoder–decoder", encoder: "Encoder", decoder: "Decoder" };
  const VIEWS = { lines: "Lines", maps: "Heat maps", layers: "All layers" };
  const CLASSES = { lines: AttentionLines, maps: AttentionMaps, layers: AttentionLayers };
  let drawings = 0; // radio buttons of different drawings need different names

  /* What is chosen, and the view of it: an object with `nodes`, and `draw(heads)` for all that hovering changes. */
  class Drawing {
    constructor(element, data, show) {
      this.data = data;
      this.name = `attention-${++drawings}`;
      this.translation = data.translations[0];
      this.kinds = Object.keys(KINDS).filter((kind) => this.weightsOf(kind));
      this.kind = show.attention ?? this.kinds[0];
      this.view = show.view ?? "lines";
      this.layer = (show.layer ?? this.allWeights().length) - 1;
      this.numHeads = this.allWeights()[0].length;
      this.heads = new Set(show.heads?.map((head) => head - 1) ?? this.allHeads());
      this.hoveredHead = null;
      this.root = make("section", { class: "attention", "aria-label": "Attention" });
      this.root.style.setProperty("--heads", this.numHeads);
      this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.shown.pin?.(null));
      this.choosers = this.makeChoosers();
      this.headButtons = this.allHeads().map((head) => this.headButton(head));
      this.stage = make("div");
      this.readout = make("p", { class: "readout", "aria-live": "polite" });
      const controls = make("div", { class: "controls" }, ...Object.values(this.choosers), this.headChooser());
      this.root.append(this.translations(), controls, this.readout, this.stage);
      element.replaceChildren(this.root);
      this.render();
    }

    allHeads() {
      return [...Array(this.numHeads).keys()];
    }

    /* [layer][head][query][key], or undefined */
    weightsOf(kind) {
      return kind === "encoder" ? this.data.encoder : this.translation[kind];
    }

    allWeights() {
      return this.weightsOf(this.kind);
    }

    /* [head][query][key] */
    weights() {
      return this.allWeights()[this.layer];
    }

    tokens(side) {
      const { source } = this.data;
      const { target } = this.translation;
      if (side === "queries") return this.kind === "encoder" ? source : target;
      return this.kind === "decoder" ? [START, ...target.slice(0, -1)] : source;
    }

    translations() {
      const rows = this.data.translations.map((translation, i) => {
        const input = make("input", { type: "radio", name: `${this.name}-translation` });
        input.checked = i === 0;
        input.addEventListener("change", () => this.set({ translation }));
        const score = translation.score === null ? "given" : number(translation.score, 3);
        const text = make("span", { class: "text", dir: "auto" }, translation.text || "(nothing)");
        return make("li", {}, make("label", {}, input, text, make("span", { class: "score" }, score)));
      });
      const title = "Translations, best first, with log-probability / length penalty";
      return make("ol", { class: "translations", "aria-label": title, title }, ...rows);
    }

    makeChoosers() {
      const chooser = (title, field, options) =>
        choice(title, `${this.name}-${field}`, options, (value) => this.set({ [field]: value }));
      const deepest = Math.max(...this.kinds.map((kind) => this.weightsOf(kind).length));
      const layers = [...Array(deepest).keys()].map((i) => [i, i + 1]);
      return {
        kind: chooser("Attention", "kind", Object.fromEntries(this.kinds.map((kind) => [kind, KINDS[kind]]))),
        view: chooser("View", "view", VIEWS),
        layer: chooser("Layer", "layer", Object.fromEntries(layers)),
      };
    }

    headChooser() {
      const all = make("button", { type: "button", class: "all" }, "All");
      all.addEventListener("click", () => this.choose(this.allHeads()));
      const buttons = make("div", {}, ...this.headButtons, all);
      return make("fieldset", { class: "heads" }, make("legend", {}, "Heads"), buttons);
    }

    headButton(head) {
      const title = "Click: show or hide. Double click: this head alone.";
      const button = make("button", { type: "button", class: "head", title, "aria-label": `Head ${head + 1}` });
      button.append(make("i"), `${head + 1}`);
      this.colour(button, head);
      const pointAt = (which) => {
        this.hoveredHead = which;
        this.draw();
      };
      whenPointedAt(button, () => pointAt(head), () => pointAt(null));
      button.addEventListener("click", () => this.toggle(head));
      button.addEventListener("dblclick", () => this.choose([head]));
      return button;
    }

    colour(node, head) {
      node.style.setProperty("--hue", `${Math.round((360 * head) / this.numHeads + 25)}`);
    }

    toggle(head) {
      const heads = new Set(this.heads);
      if (!heads.delete(head)) heads.add(head);
      this.choose(heads);
    }

    choose(heads) {
      this.heads = new Set(heads);
      this.hoveredHead = null; // what the click did shows at once
      this.draw();
    }

    set(changes) {
      Object.assign(this, { hoveredHead: null }, changes);
      this.layer = Math.min(this.layer, this.allWeights().length - 1); // encoder and decoder may differ in depth
      this.render();
    }

    say(text) {
      this.readout.textContent = text;
    }

    render() {
      for (const [field, chooser] of Object.entries(this.choosers))
        for (const input of chooser.querySelectorAll("input")) input.checked = input.value === String(this[field]);
      for (const input of this.choosers.layer.querySelectorAll("input"))
        input.parentNode.hidden = Number(input.value) >= this.allWeights().length;
      this.choosers.layer.hidden = this.view === "layers";
      this.shown = new CLASSES[this.view](this);
      this.stage.className = `stage ${this.view}`;
      if (this.view === "maps") this.stage.tabIndex = 0; // the maps hold no buttons: the keyboard scrolls the stage
      else this.stage.removeAttribute("tabindex");
      this.stage.replaceChildren(...this.shown.nodes);
      this.draw();
    }

    show() {
      const heads = [...this.heads].map((head) => head + 1);
      return { attention: this.kind, layer: this.layer + 1, heads, view: this.view };
    }

    /* Everything that hovering changes. */
    draw() {
      const heads = this.hoveredHead === null ? [...this.heads].sort((a, b) => a - b) : [this.hoveredHead];
      this.headButtons.forEach((button, head) => {
        button.setAttribute("aria-pressed", this.heads.has(head));
        button.classList.toggle("dim", !heads.includes(head));
      });
      this.shown.draw(heads);
    }
  }

  return (element, data, show = {}) => {
    const drawing = new Drawing(element, data, show);
    return () => drawing.show();
  };
})();

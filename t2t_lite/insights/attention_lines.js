/* The view "lines": two columns of tokens and a line for each weight between them, as in the paper's Figures 3-5. */
const AttentionLines = (() => {
  "use strict";

  const { make, whenPointedAt, label, number } = attentionParts;
  const ROW = 26; // pixels, height of a token
  const LEAST = 0.02; // weights below are not drawn
  const HINT = "Point at a token or a head to see it alone. A click keeps a token, and switches a head off or on.";
  // The left column first.
  const TITLES = {
    memory: { keys: "The source …", queries: "… is looked at to write each token" },
    encoder: { queries: "Each token of the source …", keys: "… looks at the whole source" },
    decoder: { queries: "To write each token …", keys: "… the decoder looks at what it has read" },
  };
  const OTHER = { queries: "keys", keys: "queries" };

  return class {
    constructor(drawing) {
      this.drawing = drawing;
      this.token = this.pinned = null; // {side: "queries" | "keys", index}
      this.columns = { queries: this.buttons("queries"), keys: this.buttons("keys") };
      const height = ROW * Math.max(this.columns.queries.length, this.columns.keys.length);
      this.svg = make("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
      this.svg.style.height = `${height}px`;
      const sides = Object.entries(TITLES[drawing.kind]);
      this.leftSide = sides[0][0];
      const [left, right] = sides.map(([side, title]) => {
        const tokens = make("div", { role: "toolbar", "aria-label": title }, ...this.columns[side]);
        const place = side === this.leftSide ? "left" : "right";
        const heading = make("div", { class: "title", "aria-hidden": "true" }, title); // the toolbar has it as its label
        return make("div", { class: `column ${place}` }, heading, tokens);
      });
      this.nodes = [left, this.svg, right];
    }

    buttons(side) {
      return this.drawing.tokens(side).map((piece, index) => {
        const token = { side, index };
        const button = make("button", { type: "button", class: "token", tabindex: index ? -1 : 0 });
        button.style.height = `${ROW}px`;
        button.append(make("span", { dir: "auto" }, label(piece)), make("span", { class: "weight" }));
        const pointAt = (which) => {
          this.token = which;
          this.drawing.draw();
        };
        whenPointedAt(button, () => pointAt(token), () => pointAt(null));
        button.addEventListener("click", () => this.pin(this.isPinned(token) ? null : token));
        button.addEventListener("keydown", (event) => this.move(event, token));
        return button;
      });
    }

    pin(token) {
      this.pinned = token;
      this.token = null;
      this.drawing.draw();
    }

    isPinned({ side, index }) {
      return this.pinned?.side === side && this.pinned.index === index;
    }

    /* Arrow keys walk through the tokens of both columns. */
    move(event, { side, index }) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] ?? 0;
      const across = ["ArrowLeft", "ArrowRight"].includes(event.key);
      if (!step && !across) return;
      event.preventDefault();
      const column = this.columns[across ? OTHER[side] : side];
      const next = column[Math.max(0, Math.min(index + step, column.length - 1))];
      for (const button of column) button.tabIndex = button === next ? 0 : -1;
      next.focus();
    }

    draw(heads) {
      const token = this.token ?? this.pinned;
      const spread = Math.min(3, (0.6 * ROW) / heads.length); // heads that agree make a ribbon
      this.svg.replaceChildren(
        ...heads.map((head, rank) => this.group(head, token, spread, (rank - (heads.length - 1) / 2) * spread)),
      );
      const weights = token && this.meanWeights(token, heads);
      for (const [side, column] of Object.entries(this.columns))
        column.forEach((button, index) => {
          const weight = weights && token.side !== side ? weights[index] : 0;
          button.style.setProperty("--weight", number(weight));
          button.lastChild.textContent = weight >= LEAST ? number(weight) : "";
          button.classList.toggle("isolated", token?.side === side && token.index === index);
          button.setAttribute("aria-pressed", this.isPinned({ side, index }));
        });
      this.drawing.say(token ? this.sentence(token, weights, heads) : HINT);
    }

    /* The lines of one head, `shift` pixels below the middle of their tokens; of one token only, unless it is null. */
    group(head, token, spread, shift) {
      const group = make("g", { class: "head" });
      this.drawing.colour(group, head);
      const height = (row) => (row + 0.5) * ROW + shift;
      this.drawing.weights()[head].forEach((row, query) =>
        row.forEach((weight, key) => {
          if (weight < LEAST || (token && token.index !== (token.side === "queries" ? query : key))) return;
          const [from, to] = (this.leftSide === "keys" ? [key, query] : [query, key]).map(height);
          const d = `M0 ${from}C35 ${from} 65 ${to} 100 ${to}`;
          const strength = { "stroke-opacity": number(weight), "stroke-width": number(1 + spread * weight) };
          group.append(make("path", { d, ...strength }));
        }),
      );
      return group;
    }

    /* The weight between each token of the other side and this one, averaged over the heads. */
    meanWeights({ side, index }, heads) {
      const weights = this.drawing.weights();
      return this.columns[OTHER[side]].map((_, i) => {
        const weight = (head) => (side === "queries" ? weights[head][index][i] : weights[head][i][index]);
        return heads.reduce((sum, head) => sum + weight(head), 0) / Math.max(heads.length, 1);
      });
    }

    sentence({ side, index }, weights, heads) {
      const others = this.drawing.tokens(OTHER[side]);
      const best = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]);
      const strong = best.slice(0, 4).filter(([weight]) => weight >= LEAST);
      const list = strong.map(([weight, i]) => `${label(others[i])} ${number(weight)}`);
      const who = heads.length === 1 ? `head ${heads[0] + 1}` : `mean of ${heads.length} heads`;
      const verb = side === "queries" ? "looks at" : "is looked at by";
      const what = list.join(", ") || "nothing in particular";
      return `${label(this.drawing.tokens(side)[index])} ${verb} ${what} (${who})`;
    }
  };
})();

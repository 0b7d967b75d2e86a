/* The views "maps", a heat map for each head of a layer, and "layers", a small one for each layer and head. */
const { AttentionMaps, AttentionLayers } = (() => {
  "use strict";

  const { make, label, number } = attentionParts;
  const LEVELS = 25; // shades of a heat map

  function short(piece) {
    const text = label(piece);
    return text.length > 14 ? text.slice(0, 13) + "…" : text;
  }

  /* One head's weights [queries][keys], a path for each shade; the unit is one cell. */
  function map(weights) {
    const paths = Array(LEVELS + 1).fill("");
    weights.forEach((row, y) =>
      row.forEach((weight, x) => {
        paths[Math.round(weight * LEVELS)] += `M${x} ${y}h1v1h-1z`;
      }),
    );
    const back = make("rect", { class: "back", width: weights[0].length, height: weights.length });
    const shades = paths.map((d, i) => make("path", { d, "fill-opacity": i / LEVELS }));
    return make("g", { class: "map" }, back, ...shades.slice(1));
  }

  class Maps {
    constructor(drawing) {
      this.drawing = drawing;
      this.keys = drawing.tokens("keys");
      this.queries = drawing.tokens("queries");
      this.nodes = drawing.weights().map((weights, head) => {
        const caption = make("figcaption", {}, `Head ${head + 1}`);
        return make("figure", {}, caption, this.figure(weights, head));
      });
    }

    draw(heads) {
      this.nodes.forEach((figure, head) => {
        figure.hidden = !this.drawing.heads.has(head) && !heads.includes(head);
        figure.classList.toggle("dim", !heads.includes(head));
      });
      this.drawing.say("Point at a cell.");
    }

    figure(weights, head) {
      const { keys, queries } = this;
      const size = Math.max(11, Math.min(16, Math.floor(560 / keys.length))); // pixels, of a cell
      const margin = 12 + 6.4 * Math.max(...[...keys, ...queries].map((piece) => short(piece).length));
      const width = 1.35 * margin + keys.length * size;
      const height = margin + queries.length * size + 2;
      const place = (i) => margin + (i + 0.5) * size;
      const svg = make("svg", { width, height, class: "head", role: "img", "aria-label": `Head ${head + 1}` });
      this.drawing.colour(svg, head);
      queries.forEach((piece, i) => {
        svg.append(make("text", { x: margin - 6, y: place(i), "text-anchor": "end" }, short(piece)));
      });
      keys.forEach((piece, i) => {
        const transform = `translate(${place(i)} ${margin - 6})rotate(-60)`;
        svg.append(make("text", { transform }, short(piece)));
      });
      const cells = map(weights);
      cells.setAttribute("transform", `translate(${margin} ${margin})scale(${size})`);
      cells.addEventListener("mousemove", (event) => this.point(event, cells, weights, head));
      svg.append(cells);
      return svg;
    }

    point(event, cells, weights, head) {
      const box = cells.getBoundingClientRect();
      const at = (place, length) => Math.max(0, Math.min(Math.floor(place * length), length - 1));
      const key = at((event.clientX - box.left) / box.width, this.keys.length);
      const query = at((event.clientY - box.top) / box.height, this.queries.length);
      const weight = number(weights[query][key]);
      this.drawing.say(`${label(this.queries[query])} looks at ${label(this.keys[key])} ${weight} (head ${head + 1})`);
    }
  }

  class Layers {
    constructor(drawing) {
      this.drawing = drawing;
      this.rows = drawing
        .allWeights()
        .map((heads, layer) => heads.map((weights, head) => this.button(weights, layer, head)));
      this.nodes = this.rows.flatMap((row, layer) => [make("span", {}, `Layer ${layer + 1}`), ...row]);
    }

    draw(heads) {
      for (const row of this.rows)
        row.forEach((button, head) => button.classList.toggle("dim", !heads.includes(head)));
      this.drawing.say("A row for each layer, a column for each head. Click on a map to see its lines.");
    }

    button(weights, layer, head) {
      const viewBox = `0 0 ${weights[0].length} ${weights.length}`;
      const svg = make("svg", { viewBox, preserveAspectRatio: "none", class: "head" }, map(weights));
      this.drawing.colour(svg, head);
      const title = `Layer ${layer + 1}, head ${head + 1}`;
      const button = make("button", { type: "button", title, "aria-label": title }, svg);
      button.addEventListener("click", () => this.drawing.set({ layer, view: "lines", heads: new Set([head]) }));
      return button;
    }
  }

  return { AttentionMaps: Maps, AttentionLayers: Layers };
})();

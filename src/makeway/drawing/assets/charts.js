// Charts over time: frames, steps, lines, legends and what is told under the pointer.

import { element, svg } from "./elements.js";

export const PALETTE = [
  "#3b7dd8",
  "#e0803a",
  "#3fa66b",
  "#b457b0",
  "#c9a227",
  "#2aa5a5",
  "#d0566e",
  "#7a6ad8",
  "#8a9a3b",
  "#5c6b80",
  "#a8653c",
];
export const OTHERS = "#9aa4b2";
export const H = 220,
  LEFT = 46,
  BOTTOM = 20,
  TOP = 8,
  RIGHT = 8;

export function niceMax(value) {
  if (value <= 0) return 1;
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  for (const step of [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

// How to draw on a width: text keeps its size, so a narrow chart has fewer marks, not smaller ones.
export function plot(W) {
  const ticks = W < 420 ? 2 : W < 760 ? 3 : 6;
  const xAt = (i, n) => LEFT + ((W - LEFT - RIGHT) * i) / n;
  const yAt = (v, top) => TOP + (H - TOP - BOTTOM) * (1 - Math.min(v, top * 1.02) / top);

  function frame(top, format, label, name = "chart over time") {
    const node = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": name });
    for (let i = 0; i <= 4; i += 1) {
      const y = TOP + (H - TOP - BOTTOM) * (1 - i / 4);
      node.append(svg("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "grid" }));
      node.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, format((top * i) / 4)));
    }
    for (let i = 0; i <= ticks; i += 1) {
      const anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
      node.append(svg("text", { x: xAt(i, ticks), y: H - 5, "text-anchor": anchor }, label(i / ticks)));
    }
    return node;
  }

  // The outline of a stepped area between `base` and `base + values`.
  function stepPath(values, top, base) {
    const n = values.length;
    let there = "",
      back = "";
    for (let i = 0; i < n; i += 1) {
      const high = yAt(base[i] + values[i], top).toFixed(1),
        low = yAt(base[i], top).toFixed(1);
      const a = xAt(i, n).toFixed(1),
        b = xAt(i + 1, n).toFixed(1);
      there += `${i ? "L" : "M"}${a} ${high}L${b} ${high}`;
      back = `L${b} ${low}L${a} ${low}${back}`;
    }
    return there + back + "Z";
  }

  function linePath(values, top) {
    const n = values.length;
    let path = "";
    values.forEach((v, i) => {
      const y = yAt(v, top).toFixed(1);
      path += `${i ? "L" : "M"}${xAt(i, n).toFixed(1)} ${y}L${xAt(i + 1, n).toFixed(1)} ${y}`;
    });
    return path;
  }

  // Tell of the step under the pointer; a click picks it, where somebody wants to know.
  function hover(node, n, describe, pick) {
    const step = (event) => {
      const box = node.getBoundingClientRect();
      const i = Math.floor(((((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT)) * n);
      return i < 0 || i >= n ? -1 : i;
    };
    node.addEventListener("pointermove", (event) => {
      if (step(event) < 0) hideTip();
      else showTip(event, describe(step(event)));
    });
    node.addEventListener("pointerleave", hideTip);
    if (pick) {
      node.classList.add("picked");
      node.addEventListener("click", (event) => {
        hideTip();
        if (step(event) >= 0) pick(step(event));
      });
    }
    return node;
  }

  // Groups of values, one upon the other.
  function stacked(groups, top, format, label, moment, name, pick) {
    const node = frame(top, format, label, name);
    if (!groups.length) return node;
    const base = groups[0].values.map(() => 0);
    for (const g of groups) {
      node.append(svg("path", { d: stepPath(g.values, top, base), fill: g.colour, opacity: 0.85 }));
      g.values.forEach((v, i) => {
        base[i] += v;
      });
    }
    return hover(
      node,
      base.length,
      (i) =>
        `${moment(i)}\nall: ${format(base[i])}\n` +
        groups
          .filter((g) => g.values[i] > 0.005)
          .map((g) => `${g.name}: ${format(g.values[i])}`)
          .join("\n"),
      pick,
    );
  }

  return { W, xAt, yAt, frame, stepPath, linePath, hover, stacked };
}

export function showTip(event, text) {
  const tip = document.getElementById("tip");
  tip.textContent = text;
  tip.hidden = false;
  const right = event.clientX + 14 + tip.offsetWidth > innerWidth;
  tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 10 : event.clientX + 14)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 6)}px`;
}

export function hideTip() {
  document.getElementById("tip").hidden = true;
}

export function legend(items) {
  const node = element("div", { class: "legend" });
  for (const { name, colour, background } of items) {
    const mark = element("i", { style: `background:${background || colour}` });
    node.append(element("span", {}, mark, name));
  }
  return node;
}

// Who preempted whom: a row for the queue that takes, a column for the one that gives. `href` is
// where a pair leads to, if anywhere.
export function matrix(pairs, href) {
  const takers = [...new Set(pairs.map((p) => p.preemptor))],
    givers = [...new Set(pairs.map((p) => p.victim))];
  const jobs = new Map(pairs.map((p) => [`${p.preemptor}\n${p.victim}`, p.jobs]));
  const most = Math.max(1, ...pairs.map((p) => p.jobs));
  const cell = (taker, giver) => {
    const n = jobs.get(`${taker}\n${giver}`) || 0;
    return element(
      "td",
      { style: n ? `background:rgb(210 31 31 / ${(0.06 + (0.24 * n) / most).toFixed(2)})` : "" },
      n && href ? element("a", { href: href(taker, giver) }, n) : n || "",
    );
  };
  return table(
    ["takes ↓ gives way →", ...givers],
    takers.map((taker) => [taker, ...givers.map((giver) => cell(taker, giver))]),
  );
}

export function table(columns, rows) {
  const head = element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c)));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell) => (cell instanceof Node ? cell : element("td", {}, String(cell))))),
  );
  return element(
    "div",
    { class: "scroll", tabindex: "0" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)),
  );
}

// Draws a sweep out of the data in this page: a heat map for two knobs, a curve for one.
const W = Math.round(Math.max(300, Math.min(640, innerWidth - 60))), HIGH = 300, MARGIN = 84, FOOT = 40, HEAD = 12, EDGE = 16;

function withTip(node, text) {
  node.addEventListener("pointermove", (event) => showTip(event, text));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

const textOf = (figure, v) => (DATA.spans.includes(figure) ? span(v) : Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(1));
const KNOBS = DATA.knobs;
const valuesAt = (point) => KNOBS.map((k, i) => `${k.knob} = ${point.values[i]}`).join("\n");

function describe(point, i, figure) {
  const f = point.figures[figure];
  const trust = f.high > f.low ? ` (95 %: ${textOf(figure, f.low)} to ${textOf(figure, f.high)})` : "";
  return `${valuesAt(point)}\n${figure}: ${DATA.texts[i][figure]}${trust}\n${point.runs} runs`;
}

// --- one knob: a curve with whiskers ---

function curve(figure, chosen, axis) {
  const node = svg("svg", { viewBox: `0 0 ${W} ${HIGH}`, role: "img", class: "narrow" });
  const values = KNOBS[axis].values;
  const most = Math.max(1e-9, ...chosen.map(([p]) => p.figures[figure].high));
  const x = (v) => MARGIN + (W - MARGIN - EDGE) * (values.length > 1 ? values.indexOf(v) / (values.length - 1) : 0.5);
  const y = (v) => HEAD + (HIGH - HEAD - FOOT) * (1 - Math.max(0, v) / most);
  for (let i = 0; i <= 4; i += 1) {
    node.append(svg("line", { x1: MARGIN, x2: W - EDGE, y1: y(most * i / 4), y2: y(most * i / 4), class: "grid" }));
    node.append(svg("text", { x: MARGIN - 6, y: y(most * i / 4) + 4, "text-anchor": "end" }, textOf(figure, most * i / 4)));
  }
  const path = chosen.map(([p], k) => `${k ? "L" : "M"}${x(p.values[axis])} ${y(p.figures[figure].mean)}`).join("");
  node.append(svg("path", { d: path, fill: "none", stroke: "#3b7dd8", "stroke-width": 2 }));
  for (const [p, i] of chosen) {
    const f = p.figures[figure], at = x(p.values[axis]);
    node.append(svg("line", { x1: at, x2: at, y1: y(f.low), y2: y(f.high), stroke: "#3b7dd8" }));
    node.append(withTip(svg("circle", { cx: at, cy: y(f.mean), r: 4, fill: "#3b7dd8" }), describe(p, i, figure)));
    node.append(svg("text", { x: at, y: HIGH - FOOT + 16, "text-anchor": "middle" }, p.values[axis]));
  }
  node.append(svg("text", { x: W / 2, y: HIGH - 4, "text-anchor": "middle" }, KNOBS[axis].knob));
  return node;
}

// --- two knobs: a heat map ---

function heatMap(figure, chosen) {
  const [rows, columns] = [KNOBS[0].values, KNOBS[1].values];
  const node = svg("svg", { viewBox: `0 0 ${W} ${60 + 34 * rows.length}`, role: "img", class: "narrow" });
  const means = chosen.map(([p]) => p.figures[figure].mean);
  const low = Math.min(...means), high = Math.max(...means);
  const width = (W - MARGIN - EDGE) / columns.length, height = 34;
  for (const [p, i] of chosen) {
    const r = rows.indexOf(p.values[0]), c = columns.indexOf(p.values[1]);
    const share = high > low ? (p.figures[figure].mean - low) / (high - low) : 0;
    const cell = svg("rect", { x: MARGIN + c * width, y: HEAD + r * height, width: width - 2, height: height - 2, class: "heat",
      fill: `hsl(${(130 - 130 * share).toFixed(0)} 55% 50% / ${(0.25 + 0.5 * share).toFixed(2)})` });
    node.append(withTip(cell, describe(p, i, figure)));
    node.append(svg("text", { x: MARGIN + (c + 0.5) * width, y: HEAD + (r + 0.5) * height + 4, "text-anchor": "middle", class: "value" },
      DATA.texts[i][figure]));
  }
  rows.forEach((v, r) => node.append(svg("text", { x: MARGIN - 6, y: HEAD + (r + 0.5) * height + 4, "text-anchor": "end" }, v)));
  const below = HEAD + rows.length * height;
  columns.forEach((v, c) => node.append(svg("text", { x: MARGIN + (c + 0.5) * width, y: below + 14, "text-anchor": "middle" }, v)));
  node.append(svg("text", { x: W / 2, y: below + 34, "text-anchor": "middle" }, `down: ${KNOBS[0].knob}, across: ${KNOBS[1].knob}`));
  return node;
}

// --- waits against cost ---

function against(figureX, figureY) {
  const node = svg("svg", { viewBox: `0 0 ${W} ${HIGH}`, role: "img", class: "narrow" });
  const points = DATA.points.map((p, i) => [p, i]).filter(([p]) => p.figures[figureX] && p.figures[figureY]);
  const mostX = Math.max(1e-9, ...points.map(([p]) => p.figures[figureX].mean)) * 1.05;
  const mostY = Math.max(1e-9, ...points.map(([p]) => p.figures[figureY].mean)) * 1.05;
  const x = (v) => MARGIN + (W - MARGIN - EDGE) * v / mostX, y = (v) => HEAD + (HIGH - HEAD - FOOT) * (1 - v / mostY);
  for (let i = 0; i <= 4; i += 1) {
    node.append(svg("line", { x1: MARGIN, x2: W - EDGE, y1: y(mostY * i / 4), y2: y(mostY * i / 4), class: "grid" }));
    node.append(svg("text", { x: MARGIN - 6, y: y(mostY * i / 4) + 4, "text-anchor": "end" }, textOf(figureY, mostY * i / 4)));
    node.append(svg("text", { x: x(mostX * i / 4), y: HIGH - FOOT + 16, "text-anchor": "middle" }, textOf(figureX, mostX * i / 4)));
  }
  // With less quota jobs can never fit, cost nothing and are counted in no wait: that is no bargain.
  const leftOut = (p) => p.figures["never fit"].mean, least = Math.min(...points.map(([p]) => leftOut(p)));
  const beaten = ([p]) => leftOut(p) > least || points.some(([q]) => q !== p && leftOut(q) === least && q.figures[figureX].mean <= p.figures[figureX].mean
    && q.figures[figureY].mean <= p.figures[figureY].mean
    && (q.figures[figureX].mean < p.figures[figureX].mean || q.figures[figureY].mean < p.figures[figureY].mean));
  const front = points.filter((one) => !beaten(one)).sort(([a], [b]) => a.figures[figureX].mean - b.figures[figureX].mean);
  const line = front.map(([p], k) => `${k ? "L" : "M"}${x(p.figures[figureX].mean)} ${y(p.figures[figureY].mean)}`).join("");
  node.append(svg("path", { d: line, fill: "none", stroke: "#3fa66b", "stroke-width": 1.5, "stroke-dasharray": "4 3" }));
  for (const one of points) {
    const [p] = one;
    const dot = svg("circle", { cx: x(p.figures[figureX].mean), cy: y(p.figures[figureY].mean), r: 5,
      fill: beaten(one) ? "#9aa4b2" : "#3fa66b" });
    node.append(withTip(dot, `${valuesAt(p)}\n${figureX}: ${textOf(figureX, p.figures[figureX].mean)}\n${figureY}: ${textOf(figureY, p.figures[figureY].mean)}`));
  }
  node.append(svg("text", { x: W / 2, y: HIGH - 4, "text-anchor": "middle" }, figureX));
  node.append(svg("text", { x: MARGIN, y: HEAD, "text-anchor": "start" }, figureY));
  return node;
}

// --- the page ---

function pictures(figure) {
  // One picture for each combination of the knobs beyond the second.
  const cols = element("div", { class: "cols" });
  const groups = new Map();
  DATA.points.forEach((p, i) => {
    if (!p.figures[figure]) return;
    const key = p.values.slice(2).map((v, k) => `${KNOBS[k + 2].knob} = ${v}`).join(", ");
    groups.set(key, [...(groups.get(key) || []), [p, i]]);
  });
  for (const [key, chosen] of groups) {
    const panel = element("div", { class: "panel" });
    if (key) panel.append(element("h3", {}, key));
    if (KNOBS.length) panel.append(KNOBS.length > 1 ? heatMap(figure, chosen) : curve(figure, chosen, 0));
    cols.append(panel);
  }
  return cols;
}

function chart(figure) {
  const box = element("div");
  const choice = element("select", { "aria-label": "figure" });
  for (const name of Object.keys(DATA.points[0].figures)) {
    const option = element("option", {}, name);
    if (name === figure) option.setAttribute("selected", "");
    choice.append(option);
  }
  const place = element("div");
  const draw = () => place.replaceChildren(pictures(choice.value));
  choice.addEventListener("change", draw);
  box.append(element("h2", {}, choice), place);
  draw();
  return box;
}

function points() {
  return table([...KNOBS.map((k) => k.knob), ...DATA.shown, "runs"], DATA.rows);
}

page.append(element("h1", {}, DATA.title));
for (const note of DATA.notes) page.append(element("p", { class: "sub" }, note));
page.append(points());
for (const figure of DATA.shown.slice(0, 4)) page.append(chart(figure));
if (DATA.points.some((p) => p.figures.cost)) {
  page.append(element("h2", {}, "Wait against cost"), element("p", { class: "note" },
    "A green point is beaten by none in both; a grey one costs more or waits longer for nothing, or leaves out jobs that fit at others."), against("cost", "p95 wait of all"));
}
document.body.dataset.drawn = "yes";

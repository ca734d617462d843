// Draws the report out of the data in this page. Everything here comes from the file itself.
const RUNS = DATA.runs;
const AXIS = Math.max(DATA.axisSeconds, 1e-9);  // one axis of time for all runs
const SHOWN = PALETTE.length;
const addTo = (total, values) => values.forEach((v, i) => { total[i] += v; });

function moment(run, s) {
  if (run.originMs === null) return span(s);
  const text = new Date(run.originMs + s * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 16)}`;
}

// --- colours: the queues that use most have their own, the same in both runs ---

const QUEUES = (() => {
  const use = new Map();
  for (const run of RUNS) {
    for (const [name, values] of Object.entries(run.report.series.usedByQueue)) {
      use.set(name, (use.get(name) || 0) + sum(values));
    }
  }
  return [...use.entries()].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
})();
const COLOUR = new Map(QUEUES.map((name, i) => [name, i < SHOWN ? PALETTE[i] : OTHERS]));

function grouped(byQueue) {
  // The first queues by name, all others as one.
  const found = [];
  let rest = null;
  for (const name of QUEUES) {
    const values = byQueue[name];
    if (!values) continue;
    if (QUEUES.indexOf(name) < SHOWN) found.push({ name, colour: COLOUR.get(name), values });
    else if (rest) addTo(rest.values, values);
    else rest = { name: `${QUEUES.length - SHOWN} others`, colour: OTHERS, values: values.slice() };
  }
  return rest ? [...found, rest] : found;
}

// --- frames for charts over time ---

const isSideBySide = RUNS.length > 1 && innerWidth >= 900;
const { W, xAt, yAt, stepPath, linePath, hover, stacked: stackedChart, ...base } = plot(chartWidth());

// What a panel leaves of the window, so that text is as large on a phone as on a desk.
function wholeWidth() {
  return Math.max(270, Math.min(innerWidth, RUNS.length > 1 ? 1720 : 1280) - (innerWidth < 700 ? 46 : 74));
}

function chartWidth() {
  return isSideBySide ? Math.round((wholeWidth() - 18 * (RUNS.length - 1)) / RUNS.length - 26) : wholeWidth();
}

const labelOf = (run) => (share) => moment(run, AXIS * share);
const momentOf = (run, n) => (i) => moment(run, (i + 0.5) * AXIS / n);

function frame(run, top, format) {
  const node = base.frame(top, format, labelOf(run));
  shadeUnmeasured(run, node);
  return node;
}

function shadeUnmeasured(run, node) {
  const m = run.report.measured;
  if (m.isWhole) return;
  for (const [from, to] of [[0, m.fromSeconds], [m.toSeconds, AXIS]]) {
    const x = xAt(from, AXIS), shade = svg("rect", { x, y: TOP, width: Math.max(0, xAt(to, AXIS) - x), height: H - TOP - BOTTOM,
      fill: "currentColor", opacity: 0.07 });
    shade.append(svg("title", {}, "not measured"));
    node.append(shade);
  }
}

function panels(title, note, draw) {
  page.append(element("h2", {}, title));
  if (note) page.append(element("p", { class: "note" }, note));
  const cols = element("div", { class: "cols" });
  for (const run of RUNS) {
    const panel = element("div", { class: "panel" });
    if (RUNS.length > 1) panel.append(element("h3", {}, run.title));
    draw(run, panel);
    cols.append(panel);
  }
  page.append(cols);
}

// --- charts ---

function utilisation(run, panel) {
  const { usedByFlavor, busyByFlavor, borrowedByFlavor } = run.report.series;
  const flavors = run.report.flavors.filter((f) => f.quota > 0);
  const node = frame(run, 100, (v) => `${v}%`);
  const lines = flavors.map((f, i) => {
    const key = `${f.flavor}/${f.resource}`;
    const colour = PALETTE[i % SHOWN];
    const percent = (values) => values.map((v) => 100 * v / f.quota);
    return { name: `${f.flavor} ${f.resource}`, colour, used: percent(usedByFlavor[key]),
      busy: percent(busyByFlavor[key]), borrowed: percent(borrowedByFlavor[key]) };
  });
  for (const s of run.report.stockouts) {
    const x = xAt(s.fromSeconds, AXIS), to = xAt(Math.min(s.toSeconds, run.report.endSeconds), AXIS);
    const band = svg("rect", { x, y: TOP, width: Math.max(1, to - x), height: H - TOP - BOTTOM, fill: "#c0352b", opacity: 0.1 });
    band.append(svg("title", {}, `stockout of ${s.flavor}`));
    node.append(band);
  }
  for (const l of lines) {
    node.append(svg("path", { d: stepPath(l.busy, 100, l.busy.map(() => 0)), fill: l.colour, opacity: 0.15 }));
    node.append(svg("path", { d: linePath(l.used, 100), fill: "none", stroke: l.colour, "stroke-width": 1.5 }));
    const dashed = { fill: "none", stroke: l.colour, "stroke-dasharray": "3 3", opacity: 0.8 };
    if (sum(l.borrowed) > 0) node.append(svg("path", { d: linePath(l.borrowed, 100), ...dashed }));
  }
  const n = lines.length ? lines[0].used.length : 1;
  hover(node, n, (i) => `${momentOf(run, n)(i)}\n` + lines.map((l) => `${l.name}: ${l.used[i].toFixed(0)} % held, ${l.busy[i].toFixed(0)} % running, ${l.borrowed[i].toFixed(0)} % borrowed`).join("\n"));
  panel.append(node, legend(lines));
}

function mostOf(pick) {
  let most = 0;
  for (const run of RUNS) {
    const groups = grouped(pick(run));
    if (!groups.length) continue;
    const total = groups[0].values.map(() => 0);
    for (const g of groups) addTo(total, g.values);
    most = Math.max(most, ...total);
  }
  return niceMax(most);
}

function stacked(run, panel, byQueue, most, format) {
  const groups = grouped(byQueue), n = groups.length ? groups[0].values.length : 1;
  const node = stackedChart(groups, most, format, labelOf(run), momentOf(run, n));
  shadeUnmeasured(run, node);
  panel.append(node, legend(groups));
}

const unit = () => (RUNS[0].report.mainResource === "cpu" ? 1000 : 1);
const inUnits = (byQueue) => Object.fromEntries(Object.entries(byQueue).map(([n, v]) => [n, v.map((x) => x / unit())]));

function useByQueue(run, panel, most) {
  // Own quota plain, borrowed quota hatched on top of it, queue by queue.
  const used = grouped(inUnits(run.report.series.usedByQueue));
  const borrowed = grouped(inUnits(run.report.series.borrowedByQueue));
  const node = frame(run, most, number);
  const defs = svg("defs");
  node.append(defs);
  if (!used.length) { panel.append(node); return; }
  const below = used[0].values.map(() => 0);
  used.forEach((g, k) => {
    const over = borrowed[k].values, own = g.values.map((v, i) => Math.max(0, v - over[i]));
    const id = `hatch-${run.letter}-${k}`;
    const pattern = svg("pattern", { id, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    pattern.append(svg("rect", { width: 5, height: 5, fill: g.colour, opacity: 0.3 }));
    pattern.append(svg("line", { x1: 0, x2: 0, y1: 0, y2: 5, stroke: g.colour, "stroke-width": 4 }));
    defs.append(pattern);
    node.append(svg("path", { d: stepPath(own, most, below), fill: g.colour, opacity: 0.9 }));
    addTo(below, own);
    node.append(svg("path", { d: stepPath(over, most, below), fill: `url(#${id})` }));
    addTo(below, over);
  });
  const quota = sum(run.report.flavors.filter((f) => f.resource === run.report.mainResource).map((f) => f.quota)) / unit();
  const y = yAt(quota, most);
  node.append(svg("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, stroke: "currentColor", "stroke-dasharray": "4 3" }));
  hover(node, below.length, (i) => `${momentOf(run, below.length)(i)}\nall: ${number(below[i])} of ${number(quota)}\n` + used.map((g, k) => [g, borrowed[k].values[i]])
    .filter(([g]) => g.values[i] > 0.005)
    .map(([g, b]) => `${g.name}: ${number(g.values[i])}${b > 0.005 ? `, ${number(b)} of it borrowed` : ""}`).join("\n"));
  const hatched = "repeating-linear-gradient(45deg,#888 0 3px,#ccc 3px 5px)";
  panel.append(node, legend([...used, { name: "borrowed", background: hatched }]));
}

// --- how long jobs waited: the share that had waited no longer than so long, on a logarithmic axis ---

function waitAxes(width) {
  const node = svg("svg", { viewBox: `0 0 ${width} ${H}`, role: "img", "aria-label": "share of jobs by wait" });
  const ends = RUNS.flatMap((r) => r.waits.curves.map((g) => g.seconds[g.seconds.length - 1] || 0));
  const low = 1, high = Math.max(10, ...ends), decades = Math.log10(high / low);
  const x = (s) => LEFT + (width - LEFT - RIGHT) * Math.max(0, Math.log10(Math.max(s, low) / low)) / decades;
  for (let i = 0; i <= 4; i += 1) {
    const y = TOP + (H - TOP - BOTTOM) * (1 - i / 4);
    node.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: "grid" }));
    node.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, `${25 * i}%`));
  }
  let last = -99;
  for (const s of [1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400]) {
    if (s > high || x(s) - last < 52) continue;
    last = x(s);
    node.append(svg("line", { x1: x(s), x2: x(s), y1: TOP, y2: H - BOTTOM, class: "grid" }));
    node.append(svg("text", { x: x(s), y: H - 5, "text-anchor": "middle" }, `≤ ${span(s)}`));
  }
  return { node, x };
}

function waitCurve(x, seconds, attributes, title) {
  const n = seconds.length;
  let path = "";
  seconds.forEach((s, i) => {
    const y = TOP + (H - TOP - BOTTOM) * (1 - (n > 1 ? i / (n - 1) : 1));
    path += `${i ? "L" : "M"}${x(s).toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = svg("path", { d: path, fill: "none", ...attributes });
  line.append(svg("title", {}, title));
  return line;
}

function distribution(run, panel) {
  const groups = run.waits.curves, { node, x } = waitAxes(W), items = [];
  const isHidden = (g) => g.name !== "all" && QUEUES.indexOf(g.name) >= SHOWN;
  for (const g of groups.filter((one) => !isHidden(one))) {
    const isAll = g.name === "all", colour = isAll ? "currentColor" : COLOUR.get(g.name);
    node.append(waitCurve(x, g.seconds, { stroke: colour, "stroke-width": isAll ? 2.5 : 1.2 }, g.name));
    items.push({ name: g.name, colour: isAll ? "var(--ink)" : colour });
  }
  const hidden = groups.filter(isHidden).length;
  if (hidden) items.push({ name: `${hidden} other queues are not drawn`, colour: OTHERS });
  panel.append(node, legend(items));
}

function overlaid() {
  // All runs in one picture, for all jobs or those of one queue.
  const names = [...new Set(RUNS.flatMap((run) => run.waits.curves.map((g) => g.name)))].sort((a, b) => (b === "all") - (a === "all"));
  const choice = element("select", { "aria-label": "jobs of" });
  for (const name of names) choice.append(element("option", { value: name }, name === "all" ? "all queues" : name));
  const place = element("div", { class: "panel" });
  const draw = () => {
    const { node, x } = waitAxes(wholeWidth()), items = [];
    RUNS.forEach((run, i) => {
      const curve = run.waits.curves.find((g) => g.name === choice.value);
      if (!curve) return;
      node.append(waitCurve(x, curve.seconds, { stroke: PALETTE[i], "stroke-width": 2.2, ...(i ? { "stroke-dasharray": "7 4" } : {}) }, run.title));
      items.push({ name: run.title, colour: PALETTE[i] });
    });
    place.replaceChildren(node, legend(items));
  };
  choice.addEventListener("change", draw);
  page.append(element("h2", {}, "How long jobs waited"), element("p", { class: "note" }, "Share of jobs that started within the time; further left is better. Jobs of ", choice), place);
  draw();
}

// --- the timeline: one row per job, drawn on a canvas ---

function unpack(text, Type) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Type(bytes.buffer);
}

const ENDINGS = ["finished", "preempted", "evicted", "failed", "cancelled", "open"];

class Timeline {
  constructor(run, panel) {
    this.run = run;
    const t = run.timeline;
    this.names = t.names;
    this.submit = unpack(t.submit, Float64Array);
    this.end = unpack(t.end, Float64Array);
    this.queue = unpack(t.queue, Uint16Array);
    this.stayJob = unpack(t.stayJob, Uint32Array);
    this.stayFrom = unpack(t.stayFrom, Float64Array);
    this.stayTo = unpack(t.stayTo, Float64Array);
    this.stayKind = unpack(t.stayKind, Uint8Array);
    this.count = this.submit.length;
    this.colours = t.queues.map((name) => COLOUR.get(name) || OTHERS);
    this.order = Uint32Array.from({ length: this.count }, (_, i) => i);
    this.rowOf = this.order.slice();
    this.canvas = element("canvas", { height: 440, "aria-label": "timeline of jobs" });
    const reset = element("button", { type: "button" }, "whole");
    const order = element("select", { "aria-label": "order of rows" });
    for (const name of ["by submission", "by queue", "by wait"]) order.append(element("option", {}, name));
    this.status = element("span");
    panel.append(element("div", { class: "bar" }, reset, order, this.status), this.canvas, legend([
      { name: "waiting", background: "var(--wait)" }, { name: "held: starting, stopping, checks", background: "var(--held)" },
      { name: "running (colour of the queue)", background: PALETTE[0] },
      { name: "preempted", background: "#d21f1f" }, { name: "evicted or failed", background: "#8e24aa" }]));
    reset.addEventListener("click", () => this.whole());
    order.addEventListener("change", () => this.sort(order.selectedIndex));
    this.listen();
    this.whole();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  whole() {
    this.t0 = 0;
    this.t1 = AXIS;
    this.r0 = 0;
    this.r1 = Math.max(this.count, 1);
    this.draw();
  }

  sort(how) {
    const order = this.order;
    for (let i = 0; i < this.count; i += 1) order[i] = i;
    if (how === 1) order.sort((a, b) => this.queue[a] - this.queue[b] || a - b);
    if (how === 2) {
      const wait = Float64Array.from(this.end, (e, i) => e - this.submit[i]);
      for (let k = this.stayJob.length - 1; k >= 0; k -= 1) {
        if (this.stayKind[k] & 16) wait[this.stayJob[k]] = this.stayFrom[k] - this.submit[this.stayJob[k]];
      }
      order.sort((a, b) => wait[b] - wait[a] || a - b);
    }
    order.forEach((job, row) => { this.rowOf[job] = row; });
    this.draw();
  }

  zoom(x, y, factor, both) {
    const w = this.canvas.clientWidth, h = this.canvas.clientHeight;
    const t = this.t0 + (this.t1 - this.t0) * x / w, r = this.r0 + (this.r1 - this.r0) * y / h;
    const end = AXIS;
    this.t0 = Math.max(0, t - (t - this.t0) * factor);
    this.t1 = Math.min(end, t + (this.t1 - t) * factor);
    if (both) {
      this.r0 = Math.max(0, r - (r - this.r0) * factor);
      this.r1 = Math.min(this.count, r + (this.r1 - r) * factor);
    }
    this.draw();
  }

  pan(dx, dy) {
    const dt = dx / this.canvas.clientWidth * (this.t1 - this.t0);
    const dr = dy / this.canvas.clientHeight * (this.r1 - this.r0);
    const end = AXIS;
    const t = Math.min(Math.max(-this.t0, dt), end - this.t1), r = Math.min(Math.max(-this.r0, dr), this.count - this.r1);
    this.t0 += t; this.t1 += t; this.r0 += r; this.r1 += r;
    this.draw();
  }

  listen() {
    let from = null;
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.offsetX, event.offsetY, event.deltaY > 0 ? 1.25 : 0.8, !event.shiftKey);
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointerup", () => { from = null; });
    this.canvas.addEventListener("dblclick", () => this.whole());
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("pointermove", (event) => {
      if (from) {
        this.pan(from[0] - event.clientX, from[1] - event.clientY);
        from = [event.clientX, event.clientY];
        return;
      }
      const row = Math.floor(this.r0 + (this.r1 - this.r0) * event.offsetY / this.canvas.clientHeight);
      if (row >= 0 && row < this.count) showTip(event, this.describe(this.order[row]));
    });
  }

  describe(job) {
    let ran = 0, first = null, ended = [];
    for (let k = 0; k < this.stayJob.length; k += 1) {
      if (this.stayJob[k] !== job || !(this.stayKind[k] & 16)) continue;
      ran += this.stayTo[k] - this.stayFrom[k];
      if (first === null) first = this.stayFrom[k];
      ended.push(ENDINGS[this.stayKind[k] & 15]);
    }
    const wait = (first === null ? this.end[job] : first) - this.submit[job];
    return `${this.names[job]} in ${this.run.timeline.queues[this.queue[job]]}\nsubmitted ${moment(this.run, this.submit[job])}, `
      + `waited ${span(wait)}, ran ${span(ran)}\n${ended.join(", ") || "never ran"}`;
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => { this.pending = false; this.paint(); }, 16);
  }

  paint() {
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = 440;
    if (!w) return;
    canvas.width = w * ratio; canvas.height = h * ratio; canvas.style.height = `${h}px`;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.clearRect(0, 0, w, h);
    const style = getComputedStyle(document.documentElement);
    const { t0, t1, r0, r1, rowOf } = this;
    const sx = w / (t1 - t0), sy = h / (r1 - r0), high = Math.max(1, sy * (sy > 4 ? 0.8 : 1));
    const bar = (job, from, to, least) => {
      const row = rowOf[job];
      if (row < r0 - 1 || row > r1 || to < t0 || from > t1) return;
      const x = Math.max(0, (from - t0) * sx);
      g.fillRect(x, (row - r0) * sy, Math.max(least, Math.min(w, (to - t0) * sx) - x), high);
    };
    g.fillStyle = style.getPropertyValue("--wait");
    for (let i = 0; i < this.count; i += 1) bar(i, this.submit[i], this.end[i], 0);
    g.fillStyle = style.getPropertyValue("--held");
    const stays = this.stayJob.length;
    for (let k = 0; k < stays; k += 1) if (!(this.stayKind[k] & 16)) bar(this.stayJob[k], this.stayFrom[k], this.stayTo[k], 0.5);
    for (let q = 0; q < this.colours.length; q += 1) {
      g.fillStyle = this.colours[q];
      for (let k = 0; k < stays; k += 1) {
        if ((this.stayKind[k] & 16) && this.queue[this.stayJob[k]] === q) bar(this.stayJob[k], this.stayFrom[k], this.stayTo[k], 0.7);
      }
    }
    for (const [codes, colour] of [[[2, 3], "#8e24aa"], [[1], "#d21f1f"]]) {
      g.fillStyle = colour;
      for (let k = 0; k < stays; k += 1) {
        if (!codes.includes(this.stayKind[k] & 15)) continue;
        const job = this.stayJob[k], row = rowOf[job], at = this.stayTo[k];
        if (row < r0 - 1 || row > r1 || at < t0 || at > t1) continue;
        g.fillRect((at - t0) * sx - 1, (row - r0) * sy, 2.5, Math.max(2, high));
      }
    }
    this.status.textContent = `${moment(this.run, t0)} to ${moment(this.run, t1)}, jobs ${Math.floor(r0) + 1} to ${Math.ceil(r1)} of ${this.count}`
      + ". Wheel: zoom (shift: time only), drag: move, double click: whole";
  }
}

// --- tables ---

const WAIT_COLUMNS = ["jobs", "mean", "median", "p95", "p99", "longest", "turnaround", "slowdown", "never ran"];

// A figure that no job has is null.
const spanOf = (value) => (value === null ? "–" : span(value));
const slowdownOf = (waits) => (waits.slowdownMean === null ? "–" : waits.slowdownMean.toFixed(1));

function waitRows(groups) {
  return Object.entries(groups).filter(([, w]) => w.jobs).map(([name, w]) => [name, w.jobs, span(w.mean), span(w.median),
    span(w.p95), span(w.p99), span(w.longest), spanOf(w.turnaroundMean), slowdownOf(w), w.neverRan]);
}

function amounts(run, value) {
  return number(value / (run.report.mainResource === "cpu" ? 1000 : 1));
}

function queueRows(run) {
  return run.report.queues.map((q) => {
    const main = q.quotas.filter((x) => x.resource === run.report.mainResource);
    const total = (what) => amounts(run, sum(main.map((x) => x[what])));
    const share = q.shareOverEntitlement;
    return [q.queue, total("nominal"), total("used"), total("borrowed"), total("lent"), share === null ? "–" : share.toFixed(2),
      q.preempting, q.preempted, q.evicted];
  });
}

function tile(name, value) {
  return element("div", { class: "tile" }, element("b", {}, value), element("span", {}, name));
}

function header() {
  const first = RUNS[0].report;
  document.documentElement.style.setProperty("--n", isSideBySide ? RUNS.length : 1);
  if (RUNS.length > 1) page.classList.add("two");
  page.append(element("h1", {}, DATA.title));
  for (const sentence of DATA.verdict || []) page.append(element("p", { class: "verdict" }, sentence));
  const odd = first.trace.oddities.map((o) => `${o.isLeftOut ? "left out" : "noted"}: ${o.count} ${o.what}`).join("; ");
  page.append(element("p", { class: "sub" }, `${first.trace.simulated} ${first.trace.drawnFrom === null ? "" : `drawn from ${first.trace.drawnFrom} `}of ${first.trace.rows} jobs of ${first.trace.source}, read as `
    + `${first.trace.layout}${odd ? `. ${odd}` : ""}. Seed ${first.seed}.`));
  const cols = element("div", { class: "cols" });
  for (const run of RUNS) {
    const r = run.report, all = r.waits.all, hours = 3600 * (r.mainResource === "cpu" ? 1000 : 1);
    const box = element("div");
    if (RUNS.length > 1) box.append(element("h3", {}, run.title));
    for (const sentence of r.warnings) box.append(element("p", { class: "stopped" }, sentence));
    if (!r.measured.isWhole) {
      box.append(element("p", { class: "note" }, `Measured: ${moment(run, r.measured.fromSeconds)} to ${moment(run, r.measured.toSeconds)}, `
        + `${number(r.measured.jobs)} jobs. What lies before and after is left out.`));
    }
    if (r.stopped !== null) box.append(element("p", { class: "stopped" }, r.stopped));
    const tiles = element("div", { class: "tiles" });
    tiles.append(tile("jobs finished", number(r.jobs.finished)), tile("mean wait", spanOf(all.mean)), tile("p95 wait", spanOf(all.p95)),
      tile("bounded slowdown", slowdownOf(all)), tile("makespan", span(r.makespan.seconds)),
      tile("preemptions", number(r.preemptions)), tile("work lost", `${number(r.work.lostSeconds / hours)} h`),
      tile(`held of ${r.flavors.length > 1 ? "all quota" : r.flavors[0].flavor}`,
        `${(100 * sum(r.flavors.map((f) => f.used)) / Math.max(1e-9, sum(r.flavors.map((f) => f.quota)))).toFixed(0)} %`));
    box.append(tiles);
    cols.append(box);
  }
  page.append(cols);
}

function differences() {
  if (!DATA.figures) return;
  page.append(element("h2", {}, "What differs"));
  const others = RUNS.slice(1);
  const rows = DATA.figures.map((f) => [f.what, f.texts[0], ...others.flatMap((_, i) => [f.texts[i + 1], f.changes[i],
    element("td", { class: f.verdicts[i] === "better" ? "better" : "worse" }, f.verdicts[i])])]);
  page.append(table(["", "A", ...others.flatMap((run) => [run.letter, "change", ""])], rows));
  DATA.paired.forEach((p, i) => jobByJob(others[i].letter, p));
}

function jobByJob(letter, p) {
  page.append(element("h2", {}, `Job by job: ${letter} against A`));
  page.append(table(["jobs of", "jobs", "wait less", "longer", "mean in A", `in ${letter}`, "change"],
    p.groups.map((g) => [g.group, g.jobs, g.shorter, g.longer, span(g.meanBefore), span(g.meanAfter), g.change])));
  for (const [title, jobs] of [["Who lost most", p.losers], ["Who won most", p.winners]]) {
    if (!jobs.length) continue;
    page.append(element("h3", {}, title), table(["job", "queue", "priority", "A", letter, "reason given last"], jobs.map((j) =>
      [j.job, j.queue, j.priority, span(j.waitBefore), span(j.waitAfter), element("td", { class: "text" }, j.reason)])));
  }
}

const preemptions = (run, panel) => panel.append(matrix(run.report.preemptionsByQueues));

function longest(run, panel) {
  const rows = run.report.longestWaits.map((l) => [l.job, l.queue, l.priority, span(l.waitSeconds), l.fate,
    Object.entries(l.evictions).map(([cause, n]) => `${n} ${cause}`).join(", "),
    element("td", { class: "text" }, l.reasons.map((r) => r.text).join("; "))]);
  panel.append(table(["job", "queue", "priority", "wait", "fate", "evictions", "last reason"], rows));
}

function circles(run, panel) {
  const rows = run.report.circles.flatMap((circle) => circle.displacements.map((d, i) => [
    ...(i ? ["", "", ""] : [circle.tree, moment(run, circle.sinceSeconds), circle.times]),
    `${d.preemptor} (${d.queue})`, `${d.victim} (${d.victimQueue})`, d.rule,
    i ? "" : circle.keptFromPreempting.join(", ")]));
  panel.append(table(["in", "since", "times", "preemptor", "displaces", "rule", "kept from preempting"], rows));
}

const COST_COLUMNS = ["paid", "useful", "lost", "idle", "unused"];

function money(run, panel) {
  const m = run.report.money;
  const row = (name, perHour, cost) => [name, perHour, ...COST_COLUMNS.map((c) => cost[c].toFixed(2))];
  panel.append(table(["flavor", "per hour", "paid", "useful", "lost", "no pods", "unused"], [
    ...m.byFlavor.map((f) => row(`${f.flavor} ${f.resource}`, `${f.perHour}${f.isReserved ? " reserved" : ""}`, f)), row("all", "", m.total)]));
  panel.append(table(["queue", "held"], Object.entries(m.byQueueHeld).map(([name, cost]) => [name, cost.toFixed(2)])));
}

function waitAgainstCost() {
  // One point for each run: to the left is cheaper, below waits less.
  const points = RUNS.map((run) => ({ run, cost: run.report.money.total.paid, wait: run.report.waits.all.p95 })).filter((p) => p.wait !== null);
  const mostX = niceMax(Math.max(...points.map((p) => p.cost))), mostY = niceMax(Math.max(...points.map((p) => p.wait)));
  const node = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img" });
  const x = (v) => LEFT + (W - LEFT - RIGHT) * v / mostX;
  for (let i = 0; i <= 4; i += 1) {
    const y = yAt(mostY * i / 4, mostY);
    node.append(svg("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: "grid" }));
    node.append(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, span(mostY * i / 4)));
    node.append(svg("text", { x: x(mostX * i / 4), y: H - 5, "text-anchor": i ? "end" : "start" }, number(mostX * i / 4)));
  }
  for (const p of points) {
    const dot = svg("circle", { cx: x(p.cost), cy: yAt(p.wait, mostY), r: 5, fill: PALETTE[0] });
    dot.append(svg("title", {}, `${p.run.title}: cost ${number(p.cost)}, p95 wait ${span(p.wait)}`));
    node.append(dot, svg("text", { x: x(p.cost) - 9, y: yAt(p.wait, mostY) + 4, "text-anchor": "end" }, p.run.letter));
  }
  page.append(element("h2", {}, "Wait against cost"), element("p", { class: "note" }, "Across: what was paid. Up: p95 wait."), node);
}

header();
differences();
if (RUNS.every((run) => run.report.money)) {
  panels("Money", "Paid: reserved quota all the time, other machines while jobs have them. Unused: reserved, and nobody had it.", money);
  if (RUNS.length > 1) waitAgainstCost();
}
panels("Utilisation", "Line: quota held. Area: with pods running. Dashed: borrowed by somebody, and so lent. Shaded: stockouts.", utilisation);
const mostWaiting = mostOf((run) => run.report.series.waiting);
panels("Waiting jobs", "By queue.", (run, panel) => stacked(run, panel, run.report.series.waiting, mostWaiting, number));
const mostWanted = mostOf((run) => inUnits(run.report.series.wanted));
panels(`Waiting demand (${RUNS[0].report.mainResource})`, "What the waiting jobs ask for, by queue.",
  (run, panel) => stacked(run, panel, inUnits(run.report.series.wanted), mostWanted, number));
const mostUsed = mostOf((run) => inUnits(run.report.series.usedByQueue));
panels(`Use by queue (${RUNS[0].report.mainResource})`, "Hatched: borrowed. Dashed: all the quota there is.",
  (run, panel) => useByQueue(run, panel, mostUsed));
panels("Timeline", "One row per job.", (run, panel) => new Timeline(run, panel));
if (RUNS.length > 1) overlaid();
else panels("How long jobs waited", "Share of jobs that started within the time; black: all queues.", distribution);
panels("Waiting by queue", "", (run, panel) => panel.append(table(["queue", ...WAIT_COLUMNS],
  waitRows({ ...run.report.waits.byQueue, all: run.report.waits.all }))));
panels("Waiting by priority", "", (run, panel) => panel.append(table(["priority", ...WAIT_COLUMNS],
  waitRows(run.report.waits.byPriority).reverse())));
panels(`Waiting by size (${RUNS[0].report.mainResource})`, "", (run, panel) => panel.append(table(["size", ...WAIT_COLUMNS],
  waitRows(run.report.waits.bySize))));
panels("Queues", "On average over time; share: what it had over what was due to it (its own, and by weight its part of what its cohort owns), while somebody waited in it.", (run, panel) =>
  panel.append(table(["queue", "owns", "used", "borrowed", "lent", "share", "preempts", "preempted", "evicted"], queueRows(run))));
if (RUNS.some((run) => run.report.preemptionsByQueues.length)) panels("Who preempted whom", "Jobs, by queue.", preemptions);
panels("What happened", "", (run, panel) => panel.append(table(["", "count"],
  [...Object.entries(run.report.evictions).map(([k, v]) => [`evicted: ${k}`, v]), ...Object.entries(run.report.counts)])));
panels("Longest waits", "With the reason given last.", longest);
if (RUNS.some((run) => run.report.circles.length)) {
  panels("Circles", "Jobs that displace each other until the same ones run as before. They pause longer and longer between two rounds, or one of them is kept from preempting until something else happens.", circles);
}
document.body.dataset.drawn = "yes";

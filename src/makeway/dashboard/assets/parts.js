// Pieces that several pages are made of.

import { h } from "./tree.js";
import { jobOfWorkload, store } from "./store.js";

export const WAITING = ["pending", "held", "reserved", "suspended"];
export const HOLDING = ["reserved", "admitted", "running", "evicting"];
export const RUNNING = ["admitted", "running", "evicting", "ending"];
export const ENDED = ["succeeded", "failed", "cancelled", "deleted"];
export const GROUPS = { running: RUNNING, waiting: WAITING, holding: HOLDING, ended: ENDED };
const MARKS = {
  running: "●",
  admitted: "◐",
  reserved: "◔",
  pending: "○",
  held: "‖",
  suspended: "‖",
  evicting: "◌",
  ending: "◌",
  succeeded: "✓",
  failed: "✕",
  cancelled: "⊘",
  deleted: "⊘",
};

// --- words ---

export function short(s) {
  if (s === null || s === undefined) return "–";
  const t = Math.max(0, Math.floor(s));
  if (t < 60) return `${t}s`;
  if (t < 3600) return `${Math.floor(t / 60)}m ${t % 60 ? `${t % 60}s` : ""}`.trim();
  if (t < 86400)
    return `${Math.floor(t / 3600)}h ${Math.floor(t / 60) % 60 ? `${Math.floor(t / 60) % 60}m` : ""}`.trim();
  return `${Math.floor(t / 86400)}d ${Math.floor(t / 3600) % 24 ? `${Math.floor(t / 3600) % 24}h` : ""}`.trim();
}

export function clock(at) {
  if (!at) return "–";
  const isToday = new Date(at * 1000).toDateString() === new Date(store.now() * 1000).toDateString();
  return isToday ? stamp(at).slice(11) : stamp(at);
}

// The same with its day, whichever that is.
export function stamp(at) {
  const d = new Date(at * 1000),
    pad = (n) => String(n).padStart(2, "0");
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  return `${day} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

export const isGpu = (resource) => resource.endsWith("/gpu") || resource.startsWith("gpu.");

export function resourceName(resource) {
  if (resource === "cpu") return "CPU";
  return isGpu(resource) ? "GPU" : resource;
}

export function amount(resource, n) {
  if (resource === "cpu") return trimmed(n / 1000);
  if (resource === "memory" || resource === "ephemeral-storage") {
    for (const [unit, size] of [
      ["Ti", 2 ** 40],
      ["Gi", 2 ** 30],
      ["Mi", 2 ** 20],
    ])
      if (n >= size) return `${trimmed(n / size)}${unit}`;
  }
  return trimmed(n);
}

// As few digits as tell it from its neighbours on an axis.
export function trimmed(v) {
  if (Number.isInteger(v)) return String(v);
  return Math.abs(v) < 1 ? String(Number(v.toPrecision(2))) : v.toFixed(1).replace(/\.0$/, "");
}

const rank = (resource) => (isGpu(resource) ? 0 : resource === "cpu" ? 1 : resource === "memory" ? 2 : 3);
export const byRank = (a, b) => rank(a) - rank(b) || (a < b ? -1 : 1);

export function asksText(asks) {
  return Object.keys(asks)
    .sort(byRank)
    .map((r) => (r === "memory" ? amount(r, asks[r]) : `${amount(r, asks[r])} ${resourceName(r)}`))
    .join(", ");
}

export const waitOf = (row) => (row.localQueue ? (row.admitted ?? row.ended ?? store.now()) - row.created : null);
export const runOf = (row) => (row.started === null ? null : (row.ended ?? store.now()) - row.started);

// --- addresses ---

export const jobPath = (key) => `/jobs/${key.split("/").map(encodeURIComponent).join("/")}`;
export const cohortPath = (name) => `/queues?cohort=${encodeURIComponent(name)}`;
export const queuePath = (name) => `/queues/${encodeURIComponent(name)}`;

export function jobsPath(filters) {
  const found = Object.entries(filters).filter(([, value]) => value);
  return found.length ? `/jobs?${new URLSearchParams(found)}` : "/jobs";
}

// Of the journal's time: the jobs, or preemptions, that a figure is made of.
export function pastPath(what, told, filters) {
  const span = { since: told.since.toFixed(3), until: told.until.toFixed(3) };
  const found = Object.entries({ ...span, ...filters }).filter(([, value]) => value);
  return `/history/${what}?${new URLSearchParams(found)}`;
}

// A job that the journal tells of; one that is gone has a page, too.
export function otherLink(other) {
  if (!other.workload) return h("span", {}, other.name);
  const known = jobOfWorkload(other.workload),
    key = known ? known.key : `Job/${other.workload.split("/")[0]}/${other.name}`;
  return h("a", { href: jobPath(key) }, known ? known.name : other.name);
}

export function jobLink(row) {
  return h(
    "a",
    { href: jobPath(row.key) },
    row.id === null ? row.name : [h("span", { class: "id" }, `${row.id} `), row.name],
  );
}

export const queueLink = (name) =>
  name ? h("a", { href: queuePath(name) }, name) : h("span", { class: "dim" }, "no queue");

// A job in a list: its status, its name, and a word about it.
export function jobLine(row, about) {
  return h("div", {}, status(row.status), " ", jobLink(row), " ", h("span", { class: "dim" }, about));
}

export function status(word) {
  return h("span", { class: `status ${word}` }, h("i", { "aria-hidden": "true" }, MARKS[word] || "·"), word);
}

const OBJECT = /[a-z0-9][-a-z0-9.]*\/[a-z0-9][-a-z0-9.]*[a-z0-9]/g; // namespace/name

// Text in which every Workload that we know becomes a link to its job.
export function linked(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(OBJECT)) {
    const row = jobOfWorkload(found[0]);
    if (!row) continue;
    parts.push(text.slice(at, found.index), h("a", { href: jobPath(row.key) }, row.name));
    at = found.index + found[0].length;
  }
  return [...parts, text.slice(at)];
}

// A line of an explanation: text, and references to objects.
function pieces(line) {
  return line.map((piece) => {
    if (typeof piece === "string") return linked(piece);
    if (piece.kind === "ClusterQueue") return h("a", { href: queuePath(piece.key) }, piece.key);
    const row = piece.kind === "Workload" ? jobOfWorkload(piece.key) : undefined;
    return row ? h("a", { href: jobPath(row.key) }, row.name) : piece.key;
  });
}

// The same as a paragraph; what begins with a dash is an item.
export function explained(line) {
  const first = typeof line[0] === "string" ? line[0] : "";
  const depth = /^( *)- /.exec(first);
  if (!depth) return h("p", {}, pieces(line));
  return h(
    "p",
    { class: "item", style: { "margin-left": `${14 + 9 * depth[1].length}px` } },
    pieces([first.slice(depth[0].length), ...line.slice(1)]),
  );
}

// --- pictures ---

// What is owned as a bar: used, free, and what goes beyond it is borrowed.
export function bar(cell, lent) {
  const { nominal, used, borrowed } = cell;
  const own = Math.max(0, used - borrowed),
    whole = Math.max(nominal, own) + borrowed || 1;
  const part = (n) => `${((100 * n) / whole).toFixed(2)}%`;
  const words =
    `${amount(cell.resource, used)} of ${amount(cell.resource, nominal)} used` +
    (borrowed ? `, ${amount(cell.resource, borrowed)} of it borrowed` : "") +
    (lent > 0 ? `, ${amount(cell.resource, lent)} lent` : "");
  const free = Math.max(0, nominal - own - lent);
  return h(
    "span",
    { class: "bar", role: "img", "aria-label": words, title: words },
    h("span", { class: "used", style: { width: part(own) } }),
    h("span", { class: "lent", style: { width: part(lent) } }),
    h("span", { class: "free", style: { width: part(free) } }),
    h("span", { class: "borrowed", style: { width: part(borrowed) } }),
  );
}

export function empty(text, ...more) {
  return h("p", { class: "empty" }, text, ...more);
}

// All jobs: filtered, sorted, and only those drawn that can be seen.

import { h } from "./tree.js";
import { derived, store } from "./store.js";
import { GROUPS, asksText, empty, isGpu, jobPath, jobsPath, queueLink, runOf, short, status, waitOf } from "./parts.js";
import { queuesBelow } from "./quota.js";
import { countOf } from "./now.js";

const SPARE = 12; // rows drawn above and below
const narrow = matchMedia("(max-width: 760px)");
const heightOf = () => (narrow.matches ? 78 : 38);

export const title = () => "Jobs";

const gpusOf = (row) => Object.entries(row.asks).reduce((n, [r, v]) => n + (isGpu(r) ? v : 0), 0);
const COLUMNS = [
  { name: "Job", sort: "name", value: (r) => r.name },
  { name: "Queue", sort: "queue", value: (r) => r.queue || r.localQueue },
  { name: "Status", sort: "status", value: (r) => r.status },
  { name: "Priority", sort: "priority", value: (r) => r.priority ?? 0, isNumber: true },
  { name: "Asks for", sort: "asks", value: (r) => gpusOf(r) * 1e9 + (r.asks.cpu || 0), isNumber: true },
  { name: "User", sort: "user", value: (r) => r.user || r.namespace },
  { name: "Waited", sort: "waited", value: (r) => waitOf(r) ?? -1, isNumber: true },
  { name: "Ran", sort: "ran", value: (r) => runOf(r) ?? -1, isNumber: true },
  { name: "Why", sort: "why", value: (r) => r.reason },
];
const NEWEST = { sort: "created", value: (r) => r.created, isNumber: true };
const numberOf = (row) => row.id ?? 0;

// --- which, and in what order ---

function filtersOf(query) {
  const names = ["status", "queue", "cohort", "user", "namespace", "node", "search", "sort"];
  return Object.fromEntries(names.map((name) => [name, query.get(name) || ""]));
}

let memory = { key: "", at: 0, rows: [] };
const RESORT_MS = 400; // ten thousand rows are not sorted more often, however much happens

function rowsFor(filters) {
  const key = JSON.stringify(filters),
    now = performance.now();
  if (memory.key === key && memory.version === store.version) return memory.rows;
  if (memory.key === key && now - memory.at < RESORT_MS && memory.rows.length > 1000)
    return memory.rows.map((row) => store.jobs.get(row.key)).filter(Boolean);
  const words = filters.status ? GROUPS[filters.status] || filters.status.split(",") : null;
  const queues = filters.cohort
    ? new Set(queuesBelow({ isCohort: true, name: filters.cohort }).map((q) => q.key))
    : null;
  const text = filters.search.toLowerCase();
  const rows = [...store.jobs.values()].filter(
    (row) =>
      (!words || words.includes(row.status)) &&
      (!filters.queue || row.queue === filters.queue || row.localQueue === filters.queue) &&
      (!queues || queues.has(row.queue)) &&
      (!filters.user || row.user === filters.user) &&
      (!filters.namespace || row.namespace === filters.namespace) &&
      (!filters.node || row.nodes.includes(filters.node)) &&
      (!text ||
        `${row.id ?? ""} ${row.name} ${row.user} ${row.namespace} ${row.queue} ${row.reason}`
          .toLowerCase()
          .includes(text)),
  );
  sort(rows, filters.sort);
  memory = { key, version: store.version, at: now, rows };
  return rows;
}

function sort(rows, how) {
  const isDown = !how || how.startsWith("-"),
    name = how.replace(/^-/, "");
  const column = COLUMNS.find((c) => c.sort === name) || NEWEST;
  const keys = new Map(rows.map((row) => [row, column.value(row)]));
  const sign = isDown ? -1 : 1;
  rows.sort((a, b) => {
    const x = keys.get(a),
      y = keys.get(b);
    if (x !== y) return x < y ? -sign : sign;
    return numberOf(b) - numberOf(a) || (a.key < b.key ? -1 : 1);
  });
}

// --- the page ---

export function view(route, app) {
  const filters = filtersOf(route.query),
    rows = rowsFor(filters);
  return [
    h(
      "div",
      { class: "head" },
      h("h1", {}, "Jobs"),
      h(
        "p",
        { class: "dim", id: "count" },
        `${rows.length.toLocaleString("en")} of ${store.jobs.size.toLocaleString("en")}`,
      ),
    ),
    filterBar(filters, app),
    listing(rows, filters),
  ];
}

function filterBar(filters, app) {
  const put = (change) => app.replace(jobsPath({ ...filters, ...change }));
  const group = (word, name, n) =>
    h(
      "a",
      { href: jobsPath({ ...filters, status: word }), "aria-current": filters.status === word ? "true" : null },
      `${name} `,
      h("span", { class: "dim" }, n.toLocaleString("en")),
    );
  const choice = (name, label, values) =>
    values.length > 1 &&
    h(
      "label",
      {},
      h("span", { class: "unseen" }, label),
      h(
        "select",
        { onchange: (event) => put({ [name]: event.target.value }) },
        h("option", { value: "", selected: !filters[name] }, label),
        values.map((v) => h("option", { value: v, selected: filters[name] === v }, v)),
      ),
    );
  const distinct = (name) =>
    derived(`distinct ${name}`, () =>
      [...new Set([...store.jobs.values()].map((row) => row[name]).filter(Boolean))].sort(),
    );
  const extra = ["cohort", "node"].filter((name) => filters[name]);
  return h(
    "div",
    { class: "filters", role: "search" },
    h(
      "label",
      { class: "search" },
      h("span", { class: "unseen" }, "search jobs"),
      h("input", {
        type: "search",
        id: "search",
        placeholder: "name, number, user, reason",
        value: filters.search,
        oninput: (event) => put({ search: event.target.value }),
      }),
    ),
    h(
      "nav",
      { class: "choice", "aria-label": "status" },
      group("", "all", store.jobs.size),
      ["running", "waiting", "ended"].map((word) => group(word, word, countOf(GROUPS[word]))),
      filters.status &&
        !["running", "waiting", "ended"].includes(filters.status) &&
        group(filters.status, filters.status, countOf(GROUPS[filters.status] || filters.status.split(","))),
    ),
    choice(
      "queue",
      "all queues",
      [...new Set([...store.queues.keys(), ...(filters.queue ? [filters.queue] : [])])].sort(),
    ),
    choice("user", "all users", distinct("user")),
    choice("namespace", "all namespaces", distinct("namespace")),
    extra.map((name) =>
      h(
        "a",
        {
          class: "chip",
          href: jobsPath({ ...filters, [name]: "" }),
          "aria-label": `${name} ${filters[name]}: take this filter away`,
        },
        `${name} ${filters[name]} ✕`,
      ),
    ),
  );
}

function listing(rows, filters) {
  if (!rows.length)
    return empty(
      !store.isSynced ? "Loading …" : store.jobs.size ? "No job passes these filters." : "There are no jobs.",
    );
  const height = heightOf();
  const first = Math.max(0, Math.floor((scrollY - listTop()) / height) - SPARE);
  const last = Math.min(rows.length, first + Math.ceil(innerHeight / height) + 2 * SPARE);
  return h(
    "div",
    { class: "jobs", role: "table", "aria-label": "jobs", "aria-rowcount": rows.length + 1 },
    h(
      "div",
      { role: "rowgroup", class: "heads" },
      h(
        "div",
        { role: "row", class: "row", "aria-rowindex": 1 },
        COLUMNS.map((column) => heading(column, filters)),
      ),
    ),
    h(
      "div",
      { role: "rowgroup", class: "body", id: "rows", style: { height: `${rows.length * height}px` } },
      rows.slice(first, last).map((row, i) => jobRow(row, first + i, height)),
    ),
  );
}

const listTop = () => document.getElementById("rows")?.offsetTop ?? 200;

function heading(column, filters) {
  const isThis = filters.sort.replace(/^-/, "") === column.sort,
    isDown = filters.sort.startsWith("-");
  const next = isThis ? (isDown ? column.sort : `-${column.sort}`) : column.isNumber ? `-${column.sort}` : column.sort;
  return h(
    "span",
    {
      role: "columnheader",
      class: `c-${column.sort}`,
      "aria-sort": isThis ? (isDown ? "descending" : "ascending") : "none",
    },
    h(
      "a",
      { href: jobsPath({ ...filters, sort: next }) },
      column.name,
      isThis && h("span", { "aria-hidden": "true" }, isDown ? " ↓" : " ↑"),
    ),
  );
}

function jobRow(row, index, height) {
  return h(
    "div",
    { role: "row", class: "row", key: row.key, "aria-rowindex": index + 2, style: { top: `${index * height}px` } },
    h(
      "span",
      { role: "cell", class: "c-name" },
      h(
        "a",
        { class: "whole", href: jobPath(row.key) },
        row.id !== null && h("span", { class: "id" }, `${row.id} `),
        row.name,
      ),
    ),
    h("span", { role: "cell", class: "c-queue" }, queueLink(row.queue || row.localQueue)),
    h("span", { role: "cell", class: "c-status" }, status(row.status)),
    h("span", { role: "cell", class: "c-priority" }, row.priority ?? "–"),
    h("span", { role: "cell", class: "c-asks" }, asksText(row.asks) || "–"),
    h("span", { role: "cell", class: "c-user" }, row.user || row.namespace),
    h("span", { role: "cell", class: "c-waited" }, short(waitOf(row))),
    h("span", { role: "cell", class: "c-ran" }, short(runOf(row))),
    h("span", { role: "cell", class: "c-why", title: row.message }, row.reason),
  );
}

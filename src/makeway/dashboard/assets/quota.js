// The tree of cohorts and queues, with sums: what is owned, used, borrowed, lent and waited for.

import { WAITING, byRank } from "./parts.js";
import { derived, store } from "./store.js";

const cellKey = (cell) => `${cell.flavor}/${cell.resource}`;

// Resources that queues own, GPUs first.
export function resources() {
  return derived("resources", () => {
    const found = new Set();
    for (const row of [...store.queues.values(), ...store.cohorts.values()])
      for (const cell of row.cells) found.add(cell.resource);
    return [...found].sort(byRank);
  });
}

// Cohorts with what is below them: {name, depth, cohort, queue}, top first; queues of no cohort last.
export function lines() {
  return derived("lines", () => {
    const below = new Map(),
      cohorts = new Map();
    const at = (name) => below.get(name) || below.set(name, { queues: [], cohorts: [] }).get(name);
    for (const row of store.cohorts.values()) cohorts.set(row.key, row.parent);
    for (const queue of store.queues.values()) {
      at(queue.cohort).queues.push(queue);
      if (queue.cohort && !cohorts.has(queue.cohort)) cohorts.set(queue.cohort, "");
    }
    for (const parent of [...cohorts.values()]) if (parent && !cohorts.has(parent)) cohorts.set(parent, "");
    for (const [name, parent] of cohorts) at(parent).cohorts.push(name);
    const found = [],
      seen = new Set();
    const walk = (name, depth) => {
      if (seen.has(name)) return;
      seen.add(name);
      found.push({ name, depth, isCohort: true });
      const parts = at(name);
      for (const queue of parts.queues.sort(byName)) found.push({ name: queue.key, depth: depth + 1, queue });
      for (const inner of parts.cohorts.sort()) walk(inner, depth + 1);
    };
    for (const name of at("").cohorts.sort()) walk(name, 0);
    for (const queue of at("").queues.sort(byName)) found.push({ name: queue.key, depth: 0, queue });
    return found;
  });
}

// A cohort, and what is below it.
export function linesBelow(cohort) {
  const all = lines(),
    first = all.findIndex((line) => line.isCohort && line.name === cohort);
  if (first < 0) return [];
  const end = all.findIndex((line, i) => i > first && line.depth <= all[first].depth);
  return all
    .slice(first, end < 0 ? all.length : end)
    .map((line) => ({ ...line, depth: line.depth - all[first].depth }));
}

const byName = (a, b) => (a.key < b.key ? -1 : 1);

function rootOf(cohort) {
  const seen = new Set();
  let name = cohort;
  while (store.cohorts.get(name)?.parent && !seen.has(name)) {
    seen.add(name);
    name = store.cohorts.get(name).parent;
  }
  return name;
}

// What is borrowed in a tree is lent by those who leave theirs unused, each in proportion.
export function lent() {
  return derived("lent", () => {
    const trees = new Map();
    const note = (root, cell, owner) => {
      const key = `${root}\n${cellKey(cell)}`;
      const tree = trees.get(key) || trees.set(key, { borrowed: 0, idle: 0, members: [] }).get(key);
      const idle = Math.max(0, cell.nominal - cell.used);
      tree.borrowed += cell.borrowed;
      tree.idle += idle;
      tree.members.push([`${owner}\n${cellKey(cell)}`, idle]);
    };
    for (const row of store.cohorts.values())
      for (const cell of row.cells) note(rootOf(row.key), cell, `cohort ${row.key}`);
    for (const row of store.queues.values())
      if (row.cohort) for (const cell of row.cells) note(rootOf(row.cohort), cell, row.key);
    const found = new Map();
    for (const tree of trees.values()) {
      for (const [key, idle] of tree.members)
        found.set(key, tree.idle ? Math.min(idle, (tree.borrowed * idle) / tree.idle) : 0);
    }
    return found;
  });
}

export const lentOf = (queue, cell) => lent().get(`${queue}\n${cellKey(cell)}`) || 0;

// Sums of a queue, or of all below a cohort, for one resource in all flavors.
export function totals(line, resource) {
  const total = { resource, nominal: 0, used: 0, borrowed: 0, lent: 0, waiting: 0, wanted: 0 };
  for (const queue of queuesBelow(line)) {
    for (const cell of queue.cells.filter((c) => c.resource === resource)) {
      total.nominal += cell.nominal;
      total.used += cell.used;
      total.borrowed += cell.borrowed;
      total.lent += lentOf(queue.key, cell);
    }
    const demand = demands().get(queue.key) || { jobs: 0, asks: {} };
    total.waiting += demand.jobs;
    total.wanted += demand.asks[resource] || 0;
  }
  if (line.isCohort)
    for (const row of cohortsBelow(line.name))
      for (const cell of row.cells) if (cell.resource === resource) total.nominal += cell.nominal;
  return total;
}

export function queuesBelow(line) {
  if (line.queue) return [line.queue];
  const names = new Set(namesBelow(line.name));
  return [...store.queues.values()].filter((queue) => names.has(queue.cohort));
}

const cohortsBelow = (name) =>
  namesBelow(name)
    .map((n) => store.cohorts.get(n))
    .filter(Boolean);

function namesBelow(name, seen = new Set()) {
  if (seen.has(name)) return [];
  seen.add(name);
  const inner = [...store.cohorts.values()].filter((row) => row.parent === name);
  return [name, ...inner.flatMap((row) => namesBelow(row.key, seen))];
}

// Who waits in each queue: how many, and for how much.
function demands() {
  return derived("demands", () => {
    const found = new Map();
    for (const row of store.jobs.values()) {
      if (!WAITING.includes(row.status) || !row.queue || row.status === "reserved") continue;
      const demand = found.get(row.queue) || found.set(row.queue, { jobs: 0, asks: {} }).get(row.queue);
      demand.jobs += 1;
      for (const [resource, n] of Object.entries(row.asks)) demand.asks[resource] = (demand.asks[resource] || 0) + n;
    }
    return found;
  });
}

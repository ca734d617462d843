// What this page knows: rows of jobs, queues, cohorts and nodes, kept up by one stream.

import { ask, keep, SignedOut } from "./session.js";

const SILENCE_MS = 25000; // the server says something every ten seconds
const RETRY_MS = [300, 600, 1200, 2500, 5000];
const TABLES = ["jobs", "queues", "cohorts", "nodes"];

const noTables = () => Object.fromEntries(TABLES.map((name) => [name, new Map()]));

export const store = {
  ...noTables(),
  reader: "",
  isSynced: false,
  link: "connecting",
  aheadS: 0,
  version: 0,
  updates: 0,
  now() {
    return Date.now() / 1000 + this.aheadS;
  },
};
const hearers = new Set();

export function onChange(hear) {
  hearers.add(hear);
}

function changed() {
  store.version += 1;
  for (const hear of hearers) hear();
}

function setLink(link) {
  if (store.link === link) return;
  store.link = link;
  changed();
}

// A new stream tells everything anew. What was known stays on the page until it has all come.
let coming = null;

function take(message) {
  if (message.type === "hello") {
    store.aheadS = message.now - Date.now() / 1000;
    store.reader = message.reader;
    keep(message.session);
    coming = store.isSynced ? noTables() : store;
    setLink("live");
  } else if (message.type === "rows") {
    const table = coming[message.table];
    for (const row of message.items) {
      const known = table.get(row.key); // then only what became different of it is told
      table.set(row.key, known ? { ...known, ...row } : row);
    }
    for (const key of message.gone) table.delete(key);
    store.updates += message.items.length + message.gone.length;
    if (coming === store) changed();
  } else if (message.type === "synced") {
    if (coming !== store) Object.assign(store, coming);
    coming = store;
    store.isSynced = true;
    changed();
  }
}

async function follow(abort) {
  const answer = await ask("/api/stream", { signal: abort.signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let silence = 0;
  for (;;) {
    silence = setTimeout(() => abort.abort(), SILENCE_MS);
    const { value, done } = await reader.read();
    clearTimeout(silence);
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  }
}

// Keep up until the session is over: then it throws SignedOut.
export async function keepUp() {
  for (let failures = 0; ;) {
    const before = store.updates;
    try {
      await follow(new AbortController());
    } catch (error) {
      if (error instanceof SignedOut) throw error;
    }
    failures = store.updates > before ? 0 : failures + 1;
    setLink("lost");
    await new Promise((resolve) => {
      setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    });
  }
}

// --- what follows from the rows, worked out once per change ---

const memory = new Map();

export function derived(name, make) {
  const known = memory.get(name);
  if (known && known.version === store.version) return known.value;
  const value = make();
  memory.set(name, { version: store.version, value });
  return value;
}

// The job that a Workload belongs to, by `namespace/name` of the Workload.
export function jobOfWorkload(key) {
  return derived("byWorkload", () => {
    const found = new Map();
    for (const row of store.jobs.values()) if (row.workload) found.set(`${row.namespace}/${row.workload}`, row);
    return found;
  }).get(key);
}

// The machine and its queues as they are now.

import { h } from "./tree.js";
import { derived, store } from "./store.js";
import {
  ENDED,
  RUNNING,
  WAITING,
  amount,
  asksText,
  bar,
  byRank,
  cohortPath,
  empty,
  isGpu,
  jobLine,
  jobLink,
  jobPath,
  jobsPath,
  queuePath,
  resourceName,
  short,
  status,
  waitOf,
} from "./parts.js";
import { lines, linesBelow, resources, totals } from "./quota.js";

export const title = () => "Now";

export function view(route) {
  return [h("h1", {}, "Now"), tiles(), machine(route), tree(route), happened()];
}

// --- figures ---

function counts() {
  return derived("counts", () => {
    const found = {};
    for (const row of store.jobs.values()) found[row.status] = (found[row.status] || 0) + 1;
    return found;
  });
}

export const countOf = (words) => words.reduce((n, word) => n + (counts()[word] || 0), 0);

// A figure that leads to what it is made of, and below it a part of that with its own way there.
function tile(name, value, href, note, noteHref) {
  return h(
    "div",
    { class: "tile" },
    h("a", { class: "whole", href }, h("span", {}, name), h("b", {}, value)),
    h("small", {}, note && noteHref ? h("a", { href: noteHref }, note) : note || " "),
  );
}

// Of a figure, those with one status.
const ofThem = (word, text) => (countOf([word]) ? [`${countOf([word])} ${text}`, jobsPath({ status: word })] : []);

function tiles() {
  const waiting = [...store.jobs.values()].filter((row) => row.status === "pending");
  const longest = waiting.reduce((most, row) => (most === null || row.created < most.created ? row : most), null);
  const [main] = onNodes();
  return h(
    "div",
    { class: "tiles" },
    main &&
      tile(
        `${resourceName(main.resource)} in use`,
        `${amount(main.resource, main.used)} of ${amount(main.resource, main.all)}`,
        jobsPath({ status: "running" }),
        `${Math.round((100 * main.used) / (main.all || 1))} % of the machine`,
      ),
    tile(
      "running",
      countOf(RUNNING),
      jobsPath({ status: "running" }),
      ...ofThem("evicting", "being stopped"),
    ),
    tile(
      "waiting",
      countOf(WAITING),
      jobsPath({ status: "waiting" }),
      ...ofThem("held", "held"),
    ),
    longest
      ? tile("longest wait", short(waitOf(longest)), jobPath(longest.key), longest.name)
      : tile("longest wait", "–", jobsPath({ status: "waiting" })),
    tile(
      "ended",
      countOf(ENDED),
      jobsPath({ status: "ended" }),
      ...ofThem("failed", "failed"),
    ),
  );
}

// --- nodes ---

function onNodes() {
  return derived("onNodes", () => {
    const all = new Map();
    for (const node of store.nodes.values()) {
      for (const [resource, n] of Object.entries(node.allocatable)) {
        if (resource === "pods" || resource === "ephemeral-storage" || resource.startsWith("hugepages")) continue;
        const total = all.get(resource) || all.set(resource, { resource, all: 0, used: 0 }).get(resource);
        total.all += n;
        total.used += node.pods.reduce((s, pod) => s + (pod.asks[resource] || 0), 0);
      }
    }
    return [...all.values()].sort((a, b) => byRank(a.resource, b.resource));
  });
}

const NODES_SHOWN = 12;

function machine(route) {
  const nodes = [...store.nodes.values()].sort((a, b) => (a.key < b.key ? -1 : 1)),
    most = route.query.get("nodes") === "all" ? nodes.length : NODES_SHOWN;
  return h(
    "section",
    { "aria-labelledby": "machine" },
    h("h2", { id: "machine" }, nodes.length > 1 ? `${nodes.length} nodes` : "Machine"),
    nodes.length
      ? h("div", { class: "nodes" }, nodes.slice(0, most).map(nodeCard))
      : empty(store.isSynced ? "There is no node." : "Loading …"),
    nodes.length > most && h("p", {}, h("a", { href: "/?nodes=all#machine" }, `and ${nodes.length - most} more nodes`)),
  );
}

function nodeCard(node) {
  const shown = onNodes().filter((total) => total.resource in node.allocatable);
  const state = !node.ready ? "not ready" : node.unschedulable ? "takes no pods" : "";
  return h(
    "article",
    { class: "card", key: node.key },
    h("h3", {}, node.key, state && h("span", { class: "bad" }, ` ${state}`)),
    shown.map(({ resource }) =>
      isGpu(resource) && node.allocatable[resource] <= 64 ? gpuMap(node, resource) : share(node, resource),
    ),
  );
}

// A square for each GPU, at its index where that is known; whose it is leads to the page of the job.
function gpuMap(node, resource) {
  const places = holders(node, resource);
  const used = places.filter((place) => place && place.pod).length;
  return h(
    "div",
    { class: "measure" },
    h("span", { class: "what" }, resourceName(resource)),
    h("span", { class: "gpus" }, places.map(gpu)),
    held(node, `${used} of ${node.allocatable[resource]}`),
  );
}

function holders(node, resource) {
  const out = Object.entries(node.unavailable).filter(([index]) => /^\d+$/.test(index));
  const places = Array.from({ length: node.allocatable[resource] + out.length }, () => null);
  for (const [index, why] of out) if (index < places.length) places[index] = { why };
  const unknown = [];
  for (const pod of node.pods) {
    const given = pod.devices[resource] || [];
    for (let i = 0; i < (pod.asks[resource] || 0); i += 1) {
      if (Number.isInteger(given[i]) && given[i] < places.length && !places[given[i]]) places[given[i]] = { pod };
      else unknown.push({ pod });
    }
  }
  for (let i = 0; i < places.length && unknown.length; i += 1) if (!places[i]) places[i] = unknown.shift();
  return places;
}

function gpu(place, index) {
  if (!place) return h("span", { class: "gpu", role: "img", "aria-label": `GPU ${index}: free`, title: `GPU ${index}: free` });
  if (place.why) {
    const text = `GPU ${index} is not handed out: ${place.why}`;
    return h("span", { class: "gpu out", role: "img", "aria-label": text, title: text }, "✕");
  }
  const row = store.jobs.get(place.pod.job);
  const text = `GPU ${index}: ${row ? row.name : place.pod.pod || "another's"}`;
  if (!row) return h("span", { class: "gpu used", role: "img", "aria-label": text, title: text });
  const name = row.id === null ? row.name.slice(0, 2) : row.id;
  return h("a", { class: "gpu used", href: jobPath(row.key), title: text, "aria-label": text }, name);
}

function share(node, resource) {
  const used = node.pods.reduce((s, pod) => s + (pod.asks[resource] || 0), 0),
    all = node.allocatable[resource];
  const words = `${amount(resource, used)} of ${amount(resource, all)}`;
  return h(
    "div",
    { class: "measure" },
    h("span", { class: "what" }, resourceName(resource)),
    bar({ resource, nominal: all, used: Math.min(used, all), borrowed: 0 }, 0),
    held(node, words),
  );
}

// What is held of a node leads to the jobs that hold it.
const held = (node, words) =>
  h("a", { class: "value", href: jobsPath({ node: node.key, status: "holding" }) }, words);

// --- queues ---

const OF = (route) => (resources().includes(route.query.get("of")) ? route.query.get("of") : resources()[0]);

function resourceChoice(route, path) {
  const chosen = OF(route),
    cohort = route.query.get("cohort");
  return (
    resources().length > 1 &&
    h(
      "nav",
      { class: "choice", "aria-label": "resource" },
      resources().map((r) =>
        h(
          "a",
          {
            href: `${path}?${new URLSearchParams({ of: r, ...(cohort ? { cohort } : {}) })}`,
            "aria-current": r === chosen ? "true" : null,
          },
          resourceName(r),
        ),
      ),
    )
  );
}

// The tree, or what is below a cohort.
export function tree(route, path = "/", heading = "h2") {
  const resource = OF(route),
    cohort = path === "/" ? "" : route.query.get("cohort"),
    shown = cohort ? linesBelow(cohort) : lines();
  return h(
    "section",
    { "aria-labelledby": "queues" },
    cohort && h("p", { class: "crumbs" }, h("a", { href: path }, "Queues")),
    h(
      "div",
      { class: "head" },
      h(heading, { id: "queues" }, cohort ? `Cohort ${cohort}` : "Queues"),
      resourceChoice(route, path),
    ),
    shown.length
      ? treeTable(resource, shown)
      : empty(
          !store.isSynced ? "Loading …" : cohort ? "There is no such cohort." : "There are no queues. ",
          store.isSynced && !cohort && h("code", {}, "makeway apply -f FILE"),
          store.isSynced && !cohort && " makes some.",
        ),
  );
}

const COLUMNS = [["", ""], ["", "wide"], ["Owns", "n"], ["Used", "n"], ["Borrowed", "n spare"], ["Lent", "n spare"], ["Waiting", "n"]];

function treeTable(resource, shown) {
  const names = ["Queue", resourceName(resource)];
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "queues" },
      h("caption", { class: "unseen" }, `Quota of ${resource} by queue`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          COLUMNS.map(([name, kind], i) => h("th", { scope: "col", class: kind }, name || names[i])),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map((line) => treeRow(line, resource)),
      ),
    ),
  );
}

function treeRow(line, resource) {
  const t = totals(line, resource),
    of = line.isCohort ? { cohort: line.name } : { queue: line.name };
  const link = (n, filters) =>
    n ? h("a", { href: jobsPath({ ...of, ...filters }) }, amount(resource, n)) : h("span", { class: "dim" }, "–");
  const path = line.isCohort ? cohortPath(line.name) : queuePath(line.name);
  const name = [h("a", { href: path }, line.name), line.isCohort && h("small", {}, " cohort")];
  const words = `${t.waiting > 1 ? " jobs" : " job"}${t.wanted ? ` for ${amount(resource, t.wanted)}` : ""}`;
  const state = line.queue && (line.queue.inactive ? "inactive" : line.queue.stop !== "None" ? "held" : "");
  return h(
    "tr",
    { key: `${line.isCohort ? "cohort" : "queue"} ${line.name}`, class: line.isCohort ? "cohort" : "" },
    h(
      "th",
      { scope: "row", style: { "padding-left": `${line.depth * 18}px` } },
      name,
      state && h("span", { class: "bad", title: line.queue.inactive || "nothing is admitted" }, ` ${state}`),
    ),
    h("td", { class: "wide" }, bar({ ...t, borrowed: line.isCohort ? 0 : t.borrowed }, line.isCohort ? 0 : t.lent)),
    h(
      "td",
      { class: "n" },
      h("a", { href: path }, amount(resource, t.nominal)),
    ),
    h("td", { class: "n" }, link(t.used, { status: "holding" })),
    h("td", { class: "n spare" }, link(t.borrowed, { status: "holding" })),
    h(
      "td",
      { class: "n spare" },
      t.lent > 0
        ? h(
            "a",
            { href: line.isCohort ? jobsPath({ ...of, status: "holding" }) : `${queuePath(line.name)}#borrowers` },
            amount(resource, t.lent),
          )
        : h("span", { class: "dim" }, "–"),
    ),
    h(
      "td",
      { class: "n" },
      t.waiting
        ? h(
            "a",
            { href: jobsPath({ ...of, status: "waiting" }) },
            t.waiting,
            h("span", { class: "spare" }, words),
          )
        : h("span", { class: "dim" }, "–"),
    ),
  );
}

// --- what happened last ---

const lastMoment = (row) => Math.max(row.created, row.admitted || 0, row.started || 0, row.ended || 0);

function happened() {
  const rows = derived("happened", () =>
    [...store.jobs.values()]
      .filter((r) => r.status === "evicting" || r.status === "pending")
      .sort((a, b) => (b.status === "evicting") - (a.status === "evicting") || a.created - b.created)
      .slice(0, 8),
  );
  const latest = derived("latest", () =>
    [...store.jobs.values()].sort((a, b) => lastMoment(b) - lastMoment(a)).slice(0, 8),
  );
  return h(
    "div",
    { class: "two" },
    h(
      "section",
      { "aria-labelledby": "waits" },
      h("h2", { id: "waits" }, "Who waits, and why"),
      rows.length
        ? h(
            "ul",
            { class: "list" },
            rows.map((row) =>
              h(
                "li",
                { key: row.key },
                h(
                  "div",
                  {},
                  jobLink(row),
                  " ",
                  h("span", { class: "dim" }, `${asksText(row.asks)} · ${short(waitOf(row))}`),
                ),
                h("p", { class: "reason" }, row.status === "evicting" ? status("evicting") : "", " ", row.reason),
              ),
            ),
          )
        : empty(store.isSynced ? "Nobody waits." : "Loading …"),
    ),
    h(
      "section",
      { "aria-labelledby": "last" },
      h("h2", { id: "last" }, "Latest"),
      latest.length
        ? h(
            "ul",
            { class: "list" },
            latest.map((row) =>
              h(
                "li",
                { key: row.key },
                jobLine(row, `${row.queue || row.localQueue} · ${short(store.now() - lastMoment(row))} ago`),
              ),
            ),
          )
        : empty(
            store.isSynced ? "There are no jobs. " : "Loading …",
            store.isSynced && h("code", {}, "makeway submit -- COMMAND"),
            store.isSynced && " makes one.",
          ),
    ),
  );
}

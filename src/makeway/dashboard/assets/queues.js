// Queues: the tree, and one queue with all that it owns, who holds it and who waits.

import { h } from "./tree.js";
import { store } from "./store.js";
import {
  HOLDING,
  WAITING,
  amount,
  asksText,
  bar,
  byRank,
  cohortPath,
  empty,
  jobLine,
  jobsPath,
  queueLink,
  queuePath,
  resourceName,
  short,
  waitOf,
} from "./parts.js";
import { PALETTE } from "./charts.js";
import { choice, course, over, spanIn } from "./course.js";
import { lentOf } from "./quota.js";
import { tree } from "./now.js";

const SHOWN = 20;

export const title = (route) => (route.parts[1] ? `Queue ${route.parts[1]}` : "Queues");

export function view(route, app) {
  const [, name] = route.parts;
  return name ? one(name, route, app) : [tree(route, "/queues", "h1"), overTime(null, route, app)];
}

function one(name, route, app) {
  const queue = store.queues.get(name);
  if (!queue) return [h("h1", {}, name), empty(store.isSynced ? "There is no such queue." : "Loading …")];
  const rows = [...store.jobs.values()].filter((row) => row.queue === name);
  const holders = rows
    .filter((row) => HOLDING.includes(row.status))
    .sort((a, b) => (b.admitted || 0) - (a.admitted || 0));
  const waiting = rows
    .filter((row) => WAITING.includes(row.status) && row.status !== "reserved")
    .sort((a, b) => (b.priority || 0) - (a.priority || 0) || a.created - b.created);
  return [
    h("p", { class: "crumbs" }, h("a", { href: "/queues" }, "Queues"), queue.cohort && [" / ", h("a", { href: cohortPath(queue.cohort) }, `cohort ${queue.cohort}`)]),
    h("h1", {}, name),
    queue.inactive && h("p", { class: "problem" }, `Inactive: ${queue.inactive}`),
    queue.stop !== "None" && h("p", { class: "problem" }, "Held: nothing is admitted."),
    quotas(queue),
    borrowers(queue),
    jobs(
      "holders",
      `Who holds it`,
      holders,
      jobsPath({ queue: name, status: "holding" }),
      "Nobody holds anything of it.",
    ),
    jobs(
      "waiting",
      "Who waits, by priority and age",
      waiting,
      jobsPath({ queue: name, status: "waiting" }),
      "Nobody waits.",
    ),
    overTime(name, route, app),
    rules(queue),
  ];
}

// --- use and waits over time, of one queue or of all ---

function overTime(name, route, app) {
  const span = spanIn(route),
    { told, problem } = course(span, app);
  const path = name ? queuePath(name) : "/queues";
  return h(
    "section",
    { "aria-labelledby": "time" },
    h("div", { class: "head" }, h("h2", { id: "time" }, "Over time"), choice(path, span)),
    problem && empty(problem),
    !told && !problem && empty("Reading the journal …"),
    told && [
      figure(told, told.use, [...told.resources].sort(byRank)[0], name, app),
      figure(told, { waiting: told.waiting }, "waiting", name, app),
      name && figure(told, { waits: told.waits }, "waits", name, app),
    ],
  );
}

const FIGURES = { waiting: "Jobs that wait", waits: "How long those had waited that got their place" };

function figure(told, of, what, name, app) {
  const values = of[what] || {},
    names = Object.keys(values).sort();
  const groups = names
    .map((queue, i) => ({ name: queue, colour: PALETTE[i % PALETTE.length], values: values[queue].map((v) => v || 0) }))
    .filter((g) => (name ? g.name === name : g.values.some((v) => v > 0)));
  return h(
    "div",
    { class: "figure" },
    h("h3", {}, FIGURES[what] || `${resourceName(what || "")} held`),
    groups.some((g) => g.values.some((v) => v > 0)) ? over(told, what, groups, app) : empty("None in that time."),
  );
}

function quotas(queue) {
  const head = ["Flavor", "Resource", "", "Owns", "Used", "Borrowed", "Lent", "Limits"];
  return h(
    "section",
    { "aria-labelledby": "quota" },
    h("h2", { id: "quota" }, "Quota"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "queues" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map((n, i) => (n ? h("th", { scope: "col", class: i > 2 && i < 7 ? "n" : "" }, n) : h("td", {}))),
          ),
        ),
        h(
          "tbody",
          {},
          queue.cells.map((cell) => quota(queue, cell)),
        ),
      ),
    ),
  );
}

function quota(queue, cell) {
  const lent = lentOf(queue.key, cell),
    n = (v) => (v ? amount(cell.resource, v) : "–");
  const limits = [
    cell.borrowingLimit !== null && `borrows at most ${amount(cell.resource, cell.borrowingLimit)}`,
    cell.lendingLimit !== null && `lends at most ${amount(cell.resource, cell.lendingLimit)}`,
  ]
    .filter(Boolean)
    .join(", ");
  return h(
    "tr",
    { key: `${cell.flavor} ${cell.resource}` },
    h("th", { scope: "row" }, cell.flavor),
    h("td", {}, resourceName(cell.resource)),
    h("td", { class: "wide" }, bar(cell, lent)),
    h("td", { class: "n" }, amount(cell.resource, cell.nominal)),
    h("td", { class: "n" }, cell.used ? h("a", { href: "#holders" }, n(cell.used)) : "–"),
    h("td", { class: "n" }, cell.borrowed ? h("a", { href: "#holders" }, n(cell.borrowed)) : "–"),
    h("td", { class: "n" }, lent > 0 ? h("a", { href: "#borrowers" }, n(lent)) : "–"),
    h("td", { class: "dim" }, limits),
  );
}

function borrowers(queue) {
  const found = [];
  for (const other of store.queues.values()) {
    if (other.key === queue.key || !queue.cohort) continue;
    for (const cell of other.cells)
      if (
        cell.borrowed &&
        queue.cells.some(
          (own) => own.flavor === cell.flavor && own.resource === cell.resource && lentOf(queue.key, own) > 0,
        )
      )
        found.push([other, cell]);
  }
  return (
    found.length > 0 &&
    h(
      "section",
      { "aria-labelledby": "borrowers" },
      h("h2", { id: "borrowers" }, "Who borrows what it does not use"),
      h(
        "ul",
        { class: "list" },
        found.map(([other, cell]) =>
          h(
            "li",
            {},
            queueLink(other.key),
            " borrows ",
            h(
              "a",
              { href: jobsPath({ queue: other.key, status: "holding" }) },
              `${amount(cell.resource, cell.borrowed)} ${resourceName(cell.resource)}`,
            ),
            ` of ${cell.flavor}`,
          ),
        ),
      ),
    )
  );
}

function jobs(id, name, rows, href, none) {
  return h(
    "section",
    { "aria-labelledby": id },
    h("h2", { id }, name, " ", h("a", { href }, rows.length)),
    rows.length
      ? h(
          "ul",
          { class: "list" },
          rows
            .slice(0, SHOWN)
            .map((row) =>
              h(
                "li",
                { key: row.key },
                jobLine(row, `${asksText(row.asks)} · priority ${row.priority ?? 0} · waited ${short(waitOf(row))}`),
                row.reason && h("p", { class: "reason" }, row.reason),
              ),
            ),
        )
      : empty(none),
    rows.length > SHOWN && h("p", {}, h("a", { href }, `all ${rows.length}`)),
  );
}

function rules(queue) {
  const p = queue.preemption;
  return h(
    "section",
    { "aria-labelledby": "rules" },
    h("h2", { id: "rules" }, "Rules"),
    h(
      "dl",
      { class: "facts" },
      [
        ["Order", queue.strategy],
        ["Preempts within", p.within],
        ["Reclaims in its cohort", p.reclaim],
        ["Preempts to borrow", p.borrow],
      ].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
      queue.localQueues.map((l) =>
        h(
          "div",
          {},
          h("dt", {}, `LocalQueue ${l.namespace}/${l.name}`),
          h(
            "dd",
            {},
            h(
              "a",
              { href: jobsPath({ queue: l.name, namespace: l.namespace, status: "waiting" }) },
              `${l.pending} pending`,
            ),
            ", ",
            h(
              "a",
              { href: jobsPath({ queue: l.name, namespace: l.namespace, status: "holding" }) },
              `${l.admitted} admitted`,
            ),
            l.stop !== "None" && ", held",
          ),
        ),
      ),
    ),
  );
}

// What was, from the journal: use over time, who used and waited how much, who preempted whom.

import { drawn, h } from "./tree.js";
import { store } from "./store.js";
import { byRank, empty, jobsPath, pastPath, queueLink, resourceName, short } from "./parts.js";
import { PALETTE, matrix } from "./charts.js";
import { element } from "./elements.js";
import { choice, course, over, spanIn } from "./course.js";

const HOUR = 3600;

export const title = () => "History";

export function view(route, app) {
  const span = spanIn(route),
    { told, problem } = course(span, app);
  return [
    h("div", { class: "head" }, h("h1", {}, "History"), choice("/history", span)),
    problem && empty(problem),
    !told && !problem && empty("Reading the journal …"),
    told &&
      (told.accounts.length
        ? [use(told, route, span, app), people(told), preemptions(told)]
        : empty("Nothing was written down in that time.")),
  ];
}

// --- use over time ---

function use(told, route, span, app) {
  const resources = [...told.resources].sort(byRank);
  const resource = resources.includes(route.query.get("of")) ? route.query.get("of") : resources[0];
  if (!resource) return empty("Nobody held anything in that time.");
  const queues = Object.keys(told.use[resource]).sort();
  const groups = queues
    .map((name, i) => ({ name, colour: PALETTE[i % PALETTE.length], values: told.use[resource][name] }))
    .filter((g) => g.values.some((v) => v > 0));
  return h(
    "section",
    { "aria-labelledby": "use" },
    h(
      "div",
      { class: "head" },
      h("h2", { id: "use" }, `${resourceName(resource)} held, by queue`),
      resources.length > 1 &&
        h(
          "nav",
          { class: "choice", "aria-label": "resource" },
          resources.map((r) =>
            h(
              "a",
              {
                href: `/history?span=${span}&of=${encodeURIComponent(r)}`,
                "aria-current": r === resource ? "true" : null,
              },
              resourceName(r),
            ),
          ),
        ),
    ),
    over(told, resource, groups, app),
  );
}

// --- who used, waited and lost how much ---

export const hours = (resource, n) => (resource === "cpu" ? n / 1000 : resource === "memory" ? n / 2 ** 30 : n) / HOUR;
export const units = (resource) => (resource === "memory" ? "Gi" : resourceName(resource));
export const shortHours = (v) =>
  v >= 100 ? Math.round(v).toLocaleString("en") : v >= 0.1 || v === 0 ? v.toFixed(1) : "< 0.1";

function people(told) {
  const resources = [...told.resources].sort(byRank);
  const head = [
    "User",
    "Queue",
    "Jobs",
    "Starts",
    "Mean wait",
    ...resources.map((r) => `${units(r)}-hours`),
    "Preempted",
    "Work lost",
  ];
  const rows = [...told.accounts].sort((a, b) => (b.used[resources[0]] || 0) - (a.used[resources[0]] || 0));
  return h(
    "section",
    { "aria-labelledby": "people" },
    h(
      "div",
      { class: "head" },
      h("h2", { id: "people" }, "Who used how much"),
      h("a", { href: csv(told, resources), download: `makeway-${told.until.toFixed(0)}.csv` }, "CSV"),
    ),
    h(
      "div",
      { class: "scroll", tabindex: "0" },
      h(
        "table",
        {},
        h("caption", { class: "unseen" }, "Use by user and queue"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map((name, i) => h("th", { scope: "col", class: i > 1 ? "n" : "" }, name)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) => account(row, told, resources)),
        ),
      ),
    ),
  );
}

// Each figure leads to the jobs that it is made of.
function account(row, told, resources) {
  const cell = (by, text) =>
    h(
      "td",
      { class: "n" },
      text ? h("a", { href: pastPath("jobs", told, { user: row.user, queue: row.queue, by }) }, text) : "–",
    );
  return h(
    "tr",
    { key: `${row.user} ${row.queue}` },
    h("th", { scope: "row" }, h("a", { href: jobsPath({ namespace: row.user }) }, row.user)),
    h("td", {}, store.queues.has(row.queue) ? queueLink(row.queue) : row.queue),
    cell("arrived", row.arrived),
    cell("admitted", row.admitted),
    cell("waited", row.admitted ? short(row.waited / row.admitted) : ""),
    resources.map((r) => cell(r, row.used[r] ? shortHours(hours(r, row.used[r])) : "")),
    cell("preempted", row.preempted),
    cell("lost", row.lost ? short(row.lost) : ""),
  );
}

function csv(told, resources) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const head = [
    "user",
    "queue",
    "jobs",
    "starts",
    "finished",
    "preempted",
    "evicted",
    "waited s",
    "lost s",
    ...resources.map((r) => `${r} hours`),
  ];
  const rows = told.accounts.map((a) => [
    a.user,
    a.queue,
    a.arrived,
    a.admitted,
    a.finished,
    a.preempted,
    a.evicted,
    a.waited,
    a.lost,
    ...resources.map((r) => hours(r, a.used[r] || 0).toFixed(4)),
  ]);
  return `data:text/csv;charset=utf-8,${encodeURIComponent([head, ...rows].map((row) => row.map(quoted).join(",")).join("\n"))}`;
}

function preemptions(told) {
  return h(
    "section",
    { "aria-labelledby": "matrix" },
    h("h2", { id: "matrix" }, "Who preempted whom"),
    told.preemptions.length
      ? drawn(`${told.until} matrix`, () =>
          element(
            "div",
            { class: "matrix" },
            matrix(told.preemptions, (preemptor, victim) => pastPath("preemptions", told, { preemptor, victim })),
          ),
        )
      : empty("Nobody made way for anybody."),
  );
}

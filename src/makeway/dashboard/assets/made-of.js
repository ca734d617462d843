// What figures of the history are made of: the jobs of a span of time, or who made way for whom.

import { h } from "./tree.js";
import { askJson } from "./session.js";
import { store } from "./store.js";
import { byRank, empty, otherLink, queueLink, short, stamp } from "./parts.js";
import { hours, shortHours, units } from "./past.js";

const FIGURES = {
  arrived: ["Came", (v) => v],
  admitted: ["Starts", (v) => v],
  waited: ["Waited", short],
  preempted: ["Preempted", (v) => v],
  lost: ["Work lost", short],
};

let shown = { address: "", told: null, problem: "" };

const isOfJobs = (route) => route.parts[1] === "jobs";

export const title = (route) => (isOfJobs(route) ? "Jobs of the past" : "Preemptions of the past");

export function view(route, app) {
  const address = `/api/history/${isOfJobs(route) ? "jobs" : "preemptions"}?${route.query}`;
  if (shown.address !== address) ask(address, app);
  const { told, problem } = shown;
  return [
    h("p", { class: "crumbs" }, h("a", { href: "/history" }, "History")),
    h("h1", {}, heading(route)),
    h("p", { class: "dim" }, `${stamp(Number(route.query.get("since")))} to ${stamp(Number(route.query.get("until")))}`),
    problem && empty(problem),
    !told && !problem && empty("Reading the journal …"),
    told && (isOfJobs(route) ? jobs(told, route) : preemptions(told)),
  ];
}

function ask(address, app) {
  const mine = { address, told: null, problem: "" };
  shown = mine;
  askJson(address)
    .then((told) => {
      mine.told = told;
    })
    .catch((error) => {
      mine.problem = error.message;
    })
    .finally(() => app.later());
}

function heading(route) {
  const [user, queue, preemptor, victim] = ["user", "queue", "preemptor", "victim"].map((n) => route.query.get(n));
  if (!isOfJobs(route)) return preemptor && victim ? `Jobs of ${victim} that made way for ${preemptor}` : "Who made way for whom";
  return ["Jobs", user && ` of ${user}`, queue && ` in ${queue}`].filter(Boolean).join("");
}

const queue = (name) => (store.queues.has(name) ? queueLink(name) : name);

function left(told, listed, words) {
  return told.count > listed && empty(`and ${(told.count - listed).toLocaleString("en")} ${words}`);
}

// --- jobs ---

function jobs(told, route) {
  if (!told.jobs.length) return empty("None in that time.");
  const resources = [...told.resources].sort(byRank),
    by = route.query.get("by") || "arrived",
    isOfOne = route.query.has("queue");
  const columns = [
    ...Object.entries(FIGURES).map(([name, [words, format]]) => [name, words, (j) => j[name] && format(j[name])]),
    ...resources.map((r) => [r, `${units(r)}-hours`, (j) => j.used[r] && shortHours(hours(r, j.used[r]))]),
  ];
  return h(
    "div",
    { class: "scroll", tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, "Jobs, and what each of them used"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Job"),
          !isOfOne && h("th", { scope: "col" }, "Queue"),
          columns.map(([name, words]) => figureHead(name, words, by, route)),
        ),
      ),
      h("tbody", {}, told.jobs.map((job) => jobRow(job, columns, isOfOne))),
    ),
    left(told, told.jobs.length, "more with less"),
  );
}

function figureHead(name, words, by, route) {
  const query = new URLSearchParams(route.query);
  query.set("by", name);
  const isThis = name === by;
  return h(
    "th",
    { scope: "col", class: "n", "aria-sort": isThis ? "descending" : null },
    h("a", { href: `/history/jobs?${query}` }, words, isThis && h("span", { "aria-hidden": "true" }, " ↓")),
  );
}

// Without a key: the list of an address is always the same, and jobs that are hidden have none.
function jobRow(job, columns, isOfOne) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, otherLink(job)),
    !isOfOne && h("td", {}, queue(job.queue)),
    columns.map(([, , text]) => h("td", { class: "n" }, text(job) || "–")),
  );
}

// --- preemptions ---

function preemptions(told) {
  if (!told.preemptions.length) return empty("Nobody made way for anybody.");
  return h(
    "div",
    { class: "scroll", tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, "Who made way for whom"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["When", "Made way", "in", "for", "in"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        told.preemptions.map((one) =>
          h(
            "tr",
            {},
            h("td", {}, stamp(one.at)),
            h("td", {}, otherLink(one.victim)),
            h("td", {}, queue(one.victimQueue)),
            h("td", {}, otherLink(one.preemptor)),
            h("td", {}, queue(one.preemptorQueue)),
          ),
        ),
      ),
    ),
    left(told, told.preemptions.length, "earlier"),
  );
}

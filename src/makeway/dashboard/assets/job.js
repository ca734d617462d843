// One job: why it waits, who took its place, its life, its pods and what they print.

import { h } from "./tree.js";
import { ask, askJson, post } from "./session.js";
import { jobOfWorkload, store } from "./store.js";
import {
  ENDED,
  RUNNING,
  WAITING,
  asksText,
  clock,
  empty,
  explained,
  jobPath,
  jobsPath,
  linked,
  otherLink,
  queueLink,
  runOf,
  short,
  status,
  waitOf,
} from "./parts.js";

const AGAIN_MS = 5000; // what the scheduler says of a waiting job changes with others
const OUTPUT_MAX = 200000; // characters

let shown = null; // the job of this page, with what was asked for it

export const title = (route) => route.parts[3] || "Job";

const keyOf = (route) => route.parts.slice(1).join("/");

export function view(route, app) {
  const key = keyOf(route),
    row = store.jobs.get(key);
  if (!shown || shown.key !== key) enter(key, app);
  if (!row) return gone(route, app);
  refresh(row, app);
  const d = shown.details;
  return [
    h(
      "p",
      { class: "crumbs" },
      h("a", { href: "/jobs" }, "Jobs"),
      " / ",
      h("a", { href: jobsPath({ namespace: row.namespace }) }, row.namespace),
    ),
    h(
      "div",
      { class: "head" },
      h("h1", {}, row.id !== null && h("span", { class: "id" }, `${row.id} `), row.name),
      status(row.status),
      actions(row, app),
    ),
    shown.error && h("p", { class: "problem", role: "alert" }, shown.error),
    facts(row),
    placeTaken(row, d),
    why(row, d),
    life(row, d),
    pods(row, d, app),
    output(row, app),
    events(d),
  ];
}

// A job that is deleted: what the journal has kept of it.
function gone(route, app) {
  const [, , namespace, name] = route.parts;
  if (!store.isSynced) return [h("h1", {}, name), empty("Loading …")];
  const told = shown.past && shown.past.happened.length > 0;
  const isWhole = told && shown.past.happened.at(-1).kind === "deleted"; // it is written a moment later
  if (!isWhole && !shown.isAsking && performance.now() - shown.at > AGAIN_MS) {
    shown.at = performance.now();
    askLife(namespace, name, app);
  }
  return [
    h("p", { class: "crumbs" }, h("a", { href: "/jobs" }, "Jobs"), " / ", namespace),
    h("h1", {}, name),
    empty(`There is no such job (any more).${told ? " This is what the journal tells of it." : ""}`),
    told && lifeOf(shown.past.created, shown.past.happened.at(-1).at, stays(shown.past, null, null), true),
    told && record(shown.past),
  ];
}

// What the journal tells of this job; without a journal, its events have to do.
function askLife(namespace, name, app) {
  const mine = shown;
  mine.isAsking = true;
  askJson(`/api/life?${new URLSearchParams({ namespace, name })}`)
    .catch(() => ({ workload: "", created: null, happened: [] }))
    .then((past) => {
      mine.past = past;
      mine.isAsking = false;
      app.later();
    });
}

export function leave() {
  if (shown && shown.reading) shown.reading.abort();
  shown = null;
}

function enter(key, app) {
  leave();
  shown = { key, details: null, past: null, row: null, at: -AGAIN_MS, error: "", asked: "", text: "", pod: "", reading: null };
  app.later();
}

// Ask again when the row has changed, and from time to time while it waits.
function refresh(row, app) {
  const f = shown.details?.forecast,
    isOpen = WAITING.includes(row.status) || (f && !f.isCurrent && !ENDED.includes(row.status)),
    isOld = isOpen && performance.now() - shown.at > AGAIN_MS;
  if (shown.row === row && !isOld) return;
  const mine = shown;
  mine.row = row;
  mine.at = performance.now();
  if (row.workload && !mine.isAsking) askLife(row.namespace, row.workload, app);
  const query = new URLSearchParams({ key: row.key, workload: row.workload });
  askJson(`/api/job?${query}`)
    .then((details) => {
      mine.details = details;
      mine.error = "";
      choosePod(mine, row, app);
      app.later();
    })
    .catch((error) => {
      mine.error = error.message;
      app.later();
    });
}

// --- what can be done ---

function actions(row, app) {
  if (ENDED.includes(row.status) || row.status === "ending") return null;
  const mine = shown;
  const go = (action, value = "") => {
    mine.asked = "";
    post("/api/action", { key: row.key, workload: row.workload, action, value }).catch((error) => {
      mine.error = error.message;
      app.later();
    });
    app.later();
  };
  if (mine.asked === "cancel") {
    return h(
      "div",
      { class: "actions", key: "ask" },
      h("span", {}, "End it for good?"),
      h("button", { class: "danger", id: "yes", onclick: () => go("cancel") }, "Yes, cancel it"),
      h(
        "button",
        {
          onclick: () => {
            mine.asked = "";
            app.later();
          },
        },
        "No",
      ),
    );
  }
  const classes = mine.details ? mine.details.classes : [];
  return h(
    "div",
    { class: "actions", key: "actions" },
    row.kind === "Job" &&
      classes.length > 0 &&
      h(
        "label",
        {},
        h("span", { class: "unseen" }, "priority class"),
        h(
          "select",
          { onchange: (event) => go("priority", event.target.value) },
          !row.priorityClass && h("option", { value: "", selected: true, disabled: true }, "priority …"),
          classes.map((name) => h("option", { value: name, selected: name === row.priorityClass }, name)),
        ),
      ),
    row.workload &&
      (row.status === "held"
        ? h("button", { id: "resume", onclick: () => go("resume") }, "Resume")
        : h("button", { id: "hold", onclick: () => go("hold") }, "Hold")),
    h(
      "button",
      {
        id: "cancel",
        onclick: () => {
          mine.asked = "cancel";
          app.later();
        },
      },
      "Cancel",
    ),
  );
}

// --- what it is ---

function fact(name, ...value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...value));
}

// What its life shows the parts of.
const inItsLife = (value, words) => (value === null ? "–" : h("a", { href: "#life" }, words(value)));

function facts(row) {
  const d = shown.details;
  return h(
    "dl",
    { class: "facts" },
    fact("Queue", queueLink(row.queue || row.localQueue)),
    fact("Asks for", asksText(row.asks) || "–"),
    fact("Priority", row.priority ?? "–", row.priorityClass && h("span", { class: "dim" }, ` ${row.priorityClass}`)),
    fact(
      "User",
      row.user
        ? h("a", { href: jobsPath({ user: row.user }) }, row.user)
        : h("a", { href: jobsPath({ namespace: row.namespace }) }, row.namespace),
    ),
    fact("Submitted", clock(row.created)),
    fact("Waited", inItsLife(waitOf(row), short)),
    fact("Ran", inItsLife(runOf(row), short)),
    row.until && fact("Ends at the latest", hour(row.until)),
    expected("Expected to start", d, "start", row.started === null),
    expected("Expected to end", d, "end", row.ended === null),
    row.flavors.length > 0 && fact("Flavor", row.flavors.join(", ")),
    row.nodes.length > 0 &&
      fact(
        "Node",
        row.nodes.map((n, i) => [i ? ", " : "", h("a", { href: jobsPath({ node: n }) }, n)]),
      ),
    row.evictions > 0 &&
      fact("Stopped before", inItsLife(row.evictions, (n) => `${n} time${n > 1 ? "s" : ""}`)),
    d &&
      d.command.length > 0 &&
      h(
        "div",
        { class: "wide" },
        h("dt", {}, "Command"),
        h("dd", {}, h("code", {}, d.command.join(" ").replaceAll("$$", "$"))),
      ),
  );
}

// The middle of many runs ahead, and between which times eight of ten were.
function expected(name, d, which, isToCome) {
  const f = d && d.forecast;
  if (!f || !isToCome || (f.verdict === "Expected" && !f[which])) return null;
  const isPast = f[which] && f[which][1] && f[which][1] < store.now() && !f.isCurrent;
  if (f.verdict === "Coming" || isPast) return fact(name, h("span", { class: "dim" }, "is being reckoned"));
  if (f.failure) return fact(name, h("span", { class: "dim" }, `unknown: ${f.failure}`));
  if (f.verdict !== "Expected") return which === "end" ? null : fact(name, f.verdict.toLowerCase());
  const [early, middle, late] = f[which].map((at) => (at ? hour(at) : "later"));
  return fact(
    name,
    middle === "later" ? "later than was looked ahead" : `~${middle}`,
    h("span", { class: "dim" }, ` (${early} to ${late})`),
  );
}

const hour = (at) => clock(at).replace(/:\d\d$/, "");

// --- why it waits ---

const UIDS = / \(UID: [^)]*\)/; // of whom the link names
const isTrue = (d, type) => d.conditions.find((c) => c.type === type && c.status === "True");

function placeTaken(row, d) {
  const told = d && (isTrue(d, "Preempted") || isTrue(d, "Evicted"));
  if (!told || ENDED.includes(row.status) || RUNNING.filter((w) => w !== "evicting").includes(row.status)) return null;
  const by = takerOf(row);
  return h(
    "section",
    { class: "notice", "aria-labelledby": "taken" },
    h(
      "h2",
      { id: "taken" },
      by ? ["Its place was taken by ", otherLink(by)] : "It was stopped",
    ),
    h("p", {}, `${clock(told.at)} · ${told.reason}: `, linked(told.message.replace(UIDS, ""))),
  );
}

// Who took its place the last time, as its Workload's status names him; else as the journal does.
function takerOf(row) {
  if (row.preemptedBy) return { workload: row.preemptedBy, name: nameOf(row.preemptedBy) };
  const last = (shown.past ? shown.past.happened : []).findLast((e) => e.kind === "preempted");
  return last ? last.others[0] : undefined;
}

// A Workload is called after its job.
const nameOf = (workload) => /^(?:job|pod)-(.+)-[0-9a-f]{5}$/.exec(workload.split("/")[1])?.[1] || workload.split("/")[1];

function why(row, d) {
  if (!WAITING.includes(row.status)) return null;
  const lines = d ? d.explanation : [];
  const checks = d ? d.checks.filter((c) => c.state !== "Ready") : [];
  return h(
    "section",
    { "aria-labelledby": "why" },
    h("h2", { id: "why" }, "Why it waits"),
    lines.length
      ? h("div", { class: "why" }, lines.map(explained))
      : h("p", {}, row.message || row.reason || "It was not looked at yet."),
    checks.map((c) => h("p", {}, `Admission check ${c.name} is ${c.state}${c.message ? `: ${c.message}` : ""}`)),
    d && !d.active && h("p", {}, "It is held; Resume lets it try again."),
  );
}

// --- its life, as a bar of time ---

const NEXT = {
  admitted: "ran",
  preempted: "waited",
  evicted: "waited",
  deactivated: "waited",
  forgotten: "waited",
  finished: "over",
  deleted: "over",
};
const EVENTS = { Admitted: "admitted", Preempted: "preempted", Finished: "finished" };

// Changes as the journal has them, or without one as events do.
function changes(past, d) {
  if (past && past.happened.length) return past.happened;
  return (d ? d.events : [])
    .filter((e) => e.about === "Workload" && e.at)
    .map((e) => ({
      at: e.at,
      kind: EVENTS[e.reason] || (e.reason.startsWith("Evicted") ? "evicted" : ""),
      others: [],
      text: e.message,
    }));
}

// Waits and runs, one after the other.
function stays(past, d, row) {
  const found = [];
  let kind = "waited",
    since = row ? row.created : past.created,
    cause = null;
  const close = (at) => {
    if (at > since) found.push({ kind, from: since, to: at, cause });
    since = Math.max(at, since);
  };
  for (const change of changes(past, d)) {
    const next = NEXT[change.kind];
    if (!next || next === kind) continue;
    close(change.at);
    kind = next;
    cause = next === "waited" ? change : null;
    if (next === "over") return found;
  }
  if (!row) return found;
  if (kind === "waited" && row.admitted && row.admitted > since) {
    close(row.admitted);
    kind = "ran";
    cause = null;
  }
  close(row.ended ?? store.now());
  return found;
}

function life(row, d) {
  return lifeOf(row.created, row.ended ?? store.now(), stays(shown.past, d, row), row.ended !== null);
}

function lifeOf(created, ended, parts, isOver) {
  const whole = Math.max(
    1e-6,
    parts.reduce((s, p) => s + p.to - p.from, 0),
  );
  const words = { waited: "waits", ran: "has its place" };
  const past = { waited: "waited", ran: "had its place" };
  return h(
    "section",
    { "aria-labelledby": "life" },
    h("h2", { id: "life" }, "Its life"),
    h(
      "div",
      {
        class: "life",
        role: "img",
        "aria-label": parts.map((p) => `${past[p.kind]} ${short(p.to - p.from)}`).join(", "),
      },
      parts.map((p) =>
        h("span", {
          class: p.kind,
          style: { "flex-grow": String(Math.max(0.015, (p.to - p.from) / whole)) },
          title: `${past[p.kind]} ${short(p.to - p.from)}`,
        }),
      ),
    ),
    h(
      "div",
      { class: "ends" },
      h("span", {}, `submitted ${clock(created)}`),
      h("span", {}, isOver ? `ended ${clock(ended)}` : "now"),
    ),
    h(
      "ol",
      { class: "stays" },
      parts.map((p, i) =>
        h(
          "li",
          {},
          h("b", {}, `${!isOver && i === parts.length - 1 ? words[p.kind] : past[p.kind]} ${short(p.to - p.from)}`),
          h("span", { class: "dim" }, ` from ${clock(p.from)}`),
          p.cause && after(p.cause),
        ),
      ),
    ),
  );
}

function after(cause) {
  const [by] = cause.others;
  if (cause.kind === "preempted" && by) return h("span", {}, ", its place was taken by ", otherLink(by));
  return h("span", {}, `, ${cause.text || "it had to make way"}`);
}

// All that the journal tells of a job that is gone, the latest first.
function record(past) {
  return h(
    "section",
    { "aria-labelledby": "record" },
    h("h2", { id: "record" }, "What happened"),
    h(
      "ol",
      { class: "events" },
      [...past.happened].reverse().map((e) =>
        h(
          "li",
          {},
          h("time", {}, clock(e.at)),
          h("b", {}, e.kind),
          h(
            "span",
            {},
            e.text.startsWith(e.kind) ? e.text.slice(e.kind.length).replace(/^[: ]+/, "") : e.text,
            e.others.map((other) => [" ", otherLink(other)]),
          ),
        ),
      ),
    ),
  );
}

// --- pods and output ---

function pods(row, d, app) {
  if (!d || !d.pods.length) return null;
  return h(
    "section",
    { "aria-labelledby": "pods" },
    h("h2", { id: "pods" }, "Pods"),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Pod", "Phase", "Node", "Started", "Ended", "Exit"].map((n) => h("th", { scope: "col" }, n)),
          ),
        ),
        h(
          "tbody",
          {},
          d.pods.map((pod) =>
            h(
              "tr",
              { key: pod.name },
              h(
                "th",
                { scope: "row" },
                h("button", { class: "plain", onclick: () => read(shown, row, pod.name, app) }, pod.name),
              ),
              h("td", {}, pod.phase),
              h("td", {}, pod.node ? h("a", { href: jobsPath({ node: pod.node }) }, pod.node) : "–"),
              h("td", {}, clock(pod.started)),
              h("td", {}, clock(pod.ended)),
              h("td", {}, pod.exitCode ?? "–", pod.reason && pod.reason !== "Completed" && ` ${pod.reason}`),
            ),
          ),
        ),
      ),
    ),
  );
}

function choosePod(mine, row, app) {
  const begun = mine.details.pods.filter((pod) => pod.started);
  const latest = begun[begun.length - 1];
  if (latest && latest.name !== mine.pod) read(mine, row, latest.name, app);
}

async function read(mine, row, pod, app) {
  if (mine.reading) mine.reading.abort();
  const reading = new AbortController();
  Object.assign(mine, { pod, reading, text: "" });
  const found = mine.details.pods.find((p) => p.name === pod);
  const query = new URLSearchParams({
    namespace: row.namespace,
    pod,
    container: found.containers[0],
    ...(found.ended ? {} : { follow: "1" }),
  });
  try {
    const answer = await ask(`/api/output?${query}`, { signal: reading.signal });
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await pieces.read(); !piece.done; piece = await pieces.read()) {
      mine.text = (mine.text + piece.value).slice(-OUTPUT_MAX);
      app.later();
    }
  } catch (error) {
    if (!reading.signal.aborted) {
      mine.text += `\n(${error.message})`;
      app.later();
    }
  }
}

function output(row, app) {
  if (!shown.pod) return null;
  return h(
    "section",
    { "aria-labelledby": "output" },
    h("h2", { id: "output" }, "Output ", h("small", {}, shown.pod)),
    h("pre", { tabindex: "0", "aria-label": `output of ${shown.pod}` }, shown.text || "Nothing was printed so far."),
  );
}

// The latest first; what several objects say in the same words is said once.
function told(events) {
  const found = [];
  for (const event of events) {
    const last = found[found.length - 1];
    if (last && last.at === event.at && last.message === event.message) last.reasons.push(event.reason);
    else found.push({ ...event, reasons: [event.reason] });
  }
  return found.reverse();
}

function events(d) {
  if (!d || !d.events.length) return null;
  return h(
    "section",
    { "aria-labelledby": "events" },
    h("h2", { id: "events" }, "What happened"),
    h(
      "ol",
      { class: "events" },
      told(d.events).map((e) =>
        h(
          "li",
          { class: e.type === "Warning" ? "warning" : "" },
          h("time", {}, clock(e.at)),
          h("b", {}, e.reasons.join(", ")),
          h("span", {}, linked(e.message.replace(UIDS, "")), e.count > 1 && h("span", { class: "dim" }, ` (${e.count} times)`)),
        ),
      ),
    ),
  );
}

// The journal's figures over time, asked for once for all pages that draw them.

import { drawn, h } from "./tree.js";
import { askJson } from "./session.js";
import { amount, pastPath, resourceName, short, trimmed } from "./parts.js";
import { legend, niceMax, plot } from "./charts.js";
import { element } from "./elements.js";

const SPANS = [
  ["3600", "hour"],
  ["86400", "day"],
  ["604800", "week"],
  ["2592000", "30 days"],
];
const AGAIN_MS = 30000;

let shown = { key: "", told: null, problem: "", at: 0 };

export const spanIn = (route) =>
  SPANS.some(([s]) => s === route.query.get("span")) ? route.query.get("span") : "86400";

export function choice(path, span) {
  return h(
    "nav",
    { class: "choice", "aria-label": "span of time" },
    SPANS.map(([s, name]) =>
      h("a", { href: `${path}?span=${s}`, "aria-current": s === span ? "true" : null }, `last ${name}`),
    ),
  );
}

// What is known of a span of time, as {told, problem}; asked for again from time to time.
export function course(span, app) {
  if (shown.key === span && performance.now() - shown.at < AGAIN_MS) return shown;
  const mine = shown.key === span ? shown : { key: span, told: null, problem: "" };
  mine.at = performance.now();
  shown = mine;
  askJson(`/api/history?span=${span}`)
    .then((told) => {
      mine.told = told;
      mine.problem = "";
      app.later();
    })
    .catch((error) => {
      mine.problem = error.message;
      app.later();
    });
  return shown;
}

const FORMATS = {
  waiting: { name: "jobs that wait", unit: 1, format: trimmed },
  waits: { name: "mean wait of those that got their place", format: (v) => short(v) },
};

function formatOf(what) {
  return (
    FORMATS[what] || {
      name: `${resourceName(what)} held`,
      unit: what === "cpu" ? 1000 : what === "memory" ? 2 ** 30 : 1,
      format: (v) => amount(what, v),
    }
  );
}

// Groups of values, one on the other, over the time that was told of; a click leads to the jobs of a
// step, of one queue if there is only one.
export function over(told, what, groups, app) {
  const width = Math.round(Math.max(280, Math.min(innerWidth, 1440) - (innerWidth < 760 ? 32 : 56)));
  const names = groups.map((g) => g.name).join(" ");
  return drawn(`${told.since} ${told.until} ${what} ${names} ${width}`, () => chart(told, what, groups, width, app));
}

// Heights of a chart of time whose quarters are easily said.
const SPANS_S = [20, 40, 60, 120, 240, 480, 1200, 2400, 3600, 7200, 14400, 28800, 43200, 57600, 86400, 172800, 345600, 691200, 1382400, 2764800];
const FIGURES = { waiting: "waited", waits: "waited" };

function chart(told, what, groups, width, app) {
  const n = groups.length ? groups[0].values.length : 1,
    length = told.until - told.since,
    { name, unit, format } = formatOf(what);
  const most = Math.max(0, ...Array.from({ length: n }, (_, i) => groups.reduce((s, g) => s + g.values[i], 0)));
  const moment = (share) => label(told.since + share * length, length);
  const pick = (i) => {
    const step = { since: told.since + (i / n) * length, until: told.since + ((i + 1) / n) * length };
    app.go(pastPath("jobs", step, { queue: groups.length === 1 ? groups[0].name : "", by: FIGURES[what] || what }));
  };
  const node = plot(width).stacked(
    groups,
    what === "waits" ? SPANS_S.find((s) => s >= most) || most : niceMax(most / unit) * unit,
    format,
    moment,
    (i) => moment((i + 0.5) / n),
    `${name} over time, by queue`,
    pick,
  );
  return element("div", {}, node, legend(groups));
}

function label(at, length) {
  const d = new Date(at * 1000),
    pad = (v) => String(v).padStart(2, "0");
  const day = `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`,
    time = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  return length > 3 * 86400 ? day : length > 86400 / 2 ? `${day.slice(5)} ${time}` : time;
}

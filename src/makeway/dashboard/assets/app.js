// The frame around the pages: who reads, which page, and when it is drawn.

import { h, patch } from "./tree.js";
import { SignedOut, begin, codeIn, signIn, signOut } from "./session.js";
import { keepUp, onChange, store } from "./store.js";
import * as now from "./now.js";
import * as jobs from "./jobs.js";
import * as job from "./job.js";
import * as queues from "./queues.js";
import * as past from "./past.js";
import * as madeOf from "./made-of.js";
import * as whatIf from "./what-if.js";

const PAGES = [
  ["/", "Now"],
  ["/jobs", "Jobs"],
  ["/queues", "Queues"],
  ["/history", "History"],
  ["/what-if", "What if"],
];
const DRAW_MS = 100; // changes within that are drawn together
const LINKS = {
  connecting: "connecting …",
  live: "live",
  lost: "connection lost, trying again …",
  signedOut: "signed out",
};

const main = document.getElementById("main"),
  top = document.getElementById("top"),
  said = document.getElementById("said");
let current = null,
  isSignedOut = false,
  problem = "",
  timer = 0,
  drawnAt = 0;

// --- which page ---

function routeOf(address) {
  return { parts: address.pathname.split("/").filter(Boolean).map(decodeURIComponent), query: address.searchParams };
}

function pageFor(route) {
  const [first, second] = route.parts;
  if (first === "jobs") return second ? job : jobs;
  if (first === "history" && second) return madeOf;
  return { queues, history: past, "what-if": whatIf }[first] || now;
}

const app = {
  later,
  go: (path) => {
    history.pushState(null, "", path);
    navigate(true);
  },
  replace: (path) => {
    history.replaceState(null, "", path);
    navigate(false);
  },
};

function navigate(isNew) {
  const route = routeOf(new URL(location.href)),
    page = pageFor(route);
  if (current && current.page !== page && current.page.leave) current.page.leave();
  current = { route, page };
  draw();
  document.title = `${page.title(route)} · Makeway`;
  if (!isNew) return;
  const anchor = location.hash && document.getElementById(location.hash.slice(1));
  if (anchor) anchor.scrollIntoView();
  else scrollTo(0, 0);
  main.focus({ preventScroll: true });
  said.textContent = page.title(route);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const address = new URL(link.href);
  if (address.origin !== location.origin || link.hasAttribute("download") || link.classList.contains("skip")) return;
  if (address.pathname === location.pathname && address.search === location.search && address.hash) return;
  event.preventDefault();
  app.go(address);
});
addEventListener("popstate", () => navigate(false));
addEventListener("hashchange", () => {
  if (codeIn(location.hash)) start();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const search = document.getElementById("search");
  if (search) {
    event.preventDefault();
    search.focus();
  }
});

// --- drawing ---

function later() {
  if (!timer) timer = setTimeout(draw, Math.max(0, drawnAt + DRAW_MS - performance.now()));
}

function draw() {
  clearTimeout(timer);
  timer = 0;
  drawnAt = performance.now();
  patch(top, [frame()]);
  patch(main, isSignedOut ? signInPage() : [trouble(), current.page.view(current.route, app)].flat(2).filter(Boolean));
  if (store.isSynced) document.documentElement.dataset.synced = "yes";
}

function frame() {
  const here = `/${current.route.parts[0] || ""}`,
    link = isSignedOut ? "signedOut" : store.link;
  return h(
    "div",
    { class: "frame" },
    h("a", { class: "name", href: "/" }, "makeway"),
    h(
      "nav",
      { "aria-label": "pages" },
      PAGES.map(([path, name]) => h("a", { href: path, "aria-current": path === here ? "page" : null }, name)),
    ),
    h(
      "p",
      { class: `link ${link}` },
      h("i", { "aria-hidden": "true" }),
      h("span", {}, LINKS[link]),
      store.reader && h("span", { class: "reader" }, store.reader),
      store.reader && !isSignedOut && h("button", { class: "plain", id: "sign-out", onclick: goOut }, "Sign out"),
    ),
  );
}

function goOut() {
  signOut().catch((error) => {
    said.textContent = problem = `You are not signed out: ${error.message}`;
    draw();
  });
}

const trouble = () => problem && h("p", { class: "problem", role: "alert" }, problem);

function signInPage() {
  const enter = (event) => {
    event.preventDefault();
    const code = codeIn(document.getElementById("code").value.trim());
    signIn(code)
      .then(start)
      .catch((error) => {
        problem = error.message;
        draw();
      });
  };
  return [
    h(
      "section",
      { class: "sign-in" },
      h("h1", {}, "Sign in"),
      h(
        "p",
        {},
        "Run ",
        h("code", {}, "makeway dashboard"),
        " on this machine: it opens this page with a code that works once, within a minute.",
      ),
      h(
        "form",
        { onsubmit: enter },
        h("label", { for: "code" }, "Or paste what it prints"),
        h("input", { id: "code", autocomplete: "off", spellcheck: "false" }),
        h("button", { type: "submit", class: "primary" }, "Sign in"),
      ),
      trouble(),
    ),
  ];
}

onChange(later);
let isScrolling = false; // once for each frame, however many events there are
addEventListener(
  "scroll",
  () => {
    if (isScrolling || current.page !== jobs) return;
    isScrolling = true;
    requestAnimationFrame(() => {
      isScrolling = false;
      draw();
    });
  },
  { passive: true },
);
addEventListener("resize", later);
setInterval(() => {
  if (!document.hidden) later();
}, 1000);

// --- beginning ---

async function start() {
  isSignedOut = false;
  problem = "";
  try {
    await begin();
    draw();
    await keepUp();
  } catch (error) {
    if (!(error instanceof SignedOut)) throw error;
    isSignedOut = true;
    problem = error.message;
    draw();
  }
}

navigate(false);
start();

// What was, and what would be: told from the journal and by the engine, where there are both.

import { h } from "./tree.js";
import { empty } from "./parts.js";

export const title = (route) => (route.parts[0] === "history" ? "History" : "What if");

export function view(route) {
  const isPast = route.parts[0] === "history";
  return [h("h1", {}, title(route)), empty(isPast
    ? "There is no journal yet, so nothing is known of what was. "
    : "Nobody answers questions about what would be yet. ", isPast && h("span", {}, h("code", {}, "makeway history"), " lists jobs that have ended and are still there."),
  !isPast && h("span", {}, h("code", {}, "makeway simulate"), " plays a trace through other queues."))];
}

// What would be, if: asked of the engine once somebody answers.

import { h } from "./tree.js";
import { empty } from "./parts.js";

export const title = () => "What if";

export function view() {
  return [h("h1", {}, "What if"), empty("Nobody answers here yet what would become of a job or of other queues. ", h("code", {}, "makeway simulate"), " plays a trace through them.")];
}

// What would become of a job, or of everybody with other queues: the engine's answer, nothing is changed.

import { h } from "./tree.js";
import { post } from "./session.js";
import { derived, store } from "./store.js";
import { empty, explained, isGpu } from "./parts.js";
import { resources } from "./quota.js";

const FIELDS = ["queue", "pods", "gpu", "cpu", "memory"];
const LABEL = "kueue.x-k8s.io/queue-name";
const PROMPT = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: …}\nspec: …";

let shown = { key: "", answers: null, problem: "", isAsking: false };
let text = "";

export const title = () => "What if";

const doors = () =>
  derived("doors", () =>
    [...store.queues.values()].flatMap((q) => q.localQueues.map((l) => `${l.namespace}/${l.name}`)).sort(),
  );

export function view(route, app) {
  const asked = Object.fromEntries(FIELDS.map((name) => [name, route.query.get(name) || ""]));
  if (asked.queue && store.isSynced) askAboutJob(asked, app);
  return [h("h1", {}, "What if"), h("div", { class: "two" }, jobForm(asked, app), queuesForm(app)), answer()];
}

// --- asking ---

function ask(key, body, app) {
  if (shown.key === key) return;
  const mine = { key, answers: null, problem: "", isAsking: true };
  shown = mine;
  post("/api/what-if", body)
    .then((found) => found.json())
    .then((told) => {
      mine.answers = told.answers;
    })
    .catch((error) => {
      mine.problem = error.message;
    })
    .finally(() => {
      mine.isAsking = false;
      app.later();
    });
}

function askAboutJob(asked, app) {
  const [namespace, queue] = asked.queue.split("/"),
    requests = {};
  const gpu = resources().find(isGpu) || "nvidia.com/gpu";
  for (const [resource, amount] of [
    ["cpu", asked.cpu],
    ["memory", asked.memory],
    [gpu, asked.gpu],
  ])
    if (amount) requests[resource] = amount;
  const limits = asked.gpu ? { [gpu]: asked.gpu } : {},
    pods = Number(asked.pods) || 1;
  const container = { name: "main", image: "none", command: ["true"], resources: { requests, limits } };
  const job = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "what-if", namespace, labels: { [LABEL]: queue } },
    spec: {
      parallelism: pods,
      completions: pods,
      suspend: true,
      template: { spec: { restartPolicy: "Never", containers: [container] } },
    },
  };
  ask(JSON.stringify(asked), { text: JSON.stringify(job), namespace }, app);
}

// --- forms ---

function jobForm(asked, app) {
  const enter = (event) => {
    event.preventDefault();
    shown = { ...shown, key: "" };
    app.replace(`/what-if?${new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value))}`);
  };
  const field = (name, label, hint) =>
    h(
      "label",
      {},
      h("span", {}, label),
      h("input", {
        name,
        value: asked[name],
        placeholder: hint,
        inputmode: name === "memory" ? "text" : "decimal",
        autocomplete: "off",
      }),
    );
  return h(
    "section",
    { "aria-labelledby": "job" },
    h("h2", { id: "job" }, "What if a job were submitted now"),
    h(
      "form",
      { class: "ask", onsubmit: enter },
      h(
        "label",
        { class: "long" },
        h("span", {}, "Queue"),
        h(
          "select",
          { name: "queue" },
          doors().map((door) => h("option", { value: door, selected: door === asked.queue }, door)),
        ),
      ),
      field("pods", "Pods", "1"),
      field("gpu", "GPUs per pod", "0"),
      field("cpu", "CPUs per pod", "0"),
      field("memory", "Memory per pod", "8Gi"),
      h("button", { type: "submit", id: "ask-job", class: "primary" }, "Ask"),
    ),
  );
}

function queuesForm(app) {
  const enter = (event) => {
    event.preventDefault();
    const namespace = (doors()[0] || "default/").split("/")[0];
    shown = { ...shown, key: "" };
    ask(`queues ${performance.now()}`, { text, namespace }, app);
    history.replaceState(null, "", "/what-if");
    app.replace("/what-if");
  };
  return h(
    "section",
    { "aria-labelledby": "others" },
    h("h2", { id: "others" }, "What if queues were others"),
    h(
      "form",
      { class: "ask one", onsubmit: enter },
      h(
        "label",
        {},
        h("span", {}, "Queue objects, in YAML"),
        h("textarea", {
          id: "yaml",
          rows: "7",
          spellcheck: "false",
          placeholder: PROMPT,
          oninput: (event) => {
            text = event.target.value;
          },
        }),
      ),
      h("button", { type: "submit", id: "ask-queues", class: "primary" }, "Compare"),
    ),
  );
}

function answer() {
  if (shown.isAsking) return empty("Asking …");
  if (shown.problem) return h("p", { class: "problem", role: "alert" }, shown.problem);
  if (!shown.answers)
    return empty("Nothing is changed by asking. The same engine answers that decides, on a copy of how things stand.");
  return h(
    "section",
    { "aria-labelledby": "answer", "aria-live": "polite" },
    h("h2", { id: "answer" }, "Then"),
    shown.answers.map((one) =>
      h(
        "div",
        { class: "why" },
        h("p", {}, h("b", {}, one.outcome)),
        one.objects.map((o) => h("p", { class: "dim" }, `${o.kind} ${o.name} is new or different`)),
        one.pieces.map(explained),
      ),
    ),
  );
}

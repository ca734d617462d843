"""What a server says of itself: groups, kinds, versions, health."""

import re
from typing import Any

from tests.harness.documents import Document, pod
from tests.kube.stories.registry import story
from tests.kube.story_client import TABLE, StoryClient

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OURS = ("batch", "coordination.k8s.io", "events.k8s.io", "kueue.x-k8s.io", "makeway.dev", "policy")
KINDS = {
    "v1": ("events", "namespaces", "nodes", "pods"),
    "batch/v1": ("jobs",),
    "coordination.k8s.io/v1": ("leases",),
    "events.k8s.io/v1": ("events",),
    "policy/v1": ("poddisruptionbudgets",),
    "scheduling.k8s.io/v1": ("priorityclasses",),
    "kueue.x-k8s.io/v1beta2": (
        "admissionchecks",
        "clusterqueues",
        "cohorts",
        "localqueues",
        "resourceflavors",
        "workloads",
        "workloadpriorityclasses",
    ),
    "makeway.dev/v1": ("gangs",),
}
# Parts of pods, nodes and namespaces that have to do with running them.
SERVED = ("status", "binding", "eviction", "log", "finalize")


def _is_ours(plural: str, kinds: tuple[str, ...]) -> bool:
    head, _, part = plural.partition("/")
    return head in kinds and (not part or part in SERVED)


@story
async def kinds_and_their_names(t: StoryClient) -> None:
    for api_version, kinds in KINDS.items():
        root = "/apis/" if "/" in api_version else "/api/"
        _, _, body = await t.send("GET", root + api_version)
        found = [e for e in body["resources"] if _is_ours(e["name"], kinds)]
        for entry in found:
            entry.pop("storageVersionHash", None)
            entry["verbs"] = " ".join(sorted(entry["verbs"]))
        named = {entry.pop("name"): entry for entry in found}
        t.note(api_version, {"kind": body["kind"], "of": body["groupVersion"], "found": named})


@story
async def groups_in_one_answer(t: StoryClient) -> None:
    for path, wanted in (("/api", ("",)), ("/apis", OURS)):
        _, headers, body = await t.send("GET", path, accept=AGGREGATED)
        found: dict[str, Any] = {}
        for group in body["items"]:
            name = group["metadata"].get("name", "")
            if name in wanted:
                found[name or "core"] = [
                    {"version": v["version"], "freshness": v["freshness"], **_resources(name, v)}
                    for v in group["versions"]
                    if v["version"] not in ("v1beta1", "v1alpha2")
                ]
        t.note(path, {"type": headers["content-type"], "kind": body["kind"], "groups": found})


def _resources(group: str, version: dict[str, Any]) -> dict[str, Any]:
    name = f"{group}/{version['version']}".lstrip("/")
    found = {}
    for entry in version["resources"]:
        if entry["resource"] in KINDS.get(name, ()):
            parts = [p for p in entry.get("subresources") or () if p["subresource"] in SERVED]
            found[entry["resource"]] = {
                "scope": entry["scope"],
                "kind": entry["responseKind"]["kind"],
                "singular": entry["singularResource"],
                "parts": sorted(part["subresource"] for part in parts),
            }
    return {"resources": found}


@story
async def groups_one_by_one(t: StoryClient) -> None:
    await t.call("the core", "GET", "/api", show=("kind", "versions"))
    _, _, body = await t.send("GET", "/apis")
    found = {g["name"]: g for g in body["groups"] if g["name"] in OURS and "kueue" not in g["name"]}
    t.note("all groups", {"kind": body["kind"], "found": found})
    await t.call("one group", "GET", "/apis/batch")
    await t.call("no group", "GET", "/apis/nope.example.com")
    await t.call("no version", "GET", "/apis/batch/v9")
    await t.call("no path", "GET", "/nope")


@story
async def health_and_version(t: StoryClient) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        await t.call(path, "GET", path)
    code, _, body = await t.send("GET", "/version")
    t.note("/version", {"code": code, "keys": sorted(set(body) & _VERSION)})
    await t.call("with a slash at the end", "GET", "/version/", show=("nothing",))


@story
async def health_in_detail(t: StoryClient) -> None:
    """Which checks there are, and what is remarked, is each server's own matter."""
    for path in ("/healthz", "/livez", "/readyz"):
        code, _, text = await t.send("GET", f"{path}?verbose")
        *checks, last, end = text.split("\n")
        forms = sorted({re.sub(r"^(\[.\])\S+ (\w+).*", r"\1NAME \2", line) for line in checks})
        t.note(path, {"code": code, "forms": forms, "last": last, "end": end})
        code, _, text = await t.send("GET", f"{path}/ping")
        t.note(f"{path}/ping", {"code": code, "text": text})


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _may_create_jobs(t: StoryClient) -> Document:
    attributes = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": t.namespace}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


@story
async def what_is_no_table(t: StoryClient) -> None:
    review = _may_create_jobs(t)
    await t.call("a review", "POST", REVIEWS, review, accept=TABLE)
    either = f"{TABLE},application/json"
    await t.call("or as it is", "POST", REVIEWS, review, accept=either, show=("kind",))
    await t.call("a group", "GET", "/apis/batch", accept=TABLE)
    await t.call("kinds", "GET", "/apis/batch/v1", accept=TABLE)
    await t.call("all groups", "GET", "/apis", accept=TABLE)
    await t.quiet("POST", t.pods(), pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await t.call("a binding", "POST", f"{t.pods('p')}/binding", binding, accept=TABLE)
    await t.call("what is not there", "GET", t.pods("none"), accept=TABLE)


_VERSION = {"major", "minor", "gitVersion", "platform", "compiler", "buildDate", "goVersion"}


@story
async def what_one_may_do(t: StoryClient) -> None:
    review = _may_create_jobs(t)
    show = ("kind", "status.allowed", "spec.resourceAttributes")
    await t.call("create jobs", "POST", REVIEWS, review, show=show)
    await t.call("read a review", "GET", REVIEWS)

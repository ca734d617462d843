"""Get, list, pages, selectors, tables."""

import re
from typing import Any
from urllib.parse import quote

from tests.harness.documents import (
    CLUSTER_QUEUES,
    NODES,
    PRIORITY_CLASSES,
    cluster_queue,
    job,
    node,
    pod,
    workload,
)
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, TABLE, StoryClient

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


async def _some_pods(t: StoryClient) -> None:
    for name, labels in (
        ("a", {"app": "x", "tier": "1"}),
        ("b", {"app": "x"}),
        ("c", {"app": "y", "tier": "2"}),
        ("d", {}),
    ):
        await t.quiet("POST", t.pods(), pod(name, {"labels": labels}))


NAMES = ("items.0.metadata.name", "items.1.metadata.name", "items.2.metadata.name")


@story
async def lists_have_a_form(t: StoryClient) -> None:
    await t.call("empty", "GET", t.pods())
    await t.quiet("POST", t.pods(), pod("a"))
    await t.call("one", "GET", t.pods(), show=("kind", "apiVersion", "metadata", *NAMES))
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("form"))
    url = f"{CLUSTER_QUEUES}?fieldSelector=metadata.name%3Dform"
    await t.call("a queue", "GET", url)


@story
async def labels_select(t: StoryClient) -> None:
    await _some_pods(t)
    for selector in (
        "app=x",
        "app==x",
        "app!=x",
        "app in (x,y)",
        "app notin (x)",
        "tier",
        "!tier",
        "app=x,tier=1",
        "app=",
        "tier>1",
        "tier gt 1",
        "app in (x",
        "app=x=y",
        "a b",
        "=x",
    ):
        await t.call(selector, "GET", f"{t.pods()}?labelSelector={quote(selector)}", show=NAMES)


@story
async def fields_select(t: StoryClient) -> None:
    await _some_pods(t)
    await t.bind("b", "field-node")
    for selector in (
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.name==a,spec.nodeName=",
        "spec.nodeName=field-node",
        "status.phase=Pending",
        "status.phase!=Pending",
        "spec.restartPolicy=Always",
        "spec.nope=1",
        "metadata.name",
        "metadata.namespace=default",
    ):
        await t.call(selector, "GET", f"{t.pods()}?fieldSelector={quote(selector)}", show=NAMES)
    jobs = f"{t.jobs()}?fieldSelector=status.successful%3D0"
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    await t.call("jobs by success", "GET", jobs, show=NAMES)
    queues = f"{CLUSTER_QUEUES}?fieldSelector=spec.cohortName%3Dx"
    await t.call("queues by a field that is none", "GET", queues, show=NAMES)
    phase = "/api/v1/namespaces?fieldSelector=status.phase%3DActive%2Cmetadata.name%3Ddefault"
    await t.call("namespaces by phase", "GET", phase, show=NAMES)
    unschedulable = f"{NODES}?fieldSelector=spec.unschedulable%3Dtrue"
    await t.quiet("POST", NODES, node("field-cordoned", unschedulable=True))
    await t.call("nodes by a flag", "GET", unschedulable, show=NAMES)


@story
async def lists_come_in_pages(t: StoryClient) -> None:
    await _some_pods(t)
    show = ("metadata", *NAMES)
    first = await t.call("two of four", "GET", f"{t.pods()}?limit=2", show=show)
    token = quote(first["metadata"]["continue"])
    following = f"{t.pods()}?limit=2&continue={token}"
    await t.call("the other two", "GET", following, show=show)
    await t.call("without a limit", "GET", f"{t.pods()}?continue={token}", show=show)
    await t.call("a limit that suffices", "GET", f"{t.pods()}?limit=4", show=show)
    selected = f"{t.pods()}?limit=1&labelSelector=app%3Dx"
    await t.call("selected", "GET", selected, show=show)
    await t.call("no token", "GET", f"{t.pods()}?limit=2&continue=nope", show=show)
    await t.call("no number", "GET", f"{t.pods()}?limit=two", show=show)
    mixed = f"{following}&resourceVersion=5"
    await t.call("a revision beside a token", "GET", mixed, show=show)


@story
async def revisions_of_lists(t: StoryClient) -> None:
    await _some_pods(t)
    show = ("kind", *NAMES)
    await t.call("any", "GET", f"{t.pods()}?resourceVersion=0", show=show)
    await t.call("no number", "GET", f"{t.pods()}?resourceVersion=x", show=show)
    unset = f"{t.pods()}?resourceVersionMatch=Exact"
    await t.call("a match without a revision", "GET", unset, show=show)
    word = f"{t.pods()}?resourceVersion=1&resourceVersionMatch=Later"
    await t.call("an unknown match", "GET", word, show=show)
    found = await t.quiet("GET", t.pods())
    revision = found["metadata"]["resourceVersion"]
    url = f"{t.pods()}?resourceVersion={revision}&resourceVersionMatch="
    await t.call("not older", "GET", f"{url}NotOlderThan", show=show)
    await t.quiet("DELETE", f"{t.pods('a')}?gracePeriodSeconds=0")
    future = f"{t.pods()}?resourceVersion=99999999999"
    await t.call("of the future", "GET", future, show=show)
    await t.call("one of the future", "GET", f"{t.pods('b')}?resourceVersion=99999999999")


@story
async def metadata_alone(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("a", {"labels": {"app": "x"}}))
    await t.call("one", "GET", t.pods("a"), accept=PARTIAL)
    await t.call("list", "GET", t.pods(), accept=PARTIAL_LIST)
    await t.call("a form that is none", "GET", t.pods(), accept="application/xml")
    fallback = f"application/xml,{PARTIAL_LIST},application/json"
    show = ("kind", "apiVersion")
    await t.call("the first that is known", "GET", t.pods(), accept=fallback, show=show)


@story
async def what_is_not_written_has_a_value_too(t: StoryClient) -> None:
    bare = {"metadata": {"name": "not-written"}}
    await t.quiet("POST", NODES, bare)
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    for step, url in (
        ("open nodes", f"{NODES}?fieldSelector=spec.unschedulable%3Dfalse%2C"),
        ("closed nodes", f"{NODES}?fieldSelector=spec.unschedulable%3Dtrue%2C"),
    ):
        await t.call(step, "GET", f"{url}metadata.name%3Dnot-written", show=NAMES)
    for count in "0", "1":
        url = f"{t.jobs()}?fieldSelector=status.successful%3D{count}"
        await t.call(f"jobs with {count} successful pods", "GET", url, show=NAMES)


_FRESH = re.compile(r"^\d\d?s$")  # an age; whether a second has passed is nobody's business


def _without_age(cell: Any) -> Any:
    return _FRESH.sub("fresh", cell) if isinstance(cell, str) else cell


async def _table(t: StoryClient, step: str, url: str) -> None:
    """Names, types and cells, without the prose of descriptions."""
    code, _, body = await t.send("GET", url, accept=TABLE)
    columns = [
        f"{c['name']} {c['type']} {c['format']} {c['priority']}".replace("  ", " ")
        for c in body["columnDefinitions"]
    ]
    rows = [[_without_age(cell) for cell in row["cells"]] for row in body["rows"]]
    t.note(step, {"code": code, "columns": columns, "rows": rows, "kind": body["kind"]})


@story
async def tables_of_kubernetes_kinds(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train", suspend=True, parallelism=2, completions=4))
    await _table(t, "jobs", t.jobs())
    running = {"status": {"active": 2, "startTime": "2020-01-01T00:00:00Z", "succeeded": 1}}
    await t.quiet("PATCH", f"{t.jobs('train')}/status", running, MERGE)
    await t.quiet("POST", t.pods(), pod("p"))
    await _table(t, "pods", t.pods())
    gated = pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await t.quiet("POST", t.pods(), gated)
    await _table(t, "a gated pod", t.pods("gated"))
    await t.bind("p", "table-node")
    state = {"name": "main", "ready": True, "restartCount": 2, "image": "i", "imageID": ""}
    status = {"status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [state]}}
    await t.quiet("PATCH", f"{t.pods('p')}/status", status, MERGE)
    await _table(t, "a running pod", t.pods("p"))
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status["status"] = {"phase": "Failed", "containerStatuses": [{**state, "state": ended}]}
    await t.quiet("PATCH", f"{t.pods('p')}/status", status, MERGE)
    await _table(t, "a failed pod", t.pods("p"))
    await t.quiet("POST", NODES, node("table-node", unschedulable=True))
    await _table(t, "a node", f"{NODES}/table-node")
    await _table(t, "a namespace", f"/api/v1/namespaces/{t.namespace}")
    await t.quiet("POST", PRIORITY_CLASSES, {"metadata": {"name": "table-class"}, "value": 7})
    await _table(t, "a priority class", f"{PRIORITY_CLASSES}/table-class")
    budgets = t.apis("policy/v1", "poddisruptionbudgets")
    selector = {"matchLabels": {"app": "x"}}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    await t.quiet("POST", budgets, budget)
    await _table(t, "a disruption budget", budgets)
    leases = t.apis("coordination.k8s.io/v1", "leases")
    await t.quiet("POST", leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    await _table(t, "a lease", leases)
    about = {"kind": "Pod", "namespace": t.namespace, "name": "p"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "message": "M"}
    await t.quiet("POST", t.core("events"), {**event, "type": "Normal"})
    await _table(t, "an event", t.core("events"))


@story
async def tables_of_queue_kinds(t: StoryClient) -> None:
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("table", cohortName="lab"))
    await _table(t, "a queue", f"{CLUSTER_QUEUES}/table")
    await t.quiet("POST", t.workloads(), workload("w"))
    await _table(t, "a workload", t.workloads())
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    gang = {"apiVersion": "makeway.dev/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": spec}
    await t.quiet("POST", t.apis("makeway.dev/v1", "gangs"), gang)
    await _table(t, "a gang", t.apis("makeway.dev/v1", "gangs"))
    await t.call(
        "metadata comes along",
        "GET",
        t.workloads(),
        accept=TABLE,
        show=("metadata", "rows.0.object.kind", "rows.0.object.metadata.name"),
    )
    whole = f"{t.workloads()}?includeObject=Object"
    show = ("rows.0.object.kind", "rows.0.object.spec.queueName")
    await t.call("whole objects", "GET", whole, accept=TABLE, show=show)
    none = f"{t.workloads()}?includeObject=None"
    await t.call("no objects", "GET", none, accept=TABLE, show=("rows.0.object",))
    wrong = f"{t.workloads()}?includeObject=Some"
    await t.call("another word", "GET", wrong, accept=TABLE)

"""The four kinds of patch."""

from tests.harness.documents import (
    CLUSTER_QUEUES,
    NODES,
    cluster_queue,
    container,
    job,
    node,
    pod,
)
from tests.kube.stories.registry import story
from tests.kube.story_client import APPLY, JSON_PATCH, MERGE, STRATEGIC, StoryClient

LABELS = ("metadata.labels", "metadata.generation")


@story
async def a_merge_patch_replaces_lists_and_takes_away_nulls(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("p", {"labels": {"a": "1", "b": "2"}}))
    patch = {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": {"x": "y"}}}
    show = ("metadata.labels", "metadata.annotations", "spec.tolerations")
    await t.call("labels", "PATCH", t.pods("p"), patch, MERGE, show=show)
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    patch2 = {"spec": {"tolerations": tolerations}}
    await t.call("a list", "PATCH", t.pods("p"), patch2, MERGE, show=show)
    await t.call("no object", "PATCH", t.pods("p"), b"[]", MERGE)
    await t.call("broken", "PATCH", t.pods("p"), b"{", MERGE)
    wrong = {"spec": {"tolerations": "gpu"}}
    await t.call("a wrong type", "PATCH", t.pods("p"), wrong, MERGE)
    unknown = {"spec": {"nope": 1}}
    url = f"{t.pods('p')}?fieldValidation=Strict"
    await t.call("an unknown field", "PATCH", url, unknown, MERGE)


@story
async def a_json_patch_is_done_as_a_whole(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("p", {"labels": {"a": "1"}}))
    url = t.pods("p")
    patch = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels/example.com~1b", "value": "2"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/c"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ]
    await t.call("several steps", "PATCH", url, patch, JSON_PATCH, show=LABELS)
    patch = [
        {"op": "add", "path": "/metadata/labels/d", "value": "4"},
        {"op": "test", "path": "/metadata/labels/c", "value": "2"},
    ]
    await t.call("a test that fails", "PATCH", url, patch, JSON_PATCH)
    patch = [{"op": "remove", "path": "/metadata/labels/none"}]
    await t.call("nothing to remove", "PATCH", url, patch, JSON_PATCH)
    patch = [{"op": "jump", "path": "/metadata"}]
    await t.call("no such step", "PATCH", url, patch, JSON_PATCH)
    await t.call("an object", "PATCH", url, {"op": "add"}, JSON_PATCH)
    patch = [{"op": "replace", "path": "/metadata/name", "value": "q"}]
    await t.call("another name", "PATCH", url, patch, JSON_PATCH)
    await t.call("it is as it was", "GET", url, show=LABELS)


@story
async def a_strategic_patch_merges_lists_by_key(t: StoryClient) -> None:
    await t.quiet(
        "POST", NODES, node("strategic-node", taints=[{"key": "a", "effect": "NoSchedule"}])
    )
    url = f"{NODES}/strategic-node"
    conditions = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    show = ("status.conditions", "spec.taints")
    await t.call("a condition", "PATCH", f"{url}/status", conditions, STRATEGIC, show=show)
    conditions = {"status": {"conditions": [{"type": "Disk", "status": "False"}]}}
    await t.call("another one", "PATCH", f"{url}/status", conditions, STRATEGIC, show=show)
    gone = {"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}
    await t.call("take the first away", "PATCH", f"{url}/status", gone, STRATEGIC, show=show)
    replaced = {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}
    await t.call("taints", "PATCH", url, replaced, STRATEGIC, show=show)
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    image = {"spec": {"template": {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}}}
    show = ("spec.template.spec.tolerations", "spec.template.spec.containers.0.name")
    await t.call("in a template", "PATCH", t.jobs("train"), image, STRATEGIC, show=show)
    await t.quiet("POST", t.pods(), pod("p", {"finalizers": ["example.com/a"]}))
    more = {"metadata": {"finalizers": ["example.com/b"]}}
    holds = ("metadata.finalizers",)
    await t.call("a set", "PATCH", t.pods("p"), more, STRATEGIC, show=holds)
    gone2 = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    await t.call("out of a set", "PATCH", t.pods("p"), gone2, STRATEGIC, show=holds)
    images = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    await t.call("an image", "PATCH", t.pods("p"), images, STRATEGIC, show=("spec.containers",))


@story
async def custom_kinds_take_no_strategic_patch(t: StoryClient) -> None:
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("strategic"))
    url = f"{CLUSTER_QUEUES}/strategic"
    await t.call("strategic", "PATCH", url, {"spec": {"stopPolicy": "Hold"}}, STRATEGIC)
    await t.call("no type", "PATCH", url, {"spec": {"stopPolicy": "Hold"}}, "application/json")
    await t.call("unknown type", "PATCH", url, b"x", "text/plain")
    await t.quiet("POST", t.pods(), pod("p"))
    await t.call("no type for a pod", "PATCH", t.pods("p"), {}, "application/json")


def _applied(**labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels}}


def _by(url: str, manager: str, more: str = "") -> str:
    return f"{url}?fieldManager={manager}{more}"


@story
async def applied_fields_have_owners(t: StoryClient) -> None:
    url = t.pods("p")
    first = {**pod("p", {"labels": {"a": "1", "b": "2"}})}
    await t.call("create by apply", "PATCH", _by(url, "one"), first, APPLY, show=LABELS)
    await t.call("managers", "GET", url, show=("metadata.managedFields",), with_managers=True)
    await t.call(
        "the same", "PATCH", _by(url, "one"), first, APPLY, show=("metadata.resourceVersion",)
    )
    await t.call("another's field", "PATCH", _by(url, "two"), _applied(a="9"), APPLY)
    await t.call("an own one", "PATCH", _by(url, "two"), _applied(c="3"), APPLY, show=LABELS)
    forced = _by(url, "two", "&force=true")
    await t.call("by force", "PATCH", forced, _applied(a="9"), APPLY, show=LABELS)
    less = pod("p", {"labels": {"b": "2"}})
    await t.call("give up one", "PATCH", _by(url, "one"), less, APPLY, show=LABELS)
    none = pod("p")
    await t.call("give up the other", "PATCH", _by(url, "one"), none, APPLY, show=LABELS)
    managed = ("metadata.managedFields",)
    await t.call("managers in the end", "GET", url, show=managed, with_managers=True)


@story
async def an_update_takes_fields_over(t: StoryClient) -> None:
    url = f"{CLUSTER_QUEUES}/takes-over"
    wanted = cluster_queue("takes-over", cohortName="lab")
    await t.call("create by apply", "PATCH", _by(url, "one"), wanted, APPLY, show=("spec",))
    patch = {"spec": {"cohortName": "other"}}
    await t.call("an update", "PATCH", _by(url, "two"), patch, MERGE, show=("spec.cohortName",))
    managed = ("metadata.managedFields",)
    await t.call("managers", "GET", url, show=managed, with_managers=True)
    await t.call("apply again", "PATCH", _by(url, "one"), wanted, APPLY)
    status = {**wanted, "spec": None, "status": {"pendingWorkloads": 2}}
    del status["spec"]
    show = ("status", "spec.cohortName")
    await t.call("the status", "PATCH", _by(f"{url}/status", "three"), status, APPLY, show=show)
    await t.call("all managers", "GET", url, show=managed, with_managers=True)


@story
async def what_apply_asks_for(t: StoryClient) -> None:
    url = t.pods("p")
    await t.call("no manager", "PATCH", url, pod("p"), APPLY)
    await t.call("another name", "PATCH", _by(url, "one"), pod("q"), APPLY)
    await t.call("no kind", "PATCH", _by(url, "one"), {"metadata": {"name": "p"}}, APPLY)
    await t.call("another kind", "PATCH", _by(url, "one"), job("p"), APPLY)
    strict = _by(url, "one", "&fieldValidation=Strict")
    await t.call("an unknown field", "PATCH", strict, pod("p", nope=1), APPLY)
    managed = pod("p", {"managedFields": [{"manager": "x"}]})
    await t.call("with managers", "PATCH", _by(url, "one"), managed, APPLY)
    uid = pod("p", {"uid": "11111111-1111-1111-1111-111111111111"})
    await t.call("with an identity", "PATCH", _by(url, "one"), uid, APPLY)
    text = (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: m, image: i}]}"
    )
    await t.call("yaml", "PATCH", _by(url, "one"), text, APPLY, show=("metadata.name",))
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "none"}}
    await t.call("status of none", "PATCH", _by(f"{t.pods('none')}/status", "one"), status, APPLY)
    forced = f"{url}?fieldManager=one&force=true"
    await t.call("force without apply", "PATCH", forced, {}, MERGE)


@story
async def items_of_lists_have_owners_too(t: StoryClient) -> None:
    url = t.workloads("w")
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    wanted = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {
            "queueName": "team",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }
    await t.call("create", "PATCH", _by(url, "one"), wanted, APPLY, show=("spec",))
    for number, type_ in enumerate(("QuotaReserved", "Evicted")):
        found = {"type": type_, "status": "False", "reason": "Story", "message": ""}
        found["lastTransitionTime"] = "2020-01-01T00:00:00Z"
        status = {**wanted, "status": {"conditions": [found]}}
        del status["spec"]
        who = _by(f"{url}/status", f"manager-{number}")
        await t.call(f"condition {type_}", "PATCH", who, status, APPLY, show=("status",))
    managed = ("metadata.managedFields",)
    await t.call("managers", "GET", url, show=managed, with_managers=True)
    status = {**wanted, "status": {"conditions": []}}
    del status["spec"]
    who = _by(f"{url}/status", "manager-0")
    await t.call("one lets go", "PATCH", who, status, APPLY, show=("status",))


def _asking(cpu: object, gpu: object) -> dict[str, object]:
    resources = {
        "requests": {"cpu": cpu, "example.com/gpu": gpu},
        "limits": {"example.com/gpu": gpu},
    }
    return pod("p", containers=[container(resources=resources)])


@story
async def a_quantity_is_compared_as_it_is_written(t: StoryClient) -> None:
    """A server writes 1 as "1"; whoever says 1 beside its owner wants something else, it finds."""
    url, show = t.pods("p"), ("spec.containers.0.resources", "metadata.generation")
    await t.call("numbers", "PATCH", _by(url, "one"), _asking(1, 1), APPLY, show=show)
    await t.call("the same again", "PATCH", _by(url, "one"), _asking(1, 1), APPLY, show=show)
    await t.call("by a second manager", "PATCH", _by(url, "two"), _asking(1, 1), APPLY, show=show)
    milli = _asking("1000m", "1")
    await t.call("in thousandths", "PATCH", _by(url, "two"), milli, APPLY, show=show)
    await t.call(
        "as the server has it", "PATCH", _by(url, "two"), _asking("1", "1"), APPLY, show=show
    )
    queue = f"{CLUSTER_QUEUES}/as-written"
    for step, who, quota in (
        ("a queue", "one", 4),
        ("a queue, as text", "two", "4"),
        ("a queue, in thousandths", "two", "4000m"),
        ("a queue, as it stands there", "two", 4),
    ):
        flavor = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": quota}]}
        group = {"coveredResources": ["cpu"], "flavors": [flavor]}
        wanted = cluster_queue("as-written", resourceGroups=[group])
        show = ("spec.resourceGroups", "metadata.generation")
        await t.call(step, "PATCH", _by(queue, who), wanted, APPLY, show=show)

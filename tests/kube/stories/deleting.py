"""Deleting: at once, later, with dependents, with a namespace."""

import asyncio

from tests.harness.documents import (
    CLUSTER_QUEUES,
    NAMESPACES,
    Document,
    cluster_queue,
    job,
    owned,
    pod,
)
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, StoryClient

LEASES = "coordination.k8s.io/v1"
GRAPH_S = 0.5  # for a real collector of garbage to have heard of a new owner


def _is_gone(code: int, _: object) -> bool:
    return code == 404


@story
async def deleting_says_what_was_deleted(t: StoryClient) -> None:
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("says"))
    await t.call("a queue", "DELETE", f"{CLUSTER_QUEUES}/says")
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    background = {"propagationPolicy": "Background"}
    await t.call("a job", "DELETE", t.jobs("train"), background)
    await t.call("again", "DELETE", t.jobs("train"), background)
    await t.quiet("POST", t.pods(), pod("p"))
    await t.call("a pod without a node", "DELETE", t.pods("p"))


@story
async def a_delete_may_ask_for_a_certain_object(t: StoryClient) -> None:
    made = await t.quiet("POST", t.jobs(), job("train", suspend=True))
    uid, revision = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    other = "11111111-1111-1111-1111-111111111111"
    await t.call("another uid", "DELETE", t.jobs("train"), {"preconditions": {"uid": other}})
    stale = {"preconditions": {"uid": uid, "resourceVersion": "1"}}
    await t.call("another revision", "DELETE", t.jobs("train"), stale)
    right = {
        "preconditions": {"uid": uid, "resourceVersion": revision},
        "propagationPolicy": "Background",
    }
    await t.call("this one", "DELETE", t.jobs("train"), right)


@story
async def options_of_a_delete(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    url = t.jobs("train")
    await t.call("an unknown policy", "DELETE", url, {"propagationPolicy": "Slowly"})
    both = {"propagationPolicy": "Orphan", "orphanDependents": True}
    await t.call("two policies", "DELETE", url, both)
    await t.call("a wrong kind", "DELETE", url, {"kind": "Pod", "apiVersion": "v1"})
    await t.call("a list", "DELETE", url, [])
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    await t.call("in full", "DELETE", url, options)
    await t.quiet("POST", t.pods(), pod("p"))
    await t.bind("p", "n")
    show = ("metadata.deletionGracePeriodSeconds",)
    await t.call("a negative period", "DELETE", t.pods("p"), {"gracePeriodSeconds": -5}, show=show)


@story
async def finalizers_hold_an_object(t: StoryClient) -> None:
    wanted = cluster_queue("held")
    wanted["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
    await t.quiet("POST", CLUSTER_QUEUES, wanted)
    url = f"{CLUSTER_QUEUES}/held"
    await t.call("delete", "DELETE", url)
    await t.call("delete again", "DELETE", url)
    more = {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use", "example.com/more"]}}
    await t.call("one more finalizer", "PATCH", url, more, MERGE)
    label = {"metadata": {"labels": {"a": "b"}}}
    await t.call("a label", "PATCH", url, label, MERGE, show=("metadata",))
    free = {"metadata": {"finalizers": None}}
    await t.call("let go", "PATCH", url, free, MERGE, show=("metadata.name", "metadata.finalizers"))
    await t.call("it is gone", "GET", url)


@story
async def pods_get_time_to_end(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("p"))
    await t.bind("p", "n")
    show = (
        "metadata.deletionGracePeriodSeconds",
        "metadata.deletionTimestamp",
        "metadata.generation",
    )
    await t.call("in ten seconds", "DELETE", t.pods("p"), {"gracePeriodSeconds": 10}, show=show)
    await t.call("in twenty", "DELETE", t.pods("p"), {"gracePeriodSeconds": 20}, show=show)
    await t.call("in five", "DELETE", f"{t.pods('p')}?gracePeriodSeconds=5", show=show)
    gone = ("kind", "metadata.name", "status")
    await t.call("at once", "DELETE", t.pods("p"), {"gracePeriodSeconds": 0}, show=gone)
    await t.call("it is gone", "GET", t.pods("p"))
    await t.quiet("POST", t.pods(), pod("q"))
    await t.bind("q", "n")
    await t.call("by its own period", "DELETE", t.pods("q"), show=show)
    ended = {"status": {"phase": "Succeeded"}}
    await t.quiet("POST", t.pods(), pod("r"))
    await t.bind("r", "n")
    await t.quiet("PATCH", f"{t.pods('r')}/status", ended, MERGE)
    await t.caught_up(t.pods("r"), lambda found: found["status"]["phase"] == "Succeeded")
    await t.call("one that has ended", "DELETE", t.pods("r"), show=gone)


@story
async def dependents_go_with_their_owner(t: StoryClient) -> None:
    owner = await t.quiet("POST", t.jobs(), job("owner", suspend=True))
    await t.quiet("POST", t.pods(), owned(pod("mine"), owner, controller=True))
    await t.quiet("POST", t.pods(), pod("free"))
    await t.call("delete", "DELETE", t.jobs("owner"), {"propagationPolicy": "Background"})
    await t.until("its pod is gone", t.pods("mine"), _is_gone)
    await t.call("the other is there", "GET", t.pods("free"), show=("metadata.name",))


@story
async def orphans_stay(t: StoryClient) -> None:
    owner = await t.quiet("POST", t.jobs(), job("owner", suspend=True))
    await t.quiet("POST", t.pods(), owned(pod("mine"), owner, controller=True))
    show = ("metadata.finalizers", "metadata.deletionGracePeriodSeconds")
    await t.call("delete", "DELETE", t.jobs("owner"), {"propagationPolicy": "Orphan"}, show=show)
    await t.until("the owner is gone", t.jobs("owner"), _is_gone)
    await t.call("its pod", "GET", t.pods("mine"), show=("metadata.ownerReferences",))


@story
async def in_the_foreground_the_owner_goes_last(t: StoryClient) -> None:
    owner = await t.quiet("POST", t.jobs(), job("owner", suspend=True))
    held = pod("mine", {"finalizers": ["example.com/hold"]})
    held = owned(held, owner, controller=True, blockOwnerDeletion=True)
    await t.quiet("POST", t.pods(), held)
    show = ("metadata.finalizers", "metadata.deletionGracePeriodSeconds", "metadata.generation")
    foreground = {"propagationPolicy": "Foreground"}
    await t.call("delete", "DELETE", t.jobs("owner"), foreground, show=show)
    leaving = ("metadata.deletionTimestamp",)
    await t.until(
        "its pod is leaving",
        t.pods("mine"),
        lambda _, body: "deletionTimestamp" in body["metadata"],
        show=leaving,
    )
    await t.call("the owner is still there", "GET", t.jobs("owner"), show=show)
    await t.quiet("PATCH", t.pods("mine"), {"metadata": {"finalizers": None}}, MERGE)
    await t.until("the owner is gone", t.jobs("owner"), _is_gone)
    await t.call("so is the pod", "GET", t.pods("mine"))


def _lease(name: str) -> Document:
    return {"apiVersion": LEASES, "kind": "Lease", "metadata": {"name": name}, "spec": {}}


@story
async def a_circle_of_owners_comes_to_its_end(t: StoryClient) -> None:
    """Each of them would wait for the next one to go first."""
    for circle in ("ab", "xyz"):
        made = [await t.quiet("POST", t.apis(LEASES, "leases"), _lease(name)) for name in circle]
        for mine, owner in zip(made, made[1:] + made[:1], strict=True):
            url = t.apis(LEASES, "leases", mine["metadata"]["name"])
            held = owned(mine, owner, blockOwnerDeletion=True)
            references = {"ownerReferences": held["metadata"]["ownerReferences"]}
            await t.quiet("PATCH", url, {"metadata": references}, MERGE)
        await asyncio.sleep(GRAPH_S)
        first = t.apis(LEASES, "leases", circle[0])
        show = ("metadata.finalizers",)
        foreground = {"propagationPolicy": "Foreground"}
        await t.call(f"delete one of {circle}", "DELETE", first, foreground, show=show)
        for name in circle:
            await t.until(f"{name} is gone", t.apis(LEASES, "leases", name), _is_gone)


@story
async def owners_that_never_were(t: StoryClient) -> None:
    owner = await t.quiet("POST", t.jobs(), job("owner", suspend=True))
    ghost = {**owner, "metadata": {"name": "owner", "uid": "11111111-1111-1111-1111-111111111111"}}
    await t.quiet("POST", t.pods(), owned(pod("orphan"), ghost))
    await t.until("it is collected", t.pods("orphan"), _is_gone)
    twice = owned(pod("two"), owner, controller=True)
    twice["metadata"]["ownerReferences"] *= 2
    twice["metadata"]["ownerReferences"][1] = {
        **twice["metadata"]["ownerReferences"][0],
        "uid": "22222222-2222-2222-2222-222222222222",
        "name": "other",
    }
    await t.call("two controllers", "POST", t.pods(), twice)
    bad = owned(pod("bad"), owner)
    del bad["metadata"]["ownerReferences"][0]["uid"]
    await t.call("no uid", "POST", t.pods(), bad)


@story
async def jobs_and_their_default_way_to_go(t: StoryClient) -> None:
    owner = await t.quiet("POST", t.jobs(), job("train", suspend=True))
    await t.quiet("POST", t.pods(), owned(pod("mine"), owner, controller=True))
    show = ("metadata.finalizers", "metadata.deletionTimestamp")
    await t.call("delete without a policy", "DELETE", t.jobs("train"), show=show)
    await t.until("it goes", t.jobs("train"), _is_gone)
    await t.call("its pod", "GET", t.pods("mine"), show=("metadata.ownerReferences",))


@story
async def a_collection_is_deleted_by_selector(t: StoryClient) -> None:
    for name in ("a", "b", "c"):
        await t.quiet("POST", t.pods(), pod(name, {"labels": {"app": "x" if name < "c" else "y"}}))
    selected = f"{t.pods()}?labelSelector=app%3Dx"
    show = ("kind", "items.0.metadata.name", "items.1.metadata.name")
    await t.call("two of three", "DELETE", selected, show=show)
    await t.call("what is left", "GET", t.pods(), show=show)
    dry = f"{t.pods()}?dryRun=All"
    await t.call("all, as a dry run", "DELETE", dry, show=show)
    await t.call("what is left then", "GET", t.pods(), show=show)


@story
async def a_namespace_takes_everything_along(t: StoryClient) -> None:
    await t.call("create", "POST", NAMESPACES, {"metadata": {"name": "leaving-team"}})
    jobs = "/apis/batch/v1/namespaces/leaving-team/jobs"
    held = job("held", {"finalizers": ["example.com/hold"]}, suspend=True)
    await t.quiet("POST", jobs, held)
    queues = "/apis/kueue.x-k8s.io/v1beta2/namespaces/leaving-team/localqueues"
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
    queue |= {"metadata": {"name": "q"}, "spec": {"clusterQueue": "c"}}  # type: ignore[dict-item]
    await t.quiet("POST", queues, queue)
    show = ("metadata.name", "spec", "status.phase")
    await t.call("delete", "DELETE", f"{NAMESPACES}/leaving-team", show=show)
    await t.call("too late", "POST", jobs, job("late"))
    await t.until("the queue is gone", f"{queues}/q", _is_gone)
    await t.quiet("PATCH", f"{jobs}/held", {"metadata": {"finalizers": None}}, MERGE)
    await t.until("it is gone", f"{NAMESPACES}/leaving-team", _is_gone)
    await t.call("default stays", "DELETE", f"{NAMESPACES}/default")
    await t.call(
        "its spec is its own", "PATCH", f"{NAMESPACES}/{t.namespace}", _FREE, MERGE, show=show
    )
    other = f"{NAMESPACES}/{t.namespace}"
    named = {"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}
    await t.call("its label too", "PATCH", other, named, MERGE, show=("metadata.labels",))


_FREE: Document = {"spec": {"finalizers": []}}

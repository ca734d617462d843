"""Create, get, replace; identity, conflicts, refusals."""

from tests.harness.documents import (
    CLUSTER_QUEUES,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    Document,
    cluster_queue,
    job,
    node,
    pod,
)
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, STRATEGIC, THEN, StoryClient

EVENTS = "events.k8s.io/v1"
META = ("metadata.uid", "metadata.resourceVersion", "metadata.generation")


@story
async def a_created_object_has_identity_and_defaults(t: StoryClient) -> None:
    await t.call("create a job", "POST", t.jobs(), job("train", suspend=True))
    await t.call("read it back", "GET", t.jobs("train"))
    await t.call("create a pod", "POST", t.pods(), pod("p"))
    await t.call("create a node", "POST", NODES, node("identity-node", taints=[]))
    await t.call("create a namespace", "POST", NAMESPACES, {"metadata": {"name": "identity-team"}})


@story
async def names_are_made_up_on_request(t: StoryClient) -> None:
    wanted = {**job("x", suspend=True), "metadata": {"generateName": "run-"}}
    made = await t.quiet("POST", t.jobs(), wanted)
    name = made["metadata"]["name"]
    t.notes.replaced[name] = "run-xxxxx"
    show = ("metadata.name", "metadata.generateName", "spec.template.metadata.labels")
    await t.call("read it", "GET", t.jobs(name), show=show)
    assert len(name) == len("run-xxxxx")
    await t.call("no name at all", "POST", t.jobs(), {**wanted, "metadata": {}})
    both = {**wanted, "metadata": {"name": "given", "generateName": "run-"}}
    await t.call("both names", "POST", t.jobs(), both, show=("metadata.name",))


@story
async def a_name_is_taken_once(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    await t.call("again", "POST", t.jobs(), job("train"))
    await t.call("again, as a dry run", "POST", f"{t.jobs()}?dryRun=All", job("train"))
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("taken-once"))
    await t.call("a queue again", "POST", CLUSTER_QUEUES, cluster_queue("taken-once"))


@story
async def what_is_not_there_is_not_found(t: StoryClient) -> None:
    await t.call("get", "GET", t.jobs("none"))
    await t.call("delete", "DELETE", t.jobs("none"))
    patch = {"metadata": {"labels": {"a": "b"}}}
    await t.call("patch", "PATCH", t.jobs("none"), patch, MERGE)
    await t.call("replace a queue", "PUT", f"{CLUSTER_QUEUES}/none", cluster_queue("none"))
    await t.call("in no namespace", "POST", "/apis/batch/v1/namespaces/nowhere/jobs", job("x"))
    await t.call("get in no namespace", "GET", "/apis/batch/v1/namespaces/nowhere/jobs/x")
    await t.call(
        "list in no namespace",
        "GET",
        "/apis/batch/v1/namespaces/nowhere/jobs",
        show=("kind", "items"),
    )
    await t.call("no such kind", "GET", t.apis("batch/v1", "nopes"))
    await t.call("no such version", "GET", t.apis("batch/v9", "jobs"))
    await t.call("no such subresource", "GET", f"{t.jobs('none')}/nope")
    await t.call("status of none", "GET", f"{t.jobs('none')}/status")


@story
async def methods_that_a_path_does_not_know(t: StoryClient) -> None:
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    await t.call("post to an object", "POST", t.jobs("train"), job("train"))
    await t.call("put to a collection", "PUT", t.jobs(), job("train"))
    await t.call("create in all namespaces", "POST", "/apis/batch/v1/jobs", job("train"))
    await t.call("delete a status", "DELETE", f"{t.jobs('train')}/status")
    await t.call("post to discovery", "POST", "/apis/batch/v1", {})


@story
async def bodies_have_to_be_what_the_path_says(t: StoryClient) -> None:
    await t.call("another kind", "POST", t.jobs(), pod("p"))
    wrong = {**job("x"), "apiVersion": "batch/v9"}
    await t.call("another version", "POST", t.jobs(), wrong)
    await t.call("another namespace", "POST", t.jobs(), job("x", {"namespace": "default"}))
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    await t.call("another name", "PUT", t.jobs("train"), job("other"))
    await t.call("csv", "POST", t.jobs(), b"a,b", "text/csv")
    await t.call("a broken body", "POST", t.jobs(), b"{")
    await t.call("an empty body", "POST", t.jobs(), b" ")
    await t.call("a list", "POST", t.jobs(), [1])
    yaml = b"apiVersion: v1\nkind: Pod\nmetadata: {name: in-yaml}\n"
    yaml += b"spec: {containers: [{name: m, image: i}]}"
    await t.call("yaml", "POST", t.pods(), yaml, "application/yaml", show=("metadata.name",))
    untyped = {"metadata": {"name": "untyped-class"}, "value": 5}
    await t.call("without kind", "POST", PRIORITY_CLASSES, untyped)
    await t.call("a kueue object without kind", "POST", CLUSTER_QUEUES, {"metadata": {"name": "u"}})


@story
async def unknown_fields_are_refused_or_named(t: StoryClient) -> None:
    for validation in ("Strict", "Warn", "Ignore"):
        wanted = job(f"job-{validation.lower()}", suspend=True, nope=1)
        show = ("metadata.name", "spec.nope")
        url = f"{t.jobs()}?fieldValidation={validation}"
        await t.call(f"a job, {validation}", "POST", url, wanted, show=show)
        queue = cluster_queue(f"unknown-{validation.lower()}", nope=1)
        url = f"{CLUSTER_QUEUES}?fieldValidation={validation}"
        await t.call(f"a queue, {validation}", "POST", url, queue, show=show)
    await t.call("another word", "POST", f"{t.jobs()}?fieldValidation=Loud", job("x"))
    twice = b'{"metadata":{"name":"twice-class"},"value":1,"value":2}'
    url = f"{PRIORITY_CLASSES}?fieldValidation=Strict"
    await t.call("a field twice", "POST", url, twice)


@story
async def values_of_a_wrong_type_are_refused(t: StoryClient) -> None:
    await t.call("a job", "POST", t.jobs(), job("x", parallelism="two"), show=META)
    queue = cluster_queue("wrong-type", cohortName=5)
    await t.call("a queue", "POST", CLUSTER_QUEUES, queue, show=META)
    queue = cluster_queue("wrong-type", resourceGroups={})
    await t.call("a queue with an object for a list", "POST", CLUSTER_QUEUES, queue, show=META)
    labels = {**cluster_queue("wrong-type"), "metadata": {"name": "x", "labels": {"a": 1}}}
    await t.call("a label that is a number", "POST", CLUSTER_QUEUES, labels, show=META)


@story
async def names_and_labels_are_spelled_right(t: StoryClient) -> None:
    await t.call("a bad job name", "POST", t.jobs(), job("Train_1"))
    await t.call("a bad pod name", "POST", t.pods(), pod("Train_1"))
    await t.call("a bad queue name", "POST", CLUSTER_QUEUES, cluster_queue("Vision_1"))
    await t.call("a bad namespace", "POST", NAMESPACES, {"metadata": {"name": "a.b"}})
    await t.call("a bad label", "POST", t.pods(), pod("p", {"labels": {"a": "b c"}}))
    await t.call("a bad label key", "POST", t.pods(), pod("p", {"labels": {"a b": "c"}}))
    await t.call("a bad annotation", "POST", t.pods(), pod("p", {"annotations": {"a b": "c"}}))
    await t.call("a bad finalizer", "POST", t.pods(), pod("p", {"finalizers": ["nope"]}))
    long = job("a" * 64, suspend=True)
    await t.call("a job name of 64 letters", "POST", t.jobs(), long)


@story
async def a_stale_revision_is_a_conflict(t: StoryClient) -> None:
    made = await t.quiet("POST", t.jobs(), job("train", suspend=True))
    fresh = {**made, "spec": {**made["spec"], "parallelism": 3}}
    show = (*META, "spec.parallelism")
    await t.call("with the revision it has", "PUT", t.jobs("train"), fresh, show=show)
    await t.call("with the one it had", "PUT", t.jobs("train"), fresh)
    loose = {**fresh, "metadata": {"name": "train"}}
    await t.call("without one", "PUT", t.jobs("train"), loose, show=show)
    other = {**fresh, "metadata": {"name": "train", "uid": "nope"}}
    await t.call("of another uid", "PUT", t.jobs("train"), other)
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    await t.call("a patch of a stale revision", "PATCH", t.jobs("train"), patch, MERGE)
    queue = await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("stale"))
    del queue["metadata"]["resourceVersion"]
    await t.call("a queue without one", "PUT", f"{CLUSTER_QUEUES}/stale", queue)


@story
async def a_write_that_changes_nothing_writes_nothing(t: StoryClient) -> None:
    made = await t.quiet("POST", t.jobs(), job("train", suspend=True))
    made = await t.call("as it is", "PUT", t.jobs("train"), made, show=META)
    await t.call("the same", "PUT", t.jobs("train"), made, show=META)
    same: Document = {"spec": {"parallelism": 1}}
    await t.call("a patch to the same", "PATCH", t.jobs("train"), same, MERGE, show=META)
    labels = {"metadata": {"labels": {"a": "b"}}}
    await t.call("a new label", "PATCH", t.jobs("train"), labels, MERGE, show=META)
    change: Document = {"spec": {"parallelism": 2}}
    await t.call("a change", "PATCH", t.jobs("train"), change, MERGE, show=META)
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("nothing"))
    url = f"{CLUSTER_QUEUES}/nothing"
    await t.call("an empty patch of a queue", "PATCH", url, {}, MERGE, show=META)
    change = {"spec": {"stopPolicy": "Hold"}}
    await t.call("a change of a queue", "PATCH", url, change, MERGE, show=META)


@story
async def status_and_spec_are_written_apart(t: StoryClient) -> None:
    queue = {**cluster_queue("apart"), "status": {"pendingWorkloads": 7}}
    await t.call("create with a status", "POST", CLUSTER_QUEUES, queue)
    both: Document = {"spec": {"stopPolicy": "Hold"}, "status": {"pendingWorkloads": 3}}
    url = f"{CLUSTER_QUEUES}/apart"
    await t.call("patch the status", "PATCH", f"{url}/status", both, MERGE)
    both["status"]["pendingWorkloads"] = 4
    await t.call("patch the object", "PATCH", url, both, MERGE)
    await t.call("get the status", "GET", f"{url}/status", show=("kind", "status"))
    made = await t.quiet("POST", t.jobs(), {**job("train", suspend=True), "status": {"active": 7}})
    status = {"startTime": THEN, "active": 1}
    written = {**made, "status": status, "spec": {**made["spec"], "parallelism": 9}}
    show = (*META, "spec.parallelism", "status")
    await t.call("put a job's status", "PUT", f"{t.jobs('train')}/status", written, show=show)
    gone = {"status": {"active": None}}
    await t.call("take a part away", "PATCH", f"{t.jobs('train')}/status", gone, MERGE, show=show)
    meta = {"metadata": {"labels": {"a": "b"}}, "status": {"ready": 0}}
    parts = ("metadata.labels", "status")
    await t.call(
        "labels by the status", "PATCH", f"{t.jobs('train')}/status", meta, MERGE, show=parts
    )


@story
async def a_dry_run_answers_and_writes_nothing(t: StoryClient) -> None:
    show = ("kind", "metadata.name", "metadata.generation", "spec.parallelism")
    url = f"{t.jobs()}?dryRun=All"
    await t.call("create", "POST", url, job("train", suspend=True), show=show)
    await t.call("it is not there", "GET", t.jobs("train"))
    await t.quiet("POST", t.jobs(), job("train", suspend=True))
    patch = {"spec": {"parallelism": 4}}
    await t.call("patch", "PATCH", f"{t.jobs('train')}?dryRun=All", patch, MERGE, show=show)
    await t.call("delete", "DELETE", f"{t.jobs('train')}?dryRun=All")
    await t.call("delete by the body", "DELETE", t.jobs("train"), {"dryRun": ["All"]})
    await t.call("it is as it was", "GET", t.jobs("train"), show=show)
    await t.call("another word", "POST", f"{t.jobs()}?dryRun=Some", job("x"))


@story
async def metadata_that_is_the_servers_is_not_the_clients(t: StoryClient) -> None:
    claimed = {
        "uid": "11111111-1111-1111-1111-111111111111",
        "creationTimestamp": THEN,
        "deletionTimestamp": THEN,
        "generation": 9,
        "selfLink": "/x",
    }
    show = ("metadata",)
    await t.call("create", "POST", t.pods(), pod("p", claimed), show=show)
    revision = {"resourceVersion": "5"}
    await t.call("with a revision", "POST", t.pods(), pod("q", revision))
    later = {"metadata": {**claimed, "uid": None, "creationTimestamp": None}}
    await t.call("patch", "PATCH", t.pods("p"), later, MERGE, show=show)
    name = {"metadata": {"name": "other"}}
    await t.call("rename", "PATCH", t.pods("p"), name, MERGE)
    namespace = {"metadata": {"namespace": "other"}}
    await t.call("move", "PATCH", t.pods("p"), namespace, MERGE)


@story
async def who_has_no_valid_token_is_nobody(t: StoryClient) -> None:
    await t.become_a_stranger()
    await t.call("list", "GET", t.jobs())
    await t.call("create", "POST", t.jobs(), job("x"))
    await t.call("a path that is none", "GET", "/nope")


@story
async def leases_change_hands(t: StoryClient) -> None:
    leases = t.apis("coordination.k8s.io/v1", "leases")
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2020-01-01T00:00:00.000000Z",
        "renewTime": "2020-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    lease = {"metadata": {"name": "leader"}, "spec": spec}
    made = await t.call("create", "POST", leases, lease)
    taken = {**made, "spec": {**made["spec"], "holderIdentity": "b", "leaseTransitions": 1}}
    await t.call("take it", "PUT", f"{leases}/leader", taken)
    await t.call("too late", "PUT", f"{leases}/leader", taken)
    bad = {"metadata": {"name": "bad"}, "spec": {"leaseDurationSeconds": -1}}
    await t.call("a lease of no length", "POST", leases, bad)


async def _some_pod(t: StoryClient) -> Document:
    """A pod for events to be about, as they name it."""
    made = await t.quiet("POST", t.pods(), pod("p"))
    return {
        "kind": "Pod",
        "namespace": t.namespace,
        "name": "p",
        "uid": made["metadata"]["uid"],
        "apiVersion": "v1",
    }


@story
async def events_are_kept(t: StoryClient) -> None:
    about = await _some_pod(t)
    event = {
        "metadata": {"name": "p.1"},
        "involvedObject": about,
        "reason": "Queued",
        "message": "waits for quota",
        "type": "Normal",
        "source": {"component": "makeway"},
        "firstTimestamp": THEN,
        "lastTimestamp": THEN,
        "count": 1,
    }
    await t.call("create", "POST", t.core("events"), event)
    again = {"count": 2, "lastTimestamp": THEN}
    show = ("count", "metadata.resourceVersion")
    await t.call("once more", "PATCH", t.core("events", "p.1"), again, MERGE, show=show)
    find = f"{t.core('events')}?fieldSelector=involvedObject.name%3Dp%2Creason%3DQueued"
    await t.call("find", "GET", find, show=("items.0.reason", "items.0.count"))
    elsewhere = {**event, "involvedObject": {**about, "namespace": "default"}}
    elsewhere["metadata"] = {"name": "p.2"}
    await t.call("about another namespace", "POST", t.core("events"), elsewhere)


@story
async def events_of_two_groups_are_the_same_events(t: StoryClient) -> None:
    about = await _some_pod(t)
    event = {
        "apiVersion": EVENTS,
        "kind": "Event",
        "metadata": {"name": "p.new", "namespace": t.namespace},
        "eventTime": "2020-01-01T00:00:00.000000Z",
        "regarding": about,
        "reason": "Queued",
        "note": "waits for quota",
        "type": "Normal",
        "action": "Queue",
        "reportingController": "example.com/makeway",
        "reportingInstance": "makeway-0",
    }
    new, old = t.apis(EVENTS, "events"), t.core("events")
    await t.call("create", "POST", new, event)
    await t.call("as the core shows it", "GET", f"{old}/p.new")
    series = {"series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:01.000000Z"}}
    await t.call("once more", "PATCH", f"{new}/p.new", series, STRATEGIC, show=("series", "note"))
    await t.call("the core sees it", "GET", f"{old}/p.new", show=("series", "message"))
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        less = {key: value for key, value in event.items() if key != field}
        less["metadata"] = {"name": f"without-{field.lower()}"}
        await t.call(f"without {field}", "POST", new, less)
    odd = {**event, "type": "Odd", "metadata": {"name": "odd"}}
    await t.call("an odd type", "POST", new, odd)
    counted = {**event, "deprecatedCount": 3, "metadata": {"name": "counted"}}
    await t.call("a count of old", "POST", new, counted)
    plain = {
        "metadata": {"name": "p.old"},
        "involvedObject": about,
        "reason": "Started",
        "message": "runs",
        "type": "Normal",
        "source": {"component": "makeway"},
        "firstTimestamp": THEN,
        "lastTimestamp": THEN,
        "count": 1,
    }
    await t.quiet("POST", old, plain)
    await t.call("one of the core's", "GET", f"{new}/p.old")
    names = ("kind", "apiVersion", "items.0.note", "items.1.note")
    await t.call("list", "GET", new, show=names)
    find = f"{new}?fieldSelector=regarding.name%3Dp%2Creason%3DQueued"
    await t.call("find", "GET", find, show=("items.0.reason", "items.1"))
    await t.call("by a word of the core", "GET", f"{new}?fieldSelector=involvedObject.name%3Dp")
    async with t.watch(new) as watch:
        await watch.collect("both", 2, ("apiVersion", "note"))
    await t.call("another", "GET", f"{new}/none")
    show = ("status", "details.name", "details.group", "details.kind")
    await t.call("delete", "DELETE", f"{new}/p.old", show=show)
    await t.call("it is gone", "GET", f"{old}/p.old")


@story
async def priority_classes_keep_their_value(t: StoryClient) -> None:
    high = {"metadata": {"name": "keeps-high"}, "value": 1000, "description": "important"}
    await t.call("create", "POST", PRIORITY_CLASSES, high)
    url = f"{PRIORITY_CLASSES}/keeps-high"
    await t.call("another value", "PATCH", url, {"value": 5}, MERGE)
    words = {"description": "less so"}
    await t.call("other words", "PATCH", url, words, MERGE, show=("value", "description"))
    too_high = {"metadata": {"name": "keeps-too-high"}, "value": 2_000_000_000}
    await t.call("a value beyond all users", "POST", PRIORITY_CLASSES, too_high)
    await t.call("no value", "POST", PRIORITY_CLASSES, {"metadata": {"name": "keeps-none"}})
    policy = {"metadata": {"name": "keeps-p"}, "value": 1, "preemptionPolicy": "Sometimes"}
    await t.call("an unknown policy", "POST", PRIORITY_CLASSES, policy)
    system = {"metadata": {"name": "system-mine"}, "value": 1}
    await t.call("a name of the system's", "POST", PRIORITY_CLASSES, system)

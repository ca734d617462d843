"""Watches: from where, what they see, how they end."""

from tests.harness.documents import CLUSTER_QUEUES, cluster_queue, pod
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, TABLE, StoryClient

SEEN = ("metadata.name", "metadata.resourceVersion", "metadata.labels")
GONE = "gracePeriodSeconds=0"


@story
async def a_watch_sees_what_happens_after_a_revision(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("before"))
    listed = await t.quiet("GET", t.pods())
    since = listed["metadata"]["resourceVersion"]
    async with t.watch(f"{t.pods()}?resourceVersion={since}") as watch:
        await t.quiet("POST", t.pods(), pod("a"))
        label = {"metadata": {"labels": {"x": "y"}}}
        await t.quiet("PATCH", t.pods("a"), label, MERGE)
        await t.quiet("PATCH", t.pods("a"), label, MERGE)  # changes nothing
        await t.quiet("DELETE", f"{t.pods('a')}?{GONE}")
        await watch.collect("four events", 4, SEEN)
    async with t.watch(f"{t.pods()}?resourceVersion={since}") as watch:
        await watch.collect("the same again", 4, SEEN)


@story
async def a_watch_without_a_revision_begins_with_what_is_there(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("a"))
    await t.quiet("POST", t.pods(), pod("b"))
    for step, query in (("none", ""), ("zero", "?resourceVersion=0")):
        async with t.watch(f"{t.pods()}{query}") as watch:
            await watch.collect(f"revision {step}", 2, ("metadata.name",))


@story
async def initial_events_are_asked_for_in_one_way(t: StoryClient) -> None:
    """Only what is refused: the store of the real server here is too old to send them."""
    for step, wrong in (
        ("without a match", "sendInitialEvents=true&allowWatchBookmarks=true"),
        ("a match without initial events", "resourceVersionMatch=NotOlderThan"),
        ("an exact match", "sendInitialEvents=true&resourceVersionMatch=Exact"),
    ):
        await t.call(step, "GET", f"{t.pods()}?watch=true&timeoutSeconds=1&{wrong}")
    await t.call("initial events of a list", "GET", f"{t.pods()}?sendInitialEvents=true")


@story
async def objects_enter_and_leave_a_selection(t: StoryClient) -> None:
    listed = await t.quiet("GET", t.pods())
    since = listed["metadata"]["resourceVersion"]
    url = f"{t.pods()}?resourceVersion={since}&labelSelector=app%3Dx"
    async with t.watch(url) as watch:
        await t.quiet("POST", t.pods(), pod("a"))
        for value in ("x", "y", "x"):
            patch = {"metadata": {"labels": {"app": value}}}
            await t.quiet("PATCH", t.pods("a"), patch, MERGE)
        patch = {"metadata": {"labels": {"more": "1"}}}
        await t.quiet("PATCH", t.pods("a"), patch, MERGE)
        await t.quiet("DELETE", f"{t.pods('a')}?{GONE}")
        await watch.collect("in, out, in, changed, gone", 5, SEEN)
    url = f"{t.pods()}?resourceVersion={since}&fieldSelector=spec.nodeName%3Dwatched"
    async with t.watch(url) as watch:
        await t.quiet("POST", t.pods(), pod("b"))
        await t.bind("b", "watched")
        await watch.collect("bound", 1, ("metadata.name", "spec.nodeName"))


@story
async def a_past_that_is_not_kept_is_gone(t: StoryClient) -> None:
    async with t.watch(f"{CLUSTER_QUEUES}?resourceVersion=1") as watch:
        await watch.collect("too old", 1)
    await t.call("no number", "GET", f"{t.pods()}?watch=true&timeoutSeconds=1&resourceVersion=x")


@story
async def a_watch_ends_when_its_time_is_up(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("a"))
    await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("ends"))
    url = f"{t.pods()}?watch=true&timeoutSeconds=1&resourceVersion=0"
    code, _, text = await t.send("GET", url)
    t.note("one second", {"code": code, "type": text["type"]})
    only = "fieldSelector=metadata.name%3Dends&resourceVersion=0"
    url = f"{CLUSTER_QUEUES}?watch=1&timeoutSeconds=1&{only}"
    code, _, text = await t.send("GET", url)
    t.note("of queues", {"code": code, "type": text["type"]})


@story
async def tables_can_be_watched(t: StoryClient) -> None:
    await t.quiet("POST", t.pods(), pod("a"))
    await t.quiet("POST", t.pods(), pod("b"))
    async with t.watch(t.pods(), accept=TABLE) as watch:
        show = ("kind", "columnDefinitions.0.name", "rows.0.cells.0")
        await watch.collect("two rows", 2, show)


@story
async def a_deletion_shows_the_last_state_and_a_new_revision(t: StoryClient) -> None:
    made = await t.quiet("POST", CLUSTER_QUEUES, cluster_queue("last-state"))
    name = "fieldSelector=metadata.name%3Dlast-state"
    since = made["metadata"]["resourceVersion"]
    async with t.watch(f"{CLUSTER_QUEUES}?{name}&resourceVersion={since}") as watch:
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        url = f"{CLUSTER_QUEUES}/last-state"
        await t.quiet("PATCH", url, hold, MERGE)
        await t.quiet("DELETE", url)
        await t.quiet("PATCH", url, {"metadata": {"finalizers": None}}, MERGE)
        await watch.collect("held, leaving, gone", 3, ("metadata",))


@story
async def a_watch_over_a_websocket(t: StoryClient) -> None:
    """One message per event; the rest is as in any other watch."""
    await t.quiet("POST", t.pods(), pod("a"))
    listed = await t.quiet("GET", t.pods())
    since = listed["metadata"]["resourceVersion"]
    async with t.socket("from the beginning", t.pods()) as watch:
        await watch.collect("what is there", 1, ("metadata.name",))
        await t.quiet("POST", t.pods(), pod("b"))
        await watch.collect("what comes", 1, ("metadata.name",))
    async with t.socket("since", f"{t.pods()}?resourceVersion={since}") as watch:
        await watch.collect("what came", 1, ("metadata.name",))
    async with t.socket("too old", f"{CLUSTER_QUEUES}?resourceVersion=1") as watch:
        await watch.collect("it is gone", 1)
    async with t.socket("for a second", f"{t.pods()}?timeoutSeconds=1") as watch:
        await watch.collect("both", 2, ("metadata.name",))
        await watch.ends("its time is up")
    async with t.socket("with a protocol", t.pods(), "base64.binary.k8s.io") as watch:
        await watch.collect("both again", 2, ("metadata.name",))
    await t.no_socket("an unknown field", f"{t.pods()}?fieldSelector=spec.nope%3D1")
    await t.no_socket("not there", "/apis/batch/v1/nope")

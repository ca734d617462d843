"""The client's own behaviour, against servers that misbehave on purpose."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from makeway.api.kinds import Resource
from makeway.client import (
    ApiError,
    Changed,
    Client,
    Conflict,
    Gone,
    NotFound,
    Reflector,
    Synced,
    Unavailable,
)
from makeway.client.transport import Answer, Call, Unreachable
from makeway.plane.events import EventRecorder
from makeway.store import Key
from tests.harness.documents import job
from tests.server.harness import JOBS, MERGE, Server, play

JOB = Resource("batch/v1", "jobs", "Job", True)


class Script:
    """A transport that plays answers one after the other, and notes what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []

    @contextlib.asynccontextmanager
    async def send(self, call: Call) -> AsyncIterator[Answer]:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        code, *parts = answer
        headers = {"retry-after": "3"} if code == 429 else {}

        async def pieces() -> AsyncIterator[bytes]:
            for part in parts:
                if isinstance(part, Exception):
                    raise part
                yield part if isinstance(part, bytes) else orjson.dumps(part) + b"\n"

        yield Answer(code=code, headers=headers, pieces=pieces())

    async def close(self) -> None:
        pass


class Naps:
    """Notes how long one would have slept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": reason}


def listing(revision: int, *names: str) -> dict[str, Any]:
    items = [named(name, revision) for name in names]
    return {"metadata": {"resourceVersion": str(revision)}, "items": items}


def named(name: str, revision: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(revision)}}


def event(type_: str, name: str, revision: int) -> dict[str, Any]:
    return {"type": type_, "object": named(name, revision)}


async def take(reflector: Reflector, count: int) -> list[tuple[str, ...]]:
    seen: list[tuple[str, ...]] = []
    async for change in reflector.changes():
        match change:
            case Synced(items=items):
                seen.append(("all", *(item["metadata"]["name"] for item in items)))
            case Changed(type_, document):
                seen.append((type_, document["metadata"]["name"]))
        if len(seen) == count:
            break
    return seen


def test_not_now_is_tried_again_after_the_time_that_was_asked() -> None:
    naps = Naps()
    script = Script((429, status(429, "TooManyRequests")), (503, b"busy"), (200, listing(1)))
    client = Client(script, sleep=naps)
    assert asyncio.run(client.list(JOB)).resource_version == "1"
    assert naps.seconds[0] == 3
    assert len(script.calls) == 3


def test_a_write_whose_fate_is_unknown_is_not_sent_twice() -> None:
    script = Script(Unreachable("reset"))
    with pytest.raises(Unavailable):
        asyncio.run(Client(script, sleep=Naps()).create(JOB, job(), namespace="default"))
    assert len(script.calls) == 1


def test_reads_are_tried_again_when_the_connection_breaks() -> None:
    script = Script(Unreachable("reset"), (200, named("a", 1)))
    found = asyncio.run(Client(script, sleep=Naps()).get(JOB, "a", "default"))
    assert found["metadata"]["name"] == "a"


def test_at_some_point_it_gives_up() -> None:
    script = Script(*[(503, b"")] * 3)
    with pytest.raises(Unavailable):
        asyncio.run(Client(script, sleep=Naps(), attempts=3).get(JOB, "a"))


@pytest.mark.parametrize(("code", "kind"), [(404, NotFound), (409, Conflict), (410, Gone)])
def test_refusals_have_types(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        asyncio.run(Client(Script((code, status(code, "x")))).get(JOB, "a"))


def test_lists_are_read_page_by_page() -> None:
    first = listing(7, "a")
    first["metadata"]["continue"] = "more"
    script = Script((200, first), (200, listing(9, "b")))
    found = asyncio.run(Client(script).list(JOB, "default"))
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert found.resource_version == "7"
    assert script.calls[1].query["continue"] == "more"
    assert found.items[0]["kind"] == "Job"


def test_a_list_whose_pages_are_no_longer_kept_is_read_anew_in_one_piece() -> None:
    first = listing(7, "a")
    first["metadata"]["continue"] = "more"
    script = Script((200, first), (410, status(410, "Expired")), (200, listing(9, "a", "b")))
    found = asyncio.run(Client(script).list(JOB, "default"))
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert found.resource_version == "9"
    assert script.calls[2].query == {}


def test_what_a_budget_forbids_is_not_tried_again_by_itself() -> None:
    details = {"causes": [{"reason": "DisruptionBudget"}]}
    script = Script((429, {**status(429, "TooManyRequests"), "details": details}))
    with pytest.raises(ApiError) as caught:
        asyncio.run(Client(script, sleep=Naps()).post(JOB, ("default", "p"), "eviction", {}))
    assert caught.value.is_about_budget
    assert len(script.calls) == 1


def test_a_watch_begins_again_after_the_time_that_was_asked() -> None:
    naps = Naps()
    refused = (429, status(429, "TooManyRequests"))
    script = Script((200, listing(5)), refused, (200, event("ADDED", "a", 6)))
    reflector = Reflector(Client(script, sleep=Naps()), JOB, sleep=naps)
    assert asyncio.run(take(reflector, 2)) == [("all",), ("ADDED", "a")]
    assert naps.seconds == [3]


def test_watches_that_end_without_a_word_are_begun_more_and_more_slowly() -> None:
    naps = Naps()
    script = Script((200, listing(5)), *[(200,)] * 6, (200, event("ADDED", "a", 6)))
    reflector = Reflector(Client(script, sleep=Naps()), JOB, sleep=naps)
    assert asyncio.run(take(reflector, 2)) == [("all",), ("ADDED", "a")]
    assert len(naps.seconds) == 6
    assert naps.seconds[-1] > 10 * naps.seconds[0]


def test_the_reflector_goes_on_where_a_watch_ended() -> None:
    script = Script(
        (200, listing(5, "a")),
        (200, event("ADDED", "b", 6), event("BOOKMARK", "", 9)),
        (200, event("DELETED", "a", 10)),
    )
    reflector = Reflector(Client(script, sleep=Naps()), JOB, sleep=Naps())
    seen = asyncio.run(take(reflector, 3))
    assert seen == [("all", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert [call.query.get("resourceVersion") for call in script.calls] == [None, "5", "9"]


GONE = {"type": "ERROR", "object": status(410, "Expired")}


@pytest.mark.parametrize(
    "gone", [(200, GONE), (410, status(410, "Expired"))], ids=["event", "code"]
)
def test_the_reflector_lists_again_when_its_revision_is_gone(gone: Any) -> None:
    script = Script((200, listing(5, "a")), gone, (200, listing(9, "b")), (200, GONE))
    reflector = Reflector(Client(script, sleep=Naps()), JOB, sleep=Naps())
    assert asyncio.run(take(reflector, 2)) == [("all", "a"), ("all", "b")]


def test_the_reflector_watches_again_after_a_lost_connection() -> None:
    naps = Naps()
    script = Script(
        (200, listing(5)),
        (200, event("ADDED", "a", 6), b'{"type":"ADD', Unreachable("cut")),
        Unreachable("down"),
        (200, event("ADDED", "b", 7)),
    )
    reflector = Reflector(Client(script, sleep=naps), JOB, sleep=naps)
    assert asyncio.run(take(reflector, 3)) == [("all",), ("ADDED", "a"), ("ADDED", "b")]
    assert script.calls[3].query["resourceVersion"] == "6"
    assert len(naps.seconds) == 2


def test_events_cut_in_pieces_are_put_together() -> None:
    line = orjson.dumps(event("ADDED", "a", 6)) + b"\n"
    for cut in (1, 10, len(line) - 1):
        script = Script((200, listing(5)), (200, line[:cut], line[cut:]))
        reflector = Reflector(Client(script), JOB)
        assert asyncio.run(take(reflector, 2)) == [("all",), ("ADDED", "a")]


# With the real server, in the same process


def test_a_conflict_is_read_and_edited_again(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        jobs = await server.client.resource("batch/v1", "Job")
        await server.client.create(jobs, job(), namespace="default")
        attempts = 0

        def edit(document: dict[str, Any]) -> dict[str, Any]:
            nonlocal attempts
            attempts += 1
            document["spec"]["backoffLimit"] = 1
            if attempts == 1:  # somebody is quicker
                document["metadata"]["resourceVersion"] = "1001"
            return document

        after = await server.client.update(jobs, "train", "default", edit=edit)
        assert (after["spec"]["backoffLimit"], attempts) == (1, 2)

    play(tmp_path, story)


def test_a_reflector_ends_up_with_what_is_there(tmp_path: Path) -> None:
    """Whatever it missed: it lags, its revision is compacted away, it lists again."""

    async def story(server: Server) -> None:
        jobs = await server.client.resource("batch/v1", "Job")
        picture: dict[str, str] = {}

        async def keep_up() -> None:
            async for change in Reflector(server.client, jobs).changes():
                if isinstance(change, Synced):
                    picture.clear()
                    changed = change.items
                else:
                    changed = [change.object]
                for document in changed:
                    metadata = document["metadata"]
                    if isinstance(change, Changed) and change.type == "DELETED":
                        picture.pop(metadata["name"], None)
                    else:
                        picture[metadata["name"]] = metadata["resourceVersion"]

        task = asyncio.create_task(keep_up())
        for number in range(300):
            name = f"job-{number % 5}"
            if server.store.get(_key(name)) is None:
                await server.json("POST", JOBS, job(name))
            elif number % 7 == 0:
                await server.json("DELETE", f"{JOBS}/{name}")
            else:
                patch = {"metadata": {"labels": {"n": str(number)}}}
                await server.json("PATCH", f"{JOBS}/{name}", patch, content_type=MERGE)
        for _ in range(1000):
            truth = {r.key.name: str(r.revision) for r in server.store.scan("jobs.batch")}
            if picture == truth:
                break
            await asyncio.sleep(0.005)
        assert picture == truth
        task.cancel()

    play(tmp_path, story, events_kept=3)


def _key(name: str) -> Key:
    return Key("jobs.batch", "default", name)


def test_the_same_event_again_counts_up(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        jobs = await server.client.resource("batch/v1", "Job")
        made = await server.client.create(jobs, job(), namespace="default")
        recorder = EventRecorder(server.client, "test", lambda: server.now)
        for message in ("one", "one", "two", "one"):
            await recorder.record(made, "Normal", "Admitted", message)
        events = await server.client.resource("v1", "Event")
        found = await server.client.list(
            events, "default", field_selector=f"involvedObject.uid={made['metadata']['uid']}"
        )
        counts = {item["message"]: item["count"] for item in found.items}
        assert counts == {"one": 3, "two": 1}

    play(tmp_path, story)


def test_kinds_go_by_many_names(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for word in ("cq", "clusterqueue", "ClusterQueues", "clusterqueues.kueue.x-k8s.io"):
            assert (await server.client.find_resource(word)).kind == "ClusterQueue"
        assert (await server.client.find_resource("workloads")).group == "kueue.x-k8s.io"
        with pytest.raises(NotFound):
            await server.client.find_resource("nope")

    play(tmp_path, story)

"""The loop between parts and a server: kinds that are not there, and how it ends."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from makeway.api.kinds import JOBS, NAMESPACES, POD_GROUPS, Resource
from makeway.plane.loop import Loop
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Create, ObjectWrite, Say
from tests.harness.documents import job
from tests.server.harness import Server, play, settled

UNKNOWN = Resource("nobody.example/v1", "things", "Thing", True)


class Wisher:
    """Wants one Job after another, each as soon as the one before is there."""

    def __init__(self, *more: Resource) -> None:
        self.resources: tuple[Resource, ...] = (JOBS, *more)
        self.wanted = 0
        self.is_waiting = False
        self.asked = 0

    def changed(self, change: Change) -> None:
        pass

    def act(self, now: float) -> Plan:
        self.asked += 1
        if self.is_waiting:
            return Plan()
        self.is_waiting = True
        self.wanted += 1
        document = job(f"job-{self.wanted}")
        document["metadata"]["namespace"] = "default"
        return Plan((Create(resource=JOBS, document=document),))

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        self.is_waiting = False
        about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "uid": "u"}}
        return (Say(about=about, reason="Made", message=str(write.key)),)


def test_a_kind_that_the_server_lacks_holds_nobody_up(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        part = Wisher(UNKNOWN)
        loop = Loop(
            server.client, Picture(), [part], clock=lambda: server.now, absent=(UNKNOWN, POD_GROUPS)
        )
        working = asyncio.create_task(loop.run())
        await settled(lambda: part.wanted > 2)
        assert loop.is_synced
        working.cancel()

    play(tmp_path, story)


def test_who_is_told_to_finish_writes_what_is_decided_and_decides_no_more(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        part = Wisher(NAMESPACES)
        loop = Loop(server.client, Picture(), [part], clock=lambda: server.now)
        working = asyncio.create_task(loop.run())
        await settled(lambda: part.wanted > 2)
        await loop.finish(within_s=5)
        decided = part.asked
        assert (loop.in_flight, part.is_waiting) == (0, False)
        await asyncio.sleep(0.05)
        assert part.asked == decided
        events = await server.client.resource("v1", "Event")
        said = [e["message"] for e in (await server.client.list(events)).items]
        assert f"default/job-{part.wanted}" in said
        working.cancel()

    play(tmp_path, story)


def test_finishing_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        part = Wisher()
        loop = Loop(server.client, Picture(), [part], clock=lambda: server.now, in_flight_max=0)
        working = asyncio.create_task(loop.run())
        await settled(lambda: loop.in_flight == 1)
        await loop.finish(within_s=0.05)
        assert loop.in_flight == 1
        working.cancel()

    play(tmp_path, story)

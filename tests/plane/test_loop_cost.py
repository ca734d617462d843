"""What the loop takes of others: of their turns, of memory, of the server's flushes."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from makeway.api.kinds import EVENTS, NAMESPACES, Resource
from makeway.client.client import PAGE
from makeway.client.reflector import Listed, Reflector
from makeway.plane.loop import SAID_AT_ONCE_MAX, TAKEN_MAX, Loop
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import ObjectWrite, Say
from makeway.store import Batch
from tests.server.harness import Server, play, settled

MANY = PAGE + 3 * TAKEN_MAX


class Listener:
    """Notes what it hears in which turn, and says something in the beginning."""

    resources: tuple[Resource, ...] = (NAMESPACES,)

    def __init__(self, *sayings: Say) -> None:
        self.turn = 0
        self.heard: Counter[int] = Counter()
        self.gone: list[str] = []
        self._sayings = sayings

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def changed(self, change: Change) -> None:
        self.heard[self.turn] += 1
        if change.new is None:
            self.gone.append(change.key.name)

    def act(self, now: float) -> Plan:
        sayings, self._sayings = self._sayings, ()
        return Plan(sayings)

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        return ()


async def create_many(server: Server) -> None:
    for number in range(MANY):
        await server.client.create(NAMESPACES, {"metadata": {"name": f"n-{number}"}})


def test_a_long_list_is_taken_in_by_turns(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await create_many(server)
        part = Listener()
        loop = Loop(server.client, Picture(), [part], clock=lambda: server.now)
        tasks = [asyncio.create_task(work) for work in (part.count_turns(), loop.run())]
        await settled(lambda: loop.is_synced)
        assert part.heard.total() >= MANY
        assert max(part.heard.values()) <= TAKEN_MAX
        for task in tasks:
            task.cancel()

    play(tmp_path, story)


def test_a_list_comes_in_pages_and_each_once(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await create_many(server)
        sizes, firsts = [], []
        async for piece in Reflector(server.client, NAMESPACES).pieces():
            if not isinstance(piece, Listed):
                break
            sizes.append(len(piece.items))
            firsts.append(piece.is_first)
        assert sizes == [PAGE, MANY + 3 - PAGE]  # three namespaces are there from the start
        assert firsts == [True, False]

    play(tmp_path, story)


def test_what_no_page_of_a_new_list_shows_is_gone(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        part, picture = Listener(), Picture()
        lost = {"metadata": {"name": "lost", "uid": "u", "resourceVersion": "1"}}
        picture.take(NAMESPACES, lost)  # from a time that the server no longer tells of
        await create_many(server)
        loop = Loop(server.client, picture, [part], clock=lambda: server.now)
        working = asyncio.create_task(loop.run())
        await settled(lambda: loop.is_synced)
        assert part.gone == ["lost"]
        working.cancel()

    play(tmp_path, story)


def test_events_share_flushes_and_what_is_repeated_is_counted(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        batches: list[Batch] = []
        begin = server.store.begin

        def noted() -> Batch | None:
            batch = begin()
            batches.extend([batch] if batch is not None else [])
            return batch

        server.store.begin = noted  # type: ignore[method-assign]
        about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "uid": "u"}}
        texts = [f"text {number}" for number in range(SAID_AT_ONCE_MAX)]
        sayings = [Say(about=about, reason="Seen", message=text) for text in (*texts, *texts)]
        loop = Loop(server.client, Picture(), [Listener(*sayings)], clock=lambda: server.now)
        working = asyncio.create_task(loop.run())
        await settled(lambda: sum(len(batch.changes) for batch in batches) == 2 * len(texts))
        assert len(batches) <= 4
        await loop.finish(within_s=5)
        events = (await server.client.list(EVENTS)).items
        assert sorted(event["count"] for event in events) == [2] * len(texts)
        working.cancel()

    play(tmp_path, story)

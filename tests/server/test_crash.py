"""The server is killed, again and again, while clients write and watch."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

from makeway.api.kinds import Resource
from makeway.client import Client, Conflict, Gone, Unavailable
from makeway.client.kubeconfig import read_kubeconfig
from makeway.client.transport import Unreachable
from tests.harness.documents import job
from tests.harness.process import Up, running

KILLS = int(os.environ.get("MAKEWAY_SERVER_KILLS", "2"))
WRITERS = 8
JOBS = Resource("batch/v1", "jobs", "Job", True)


class World:
    """What the clients were told."""

    def __init__(self) -> None:
        # Name -> revision of the last write that was acknowledged, and its mark.
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.revisions: set[int] = set()
        self.watched: dict[str, int] = {}  # name -> mark, as seen by watching
        self.watch_revision = ""
        self.relists = 0


async def _write(world: World, client: Client, number: int, chance: random.Random) -> None:
    name, mark = f"job-{number}", world.acknowledged.get(f"job-{number}", (0, 0))[1]
    while True:
        mark += 1
        try:
            if mark == 1:
                made = job(name)
                made["metadata"]["labels"] = {"mark": "1"}
                after = await client.create(JOBS, made, namespace="default")
            else:
                patch = {"metadata": {"labels": {"mark": str(mark)}}}
                after = await client.patch(JOBS, name, "default", patch=patch)
        except (Unavailable, Unreachable):
            return
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            continue  # it was written, but we were not told
        revision = int(after["metadata"]["resourceVersion"])
        assert revision not in world.revisions
        world.revisions.add(revision)
        world.acknowledged[name] = (revision, mark)
        await asyncio.sleep(chance.random() * 0.002)


async def _watch(world: World, client: Client) -> None:
    try:
        if not world.watch_revision:
            found = await client.list(JOBS, "default")
            world.watched = {_name(item): _mark(item) for item in found.items}
            world.watch_revision = found.resource_version
            world.relists += 1
        async for event in client.watch(
            JOBS, "default", resource_version=world.watch_revision, timeout_s=60
        ):
            revision = event.object["metadata"]["resourceVersion"]
            assert int(revision) > int(world.watch_revision)
            world.watch_revision = revision
            if event.type != "BOOKMARK":
                world.watched[_name(event.object)] = _mark(event.object)
    except Gone:
        world.watch_revision = ""
    except (Unavailable, Unreachable):
        return


def _name(document: dict[str, Any]) -> str:
    return str(document["metadata"]["name"])


def _mark(document: dict[str, Any]) -> int:
    return int(document["metadata"]["labels"]["mark"])


def test_nothing_acknowledged_is_lost_and_watchers_miss_nothing(tmp_path: Path) -> None:
    world, chance = World(), random.Random(7)

    async def turn(is_last: bool) -> None:
        with running(tmp_path / "data") as server:
            await play(server, is_last)

    async def play(server: Up, is_last: bool) -> None:
        access = read_kubeconfig(server.kubeconfig)
        client = Client(access.transport(), attempts=1)
        found = {_name(i): i for i in (await client.list(JOBS, "default")).items}
        for name, (revision, mark) in world.acknowledged.items():
            now = int(found[name]["metadata"]["resourceVersion"])
            assert now >= revision, name
            assert _mark(found[name]) >= mark, name
            world.acknowledged[name] = (now, _mark(found[name]))
        watch = asyncio.create_task(_watch(world, client))
        writers = [
            asyncio.create_task(_write(world, client, number, chance)) for number in range(WRITERS)
        ]
        enough = len(world.revisions) + 10
        while len(world.revisions) < enough:
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.random() * 0.4)
        if is_last:
            for task in writers:
                task.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
            for _ in range(200):
                # Writes that we cancelled may still arrive.
                truth = {_name(i): _mark(i) for i in (await client.list(JOBS, "default")).items}
                if world.watched == truth:
                    break
                await asyncio.sleep(0.02)
            assert world.watched == truth
            watch.cancel()
        else:
            server.kill()
            for outcome in await asyncio.gather(*writers, watch, return_exceptions=True):
                assert outcome is None, outcome
        await client.close()

    async def story() -> None:
        for number in range(KILLS + 1):
            await turn(number == KILLS)

    asyncio.run(story())
    assert len(world.revisions) > 20
    assert world.relists == 1  # the events were kept over every crash

"""The same on a server: a Job's way through a queue, with nobody but the parts to help it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from makeway.api.configuration import Configuration
from makeway.api.kinds import (
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    QUEUES,
    Resource,
)
from makeway.client import Client
from makeway.client.client import Document
from makeway.controller.admission import Admission
from makeway.controller.jobs import Jobs
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from tests.harness.jobs import flavor, job, pod
from tests.server.harness import Server, play

PATIENCE = 200


def lab_queue(cpu: int) -> list[tuple[Resource, Document]]:
    quota = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    spec = {"resourceGroups": groups, "namespaceSelector": {}}
    local = {"name": "main", "namespace": "lab"}
    return [
        (NAMESPACES, {"metadata": {"name": "lab"}}),
        (FLAVORS, flavor("spot", {"pool": "spot"}, tolerates="spot")),
        (QUEUES, {"metadata": {"name": "big"}, "spec": spec}),
        (LOCAL_QUEUES, {"metadata": local, "spec": {"clusterQueue": "big"}}),
    ]


def pods_job(name: str, **spec: Any) -> Document:
    document = job(**spec)
    document["metadata"]["name"] = name
    document["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return document


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, resource: Resource, document: Document) -> Document:
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        return await self.client.create(resource, typed)

    async def get(self, resource: Resource, name: str) -> Document:
        return await self.client.get(resource, name, "lab")

    async def until(
        self, resource: Resource, name: str, is_so: Callable[[Document], bool]
    ) -> Document:
        for _ in range(PATIENCE):
            document = await self.get(resource, name)
            if is_so(document):
                return document
            await asyncio.sleep(0.01)
        raise AssertionError(document)


async def with_parts(server: Server, story: Callable[[Cluster], Awaitable[None]]) -> None:
    picture = Picture()
    parts: list[Part] = [Admission(picture, Configuration()), Jobs(picture)]
    loop = Loop(server.client, picture, parts, clock=lambda: server.now)
    working = asyncio.create_task(loop.run())
    try:
        cluster = Cluster(server.client)
        for resource, document in lab_queue(cpu=4):
            await cluster.create(resource, document)
        await story(cluster)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def test_a_job_is_held_back_admitted_and_started(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(JOBS, pods_job("train", suspend=False))
        started = await cluster.until(
            JOBS, "train", lambda found: "pool" in found["spec"]["template"]["spec"]["nodeSelector"]
        )

        assert started["spec"]["suspend"] is False
        assert started["spec"]["template"]["spec"]["tolerations"][0]["key"] == "spot"

    play(tmp_path, lambda server: with_parts(server, story))


def test_a_deleted_job_gives_its_quota_to_the_next_when_its_pod_is_gone(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(JOBS, pods_job("train", parallelism=4))
        train = await cluster.until(JOBS, "train", lambda found: not found["spec"]["suspend"])
        running = pod("train-0", train["metadata"]["uid"])
        running["metadata"]["finalizers"] = ["example.com/slow"]
        running["spec"] = train["spec"]["template"]["spec"]
        await cluster.create(PODS, running)
        await cluster.create(JOBS, pods_job("next", parallelism=4))
        await cluster.client.delete(JOBS, "train", "lab", propagation="Background")
        await asyncio.sleep(0.2)
        assert (await cluster.get(JOBS, "next"))["spec"]["suspend"] is True

        await cluster.client.patch(PODS, "train-0", "lab", patch={"metadata": {"finalizers": None}})

        await cluster.until(JOBS, "next", lambda found: not found["spec"]["suspend"])

    play(tmp_path, lambda server: with_parts(server, story))

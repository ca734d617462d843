"""The same on a server: pods' way through a queue, with nobody but the parts to help them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from makeway.api.configuration import Configuration
from makeway.api.kinds import PODS, QUEUES, WORKLOAD_CLASSES, WORKLOADS
from makeway.api.labels import ADMISSION_GATE, MANAGED
from makeway.client.client import Document, NotFound
from makeway.controller.admission import Admission
from makeway.controller.pods import Pods
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from tests.controller.test_jobs_served import Cluster, lab_queue
from tests.harness.jobs import workload_class
from tests.harness.pods import member, pod
from tests.server.harness import MERGE, Server, play

URGENT = {"kueue.x-k8s.io/priority-class": "urgent"}
OF_LAB = "/api/v1/namespaces/lab/pods"


def written(document: Document) -> Document:
    """As its user writes it."""
    del document["metadata"]["finalizers"], document["spec"]["schedulingGates"]
    del document["metadata"]["labels"][MANAGED]
    return {"apiVersion": "v1", "kind": "Pod", **document}


async def with_parts(server: Server, story: Callable[[Cluster], Awaitable[None]]) -> None:
    picture = Picture()
    parts: list[Part] = [Admission(picture, Configuration()), Pods(picture)]
    loop = Loop(server.client, picture, parts, clock=lambda: server.now)
    working = asyncio.create_task(loop.run())
    try:
        cluster = Cluster(server.client)
        for resource, document in lab_queue(cpu=4):
            if resource == QUEUES:
                document["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
            await cluster.create(resource, document)
        await cluster.create(WORKLOAD_CLASSES, workload_class("urgent", 100))
        await story(cluster)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def is_released(document: Document) -> bool:
    return not document["spec"].get("schedulingGates")


def is_leaving(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


async def run_pod(cluster: Cluster, name: str, **status: Any) -> None:
    await cluster.until(PODS, name, is_released)
    await cluster.client.post(PODS, _key(name), "binding", _binding(name))
    await report(cluster, name, phase="Running", **status)


async def report(cluster: Cluster, name: str, **status: Any) -> None:
    patch = {"status": status}
    await cluster.client.patch(PODS, name, "lab", patch=patch, subresource="status")


def _key(name: str) -> Any:
    return ("lab", name)


def _binding(name: str) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": "box"}
    metadata = {"name": name, "namespace": "lab"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def gone(cluster: Cluster, name: str) -> None:
    for _ in range(200):
        try:
            await cluster.get(PODS, name)
        except NotFound:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{name} is still there")


def test_the_server_holds_a_queued_pod_back_and_nobody_else_may_release_it(
    tmp_path: Path,
) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
        held = await server.json("POST", OF_LAB, written(pod("solo")))
        assert held["metadata"]["labels"][MANAGED] == "true"
        assert held["metadata"]["finalizers"] == [MANAGED]
        assert held["spec"]["schedulingGates"] == [{"name": ADMISSION_GATE}]
        assert held["status"]["conditions"][0]["reason"] == "SchedulingGated"

        free = {"spec": {"schedulingGates": None}}
        await server.json("PATCH", f"{OF_LAB}/solo", free, MERGE, code=403)
        await server.json("POST", OF_LAB, written(pod("bound", nodeName="box")), code=422)

    play(tmp_path, story)


@pytest.mark.parametrize("finalizers", ["x", [{}], {"a": 1}])
def test_a_malformed_pod_that_names_a_queue_is_refused_with_a_word(
    tmp_path: Path, finalizers: object
) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", "/api/v1/namespaces", {"metadata": {"name": "lab"}})
        wrong = written(pod("solo"))
        wrong["metadata"]["finalizers"] = finalizers
        response = await server.send("POST", OF_LAB, wrong)
        assert 400 <= response.code < 500

    play(tmp_path, story)


def test_a_pod_is_released_and_gives_its_quota_to_the_next(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(PODS, written(pod("first", cpu="3")))
        await run_pod(cluster, "first")
        await cluster.create(PODS, written(pod("second", cpu="3")))
        await asyncio.sleep(0.1)
        assert not is_released(await cluster.get(PODS, "second"))

        await report(cluster, "first", phase="Succeeded")

        second = await cluster.until(PODS, "second", is_released)
        assert second["spec"]["nodeSelector"] == {"pool": "spot"}

    play(tmp_path, lambda server: with_parts(server, story))


def test_a_preempted_pod_goes_and_its_preemptor_starts_then(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create(PODS, written(pod("slow", cpu="3")))
        await run_pod(cluster, "slow")
        await cluster.create(PODS, written(pod("fast", cpu="3", labels=URGENT)))
        await cluster.until(PODS, "slow", is_leaving)
        assert not is_released(await cluster.get(PODS, "fast"))

        await report(cluster, "slow", phase="Failed")
        await cluster.client.delete(PODS, "slow", "lab", grace_s=0)

        await gone(cluster, "slow")
        await cluster.until(PODS, "fast", is_released)

    play(tmp_path, lambda server: with_parts(server, story))


def test_a_preempted_group_is_admitted_again_when_its_pods_are_back(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("one", "two"):
            await cluster.create(PODS, written(member(name, 2, cpu="2")))
        for name in ("one", "two"):
            await run_pod(cluster, name)
        await cluster.create(PODS, written(pod("fast", cpu="4", labels=URGENT)))
        for name in ("one", "two"):
            await cluster.until(PODS, name, is_leaving)
            await report(cluster, name, phase="Failed")
            await cluster.client.delete(PODS, name, "lab", grace_s=0)
            await gone(cluster, name)
        await run_pod(cluster, "fast")
        await report(cluster, "fast", phase="Succeeded")
        await asyncio.sleep(0.1)
        ring = await cluster.get(WORKLOADS, "ring")
        assert ring["status"].get("admission") is None  # nobody holds quota for pods that aren't

        for name in ("three", "four"):
            await cluster.create(PODS, written(member(name, 2, cpu="2")))
        await cluster.until(PODS, "three", is_released)
        await cluster.until(PODS, "four", is_released)

    play(tmp_path, lambda server: with_parts(server, story))

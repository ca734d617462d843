"""Placing on our own server, with everything in between: what it answers is what we expect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from makeway.api.kinds import (
    BUDGETS,
    GANG_WORKLOADS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
)
from makeway.controller.budgets import BudgetStatuses
from makeway.controller.gangs import GangStatuses
from makeway.controller.placing import Placing
from makeway.plane.loop import Loop
from makeway.plane.parts import Part
from makeway.plane.picture import Picture
from makeway.plane.writes import Key
from tests.server.harness import Server, play, settled

NAMESPACE = "default"


@contextlib.asynccontextmanager
async def placing(server: Server) -> AsyncIterator[Picture]:
    """The parts of placement at work; the Picture is theirs."""
    picture = Picture()
    parts: list[Part] = [
        Placing(picture),
        GangStatuses(picture, GANG_WORKLOADS),
        GangStatuses(picture, POD_GROUPS),
        BudgetStatuses(picture),
    ]
    task = asyncio.create_task(Loop(server.client, picture, parts, clock=lambda: server.now).run())
    try:
        yield picture
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def create(server: Server, name: str, priority: int, **spec: Any) -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "4"}}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name.partition("-")[0]}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    spec = {"containers": [container], "priorityClassName": f"of-{priority}", **spec}
    await server.client.create(PODS, {**pod, "spec": spec})


async def create_classes(server: Server, *values: int) -> None:
    for value in values:
        metadata = {"name": f"of-{value}"}
        priority = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": "PriorityClass"}
        await server.client.create(
            PRIORITY_CLASSES, {**priority, "metadata": metadata, "value": value}
        )


def shown(picture: Picture, name: str) -> dict[str, Any]:
    return picture.get(PODS, Key(NAMESPACE, name)) or {"metadata": {}, "spec": {}, "status": {}}


def test_a_gang_preempts_and_is_bound_on_a_real_server(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for name in ("n1", "n2"):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            amounts = {"cpu": "4", "pods": "110"}
            await server.client.create(NODES, {**node, "status": {"allocatable": amounts}})
        await create_classes(server, 10, 100)
        lows, highs = ("low-0", "low-1"), ("high-0", "high-1")
        async with placing(server) as picture:
            for name in lows:
                await create(server, name, 10)
            await settled(lambda: all(shown(picture, n)["spec"].get("nodeName") for n in lows))

            group = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 100}
            await server.client.create(
                POD_GROUPS,
                {
                    "apiVersion": POD_GROUPS.api_version,
                    "kind": "PodGroup",
                    "metadata": {"name": "high", "namespace": NAMESPACE},
                    "spec": group,
                },
            )
            for name in highs:
                await create(server, name, 100, schedulingGroup={"podGroupName": "high"})
            await settled(
                lambda: all("deletionTimestamp" in shown(picture, n)["metadata"] for n in lows)
            )
            conditions = shown(picture, "low-0")["status"]["conditions"]
            assert {c["type"] for c in conditions} == {"PodScheduled", "DisruptionTarget"}

            for name in lows:  # the processes have ended
                await server.client.delete(PODS, name, NAMESPACE, grace_s=0)
            await settled(lambda: all(shown(picture, n)["spec"].get("nodeName") for n in highs))
            key = Key(NAMESPACE, "high")
            await settled(lambda: bool((picture.get(POD_GROUPS, key) or {}).get("status")))

    play(tmp_path, story)


def numbers(picture: Picture, budget: Key) -> tuple[Any, Any]:
    """How many pods a budget expects, and how many may go."""
    status = (picture.get(BUDGETS, budget) or {}).get("status") or {}
    return status.get("expectedPods"), status.get("disruptionsAllowed")


def test_the_numbers_of_a_budget_are_written(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        budget = {
            "apiVersion": BUDGETS.api_version,
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": NAMESPACE},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await server.client.create(BUDGETS, budget)
        await create_classes(server, 0)
        await create(server, "web-0", 0)
        async with placing(server) as picture:
            key = Key(NAMESPACE, "b")
            await settled(lambda: numbers(picture, key) == (1, 0))

    play(tmp_path, story)

"""Jobs on the real server, with the real loop; the test plays whoever runs pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from makeway.plane.loop import Loop
from makeway.plane.picture import Picture
from makeway.runner.jobs import JobPods
from tests.server.harness import JOBS, MERGE, PODS, START, Server, job, play, settled

Story = Callable[[Server], Awaitable[None]]


def play_with_job_pods(folder: Path, story: Story) -> None:
    async def run(server: Server) -> None:
        picture = Picture()
        parts = [JobPods(picture, backoff_s=0.01)]
        loop = Loop(server.client, picture, parts, clock=lambda: server.now)
        running = asyncio.ensure_future(loop.run())
        try:
            await story(server)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    play(folder, run)


def documents(server: Server, kind: str) -> list[Any]:
    return [orjson.loads(record.body) for record in server.store.scan(kind)]


def conditions(server: Server) -> list[str]:
    (found,) = documents(server, "jobs.batch")
    return [condition["type"] for condition in found["status"].get("conditions", ())]


async def end_pod(server: Server, name: str, phase: str) -> None:
    status = {"status": {"phase": phase}}
    await server.json("PATCH", f"{PODS}/{name}/status", status, MERGE)


def test_a_job_gets_its_pod_and_completes(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job())
        await settled(lambda: len(documents(server, "pods")) == 1)
        (pod,) = documents(server, "pods")
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "train"
        await end_pod(server, pod["metadata"]["name"], "Succeeded")
        await settled(lambda: "finalizers" not in documents(server, "pods")[0]["metadata"])
        assert conditions(server) == ["SuccessCriteriaMet", "Complete"]

    play_with_job_pods(tmp_path, story)


def test_suspending_deletes_the_pods(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job(parallelism=3, completions=3, completionMode="Indexed"))
        await settled(lambda: len(documents(server, "pods")) == 3)
        await server.json("PATCH", f"{JOBS}/train", {"spec": {"suspend": True}}, MERGE)
        await settled(lambda: documents(server, "pods") == [])
        await settled(lambda: "active" not in documents(server, "jobs.batch")[0]["status"])
        assert conditions(server) == ["Suspended"]
        assert "startTime" not in documents(server, "jobs.batch")[0]["status"]

    play_with_job_pods(tmp_path, story)


def test_a_job_that_is_deleted_takes_its_pods_along(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job(parallelism=2))
        await settled(lambda: len(documents(server, "pods")) == 2)
        await server.json("DELETE", f"{JOBS}/train", {"propagationPolicy": "Background"})
        await settled(lambda: documents(server, "pods") == [])

    play_with_job_pods(tmp_path, story)


def test_a_finished_job_and_its_pod_go_in_time(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await server.json("POST", JOBS, job(ttlSecondsAfterFinished=0))
        await settled(lambda: len(documents(server, "pods")) == 1)
        assert server.now == START
        await end_pod(server, documents(server, "pods")[0]["metadata"]["name"], "Succeeded")
        await settled(lambda: documents(server, "pods") == documents(server, "jobs.batch") == [])

    play_with_job_pods(tmp_path, story)


def test_where_each_index_has_a_limit_the_job_has_none(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        indexed: dict[str, Any] = {"completionMode": "Indexed", "completions": 2, "suspend": True}
        await server.json("POST", JOBS, job(backoffLimitPerIndex=1, **indexed))
        (found,) = documents(server, "jobs.batch")
        assert found["spec"]["backoffLimit"] == 2_147_483_647

    play_with_job_pods(tmp_path, story)

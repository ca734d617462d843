"""Pods on the server run as processes here, and their status tells what a kubelet's would."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from makeway.api.kinds import EVENTS, NODES, PODS, Resource
from makeway.client import NotFound
from makeway.plane.loop import Loop
from makeway.plane.picture import Picture
from makeway.runner.host import PodState, RunOrder
from makeway.runner.local import LocalHost
from makeway.runner.machine import nodes_from
from makeway.runner.pods import PodRunner
from tests.runner.harness import PATIENCE_S, machine_in
from tests.server.harness import Document, Server
from tests.server.harness import play as play_on_server

NODE = {"metadata": {"name": "here"}, "status": {"capacity": {"cpu": 4, "nvidia.com/gpu": 2}}}


class Plane:
    """A server with a runner; the runner can be ended and started like Makeway."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder, self.client = server, folder, server.client
        self._running: asyncio.Task[None] | None = None
        self._host: LocalHost | None = None

    async def up(self) -> None:
        self._host = LocalHost(self.folder)
        picture = Picture()
        runner = PodRunner(picture, self._host, nodes_from([NODE], time.time()))
        loop = Loop(self.client, picture, [runner], clock=time.time)

        def noticed(uid: str) -> None:
            runner.noticed(uid)
            loop.wake()

        self._host.watch(noticed)
        self._running = asyncio.create_task(loop.run())

    async def down(self) -> None:
        """As far as processes notice, this is `kill -9`."""
        assert self._running is not None
        assert self._host is not None
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running
        self._host.close()

    async def create(self, name: str, script: str = "", **spec: Any) -> Document:
        container = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        more = spec.pop("container", {})
        return await self.client.create(
            PODS,
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "nodeName": "here",
                    "restartPolicy": "Never",
                    "containers": [container | more],
                    **spec,
                },
            },
        )

    async def get(self, name: str) -> Document:
        return await self.client.get(PODS, name, "default")

    async def until(self, name: str, holds: Callable[[Document], bool]) -> Document:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            pod = await self.get(name)
            if holds(pod):
                return pod
            await asyncio.sleep(0.01)
        raise AssertionError(pod["status"])

    async def phase(self, name: str, *phases: str) -> Document:
        return await self.until(name, lambda pod: pod["status"]["phase"] in phases)

    async def gone(self, name: str) -> None:
        until = time.monotonic() + PATIENCE_S
        with contextlib.suppress(NotFound):
            while time.monotonic() < until:
                await self.get(name)
                await asyncio.sleep(0.01)
            raise AssertionError(f"{name} is still there")

    def log(self, pod: Document) -> str:
        path = self.folder / "logs" / pod["metadata"]["uid"] / "main.log"
        return path.read_text() if path.exists() else ""

    async def printed(self, pod: Document, text: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while text not in self.log(pod):
            assert time.monotonic() < until, self.log(pod)
            await asyncio.sleep(0.01)


def play(folder: Path, story: Callable[[Plane], Awaitable[None]], is_up: bool = True) -> None:
    async def told(server: Server) -> None:
        plane = Plane(server, folder / "runner")
        if is_up:
            await plane.up()
        await story(plane)
        await plane.down()

    with machine_in(folder / "runner"):
        play_on_server(folder, told)


def main_of(pod: Document) -> Document:
    found: Document = pod["status"]["containerStatuses"][0]
    return found


def conditions(pod: Document) -> dict[str, str]:
    return {one["type"]: one["status"] for one in pod["status"]["conditions"]}


def test_a_pod_runs_and_succeeds(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("good", "echo hello")
        pod = await plane.phase("good", "Succeeded", "Failed")
        status = pod["status"]
        assert status["phase"] == "Succeeded"
        assert main_of(pod)["state"]["terminated"]["reason"] == "Completed"
        assert conditions(pod)["Initialized"] == "True"
        assert conditions(pod)["Ready"] == "False"
        assert status["startTime"]
        assert status["podIP"] == "127.0.0.1"
        assert plane.log(pod) == "hello\n"

    play(tmp_path, story)


def test_a_running_pod_is_ready_and_a_failed_one_shows_its_exit_code(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("bad", "until [ -e go ]; do sleep 0.02; done; exit 3")
        pod = await plane.phase("bad", "Running")
        assert "startedAt" in main_of(pod)["state"]["running"]
        assert conditions(pod)["Ready"] == conditions(pod)["ContainersReady"] == "True"

        (plane.folder / "pods" / pod["metadata"]["uid"] / "scratch" / "go").touch()
        pod = await plane.phase("bad", "Failed")
        assert main_of(pod)["state"]["terminated"]["exitCode"] == 3

    play(tmp_path, story)


def test_the_status_is_written_once_for_each_change(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("still", "sleep 60")
        before = await plane.phase("still", "Running")
        await asyncio.sleep(0.3)
        after = await plane.get("still")
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    play(tmp_path, story)


def test_conditions_of_others_are_kept(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("marked", "sleep 0.3")
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        await plane.client.patch(
            PODS,
            "marked",
            "default",
            patch={"status": {"conditions": [mark]}},
            subresource="status",
        )
        pod = await plane.phase("marked", "Succeeded")
        assert mark in pod["status"]["conditions"]

    play(tmp_path, story)


def test_pods_of_other_nodes_are_left_alone(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("elsewhere", "true", nodeName="there")
        await plane.create("mine", "true")
        await plane.phase("mine", "Succeeded")
        assert (await plane.get("elsewhere"))["status"]["phase"] == "Pending"

    play(tmp_path, story)


# Deleting


def test_a_deleted_pod_gets_its_grace_and_then_goes(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"
        pod = await plane.create("leaves", script, terminationGracePeriodSeconds=20)
        await plane.printed(pod, "up")
        await plane.client.delete(PODS, "leaves", "default")
        assert (await plane.get("leaves"))["metadata"]["deletionTimestamp"]
        await plane.gone("leaves")

    play(tmp_path, story)


def test_a_pod_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        script = "trap '' TERM; echo up; while :; do sleep 0.02; done"
        pod = await plane.create("stays", script)
        await plane.printed(pod, "up")
        await plane.client.delete(PODS, "stays", "default", grace_s=1)
        await plane.gone("stays")

    play(tmp_path, story)


def test_the_final_status_is_written_before_a_held_pod_goes(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("held", "echo up; sleep 60")
        patch: Document = {"metadata": {"finalizers": ["example.com/counted"]}}
        await plane.client.patch(PODS, "held", "default", patch=patch)
        await plane.printed(pod, "up")
        await plane.client.delete(PODS, "held", "default", grace_s=5)
        pod = await plane.phase("held", "Failed")
        assert main_of(pod)["state"]["terminated"]["signal"] == 15
        patch = {"metadata": {"finalizers": None}}
        await plane.client.patch(PODS, "held", "default", patch=patch)
        await plane.gone("held")

    play(tmp_path, story)


def test_the_processes_of_a_pod_deleted_by_force_are_ended(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("forced", "echo up; sleep 60")
        await plane.printed(pod, "up")
        await plane.client.delete(PODS, "forced", "default", grace_s=0)
        await plane.gone("forced")
        folder = plane.folder / "pods" / pod["metadata"]["uid"]
        until = time.monotonic() + PATIENCE_S
        while folder.exists() and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert not folder.exists()

    play(tmp_path, story)


def test_the_processes_of_a_pod_that_others_called_failed_are_ended(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create(
            "evicted", "trap 'echo bye; exit 0' TERM; echo up; sleep 60 & wait"
        )
        await plane.printed(pod, "up")
        status = {"phase": "Failed", "reason": "Evicted"}
        patch = {"status": status}
        await plane.client.patch(PODS, "evicted", "default", patch=patch, subresource="status")
        await plane.printed(pod, "bye")
        assert (await plane.get("evicted"))["status"]["reason"] == "Evicted"

    play(tmp_path, story)


# Restarts


def test_a_pod_survives_our_restart(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("long", "echo up; until [ -e go ]; do sleep 0.02; done; exit 4")
        await plane.printed(pod, "up")
        await plane.down()
        (plane.folder / "pods" / pod["metadata"]["uid"] / "scratch" / "go").touch()
        await plane.up()
        pod = await plane.phase("long", "Failed")
        assert main_of(pod)["state"]["terminated"]["exitCode"] == 4
        assert plane.log(pod) == "up\n"

    play(tmp_path, story)


def test_a_pod_deleted_while_we_were_away_is_ended_afterwards(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("forgotten", "echo up; sleep 60")
        await plane.printed(pod, "up")
        await plane.down()
        await plane.client.delete(PODS, "forgotten", "default", grace_s=0)
        await plane.up()
        folder = plane.folder / "pods" / pod["metadata"]["uid"]
        until = time.monotonic() + PATIENCE_S
        while folder.exists() and time.monotonic() < until:
            await asyncio.sleep(0.01)
        assert not folder.exists()

    play(tmp_path, story)


def test_a_pod_without_a_trace_has_failed_and_is_not_started_again(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("lost", "echo again")
        status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        patch = {"status": status}
        await plane.client.patch(PODS, "lost", "default", patch=patch, subresource="status")
        await plane.up()
        pod = await plane.phase("lost", "Failed")
        assert pod["status"]["reason"] == "ContainerStatusUnknown"
        assert main_of(pod)["state"]["terminated"]["exitCode"] == 137
        assert plane.log(pod) == ""

    play(tmp_path, story, is_up=False)


def test_a_pod_that_was_bound_while_we_were_away_is_started(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("early", "echo once")
        await plane.up()
        assert plane.log(await plane.phase("early", "Succeeded")) == "once\n"

    play(tmp_path, story, is_up=False)


# What can't run, and what runs otherwise


def test_a_container_without_a_command_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("image", container={"command": None})
        pod = await plane.phase("image", "Failed")
        assert "has no command: there is no image to run" in pod["status"]["message"]
        ended = main_of(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (128, "ContainerCannotRun")
        assert "has no command" in ended["message"]
        assert "startTime" not in pod["status"]
        await asyncio.sleep(0.1)
        events = await plane.client.list(EVENTS, "default")
        assert any("has no command" in event["message"] for event in events.items)

    play(tmp_path, story)


def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        init = {"name": "first", "image": "none", "command": ["sh", "-c", "exit 2"]}
        await plane.create("init", "echo never", initContainers=[init])
        pod = await plane.phase("init", "Failed")
        assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 2
        assert "waiting" in main_of(pod)["state"]
        assert conditions(pod)["Initialized"] == "False"

    play(tmp_path, story)


def test_a_pod_past_its_deadline_has_failed(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        await plane.create("slow", "sleep 60", activeDeadlineSeconds=1)
        assert (await plane.phase("slow", "Failed"))["status"]["reason"] == "DeadlineExceeded"

    play(tmp_path, story)


def test_a_pod_is_ready_when_its_probe_says_so(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        probe = {"exec": {"command": ["test", "-e", "warm"]}, "periodSeconds": 1}
        container = {"readinessProbe": probe}
        pod = await plane.create("warms", "echo up; sleep 60", container=container)
        await plane.printed(pod, "up")
        pod = await plane.phase("warms", "Running")
        assert conditions(pod)["Ready"] == "False"
        (plane.folder / "pods" / pod["metadata"]["uid"] / "scratch" / "warm").touch()
        await plane.until("warms", lambda pod: conditions(pod)["Ready"] == "True")

    play(tmp_path, story)


def test_a_gpu_is_never_given_to_two_at_once(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        def asks(count: int) -> Document:
            return {"resources": {"limits": {"nvidia.com/gpu": count}}}

        script = "echo gpus=$CUDA_VISIBLE_DEVICES; until [ -e go ]; do sleep 0.02; done"
        one = await plane.create("one", script, container=asks(1))
        await plane.printed(one, "gpus=0\n")
        await plane.down()
        await plane.up()
        two = await plane.create("two", script, container=asks(1))
        await plane.printed(two, "gpus=1\n")
        three = await plane.create("three", script, container=asks(1))
        none = await plane.create("none", "echo gpus=$CUDA_VISIBLE_DEVICES.")
        await plane.printed(none, "gpus=.\n")
        assert plane.log(three) == ""

        (plane.folder / "pods" / two["metadata"]["uid"] / "scratch" / "go").touch()
        await plane.printed(three, "gpus=1\n")

    play(tmp_path, story)


class Counting:
    """A host that only notes what it is told to start."""

    def __init__(self) -> None:
        self.started: dict[str, PodState] = {}

    def states(self) -> Mapping[str, PodState]:
        return self.started

    def start(self, order: RunOrder) -> None:
        self.started[order.uid] = PodState(uid=order.uid, node=order.node)

    def stop(self, uid: str, grace_s: float) -> None:
        raise AssertionError(uid)

    def remove(self, uid: str) -> None:
        raise AssertionError(uid)


def tell(runner: PodRunner, picture: Picture, resource: Resource, document: Document) -> None:
    change = picture.take(resource, document)
    assert change is not None
    runner.changed(change)


def test_many_pods_at_once_are_started_a_few_at_a_time() -> None:
    picture, host = Picture(), Counting()
    runner = PodRunner(picture, host, nodes_from([NODE], 0.0))
    for number in range(12):
        name = f"p{number}"
        metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(number + 1)}
        containers = [{"name": "main", "command": ["true"]}]
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"nodeName": "here", "containers": containers},
        }
        tell(runner, picture, PODS, document)

    counts = []
    while runner.act(now=0.0).next_at is not None:
        counts.append(len(host.started))

    assert (counts, len(host.started)) == ([5, 10], 12)


def test_a_node_that_can_not_be_read_counts_as_it_was() -> None:
    picture, host = Picture(), Counting()
    runner = PodRunner(picture, host, nodes_from([NODE], 0.0))
    odd = {"metadata": {"name": "here"}, "status": {"allocatable": {"cpu": "lots"}}}
    tell(runner, picture, NODES, {"apiVersion": "v1", "kind": "Node", **odd})
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "p", "resourceVersion": "1"},
        "spec": {"nodeName": "here", "containers": [{"name": "main", "command": ["true"]}]},
    }
    tell(runner, picture, PODS, document)

    runner.act(now=0.0)

    assert list(host.started) == ["p"]


def test_a_condition_without_a_type_is_left_where_it_stands(tmp_path: Path) -> None:
    async def story(plane: Plane) -> None:
        pod = await plane.create("odd", "echo here; sleep 1")
        await plane.printed(pod, "here")
        status = {"status": {"conditions": [{"status": "True"}]}}
        await plane.client.patch(PODS, "odd", "default", patch=status, subresource="status")

        ended = await plane.phase("odd", "Succeeded")

        assert {"status": "True"} in ended["status"]["conditions"]

    play(tmp_path, story)

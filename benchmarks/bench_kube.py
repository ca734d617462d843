"""Small workloads on a real API server: what the controller costs beside what it keeps busy.

A control plane on loopback (etcd, kube-apiserver) and `makeway controller` as a user would run it.
This process creates Workloads in many queues over its own connections and marks each finished a
moment after it was admitted. Requests are those that the API server has counted itself: creates and
replacements of Workloads are ours, patches are the controller's. `--quick` plays a tenth.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.kube.plane import BOOKKEEPING, Plane

from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.client import Client, Conflict
from makeway.client.reflector import Changed, Reflector

WORKLOADS_COUNT, QUEUES_COUNT, QUOTA = 3_000, 30, 20
RUN_S = 0.2
IN_FLIGHT_MAX = 32
PROGRAMS = ("kube-apiserver", "etcd")
REQUESTS = re.compile(
    r'^apiserver_request_total\{code="(\d+)",.*resource="(\w+)",.*subresource="(\w*)",'
    r'verb="(\w+)".*\} (\S+)$',
    re.MULTILINE,
)
Document = dict[str, Any]


class MeasuredPlane(Plane):
    def pid(self, name: str) -> int:
        return next(program.pid for program in self._programs if program.name == name)

    def requests(self) -> Counter[str]:
        """Writes since the start, by verb, resource and, where they were refused, status."""
        counted: Counter[str] = Counter()
        text = self.fetch("/metrics").decode()
        for code, resource, subresource, verb, count in REQUESTS.findall(text):
            if verb not in ("GET", "LIST", "WATCH"):
                what = f"{verb} {resource}{'/' * bool(subresource)}{subresource}"
                counted[what if code < "400" else f"{what} {code}"] += int(count)
        return counted


def objects() -> Iterator[tuple[Any, Document]]:
    yield FLAVORS, {"metadata": {"name": "all"}}
    for number in range(QUEUES_COUNT):
        name = f"queue-{number}"
        resources = [{"name": "cpu", "nominalQuota": str(QUOTA)}]
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "all", "resources": resources}],
        }
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        yield QUEUES, {"metadata": {"name": name}, "spec": spec}
        metadata = {"name": name, "namespace": "default"}
        yield LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": name}}


def workload(number: int) -> Document:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": f"load-{number}", "namespace": "default"},
        "spec": {
            "queueName": f"queue-{number % QUEUES_COUNT}",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


@dataclass
class Load:
    """Creates, finishes, and notes how long admission took."""

    client: Client
    count: int
    created_at: dict[str, float] = field(default_factory=dict)
    waits_s: dict[str, float] = field(default_factory=dict)  # of those that were admitted
    # Apart from each other: nobody's end has to wait until all have begun.
    _creates: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT_MAX))
    _finishes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT_MAX))
    _left: int = 0
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> float:
        """Until everything is finished; how long that took."""
        self._left = self.count
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch(tasks))
            for number in range(self.count):
                tasks.create_task(self._create(workload(number)))
            await self._done.wait()
            watching.cancel()
        return time.monotonic() - began

    async def _create(self, document: Document) -> None:
        async with self._creates:
            self.created_at[document["metadata"]["name"]] = time.monotonic()
            await self.client.create(WORKLOADS, document)

    async def _watch(self, tasks: asyncio.TaskGroup) -> None:
        async for change in Reflector(self.client, WORKLOADS).changes():
            if not isinstance(change, Changed):
                continue
            name = change.object["metadata"]["name"]
            if name not in self.waits_s and is_admitted(change.object):
                self.waits_s[name] = time.monotonic() - self.created_at[name]
                tasks.create_task(self._finish(change.object))

    async def _finish(self, document: Document) -> None:
        await asyncio.sleep(RUN_S)
        async with self._finishes:
            while True:
                with contextlib.suppress(Conflict):
                    await self.client.replace(WORKLOADS, finished(document), subresource="status")
                    break
                name = document["metadata"]["name"]
                document = await self.client.get(WORKLOADS, name, "default")
        self._left -= 1
        if not self._left:
            self._done.set()


def is_admitted(document: Document) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Admitted" and c["status"] == "True" for c in conditions)


def finished(document: Document) -> Document:
    condition = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "By the load generator",
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    status = document["status"]
    return {**document, "status": {**status, "conditions": [*status["conditions"], condition]}}


class Usage(NamedTuple):
    cpu_s: float
    memory_mb: float


def usage_of(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return Usage(cpu_s, int(line.split()[1]) / 1024)
    raise AssertionError(pid)


@contextlib.contextmanager
def controller(plane: Plane, folder: Path, profile: str) -> Iterator[int]:
    options = ["-m", "cProfile", "-o", profile] if profile else []
    command = [sys.executable, *options, "-m", "makeway.cli.main", "controller"]
    command += ["--kubeconfig", str(plane.kubeconfig), "--metrics-address", "127.0.0.1:0"]
    with (folder / "controller.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        while "term=begins" not in (folder / "controller.log").read_text():
            assert process.poll() is None, (folder / "controller.log").read_text()
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


async def play(plane: MeasuredPlane, count: int) -> tuple[Load, float]:
    client = Client(plane.access.transport())
    try:
        for resource, document in objects():
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            await client.create(resource, head | document)
        await asyncio.sleep(2.0)
        load = Load(client, count)
        return load, await load.run()
    finally:
        await client.close()


def main(arguments: Sequence[str]) -> None:
    count = WORKLOADS_COUNT // 10 if "--quick" in arguments else WORKLOADS_COUNT
    profile = next((a.removeprefix("--profile=") for a in arguments if "--profile=" in a), "")
    with tempfile.TemporaryDirectory(prefix="makeway-kube-") as name:
        plane = MeasuredPlane(Path(name) / "plane", BOOKKEEPING)
        try:
            with controller(plane, Path(name), profile) as pid:
                measure(plane, pid, count)
        finally:
            plane.stop()


def measure(plane: MeasuredPlane, controller_pid: int, count: int) -> None:
    pids = {"controller": controller_pid} | {name: plane.pid(name) for name in PROGRAMS}
    before = {name: usage_of(pid) for name, pid in pids.items()}
    requests, own_s = plane.requests(), time.process_time()
    load, took_s = asyncio.run(play(plane, count))
    own_s = time.process_time() - own_s
    after = {name: usage_of(pid) for name, pid in pids.items()}
    report(load, took_s)
    cpu_s = {name: after[name].cpu_s - before[name].cpu_s for name in pids}
    print(f"  {'program':16} {'CPU s':>7} {'ms each':>8} {'MB at most':>11}")
    for name, used_s in cpu_s.items():
        print(
            f"  {name:16} {used_s:7.1f} {used_s / count * 1e3:8.2f} {after[name].memory_mb:11.0f}"
        )
    print(f"  {'load generator':16} {own_s:7.1f} {own_s / count * 1e3:8.2f}")
    print(f"controller / kube-apiserver: {cpu_s['controller'] / cpu_s['kube-apiserver']:.2f}")
    print("writes per workload, as the API server counted them:")
    for what, times in (plane.requests() - requests).most_common():
        if times >= count / 100 or what[-3:].isdecimal():
            print(f"  {what:32} {times / count:6.2f}")


def report(load: Load, took_s: float) -> None:
    waits = sorted(load.waits_s.values())
    print(f"{load.count} workloads in {QUEUES_COUNT} queues on a real API server: {took_s:.1f} s,")
    print(f"{load.count / took_s:.0f} admissions per second; created until admitted:", end=" ")
    print(f"median {median(waits):.2f} s, 99 of 100 within {waits[len(waits) * 99 // 100]:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])

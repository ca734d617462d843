"""Kueue's own baseline load, in real time: through the HTTP API, from a second process.

Five cohorts of six queues with nominal 20, borrowing limit 100, reclaim Any, within the queue
LowerPriority. Per queue 350 small, 100 medium and 50 large workloads arrive on a schedule. This
process creates them and marks each finished when its run time is over; what is preempted begins
again when it is admitted again. `makeway up` runs beside it, as a user would run it.

The bound is what the same engine does with the same load on virtual time without any delay. The
work alone fills 66 s. `--quick` plays one cohort, `--no-journal` writes nothing down: what the
journal costs is the difference.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from makeway.api.kinds import FLAVORS, LOCAL_QUEUES, QUEUES, WORKLOADS
from makeway.client import Client, Conflict
from makeway.client.folder import kubeconfig_in
from makeway.client.kubeconfig import read_kubeconfig
from makeway.client.reflector import Reflector, Synced
from makeway.journal.file import NAME, Journal
from makeway.journal.records import Heard
from makeway.sim.generator import read_generator
from makeway.sim.simulate import simulate

COHORTS, QUEUES_EACH = 5, 6
KUEUE_PUBLISHED_S, KUEUE_HERE_S = 351, 401
IN_FLIGHT_MAX = 100
CONFLICT_DELAY_S = 0.01


class Class(NamedTuple):
    name: str
    size: int
    every_s: float
    run_s: float
    units: int
    priority: int


CLASSES = (
    Class("small", 350, 0.1, 0.2, 1, 50),
    Class("medium", 100, 0.5, 0.5, 5, 100),
    Class("large", 50, 1.2, 1.0, 20, 200),
)
Document = dict[str, Any]


class Arrival(NamedTuple):
    at: float
    queue: str
    kind: Class
    name: str


def arrivals(cohorts: int) -> list[Arrival]:
    """Every queue gets all classes on the same schedule; the first of each after one interval."""
    found = [
        Arrival(kind.every_s * (number + 1), queue, kind, f"{queue}-{kind.name}-{number}")
        for queue in queue_names(cohorts)
        for kind in CLASSES
        for number in range(kind.size)
    ]
    return sorted(found)


def queue_names(cohorts: int) -> Iterator[str]:
    for cohort in range(cohorts):
        for queue in range(QUEUES_EACH):
            yield f"cohort-{cohort}-queue-{queue}"


def objects(cohorts: int) -> Iterator[tuple[Any, Document]]:
    api = "kueue.x-k8s.io/v1beta2"
    yield FLAVORS, {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "all"}}
    for name in queue_names(cohorts):
        quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "all", "resources": [quota]}],
        }
        yield (
            QUEUES,
            {
                "apiVersion": api,
                "kind": "ClusterQueue",
                "metadata": {"name": name},
                "spec": {
                    "cohortName": name.rpartition("-queue-")[0],
                    "namespaceSelector": {},
                    "preemption": {
                        "reclaimWithinCohort": "Any",
                        "withinClusterQueue": "LowerPriority",
                    },
                    "resourceGroups": [group],
                },
            },
        )
        yield (
            LOCAL_QUEUES,
            {
                "apiVersion": api,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"clusterQueue": name},
            },
        )


def workload(arrival: Arrival) -> Document:
    requests = {"cpu": str(arrival.kind.units)}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": arrival.name, "namespace": "default"},
        "spec": {
            "queueName": arrival.queue,
            "priority": arrival.kind.priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


@dataclass
class Life:
    kind: Class
    created_at: float
    admitted_at: float | None = None  # the last time; None while it holds no quota
    first_admitted_at: float | None = None
    attempt: int = 0
    shown: Document = field(default_factory=dict)  # what the watch told last
    finished_at: float | None = None


@dataclass
class Load:
    """Plays the load and notes what becomes of it."""

    client: Client
    plan: Sequence[Arrival]
    lives: dict[str, Life] = field(default_factory=dict)
    used_unit_s: float = 0.0
    evictions: int = 0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT_MAX))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _left: int = 0
    _done: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def run(self) -> float:
        """Until everything is finished; how long that took."""
        self._left = len(self.plan)
        self._start(self._watch())
        start = time.monotonic()
        for arrival in self.plan:
            delay_s = start + arrival.at - time.monotonic()
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            self._start(self._create(arrival))
        await self._done
        makespan_s = time.monotonic() - start
        for task in self._tasks:
            task.cancel()
        return makespan_s

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not self._done.done():
            self._done.set_exception(error)

    async def _create(self, arrival: Arrival) -> None:
        self.lives[arrival.name] = Life(arrival.kind, time.monotonic())
        async with self._slots:
            await self.client.create(WORKLOADS, workload(arrival))

    async def _watch(self) -> None:
        async for change in Reflector(self.client, WORKLOADS).changes():
            # A watcher that lags too far behind is cut off, and shown everything anew.
            documents = change.items if isinstance(change, Synced) else [change.object]
            for document in documents:
                self._see(document)

    def _see(self, document: Document) -> None:
        life = self.lives.get(document["metadata"]["name"])
        if life is None or life.finished_at is not None:
            return  # of somebody else, or over
        life.shown = document
        is_admitted = _is_admitted(document)
        now = time.monotonic()
        if is_admitted and life.admitted_at is None:
            life.admitted_at = now
            life.first_admitted_at = life.first_admitted_at or now
            life.attempt += 1
            attempt = life.attempt
            asyncio.get_running_loop().call_later(
                life.kind.run_s, lambda: self._start(self._finish(life, attempt))
            )
        elif not is_admitted and life.admitted_at is not None:
            self.used_unit_s += (now - life.admitted_at) * life.kind.units
            life.admitted_at = None
            self.evictions += 1

    async def _finish(self, life: Life, attempt: int) -> None:
        """One write, from what the watch has shown; nothing if it was preempted meanwhile."""
        while life.attempt == attempt and life.admitted_at is not None:
            began_at, shown = life.admitted_at, life.shown
            try:
                async with self._slots:
                    await self._write_finished(shown)
            except Conflict:
                await asyncio.sleep(CONFLICT_DELAY_S)  # until the watch shows who was quicker
                continue
            life.finished_at = time.monotonic()
            self.used_unit_s += (life.finished_at - began_at) * life.kind.units
            self._left -= 1
            if not self._left:
                self._done.set_result(None)
            return

    async def _write_finished(self, shown: Document) -> None:
        metadata, conditions = shown["metadata"], shown["status"]["conditions"]
        patch = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {"conditions": [*conditions, _finished()]},
        }
        await self.client.patch(
            WORKLOADS, metadata["name"], "default", patch=patch, subresource="status"
        )


def _is_admitted(document: Document) -> bool:
    conditions = document.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Admitted" and c["status"] == "True" for c in conditions)


def _finished() -> Document:
    return {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "By simulation",
        "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def simulated_makespan_s(cohorts: int) -> float:
    classes = "\n".join(
        f"    - {{count: {c.size}, creationIntervalMs: {c.every_s * 1000:.0f}, workloads: "
        f"[{{className: {c.name}, runtimeMs: {c.run_s * 1000:.0f}, priority: {c.priority}, "
        f"request: {c.units}}}]}}"
        for c in CLASSES
    )
    text = (
        f"cohorts:\n- className: cohort\n  count: {cohorts}\n  queuesSets:\n  - className: cq\n"
        f"    count: {QUEUES_EACH}\n    nominalQuota: 20\n    borrowingLimit: 100\n"
        "    reclaimWithinCohort: Any\n    withinClusterQueue: LowerPriority\n"
        f"    workloadsSets:\n{classes}\n"
    )
    return simulate((), read_generator(text, "load.yaml")).makespan.seconds


async def play(folder: Path, plan: Sequence[Arrival], cohorts: int) -> tuple[Load, float]:
    access = read_kubeconfig(kubeconfig_in(folder))
    client = Client(access.transport())
    try:
        for kind, document in objects(cohorts):
            await client.create(kind, document)
        await asyncio.sleep(1.0)
        load = Load(client, plan)
        return load, await load.run()
    finally:
        await client.close()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(pid)


def main(arguments: Sequence[str]) -> None:
    cohorts = 1 if "--quick" in arguments else COHORTS
    plan = arrivals(cohorts)
    print(f"Kueue's baseline load: {cohorts} cohorts, {len(plan)} workloads, in real time")
    bound_s = simulated_makespan_s(cohorts)
    with tempfile.TemporaryDirectory(prefix="makeway-load-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "makeway.cli.main", "up", "--port", "0"]
        options = [option for option in arguments if option == "--no-journal"]
        server = subprocess.Popen([*command, "--data-dir", name, *options], stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            server.stdout.readline()
            before_s, own_s = cpu_s(server.pid), time.process_time()
            load, makespan_s = asyncio.run(play(folder, plan, cohorts))
            report(load, makespan_s, bound_s, cohorts)
            print(f"CPU: makeway up {cpu_s(server.pid) - before_s:.1f} s,", end=" ")
            print(f"load generator {time.process_time() - own_s:.1f} s")
            print(f"memory of makeway up at most {memory_mb(server.pid):.0f} MB", end=", ")
            own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"of the load generator {own_mb:.0f} MB")
            if not options:
                report_journal(folder, len(plan))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)


def report(load: Load, makespan_s: float, bound_s: float, cohorts: int) -> None:
    print(f"makespan {makespan_s:.1f} s; on virtual time without delays {bound_s:.1f} s", end="")
    print(f" (ratio {makespan_s / bound_s:.2f}); the work alone 66.0 s", end="")
    print(f"; Kueue publishes {KUEUE_PUBLISHED_S} s, {KUEUE_HERE_S} s on two cores")
    for kind in CLASSES:
        waits = [
            life.first_admitted_at - life.created_at
            for life in load.lives.values()
            if life.kind is kind and life.first_admitted_at is not None
        ]
        print(f"  {kind.name:7} mean time to admission {mean(waits):6.2f} s, max {max(waits):.2f}")
    capacity = makespan_s * cohorts * QUEUES_EACH * 20
    print(f"quota in use {load.used_unit_s / capacity:.0%}, {load.evictions} evictions")


def report_journal(folder: Path, workloads: int) -> None:
    journal = Journal(folder / NAME)
    segments = journal.segments()
    size = sum(segment.size for segment in segments)
    records = [record for segment in segments for record in journal.records(segment)]
    events = sum(isinstance(record, Heard) for record in records)
    print(
        f"journal: {size / 1e6:.1f} MB, {events} events, {len(records) - events} cycles", end="; "
    )
    print(f"{size / workloads:.0f} bytes per workload, {size / events:.0f} per event")
    journal.close()


if __name__ == "__main__":
    main(sys.argv[1:])

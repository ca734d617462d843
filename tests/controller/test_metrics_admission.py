"""Admission is looked upon and logs: what its observer counts, and what stands in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from makeway.api.configuration import Configuration
from makeway.client.client import Document, Resource
from makeway.client.resources import (
    FLAVORS,
    GANG_WORKLOADS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    QUEUES,
    WORKLOADS,
)
from makeway.controller.admission import Admission
from makeway.controller.conditions import with_condition
from makeway.controller.metrics import Metrics
from makeway.engine.engine import Engine
from makeway.plane.loop import Loop
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, ObjectWrite, Patch, Say
from tests.controller.desk import Desk
from tests.controller.metrics_lab import Scrape
from tests.server.harness import Server, play

LOGGER = "makeway.admission"


def objects(cpu: int) -> list[tuple[Resource, Document]]:
    quota = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    preemption = {"withinClusterQueue": "LowerPriority"}
    spec = {"resourceGroups": groups, "namespaceSelector": {}, "preemption": preemption}
    local = {"name": "main", "namespace": "lab"}
    return [
        (NAMESPACES, {"metadata": {"name": "lab"}}),
        (FLAVORS, {"metadata": {"name": "spot"}, "spec": {}}),
        (QUEUES, {"metadata": {"name": "big"}, "spec": spec}),
        (LOCAL_QUEUES, {"metadata": local, "spec": {"clusterQueue": "big"}}),
    ]


def workload(name: str, cpu: int, priority: int = 0) -> Document:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {
            "queueName": "main",
            "active": True,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


class Hall(Desk):
    """A desk with a queue, whose Admission is looked upon."""

    def __init__(self, cpu: int) -> None:
        picture = Picture()
        self.admission = Admission(picture, Configuration())
        super().__init__(picture, self.admission)
        self.metrics = Metrics(self.admission.engine, picture, lambda: self.now)
        self.admission.observer = self.metrics
        for resource, document in objects(cpu):
            self.put(resource, document)

    def submit(self, name: str, cpu: int, priority: int = 0) -> None:
        self.put(WORKLOADS, workload(name, cpu, priority))
        self.settle()

    def finish(self, name: str) -> None:
        key = Key("lab", name)
        old = self.get(WORKLOADS, key)["status"]["conditions"]
        new = with_condition(old, "Finished", "True", "Succeeded", "", self.now)
        self.edit(WORKLOADS, key, {"status": {"conditions": new}}, "status")
        self.settle()

    def scrape(self) -> Scrape:
        return Scrape(self.metrics.text())


def test_the_observer_counts_what_documents_and_cycles_tell() -> None:
    hall = Hall(cpu=4)
    hall.submit("train", cpu=3)
    hall.now += 60
    hall.finish("train")

    scrape = hall.scrape()
    assert scrape.get("kueue_admitted_workloads_total", cluster_queue="big") == 1
    assert scrape.get("kueue_finished_workloads_total", cluster_queue="big") == 1
    assert scrape.get("kueue_execution_time_seconds_sum") == 60
    assert scrape.get("kueue_cluster_queue_nominal_quota", resource="cpu") == 4


def test_a_victim_that_nobody_runs_lets_go_at_once() -> None:
    hall = Hall(cpu=4)
    hall.submit("small", cpu=3)
    hall.submit("urgent", cpu=4, priority=10)

    scrape = hall.scrape()
    assert scrape.get("kueue_preempted_workloads_total", reason="InClusterQueue") == 1
    assert scrape.get("kueue_workload_eviction_latency_seconds_count") == 1
    assert scrape.get("kueue_admitted_active_workloads") == 1


def test_a_decision_is_one_line_of_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    hall = Hall(cpu=4)
    hall.submit("small", cpu=3)
    caplog.clear()
    hall.now += 41
    hall.submit("urgent", cpu=4, priority=10)

    decisions = [line for line in caplog.messages if line.startswith("workload=")]
    preempt = "workload=lab/urgent decision=preempt queue=big victims=1 names=lab/small waited_s=0"
    assert decisions[0] == preempt
    assert decisions[1].startswith("workload=lab/urgent decision=admit queue=big flavors=spot ")
    cycles = [line for line in caplog.messages if line.startswith("cycle=")]
    assert cycles[0].endswith(" heads=1 admitted=0 preempting=1 evicted=0")
    assert len(decisions) == len(cycles) == 2


def test_who_waits_is_told_at_debug_level_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    Hall(cpu=4).submit("huge", cpu=5)
    assert caplog.messages == []

    caplog.set_level(logging.DEBUG, LOGGER)
    Hall(cpu=4).submit("huge", cpu=5)
    waits = "workload=lab/huge decision=wait queue=big reason=ExceedsMaxQuota waited_s=0"
    assert caplog.messages == [waits]


class Careless:
    """A part that writes, once, to what is not there."""

    resources: tuple[Resource, ...] = (WORKLOADS, GANG_WORKLOADS, PODS)

    def __init__(self) -> None:
        self.has_written = False

    def changed(self, change: Change) -> None:
        """It does not care."""

    def act(self, now: float) -> Plan:
        if self.has_written:
            return Plan()
        self.has_written = True
        status: Document = {"status": {"conditions": []}}
        key = Key("lab", "nobody")
        return Plan([Patch(resource=WORKLOADS, key=key, patch=status, subresource="status")])

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        return ()


def test_a_loop_shows_when_it_listed_and_which_writes_failed(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        picture = Picture()
        metrics = Metrics(Engine(), picture, lambda: server.now)
        loop = Loop(server.client, picture, [Careless()], clock=lambda: server.now)
        metrics.loops["controller"] = loop
        assert Scrape(metrics.text()).get("makeway_loop_synced", loop="controller") == 0

        working = asyncio.create_task(loop.run())
        while not loop.failures:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

        scrape = Scrape(metrics.text())
        assert scrape.get("makeway_loop_synced") == 1
        for resource in ("workloads.kueue.x-k8s.io", "workloads.scheduling.k8s.io", "pods"):
            name = "makeway_loop_last_list_timestamp_seconds"
            assert scrape.get(name, resource=resource) == server.now
        assert scrape.get("makeway_loop_write_failures_total", code="404") == 1
        assert scrape.get("makeway_loop_writes_in_flight") == 0

    play(tmp_path, lambda server: asyncio.wait_for(story(server), 10))

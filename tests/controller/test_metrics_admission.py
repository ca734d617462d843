"""Admission is looked upon and logs: what its observer counts, and what stands in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from makeway.api.kinds import (
    GANG_WORKLOADS,
    PODS,
    WORKLOADS,
    Resource,
)
from makeway.client.client import Document
from makeway.controller.metrics import Metrics
from makeway.controller.statuses import waiting
from makeway.engine.decisions import PreemptionPaused
from makeway.engine.engine import Engine
from makeway.engine.model import Preemptions
from makeway.plane.loop import Loop
from makeway.plane.parts import Outcome, Plan
from makeway.plane.picture import Change, Picture
from makeway.plane.writes import Key, ObjectWrite, Patch, Say
from tests.controller.metrics_lab import Scrape
from tests.harness.queues import QueuePlane
from tests.server.harness import Server, play

LOGGER = "makeway.admission"


class ObservedPlane(QueuePlane):
    """One queue; each step is seen to its end."""

    def __init__(self) -> None:
        super().__init__(cohortName="")

    def play(self, name: str, cpu: int, priority: int = 0) -> None:
        self.submit(name, cpu, priority=priority)
        self.settle()

    def finish(self, name: str) -> None:
        self.add_condition(name, "Finished", "True", "Succeeded")
        self.settle()

    def scrape(self) -> Scrape:
        return Scrape(self.metrics.text())


def test_the_observer_counts_what_documents_and_cycles_tell() -> None:
    plane = ObservedPlane()
    plane.play("train", cpu=3)
    plane.now += 60
    plane.finish("train")

    scrape = plane.scrape()
    assert scrape.get("kueue_admitted_workloads_total", cluster_queue="a") == 1
    assert scrape.get("kueue_finished_workloads_total", cluster_queue="a") == 1
    assert scrape.get("kueue_execution_time_seconds_sum") == 60
    assert scrape.get("kueue_cluster_queue_nominal_quota", resource="cpu", cluster_queue="a") == 4


def test_a_victim_that_nobody_runs_lets_go_at_once() -> None:
    plane = ObservedPlane()
    plane.play("small", cpu=3)
    plane.play("urgent", cpu=4, priority=10)

    scrape = plane.scrape()
    assert scrape.get("kueue_preempted_workloads_total", reason="InClusterQueue") == 1
    assert scrape.get("kueue_workload_eviction_latency_seconds_count") == 1
    assert scrape.get("kueue_admitted_active_workloads", cluster_queue="a") == 1


def test_a_decision_is_one_line_of_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    plane = ObservedPlane()
    plane.play("small", cpu=3)
    caplog.clear()
    plane.now += 41
    plane.play("urgent", cpu=4, priority=10)

    decisions = [line for line in caplog.messages if line.startswith("workload=")]
    preempt = "workload=lab/urgent decision=preempt queue=a victims=1 names=lab/small waited_s=0"
    assert decisions[0] == preempt
    assert decisions[1].startswith("workload=lab/urgent decision=admit queue=a flavors=any ")
    cycles = [line for line in caplog.messages if line.startswith("cycle=")]
    assert cycles[0].endswith(" heads=1 admitted=0 preempting=1 evicted=0")
    assert len(decisions) == len(cycles) == 2


def test_who_waits_is_told_at_debug_level_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    ObservedPlane().play("huge", cpu=5)
    assert caplog.messages == []

    caplog.set_level(logging.DEBUG, LOGGER)
    ObservedPlane().play("huge", cpu=5)
    waits = "workload=lab/huge decision=wait queue=a reason=ExceedsMaxQuota waited_s=0"
    assert caplog.messages == [waits]


def test_the_log_says_for_which_owner_somebody_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    plane = QueuePlane(preemption={})
    for name, cpu, queue in [("b1", 6, "b"), ("a1", 4, "a"), ("b2", 2, "b")]:
        plane.submit(name, cpu, queue=queue)
        plane.settle()

    waits = (
        "workload=lab/b2 decision=wait queue=b reason=WaitingForOwner owner=lab/a1 owner_queue=a"
    )
    assert f"{waits} waited_s=0" in caplog.messages
    plane.now += 2
    plane.settle()
    assert plane.condition_of("b2", "QuotaReserved") == ("False", "WaitingForOwner")
    assert plane.message("b2", "QuotaReserved").startswith("Owners first: borrowing cpu of flavor")


def test_a_pause_between_preemptions_has_a_word_and_an_event_and_says_when_it_ends() -> None:
    update = waiting((PreemptionPaused(Preemptions(3, 1000.0), until=1003.5),), False)

    (condition,), (event,) = update.conditions, update.events
    assert (condition.status, condition.reason) == ("False", "PreemptionPaused")
    assert condition.message == (
        "It has preempted others 3 times without running for long:"
        " it may preempt again at 1970-01-01T00:16:44Z"
    )
    assert (event.reason, event.message) == ("PreemptionPaused", condition.message)


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

    play(tmp_path, lambda server: asyncio.wait_for(story(server), 60))

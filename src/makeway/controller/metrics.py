"""Counts what happens, and shows it to Prometheus under Kueue's names.

Decisions are counted when they are made, before their write is confirmed. Nothing survives a
restart: whoever reads counters expects them to begin anew.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple, assert_never

from makeway.api.times import parse_time
from makeway.client.client import Document
from makeway.client.resources import WORKLOADS
from makeway.controller import metric_families as families
from makeway.controller.conditions import conditions_of
from makeway.controller.gauges import Gauges, local_queue_values
from makeway.controller.series import Counter, Family, Histogram, Readings, Values
from makeway.controller.statuses import PODS_READY
from makeway.engine import events as ev
from makeway.engine.decisions import (
    Admit,
    Cycle,
    Deactivate,
    Decision,
    Evict,
    HeadMode,
    HeadResult,
    Preempt,
    Requeue,
    Reserve,
    StartOver,
    Wait,
)
from makeway.engine.engine import Engine
from makeway.engine.entry import Entry, Phase
from makeway.engine.model import EvictionReason, LocalQueueKey, QueueName, WorkloadKey
from makeway.plane.loop import Loop
from makeway.plane.picture import Picture
from makeway.plane.writes import Key

Clock = Callable[[], float]


class _Place(NamedTuple):
    """Under which labels a workload counts."""

    queue: str
    local_queue: tuple[str, str]
    priority_class: str


class _Counted:
    """The same count for a ClusterQueue and for a LocalQueue."""

    def __init__(self, queue: Counter, local_queue: Counter) -> None:
        self._queue, self._local_queue = queue, local_queue

    def add(self, place: _Place, *values: str) -> None:
        self._queue.add(place.queue, *values, place.priority_class)
        self._local_queue.add(*place.local_queue, *values, place.priority_class)


class _Timed:
    """The same time for a ClusterQueue and for a LocalQueue."""

    def __init__(self, queue: Histogram, local_queue: Histogram) -> None:
        self._queue, self._local_queue = queue, local_queue

    def observe(self, seconds: float, place: _Place) -> None:
        self._queue.observe(seconds, place.queue, place.priority_class)
        self._local_queue.observe(seconds, *place.local_queue, place.priority_class)


class Metrics:
    """Looks on as an `Admission` works; `text` is what a scrape gets."""

    def __init__(
        self,
        engine: Engine,
        picture: Picture,
        clock: Clock,
        *,
        role: str = "leader",
        timer: Clock = time.perf_counter,
    ) -> None:
        self._state, self._picture = engine.state, picture
        self._clock, self._timer = clock, timer
        self._role = role
        self._began_at = 0.0  # the cycle that runs; by the timer
        self._skips: dict[QueueName, int] = {}  # of the last cycle in which the queue had a head
        self.loops: dict[str, Loop] = {}  # whose health is shown, by name
        self._of_queues: list[Counter | Histogram] = []
        self._of_local_queues: list[Counter | Histogram] = []
        self._of_all: list[Counter | Histogram] = []
        self._set_up()
        self._hearers: dict[type, Callable[..., None]] = {
            ev.WorkloadFinished: self._hear_end,
            ev.PodsChanged: self._hear_pods,
            ev.Evicted: self._hear_eviction,
            ev.PodsGone: self._hear_release,
            ev.QueueRemoved: self._hear_queue_gone,
            ev.LocalQueueRemoved: self._hear_local_queue_gone,
        }

    def _set_up(self) -> None:
        self._attempts = self._counter(families.ATTEMPTS, self._of_all)
        self._attempt_duration = self._histogram(families.ATTEMPT_DURATION, self._of_all)
        self._cycle_duration = Histogram(families.CYCLE_DURATION)
        self._of_all.append(self._cycle_duration)
        self._reserved = self._counted(families.RESERVED, families.LOCAL_RESERVED)
        self._reserved_wait = self._timed(families.RESERVED_WAIT, families.LOCAL_RESERVED_WAIT)
        self._admitted = self._counted(families.ADMITTED, families.LOCAL_ADMITTED)
        self._admitted_wait = self._timed(families.ADMITTED_WAIT, families.LOCAL_ADMITTED_WAIT)
        self._checks_wait = self._timed(families.CHECKS_WAIT, families.LOCAL_CHECKS_WAIT)
        self._ready_wait = self._timed(families.READY_WAIT, families.LOCAL_READY_WAIT)
        self._admitted_until_ready = self._timed(
            families.ADMITTED_UNTIL_READY, families.LOCAL_ADMITTED_UNTIL_READY
        )
        self._finished = self._counted(families.FINISHED, families.LOCAL_FINISHED)
        self._execution = self._timed(families.EXECUTION, families.LOCAL_EXECUTION)
        self._evicted = self._counted(families.EVICTED, families.LOCAL_EVICTED)
        self._evicted_once = self._counter(families.EVICTED_ONCE, self._of_queues)
        self._preempted = self._counter(families.PREEMPTED, self._of_queues)
        self._eviction_latency = self._histogram(families.EVICTION_LATENCY, self._of_queues)
        self._ready_to_evicted = self._histogram(families.READY_TO_EVICTED, self._of_queues)
        self._cohort_admitted = self._counter(families.COHORT_ADMITTED, self._of_all)

    def _counter(self, family: Family, among: list[Counter | Histogram]) -> Counter:
        counter = Counter(family, (self._role,))
        among.append(counter)
        return counter

    def _histogram(self, family: Family, among: list[Counter | Histogram]) -> Histogram:
        histogram = Histogram(family, (self._role,))
        among.append(histogram)
        return histogram

    def _counted(self, family: Family, twin: Family) -> _Counted:
        return _Counted(
            self._counter(family, self._of_queues), self._counter(twin, self._of_local_queues)
        )

    def _timed(self, family: Family, twin: Family) -> _Timed:
        return _Timed(
            self._histogram(family, self._of_queues), self._histogram(twin, self._of_local_queues)
        )

    # What the engine is told

    def hears(self, event: ev.Event) -> None:
        """Something is about to change; the engine still knows the workload as it was."""
        hearer = self._hearers.get(type(event))
        if hearer is not None:
            hearer(event)

    def _hear_end(self, event: ev.WorkloadFinished) -> None:
        entry = self._state.entries.get(event.key)
        if entry is None or entry.phase is Phase.FINISHED:
            return
        place = self._place(entry)
        self._finished.add(place)
        if entry.admitted_at is not None:
            self._execution.observe(self._clock() - entry.admitted_at, place)

    def _hear_pods(self, event: ev.PodsChanged) -> None:
        entry = self._state.entries.get(event.key)
        if entry is None or not event.are_ready or entry.pods_ready or entry.lost_at is not None:
            return
        if entry.phase is Phase.ADMITTED and entry.admitted_at is not None:
            place = self._place(entry)
            self._ready_wait.observe(event.at - entry.order_time, place)
            self._admitted_until_ready.observe(event.at - entry.admitted_at, place)

    def _hear_eviction(self, event: ev.Evicted) -> None:
        entry = self._state.entries.get(event.key)
        if entry is not None and entry.phase in (Phase.RESERVED, Phase.ADMITTED):
            self._count_eviction(entry, event.reason.value, event.reason.value, event.at)

    def _hear_release(self, event: ev.PodsGone) -> None:
        entry = self._state.entries.get(event.key)
        if entry is None or entry.phase is not Phase.EVICTING or entry.eviction is None:
            return
        seconds = self._clock() - entry.eviction.at
        reason = entry.eviction.reason.value
        self._eviction_latency.observe(seconds, entry.queue or "", reason)

    def _hear_queue_gone(self, event: ev.QueueRemoved) -> None:
        self._skips.pop(event.name, None)
        for series in self._of_queues:
            series.forget((event.name,))

    def _hear_local_queue_gone(self, event: ev.LocalQueueRemoved) -> None:
        for series in self._of_local_queues:
            series.forget(local_queue_values(event.key))

    # What the engine decides

    def begins(self) -> None:
        """A cycle begins."""
        self._began_at = self._timer()

    def ended(self, cycle: Cycle, now: float) -> None:
        seconds = self._timer() - self._began_at
        self._cycle_duration.observe(seconds)
        if cycle.had_heads:
            is_success = any(head.result is HeadResult.ADMITTED for head in cycle.order)
            result = "success" if is_success else "inadmissible"
            self._attempts.add(result)
            self._attempt_duration.observe(seconds, result)
            self._skips.update((head.queue, 0) for head in cycle.order)
            for head in cycle.order:
                if head.mode is HeadMode.PREEMPT and head.result is HeadResult.SKIPPED:
                    self._skips[head.queue] += 1
        for decision in cycle.decisions:
            self.decided(decision, now)

    def decided(self, decision: Decision, now: float) -> None:
        match decision:
            case Admit():
                self._count_admission(decision)
            case Reserve():
                self._count_reservation(decision.workload, decision.waited_s)
            case Preempt():
                for victim in decision.victims:
                    if victim.is_new:
                        self._preempted.add(decision.queue, victim.rule.value)
                        preempted = EvictionReason.PREEMPTED.value
                        entry = self._state.entries[victim.workload]
                        self._count_eviction(entry, preempted, preempted, now)
            case Evict():
                entry = self._state.entries[decision.workload]
                self._count_eviction(entry, decision.reason.value, decision.reason.value, now)
            case Deactivate():
                entry = self._state.entries[decision.workload]
                if entry.phase is Phase.EVICTING:  # else it waited, and nothing was stopped
                    reason = EvictionReason.DEACTIVATED.value
                    self._count_eviction(entry, reason, decision.reason.value, now)
            case Wait() | Requeue() | StartOver():
                pass
            case _:
                assert_never(decision)

    def _count_reservation(self, workload: WorkloadKey, waited_s: float) -> None:
        place = self._place(self._state.entries[workload])
        self._reserved.add(place)
        self._reserved_wait.observe(waited_s, place)

    def _count_admission(self, decision: Admit) -> None:
        entry = self._state.entries[decision.workload]
        place = self._place(entry)
        if entry.before is not None and entry.before.phase is Phase.RESERVED:
            self._checks_wait.observe(decision.checked_s, place)
        else:
            self._reserved.add(place)
            self._reserved_wait.observe(decision.waited_s, place)
        self._admitted.add(place)
        self._admitted_wait.observe(decision.waited_s, place)
        for cohort in self._state.queues[decision.queue].node.ancestors():
            self._cohort_admitted.add(cohort.name, place.priority_class)

    def _count_eviction(self, entry: Entry, reason: str, told: str, now: float) -> None:
        """`told`: the reason as it stands in the workload's own count of its evictions."""
        cause = told.removeprefix("DeactivatedDueTo") if told != reason else ""
        document = self._document(entry.workload.key)
        place = self._place(entry, document)
        self._evicted.add(place, reason, cause)
        if not _was_evicted(document, told):
            self._evicted_once.add(place.queue, reason, cause, place.priority_class)
        ready_at = _ready_at(document)
        if ready_at is not None:
            self._ready_to_evicted.observe(now - ready_at, place.queue, reason, cause)

    # Labels

    def _document(self, key: WorkloadKey) -> Document:
        namespace, _, name = key.partition("/")
        return self._picture.get(WORKLOADS, Key(namespace, name)) or {}

    def _place(self, entry: Entry, document: Document | None = None) -> _Place:
        workload = entry.workload
        if document is None:
            document = self._document(workload.key)
        named = (document.get("spec") or {}).get("priorityClassRef") or {}
        return _Place(
            entry.queue or self._queue_behind(workload.local_queue),
            local_queue_values(workload.local_queue),
            named.get("name") or "",
        )

    def _queue_behind(self, key: LocalQueueKey) -> str:
        local_queue = self._state.local_queues.get(key)
        return local_queue.queue if local_queue is not None else ""

    # What is shown

    def text(self) -> str:
        """Everything, in Prometheus' text form."""
        series = (*self._of_all, *self._of_queues, *self._of_local_queues)
        return "".join(
            (
                *(one.text() for one in series),
                self._cycles().text(),
                Gauges(self._state, self._role).text(),
                self._health().text(),
            )
        )

    def _cycles(self) -> Readings:
        readings = Readings((self._role,))
        for queue, skips in self._skips.items():
            readings.add(families.PREEMPTION_SKIPS, skips, queue)
        return readings

    def _health(self) -> Readings:
        readings = Readings()
        readings.add(families.BUILD_INFO, 1, *_build())
        for name, loop in self.loops.items():
            readings.add(families.LOOP_SYNCED, loop.is_synced, name)
            readings.add(families.WRITES_IN_FLIGHT, loop.in_flight, name)
            for resource, at in loop.listed_at.items():
                qualified = f"{resource.plural}.{resource.group}".rstrip(".")
                readings.add(families.LOOP_LISTED_AT, at, name, qualified)
            for code, count in sorted(loop.failures.items()):
                readings.add(families.WRITE_FAILURES, count, name, str(code))
        return readings


def _build() -> Values:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system().lower()}/{platform.machine()}"
    return version("makeway"), "", "", "", python, system


def _was_evicted(document: Document, reason: str) -> bool:
    stats = (document.get("status") or {}).get("schedulingStats") or {}
    return any(line["reason"] == reason for line in stats.get("evictions") or ())


def _ready_at(document: Document) -> float | None:
    """Since when all pods have been ready; None if they are not."""
    for condition in conditions_of(document):
        if condition["type"] == PODS_READY and condition["status"] == "True":
            since = condition.get("lastTransitionTime")
            return parse_time(since) if since else None
    return None

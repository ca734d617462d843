"""Counts what happens, and shows it to Prometheus under Kueue's names.

Decisions are counted when they are made, before their write is confirmed. Nothing survives a
restart: whoever reads counters expects them to begin anew.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from math import inf
from typing import NamedTuple, TypeVar, assert_never

from makeway.api.kinds import WORKLOADS
from makeway.api.times import parse_time
from makeway.client.client import Document
from makeway.controller import metric_families as families
from makeway.controller.conditions import conditions_of
from makeway.controller.gauges import Gauges, local_queue_values
from makeway.controller.placement_metrics import PlacementMetrics
from makeway.controller.series import Counter, Family, Histogram, Readings, Values
from makeway.controller.statuses import PODS_READY, PREEMPTED, Counted
from makeway.engine import decisions as dec
from makeway.engine import events as ev
from makeway.engine.engine import Engine
from makeway.engine.model import (
    Changes,
    EvictionReason,
    Phase,
    QueueName,
    StatusChange,
    WorkloadKey,
)
from makeway.plane.loop import Loop
from makeway.plane.picture import Picture
from makeway.plane.writes import Key

Clock = Callable[[], float]
NO_CHANGE = StatusChange(None, None)
Kind = TypeVar("Kind", Counter, Histogram)


class _Place(NamedTuple):
    """Under which labels a workload counts."""

    queue: str
    local_queue: tuple[str, str]
    priority_class: str


class _Pause(NamedTuple):
    """Between two preemptions of a workload."""

    since: float  # when it last made others give way
    until: float


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
        self._view, self._picture = engine.view, picture
        self._clock, self._timer = clock, timer
        self._role = role
        self._began_at = 0.0  # the cycle that runs; by the timer
        self._skips: dict[QueueName, int] = {}  # of the last cycle in which the queue had a head
        self._first_cycle_at = inf
        self._pauses: dict[WorkloadKey, _Pause] = {}  # as told last
        self.loops: dict[str, Loop] = {}  # whose health is shown, by name
        self.placement = PlacementMetrics(timer)
        self._of_queues: list[Counter | Histogram] = []
        self._of_local_queues: list[Counter | Histogram] = []
        self._of_all: list[Counter | Histogram] = []
        self._set_up()
        self._hearers: dict[type, Callable[..., None]] = {
            ev.WorkloadFinished: self._hear_end,
            ev.PodsChanged: self._hear_pods,
            ev.Evicted: self._hear_eviction,
            ev.PodsGone: self._hear_release,
            ev.WorkloadRemoved: self._hear_workload_gone,
            ev.QueueRemoved: self._hear_queue_gone,
            ev.LocalQueueRemoved: self._hear_local_queue_gone,
        }

    def _set_up(self) -> None:
        self._attempts = self._new(Counter, families.ATTEMPTS, self._of_all)
        self._attempt_duration = self._new(Histogram, families.ATTEMPT_DURATION, self._of_all)
        self._cycle_duration = Histogram(families.CYCLE_DURATION)
        self._of_all.append(self._cycle_duration)
        self._reserved = self._counted(families.RESERVED)
        self._reserved_wait = self._timed(families.RESERVED_WAIT)
        self._admitted = self._counted(families.ADMITTED)
        self._admitted_wait = self._timed(families.ADMITTED_WAIT)
        self._checks_wait = self._timed(families.CHECKS_WAIT)
        self._ready_wait = self._timed(families.READY_WAIT)
        self._admitted_until_ready = self._timed(families.ADMITTED_UNTIL_READY)
        self._finished = self._counted(families.FINISHED)
        self._execution = self._timed(families.EXECUTION)
        self._evicted = self._counted(families.EVICTED)
        self._evicted_once = self._new(Counter, families.EVICTED_ONCE, self._of_queues)
        self._preempted = self._new(Counter, families.PREEMPTED, self._of_queues)
        self._eviction_latency = self._new(Histogram, families.EVICTION_LATENCY, self._of_queues)
        self._ready_to_evicted = self._new(Histogram, families.READY_TO_EVICTED, self._of_queues)
        self._cohort_admitted = self._new(Counter, families.COHORT_ADMITTED, self._of_all)
        self._pauses_begun = Counter(families.PAUSES)
        self._claims_given_up = Counter(families.CLAIMS_GIVEN_UP)
        self._of_queues += [self._pauses_begun, self._claims_given_up]

    def _new(self, kind: type[Kind], family: Family, among: list[Counter | Histogram]) -> Kind:
        series = kind(family, (self._role,))
        among.append(series)
        return series

    def _pair(self, kind: type[Kind], family: Family) -> tuple[Kind, Kind]:
        queues, local_queues = self._of_queues, self._of_local_queues
        twin = families.LOCAL[family]
        return self._new(kind, family, queues), self._new(kind, twin, local_queues)

    def _counted(self, family: Family) -> _Counted:
        return _Counted(*self._pair(Counter, family))

    def _timed(self, family: Family) -> _Timed:
        return _Timed(*self._pair(Histogram, family))

    # What the engine is told

    def heard(self, event: ev.Event, changes: Changes) -> None:
        """Something has happened, and this is what the engine makes of it."""
        if not isinstance(event, ev.Forgotten):  # then the place was never cleared
            self._count_claims(changes)
        hearer = self._hearers.get(type(event))
        if hearer is not None:
            hearer(event, changes)

    def _hear_end(self, event: ev.WorkloadFinished, changes: Changes) -> None:
        before, _ = changes.get(event.key, NO_CHANGE)
        if before is None or before.finished:
            return
        place = self._place(event.key, before.queue)
        self._finished.add(place)
        if before.admitted_at is not None:
            self._execution.observe(self._clock() - before.admitted_at, place)

    def _hear_pods(self, event: ev.PodsChanged, changes: Changes) -> None:
        before, after = changes.get(event.key, NO_CHANGE)
        if before is None or after is None or not after.pods_ready:
            return
        is_first_time = not before.pods_ready and before.pods_lost_at is None
        if is_first_time and before.admitted_at is not None and before.eviction is None:
            place = self._place(event.key, before.queue)
            self._ready_wait.observe(event.at - self._view[event.key].queued_at, place)
            self._admitted_until_ready.observe(event.at - before.admitted_at, place)

    def _hear_eviction(self, event: ev.Evicted, changes: Changes) -> None:
        if event.key in changes:
            self._count_eviction(event.key, Counted(event.reason.value), event.at)

    def _hear_release(self, event: ev.PodsGone, changes: Changes) -> None:
        before, _ = changes.get(event.key, NO_CHANGE)
        if before is None or before.eviction is None:
            return
        seconds = self._clock() - before.eviction.at
        reason = before.eviction.reason.value
        self._eviction_latency.observe(seconds, before.queue or "", reason)

    def _hear_workload_gone(self, event: ev.WorkloadRemoved, _: Changes) -> None:
        self._pauses.pop(event.key, None)

    def _hear_queue_gone(self, event: ev.QueueRemoved, _: Changes) -> None:
        self._skips.pop(event.name, None)
        for series in self._of_queues:
            series.forget((event.name,))

    def _hear_local_queue_gone(self, event: ev.LocalQueueRemoved, _: Changes) -> None:
        for series in self._of_local_queues:
            series.forget(local_queue_values(event.key))

    # What the engine decides

    def begins(self, now: float) -> None:
        """A cycle begins."""
        self._began_at = self._timer()

    def ended(self, cycle: dec.Cycle, now: float) -> None:
        seconds = self._timer() - self._began_at
        self._cycle_duration.observe(seconds)
        if cycle.had_heads:
            is_success = any(head.result is dec.HeadResult.ADMITTED for head in cycle.order)
            result = "success" if is_success else "inadmissible"
            self._attempts.add(result)
            self._attempt_duration.observe(seconds, result)
            self._skips.update((head.queue, 0) for head in cycle.order)
            for head in cycle.order:
                if head.mode is dec.HeadMode.PREEMPT and head.result is dec.HeadResult.SKIPPED:
                    self._skips[head.queue] += 1
        self._first_cycle_at = min(self._first_cycle_at, now)
        self._count_claims(cycle.changes)
        for decision in cycle.decisions:
            self._decided(decision, cycle.changes, now)

    def _decided(self, decision: dec.Decision, changes: Changes, now: float) -> None:
        match decision:
            case dec.Admit():
                self._count_admission(decision, changes[decision.workload])
            case dec.Reserve():
                self._count_reservation(self._place(decision.workload), decision.waited_s)
            case dec.Preempt():
                for victim in decision.victims:
                    if victim.is_new:
                        self._preempted.add(decision.queue, victim.rule.value)
                        self._count_eviction(victim.workload, Counted(PREEMPTED), now)
            case dec.Evict():
                cause = decision.cause.value if decision.cause is not None else ""
                counted = Counted(decision.reason.value, cause)
                self._count_eviction(decision.workload, counted, now)
            case dec.Deactivate():
                if decision.is_evicted:
                    reason = EvictionReason.DEACTIVATED.value
                    counted = Counted(reason, decision.reason.cause.value)
                    self._count_eviction(decision.workload, counted, now)
            case dec.Wait():
                self._note_pause(decision)
            case dec.Requeue() | dec.StartOver():
                pass
            case _:
                assert_never(decision)

    def _note_pause(self, decision: dec.Wait) -> None:
        """The same pause may be told many times, and after a restart once more."""
        for reason in decision.reasons:
            if isinstance(reason, dec.PreemptionPaused):
                before = self._pauses.get(decision.workload)
                pause = _Pause(reason.preemptions.last_at, reason.until)
                self._pauses[decision.workload] = pause
                is_told = before is not None and before.since == pause.since
                if not is_told and pause.since >= self._first_cycle_at:
                    self._pauses_begun.add(decision.queue)

    def _count_claims(self, changes: Changes) -> None:
        """Those that end without their place being taken."""
        for key, (before, after) in changes.items():
            if before is None or before.claim is None or after is None or after.claim is not None:
                continue
            if after.assignment is None and not after.finished:
                self._claims_given_up.add(self._place(key).queue)

    def _count_reservation(self, place: _Place, waited_s: float) -> None:
        self._reserved.add(place)
        self._reserved_wait.observe(waited_s, place)

    def _count_admission(self, decision: dec.Admit, change: StatusChange) -> None:
        place = self._place(decision.workload)
        if change.before is not None and change.before.assignment is not None:
            self._checks_wait.observe(decision.checked_s, place)
        else:
            self._count_reservation(place, decision.waited_s)
        self._admitted.add(place)
        self._admitted_wait.observe(decision.waited_s, place)
        for cohort in self._view.cohorts_above(decision.queue):
            self._cohort_admitted.add(cohort, place.priority_class)

    def _count_eviction(self, key: WorkloadKey, eviction: Counted, now: float) -> None:
        reason, cause = eviction
        document = self._document(key)
        place = self._place(key, document=document)
        self._evicted.add(place, reason, cause)
        if not _was_evicted(document, eviction):
            self._evicted_once.add(place.queue, reason, cause, place.priority_class)
        ready_at = _ready_at(document)
        if ready_at is not None:
            self._ready_to_evicted.observe(now - ready_at, place.queue, reason, cause)

    # Labels

    def _document(self, key: WorkloadKey) -> Document:
        return self._picture.get(WORKLOADS, Key.parse(key)) or {}

    def _place(
        self,
        key: WorkloadKey,
        queue: QueueName | None = None,  # None: where it waits or holds quota now
        document: Document | None = None,
    ) -> _Place:
        known = self._view[key]
        local_queue = self._view.local_queue(known.workload.local_queue)
        behind = local_queue.queue if local_queue is not None else ""
        if document is None:
            document = self._document(key)
        named = (document.get("spec") or {}).get("priorityClassRef") or {}
        return _Place(
            queue or known.queue or behind,
            local_queue_values(known.workload.local_queue),
            named.get("name") or "",
        )

    # What is shown

    def text(self) -> str:
        """Everything, in Prometheus' text form."""
        series = (*self._of_all, *self._of_queues, *self._of_local_queues)
        return "".join(
            (
                *(one.text() for one in series),
                self._cycles().text(),
                self._pausing().text(),
                Gauges(self._view, self._role).text(),
                self.placement.text(),
                self._health().text(),
            )
        )

    def _cycles(self) -> Readings:
        readings = Readings((self._role,))
        for queue, skips in self._skips.items():
            readings.add(families.PREEMPTION_SKIPS, skips, queue)
        return readings

    def _pausing(self) -> Readings:
        """Those who still wait, and whose pause is not over."""
        now, readings = self._clock(), Readings()
        counts = dict.fromkeys((queue.name for queue in self._view.specs()), 0)
        for key, pause in self._pauses.items():
            known = self._view[key]
            if known.phase is Phase.PENDING and pause.until > now and known.queue in counts:
                counts[known.queue] += 1
        for queue, count in counts.items():
            readings.add(families.PAUSING, count, queue)
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


def _was_evicted(document: Document, eviction: Counted) -> bool:
    stats = (document.get("status") or {}).get("schedulingStats") or {}
    lines = stats.get("evictions") or ()
    return any((ln["reason"], ln.get("underlyingCause") or "") == eviction for ln in lines)


def _ready_at(document: Document) -> float | None:
    """Since when all pods have been ready; None if they are not."""
    for condition in conditions_of(document):
        if condition["type"] == PODS_READY and condition["status"] == "True":
            since = condition.get("lastTransitionTime")
            return parse_time(since) if since else None
    return None

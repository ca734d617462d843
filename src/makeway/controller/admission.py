"""Watch, engine, write: keeps the statuses of Workloads and the engine's picture in step.

`hearing.py` says what a document means, `telling.py` writes what the engine decides. A restart
begins with an empty engine and the documents: there is no other memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from makeway.api import queueing
from makeway.api.codec import decode_unconverted
from makeway.api.configuration import Configuration
from makeway.api.kinds import (
    CHECKS,
    COHORTS,
    FLAVORS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    QUEUES,
    RUNTIME_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import JOB_UID, PREEMPTION_PRIORITY_CLASS
from makeway.api.meta import find_condition
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.decision_log import log_cycle, log_decision
from makeway.controller.hearing import (
    Hold,
    Known,
    account_of,
    facts_of,
    hold_of,
    meaning_of,
    sign_of,
)
from makeway.controller.pod_rules import PodRulesIn
from makeway.controller.statuses import (
    FINISHED,
    RESERVED,
    StatusUpdate,
    terminated,
    updates_of,
)
from makeway.controller.telling import Record, Teller
from makeway.engine import events as ev
from makeway.engine.decisions import Cycle, Deactivate, Decision, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import (
    Changes,
    CheckName,
    CohortName,
    FlavorName,
    LocalQueueKey,
    Phase,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.logs import Fields
from makeway.plane.parts import Done, Outcome, Plan
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Key, ObjectWrite, Say
from makeway.translate.queues import changed, config_of, recalled
from makeway.translate.words import Standing
from makeway.translate.workloads import status_of, workload_of

log = logging.getLogger("makeway.admission")

PODS_TRUSTED_AFTER_S = 5.0  # after a start, what documents say of pods may be out of date

# What the engine is told when an object of a kind is gone.
_REMOVED: dict[Resource, Callable[[Key], ev.Event]] = {
    FLAVORS: lambda key: ev.FlavorRemoved(FlavorName(key.name)),
    QUEUES: lambda key: ev.QueueRemoved(QueueName(key.name)),
    COHORTS: lambda key: ev.CohortRemoved(CohortName(key.name)),
    LOCAL_QUEUES: lambda key: ev.LocalQueueRemoved(LocalQueueKey(str(key))),
    CHECKS: lambda key: ev.CheckRemoved(CheckName(key.name)),
    NAMESPACES: lambda key: ev.NamespaceRemoved(key.name),
}
# After these a pending workload may be in another queue, or in none.
_MOVING = (ev.WorkloadSeen, ev.WorkloadEdited, ev.PodsGone)


class Observer(Protocol):
    """Somebody who looks on, to count, to time, to write down; no decision depends on it."""

    def heard(self, event: ev.Event, changes: Changes) -> None:
        """The engine was told, and this is what it makes of it."""

    def begins(self, now: float) -> None:
        """A cycle begins."""

    def ended(self, cycle: Cycle, now: float) -> None:
        """A cycle has decided; the engine counts with it."""


class Admission:
    resources: tuple[Resource, ...] = (
        *_REMOVED,
        *(LIMIT_RANGES, RUNTIME_CLASSES),
        *(PRIORITY_CLASSES, WORKLOAD_CLASSES, WORKLOADS),
    )

    def __init__(self, picture: Picture, configuration: Configuration) -> None:
        self.engine = Engine(config_of(configuration))
        self.observers: list[Observer] = []
        self._resources = configuration.resources
        self._distance_max = configuration.preemption_priority.max_distance
        self._picture = picture
        self._queue_events = {kind: picture.index(kind, _queue_event) for kind in _REMOVED}
        self._pod_rules = PodRulesIn(picture)
        self._teller = Teller(picture, self.engine.view)
        self._records = self._teller.records
        self._are_pods_trusted = False
        self._pods_trusted_at: float | None = None  # None: not begun yet, or over
        self._needs_cycle = False  # something has happened since the last one
        self._cycle_at: float | None = None  # when the next one is due, though nothing happen

    # Hearing

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self._hear_workload(change.key, change.new)
        elif change.resource in _REMOVED:
            self._hear_queue_object(change)
        elif change.resource in PodRulesIn.resources:
            for at in self._pod_rules.concerned(change):
                if (concerned := WorkloadKey(str(at))) in self._records:
                    self._read_again(concerned)
        else:
            name, records = change.key.name, self._records.items()
            for workload in [k for k, record in records if record.sign.preemption_class == name]:
                self._read_again(workload)

    def _read_again(self, key: WorkloadKey) -> None:
        """Something that it is counted by has changed: a class, or rules for its pods."""
        found = self._picture.find(WORKLOADS, Key.parse(key))
        if found is not None and found.view is not None:
            self._hear_spec(self._records[key], self.workload_in(found.view))

    def _apply(self, event: ev.Event) -> None:
        changes = self.engine.apply(event)
        self._needs_cycle = True
        for observer in self.observers:
            observer.heard(event, changes)
        self._tell_notes(changes, event if isinstance(event, ev.WorkloadSeen) else None)
        if isinstance(event, ev.PodsGone):
            self._tell_if_terminated(event.key)
        elif isinstance(event, ev.WorkloadSeen) and not event.status.finished:
            self._tell_if_terminated(event.workload.key)

    def _tell_if_terminated(self, key: WorkloadKey) -> None:
        """Who had to make way and is not queued again has come to its end."""
        if self.engine.view[key].phase is Phase.FINISHED:
            self._teller.tell(key, terminated())

    def _tell_notes(self, changes: Changes, seen: ev.WorkloadSeen | None = None) -> None:
        """What only we remember of workloads is written down, whatever made it change."""
        for key, (before, after) in changes.items():
            written = seen.status if seen is not None and key == seen.workload.key else before
            if written is None or after is None or after.finished:
                continue
            has_lost_claim = written.claim is not None and after.claim is None
            if has_lost_claim or _ours(written) != _ours(after):
                self._teller.tell(key, StatusUpdate())

    def _apply_to(self, key: WorkloadKey, event: ev.Event) -> None:
        self._apply(event)
        if isinstance(event, _MOVING):
            self._teller.recheck(key)

    def _hear_queue_object(self, change: Change) -> None:
        resource, key = change.resource, change.key
        if change.new is None:
            self._apply(_REMOVED[resource](key))
        else:
            index = self._queue_events[resource]
            entry = index.entry(change.new)
            if entry is None:
                log.error(Fields(kind=resource.kind, name=key, problem="unreadable"))
                return
            if entry == index.entry(change.old):
                return  # only its status is different; that may happen every second
            for event in recalled(change.new.view) if change.old is None else ():
                self._apply(event)
            self._apply(entry[1])
        if resource != NAMESPACES:
            self._teller.recheck_from(self._local_queues(resource, key))

    def _local_queues(self, resource: Resource, key: Key) -> list[LocalQueueKey]:
        """Those for whose workloads a changed object may change something."""
        if resource == LOCAL_QUEUES:
            return [LocalQueueKey(str(key))]
        found = self.engine.view.local_queues()
        return [lq.key for lq in found if resource != QUEUES or lq.queue == key.name]

    def _hear_workload(self, at: Key, shown: Object | None) -> None:
        key = WorkloadKey(str(at))
        record = self._records.get(key)
        if shown is None:
            self._lose_workload(key)
            return
        document = shown.document
        true = true_types(conditions_of(document))
        sign = sign_of(document, true)
        if record is not None and record.sign.uid != sign.uid:
            self._lose_workload(key)
            record = None
        view: queueing.Workload | None
        if record is None or record.sign != sign:
            view = shown.view
        elif FINISHED in true:
            self._hear_end(key, record)
            return
        else:
            # By far the most changes are of the status alone; the rest need not be read again.
            only_status: Document = {"spec": {}, "status": document.get("status")}
            view = decode_unconverted(queueing.Workload, only_status).object
        if view is None:
            log.error(Fields(kind="Workload", name=at, problem="unreadable"))
            return
        status = status_of(view)
        if record is None:
            record = self._records[key] = Record(sign, account_of(status))
            self._apply_to(key, ev.WorkloadSeen(self.workload_in(view), status))
        else:
            workload = self.engine.view[key].workload
            if record.sign != sign:
                record.sign, workload = sign, self.workload_in(view)
                if record.account.hold.queue is None and status.assignment is None:
                    self._take_back_assumed(workload)
                self._hear_spec(record, workload)
            self._hear_status(record, workload, status, view)
        record.unanswered_at = float("-inf")  # the fate of an unanswered write is known by now
        record.has_reason = find_condition(view.status.conditions, RESERVED) is not None

    def _hear_end(self, key: WorkloadKey, record: Record) -> None:
        """Whatever else its status says counts no more."""
        record.account = record.account._replace(hold=Hold(is_finished=True))
        if self.engine.view[key].phase is not Phase.FINISHED:
            self._teller.overtake(key)
            self._apply(ev.WorkloadFinished(key))

    def _lose_workload(self, key: WorkloadKey) -> None:
        if key in self._records:
            self._teller.lose(key)
        self._apply(ev.WorkloadRemoved(key))

    def _take_back_assumed(self, workload: Workload) -> None:
        """Quota that no document shows was found for what the workload asked for before.

        The write that would show it can't succeed any more: it builds on the earlier document.
        """
        known = self.engine.view[workload.key]
        edited = replace(workload, checkpoint_at=known.workload.checkpoint_at)
        if known.status.assignment is not None and edited != known.workload:
            self._teller.overtake(workload.key)
            self._apply(ev.Forgotten(workload.key))

    def _hear_spec(self, record: Record, workload: Workload) -> None:
        if record.is_giving_up:
            record.is_giving_up = workload.active
            workload = replace(workload, active=False)
        if self.engine.view[workload.key].workload != workload:
            self._apply_to(workload.key, ev.WorkloadEdited(workload))

    def _hear_status(
        self, record: Record, workload: Workload, status: WorkloadStatus, view: queueing.Workload
    ) -> None:
        key = workload.key
        decided = self.engine.view[key]
        sent = None if record.sent is None else record.sent.account
        known = Known(decided, record.account, sent, has_unwritten=record.update is not None)
        record.account = account_of(status)
        meaning = meaning_of(workload, status, known)
        if meaning.is_overtaken:
            self._teller.overtake(key)
        for event in meaning.events:
            self._apply_to(key, event)
        if meaning.is_agreed:
            decided = self.engine.view[key]
            for event in tuple(facts_of(status, view, decided)):
                is_early = not decided.pods_seen and not self._are_pods_trusted
                if isinstance(event, ev.PodsChanged) and is_early:
                    record.pods = event
                else:
                    self._apply(event)

    def workload_in(self, view: queueing.Workload) -> Workload:
        """A Workload as the engine counts with it."""
        rules = self._pod_rules.of(view.metadata.namespace)
        return workload_of(view, self._resources, self._preemption_priority(view), rules)

    def _preemption_priority(self, view: queueing.Workload) -> int | None:
        """The number of the class that an annotation names, if it may be used."""
        name = view.metadata.annotations.get(PREEMPTION_PRIORITY_CLASS)
        if not name:
            return None
        for resource in (WORKLOAD_CLASSES, PRIORITY_CLASSES):
            found = self._picture.get(resource, Key("", name))
            if found is not None and self._is_allowed(found["value"], view.spec.priority or 0):
                return int(found["value"])
        return None

    def _is_allowed(self, preemption: int, scheduling: int) -> bool:
        distance, most = preemption - scheduling, self._distance_max
        return distance >= 0 and (most is None or distance <= most)

    # Acting

    def act(self, now: float) -> Plan:
        self._trust_pods(now)
        if self._needs_cycle or (self._cycle_at is not None and self._cycle_at <= now):
            self._needs_cycle = False
            self._run_cycle(now)
        plan = self._teller.act(now)
        moments = [plan.next_at, self._cycle_at, self._pods_trusted_at]
        due = [at for at in moments if at is not None]
        return Plan(plan.writes, now if self._needs_cycle else min(due, default=None))

    def _run_cycle(self, now: float) -> None:
        for observer in self.observers:
            observer.begins(now)
        cycle = self.engine.run_cycle(now)
        for observer in self.observers:
            observer.ended(cycle, now)
        log_cycle(cycle)
        self._cycle_at = cycle.next_at
        self._tell_notes(cycle.changes)
        for decision in cycle.decisions:
            self._note(decision, now)

    def _trust_pods(self, now: float) -> None:
        """A while after the start, the documents have caught up with what pods do."""
        if self._are_pods_trusted:
            return
        if self._pods_trusted_at is None:
            self._pods_trusted_at = now + PODS_TRUSTED_AFTER_S
        elif self._pods_trusted_at <= now:
            self._are_pods_trusted, self._pods_trusted_at = True, None
            for known in self.engine.view.with_unseen_pods():
                key, lost_at = known.workload.key, known.status.pods_lost_at
                at = now if lost_at is None else lost_at
                as_seen_last = ev.PodsChanged(key, known.status.pods_ready, at)
                self._apply(self._records[key].pods or as_seen_last)

    def _note(self, decision: Decision, now: float) -> None:
        log_decision(decision, self.engine.view, now)
        if isinstance(decision, Deactivate):
            self._records[decision.workload].is_giving_up = True
        elif isinstance(decision, Wait):
            self._records[decision.workload].is_turned_away = False  # the engine has looked at it
        for key, update in updates_of(decision, self._standing):
            if update.is_urgent:
                self._teller.tell(key, update)
            else:
                self._teller.explain(key, update, now)

    def _standing(self, key: WorkloadKey, queue: QueueName) -> Standing:
        """Who a workload is, and where its queue stands in the tree."""
        document = self._picture.get(WORKLOADS, Key.parse(key)) or {}
        labels = (document.get("metadata") or {}).get("labels") or {}
        above = reversed(self.engine.view.cohorts_above(queue))
        path = "".join(f"/{name}" for name in (*above, queue))
        return Standing(self.engine.view[key].workload.uid, labels.get(JOB_UID) or "", path)

    # What became of it

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = WorkloadKey(str(write.key))
        sent = self._teller.settled(key)
        if sent is None:
            return ()
        if isinstance(outcome, Done):
            self._teller.succeeded(key)
            if outcome.document is None or not self._picture.has(WORKLOADS, write.key):
                return ()
            if self._differs(key):  # what was put off while our write was on its way
                self._hear_workload(write.key, self._picture.find(WORKLOADS, write.key))
            return [event.about(outcome.document) for event in sent.update.events]
        if self._teller.failed(key, sent, outcome.error, now) and self._is_ahead(key):
            self._records[key].is_giving_up = False
            self._apply(ev.Forgotten(key))
            if not self._is_ahead(key):
                self._records[key].update = None  # it builds on what is forgotten
        return ()

    def _is_ahead(self, key: WorkloadKey) -> bool:
        """Whether the engine counts with something that the document doesn't show."""
        return self._records[key].is_giving_up or self._differs(key)

    def _differs(self, key: WorkloadKey) -> bool:
        return self._records[key].account.hold != hold_of(self.engine.view[key].status)


def _queue_event(found: Object) -> tuple[None, ev.Event] | None:
    """What the engine is told of a queue object."""
    return None if found.view is None else (None, changed(found.view))


def _ours(status: WorkloadStatus) -> tuple[object, ...]:
    """What nobody but us writes, besides what decisions say (a new claim, an eviction)."""
    return (
        status.requeue_count,
        status.requeue_at,
        status.history,
        status.preemptions,
        status.first_attempt_at,
    )

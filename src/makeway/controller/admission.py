"""Watch, engine, write: keeps the statuses of Workloads and the engine's picture in step.

What the engine decides is counted at once and written afterwards. Until the write is confirmed,
the document still shows the old state, so a document is read in the light of three standings: what
the engine has decided, what the last document showed, and what we have sent.

  the document shows ...          it means
  what the engine has decided     confirmed; what else it says (pods, checks) counts now
  what it showed before           somebody changed something else; our write is still to come
  what we have sent               our write, overtaken by a later decision; that one is to come
  anything else                   somebody else moved the workload: pods let go, an eviction from
                                  outside, or the state that another controller gave it; what we
                                  had not written yet is forgotten

A restart begins with an empty engine and the documents: there is no other memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import islice
from math import inf
from typing import NamedTuple, Protocol

from makeway.api import queueing
from makeway.api.codec import decode_own
from makeway.api.configuration import Configuration
from makeway.api.labels import IS_GROUP, PREEMPTION_PRIORITY_CLASS
from makeway.api.meta import controller_of, find_condition
from makeway.backoff import backoff_s
from makeway.client.client import ApiError, Conflict, Document, NotFound, Resource
from makeway.client.resources import (
    CHECKS,
    COHORTS,
    FLAVORS,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    QUEUES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.controller.conditions import conditions_of, true_types
from makeway.controller.decision_log import log_cycle, log_decision
from makeway.controller.overlooked import Overlooked
from makeway.controller.statuses import (
    FINISHED,
    PODS_READY,
    RESERVED,
    Condition,
    StatusUpdate,
    status_patch,
    updates_of,
    waiting,
)
from makeway.engine import events as ev
from makeway.engine.decisions import Cycle, Deactivate, Decision, Wait
from makeway.engine.engine import Engine
from makeway.engine.model import (
    Changes,
    CheckName,
    CheckState,
    CohortName,
    FlavorName,
    LocalQueueKey,
    Phase,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.view import KnownWorkload
from makeway.logs import Fields
from makeway.plane.parts import Done, Outcome, Plan
from makeway.plane.picture import Change, Object, Picture, revision_of
from makeway.plane.writes import Key, ObjectWrite, Patch, Say, Write, as_seen
from makeway.translate import LACKS_PODS, changed, config_of, status_of, workload_of

log = logging.getLogger("makeway.admission")

EXPLAINED_AFTER_S = 1.0  # reasons for waiting are written when they have stood that long
PODS_TRUSTED_AFTER_S = 5.0  # after a start, what documents say of pods may be out of date
ON_THEIR_WAY_MAX = 500  # writes
PLACED_AT_ONCE_MAX = 200
EXPLAINED_AT_ONCE_MAX = 200
RETRY_S = 0.2
RETRY_MAX_S = 30.0
UNSURE_S = 60.0  # a write without an answer may have been done, and we may not have heard of it yet

QUEUE_KINDS = (FLAVORS, QUEUES, COHORTS, LOCAL_QUEUES, CHECKS, NAMESPACES)


class Observer(Protocol):
    """Somebody who looks on, to count and to time; it changes nothing."""

    def heard(self, event: ev.Event, changes: Changes) -> None:
        """The engine was told, and this is what it makes of it."""

    def begins(self) -> None:
        """A cycle begins."""

    def ended(self, cycle: Cycle, now: float) -> None:
        """A cycle has decided; the engine counts with it."""


class Standing(NamedTuple):
    """What matters of a workload's state to those who act upon it."""

    is_finished: bool
    queue: QueueName | None = None  # that holds it; None: it holds no quota
    flavors: tuple[object, ...] = ()  # with counts, per pod set
    is_admitted: bool = False
    is_evicted: bool = False  # and has not let go


def standing_of(status: WorkloadStatus) -> Standing:
    if status.finished or status.assignment is None:
        return Standing(status.finished)
    return Standing(
        False,
        status.queue,
        tuple((ps.name, ps.count, ps.flavors) for ps in status.assignment.pod_sets),
        status.admitted_at is not None,
        status.eviction is not None,
    )


class _Sent(NamedTuple):
    news: StatusUpdate
    standing: Standing
    revision: int  # on which the patch builds
    is_void: bool = False  # overtaken: should it fail, it is not sent again


class _Sign(NamedTuple):
    """What changes whenever anything but the status of a workload does that we read."""

    uid: str
    generation: int
    preemption_class: str
    has_owner: bool  # somebody runs it, and says when its pods are gone
    lacks_pods: bool  # it can't run before others replace them


def _sign_of(document: Document, true: Set[str]) -> _Sign:
    """`true` are the types of its conditions that hold."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations") or {}
    return _Sign(
        metadata["uid"],
        metadata.get("generation") or 0,
        annotations.get(PREEMPTION_PRIORITY_CLASS) or "",
        controller_of(document) is not None or annotations.get(IS_GROUP) == "true",
        LACKS_PODS in true and RESERVED not in true,
    )


class _Track:
    """What the documents of a workload have shown us."""

    __slots__ = ("is_told", "is_turned_away", "sign", "standing")

    def __init__(self, sign: _Sign, standing: Standing) -> None:
        self.sign = sign
        self.standing = standing  # in the last document
        self.is_told = False  # its conditions say that it has quota, or why not
        self.is_turned_away = False  # it was told that no queue looks at it


class Admission:
    resources: tuple[Resource, ...] = (
        *QUEUE_KINDS,
        PRIORITY_CLASSES,
        WORKLOAD_CLASSES,
        WORKLOADS,
    )

    def __init__(
        self,
        picture: Picture,
        configuration: Configuration,
    ) -> None:
        self.engine = Engine(config_of(configuration))
        self._resources = configuration.resources
        self._picture = picture
        self.observer: Observer | None = None
        self._tracks: dict[WorkloadKey, _Track] = {}
        self._unwritten: dict[WorkloadKey, StatusUpdate] = {}  # decided, and nobody can see it yet
        self._explained: dict[WorkloadKey, tuple[float, StatusUpdate]] = {}  # written when due
        self._overlooked = Overlooked(self.engine.view)
        self._sent: dict[WorkloadKey, _Sent] = {}  # on its way
        self._not_before: dict[WorkloadKey, float] = {}  # a write that failed is sent again then
        self._failures: dict[WorkloadKey, int] = {}  # in a row
        self._unanswered: dict[WorkloadKey, float] = {}  # the time of the last such write
        self._giving_up: set[WorkloadKey] = set()  # deactivated by us; the spec doesn't say so yet
        self._heard: dict[tuple[Resource, Key], ev.Event] = {}  # the last of each queue object
        self._stirred: dict[LocalQueueKey, None] = {}  # whoever waits behind them is unplaced
        self._unplaced: dict[WorkloadKey, None] = {}  # may have to be told that no queue has them
        self._pods_told: dict[WorkloadKey, ev.PodsChanged] = {}  # told to the engine once trusted
        self._are_pods_trusted = False
        self._pods_trusted_at: float | None = None  # None: not begun yet, or over
        self._has_news = False  # for the engine
        self._next_at: float | None = None

    # Hearing

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self._hear_workload(change.key, change.new)
        elif change.resource in QUEUE_KINDS:
            self._hear_queue_object(change)
        else:
            name, tracks = change.key.name, self._tracks.items()
            for workload in [k for k, track in tracks if track.sign.preemption_class == name]:
                self._rank_again(workload)

    def _rank_again(self, key: WorkloadKey) -> None:
        """A class that it is annotated with has changed."""
        found = self._picture.find(WORKLOADS, _key(key))
        view = None if found is None else found.view
        if view is not None:
            self._hear_spec(workload_of(view, self._resources, self._preemption_priority(view)))

    def _apply(self, event: ev.Event) -> None:
        changes = self.engine.apply(event)
        self._has_news = True
        if self.observer is not None:
            self.observer.heard(event, changes)
        for key, (before, after) in changes.items():
            if before is not None and after is not None and _ours(before) != _ours(after):
                self._tell(key, StatusUpdate())

    def _hear_queue_object(self, change: Change) -> None:
        resource, key = change.resource, change.key
        if change.new is None:
            self._heard.pop((resource, key), None)
            self._apply(_removed(resource, key))
        else:
            view = change.new.view
            if view is None:
                log.error(Fields(kind=resource.kind, name=key, problem="unreadable"))
                return
            event = changed(view)
            if self._heard.get((resource, key)) == event:
                return  # only its status is different; that may happen every second
            self._heard[resource, key] = event
            self._apply(event)
        if resource != NAMESPACES:
            self._stirred.update(dict.fromkeys(self._local_queues(resource, key)))

    def _local_queues(self, resource: Resource, key: Key) -> list[LocalQueueKey]:
        """The doors behind which a changed object may change something."""
        if resource == LOCAL_QUEUES:
            return [LocalQueueKey(str(key))]
        found = self.engine.view.local_queues()
        return [lq.key for lq in found if resource != QUEUES or lq.queue == key.name]

    def _hear_workload(self, key: Key, shown: Object | None) -> None:
        workload_key = WorkloadKey(str(key))
        track = self._tracks.get(workload_key)
        if shown is None:
            self._lose_workload(workload_key)
            return
        document = shown.document
        self._unanswered.pop(workload_key, None)  # it was done, as this shows, or never will be
        true = true_types(conditions_of(document))
        sign = _sign_of(document, true)
        if track is not None and track.sign.uid != sign.uid:
            self._lose_workload(workload_key)
            track = None
        if track is not None and track.sign == sign:
            if FINISHED in true:
                self._hear_end(track, workload_key)
                return
            # By far the most changes are of the status alone; the rest need not be read again.
            only_status: Document = {"spec": {}, "status": document.get("status")}
            view = decode_own(queueing.Workload, only_status).object
        else:
            view = shown.view
        if view is None:
            log.error(Fields(kind="Workload", name=key, problem="unreadable"))
            return
        status = status_of(view)
        if track is not None and track.sign == sign:
            self._hear_status(track, self.engine.view[workload_key].workload, status, view)
            return
        workload = workload_of(view, self._resources, self._preemption_priority(view))
        if track is None:
            track = self._tracks[workload_key] = _Track(sign, standing_of(status))
            track.is_told = _is_told(view)
            self._see(workload, status)
            return
        track.sign = sign
        self._hear_spec(workload)
        self._hear_status(track, workload, status, view)

    def _hear_end(self, track: _Track, key: WorkloadKey) -> None:
        """Whatever else its status says counts no more."""
        track.standing = Standing(is_finished=True)
        if self.engine.view[key].phase is not Phase.FINISHED:
            self._forget(key)
            self._apply(ev.WorkloadFinished(key))

    def _lose_workload(self, key: WorkloadKey) -> None:
        self._forget(key)
        for of_workload in (self._tracks, self._not_before, self._failures, self._unanswered):
            of_workload.pop(key, None)
        self._apply(ev.WorkloadRemoved(key))

    def _see(self, workload: Workload, status: WorkloadStatus) -> None:
        self._apply(ev.WorkloadSeen(workload, status))
        self._unplaced[workload.key] = None

    def _hear_spec(self, workload: Workload) -> None:
        if workload.key in self._giving_up:
            if workload.active:
                workload = replace(workload, active=False)
            else:
                self._giving_up.discard(workload.key)
        if self.engine.view[workload.key].workload != workload:
            self._apply(ev.WorkloadEdited(workload))
            self._unplaced[workload.key] = None

    def _hear_status(
        self, track: _Track, workload: Workload, status: WorkloadStatus, view: queueing.Workload
    ) -> None:
        key = workload.key
        before, track.standing = track.standing, standing_of(status)
        track.is_told = _is_told(view)
        shown, decided = track.standing, standing_of(self.engine.view[key].status)
        sent = self._sent.get(key)
        if shown.is_finished:
            self._hear_end(track, key)
        elif shown == decided:
            self._hear_facts(key, status, view)
        elif shown == before and (key in self._unwritten or sent is not None):
            pass
        elif decided.is_evicted and shown.queue is None:
            self._apply(ev.PodsGone(key))
            self._unplaced[key] = None
        elif sent is not None and shown == sent.standing:
            pass
        elif shown._replace(is_evicted=False) == decided and status.eviction is not None:
            self._forget(key)
            self._apply(ev.Evicted(key, status.eviction.reason, status.eviction.at))
        else:
            self._forget(key)
            self._see(workload, status)
            self._hear_facts(key, status, view)

    def _hear_facts(
        self, key: WorkloadKey, status: WorkloadStatus, view: queueing.Workload
    ) -> None:
        """What others say about a workload whose standing is agreed upon."""
        known = self.engine.view[key]
        if status.reclaimable != known.status.reclaimable:
            self._apply(ev.PodsReclaimed(key, status.reclaimable))
        if status.assignment is None:
            return
        if status.pods_ready != known.status.pods_ready or not known.pods_seen:
            self._hear_pods(known, status, view)
        for check in view.status.admission_checks:
            name, state = CheckName(check.name), CheckState(check.state)
            if state is not known.status.checks.get(name, CheckState.PENDING):
                retry_after_s = float(check.requeue_after_seconds or 0)
                self._apply(ev.CheckAnswered(key, name, state, retry_after_s))

    def _hear_pods(
        self, known: KnownWorkload, status: WorkloadStatus, view: queueing.Workload
    ) -> None:
        condition = find_condition(view.status.conditions, PODS_READY)
        since = condition.last_transition_time if condition is not None else None
        at = (known.status.reserved_at or 0.0) if since is None else since
        event = ev.PodsChanged(known.workload.key, status.pods_ready, at)
        if not known.pods_seen and not self._are_pods_trusted:
            self._pods_told[event.key] = event
        else:
            self._apply(event)

    def _preemption_priority(self, view: queueing.Workload) -> int | None:
        """The number of the class that an annotation names, if it may be used."""
        name = view.metadata.annotations.get(PREEMPTION_PRIORITY_CLASS)
        if not name:
            return None
        for resource in (WORKLOAD_CLASSES, PRIORITY_CLASSES):
            found = self._picture.get(resource, Key("", name))
            if found is not None and found["value"] >= (view.spec.priority or 0):
                return int(found["value"])
        return None

    def _forget(self, key: WorkloadKey) -> None:
        """Whatever we were about to write is overtaken."""
        self._unwritten.pop(key, None)
        self._explained.pop(key, None)
        self._overlooked.discard(key)
        self._giving_up.discard(key)
        self._unplaced.pop(key, None)
        self._pods_told.pop(key, None)
        sent = self._sent.get(key)
        if sent is not None:
            self._sent[key] = sent._replace(is_void=True)

    # Acting

    def act(self, now: float) -> Plan:
        self._trust_pods(now)
        if self._has_news or (self._next_at is not None and self._next_at <= now):
            self._has_news = False
            cycle = self._run_cycle(now)
            self._next_at = cycle.next_at
            for decision in cycle.decisions:
                self._note(decision, now)
        self._see_to_unplaced(now)
        return self._plan(now)

    def _run_cycle(self, now: float) -> Cycle:
        if self.observer is not None:
            self.observer.begins()
        cycle = self.engine.run_cycle(now)
        if self.observer is not None:
            self.observer.ended(cycle, now)
        log_cycle(cycle)
        return cycle

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
                self._apply(self._pods_told.get(key, as_seen_last))
            self._pods_told.clear()

    def _note(self, decision: Decision, now: float) -> None:
        log_decision(decision, self.engine.view, now)
        if isinstance(decision, Deactivate):
            self._giving_up.add(decision.workload)
        elif isinstance(decision, Wait):
            self._tracks[decision.workload].is_turned_away = False  # the engine has looked at it
        for key, news in updates_of(decision):
            if news.is_urgent:
                self._tell(key, news)
            else:
                self._explain(key, news, now)

    def _tell(self, key: WorkloadKey, news: StatusUpdate) -> None:
        self._explained.pop(key, None)
        known = self._unwritten.get(key)
        self._unwritten[key] = news if known is None else known.merged_with(news)

    def _explain(self, key: WorkloadKey, news: StatusUpdate, now: float) -> None:
        if key in self._unwritten:
            self._tell(key, news)  # it goes along
            return
        due, _ = self._explained.get(key, (now + EXPLAINED_AFTER_S, None))
        self._explained[key] = (due, news)

    def _see_to_unplaced(self, now: float) -> None:
        """Tell those whom no queue will look at, a few at a time."""
        if self._stirred and not self._unplaced:
            door, _ = self._stirred.popitem()
            self._unplaced.update(dict.fromkeys(self.engine.view.pending_from(door)))
        for key in list(islice(self._unplaced, PLACED_AT_ONCE_MAX)):
            del self._unplaced[key]
            known = self.engine.view.workload(key)
            if known is None or known.phase is not Phase.PENDING:
                continue
            news = self._why_not_in_line(key, now)
            track = self._tracks[key]
            if news is not None:
                track.is_turned_away = True
            elif track.is_turned_away:
                news = self._overlooked.update_for(key)
                track.is_turned_away = False
            elif not track.is_told:
                self._overlooked.add(key, now)
            if news is not None:
                self._explain(key, news, now)

    def _why_not_in_line(self, key: WorkloadKey, now: float) -> StatusUpdate | None:
        obstacle = self.engine.view.why_outside(key)
        if obstacle is None:
            return None
        return waiting((obstacle,), False)

    def _plan(self, now: float) -> Plan:
        for key, (due, news) in list(islice(self._explained.items(), EXPLAINED_AT_ONCE_MAX)):
            if due > now:
                break  # they stand in the order in which they were first told
            del self._explained[key]
            if key not in self._unwritten and self._is_new_to_readers(key, news):
                self._unwritten[key] = news
        if not self._unwritten:
            self._unwritten.update(self._overlooked.take(now, self._is_overlooked))
        ready = (
            key
            for key in self._unwritten
            if key not in self._sent and self._not_before.get(key, 0.0) <= now
        )
        writes: list[Write] = []
        for key in list(islice(ready, max(0, ON_THEIR_WAY_MAX - len(self._sent)))):
            writes += self._write(key, now)
        return Plan(writes, self._due_at(now))

    def _is_overlooked(self, key: WorkloadKey) -> bool:
        known = self.engine.view.workload(key)
        if known is None or known.phase is not Phase.PENDING or self._tracks[key].is_told:
            return False
        is_coming = key in self._sent or key in self._explained
        return not is_coming and self.engine.view.why_outside(key) is None

    def _due_at(self, now: float) -> float | None:
        moments = [] if self._next_at is None else [self._next_at]
        if not self._unwritten and (at := self._overlooked.next_at()) is not None:
            moments.append(at)
        if self._has_news or self._unplaced or self._stirred:
            moments.append(now)
        if self._explained:
            moments.append(next(iter(self._explained.values()))[0])
        if self._pods_trusted_at is not None:
            moments.append(self._pods_trusted_at)
        # The rest of what is unwritten waits for a write on its way, which will wake us.
        moments += [
            at
            for key, at in self._not_before.items()
            if at > now and key in self._unwritten and key not in self._sent
        ]
        return min(moments, default=None)

    def _is_new_to_readers(self, key: WorkloadKey, news: StatusUpdate) -> bool:
        document = self._picture.get(WORKLOADS, _key(key))
        known = self.engine.view.workload(key)
        if document is None or known is None or known.phase is not Phase.PENDING:
            return False
        conditions = conditions_of(document)
        shown = {tuple(c.get(field, "") for field in Condition._fields) for c in conditions}
        return any(told.type == RESERVED and told not in shown for told in news.conditions)

    def _write(self, key: WorkloadKey, now: float) -> list[Write]:
        document = self._picture.get(WORKLOADS, _key(key))
        news = self._unwritten.pop(key)
        known = self.engine.view.workload(key)
        if document is None or known is None:
            return []
        status, track = known.status, self._tracks[key]
        if key in self._giving_up and document["spec"].get("active", True):
            # First what counts: read back after a crash, it is told as an eviction at least.
            give_up: Document = {"metadata": as_seen(document), "spec": {"active": False}}
            self._unwritten[key] = news
            self._sent[key] = _Sent(StatusUpdate(), track.standing, revision_of(document))
            return [Patch(resource=WORKLOADS, key=_key(key), patch=give_up)]
        patch = status_patch(document, status, news, now, lets_go=not track.sign.has_owner)
        standing = standing_of(status)
        if standing.is_evicted and not track.sign.has_owner:
            standing = Standing(False)
        self._sent[key] = _Sent(news, standing, revision_of(document))
        return [Patch(resource=WORKLOADS, key=_key(key), patch=patch, subresource="status")]

    # What became of it

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = WorkloadKey(str(write.key))
        sent = self._sent.pop(key)
        if isinstance(outcome, Done):
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
            if outcome.document is None or not self._picture.has(WORKLOADS, write.key):
                return ()
            self._hear_again(key)
            about = _reference(outcome.document)
            return [
                Say(about=about, reason=s.reason, message=s.message, type=s.type)
                for s in sent.news.events
            ]
        document = self._picture.get(WORKLOADS, write.key)
        self._fail(key, sent, outcome.error, document, now)
        return ()

    def _fail(
        self,
        key: WorkloadKey,
        sent: _Sent,
        error: Exception,
        document: Document | None,
        now: float,
    ) -> None:
        if document is None or isinstance(error, NotFound) or sent.is_void:
            return  # it is gone, or will be shown as gone; or nobody wants it any more
        if isinstance(error, Conflict) and revision_of(document) > sent.revision:
            delay_s = 0.0
        else:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            delay_s = backoff_s(failures, RETRY_S, RETRY_MAX_S)
        self._not_before[key] = now + delay_s
        if not isinstance(error, ApiError):
            self._unanswered[key] = now
        is_sure = now - self._unanswered.get(key, -inf) > UNSURE_S
        is_refused = isinstance(error, ApiError) and not isinstance(error, Conflict) and is_sure
        if is_refused:
            log.error(Fields(workload=key, problem="refused", error=error))
        if is_refused and self._is_ahead(key):
            self._giving_up.discard(key)
            self._apply(ev.Forgotten(key))
            if not self._is_ahead(key):
                self._unwritten.pop(key, None)  # it builds on what is forgotten
                return
        later = self._unwritten.get(key)
        self._unwritten[key] = sent.news if later is None else sent.news.merged_with(later)

    def _is_ahead(self, key: WorkloadKey) -> bool:
        """Whether the engine counts with something that the document doesn't show."""
        shown, decided = self._tracks[key].standing, self.engine.view[key].status
        return key in self._giving_up or shown != standing_of(decided)

    def _hear_again(self, key: WorkloadKey) -> None:
        """What was put off while our write was on its way."""
        track, known = self._tracks.get(key), self.engine.view.workload(key)
        if track is None or known is None:
            return
        if track.standing != standing_of(known.status):
            self._hear_workload(_key(key), self._picture.find(WORKLOADS, _key(key)))


def _ours(status: WorkloadStatus) -> tuple[object, ...]:
    """What nobody but us writes, besides what decisions say."""
    return status.requeue_count, status.requeue_at, status.history


def _is_told(view: queueing.Workload) -> bool:
    return find_condition(view.status.conditions, RESERVED) is not None


def _reference(document: Document) -> Document:
    """As much of a document as an event about it needs: many may wait to be written."""
    return {name: document[name] for name in ("apiVersion", "kind", "metadata")}


def _key(workload: WorkloadKey) -> Key:
    namespace, _, name = workload.partition("/")
    return Key(namespace, name)


def _removed(resource: Resource, key: Key) -> ev.Event:
    if resource == FLAVORS:
        return ev.FlavorRemoved(FlavorName(key.name))
    if resource == QUEUES:
        return ev.QueueRemoved(QueueName(key.name))
    if resource == COHORTS:
        return ev.CohortRemoved(CohortName(key.name))
    if resource == LOCAL_QUEUES:
        return ev.LocalQueueRemoved(LocalQueueKey(str(key)))
    if resource == CHECKS:
        return ev.CheckRemoved(CheckName(key.name))
    assert resource == NAMESPACES, resource
    return ev.NamespaceRemoved(key.name)

"""What is to become of pods and queue Workloads, pursued until the Picture shows it.

Placement decides once; writes fail, collide and get lost. So a decision becomes an errand: what
the object should be like in the end. Each look at the object says which write comes next, and none
is left when the object is as it should be or is gone. After a restart placement decides anew, and
finds in the objects what was done already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard, assert_never

from makeway.api.kinds import PODS, WORKLOADS
from makeway.client.client import ApiError, Document
from makeway.controller.conditions import conditions_of, true_types, with_condition
from makeway.plane.parts import NOTHING, Done, Outcome, Plan, Reconciler
from makeway.plane.picture import Picture
from makeway.plane.writes import (
    Bind,
    Delete,
    EventText,
    Evict,
    Key,
    ObjectWrite,
    Patch,
    Say,
    status_patch,
)
from makeway.translate.places import Message, assigned_text

UNSCHEDULABLE = "Unschedulable"
SCHEDULED, FAILED_SCHEDULING = "Scheduled", "FailedScheduling"  # of events, as kube-scheduler's
PREEMPTED_IN_PLACEMENT = "PreemptedInPlacement"
NUMBERS_S = 30.0  # how long a message stays whose numbers alone have changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBind:
    uid: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToEvict:
    """Say on the pod why it goes, then end it."""

    uid: str
    reason: str  # of the condition DisruptionTarget
    event: str  # reason of the event
    message: str
    is_asked: bool  # through the eviction API, as a budget covers it and allows it
    preemptors: tuple[Key, ...] = ()  # who waits for it
    after: tuple[Key, ...] = ()  # queue Workloads that have to be told before


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTell:
    """Say on the pod why it has no node, and which one it waits for."""

    uid: str
    nominated: str | None  # None: waits for no place in particular
    message: Message
    has_event: bool = True  # of several pods that wait together, one has the event
    not_before: float = field(default=0.0, compare=False)  # what may pass soon is not told at once


Errand = ToBind | ToEvict | ToTell


def is_final(error: ApiError) -> bool:
    """Whether the same write would be refused again: not a collision, nor trouble of the server."""
    return 400 <= error.code < 500 and error.code not in (404, 409, 429)


class PodErrands(Reconciler):
    def __init__(self, picture: Picture, evictions: WorkloadEvictions) -> None:
        super().__init__()
        self._picture, self._evictions = picture, evictions
        self._errands: dict[Key, Errand] = {}
        self._told: dict[Key, tuple[float, Message]] = {}  # when we last told a pod, and what

    def assign(self, key: Key, errand: Errand, now: float) -> None:
        """Pursue this from now on, and no longer what was to become of the pod before."""
        known = self._errands.get(key)
        if known == errand:
            return
        self._errands[key] = errand
        if isinstance(known, ToTell) and _is_same_but_numbers(errand, known):
            self._errands[key] = replace(known, message=errand.message)
            self.mark_at(key, self._told_at(key, now) + NUMBERS_S)
        else:
            self.mark(key)

    def drop(self, key: Key) -> None:
        self._errands.pop(key, None)
        self._told.pop(key, None)

    def of(self, key: Key) -> Errand | None:
        return self._errands.get(key)

    def touch(self, key: Key) -> None:
        """The pod has changed."""
        if key in self._errands:
            self.mark(key)

    def reconcile(self, key: Key, now: float) -> Plan:
        errand, pod = self._errands.get(key), self._picture.get(PODS, key)
        if errand is None:
            return NOTHING
        if pod is None or _is_over(errand, pod):
            self.drop(key)
            return NOTHING
        match errand:
            case ToBind():
                then = (EventText(SCHEDULED, assigned_text(str(key), errand.node)).about(pod),)
                return _plan(Bind(key=key, uid=errand.uid, node=errand.node, then=then))
            case ToEvict():
                return self._evict(key, errand, pod, now)
            case ToTell():
                return self._tell(key, errand, pod, now)
            case _:
                assert_never(errand)

    def _evict(self, key: Key, errand: ToEvict, pod: Document, now: float) -> Plan:
        if any(self._evictions.is_under_way(workload) for workload in errand.after):
            return NOTHING
        before = conditions_of(pod)
        conditions = with_condition(
            before, "DisruptionTarget", "True", errand.reason, errand.message, now
        )
        if conditions != before:
            return _plan(status_patch(PODS, pod, {"conditions": conditions}))
        then = (Say(about=pod, reason=errand.event, message=errand.message),)
        if errand.is_asked:
            return _plan(Evict(key=key, uid=errand.uid, then=then))
        return _plan(Delete(resource=PODS, key=key, uid=errand.uid, then=then))

    def _tell(self, key: Key, errand: ToTell, pod: Document, now: float) -> Plan:
        if now < errand.not_before:
            return Plan((), errand.not_before)
        status = pod.get("status") or {}
        conditions = conditions_of(pod)
        told = _message_of(conditions)
        message = errand.message
        is_new = told != message.text and not self._has_told(key, told, message.gist)
        is_moved = (status.get("nominatedNodeName") or None) != errand.nominated
        if not is_new and not is_moved:
            if told == message.text:
                self._told.setdefault(key, (now, message))
                return NOTHING
            if now < (refresh_at := self._told_at(key, 0.0) + NUMBERS_S):
                return Plan((), refresh_at)
        self._told[key] = now, message
        changes = {
            "nominatedNodeName": errand.nominated,
            "conditions": with_condition(
                conditions, "PodScheduled", "False", UNSCHEDULABLE, message.text, now
            ),
        }
        patch = status_patch(PODS, pod, changes)
        if not is_new or not errand.has_event:
            return _plan(patch)
        event = Say(about=pod, reason=FAILED_SCHEDULING, message=message.text, type="Warning")
        return _plan(replace(patch, then=(event,)))

    def _told_at(self, key: Key, default: float) -> float:
        return self._told[key][0] if key in self._told else default

    def _has_told(self, key: Key, shown: str | None, gist: str) -> bool:
        """Whether what the pod shows is what we told it last, and of this gist."""
        _, last = self._told.get(key, (0.0, None))
        return last is not None and (last.text, last.gist) == (shown, gist)

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = write.key
        says = super().settled(write, outcome, now)
        if not isinstance(outcome, Done):
            return says
        errand = self._errands.get(key)
        if isinstance(errand, ToBind) and isinstance(write, Bind):
            self.drop(key)
        elif isinstance(errand, ToEvict) and isinstance(write, Patch):
            self.mark(key)  # the pod says why; now for its end
        elif isinstance(errand, ToEvict) and isinstance(write, Delete | Evict):
            self.drop(key)
        return says


class WorkloadEvictions(Reconciler):
    """Queue Workloads that lose every pod in placement give their quota back."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self._picture = picture
        # The uid of each, why it goes, and the pods whose end comes after.
        self._wanted: dict[Key, tuple[str, str, tuple[Key, ...]]] = {}
        self._freed: list[Key] = []

    def evict(self, key: Key, message: str, pods: tuple[Key, ...]) -> None:
        document = self._picture.get(WORKLOADS, key)
        if document is not None:
            self._wanted[key] = document["metadata"]["uid"], message, pods
            self.mark(key)

    def is_under_way(self, key: Key) -> bool:
        return key in self._wanted

    def take_freed(self) -> list[Key]:
        """Pods whose Workloads have been told since the last time."""
        freed, self._freed = self._freed, []
        return freed

    def reconcile(self, key: Key, now: float) -> Plan:
        if key not in self._wanted:
            return NOTHING
        uid, message, _ = self._wanted[key]
        document = self._picture.get(WORKLOADS, key)
        if document is None or document["metadata"]["uid"] != uid or not _holds(document):
            self._finish(key)
            return NOTHING
        told = "Evicted", "True", PREEMPTED_IN_PLACEMENT, message
        generation = document["metadata"].get("generation")
        conditions = with_condition(conditions_of(document), *told, now, generation)
        return _plan(status_patch(WORKLOADS, document, {"conditions": conditions}))

    def settled(self, write: ObjectWrite, outcome: Outcome, now: float) -> Sequence[Say]:
        key = write.key
        says = super().settled(write, outcome, now)
        if isinstance(outcome, Done):
            self._finish(key)
        return says

    def refused(self, key: Key, write: ObjectWrite, error: ApiError) -> Sequence[Say]:
        if is_final(error):  # better quota held in vain than a preemptor that waits for ever
            self._finish(key)
        return ()

    def _finish(self, key: Key) -> None:
        if key in self._wanted:
            self._freed += self._wanted.pop(key)[2]


def _is_same_but_numbers(errand: Errand, known: ToTell) -> TypeGuard[ToTell]:
    if not isinstance(errand, ToTell) or errand.message.gist != known.message.gist:
        return False
    return replace(known, message=errand.message) == errand


def _is_over(errand: Errand, pod: Document) -> bool:
    """The pod is another one or leaves; or has its node, and was only to get one."""
    metadata = pod["metadata"]
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    return (
        metadata["uid"] != errand.uid
        or bool(metadata.get("deletionTimestamp"))
        or (is_bound and not isinstance(errand, ToEvict))
    )


def _plan(write: ObjectWrite) -> Plan:
    return Plan((write,))


def _message_of(conditions: Sequence[Document]) -> str | None:
    """What a pod says about having no node; None if nothing."""
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == UNSCHEDULABLE:
            return str(condition.get("message") or "")
    return None


def _holds(workload: Document) -> bool:
    true = true_types(conditions_of(workload))
    return "Admitted" in true and "Evicted" not in true

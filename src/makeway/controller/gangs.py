"""What the objects that describe gangs say about themselves: priorities, and whether pods fit in.

One reconciler per kind: the Workload of scheduling.k8s.io, the PodGroup, or our own Gang. Placement
reads the same objects by itself and waits for nothing that is written here.
"""

from __future__ import annotations

from typing import NamedTuple

from makeway.api import batch
from makeway.api.batch import ENDED_PHASES
from makeway.api.gangs import (
    INITIALLY_SCHEDULED,
    PRIORITY_RESOLVED,
    Gang,
    GangWorkload,
    PodGroup,
)
from makeway.api.kinds import GANG_WORKLOADS, GANGS, PODS, PRIORITY_CLASSES, Resource
from makeway.api.labels import PREEMPTION_PRIORITY_CLASS
from makeway.api.meta import Condition
from makeway.api.priorities import Priorities, Resolved, resolve_priorities
from makeway.client.client import Document
from makeway.controller.conditions import conditions_of, true_types, with_condition
from makeway.placement.model import PodKey
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture, in_one_group
from makeway.plane.writes import Key, status_patch
from makeway.translate import messages
from makeway.translate.placement import not_matching_condition, own_gang_of


class _Member(NamedTuple):
    key: Key
    priority: int
    is_bound: bool
    lack: str  # why it has no node; empty if it has one, or nobody said so yet


class GangStatuses(Reconciler):
    def __init__(
        self,
        picture: Picture,
        resource: Resource,
        *,
        schedulers: frozenset[str] | None = None,
        distance_max: int | None = None,
    ) -> None:
        """`schedulers` are the names whose pods are ours to tell about; None: all pods are.

        `distance_max` is how far a preemption priority may lie above that of scheduling.
        """
        super().__init__()
        self._schedulers, self._distance_max = schedulers, distance_max
        self.resources: tuple[Resource, ...] = (PRIORITY_CLASSES, resource, PODS)
        self._picture, self._resource = picture, resource
        self._members = picture.index(PODS, self._member_of)  # by gang
        self._classes = picture.index(PRIORITY_CLASSES, in_one_group)

    def changed(self, change: Change) -> None:
        if change.resource == PODS:
            self.mark(*self._members.touched(change))
        elif change.resource == PRIORITY_CLASSES:
            self.mark(*self._picture.keys(self._resource))
        else:
            self.mark(change.key)

    def _member_of(self, pod: Object) -> tuple[Key, _Member] | None:
        view = pod.view
        if view is None or view.status.phase in ENDED_PHASES:
            return None
        spec = view.spec
        if self._schedulers is not None and spec.scheduler_name not in self._schedulers:
            return None
        name = self._named_by(view)
        if not name:
            return None
        lacks = [c.message for c in view.status.conditions if c.type == "PodScheduled"]
        member = _Member(
            key=pod.key,
            priority=spec.priority or 0,
            is_bound=bool(spec.node_name),
            lack="" if spec.node_name or not lacks else lacks[0],
        )
        return Key(pod.key.namespace, name), member

    def _named_by(self, view: batch.Pod) -> str:
        reference, group = view.spec.workload_ref, view.spec.scheduling_group
        if self._resource == GANG_WORKLOADS:
            return "" if reference is None else reference.name
        if self._resource == GANGS:
            return own_gang_of(view)
        return "" if group is None else group.pod_group_name

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(self._resource, key)
        if found is None or found.view is None:
            return NOTHING
        document, view = found.document, found.view
        before = document.get("status") or {}
        after = dict(before)
        resolved = self._resolved(view)
        conditions = _with_resolution(list(conditions_of(document)), resolved, now)
        if isinstance(view, GangWorkload):
            _put_numbers(after, resolved.priorities, is_apart=bool(_preemption_class(view)))
        else:
            conditions = self._with_schedule(key, view, conditions, now)
        conditions = self._with_divergence(key, _priority_of(view, resolved), conditions, now)
        if conditions:
            after["conditions"] = conditions
        if after == before:
            return NOTHING
        return Plan((status_patch(self._resource, document, after),))

    def _resolved(self, view: GangWorkload | PodGroup | Gang) -> Resolved:
        is_annotated = PREEMPTION_PRIORITY_CLASS in view.metadata.annotations
        path = f"metadata.annotations[{PREEMPTION_PRIORITY_CLASS}]"
        return resolve_priorities(
            view.spec.priority_class_name,
            _preemption_class(view),
            self._classes.values(None),
            preemption_path=path if is_annotated else "spec.preemptionPriorityClassName",
            distance_max=self._distance_max,
        )

    def _with_divergence(
        self, key: Key, priority: int | None, conditions: list[Document], now: float
    ) -> list[Document]:
        others = [
            PodKey(str(member.key))
            for member in self._members.values(key)
            if priority is not None and member.priority != priority
        ]
        return _with(conditions, not_matching_condition(others, now), bad="True", now=now)

    def _with_schedule(
        self, key: Key, view: PodGroup | Gang, conditions: list[Document], now: float
    ) -> list[Document]:
        members = self._members.values(key)
        gang = view.spec.scheduling_policy.gang
        bound = sum(member.is_bound for member in members)
        if INITIALLY_SCHEDULED in true_types(conditions):
            return conditions
        lack = next((member.lack for member in members if member.lack), "")
        if bound >= (1 if gang is None else gang.min_count):
            told = "True", "Scheduled", messages.PODS_HAVE_NODES.format(bound)
        elif lack:
            told = "False", "Unschedulable", lack
        else:
            return conditions
        return with_condition(conditions, INITIALLY_SCHEDULED, *told, now)


def _priority_of(view: GangWorkload | PodGroup | Gang, resolved: Resolved) -> int | None:
    """The scheduling priority that counts; None if nothing says so."""
    known = view.status.priority if isinstance(view, GangWorkload) else view.spec.priority
    if known is not None:
        return known
    return None if resolved.priorities is None else resolved.priorities.scheduling


def _preemption_class(view: GangWorkload | PodGroup | Gang) -> str:
    """The class that counts when others look for victims; empty if none is named."""
    named = view.spec.preemption_priority_class_name if isinstance(view, GangWorkload) else ""
    return view.metadata.annotations.get(PREEMPTION_PRIORITY_CLASS) or named


def _put_numbers(status: Document, priorities: Priorities | None, *, is_apart: bool) -> None:
    """The scheduling priority stays as it was first; the other follows a class, if one is named."""
    if priorities is None:
        return
    scheduling = status.setdefault("priority", priorities.scheduling)
    apart = max(scheduling, priorities.preemption)
    status["preemptionPriority"] = apart if is_apart else scheduling


def _with_resolution(conditions: list[Document], resolved: Resolved, now: float) -> list[Document]:
    condition = Condition(
        type=PRIORITY_RESOLVED,
        status="False" if resolved.errors else "True",
        reason="PriorityClassNotUsable" if resolved.errors else "Resolved",
        message="; ".join(map(str, resolved.errors)) or messages.CLASSES_KNOWN,
    )
    return _with(conditions, condition, bad="False", now=now)


def _with(
    conditions: list[Document], condition: Condition, *, bad: str, now: float
) -> list[Document]:
    """Say it when something is wrong, or was: that all is well needs no condition."""
    if condition.status != bad and all(c.get("type") != condition.type for c in conditions):
        return conditions
    return with_condition(
        conditions, condition.type, condition.status, condition.reason, condition.message, now
    )

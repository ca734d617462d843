"""Deletes what the configuration wants kept for a while only (`objectRetentionPolicies`).

A Workload that has finished goes after its time; its Job stays. Where the queues have given a
Workload up, whoever asked for it goes after its time, a Job or pods, and takes the Workload along;
what a user has deactivated stays. A Workload that nobody asked for goes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from makeway.api.configuration import WorkloadRetention
from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.api.meta import Condition, OwnerReference, find_condition
from makeway.api.queueing import Workload
from makeway.controller.pod_members import unit_of_pod, unit_of_workload
from makeway.controller.workload_writes import deletion
from makeway.plane.parts import NOTHING, Plan, Reconciler
from makeway.plane.picture import Change, Object, Picture
from makeway.plane.writes import Delete, Key, Say
from makeway.translate import messages
from makeway.translate.workloads import DUE_TO


class Retention(Reconciler):
    """Its keys are Workloads."""

    resources: tuple[Resource, ...] = (WORKLOADS, JOBS, PODS)

    def __init__(self, picture: Picture, policy: WorkloadRetention) -> None:
        super().__init__()
        self._picture, self._policy = picture, policy
        self._pods = picture.index(PODS, _unit_of)

    def changed(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self.mark(change.key)

    def reconcile(self, key: Key, now: float) -> Plan:
        found = self._picture.find(WORKLOADS, key)
        if found is None or found.view is None:
            return NOTHING
        workload: Workload = found.view
        finished = _since(workload, "Finished")
        if finished is not None:
            due = _after(finished, self._policy.after_finished)
            return _plan(due, now, lambda: _gone(WORKLOADS, found, messages.KEPT_LONG_ENOUGH))
        evicted = find_condition(workload.status.conditions, "Evicted")
        if workload.spec.active or evicted is None or not _is_given_up(evicted):
            return NOTHING
        due = _after(evicted.last_transition_time, self._policy.after_deactivated_by_kueue)
        return _plan(due, now, lambda: self._without_owner(found))

    def _without_owner(self, workload: Object) -> Sequence[Delete]:
        owner: OwnerReference | None = workload.view.metadata.controller
        kinds = {kind.kind: kind for kind in (JOBS, PODS)}
        unit = unit_of_workload(workload)
        if owner is None and unit is not None:
            objects = [(PODS, key) for key in self._pods.keys(unit[0])]
        elif owner is not None and owner.kind in kinds:
            objects = [(kinds[owner.kind], Key(workload.key.namespace, owner.name))]
        else:
            objects = [(WORKLOADS, workload.key)] if owner is None else []
        there = [(kind, self._picture.find(kind, key)) for kind, key in objects]
        return [
            write
            for kind, found in there
            if found is not None and (owner is None or found.uid == owner.uid)
            for write in _gone(kind, found, messages.GIVEN_UP_LONG_ENOUGH)
        ]


def _unit_of(pod: Object) -> tuple[Key, None] | None:
    unit = unit_of_pod(pod)
    return None if unit is None else (unit, None)


def _since(workload: Workload, type: str) -> float | None:
    condition = find_condition(workload.status.conditions, type)
    is_true = condition is not None and condition.status == "True"
    return condition.last_transition_time if condition is not None and is_true else None


def _is_given_up(evicted: Condition) -> bool:
    return evicted.status == "True" and evicted.reason.startswith(DUE_TO)


def _after(since: float | None, kept_s: float | None) -> float | None:
    return None if since is None or kept_s is None else since + kept_s


def _plan(due: float | None, now: float, writes: Callable[[], Sequence[Delete]]) -> Plan:
    if due is None:
        return NOTHING
    return Plan(writes()) if due <= now else Plan(next_at=due)


def _gone(kind: Resource, found: Object, message: str) -> Sequence[Delete]:
    if found.document["metadata"].get("deletionTimestamp"):
        return ()
    metadata = found.document["metadata"]
    about = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    said = Say(about=about, reason="Deleted", message=message)
    return [deletion(kind, found.document, then=(said,))]

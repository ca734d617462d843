"""What becomes of a unit of pods, counted per pod set: its end, who is ready, who is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from makeway.api.meta import find_condition
from makeway.api.queueing import Workload
from makeway.client.client import Document
from makeway.controller.job_status import Draft
from makeway.controller.job_workload import POD_SET_NAME, holds_quota, is_evicted
from makeway.controller.pod_members import Member
from makeway.plane.writes import Key
from makeway.translate import messages
from makeway.translate.workloads import LACKS_PODS

PODS_FAILED = "PodsFailed"


class Unit(NamedTuple):
    """Pods and their Workload, as they are now."""

    key: Key
    group: str  # empty: it is a pod by itself
    members: tuple[Member, ...]  # the first come first
    workload: Workload
    document: Document  # the Workload's

    @property
    def active(self) -> list[Member]:
        return [member for member in self.members if member.is_active]

    @property
    def is_fast(self) -> bool:
        return any(member.is_fast for member in self.members)

    @property
    def counts(self) -> dict[str, int]:
        """How many pods it asks for, by pod set."""
        return {pod_set.name: pod_set.count for pod_set in self.workload.spec.pod_sets}

    def pod_set_of(self, member: Member) -> str:
        return member.role if self.group else POD_SET_NAME

    def counted(self, members: Iterable[Member]) -> Counter[str]:
        """How many these are, by pod set."""
        return Counter(map(self.pod_set_of, members))


def ending_of(unit: Unit) -> tuple[str, str] | None:
    """Reason and message of its end; None while it may still run.

    A group in which no pod is to be replaced has failed when its last pod is over.
    """
    if unit.active or not unit.members:
        return None
    if not unit.group:
        return _ending_of_pod(unit)
    total = sum(unit.counts.values())
    succeeded = sum(member.has_succeeded for member in unit.members)
    message = messages.PODS_SUCCEEDED.format(succeeded, total)
    if succeeded >= total:
        return "Succeeded", message
    if any(member.is_final for member in unit.members) and _has_failed(unit):
        return "Failed", message
    return None


def _has_failed(unit: Unit) -> bool:
    """Whether a pod has failed by itself, and none is left that could still do its work."""
    is_waiting = any(member.is_gated and not member.is_leaving for member in unit.members)
    has_failed = any(member.phase == "Failed" for member in unit.members)
    return has_failed and not is_waiting and not is_evicted(unit.workload)


def _ending_of_pod(unit: Unit) -> tuple[str, str] | None:
    for member in unit.members:
        is_stopped = member.is_leaving and is_evicted(unit.workload)
        if member.is_over and not is_stopped:
            return member.phase, f"Pod {member.phase.lower()}"
    return None


def is_gone(unit: Unit) -> bool:
    """Whether its pods are gone or go, and nobody is to replace them."""
    if unit.active or not all(member.is_leaving for member in unit.members):
        return False
    return not unit.group or not _is_kept(unit.workload)


def _is_kept(workload: Workload) -> bool:
    """Whether an eviction took the pods of a group, so that it waits for others in their place."""
    lack = find_condition(workload.status.conditions, LACKS_PODS)
    is_taken = lack is not None and lack.status == "True" and lack.reason != PODS_FAILED
    return is_taken or (is_evicted(workload) and holds_quota(workload))


def excess_of(unit: Unit) -> list[Member]:
    """Pods beyond what was admitted, the newest of each pod set."""
    found: list[Member] = []
    for name, count in unit.counts.items():
        present = [m for m in unit.members if m.is_present and unit.pod_set_of(m) == name]
        found += sorted(present, key=lambda member: member.rank)[count:]
    return found


def startable(unit: Unit) -> dict[str, list[Member]]:
    """Who may start, by pod set: no more at once than were admitted, those that leave counted."""
    used = unit.counted(m for m in unit.members if m.is_active or m.has_succeeded)
    waiting: dict[str, list[Member]] = {}
    for member in unit.members:
        if member.is_gated and not member.is_leaving:
            waiting.setdefault(unit.pod_set_of(member), []).append(member)
    return {
        name: waiting[name][: count - used[name]]
        for name, count in unit.counts.items()
        if name in waiting and count > used[name]
    }


def are_ready(unit: Unit) -> bool:
    ready = unit.counted(m for m in unit.members if m.has_succeeded or (m.is_active and m.is_ready))
    return all(ready[name] >= count for name, count in unit.counts.items())


def reclaimable(unit: Unit) -> dict[str, int]:
    """Pods of a group that have succeeded: nobody replaces them."""
    if not unit.group:
        return {}
    counts = unit.counted(m for m in unit.members if m.has_succeeded)
    return {name: min(counts[name], count) for name, count in unit.counts.items()}


def note_lack(unit: Unit, draft: Draft) -> None:
    """Tell whether a group waits for pods that replace others; no queue admits it before."""
    if not unit.group:
        return
    conditions = unit.workload.status.conditions
    told = find_condition(conditions, LACKS_PODS)
    is_told = told is not None and told.status == "True"
    if not _lacks_pods(unit):
        if is_told:
            draft.set(LACKS_PODS, "False", "PodsReady", messages.NO_PODS_TO_REPLACE)
        return
    evicted = find_condition(conditions, "Evicted")
    if evicted is not None and is_evicted(unit.workload) and holds_quota(unit.workload):
        draft.set(LACKS_PODS, "True", evicted.reason, evicted.message)
    elif not is_told:
        draft.set(LACKS_PODS, "True", PODS_FAILED, messages.PODS_TO_REPLACE)


def _lacks_pods(unit: Unit) -> bool:
    present = unit.counted(m for m in unit.members if m.is_present)
    if unit.is_fast:
        return not present
    if holds_quota(unit.workload):
        return any(present[name] < count for name, count in unit.counts.items())
    return present.total() < sum(unit.counts.values())

"""Whoever is preempted had to be: without that one, the preemptor would not have fitted.

Plain arithmetic once more. Between a decision and its write others may have let go, and others who
were admitted before may be written after; so a violation is reported only if the victim could have
stayed at every moment of the time that excuses, before and after. And somebody may be admitted and
deleted before that is written: then no object ever shows what was counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.harness.quota_forest import QuotaForest
from tests.simulation.checkers import (
    PREEMPTOR_IN_MESSAGE,
    STALE_S,
    Cell,
    find,
    has,
    holds_quota,
    is_edit,
    name_of,
    pod_requests,
    queue_of,
    quotas_of,
    usage_of,
)
from tests.simulation.observer import (
    LOCAL_QUEUES,
    QUEUES,
    WORKLOADS,
    Change,
    Checker,
    Document,
    Place,
    Truth,
)

Workloads = Mapping[Place, Document]


def asked_by(workload: Document) -> Counter[str]:
    """What a workload needs to be admitted as a whole."""
    status = workload.get("status") or {}
    given_back = {pods["name"]: pods["count"] for pods in status.get("reclaimablePods") or ()}
    asked: Counter[str] = Counter()
    for pods in workload["spec"]["podSets"]:
        count = max(0, pods["count"] - given_back.get(pods["name"], 0))
        for resource, one in pod_requests(pods["template"]["spec"]).items():
            asked[resource] += one * count
    return asked


def queue_for(workload: Document, truth: Truth) -> Document | None:
    """The queue behind the door at which a workload stands; None if that leads nowhere."""
    place = (workload["metadata"]["namespace"], workload["spec"]["queueName"])
    local = truth.get(LOCAL_QUEUES, place)
    return None if local is None else truth.get(QUEUES, ("", local["spec"]["clusterQueue"]))


def has_room(quotas: QuotaForest[Cell], queue: str, flavor: str, asked: Mapping[str, int]) -> bool:
    return all(
        quotas.available(f"queue:{queue}", Cell(flavor, resource)) >= needed
        for resource, needed in asked.items()
    )


class Preemption(NamedTuple):
    change: Change
    preemptor: Document
    queue: Document  # the preemptor's


class NecessityChecker(Checker):
    def __init__(self, stale_s: float = STALE_S) -> None:
        self._stale_s = stale_s
        self._recent: deque[Change] = deque()  # changes of workloads
        self._doubtful: list[Preemption] = []
        self._unclear_at = -stale_s

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if is_edit(change) or _may_have_been_admitted(change):
            self._unclear_at = change.at
            self._doubtful.clear()
        if change.kind != WORKLOADS:
            return
        self._recent.append(change)
        while self._recent[0].at < change.at - self._stale_s:
            self._recent.popleft()
        self._doubtful = [p for p in self._doubtful if self._is_doubtful(p, truth)]
        if change.at - self._unclear_at > self._stale_s and _is_preempted(change):
            self._note(change, truth)
        yield from ()

    def later(self, truth: Truth) -> Iterator[str]:
        for preemption in self._doubtful:
            if truth.now - preemption.change.at > self._stale_s:
                who = "/".join(preemption.change.place)
                yield f"{who} was preempted for {name_of(preemption.preemptor)}, who fits anyway"

    def _note(self, change: Change, truth: Truth) -> None:
        namespace, _, name = preemptor_of(change.after or {}).partition("/")
        preemptor = truth.get(WORKLOADS, (namespace, name))
        queue = None if preemptor is None else queue_for(preemptor, truth)
        if preemptor is None or queue is None or not holds_quota(change.before):
            return
        preemption = Preemption(change, preemptor, queue)
        now = {_place(workload): workload for workload in truth.all(WORKLOADS)}
        if all(_could_stay(preemption, then, truth) for then in self._moments(now)):
            self._doubtful.append(preemption)

    def _is_doubtful(self, preemption: Preemption, truth: Truth) -> bool:
        """Still: what was decided at the same time may be written later."""
        now = {_place(workload): workload for workload in truth.all(WORKLOADS)}
        return _could_stay(preemption, now, truth)

    def _moments(self, workloads: Workloads) -> Iterator[Workloads]:
        """All workloads as they are, and as they were before each recent change."""
        then = dict(workloads)
        yield then
        for change in reversed(self._recent):
            then.pop(change.place, None)
            if change.before is not None:
                then[change.place] = change.before
            yield then


def preemptor_of(workload: Document) -> str:
    """For whom it makes way; empty if for nobody."""
    condition = find(workload, "Preempted") or {}
    found = PREEMPTOR_IN_MESSAGE.search(condition.get("message", ""))
    return found["name"] if found and condition["status"] == "True" else ""


def _is_preempted(change: Change) -> bool:
    """Now, and was not a moment ago."""
    after, before = change.after or {}, change.before or {}
    return has(after, "Preempted") and find(after, "Preempted") != find(before, "Preempted")


def _may_have_been_admitted(change: Change) -> bool:
    """Whether a workload is gone of which nobody can tell: it waited, as far as its object said."""
    before = change.before
    if change.kind != WORKLOADS or change.after is not None or before is None:
        return False
    return not (holds_quota(before) or has(before, "Finished"))


def _could_stay(preemption: Preemption, workloads: Workloads, truth: Truth) -> bool:
    """Whether the preemptor fits beside the victim, when its other victims are gone.

    Where a place may be held for somebody else, no arithmetic tells; nor where the preemptor would
    have to borrow what another may wait for, who borrows less far.
    """
    (change, preemptor, queue) = preemption
    assert change.before is not None
    quotas, usage = quotas_of(truth), usage_of(change.before)
    quotas.charge(queue_of(change.before), usage)
    for place, workload in workloads.items():
        if place in (change.place, _place(preemptor)):
            continue
        if has(workload, "Preemptor"):
            return False
        if holds_quota(workload) and preemptor_of(workload) != name_of(preemptor):
            quotas.charge(queue_of(workload), usage_of(workload))
    name, asked = queue["metadata"]["name"], asked_by(preemptor)
    for flavor in {cell.flavor for cell in usage}:
        wanted = {Cell(flavor, resource): needed for resource, needed in asked.items()}
        if not has_room(quotas, name, flavor, asked):
            return False
        if quotas.level(name, wanted) and _somebody_waits(queue, workloads, truth):
            return False
    return True


def _somebody_waits(but_in: Document, workloads: Workloads, truth: Truth) -> bool:
    """Whether a workload wants quota in any other queue."""
    waiting = [
        workload
        for workload in workloads.values()
        if not holds_quota(workload) and not has(workload, "Finished")
    ]
    return any(queue_for(workload, truth) not in (None, but_in) for workload in waiting)


def _place(workload: Document) -> Place:
    return workload["metadata"]["namespace"], workload["metadata"]["name"]

"""What must hold whatever happens, told from the objects in the store alone.

Nothing here asks the code under test: quota is added up anew from the specs of queues and cohorts,
and the rules of preemption are read off the policies. Those who act do so on what they have heard,
which is a little old; where that excuses them, the excuse ends after `stale_s`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

from makeway.api.quantity import amount
from makeway.engine.model import Quota
from tests.harness.quota_forest import QuotaForest
from tests.simulation.observer import (
    COHORTS,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    QUEUES,
    WORKLOADS,
    Change,
    Checker,
    Document,
    Place,
    Truth,
    owner_uid,
)

STALE_S = 120.0  # longer than any lag, outage and back-off together
EVICTIONS_MAX = 15  # of one workload; whoever goes and comes more often goes in circles
TWO_MINDS_S = 30.0  # after two have decided at once, until the one left knows what the other did
CIRCLE_S, WRITES_MAX = 60.0, 60  # so many writes of one object in such a time are a circle
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
MANAGED = "kueue.x-k8s.io/managed"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
INDEX = "batch.kubernetes.io/job-completion-index"

Amounts = Mapping[str, int]  # by resource


class Cell(NamedTuple):
    flavor: str
    resource: str


# --- reading objects ---


def has(document: Document, condition: str) -> bool:
    """Whether a condition is True."""
    found = find(document, condition)
    return found is not None and found.get("status") == "True"


def find(document: Document, condition: str) -> Document | None:
    for found in (document.get("status") or {}).get("conditions") or ():
        if found["type"] == condition:
            return dict(found)
    return None


def is_over(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def name_of(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")


def pod_requests(spec: Document) -> Counter[str]:
    """Of a pod without init containers, as the worlds have them."""
    total: Counter[str] = Counter()
    for container in spec["containers"]:
        for resource, text in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] += amount(resource, text)
    return total


def holds_quota(workload: Document | None) -> bool:
    return (
        workload is not None
        and bool((workload.get("status") or {}).get("admission"))
        and has(workload, "QuotaReserved")
        and not has(workload, "Finished")
    )


def queue_of(workload: Document) -> str:
    return str(workload["status"]["admission"]["clusterQueue"])


def usage_of(workload: Document) -> Counter[Cell]:
    """What a workload counts for now: pods that it asked for and needs no more don't."""
    asked = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
    for pods in workload["status"].get("reclaimablePods") or ():
        asked[pods["name"]] -= pods["count"]
    usage: Counter[Cell] = Counter()
    for assigned in workload["status"]["admission"]["podSetAssignments"]:
        count = assigned.get("count") or 1
        left = max(0, min(count, asked[assigned["name"]]))
        for resource, flavor in (assigned.get("flavors") or {}).items():
            whole = amount(resource, assigned["resourceUsage"][resource])
            usage[Cell(flavor, resource)] += whole * left // count
    return usage


def pods_of(workload: Document, truth: Truth) -> Iterator[Document]:
    """The pods of its job; or the pod itself, or the group of pods, that it stands for."""
    owner = owner_uid(workload)
    yield from truth.owned_by(owner, PODS)
    for pod in truth.all(PODS):
        metadata = pod["metadata"]
        if MANAGED not in (labels := metadata.get("labels") or {}):
            continue
        group = labels.get(GROUP_NAME)
        if metadata["uid"] == owner or (
            group is not None and group == workload["metadata"]["name"]
        ):
            yield pod


def job_of(pod: Document, truth: Truth) -> Document | None:
    for reference in pod["metadata"].get("ownerReferences") or ():
        job = truth.get(JOBS, (pod["metadata"]["namespace"], reference["name"]))
        if job is not None and job["metadata"]["uid"] == reference["uid"]:
            return job
    return None


def is_replaceable(pod: Document, job: Document) -> bool:
    """Whether another may do its work, though it has not ended: it was told to, and that will do.

    So in Kubernetes, unless the job says that only pods which have failed are replaced.
    """
    spec = job["spec"]
    policy = spec.get("podReplacementPolicy")
    only_failed = policy == "Failed" if policy is not None else "podFailurePolicy" in spec
    return "deletionTimestamp" in pod["metadata"] and not only_failed


def flavors_of(queue: Document) -> list[str]:
    (group,) = queue["spec"]["resourceGroups"]
    return [flavor["name"] for flavor in group["flavors"]]


def is_open(queue: Document, truth: Truth) -> bool:
    """Whether a queue admits anybody: it is not stopped, and has all its flavors."""
    is_stopped = queue["spec"].get("stopPolicy", "None") != "None"
    return not is_stopped and all(truth.get(FLAVORS, ("", name)) for name in flavors_of(queue))


# --- quota ---


def quotas_of(truth: Truth) -> QuotaForest[Cell]:
    """As the specs have it; nobody holds any yet."""
    forest = QuotaForest[Cell]()
    for queue in truth.all(QUEUES):
        cohort = queue["spec"].get("cohortName")
        forest.add_queue(queue["metadata"]["name"], cohort, _quotas(queue))
    for cohort in truth.all(COHORTS):
        parent = (cohort.get("spec") or {}).get("parentName")
        forest.add_cohort(cohort["metadata"]["name"], parent, _quotas(cohort))
    return forest


def _quotas(document: Document) -> dict[Cell, Quota]:
    quotas = {}
    for group in (document.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                kinds = ("nominalQuota", "borrowingLimit", "lendingLimit")
                amounts = (_amount(quota["name"], quota.get(kind)) for kind in kinds)
                nominal, borrowing, lending = amounts
                cell = Cell(flavor["name"], quota["name"])
                quotas[cell] = Quota(nominal or 0, borrowing, lending)
    return quotas


def _amount(resource: str, text: str | None) -> int | None:
    return None if text is None else amount(resource, text)


def quotas_in_use(truth: Truth, but: Place | None = None) -> QuotaForest[Cell]:
    quotas = quotas_of(truth)
    for workload in truth.all(WORKLOADS):
        metadata = workload["metadata"]
        if holds_quota(workload) and (metadata["namespace"], metadata["name"]) != but:
            quotas.charge(queue_of(workload), usage_of(workload))
    return quotas


class QuotaChecker(Checker):
    """No admission exceeds what its queue may have, and it counts for what its pods ask.

    Two who decide at once can't know what the other is about to give away.
    """

    def __init__(self, stale_s: float = STALE_S) -> None:
        self._stale_s = stale_s
        self._edited_at = -stale_s

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if is_edit(change):
            self._edited_at = change.at
        elif change.kind == WORKLOADS and change.after is not None and holds_quota(change.after):
            if holds_quota(change.before) and _same_admission(change.before, change.after):
                return
            yield from self._amounts(change.after)
            is_alone = change.at - truth.two_decided_at > TWO_MINDS_S
            if is_alone and change.at - self._edited_at > self._stale_s:
                yield from self._room(change.after, change.place, truth)

    def _amounts(self, workload: Document) -> Iterator[str]:
        templates = {pods["name"]: pods["template"] for pods in workload["spec"]["podSets"]}
        for assigned in workload["status"]["admission"]["podSetAssignments"]:
            asked = pod_requests(templates[assigned["name"]]["spec"])
            for resource in assigned.get("flavors") or {}:
                counted = amount(resource, assigned["resourceUsage"][resource])
                if counted != asked[resource] * assigned["count"]:
                    yield f"{name_of(workload)} counts for {counted} {resource}, its pods differ"

    def _room(self, workload: Document, place: Place, truth: Truth) -> Iterator[str]:
        quotas, queue = quotas_in_use(truth, but=place), queue_of(workload)
        if not quotas.has_queue(queue):
            yield f"{name_of(workload)} is admitted by {queue}, which is not there"
            return
        for cell, used in usage_of(workload).items():
            room = quotas.available(f"queue:{queue}", cell)
            if used > room:
                what = f"{cell.resource} of {cell.flavor}"
                yield f"{name_of(workload)} takes {used} {what}, but {queue} may have {room} more"


def is_edit(change: Change) -> bool:
    """Whether somebody changed or removed a queue or cohort that others may know otherwise."""
    if change.kind not in (QUEUES, COHORTS) or change.before is None:
        return False
    return bool((change.after or {}).get("spec") != change.before.get("spec"))


def _same_admission(before: Document | None, after: Document) -> bool:
    return before is not None and before["status"]["admission"] == after["status"]["admission"]


# --- preemption ---

PREEMPTOR_IN_MESSAGE = re.compile(r"accommodate a workload .*; preemptor: (?P<name>[^,]+)")


class PreemptionChecker(Checker):
    """Whoever is preempted may be: by the policy of the other's queue, its priority, its debts."""

    def __init__(self, stale_s: float = STALE_S) -> None:
        self._stale_s = stale_s
        self._known: dict[str, Document] = {}  # by name; also those that are gone
        self._priorities: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._queues: dict[str, str] = {}  # of workloads that held quota
        self._borrowed_at: dict[str, float] = {}
        self._doubtful: list[tuple[float, str, str]] = []  # when, whose debts, and what
        self._edited_at = -stale_s

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if is_edit(change):
            self._edited_at = change.at
        if change.kind != WORKLOADS:
            return
        if change.after is not None:
            self._note(change.at, change.after)
        if self._doubtful:
            self._note_borrowers(change.at, truth)
        was = change.before is not None and find(change.before, "Preempted")
        is_now = find(change.after, "Preempted") if change.after is not None else None
        is_new = is_now is not None and is_now["status"] == "True" and is_now != was
        if change.after is not None and is_now is not None and is_new:
            self._note_borrowers(change.at, truth)
            yield from self._judge(change.at, change.after, is_now, truth)
        elif change.before is not None and holds_quota(change.before):
            self._note_borrowers(change.at, truth, change.before)

    def later(self, truth: Truth) -> Iterator[str]:
        """Debts may be written after those who have to make way for them."""
        self._note_borrowers(truth.now, truth)
        for at, queue, what in self._doubtful:
            is_late = truth.now - at > self._stale_s
            if is_late and self._borrowed_at.get(queue, -inf) < at - self._stale_s:
                yield f"{what}, but {queue} borrows nothing"

    def _note(self, at: float, workload: Document) -> None:
        name = name_of(workload)
        self._known[name] = workload
        priority = workload["spec"].get("priority") or 0
        if not self._priorities[name] or self._priorities[name][-1][1] != priority:
            self._priorities[name].append((at, priority))
        if holds_quota(workload):
            self._queues[name] = queue_of(workload)

    def _note_borrowers(self, at: float, truth: Truth, gone: Document | None = None) -> None:
        """Remember who borrows, or did until a moment ago."""
        quotas = quotas_in_use(truth)
        if gone is not None:
            quotas.charge(queue_of(gone), usage_of(gone))
        for queue in truth.all(QUEUES):
            name = queue["metadata"]["name"]
            if quotas.borrows(node := f"queue:{name}", quotas.used[node]):
                self._borrowed_at[name] = at

    def _judge(
        self, at: float, victim: Document, condition: Document, truth: Truth
    ) -> Iterator[str]:
        name, reason = name_of(victim), condition["reason"]
        found = PREEMPTOR_IN_MESSAGE.search(condition.get("message", ""))
        preemptor = self._known.get(found["name"]) if found else None
        if preemptor is None:
            yield f"{name} is preempted for nobody known: {condition.get('message')}"
            return
        if at - self._edited_at <= self._stale_s:
            return
        local = truth.get(
            LOCAL_QUEUES,
            (preemptor["metadata"]["namespace"], preemptor["spec"]["queueName"]),
        )
        queue = local and truth.get(QUEUES, ("", local["spec"]["clusterQueue"]))
        if not queue:
            return
        for wrong in self._rules(at, name, name_of(preemptor), reason, queue):
            yield f"{name} is preempted ({reason}) for {name_of(preemptor)}: {wrong}"

    def _rules(
        self, at: float, victim: str, preemptor: str, reason: str, queue: Document
    ) -> Iterator[str]:
        rules = queue["spec"].get("preemption") or {}
        own = queue["metadata"]["name"]
        theirs = self._queues.get(victim)
        if theirs is None:
            return  # its admission was overtaken, and never written
        is_lower = self._lowest(victim, at) < self._highest(preemptor, at)
        is_equal = self._lowest(victim, at) == self._highest(preemptor, at)
        if reason == "InClusterQueue":
            policy = rules.get("withinClusterQueue", "Never")
            allowed = is_lower or (is_equal and policy == "LowerOrNewerEqualPriority")
            if theirs != own:
                yield f"it runs in {theirs}, not in {own}"
            if policy == "Never" or not allowed:
                yield f"the policy is {policy}, and the priorities forbid it"
        elif reason in ("InCohortReclamation", "InCohortReclaimWhileBorrowing"):
            policy = rules.get("reclaimWithinCohort", "Never")
            if theirs == own:
                yield "it runs in the same queue"
            if policy == "Never" or (policy == "LowerPriority" and not is_lower):
                yield f"the policy is {policy}, and the priorities forbid it"
            if at - self._borrowed_at.get(theirs, -self._stale_s) > self._stale_s:
                self._doubtful.append((at, theirs, f"{victim} is preempted for {preemptor}"))
            if reason == "InCohortReclaimWhileBorrowing":
                yield from self._while_borrowing(at, victim, rules, is_lower)
        elif reason != "InCohortFairSharing":
            yield "there is no such rule"

    def _while_borrowing(
        self, at: float, victim: str, rules: Document, is_lower: bool
    ) -> Iterator[str]:
        policy = rules.get("borrowWithinCohort") or {}
        threshold = policy.get("maxPriorityThreshold")
        if policy.get("policy", "Never") == "Never" or not is_lower:
            yield "it may not be taken while borrowing"
        if threshold is not None and self._lowest(victim, at) > threshold:
            yield f"its priority is above {threshold}"

    def _lowest(self, name: str, at: float) -> int:
        return min(self._recent(name, at))

    def _highest(self, name: str, at: float) -> int:
        return max(self._recent(name, at))

    def _recent(self, name: str, at: float) -> list[int]:
        """The priorities that somebody may still believe a workload to have."""
        held = self._priorities[name]
        ends = [until for until, _ in held[1:]] + [at]
        return [p for (_, p), end in zip(held, ends, strict=True) if at - end <= self._stale_s]


class EvictionChecker(Checker):
    """Nobody is evicted again and again."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind != WORKLOADS or change.after is None or not has(change.after, "Evicted"):
            return
        if change.before is not None and has(change.before, "Evicted"):
            return
        name = name_of(change.after)
        self._times[name] += 1
        if self._times[name] == EVICTIONS_MAX + 1:
            yield f"{name} was evicted more than {EVICTIONS_MAX} times"


class CircleChecker(Checker):
    """No object is written again and again."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, Place], deque[float]] = defaultdict(deque)

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        times = self._times[change.kind, change.place]
        times.append(change.at)
        while times[0] < change.at - CIRCLE_S:
            times.popleft()
        if len(times) == WRITES_MAX:
            what = f"{change.kind} {'/'.join(change.place).lstrip('/')}"
            yield f"{what} was written {WRITES_MAX} times within {CIRCLE_S:.0f} s"


# --- what runs ---


class AdmissionBeforePods(Checker):
    """Pods of a queued Job are made, and go on, only while its Workload is admitted."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}  # job uid -> when its workload ceased to be admitted
        self._admitted: dict[str, str] = {}  # workload -> uid of the job, while admitted
        self._reported: set[str] = set()

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind == WORKLOADS:
            self._note(change)
        elif change.kind == PODS and change.before is None and change.after is not None:
            yield from self._judge(change.after, truth)

    def later(self, truth: Truth) -> Iterator[str]:
        for pod in truth.all(PODS):
            if not is_over(pod) and "deletionTimestamp" not in pod["metadata"]:
                yield from self._judge(pod, truth)

    def _note(self, change: Change) -> None:
        name = "/".join(change.place)
        after = change.after
        if after is not None and has(after, "Admitted") and not has(after, "Evicted"):
            self._admitted[name] = owner_uid(after)
            self._until.pop(owner_uid(after), None)
        elif name in self._admitted:
            self._until[self._admitted.pop(name)] = change.at

    def _judge(self, pod: Document, truth: Truth) -> Iterator[str]:
        job, name = owner_uid(pod), name_of(pod)
        if name in self._reported or not self._is_queued(pod, truth):
            return
        if job in self._admitted.values():
            return
        if job not in self._until:
            self._reported.add(name)
            yield f"pod {name} is there, but its job was never admitted"
        elif truth.now - self._until[job] > STALE_S:
            self._reported.add(name)
            yield f"pod {name} goes on, but its job is no longer admitted"

    def _is_queued(self, pod: Document, truth: Truth) -> bool:
        for reference in pod["metadata"].get("ownerReferences") or ():
            if reference["kind"] == "Job":
                job = truth.get(JOBS, (pod["metadata"]["namespace"], reference["name"]))
                return job is not None and QUEUE_NAME in (job["metadata"].get("labels") or {})
        return False


class GateChecker(Checker):
    """A pod that waits in a queue by itself gets a node only while its Workload is admitted."""

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        pod = change.after
        if change.kind != PODS or pod is None or not pod["spec"].get("nodeName"):
            return
        if change.before is not None and change.before["spec"].get("nodeName"):
            return
        if MANAGED not in (pod["metadata"].get("labels") or {}):
            return
        workloads = [w for w in truth.all(WORKLOADS) if pod in pods_of(w, truth)]
        # An eviction may overtake the binding; what holds quota still has room for the pod.
        if not any(holds_quota(w) and has(w, "Admitted") for w in workloads):
            yield f"pod {name_of(pod)} gets a node, but is not admitted"


class ReleaseChecker(Checker):
    """Quota is given back only when nothing runs on it any more."""

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind != WORKLOADS or change.before is None or change.after is None:
            return
        if not holds_quota(change.before) or holds_quota(change.after):
            return
        for pod in pods_of(change.after, truth):
            if not is_over(pod) and pod["spec"].get("nodeName"):
                yield f"{name_of(change.after)} gives its quota back, but pod {name_of(pod)} runs"


class JobChecker(Checker):
    """A job runs no more pods than it may, and no share of its work twice without need."""

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind != PODS or change.after is None or not _runs(change.after):
            return
        if change.before is not None and _runs(change.before):
            return
        pod, job = change.after, job_of(change.after, truth)
        if job is None:
            return
        running = [other for other in truth.owned_by(owner_uid(pod), PODS) if _runs(other)]
        staying = [other for other in running if "deletionTimestamp" not in other["metadata"]]
        if len(staying) > job["spec"].get("parallelism", 1):
            yield f"{len(staying)} pods of {name_of(job)} run at once"
        index = _index(pod)
        doing = [other for other in running if not is_replaceable(other, job)]
        twins = [name_of(other) for other in doing if _index(other) == index]
        if index is not None and len(twins) > 1:
            yield f"index {index} of {name_of(job)} runs twice at once: {', '.join(twins)}"


def _runs(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def _index(pod: Document) -> str | None:
    return (pod["metadata"].get("annotations") or {}).get(INDEX)


class NodeChecker(Checker):
    """No node is given more pods than it has room for.

    Two who decide at once don't see each other's bindings; on a cluster the kubelet refuses the
    second pod.
    """

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind != PODS or change.after is None:
            return
        name = change.after["spec"].get("nodeName")
        if not name or (change.before is not None and change.before["spec"].get("nodeName")):
            return
        node = truth.get(NODES, ("", name))
        if node is None:
            yield f"pod {name_of(change.after)} is bound to {name}, which is not there"
            return
        if change.at - truth.two_decided_at <= TWO_MINDS_S:
            return
        used: Counter[str] = Counter(pods=0)
        for pod in truth.all(PODS):
            if pod["spec"].get("nodeName") == name and not is_over(pod):
                used.update(pod_requests(pod["spec"]), pods=1)
        for resource, taken in used.items():
            room = amount(resource, node["status"]["allocatable"].get(resource, 0))
            if taken > room:
                yield f"node {name} has {room} {resource}, but its pods ask for {taken}"


class OrphanChecker(Checker):
    """What belongs to a Job goes when the Job goes."""

    def __init__(self) -> None:
        self._gone_at: dict[str, float] = {}  # by uid of the Job

    def saw(self, change: Change, truth: Truth) -> Iterator[str]:
        if change.kind == JOBS and change.before is not None and change.after is None:
            self._gone_at[change.before["metadata"]["uid"]] = change.at
        yield from ()

    def later(self, truth: Truth) -> Iterator[str]:
        for uid, at in self._gone_at.items():
            if truth.now - at > STALE_S:
                for kind in (WORKLOADS, PODS):
                    for left in truth.owned_by(uid, kind):
                        yield f"{kind} {name_of(left)} is still there, its job is gone"

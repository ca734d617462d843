"""Makeway's kinds: defaults, rules within one object, changes."""

from typing import Any

from tests.harness.documents import (
    CLUSTER_QUEUES,
    QUEUE_KINDS,
    cluster_queue,
    condition,
    group,
    queueing,
    template,
    workload,
)
from tests.kube.stories.registry import story
from tests.kube.story_client import MERGE, StoryClient


@story
async def queue_kinds_are_completed(t: StoryClient) -> None:
    plain = queueing("ClusterQueue", "complete-plain")
    await t.call("a queue with nothing in it", "POST", CLUSTER_QUEUES, plain)
    full = cluster_queue(
        "complete-full",
        cohortName="lab",
        resourceGroups=[group("cpu", "memory", borrowingLimit="2", lendingLimit=1)],
        preemption={
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority"},
        },
        flavorFungibility={
            "whenCanBorrow": "TryNextFlavor",
            "fallbackStrategy": {"rules": [{"name": "*", "timeout": "10m"}]},
        },
        admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]},
        fairSharing={"weight": "2"},
    )
    await t.call("a queue with much", "POST", CLUSTER_QUEUES, full)
    url = f"{QUEUE_KINDS}/resourceflavors"
    labels = {"nodeLabels": {"type": "spot"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    labels["nodeTaints"] = [{"key": "a", "value": "b", "effect": "NoSchedule"}]
    await t.call("a flavor", "POST", url, queueing("ResourceFlavor", "complete-spot", spec=labels))
    await t.call("an empty flavor", "POST", url, queueing("ResourceFlavor", "complete-empty"))
    url = f"{QUEUE_KINDS}/cohorts"
    cohort = {"parentName": "root", "resourceGroups": [group("cpu")]}
    await t.call("a cohort", "POST", url, queueing("Cohort", "complete-lab", spec=cohort))
    url = t.apis("kueue.x-k8s.io/v1beta2", "localqueues")
    door = queueing("LocalQueue", "team", spec={"clusterQueue": "complete-full"})
    await t.call("a local queue", "POST", url, door)
    await t.call("a workload", "POST", t.workloads(), workload("w"))
    bare = workload("bare", podSets=[{"template": template()}])
    await t.call("a workload of one pod", "POST", t.workloads(), bare)
    url = f"{QUEUE_KINDS}/workloadpriorityclasses"
    rank = queueing("WorkloadPriorityClass", "complete-high", value=100)
    await t.call("a priority class", "POST", url, rank)
    url = f"{QUEUE_KINDS}/admissionchecks"
    check = queueing("AdmissionCheck", "complete-check", spec={"controllerName": "example.com/c"})
    await t.call("an admission check", "POST", url, check)


def _quota(**quota: Any) -> dict[str, Any]:
    return {"resourceGroups": [group("cpu", **quota)]}


def _two_groups() -> dict[str, Any]:
    return {"resourceGroups": [group("cpu"), group("cpu", flavor="other")]}


def _mismatch(*covered: str) -> dict[str, Any]:
    broken = group("cpu", "memory")
    broken["coveredResources"] = list(covered)
    return {"resourceGroups": [broken]}


_BAD_QUEUES: dict[str, dict[str, Any]] = {
    "a strategy": {"queueingStrategy": "LIFO"},
    "a stop policy": {"stopPolicy": "Pause"},
    "a negative quota": _quota(nominalQuota=-1),
    "a negative quota as text": _quota(nominalQuota="-100m"),
    "no quantity": _quota(nominalQuota="four"),
    "no quota": _quota(nominalQuota=None),
    "a borrowing limit without a cohort": _quota(borrowingLimit=1),
    "a lending limit without a cohort": _quota(lendingLimit=1),
    "a negative borrowing limit": {"cohortName": "lab", **_quota(borrowingLimit=-1)},
    "more lent than there is": {"cohortName": "lab", **_quota(lendingLimit=5)},
    "a resource in two groups": _two_groups(),
    "fewer quotas than resources": _mismatch("cpu", "memory", "gpu"),
    "other quotas than resources": _mismatch("cpu", "gpu"),
    "quotas in another order": _mismatch("memory", "cpu"),
    "no flavors": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]},
    "no resources": {"resourceGroups": [{"coveredResources": [], "flavors": []}]},
    "a cohort name": {"cohortName": "My Lab"},
    "borrowing without reclaiming": {
        "preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}
    },
    "a threshold without borrowing": {
        "preemption": {"borrowWithinCohort": {"maxPriorityThreshold": 5}}
    },
    "a threshold beyond all numbers": {
        "preemption": {
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 2**31},
        }
    },
    "a negative weight": {"fairSharing": {"weight": "-1"}},
    "a preference that does not count": {
        "flavorFungibility": {"preference": "PreemptionOverBorrowing"}
    },
    "no checks": {"admissionChecksStrategy": {"admissionChecks": []}},
    "a check twice": {
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "a"}]}
    },
    "a fallback without time": {
        "flavorFungibility": {
            "fallbackStrategy": {"rules": [{"name": "*", "trigger": "TimeoutForPodsReadyExceeded"}]}
        }
    },
    "a fallback with a time for nothing": {
        "flavorFungibility": {
            "fallbackStrategy": {
                "rules": [{"name": "*", "trigger": "AdmissionCheckRejected", "timeout": "1m"}]
            }
        }
    },
    "a fallback in no time": {
        "flavorFungibility": {"fallbackStrategy": {"rules": [{"name": "*", "timeout": "0s"}]}}
    },
}


@story
async def bad_queues_are_refused(t: StoryClient) -> None:
    for step, spec in _BAD_QUEUES.items():
        await t.call(step, "POST", CLUSTER_QUEUES, cluster_queue("bad", **spec))
    good = cluster_queue("bad-later", cohortName="lab", **_quota(borrowingLimit=1))
    await t.quiet("POST", CLUSTER_QUEUES, good)
    patch = {"spec": {"cohortName": None}}
    await t.call("a cohort taken away", "PATCH", f"{CLUSTER_QUEUES}/bad-later", patch, MERGE)


@story
async def bad_things_around_queues_are_refused(t: StoryClient) -> None:
    url = f"{QUEUE_KINDS}/resourceflavors"
    taint = {"nodeTaints": [{"key": "a", "effect": "Sometimes"}]}
    await t.call("a taint", "POST", url, queueing("ResourceFlavor", "bad", spec=taint))
    many = {"nodeLabels": {f"l{number}": "x" for number in range(9)}}
    await t.call("nine labels", "POST", url, queueing("ResourceFlavor", "bad", spec=many))
    url = f"{QUEUE_KINDS}/cohorts"
    own = queueing("Cohort", "bad", spec={"parentName": "bad"})
    await t.call("its own parent", "POST", url, own)
    limit = queueing("Cohort", "bad", spec=_quota(lendingLimit=1))
    await t.call("a limit at the root", "POST", url, limit)
    url = t.apis("kueue.x-k8s.io/v1beta2", "localqueues")
    await t.quiet("POST", url, queueing("LocalQueue", "team", spec={"clusterQueue": "a"}))
    moved = {"spec": {"clusterQueue": "b"}}
    await t.call("another queue behind a door", "PATCH", f"{url}/team", moved, MERGE)
    held = {"spec": {"stopPolicy": "Hold"}}
    await t.call("a door held", "PATCH", f"{url}/team", held, MERGE, show=("spec",))
    url = f"{QUEUE_KINDS}/workloadpriorityclasses"
    await t.call("no value", "POST", url, queueing("WorkloadPriorityClass", "bad"))
    await t.quiet("POST", url, queueing("WorkloadPriorityClass", "bad-high", value=1))
    await t.call("another value", "PATCH", f"{url}/bad-high", {"value": 2}, MERGE)
    url = f"{QUEUE_KINDS}/admissionchecks"
    await t.call("no controller", "POST", url, queueing("AdmissionCheck", "bad", spec={}))
    await t.call("no spec", "POST", url, queueing("AdmissionCheck", "bad"))
    empty = queueing("AdmissionCheck", "bad", spec={"controllerName": ""})
    await t.call("an empty controller", "POST", url, empty)
    good = queueing("AdmissionCheck", "bad-check", spec={"controllerName": "a"})
    await t.quiet("POST", url, good)
    other = {"spec": {"controllerName": "b"}}
    await t.call("another controller", "PATCH", f"{url}/bad-check", other, MERGE)


def _sets(*sets: dict[str, Any]) -> dict[str, Any]:
    return {"podSets": [{"template": template(), **one} for one in sets]}


_BAD_WORKLOADS: dict[str, dict[str, Any]] = {
    "no pod sets": {"podSets": []},
    "a pod set without a template": {"podSets": [{"name": "main", "count": 1}]},
    "a negative count": _sets({"count": -1}),
    "a name twice": _sets({"name": "a"}, {"name": "a"}),
    "a name that is none": _sets({"name": "A_b"}),
    "a least count above the count": _sets({"count": 2, "minCount": 3}),
    "two least counts": _sets(
        {"name": "a", "count": 2, "minCount": 1}, {"name": "b", "count": 2, "minCount": 1}
    ),
    "nineteen pod sets": _sets(*({"name": f"s{number}"} for number in range(19))),
    "a class without a priority": {
        "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "h"}
    },
    "a class of another kind": {
        "priority": 1,
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "h"},
    },
    "no time at all": {"maximumExecutionTimeSeconds": 0},
    "a queue name": {"queueName": "My Team"},
}


@story
async def bad_workloads_are_refused(t: StoryClient) -> None:
    for step, spec in _BAD_WORKLOADS.items():
        await t.call(step, "POST", t.workloads(), workload("bad", **spec))


def _admission(*names: str) -> dict[str, Any]:
    assignments = [
        {"name": name, "count": 2, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "2"}}
        for name in names
    ]
    return {"clusterQueue": "vision", "podSetAssignments": assignments}


@story
async def the_life_of_a_workload(t: StoryClient) -> None:
    await t.quiet("POST", t.workloads(), workload("w"))
    url = t.workloads("w")
    status = f"{url}/status"
    reserved = {"admission": _admission("main"), "conditions": [condition("QuotaReserved")]}
    wrong = {**reserved, "admission": _admission("other")}
    await t.call("for a pod set that is none", "PATCH", status, {"status": wrong}, MERGE)
    missing = {**reserved, "admission": {"clusterQueue": "vision", "podSetAssignments": []}}
    await t.call("for no pod set", "PATCH", status, {"status": missing}, MERGE)
    show = ("status", "metadata.generation", "metadata.resourceVersion")
    await t.call("reserve", "PATCH", status, {"status": reserved}, MERGE, show=show)
    more = {"spec": {"podSets": [{"name": "main", "count": 3, "template": template()}]}}
    await t.call("more pods", "PATCH", url, more, MERGE)
    other = [{"name": "main", "count": 2, "template": template(nodeSelector={"a": "b"})}]
    await t.call("another template", "PATCH", url, {"spec": {"podSets": other}}, MERGE)
    await t.call("another queue", "PATCH", url, {"spec": {"queueName": "b"}}, MERGE)
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "h"}
    ranked = {"spec": {"priority": 5, "priorityClassRef": reference}}
    await t.call("a class", "PATCH", url, ranked, MERGE)
    await t.call(
        "a priority", "PATCH", url, {"spec": {"priority": 7}}, MERGE, show=("spec.priority",)
    )
    elsewhere = {"admission": {**_admission("main"), "clusterQueue": "speech"}}
    await t.call("another admission", "PATCH", status, {"status": elsewhere}, MERGE)
    done = {"reclaimablePods": [{"name": "main", "count": 1}]}
    pods_done = ("status.reclaimablePods",)
    await t.call("one pod done", "PATCH", status, {"status": done}, MERGE, show=pods_done)
    done = {"reclaimablePods": [{"name": "main", "count": 3}]}
    await t.call("three pods done", "PATCH", status, {"status": done}, MERGE)
    done = {"reclaimablePods": [{"name": "nope", "count": 1}]}
    await t.call("pods of none done", "PATCH", status, {"status": done}, MERGE)
    history = {"flavorAssignmentHistory": [{"resourceFlavor": "spot", "reason": "Timeout"}]}
    held = ("status.flavorAssignmentHistory",)
    await t.call("a flavor failed", "PATCH", status, {"status": history}, MERGE, show=held)
    evicted = {
        "admission": None,
        "conditions": [condition("QuotaReserved", "False"), condition("Evicted")],
    }
    state = ("status.admission", "status.conditions")
    await t.call("evict", "PATCH", status, {"status": evicted}, MERGE, show=state)
    await t.call(
        "another queue then",
        "PATCH",
        url,
        {"spec": {"queueName": "b"}},
        MERGE,
        show=("spec.queueName",),
    )
    unknown = {"status": {"nope": 1}}
    strict = f"{status}?fieldValidation=Strict"
    await t.call("an unknown field", "PATCH", strict, unknown, MERGE)
    maybe = {"status": {"conditions": [condition("Admitted", "Maybe")]}}
    await t.call("no such state", "PATCH", status, maybe, MERGE)
    twice = {"status": {"conditions": [condition("Admitted"), condition("Admitted")]}}
    await t.call("a condition twice", "PATCH", status, twice, MERGE)


@story
async def gangs_are_completed_and_checked(t: StoryClient) -> None:
    url = t.apis("makeway.dev/v1", "gangs")

    def gang(name: str, **spec: Any) -> dict[str, Any]:
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}
        kind = {"apiVersion": "makeway.dev/v1", "kind": "Gang"}
        return {**kind, "metadata": {"name": name}, "spec": spec}

    full = gang("ring", disruptionMode={"all": {}}, priorityClassName="high")
    await t.call("a gang", "POST", url, full)
    basic = gang("loose", schedulingPolicy={"basic": {}})
    await t.call("one by one", "POST", url, basic)
    await t.call("no spec", "POST", url, {**gang("bad"), "spec": None})
    await t.call("no policy", "POST", url, {**gang("bad"), "spec": {}})
    both = gang("bad", schedulingPolicy={"gang": {"minCount": 2}, "basic": {}})
    await t.call("both policies", "POST", url, both)
    await t.call("neither policy", "POST", url, gang("bad", schedulingPolicy={}))
    none = gang("bad", schedulingPolicy={"gang": {"minCount": 0}})
    await t.call("a gang of none", "POST", url, none)
    modes: dict[str, Any] = {"all": {}, "single": {}}
    await t.call("both modes", "POST", url, gang("bad", disruptionMode=modes))
    keys = {"topology": [{"key": "rack"}, {"key": "zone"}]}
    await t.call("two topologies", "POST", url, gang("bad", schedulingConstraints=keys))
    await t.call("a number of its own", "POST", url, gang("numbered", priority=7))
    filled = gang("filled", schedulingPolicy={"basic": {"minCount": 3}})
    await t.call("basic with a number", "POST", url, filled)
    await t.call("too long for a label", "POST", url, gang("g" * 64))

    ring = f"{url}/ring"
    grown = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    await t.call("more members", "PATCH", ring, grown, MERGE, show=("spec",))
    await t.call("another mode", "PATCH", ring, {"spec": {"disruptionMode": None}}, MERGE)
    other = {"spec": {"priorityClassName": "low"}}
    await t.call("another class", "PATCH", ring, other, MERGE)
    empty: dict[str, Any] = {"spec": {"priorityClassName": "", "schedulingConstraints": {}}}
    await t.call("as it was", "PATCH", f"{url}/loose", empty, MERGE, show=("spec",))
    loose: dict[str, Any] = {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}
    await t.call("no longer a gang", "PATCH", ring, loose, MERGE)
    told = {"status": {"conditions": [condition("PodGroupInitiallyScheduled", "True")]}}
    await t.call("a status", "PATCH", f"{ring}/status", told, MERGE, show=("status",))

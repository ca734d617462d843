"""The checkers by themselves, on objects written by hand."""

from typing import Any

import pytest

from tests.simulation.checkers import Cell, JobChecker, NodeChecker, quotas_of, usage_of
from tests.simulation.idleness import IdlenessChecker
from tests.simulation.necessity import NecessityChecker
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
    Document,
    Truth,
)

CPU = Cell("any", "cpu")


def put(truth: Truth, kind: str, name: str, cpu: str, **more: Any) -> None:
    limits: dict[str, str] = {
        key: more.pop(key) for key in ("borrowingLimit", "lendingLimit") if key in more
    }
    resources = [{"name": "cpu", "nominalQuota": cpu, **limits}]
    group: dict[str, Any] = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "any", "resources": resources}],
    }
    spec = {"resourceGroups": [group], **more}
    truth.put(kind, ("", name), {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("own", "other", "used", "room"),
    [
        ({}, {}, 0, 20),
        ({}, {}, 15, 5),
        ({"borrowingLimit": "3"}, {}, 0, 13),
        ({"borrowingLimit": "3"}, {}, 12, 1),
        ({}, {"lendingLimit": "4"}, 0, 14),
        ({"lendingLimit": "4"}, {}, 0, 20),
        ({"borrowingLimit": "0"}, {"lendingLimit": "0"}, 7, 3),
    ],
)
def test_room_of_a_queue_of_ten_beside_another_of_ten(
    own: dict[str, str], other: dict[str, str], used: int, room: int
) -> None:
    truth = Truth()
    put(truth, QUEUES, "own", "10", cohortName="all", **own)
    put(truth, QUEUES, "other", "10", cohortName="all", **other)
    quotas = quotas_of(truth)
    quotas.charge("own", {CPU: used * 1000})

    assert quotas.available("queue:own", CPU) == room * 1000


def test_quota_comes_from_far_up_the_tree() -> None:
    truth = Truth()
    put(truth, COHORTS, "top", "6")
    put(truth, COHORTS, "middle", "0", parentName="top", borrowingLimit="4")
    put(truth, QUEUES, "own", "2", cohortName="middle")

    assert quotas_of(truth).available("queue:own", CPU) == 6000


def workload(name: str, cpu: str, **conditions: str) -> Document:
    """Asks for some cpu in the queue `own`; each condition is True, with its message."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    assigned = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "any"},
        "resourceUsage": {"cpu": cpu},
    }
    told = [{"type": t, "status": "True", "message": m} for t, m in conditions.items()]
    admission = {"clusterQueue": "own", "podSetAssignments": [assigned]}
    return {
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {"queueName": "own", "podSets": [pods]},
        "status": {
            "conditions": told,
            **({"admission": admission} if "QuotaReserved" in conditions else {}),
        },
    }


def one_queue(cpu: str, *workloads: Document) -> Truth:
    truth = Truth()
    put(truth, QUEUES, "own", cpu)
    truth.put(FLAVORS, ("", "any"), {"metadata": {"name": "any"}, "spec": {}})
    truth.put(LOCAL_QUEUES, ("lab", "own"), {"metadata": {}, "spec": {"clusterQueue": "own"}})
    for document in workloads:
        truth.put(WORKLOADS, ("lab", document["metadata"]["name"]), document)
    return truth


@pytest.mark.parametrize(("quota", "is_wrong"), [("10", False), ("12", True)])
def test_a_victim_that_could_have_stayed_is_found(quota: str, is_wrong: bool) -> None:
    message = "Preempted to accommodate a workload (UID: 1); preemptor: lab/urgent"
    before = workload("victim", "8", QuotaReserved="")
    after = workload("victim", "8", QuotaReserved="", Evicted=message, Preempted=message)
    truth, checker = one_queue(quota, after, workload("urgent", "4")), NecessityChecker(5.0)

    found = [*checker.saw(Change(100.0, WORKLOADS, ("lab", "victim"), before, after), truth)]
    truth.now = 110.0
    found += checker.later(truth)

    assert bool(found) == is_wrong


@pytest.mark.parametrize("has_owner", [True, False])
def test_who_may_not_borrow_past_an_owner_may_preempt_in_its_own_queue(has_owner: bool) -> None:
    message = "Preempted to accommodate a workload (UID: 1); preemptor: lab/urgent"
    before = workload("victim", "8", QuotaReserved="")
    after = workload("victim", "8", QuotaReserved="", Evicted=message, Preempted=message)
    truth, checker = one_queue("8", after, workload("urgent", "4")), NecessityChecker(5.0)
    put(truth, QUEUES, "own", "8", cohortName="lab")
    put(truth, QUEUES, "other", "8", cohortName="lab")
    truth.put(LOCAL_QUEUES, ("lab", "other"), {"metadata": {}, "spec": {"clusterQueue": "other"}})
    if has_owner:
        owner = workload("owner", "8")
        owner["spec"]["queueName"] = "other"
        truth.put(WORKLOADS, ("lab", "owner"), owner)

    found = [*checker.saw(Change(100.0, WORKLOADS, ("lab", "victim"), before, after), truth)]
    truth.now = 110.0
    found += checker.later(truth)

    assert bool(found) == (not has_owner)


@pytest.mark.parametrize("is_before", [False, True])
@pytest.mark.parametrize(("conditions", "is_wrong"), [({}, False), ({"Finished": ""}, True)])
def test_who_may_have_been_counted_and_is_gone_excuses_a_preemption(
    is_before: bool, conditions: dict[str, str], is_wrong: bool
) -> None:
    """An admission that is counted, and deleted before it is written, shows in no object."""
    message = "Preempted to accommodate a workload (UID: 1); preemptor: lab/urgent"
    before = workload("victim", "8", QuotaReserved="")
    after = workload("victim", "8", QuotaReserved="", Evicted=message, Preempted=message)
    truth, checker = one_queue("12", after, workload("urgent", "4")), NecessityChecker(5.0)
    preempted = Change(100.0, WORKLOADS, ("lab", "victim"), before, after)
    gone = Change(101.0, WORKLOADS, ("lab", "gone"), workload("gone", "4", **conditions), None)

    changes = [gone._replace(at=99.0), preempted] if is_before else [preempted, gone]
    found = [wrong for change in changes for wrong in checker.saw(change, truth)]
    truth.now = 110.0
    found += checker.later(truth)

    assert bool(found) == is_wrong


@pytest.mark.parametrize(("quota", "is_wrong"), [("11", False), ("12", True)])
def test_who_waits_for_what_is_there_is_found(quota: str, is_wrong: bool) -> None:
    truth = one_queue(quota, workload("running", "8", QuotaReserved=""), workload("next", "4"))
    checker, found = IdlenessChecker(20.0), []
    for truth.now in (0.0, 15.0, 30.0):
        found = [*checker.later(truth)]

    assert bool(found) == is_wrong


def test_pods_given_back_are_counted_from_what_was_asked_for_not_from_what_was_got() -> None:
    partial = workload("train", "2", QuotaReserved="")
    partial["spec"]["podSets"][0]["count"] = 2
    partial["status"]["reclaimablePods"] = [{"name": "main", "count": 1}]

    assert usage_of(partial) == {CPU: 2000}


@pytest.mark.parametrize(
    ("policy", "is_leaving", "is_wrong"),
    [
        ("TerminatingOrFailed", False, True),
        ("TerminatingOrFailed", True, False),
        ("Failed", True, True),
    ],
)
def test_an_index_that_runs_twice_is_found_unless_the_first_may_be_replaced(
    policy: str, is_leaving: bool, is_wrong: bool
) -> None:
    truth = Truth()
    spec = {"parallelism": 2, "podReplacementPolicy": policy}
    metadata = {"name": "train", "namespace": "lab", "uid": "1"}
    truth.put(JOBS, ("lab", "train"), {"metadata": metadata, "spec": spec})
    first, second = _of_index_0("first"), _of_index_0("second")
    if is_leaving:
        first["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    truth.put(PODS, ("lab", "first"), first)
    truth.put(PODS, ("lab", "second"), second)

    found = [*JobChecker().saw(Change(0.0, PODS, ("lab", "second"), None, second), truth)]

    assert bool(found) == is_wrong


def _of_index_0(name: str) -> Document:
    owner = {"kind": "Job", "name": "train", "uid": "1", "controller": True}
    index = {"batch.kubernetes.io/job-completion-index": "0"}
    metadata = {"name": name, "namespace": "lab", "annotations": index, "ownerReferences": [owner]}
    return {"metadata": metadata, "status": {"phase": "Running"}}


@pytest.mark.parametrize(("alone_s", "is_wrong"), [(20.0, False), (40.0, True)])
def test_a_node_that_is_given_too_much_is_found_unless_two_gave(
    alone_s: float, is_wrong: bool
) -> None:
    truth = Truth()
    truth.two_decided_at = 100.0 - alone_s
    node = {"status": {"allocatable": {"cpu": "4", "pods": "110"}}}
    truth.put(NODES, ("", "one"), {"metadata": {"name": "one"}, **node})
    for name in ("first", "second"):
        truth.put(PODS, ("lab", name), _asking(name, "3", "one"))
    second = _asking("second", "3", "one")

    change = Change(100.0, PODS, ("lab", "second"), _asking("second", "3", ""), second)

    assert bool([*NodeChecker().saw(change, truth)]) == is_wrong


def _asking(name: str, cpu: str, node: str) -> Document:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "nodeName": node}
    return {"metadata": {"name": name, "namespace": "lab"}, "spec": spec, "status": {}}

"""Pods get their nodes: stories of what is written, told and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import NODES, PODS, WORKLOADS, Resource
from makeway.client.client import ApiError, Unavailable
from makeway.controller.placing import Placing
from makeway.plane.picture import Object
from makeway.plane.writes import Bind, Delete, Evict, Key, ObjectWrite, Patch
from tests.harness.placing import PlacingPlane


def refused(code: int = 403) -> ApiError:
    return ApiError(code, "Forbidden", "you may not")


def test_a_pod_is_bound_to_the_node_with_room() -> None:
    plane = PlacingPlane(small=2, large=8)
    plane.pod("p", cpu=4)
    plane.run()
    assert plane.nodes_of("p") == ["large"]
    assert len(plane.sent) == 1
    plane.run()
    assert len(plane.sent) == 1


def test_a_gang_waits_until_all_of_it_has_room() -> None:
    plane = PlacingPlane(n1=4)
    plane.group("train", 2)
    plane.pod("train-0", group="train")
    plane.pod("train-1", group="train")
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["", ""]
    message = (
        "1/1 nodes are available. 2 pods have to be placed together, 1 have room. "
        "No pod of lower preemption priority is in the way."
    )
    for name in ("train-0", "train-1"):
        condition = plane.condition(PODS, name, "PodScheduled")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == message
    assert plane.events("FailedScheduling") == [("train-0", message)]

    plane.node("n2", cpu=4)
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_so_does_a_gang_of_our_own_kind() -> None:
    plane = PlacingPlane(n1=4)
    plane.own_gang("train", 2)
    plane.group("train", 1)  # that a PodGroup has its name says nothing
    for name in ("train-0", "train-1"):
        plane.pod(name, labels={"makeway.dev/gang": "train"})
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["", ""]

    plane.node("n2", cpu=4)
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_a_pod_that_has_its_node_says_so_as_those_of_kube_scheduler_do() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("p")
    plane.run()
    plane.run(60)

    assert plane.nodes_of("p") == ["n1"]
    assert plane.events("Scheduled") == [("p", "Successfully assigned lab/p to n1")]


def test_a_pod_whose_node_is_refused_does_not_say_that_it_has_one() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("p")
    plane.fault = lambda write: refused() if isinstance(write, Bind) else None
    plane.run()

    assert plane.nodes_of("p") == [""]
    assert plane.events("Scheduled") == []


def test_what_every_node_lacks_is_said() -> None:
    plane = PlacingPlane(small=2)
    plane.node("cordoned", cpu=8, unschedulable=True)
    taint = {"key": "gpu", "effect": "NoSchedule"}
    plane.node("tainted", cpu=8, taints=[taint])
    plane.pod("p")
    plane.run()
    assert plane.condition(PODS, "p", "PodScheduled")["message"] == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, "
        "1 node(s) had untolerated taints. No pod of lower preemption priority is in the way."
    )


def test_a_reason_is_told_once_and_new_numbers_now_and_then() -> None:
    plane = PlacingPlane(n1=2)
    plane.pod("p")
    plane.run()
    writes = len(plane.sent)
    for number in range(2, 6):
        plane.node(f"n{number}", cpu=2)
        plane.run()
    assert len(plane.sent) == writes
    plane.run(60)
    assert len(plane.sent) == writes + 1
    assert "0/5 nodes" in plane.condition(PODS, "p", "PodScheduled")["message"]
    assert len(plane.events("FailedScheduling")) == 1


def test_a_pod_that_shows_an_older_number_after_a_restart_is_told_the_new_one() -> None:
    plane = PlacingPlane(n1=2)
    plane.pod("p")
    plane.run()
    plane.node("n2", cpu=2)
    plane.restart()
    plane.run()
    assert "0/2 nodes" in plane.condition(PODS, "p", "PodScheduled")["message"]
    writes = len(plane.sent)
    plane.restart()
    plane.run(60)
    assert len(plane.sent) == writes  # it shows just that


def test_victims_go_first_and_the_gang_follows_when_they_are_gone() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.pod("low-1", on="n1")
    plane.pod("low-2", on="n2")
    plane.group("train", 2)
    plane.pod("train-0", group="train")
    plane.pod("train-1", group="train")
    plane.run()
    assert plane.leaving() == ["low-1", "low-2"]
    assert plane.nodes_of("train-0", "train-1") == ["", ""]
    assert plane.nominated("train-0", "train-1") == ["n1", "n2"]
    condition = plane.condition(PODS, "low-1", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "Preempted by gang lab/train on node n1"
    assert plane.events("Preempted") == [
        ("low-1", "Preempted by gang lab/train on node n1"),
        ("low-2", "Preempted by gang lab/train on node n2"),
    ]
    assert plane.events("Preempting") == [("train-0", "Preempts 2 pods: lab/low-1, lab/low-2")]

    plane.ended("low-1")
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["", ""]
    plane.ended("low-2")
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_a_nomination_is_cleared_when_it_is_given_up() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("low", on="n1")
    plane.pod("high", priority=50)
    plane.run()
    assert plane.nominated("high") == ["n1"]
    plane.delete(NODES, "n1")
    plane.run()
    assert plane.nominated("high") == [""]


def test_a_gang_of_which_a_bind_is_refused_is_unwound() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.group("train", 2)
    plane.pod("train-0", group="train")
    plane.pod("train-1", group="train")
    plane.fault = lambda write: (
        refused() if isinstance(write, Bind) and write.key.name == "train-1" else None
    )
    plane.run(0.05)
    assert plane.leaving() == ["train-0"]
    assert plane.condition(PODS, "train-0", "DisruptionTarget")["reason"] == "GangNotPlaced"

    plane.fault = lambda write: None
    plane.ended("train-0")
    plane.pod("train-2", group="train")  # its Job creates another
    plane.run()
    assert sorted(plane.nodes_of("train-1", "train-2")) == ["n1", "n2"]


def test_a_refused_bind_is_tried_again_later_and_later() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("p")
    plane.fault = lambda write: refused() if isinstance(write, Bind) else None
    plane.run(10)
    binds = sum(isinstance(write, Bind) for write in plane.sent)
    assert 5 <= binds <= 9
    plane.fault = lambda write: None
    plane.run(30)
    assert plane.nodes_of("p") == ["n1"]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_bind_of_unknown_fate_is_sent_again(is_done: bool) -> None:
    plane = PlacingPlane(n1=4)
    plane.group("train", 1)
    plane.pod("train-0", group="train")
    faults = iter([None if is_done else Unavailable("no answer")])
    plane.fault = lambda write: next(faults, None) if isinstance(write, Bind) else None
    lost = iter([is_done])
    plane.is_lost = lambda write: isinstance(write, Bind) and next(lost, False)
    plane.run(5)
    assert plane.nodes_of("train-0") == ["n1"]
    assert plane.leaving() == []


def test_a_pod_deleted_while_it_is_bound_leaves_the_gang_short() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.group("train", 2)
    plane.pod("train-0", group="train")
    plane.pod("train-1", group="train")

    def delete_before(write: ObjectWrite) -> None:
        if isinstance(write, Bind) and write.key.name == "train-1":
            plane.delete(PODS, "train-1", grace_s=0)

    plane.fault = delete_before
    plane.run()
    assert plane.leaving() == ["train-0"]


def test_an_eviction_that_is_refused_leaves_the_victim_where_it_is() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("low", on="n1")
    plane.pod("high", priority=50)
    plane.fault = lambda write: refused() if isinstance(write, Delete) else None
    plane.run(10)
    assert plane.leaving() == []
    assert sum(isinstance(write, Delete) for write in plane.sent) <= 9
    plane.fault = lambda write: None
    plane.run(30)
    assert plane.leaving() == ["low"]
    plane.ended("low")
    plane.run()
    assert plane.nodes_of("high") == ["n1"]


def test_a_victim_with_a_budget_is_evicted_and_only_if_that_is_refused_deleted() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.budget("b", allowed=1, app="web")
    plane.pod("web", on="n1", labels={"app": "web"})
    plane.pod("high", priority=50, nodeSelector={})
    plane.pod("other", on="n2", priority=90)
    plane.fault = lambda write: refused(429) if isinstance(write, Evict) else None
    plane.run()
    ends = [type(write) for write in plane.sent if isinstance(write, Evict | Delete)]
    assert ends == [Evict, Delete]
    assert plane.leaving() == ["web"]


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("p", on="n1")
    plane.run()
    plane.pod("p")  # the watch shows the new one right after the old one
    plane.run()
    assert plane.nodes_of("p") == ["n1"]


def test_a_finished_pod_takes_no_room() -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("first", on="n1")
    plane.pod("second")
    plane.run()
    assert plane.nodes_of("second") == [""]
    done = plane.get(PODS, "first")
    plane.put(PODS, {**done, "status": {"phase": "Succeeded"}})
    plane.run()
    assert plane.nodes_of("second") == ["n1"]


def test_only_pods_that_name_us_are_placed_and_all_are_counted() -> None:
    plane = PlacingPlane(lambda picture: Placing(picture, schedulers=frozenset({"makeway"})), n1=4)
    plane.pod("theirs", on="n1", cpu=2)
    plane.pod("not-ours", cpu=1)
    plane.pod("ours", cpu=2, schedulerName="makeway")
    plane.pod("too-many", cpu=1, schedulerName="makeway", priority=1)
    plane.run()
    assert plane.nodes_of("not-ours", "ours", "too-many") == ["", "n1", ""]


# --- with queues ---


def test_pods_of_a_job_wait_for_its_admission() -> None:
    plane = PlacingPlane(n1=8)
    plane.pod("job-0", workload="job")
    plane.run()
    assert plane.sent == []  # it may come any moment
    plane.run(2)
    assert "is not known" in plane.condition(PODS, "job-0", "PodScheduled")["message"]
    plane.workload("job", 2)
    plane.run()
    assert plane.nodes_of("job-0") == [""]  # the second is not there yet
    plane.pod("job-1", workload="job")
    plane.run()
    assert plane.nodes_of("job-0", "job-1") == ["n1", "n1"]


def test_a_job_that_loses_every_pod_gives_its_quota_back_first() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.workload("low", 2, mode="PodGroup")
    plane.pod("low-0", on="n1", workload="low")
    plane.pod("low-1", on="n2", workload="low")
    plane.pod("high", priority=50)
    plane.run()
    condition = plane.condition(WORKLOADS, "low", "Evicted")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptedInPlacement")
    assert condition["message"] == "Every pod was preempted by pod lab/high in placement"
    assert plane.leaving() == ["low-0", "low-1"]
    assert plane.sent[0].resource == WORKLOADS

    plane.ended("low-0", "low-1")
    plane.pod("low-2", workload="low")  # created before its Job was held back
    plane.run()
    assert plane.nodes_of("high") == ["n1"]
    assert plane.nodes_of("low-2") == [""]


def test_a_job_that_loses_some_pods_keeps_its_quota() -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.workload("low", 2)
    plane.pod("low-0", on="n1", workload="low")
    plane.pod("low-1", on="n2", workload="low")
    plane.pod("high", priority=50)
    plane.run()
    assert len(plane.leaving()) == 1
    assert plane.condition(WORKLOADS, "low", "Evicted") == {}


def test_victims_stay_until_their_workload_is_told() -> None:
    plane = PlacingPlane(n1=4)
    plane.workload("low", 1)
    plane.pod("low-0", on="n1", workload="low")
    plane.pod("high", priority=50)
    plane.fault = lambda write: (
        Unavailable("down") if isinstance(write, Patch) and write.resource == WORKLOADS else None
    )
    plane.run(0.3)
    assert plane.leaving() == []
    plane.fault = lambda write: None
    plane.run()
    assert plane.leaving() == ["low-0"]


def test_one_pod_of_a_running_gang_is_replaced_by_itself() -> None:
    plane = PlacingPlane(n1=12)
    plane.workload("job", 3)
    for index in range(2):
        plane.pod(f"job-{index}", on="n1", workload="job")
    plane.pod("job-3", workload="job")  # the third has ended, and more are to come
    plane.run()
    assert plane.nodes_of("job-3") == ["n1"]


def test_pods_given_back_are_not_waited_for() -> None:
    plane = PlacingPlane(n1=12)
    plane.workload("job", 3, given_back=2)
    plane.pod("job-3", workload="job")  # the others ended well; this one is tried again
    plane.run()
    assert plane.nodes_of("job-3") == ["n1"]


def test_a_job_may_raise_its_preemption_priority_while_it_runs() -> None:
    plane = PlacingPlane(n1=4)
    plane.workload("low", 1)
    plane.pod("low-0", on="n1", workload="low")
    plane.annotate(WORKLOADS, "low", {"makeway.dev/preemption-priority-class": "nearly-done"})
    plane.priority_class("nearly-done", 90)
    plane.pod("high", priority=50)
    plane.run()
    assert plane.leaving() == []
    plane.annotate(WORKLOADS, "low", {})
    plane.run()
    assert plane.leaving() == ["low-0"]


def test_replicas_are_known_by_the_keys_that_pods_name() -> None:
    plane = PlacingPlane(n1=8)
    plane.gang_workload("serve", 2)
    for index in range(2):
        reference = {"name": "serve", "podGroup": "workers", "podGroupReplicaKey": "blue"}
        plane.pod(f"blue-{index}", workloadRef=reference)
    plane.run()
    assert plane.nodes_of("blue-0", "blue-1") == ["n1", "n1"]


def test_members_beyond_what_the_gang_needs_follow_when_there_is_room() -> None:
    plane = PlacingPlane(n1=4)
    plane.group("train", 1)
    plane.pod("train-0", group="train")
    plane.pod("train-1", group="train")
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["n1", ""]
    assert plane.condition(PODS, "train-1", "PodScheduled")["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "The gang has as many as it needs; more preempt nobody."
    )
    plane.node("n2")
    plane.run()
    assert plane.nodes_of("train-1") == ["n2"]


# --- refused ---

_SELECTOR = {"matchLabels": {"app": "x"}}
_APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": _SELECTOR}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param(
            {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]},
            "spec.volumes[0].persistentVolumeClaim: volumes that tie pods to nodes are not known",
            id="claim of a volume",
        ),
        pytest.param(
            {"resourceClaims": [{"name": "gpu"}]},
            "spec.resourceClaims: claims of devices are not known",
            id="claim of a device",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {_REQUIRED: [_APART]}}},
            "spec.affinity.podAffinity: pods are not placed near other pods",
            id="near others",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {_REQUIRED: [_APART]}}},
            "spec.affinity.podAntiAffinity: pods keep apart from members of their own gang only",
            id="apart from others",
        ),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": key,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": _SELECTOR,
                    }
                    for key in ("zone", "rack")
                ]
            },
            "spec.topologySpreadConstraints: one constraint with DoNotSchedule is kept, not 2",
            id="spread twice",
        ),
    ],
)
def test_a_pod_that_asks_for_what_we_do_not_know_is_refused(
    spec: dict[str, Any], complaint: str
) -> None:
    plane = PlacingPlane(n1=8)
    plane.pod("p", **spec)
    plane.run()
    message = f"Makeway can't place this pod: {complaint}"
    assert plane.nodes_of("p") == [""]
    assert plane.condition(PODS, "p", "PodScheduled")["message"] == message
    assert plane.events("FailedScheduling") == [("p", message)]


def test_members_of_a_gang_may_keep_apart() -> None:
    plane = PlacingPlane(n1=8, n2=8)
    plane.group("train", 2)
    spec: dict[str, Any] = {"affinity": {"podAntiAffinity": {_REQUIRED: [_APART]}}}
    for index in range(2):
        plane.pod(f"train-{index}", group="train", labels={"app": "x"}, **spec)
    plane.run()
    assert plane.nodes_of("train-0", "train-1") == ["n1", "n2"]


def reads_of(plane: PlacingPlane, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the objects that are looked up from now on."""
    reads: list[str] = []
    find = plane.picture.find

    def counted(resource: Resource, key: Key) -> Object | None:
        reads.append(key.name)
        return find(resource, key)

    monkeypatch.setattr(plane.picture, "find", counted)
    return reads


def test_asking_when_nothing_happened_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = PlacingPlane(n1=4)
    plane.pod("waits", cpu=8)
    plane.run()
    reads = reads_of(plane, monkeypatch)
    assert not plane.parts[0].act(plane.now).writes
    assert reads == []


def test_one_changed_pod_costs_that_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = PlacingPlane(n1=100)
    for index in range(50):
        plane.pod(f"runs-{index}", cpu=1, on="n1")
        plane.pod(f"waits-{index}", cpu=101)
    plane.run(60)
    reads = reads_of(plane, monkeypatch)
    plane.annotate(PODS, "waits-7", {"seen": "yes"})
    plane.run()
    assert reads == ["waits-7"]
    plane.annotate(PODS, "runs-7", {"seen": "yes"})
    plane.run()
    assert reads == ["waits-7"]


def test_new_members_of_a_large_gang_are_not_told_one_by_one() -> None:
    plane = PlacingPlane(n1=100)
    plane.group("train", 50)
    for index in range(50):
        plane.pod(f"train-{index}", cpu=1, group="train")
        plane.run(0.01)
    assert {type(write) for write in plane.sent} == {Bind}
    assert len(plane.sent) == 50

"""Pods get their nodes: stories of what is written, told and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.client.client import ApiError, Document, Resource, Unavailable
from makeway.client.resources import NODES, PODS, WORKLOADS
from makeway.controller.placing import Placing
from makeway.plane.writes import Bind, Delete, Evict, Key, ObjectWrite, Patch
from tests.controller.placing_lab import Lab


def refused(code: int = 403) -> ApiError:
    return ApiError(code, "Forbidden", "you may not")


def test_a_pod_is_bound_to_the_node_with_room() -> None:
    lab = Lab(small=2, large=8)
    lab.pod("p", cpu=4)
    lab.run()
    assert lab.nodes_of("p") == ["large"]
    assert len(lab.written) == 1
    lab.run()
    assert len(lab.written) == 1


def test_a_gang_waits_until_all_of_it_has_room() -> None:
    lab = Lab(n1=4)
    lab.group("train", 2)
    lab.pod("train-0", group="train")
    lab.pod("train-1", group="train")
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["", ""]
    message = (
        "1/1 nodes are available. 2 pods have to be placed together, 1 have room. "
        "No pod of lower preemption priority is in the way."
    )
    for name in ("train-0", "train-1"):
        condition = lab.condition(PODS, name, "PodScheduled")
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == message
    assert lab.events("FailedScheduling") == [("train-0", message)]

    lab.node("n2", cpu=4)
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_so_does_a_gang_of_our_own_kind() -> None:
    lab = Lab(n1=4)
    lab.own_gang("train", 2)
    lab.group("train", 1)  # that a PodGroup has its name says nothing
    for name in ("train-0", "train-1"):
        lab.pod(name, labels={"makeway.dev/gang": "train"})
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["", ""]

    lab.node("n2", cpu=4)
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_what_every_node_lacks_is_said() -> None:
    lab = Lab(small=2)
    lab.node("cordoned", cpu=8, unschedulable=True)
    taint = {"key": "gpu", "effect": "NoSchedule"}
    lab.node("tainted", cpu=8, taints=[taint])
    lab.pod("p")
    lab.run()
    assert lab.condition(PODS, "p", "PodScheduled")["message"] == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable, "
        "1 node(s) had untolerated taints. No pod of lower preemption priority is in the way."
    )


def test_a_reason_is_told_once_and_new_numbers_now_and_then() -> None:
    lab = Lab(n1=2)
    lab.pod("p")
    lab.run()
    writes = len(lab.written)
    for number in range(2, 6):
        lab.node(f"n{number}", cpu=2)
        lab.run()
    assert len(lab.written) == writes
    lab.run(60)
    assert len(lab.written) == writes + 1
    assert "0/5 nodes" in lab.condition(PODS, "p", "PodScheduled")["message"]
    assert len(lab.events("FailedScheduling")) == 1


def test_a_pod_that_shows_an_older_number_after_a_restart_is_told_the_new_one() -> None:
    lab = Lab(n1=2)
    lab.pod("p")
    lab.run()
    lab.node("n2", cpu=2)
    lab.restart()
    lab.run()
    assert "0/2 nodes" in lab.condition(PODS, "p", "PodScheduled")["message"]
    writes = len(lab.written)
    lab.restart()
    lab.run(60)
    assert len(lab.written) == writes  # it shows just that


def test_victims_go_first_and_the_gang_follows_when_they_are_gone() -> None:
    lab = Lab(n1=4, n2=4)
    lab.pod("low-1", on="n1")
    lab.pod("low-2", on="n2")
    lab.group("train", 2)
    lab.pod("train-0", group="train")
    lab.pod("train-1", group="train")
    lab.run()
    assert lab.leaving() == ["low-1", "low-2"]
    assert lab.nodes_of("train-0", "train-1") == ["", ""]
    assert lab.nominated("train-0", "train-1") == ["n1", "n2"]
    condition = lab.condition(PODS, "low-1", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "Preempted by gang lab/train on node n1"
    assert lab.events("Preempted") == [
        ("low-1", "Preempted by gang lab/train on node n1"),
        ("low-2", "Preempted by gang lab/train on node n2"),
    ]
    assert lab.events("Preempting") == [("train-0", "Preempts 2 pods: lab/low-1, lab/low-2")]

    lab.ended("low-1")
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["", ""]
    lab.ended("low-2")
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["n1", "n2"]


def test_a_nomination_is_cleared_when_it_is_given_up() -> None:
    lab = Lab(n1=4)
    lab.pod("low", on="n1")
    lab.pod("high", priority=50)
    lab.run()
    assert lab.nominated("high") == ["n1"]
    lab.remove(NODES, "n1", namespace="")
    lab.run()
    assert lab.nominated("high") == [""]


def test_a_gang_of_which_a_bind_is_refused_is_unwound() -> None:
    lab = Lab(n1=4, n2=4)
    lab.group("train", 2)
    lab.pod("train-0", group="train")
    lab.pod("train-1", group="train")
    lab.fault = lambda write: (
        refused() if isinstance(write, Bind) and write.key.name == "train-1" else None
    )
    lab.run(0.05)
    assert lab.leaving() == ["train-0"]
    assert lab.condition(PODS, "train-0", "DisruptionTarget")["reason"] == "GangNotPlaced"

    lab.fault = lambda write: None
    lab.ended("train-0")
    lab.pod("train-2", group="train")  # its Job creates another
    lab.run()
    assert sorted(lab.nodes_of("train-1", "train-2")) == ["n1", "n2"]


def test_a_refused_bind_is_tried_again_later_and_later() -> None:
    lab = Lab(n1=4)
    lab.pod("p")
    lab.fault = lambda write: refused() if isinstance(write, Bind) else None
    lab.run(10)
    binds = sum(isinstance(write, Bind) for write in lab.written)
    assert 5 <= binds <= 9
    lab.fault = lambda write: None
    lab.run(30)
    assert lab.nodes_of("p") == ["n1"]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_bind_of_unknown_fate_is_sent_again(is_done: bool) -> None:
    lab = Lab(n1=4)
    lab.group("train", 1)
    lab.pod("train-0", group="train")
    faults = iter([None if is_done else Unavailable("no answer")])
    lab.fault = lambda write: next(faults, None) if isinstance(write, Bind) else None
    lost = iter([is_done])
    lab.is_lost = lambda write: isinstance(write, Bind) and next(lost, False)
    lab.run(5)
    assert lab.nodes_of("train-0") == ["n1"]
    assert lab.leaving() == []


def test_a_pod_deleted_while_it_is_bound_leaves_the_gang_short() -> None:
    lab = Lab(n1=4, n2=4)
    lab.group("train", 2)
    lab.pod("train-0", group="train")
    lab.pod("train-1", group="train")

    def delete_before(write: ObjectWrite) -> None:
        if isinstance(write, Bind) and write.key.name == "train-1":
            lab.remove(PODS, "train-1")

    lab.fault = delete_before
    lab.run()
    assert lab.leaving() == ["train-0"]


def test_an_eviction_that_is_refused_leaves_the_victim_where_it_is() -> None:
    lab = Lab(n1=4)
    lab.pod("low", on="n1")
    lab.pod("high", priority=50)
    lab.fault = lambda write: refused() if isinstance(write, Delete) else None
    lab.run(10)
    assert lab.leaving() == []
    assert sum(isinstance(write, Delete) for write in lab.written) <= 9
    lab.fault = lambda write: None
    lab.run(30)
    assert lab.leaving() == ["low"]
    lab.ended("low")
    lab.run()
    assert lab.nodes_of("high") == ["n1"]


def test_a_victim_with_a_budget_is_evicted_and_only_if_that_is_refused_deleted() -> None:
    lab = Lab(n1=4, n2=4)
    lab.budget("b", allowed=1, app="web")
    lab.pod("web", on="n1", labels={"app": "web"})
    lab.pod("high", priority=50, nodeSelector={})
    lab.pod("other", on="n2", priority=90)
    lab.fault = lambda write: refused(429) if isinstance(write, Evict) else None
    lab.run()
    ends = [type(write) for write in lab.written if isinstance(write, Evict | Delete)]
    assert ends == [Evict, Delete]
    assert lab.leaving() == ["web"]


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    lab = Lab(n1=4)
    lab.pod("p", on="n1")
    lab.run()
    lab.pod("p")  # the watch shows the new one right after the old one
    lab.run()
    assert lab.nodes_of("p") == ["n1"]


def test_a_finished_pod_takes_no_room() -> None:
    lab = Lab(n1=4)
    lab.pod("first", on="n1")
    lab.pod("second")
    lab.run()
    assert lab.nodes_of("second") == [""]
    done = lab.get(PODS, "first")
    lab.put(PODS, {**done, "status": {"phase": "Succeeded"}})
    lab.run()
    assert lab.nodes_of("second") == ["n1"]


def test_only_pods_that_name_us_are_placed_and_all_are_counted() -> None:
    lab = Lab(lambda picture: Placing(picture, schedulers=frozenset({"makeway"})), n1=4)
    lab.pod("theirs", on="n1", cpu=2)
    lab.pod("not-ours", cpu=1)
    lab.pod("ours", cpu=2, schedulerName="makeway")
    lab.pod("too-many", cpu=1, schedulerName="makeway", priority=1)
    lab.run()
    assert lab.nodes_of("not-ours", "ours", "too-many") == ["", "n1", ""]


# --- with queues ---


def test_pods_of_a_job_wait_for_its_admission() -> None:
    lab = Lab(n1=8)
    lab.pod("job-0", workload="job")
    lab.run()
    assert lab.written == []  # it may come any moment
    lab.run(2)
    assert "is not known" in lab.condition(PODS, "job-0", "PodScheduled")["message"]
    lab.workload("job", 2)
    lab.run()
    assert lab.nodes_of("job-0") == [""]  # the second is not there yet
    lab.pod("job-1", workload="job")
    lab.run()
    assert lab.nodes_of("job-0", "job-1") == ["n1", "n1"]


def test_a_job_that_loses_every_pod_gives_its_quota_back_first() -> None:
    lab = Lab(n1=4, n2=4)
    lab.workload("low", 2, mode="PodGroup")
    lab.pod("low-0", on="n1", workload="low")
    lab.pod("low-1", on="n2", workload="low")
    lab.pod("high", priority=50)
    lab.run()
    condition = lab.condition(WORKLOADS, "low", "Evicted")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptedInPlacement")
    assert condition["message"] == "Every pod was preempted by pod lab/high in placement"
    assert lab.leaving() == ["low-0", "low-1"]
    assert lab.written[0].resource == WORKLOADS

    lab.ended("low-0", "low-1")
    lab.pod("low-2", workload="low")  # created before its Job was held back
    lab.run()
    assert lab.nodes_of("high") == ["n1"]
    assert lab.nodes_of("low-2") == [""]


def test_a_job_that_loses_some_pods_keeps_its_quota() -> None:
    lab = Lab(n1=4, n2=4)
    lab.workload("low", 2)
    lab.pod("low-0", on="n1", workload="low")
    lab.pod("low-1", on="n2", workload="low")
    lab.pod("high", priority=50)
    lab.run()
    assert len(lab.leaving()) == 1
    assert lab.condition(WORKLOADS, "low", "Evicted") == {}


def test_victims_stay_until_their_workload_is_told() -> None:
    lab = Lab(n1=4)
    lab.workload("low", 1)
    lab.pod("low-0", on="n1", workload="low")
    lab.pod("high", priority=50)
    lab.fault = lambda write: (
        Unavailable("down") if isinstance(write, Patch) and write.resource == WORKLOADS else None
    )
    lab.run(0.3)
    assert lab.leaving() == []
    lab.fault = lambda write: None
    lab.run()
    assert lab.leaving() == ["low-0"]


def test_one_pod_of_a_running_gang_is_replaced_by_itself() -> None:
    lab = Lab(n1=12)
    lab.workload("job", 3)
    for index in range(2):
        lab.pod(f"job-{index}", on="n1", workload="job")
    lab.pod("job-3", workload="job")  # the third has ended, and more are to come
    lab.run()
    assert lab.nodes_of("job-3") == ["n1"]


def test_pods_given_back_are_not_waited_for() -> None:
    lab = Lab(n1=12)
    lab.workload("job", 3, given_back=2)
    lab.pod("job-3", workload="job")  # the others ended well; this one is tried again
    lab.run()
    assert lab.nodes_of("job-3") == ["n1"]


def test_a_job_may_raise_its_preemption_priority_while_it_runs() -> None:
    lab = Lab(n1=4)
    lab.workload("low", 1)
    lab.pod("low-0", on="n1", workload="low")
    lab.annotate(WORKLOADS, "low", {"makeway.dev/preemption-priority-class": "nearly-done"})
    lab.priority_class("nearly-done", 90)
    lab.pod("high", priority=50)
    lab.run()
    assert lab.leaving() == []
    lab.annotate(WORKLOADS, "low", {})
    lab.run()
    assert lab.leaving() == ["low-0"]


def test_replicas_are_known_by_the_keys_that_pods_name() -> None:
    lab = Lab(n1=8)
    lab.gang_workload("serve", 2)
    for index in range(2):
        reference = {"name": "serve", "podGroup": "workers", "podGroupReplicaKey": "blue"}
        lab.pod(f"blue-{index}", workloadRef=reference)
    lab.run()
    assert lab.nodes_of("blue-0", "blue-1") == ["n1", "n1"]


def test_members_beyond_what_the_gang_needs_follow_when_there_is_room() -> None:
    lab = Lab(n1=4)
    lab.group("train", 1)
    lab.pod("train-0", group="train")
    lab.pod("train-1", group="train")
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["n1", ""]
    assert lab.condition(PODS, "train-1", "PodScheduled")["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "The gang has as many as it needs; more preempt nobody."
    )
    lab.node("n2")
    lab.run()
    assert lab.nodes_of("train-1") == ["n2"]


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
    lab = Lab(n1=8)
    lab.pod("p", **spec)
    lab.run()
    message = f"Makeway can't place this pod: {complaint}"
    assert lab.nodes_of("p") == [""]
    assert lab.condition(PODS, "p", "PodScheduled")["message"] == message
    assert lab.events("FailedScheduling") == [("p", message)]


def test_members_of_a_gang_may_keep_apart() -> None:
    lab = Lab(n1=8, n2=8)
    lab.group("train", 2)
    spec: dict[str, Any] = {"affinity": {"podAntiAffinity": {_REQUIRED: [_APART]}}}
    for index in range(2):
        lab.pod(f"train-{index}", group="train", labels={"app": "x"}, **spec)
    lab.run()
    assert lab.nodes_of("train-0", "train-1") == ["n1", "n2"]


def reads_of(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the objects that are looked up from now on."""
    reads: list[str] = []
    get = lab.picture.get

    def counted(resource: Resource, key: Key) -> Document | None:
        reads.append(key.name)
        return get(resource, key)

    monkeypatch.setattr(lab.picture, "get", counted)
    return reads


def test_asking_when_nothing_happened_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(n1=4)
    lab.pod("waits", cpu=8)
    lab.run()
    reads = reads_of(lab, monkeypatch)
    assert not lab.part.act(lab.now).writes
    assert reads == []


def test_one_changed_pod_costs_that_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(n1=100)
    for index in range(50):
        lab.pod(f"runs-{index}", cpu=1, on="n1")
        lab.pod(f"waits-{index}", cpu=101)
    lab.run(60)
    reads = reads_of(lab, monkeypatch)
    lab.annotate(PODS, "waits-7", {"seen": "yes"})
    lab.run()
    assert reads == ["waits-7"]
    lab.annotate(PODS, "runs-7", {"seen": "yes"})
    lab.run()
    assert reads == ["waits-7"]


def test_new_members_of_a_large_gang_are_not_told_one_by_one() -> None:
    lab = Lab(n1=100)
    lab.group("train", 50)
    for index in range(50):
        lab.pod(f"train-{index}", cpu=1, group="train")
        lab.run(0.01)
    assert {type(write) for write in lab.written} == {Bind}
    assert len(lab.written) == 50

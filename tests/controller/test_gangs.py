"""What Workloads, PodGroups and Gangs say about their priorities and their pods."""

from __future__ import annotations

from makeway.client.resources import GANG_WORKLOADS, GANGS, POD_GROUPS, PRIORITY_CLASSES
from makeway.controller.gangs import GangStatuses
from tests.controller.placing_lab import Lab


def workloads() -> Lab:
    return Lab(lambda picture: GangStatuses(picture, GANG_WORKLOADS))


def groups() -> Lab:
    return Lab(lambda picture: GangStatuses(picture, POD_GROUPS))


def test_the_numbers_of_both_priorities_stand_in_status() -> None:
    lab = workloads()
    lab.priority_class("low", 10)
    lab.priority_class("high", 100)
    lab.gang_workload("w", 2, priorityClassName="low", preemptionPriorityClassName="high")
    lab.run()
    assert lab.get(GANG_WORKLOADS, "w")["status"] == {"priority": 10, "preemptionPriority": 100}
    lab.run()
    assert len(lab.written) == 1


def test_pods_of_another_priority_are_named() -> None:
    lab = workloads()
    lab.priority_class("low", 10)
    lab.gang_workload("w", 2, priorityClassName="low")
    reference = {"name": "w", "podGroup": "workers"}
    lab.pod("p0", priority=10, workloadRef=reference)
    lab.pod("p1", priority=50, workloadRef=reference)
    lab.run()
    condition = lab.condition(GANG_WORKLOADS, "w", "PodsNotMatchingPriority")
    assert condition["status"] == "True"
    assert condition["message"].endswith("not that of these pods: p1")
    lab.ended("p1")
    lab.run()
    assert lab.condition(GANG_WORKLOADS, "w", "PodsNotMatchingPriority")["status"] == "False"


def test_a_class_that_does_not_exist_is_named_until_it_does() -> None:
    lab = workloads()
    lab.gang_workload("w", 2, priorityClassName="low")
    lab.run()
    condition = lab.condition(GANG_WORKLOADS, "w", "PriorityResolved")
    assert condition["status"] == "False"
    assert condition["message"].startswith('spec.priorityClassName: "low" is not a priority class')
    lab.priority_class("low", 10)
    lab.run()
    assert lab.condition(GANG_WORKLOADS, "w", "PriorityResolved")["status"] == "True"
    assert lab.get(GANG_WORKLOADS, "w")["status"]["priority"] == 10


def test_a_settled_priority_outlives_its_class() -> None:
    lab = workloads()
    lab.priority_class("low", 10)
    lab.gang_workload("w", 2, priorityClassName="low")
    lab.run()
    lab.remove(PRIORITY_CLASSES, "low", namespace="")
    lab.run()
    assert lab.get(GANG_WORKLOADS, "w")["status"]["priority"] == 10


def test_a_gang_of_our_own_kind_tells_the_same_of_the_pods_that_name_it() -> None:
    lab = Lab(lambda picture: GangStatuses(picture, GANGS))
    lab.priority_class("low", 10)
    lab.own_gang("g", 2, priorityClassName="low")
    ours = {"makeway.dev/gang": "g"}
    lab.pod("p0", labels=ours, priority=10, on="n1")
    lab.pod("p1", labels=ours, priority=50, on="n1", group="h")  # a PodGroup comes first
    lab.run()
    assert lab.written == []
    lab.pod("p2", labels=ours, priority=50, on="n1")
    lab.run()
    assert lab.condition(GANGS, "g", "PodGroupInitiallyScheduled")["status"] == "True"
    condition = lab.condition(GANGS, "g", "PodsNotMatchingPriority")
    assert condition["message"].endswith("not that of these pods: p2")


def test_a_group_was_scheduled_once_enough_pods_have_nodes() -> None:
    lab = groups()
    lab.group("g", 2)
    lab.pod("p0", group="g", priority=100, on="n1")
    lab.run()
    assert lab.written == []
    lab.pod("p1", group="g", priority=100, on="n1")
    lab.run()
    assert lab.condition(POD_GROUPS, "g", "PodGroupInitiallyScheduled")["status"] == "True"
    lab.ended("p0", "p1")
    lab.run()
    assert lab.condition(POD_GROUPS, "g", "PodGroupInitiallyScheduled")["status"] == "True"

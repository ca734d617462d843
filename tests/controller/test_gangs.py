"""What Workloads, PodGroups and Gangs say about their priorities and their pods."""

from __future__ import annotations

from makeway.api.kinds import GANG_WORKLOADS, GANGS, POD_GROUPS, PRIORITY_CLASSES
from makeway.controller.gangs import GangStatuses
from tests.harness.placing import PlacingPlane


def workloads() -> PlacingPlane:
    return PlacingPlane(lambda picture: GangStatuses(picture, GANG_WORKLOADS))


def groups() -> PlacingPlane:
    return PlacingPlane(lambda picture: GangStatuses(picture, POD_GROUPS))


def test_the_numbers_of_both_priorities_stand_in_status() -> None:
    plane = workloads()
    plane.priority_class("low", 10)
    plane.priority_class("high", 100)
    plane.gang_workload("w", 2, priorityClassName="low", preemptionPriorityClassName="high")
    plane.run()
    assert plane.get(GANG_WORKLOADS, "w")["status"] == {"priority": 10, "preemptionPriority": 100}
    plane.run()
    assert len(plane.sent) == 1


def test_pods_of_another_priority_are_named() -> None:
    plane = workloads()
    plane.priority_class("low", 10)
    plane.gang_workload("w", 2, priorityClassName="low")
    reference = {"name": "w", "podGroup": "workers"}
    plane.pod("p0", priority=10, workloadRef=reference)
    plane.pod("p1", priority=50, workloadRef=reference)
    plane.run()
    condition = plane.condition(GANG_WORKLOADS, "w", "PodsNotMatchingPriority")
    assert condition["status"] == "True"
    assert condition["message"].endswith("not that of these pods: p1")
    plane.ended("p1")
    plane.run()
    assert plane.condition(GANG_WORKLOADS, "w", "PodsNotMatchingPriority")["status"] == "False"


def test_a_class_that_does_not_exist_is_named_until_it_does() -> None:
    plane = workloads()
    plane.priority_class("low", 10)
    plane.gang_workload("w", 2, priorityClassName="low")
    plane.delete(PRIORITY_CLASSES, "low")  # who names it first is refused at the door
    plane.run()
    condition = plane.condition(GANG_WORKLOADS, "w", "PriorityResolved")
    assert condition["status"] == "False"
    assert condition["message"].startswith('spec.priorityClassName: "low" is not a priority class')
    plane.priority_class("low", 10)
    plane.run()
    assert plane.condition(GANG_WORKLOADS, "w", "PriorityResolved")["status"] == "True"
    assert plane.get(GANG_WORKLOADS, "w")["status"]["priority"] == 10


def test_another_default_class_changes_neither_number() -> None:
    plane = workloads()
    plane.gang_workload("w", 2)
    plane.run()
    assert plane.get(GANG_WORKLOADS, "w")["status"] == {"priority": 0, "preemptionPriority": 0}
    usual = {"metadata": {"name": "usual"}, "value": 5000, "globalDefault": True}
    plane.put(PRIORITY_CLASSES, usual)
    plane.run()
    assert plane.get(GANG_WORKLOADS, "w")["status"] == {"priority": 0, "preemptionPriority": 0}


def test_a_preemption_priority_too_far_up_does_not_count() -> None:
    plane = PlacingPlane(lambda picture: GangStatuses(picture, GANG_WORKLOADS, distance_max=50))
    for name, value in (("low", 10), ("near", 60), ("far", 61)):
        plane.priority_class(name, value)
    plane.gang_workload("w", 2, priorityClassName="low", preemptionPriorityClassName="near")
    plane.gang_workload("v", 2, priorityClassName="low", preemptionPriorityClassName="far")
    plane.run()
    assert plane.get(GANG_WORKLOADS, "w")["status"]["preemptionPriority"] == 60
    assert plane.condition(GANG_WORKLOADS, "v", "PriorityResolved")["message"] == (
        'spec.preemptionPriorityClassName: "far" has value 61, too far above 10; name a class of '
        "at most 60"
    )


def test_a_settled_priority_outlives_its_class() -> None:
    plane = workloads()
    plane.priority_class("low", 10)
    plane.gang_workload("w", 2, priorityClassName="low")
    plane.run()
    plane.delete(PRIORITY_CLASSES, "low")
    plane.run()
    assert plane.get(GANG_WORKLOADS, "w")["status"]["priority"] == 10


def test_a_gang_of_our_own_kind_tells_the_same_of_the_pods_that_name_it() -> None:
    plane = PlacingPlane(lambda picture: GangStatuses(picture, GANGS))
    plane.priority_class("low", 10)
    plane.own_gang("g", 2, priorityClassName="low")
    ours = {"makeway.dev/gang": "g"}
    plane.pod("p0", labels=ours, priority=10, on="n1")
    plane.pod("p1", labels=ours, priority=50, on="n1", group="h")  # a PodGroup comes first
    plane.run()
    assert plane.sent == []
    plane.pod("p2", labels=ours, priority=50, on="n1")
    plane.run()
    assert plane.condition(GANGS, "g", "PodGroupInitiallyScheduled")["status"] == "True"
    condition = plane.condition(GANGS, "g", "PodsNotMatchingPriority")
    assert condition["message"].endswith("not that of these pods: p2")


def test_a_group_was_scheduled_once_enough_pods_have_nodes() -> None:
    plane = groups()
    plane.group("g", 2)
    plane.pod("p0", group="g", priority=100, on="n1")
    plane.run()
    assert plane.sent == []
    plane.pod("p1", group="g", priority=100, on="n1")
    plane.run()
    assert plane.condition(POD_GROUPS, "g", "PodGroupInitiallyScheduled")["status"] == "True"
    plane.ended("p0", "p1")
    plane.run()
    assert plane.condition(POD_GROUPS, "g", "PodGroupInitiallyScheduled")["status"] == "True"

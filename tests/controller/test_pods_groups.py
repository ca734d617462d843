"""Pods that are admitted together, without a Job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from makeway.api.codec import decode_as
from makeway.api.kinds import PODS, WORKLOADS
from makeway.api.labels import GROUP_FAST, GROUP_TOTAL, IS_GROUP, POD_SET, RETRIABLE, ROLE_HASH
from makeway.api.queueing import Workload
from makeway.client.client import Conflict, Document
from makeway.engine.decisions import Defective
from makeway.plane.writes import Key
from makeway.translate.categories import waiting_word
from makeway.translate.placement import gangs_held
from makeway.translate.workloads import PODS_GONE, workload_of
from tests.harness.pods import PodPlane, member, pod, running_group

LACK = "WaitingForReplacementPods"


def counts(plane: PodPlane) -> list[int]:
    return sorted(pod_set["count"] for pod_set in plane.workload["spec"]["podSets"])


def put(plane: PodPlane, document: Document) -> None:
    plane.now += 1
    plane.create(PODS, document)
    plane.settle()


def stands_aside(plane: PodPlane) -> bool:
    """Whether the queues let others pass it."""
    view = decode_as(Workload, plane.workload)
    assert view.object is not None, view.errors
    return workload_of(view.object).stands_aside


# Coming together


def test_a_group_is_queued_when_all_its_pods_are_there() -> None:
    plane = PodPlane()
    put(plane, member("one", 2))
    assert not plane.has_workload
    assert plane.reasons_said() == ["WaitingForPods"]

    put(plane, member("two", 2))

    assert plane.workload["metadata"]["name"] == "ring"
    assert plane.workload["metadata"]["annotations"] == {IS_GROUP: "true"}
    assert "ownerReferences" not in plane.workload["metadata"]
    assert counts(plane) == [2]


def test_pods_that_ask_for_the_same_are_one_pod_set() -> None:
    plane = PodPlane()
    for name, cpu in (("leader", "4"), ("worker-0", "1"), ("worker-1", "1")):
        put(plane, member(name, 3, cpu=cpu))

    assert counts(plane) == [1, 2]


def test_a_group_may_be_written_with_annotations_and_labels_alike() -> None:
    plane = PodPlane()
    for name in ("one", "two"):
        group, total = {"kueue.x-k8s.io/pod-group-name": "ring"}, {GROUP_TOTAL: "2"}
        put(plane, pod(name, labels=total, annotations=group))

    assert plane.workload["metadata"]["name"] == "ring"


def test_the_first_pod_speaks_for_all_where_it_is_asked_to() -> None:
    plane = PodPlane()
    put(plane, member("one", 3, annotations={GROUP_FAST: "true"}))
    plane.admit()

    assert counts(plane) == [3]
    assert not plane.is_gated("one")
    assert plane.condition_of(LACK) == ("", "")
    workload = decode_as(Workload, plane.workload).object
    assert workload is not None
    [gang] = gangs_held(workload, ())
    assert gang.min_count == 0  # it may start before the others come


def test_pods_that_disagree_about_their_number_wait_and_are_told() -> None:
    plane = PodPlane()
    put(plane, member("one", 2))
    put(plane, member("two", 3))

    assert not plane.has_workload
    assert "different numbers of pods: 2, 3" in plane.said[-1].message


def test_pods_beyond_the_number_are_deleted_the_newest_first() -> None:
    plane = PodPlane()
    plane.create_group("one", "two")
    for name in ("three", "four"):
        put(plane, member(name, 2))

    assert [plane.has_pod(name) for name in ("one", "two", "three", "four")] == [True, True] + [
        False
    ] * 2
    assert plane.reasons_said().count("ExcessPodDeleted") == 2


def test_a_pod_too_many_is_too_many_whatever_it_asks_for() -> None:
    plane = PodPlane()
    plane.create_group("one", "two")
    put(plane, member("three", 2, cpu="64"))

    assert not plane.has_pod("three")
    assert counts(plane) == [2]


def test_the_name_of_a_workload_that_is_no_groups_is_left_alone() -> None:
    plane = PodPlane()
    plane.submit("solo")
    document = plane.workload
    plane.delete(PODS, Key("lab", "solo"))
    document["metadata"] = {"name": "ring", "namespace": "lab"}
    plane.create(WORKLOADS, document)
    plane.create_group("one", "two")

    assert "NameTaken" in plane.reasons_said()

    plane.delete(WORKLOADS, Key("lab", "ring"))
    plane.settle()
    assert plane.workload["metadata"]["annotations"] == {IS_GROUP: "true"}


# Running


def test_a_group_starts_as_a_whole_each_pod_in_its_pod_set() -> None:
    plane = PodPlane()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(plane, member(name, 2, cpu=cpu))
    plane.admit()

    assert not plane.is_gated("leader")
    assert not plane.is_gated("worker")
    labels = [plane.pod(name)["metadata"]["labels"][POD_SET] for name in ("leader", "worker")]
    assert sorted(labels) == sorted(p["name"] for p in plane.workload["spec"]["podSets"])
    assert len(set(labels)) == 2


def test_a_group_that_lacks_a_flavor_for_some_of_its_pods_starts_none_and_says_so() -> None:
    plane = PodPlane()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(plane, member(name, 2, cpu=cpu))
    plane.said.clear()
    first, second = (pod_set["name"] for pod_set in plane.workload["spec"]["podSets"])
    assigned = [
        {"name": first, "count": 1, "flavors": {"cpu": "spot"}},
        {"name": second, "count": 1, "flavors": {"cpu": "gone"}},
    ]
    admission = {"clusterQueue": "big", "podSetAssignments": assigned}
    plane.say("QuotaReserved", "True", "QuotaReserved", admission=admission)
    plane.say("Admitted", "True", "Admitted")

    for _ in range(3):  # whatever else is written for it, nobody hears that a pod was started
        plane.settle()
        plane.say("QuotaReserved", "True", "QuotaReserved", f"said {plane.now}")

    assert plane.is_gated("leader")
    assert plane.is_gated("worker")
    assert plane.reasons_said() == ["FlavorNotFound"]


def test_a_group_is_ready_when_all_its_pods_are() -> None:
    plane = PodPlane()
    plane.create_group("one", "two")
    plane.admit()
    plane.start("one")
    assert plane.condition_of("PodsReady")[0] == "False"

    plane.start("two")

    assert plane.condition_of("PodsReady") == ("True", "Started")


def test_a_pod_that_succeeded_gives_its_part_back_and_is_kept_to_be_counted() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Succeeded")
    plane.remove("one")

    [given_back] = plane.workload["status"]["reclaimablePods"]
    assert given_back["count"] == 1
    assert plane.has_pod("one")
    assert plane.condition_of("PodsReady")[0] == "True"


def test_a_pod_that_succeeded_is_not_done_again() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Succeeded")
    put(plane, member("three", 2))

    assert not plane.has_pod("three")
    assert "Started" not in plane.reasons_said()


def test_a_group_has_finished_when_all_its_pods_succeeded() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Succeeded")
    plane.end("two", "Succeeded")

    assert plane.condition_of("Finished") == ("True", "Succeeded")
    for name in ("one", "two"):
        assert not plane.pod(name)["metadata"].get("finalizers")


def test_the_workload_of_a_finished_group_goes_with_its_last_pod() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Succeeded")
    plane.end("two", "Succeeded")
    plane.remove("one")
    assert plane.has_workload

    plane.remove("two")

    assert not plane.has_workload


def test_pods_under_the_name_of_a_group_that_is_gone_are_a_new_group() -> None:
    plane = running_group("one", "two")
    for name in ("one", "two"):
        plane.end(name, "Succeeded")
    plane.create(PODS, member("three", 2))
    plane.create(PODS, member("four", 2))
    plane.remove("one", "two")

    assert plane.condition_of("Finished") == ("", "")
    assert counts(plane) == [2]


def test_what_is_over_is_let_go_while_others_of_a_deleted_group_still_end() -> None:
    plane = running_group("one", "two")
    plane.delete(WORKLOADS, plane.workload_key)
    plane.remove("one", "two")

    plane.end("one", "Failed")
    assert not plane.has_pod("one")
    assert plane.has_workload

    plane.end("two", "Failed")
    assert not plane.has_pod("two")
    assert not plane.has_workload


# Replacement


def test_what_waits_for_pods_has_a_word_of_its_own() -> None:
    assert waiting_word([Defective(PODS_GONE)]) == LACK
    assert waiting_word([Defective("a container asks for more than its limit")]) != LACK


def test_a_group_that_waits_for_pods_lets_others_pass_until_they_are_there() -> None:
    plane = running_group("one", "two")
    plane.evict()
    for name in ("one", "two"):
        plane.end(name, "Failed")
    assert stands_aside(plane)

    put(plane, member("three", 2))
    assert stands_aside(plane)

    put(plane, member("four", 2))
    assert not stands_aside(plane)


def test_a_failed_pod_may_be_replaced_at_once() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Failed")
    assert plane.condition_of(LACK) == ("True", "PodsFailed")
    assert plane.condition_of("PodsReady") == ("False", "WaitForRecovery")

    put(plane, member("three", 2))
    assert not plane.is_gated("three")
    assert plane.condition_of(LACK)[0] == "False"

    plane.end("two", "Succeeded")
    plane.start("three")
    plane.end("three", "Succeeded")
    assert plane.condition_of("Finished") == ("True", "Succeeded")


def test_who_replaces_a_pod_that_leaves_starts_when_that_has_stopped() -> None:
    plane = running_group("one", "two")
    plane.remove("one")
    put(plane, member("three", 2))
    assert plane.is_gated("three")

    plane.end("one", "Failed")

    assert not plane.has_pod("one")
    assert not plane.is_gated("three")


def test_a_pod_unlike_all_that_were_admitted_does_not_start() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Failed")
    put(plane, member("three", 2, cpu="64"))

    assert plane.is_gated("three")
    assert plane.reasons_said()[-1] == "NotAdmitted"


def test_a_group_without_replacement_has_failed_when_its_last_pod_is_over() -> None:
    plane = running_group("one", "two", annotations={RETRIABLE: "false"})
    plane.end("one", "Failed")
    assert plane.condition_of("Finished") == ("", "")

    plane.end("two", "Succeeded")

    assert plane.condition_of("Finished") == ("True", "Failed")
    assert not plane.pod("one")["metadata"].get("finalizers")


def test_pods_that_failed_before_an_eviction_are_no_end_of_those_that_come_after() -> None:
    plane = running_group("one", "two", annotations={RETRIABLE: "false"})
    plane.end("one", "Failed")
    plane.evict()
    plane.end("two", "Failed")
    for name in ("three", "four"):
        put(plane, member(name, 2, annotations={RETRIABLE: "false"}))
    plane.admit()

    assert plane.condition_of("Finished") == ("", "")
    assert not plane.is_gated("three")


# Eviction


def test_an_evicted_group_gives_its_quota_back_when_the_last_pod_has_stopped() -> None:
    plane = running_group("one", "two")
    plane.evict()
    assert plane.is_leaving("one")
    assert plane.is_leaving("two")

    plane.end("one", "Failed")
    assert plane.holds_quota

    plane.end("two", "Failed")
    assert not plane.holds_quota
    assert not plane.has_pod("one")
    assert not plane.has_pod("two")


def test_an_evicted_group_waits_for_pods_in_place_of_those_it_lost() -> None:
    plane = running_group("one", "two")
    plane.evict()
    for name in ("one", "two"):
        plane.end(name, "Failed")
    assert plane.condition_of(LACK) == ("True", "Preempted")

    put(plane, member("three", 2))
    assert plane.condition_of(LACK)[0] == "True"

    put(plane, member("four", 2))
    assert plane.condition_of(LACK)[0] == "False"
    plane.admit()
    assert not plane.is_gated("three")
    assert not plane.is_gated("four")


def test_pods_of_another_shape_may_take_the_place_of_evicted_ones() -> None:
    plane = running_group("one", "two")
    plane.evict()
    for name in ("one", "two"):
        plane.end(name, "Failed")
    for name in ("three", "four"):
        put(plane, member(name, 2, cpu="2"))
    plane.admit()

    assert not plane.is_gated("three")
    [pod_set] = plane.workload["spec"]["podSets"]
    [container] = pod_set["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2"}


def test_a_pod_that_succeeded_before_the_eviction_needs_no_other() -> None:
    plane = running_group("one", "two")
    plane.end("one", "Succeeded")
    plane.evict()
    plane.end("two", "Failed")

    put(plane, member("three", 2))

    assert plane.has_pod("one")
    assert plane.condition_of(LACK)[0] == "False"


def test_what_an_admission_added_is_not_asked_for_again() -> None:
    plane = PodPlane()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(plane, member(name, 2, cpu=cpu))
    plane.admit()
    plane.start("leader", "worker")
    plane.end("leader", "Succeeded")
    plane.evict()
    plane.end("worker", "Failed")
    put(plane, member("other", 2, cpu="2"))

    specs = [pod_set["template"]["spec"] for pod_set in plane.workload["spec"]["podSets"]]
    requests = [spec["containers"][0]["resources"]["requests"]["cpu"] for spec in specs]
    assert sorted(requests) == ["2", "4"]
    assert not any(spec.get("nodeSelector") for spec in specs)


def test_a_group_evicted_before_it_started_goes_on_waiting() -> None:
    plane = PodPlane()
    plane.create_group("one", "two")
    plane.reserve()
    plane.evict()

    assert not plane.holds_quota
    assert plane.is_gated("one")
    assert plane.condition_of(LACK) == ("", "")


# Deletion


def test_a_group_that_could_not_start_goes_with_its_pods() -> None:
    plane = PodPlane()
    plane.create_group("one", "two", nodeSelector={"pool": "reserved"})
    plane.admit()
    assert plane.condition_of("Finished") == ("True", "FailedToStart")

    plane.remove("one", "two")

    assert not plane.has_workload


def test_a_group_whose_workload_vanished_is_queued_anew_when_what_runs_has_ended() -> None:
    plane = running_group("one", "two")
    plane.edit(WORKLOADS, Key("lab", "ring"), {"metadata": {"finalizers": None}})
    plane.delete(WORKLOADS, Key("lab", "ring"))
    plane.settle()
    plane.create_group("three", "four")
    assert not plane.has_workload

    for name in ("one", "two"):
        plane.end(name, "Failed")

    assert counts(plane) == [2]


def test_a_group_that_is_deleted_goes_as_a_whole() -> None:
    plane = running_group("one", "two", "three")
    plane.end("one", "Succeeded")
    plane.remove("one", "two", "three")
    plane.end("two", "Failed")
    assert plane.holds_quota

    plane.end("three", "Failed")

    assert not plane.has_workload
    assert plane.all(PODS) == []


def test_a_waiting_group_that_lost_a_pod_waits_for_another() -> None:
    plane = PodPlane()
    plane.create_group("one", "two")
    plane.remove("one")
    assert plane.condition_of(LACK) == ("True", "PodsFailed")

    plane.remove("two")

    assert not plane.has_workload


def test_a_group_that_was_evicted_and_came_back_goes_with_its_pods() -> None:
    plane = running_group("one", "two")
    plane.evict()
    for name in ("one", "two"):
        plane.end(name, "Failed")
    plane.create_group("three", "four")
    plane.remove("three")
    plane.remove("four")

    assert not plane.has_workload


# Trouble


def unanswered(plane: PodPlane) -> None:
    plane.fates_unknown = 1


def refused(plane: PodPlane) -> None:
    plane.refusals = [Conflict(409, "Conflict", "somebody was faster")]


def taken_over(plane: PodPlane) -> None:
    """A write is lost, and with it whoever sent it."""
    refused(plane)
    plane.settle()
    plane.restart()


@pytest.mark.parametrize("trouble", [unanswered, refused, taken_over])
def test_a_group_comes_through_whatever_goes_wrong_at_each_step(
    trouble: Callable[[PodPlane], None],
) -> None:
    plane = PodPlane()

    def then(step: Callable[[], None]) -> None:
        trouble(plane)
        step()
        for _ in range(3):
            plane.settle(plane.now + 60)

    then(lambda: plane.create_group("one", "two"))
    then(plane.admit)
    then(lambda: plane.start("one", "two"))
    then(plane.evict)
    then(lambda: plane.end("one", "Failed"))
    then(lambda: plane.end("two", "Failed"))
    assert plane.all(PODS) == []
    then(lambda: plane.create_group("three", "four"))
    then(plane.admit)
    then(lambda: plane.start("three", "four"))
    then(lambda: plane.end("three", "Succeeded"))
    then(lambda: plane.end("four", "Succeeded"))

    assert plane.condition_of("Finished") == ("True", "Succeeded")
    assert not plane.pod("three")["metadata"].get("finalizers")


# Moving in


def admitted_by_kueue() -> PodPlane:
    """Two pods that run; their pod set has a name that only Kueue can make."""
    plane = PodPlane()
    for name in ("one", "two"):
        plane.put(PODS, member(name, 2, annotations={ROLE_HASH: "5d2c7a91"}, schedulingGates=None))
    spec = {key: value for key, value in member("any", 2)["spec"].items() if key == "containers"}
    pod_set = {"name": "5d2c7a91", "count": 2, "template": {"spec": spec}}
    metadata = {"name": "ring", "namespace": "lab", "annotations": {IS_GROUP: "true"}}
    whole = {"queueName": "main", "active": True, "priority": 0, "podSets": [pod_set]}
    plane.create(WORKLOADS, {"metadata": metadata, "spec": whole})
    plane.reserve()
    plane.say("Admitted", "True", "Admitted")
    plane.start("one", "two")
    return plane


def test_a_group_that_kueue_has_admitted_goes_on() -> None:
    plane = admitted_by_kueue()

    assert plane.condition_of("PodsReady")[0] == "True"
    assert plane.condition_of(LACK) == ("", "")
    assert {write.resource for write in plane.sent} == {WORKLOADS}


def test_a_pod_takes_a_place_in_such_a_group_if_it_asks_for_the_same() -> None:
    plane = admitted_by_kueue()
    plane.end("one", "Failed")
    assert plane.condition_of(LACK)[0] == "True"

    put(plane, member("bigger", 2, cpu="9"))
    put(plane, member("three", 2))

    assert plane.is_gated("bigger")
    assert "NotAdmitted" in plane.reasons_said()
    assert not plane.is_gated("three")
    assert plane.pod("three")["metadata"]["labels"][POD_SET] == "5d2c7a91"
    assert plane.condition_of(LACK)[0] == "False"


def test_a_pod_that_waits_is_not_believed_which_pod_set_it_is_of() -> None:
    plane = admitted_by_kueue()
    plane.end("one", "Failed")

    put(plane, member("bigger", 2, cpu="9", annotations={ROLE_HASH: "5d2c7a91"}))

    assert plane.is_gated("bigger")

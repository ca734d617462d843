"""Pods that are admitted together, without a Job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from makeway.api.codec import decode_as
from makeway.api.labels import GROUP_FAST, GROUP_TOTAL, IS_GROUP, POD_SET, RETRIABLE, ROLE_HASH
from makeway.api.queueing import Workload
from makeway.client.client import Conflict, Document
from makeway.client.resources import PODS, WORKLOADS
from makeway.controller.pods import Pods
from makeway.engine.decisions import Defective
from makeway.plane.writes import Key
from makeway.translate import PODS_GONE, workload_of
from makeway.translate.categories import waiting_word
from makeway.translate.placement import gangs_held
from tests.controller.pods_lab import PodLab, member, pod, running_group

LACK = "WaitingForReplacementPods"


def counts(lab: PodLab) -> list[int]:
    return sorted(pod_set["count"] for pod_set in lab.workload["spec"]["podSets"])


def put(lab: PodLab, document: Document) -> None:
    lab.now += 1
    lab.put(PODS, document)
    lab.settle()


def stands_aside(lab: PodLab) -> bool:
    """Whether the queues let others pass it."""
    view = decode_as(Workload, lab.workload)
    assert view.object is not None, view.errors
    return workload_of(view.object).stands_aside


# Coming together


def test_a_group_is_queued_when_all_its_pods_are_there() -> None:
    lab = PodLab()
    put(lab, member("one", 2))
    assert not lab.has_workload
    assert lab.reasons_said() == ["WaitingForPods"]

    put(lab, member("two", 2))

    assert lab.workload["metadata"]["name"] == "ring"
    assert lab.workload["metadata"]["annotations"] == {IS_GROUP: "true"}
    assert "ownerReferences" not in lab.workload["metadata"]
    assert counts(lab) == [2]


def test_pods_that_ask_for_the_same_are_one_pod_set() -> None:
    lab = PodLab()
    for name, cpu in (("leader", "4"), ("worker-0", "1"), ("worker-1", "1")):
        put(lab, member(name, 3, cpu=cpu))

    assert counts(lab) == [1, 2]


def test_a_group_may_be_written_with_annotations_and_labels_alike() -> None:
    lab = PodLab()
    for name in ("one", "two"):
        group, total = {"kueue.x-k8s.io/pod-group-name": "ring"}, {GROUP_TOTAL: "2"}
        put(lab, pod(name, labels=total, annotations=group))

    assert lab.workload["metadata"]["name"] == "ring"


def test_the_first_pod_speaks_for_all_where_it_is_asked_to() -> None:
    lab = PodLab()
    put(lab, member("one", 3, annotations={GROUP_FAST: "true"}))
    lab.admit()

    assert counts(lab) == [3]
    assert not lab.is_gated("one")
    assert lab.condition(LACK) == ("", "")
    workload = decode_as(Workload, lab.workload).object
    assert workload is not None
    [gang] = gangs_held(workload, ())
    assert gang.min_count == 0  # it may start before the others come


def test_pods_that_disagree_about_their_number_wait_and_are_told() -> None:
    lab = PodLab()
    put(lab, member("one", 2))
    put(lab, member("two", 3))

    assert not lab.has_workload
    assert "different numbers of pods: 2, 3" in lab.said[-1].message


def test_pods_beyond_the_number_are_deleted_the_newest_first() -> None:
    lab = PodLab()
    lab.create_group("one", "two")
    for name in ("three", "four"):
        put(lab, member(name, 2))

    assert [lab.has_pod(name) for name in ("one", "two", "three", "four")] == [True, True] + [
        False
    ] * 2
    assert lab.reasons_said().count("ExcessPodDeleted") == 2


def test_a_pod_too_many_is_too_many_whatever_it_asks_for() -> None:
    lab = PodLab()
    lab.create_group("one", "two")
    put(lab, member("three", 2, cpu="64"))

    assert not lab.has_pod("three")
    assert counts(lab) == [2]


def test_the_name_of_a_workload_that_is_no_groups_is_left_alone() -> None:
    lab = PodLab()
    lab.create("solo")
    document = lab.workload
    lab.delete(PODS, Key("lab", "solo"))
    document["metadata"] = {"name": "ring", "namespace": "lab"}
    lab.put(WORKLOADS, document)
    lab.create_group("one", "two")

    assert "NameTaken" in lab.reasons_said()

    lab.delete(WORKLOADS, Key("lab", "ring"))
    lab.settle()
    assert lab.workload["metadata"]["annotations"] == {IS_GROUP: "true"}


# Running


def test_a_group_starts_as_a_whole_each_pod_in_its_pod_set() -> None:
    lab = PodLab()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(lab, member(name, 2, cpu=cpu))
    lab.admit()

    assert not lab.is_gated("leader")
    assert not lab.is_gated("worker")
    labels = [lab.pod(name)["metadata"]["labels"][POD_SET] for name in ("leader", "worker")]
    assert sorted(labels) == sorted(p["name"] for p in lab.workload["spec"]["podSets"])
    assert len(set(labels)) == 2


def test_a_group_that_lacks_a_flavor_for_some_of_its_pods_starts_none_and_says_so() -> None:
    lab = PodLab()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(lab, member(name, 2, cpu=cpu))
    lab.said.clear()
    first, second = (pod_set["name"] for pod_set in lab.workload["spec"]["podSets"])
    assigned = [
        {"name": first, "count": 1, "flavors": {"cpu": "spot"}},
        {"name": second, "count": 1, "flavors": {"cpu": "gone"}},
    ]
    admission = {"clusterQueue": "big", "podSetAssignments": assigned}
    lab.say("QuotaReserved", "True", "QuotaReserved", admission=admission)
    lab.say("Admitted", "True", "Admitted")

    for _ in range(3):  # whatever else is written for it, nobody hears that a pod was started
        lab.settle()
        lab.say("QuotaReserved", "True", "QuotaReserved", f"said {lab.now}")

    assert lab.is_gated("leader")
    assert lab.is_gated("worker")
    assert lab.reasons_said() == ["FlavorNotFound"]


def test_a_group_is_ready_when_all_its_pods_are() -> None:
    lab = PodLab()
    lab.create_group("one", "two")
    lab.admit()
    lab.run("one")
    assert lab.condition("PodsReady")[0] == "False"

    lab.run("two")

    assert lab.condition("PodsReady") == ("True", "Started")


def test_a_pod_that_succeeded_gives_its_part_back_and_is_kept_to_be_counted() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Succeeded")
    lab.remove("one")

    [given_back] = lab.workload["status"]["reclaimablePods"]
    assert given_back["count"] == 1
    assert lab.has_pod("one")
    assert lab.condition("PodsReady")[0] == "True"


def test_a_pod_that_succeeded_is_not_done_again() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Succeeded")
    put(lab, member("three", 2))

    assert not lab.has_pod("three")
    assert "Started" not in lab.reasons_said()


def test_a_group_has_finished_when_all_its_pods_succeeded() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Succeeded")
    lab.end("two", "Succeeded")

    assert lab.condition("Finished") == ("True", "Succeeded")
    for name in ("one", "two"):
        assert not lab.pod(name)["metadata"].get("finalizers")


def test_the_workload_of_a_finished_group_goes_with_its_last_pod() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Succeeded")
    lab.end("two", "Succeeded")
    lab.remove("one")
    assert lab.has_workload

    lab.remove("two")

    assert not lab.has_workload


def test_pods_under_the_name_of_a_group_that_is_gone_are_a_new_group() -> None:
    lab = running_group("one", "two")
    for name in ("one", "two"):
        lab.end(name, "Succeeded")
    lab.put(PODS, member("three", 2))
    lab.put(PODS, member("four", 2))
    lab.remove("one", "two")

    assert lab.condition("Finished") == ("", "")
    assert counts(lab) == [2]


def test_what_is_over_is_let_go_while_others_of_a_deleted_group_still_end() -> None:
    lab = running_group("one", "two")
    lab.delete(WORKLOADS, lab.workload_key)
    lab.remove("one", "two")

    lab.end("one", "Failed")
    assert not lab.has_pod("one")
    assert lab.has_workload

    lab.end("two", "Failed")
    assert not lab.has_pod("two")
    assert not lab.has_workload


# Replacement


def test_what_waits_for_pods_has_a_word_of_its_own() -> None:
    assert waiting_word([Defective(PODS_GONE)]) == LACK
    assert waiting_word([Defective("a container asks for more than its limit")]) != LACK


def test_a_group_that_waits_for_pods_lets_others_pass_until_they_are_there() -> None:
    lab = running_group("one", "two")
    lab.evict()
    for name in ("one", "two"):
        lab.end(name, "Failed")
    assert stands_aside(lab)

    put(lab, member("three", 2))
    assert stands_aside(lab)

    put(lab, member("four", 2))
    assert not stands_aside(lab)


def test_a_failed_pod_may_be_replaced_at_once() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Failed")
    assert lab.condition(LACK) == ("True", "PodsFailed")
    assert lab.condition("PodsReady") == ("False", "WaitForRecovery")

    put(lab, member("three", 2))
    assert not lab.is_gated("three")
    assert lab.condition(LACK)[0] == "False"

    lab.end("two", "Succeeded")
    lab.run("three")
    lab.end("three", "Succeeded")
    assert lab.condition("Finished") == ("True", "Succeeded")


def test_who_replaces_a_pod_that_leaves_starts_when_that_has_stopped() -> None:
    lab = running_group("one", "two")
    lab.remove("one")
    put(lab, member("three", 2))
    assert lab.is_gated("three")

    lab.end("one", "Failed")

    assert not lab.has_pod("one")
    assert not lab.is_gated("three")


def test_a_pod_unlike_all_that_were_admitted_does_not_start() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Failed")
    put(lab, member("three", 2, cpu="64"))

    assert lab.is_gated("three")
    assert lab.reasons_said()[-1] == "NotAdmitted"


def test_a_group_without_replacement_has_failed_when_its_last_pod_is_over() -> None:
    lab = running_group("one", "two", annotations={RETRIABLE: "false"})
    lab.end("one", "Failed")
    assert lab.condition("Finished") == ("", "")

    lab.end("two", "Succeeded")

    assert lab.condition("Finished") == ("True", "Failed")
    assert not lab.pod("one")["metadata"].get("finalizers")


def test_pods_that_failed_before_an_eviction_are_no_end_of_those_that_come_after() -> None:
    lab = running_group("one", "two", annotations={RETRIABLE: "false"})
    lab.end("one", "Failed")
    lab.evict()
    lab.end("two", "Failed")
    for name in ("three", "four"):
        put(lab, member(name, 2, annotations={RETRIABLE: "false"}))
    lab.admit()

    assert lab.condition("Finished") == ("", "")
    assert not lab.is_gated("three")


# Eviction


def test_an_evicted_group_gives_its_quota_back_when_the_last_pod_has_stopped() -> None:
    lab = running_group("one", "two")
    lab.evict()
    assert lab.is_leaving("one")
    assert lab.is_leaving("two")

    lab.end("one", "Failed")
    assert lab.holds_quota

    lab.end("two", "Failed")
    assert not lab.holds_quota
    assert not lab.has_pod("one")
    assert not lab.has_pod("two")


def test_an_evicted_group_waits_for_pods_in_place_of_those_it_lost() -> None:
    lab = running_group("one", "two")
    lab.evict()
    for name in ("one", "two"):
        lab.end(name, "Failed")
    assert lab.condition(LACK) == ("True", "Preempted")

    put(lab, member("three", 2))
    assert lab.condition(LACK)[0] == "True"

    put(lab, member("four", 2))
    assert lab.condition(LACK)[0] == "False"
    lab.admit()
    assert not lab.is_gated("three")
    assert not lab.is_gated("four")


def test_pods_of_another_shape_may_take_the_place_of_evicted_ones() -> None:
    lab = running_group("one", "two")
    lab.evict()
    for name in ("one", "two"):
        lab.end(name, "Failed")
    for name in ("three", "four"):
        put(lab, member(name, 2, cpu="2"))
    lab.admit()

    assert not lab.is_gated("three")
    [pod_set] = lab.workload["spec"]["podSets"]
    [container] = pod_set["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "2"}


def test_a_pod_that_succeeded_before_the_eviction_needs_no_other() -> None:
    lab = running_group("one", "two")
    lab.end("one", "Succeeded")
    lab.evict()
    lab.end("two", "Failed")

    put(lab, member("three", 2))

    assert lab.has_pod("one")
    assert lab.condition(LACK)[0] == "False"


def test_what_an_admission_added_is_not_asked_for_again() -> None:
    lab = PodLab()
    for name, cpu in (("leader", "4"), ("worker", "1")):
        put(lab, member(name, 2, cpu=cpu))
    lab.admit()
    lab.run("leader", "worker")
    lab.end("leader", "Succeeded")
    lab.evict()
    lab.end("worker", "Failed")
    put(lab, member("other", 2, cpu="2"))

    specs = [pod_set["template"]["spec"] for pod_set in lab.workload["spec"]["podSets"]]
    requests = [spec["containers"][0]["resources"]["requests"]["cpu"] for spec in specs]
    assert sorted(requests) == ["2", "4"]
    assert not any(spec.get("nodeSelector") for spec in specs)


def test_a_group_evicted_before_it_started_goes_on_waiting() -> None:
    lab = PodLab()
    lab.create_group("one", "two")
    lab.reserve()
    lab.evict()

    assert not lab.holds_quota
    assert lab.is_gated("one")
    assert lab.condition(LACK) == ("", "")


# Deletion


def test_a_group_that_could_not_start_goes_with_its_pods() -> None:
    lab = PodLab()
    lab.create_group("one", "two", nodeSelector={"pool": "reserved"})
    lab.admit()
    assert lab.condition("Finished") == ("True", "FailedToStart")

    lab.remove("one", "two")

    assert not lab.has_workload


def test_a_group_whose_workload_vanished_is_queued_anew_when_what_runs_has_ended() -> None:
    lab = running_group("one", "two")
    lab.edit(WORKLOADS, Key("lab", "ring"), {"metadata": {"finalizers": None}})
    lab.delete(WORKLOADS, Key("lab", "ring"))
    lab.settle()
    lab.create_group("three", "four")
    assert not lab.has_workload

    for name in ("one", "two"):
        lab.end(name, "Failed")

    assert counts(lab) == [2]


def test_a_group_that_is_deleted_goes_as_a_whole() -> None:
    lab = running_group("one", "two", "three")
    lab.end("one", "Succeeded")
    lab.remove("one", "two", "three")
    lab.end("two", "Failed")
    assert lab.holds_quota

    lab.end("three", "Failed")

    assert not lab.has_workload
    assert list(lab.picture.keys(PODS)) == []


def test_a_waiting_group_that_lost_a_pod_waits_for_another() -> None:
    lab = PodLab()
    lab.create_group("one", "two")
    lab.remove("one")
    assert lab.condition(LACK) == ("True", "PodsFailed")

    lab.remove("two")

    assert not lab.has_workload


def test_a_group_that_was_evicted_and_came_back_goes_with_its_pods() -> None:
    lab = running_group("one", "two")
    lab.evict()
    for name in ("one", "two"):
        lab.end(name, "Failed")
    lab.create_group("three", "four")
    lab.remove("three")
    lab.remove("four")

    assert not lab.has_workload


# Trouble


def unanswered(lab: PodLab) -> None:
    lab.fates_unknown = 1


def refused(lab: PodLab) -> None:
    lab.refusals = [Conflict(409, "Conflict", "somebody was faster")]


def taken_over(lab: PodLab) -> None:
    """A write is lost, and with it whoever sent it."""
    refused(lab)
    lab.settle()
    lab.restart(Pods(lab.picture))


@pytest.mark.parametrize("trouble", [unanswered, refused, taken_over])
def test_a_group_comes_through_whatever_goes_wrong_at_each_step(
    trouble: Callable[[PodLab], None],
) -> None:
    lab = PodLab()

    def then(step: Callable[[], None]) -> None:
        trouble(lab)
        step()
        for _ in range(3):
            lab.settle(lab.now + 60)

    then(lambda: lab.create_group("one", "two"))
    then(lab.admit)
    then(lambda: lab.run("one", "two"))
    then(lab.evict)
    then(lambda: lab.end("one", "Failed"))
    then(lambda: lab.end("two", "Failed"))
    assert list(lab.picture.keys(PODS)) == []
    then(lambda: lab.create_group("three", "four"))
    then(lab.admit)
    then(lambda: lab.run("three", "four"))
    then(lambda: lab.end("three", "Succeeded"))
    then(lambda: lab.end("four", "Succeeded"))

    assert lab.condition("Finished") == ("True", "Succeeded")
    assert not lab.pod("three")["metadata"].get("finalizers")


# Moving in


def admitted_by_kueue() -> PodLab:
    """Two pods that run; their pod set has a name that only Kueue can make."""
    lab = PodLab()
    for name in ("one", "two"):
        lab.put(PODS, member(name, 2, annotations={ROLE_HASH: "5d2c7a91"}, schedulingGates=None))
    spec = {key: value for key, value in member("any", 2)["spec"].items() if key == "containers"}
    pod_set = {"name": "5d2c7a91", "count": 2, "template": {"spec": spec}}
    metadata = {"name": "ring", "namespace": "lab", "annotations": {IS_GROUP: "true"}}
    whole = {"queueName": "main", "active": True, "priority": 0, "podSets": [pod_set]}
    lab.put(WORKLOADS, {"metadata": metadata, "spec": whole})
    lab.reserve()
    lab.say("Admitted", "True", "Admitted")
    lab.run("one", "two")
    return lab


def test_a_group_that_kueue_has_admitted_goes_on() -> None:
    lab = admitted_by_kueue()

    assert lab.condition("PodsReady")[0] == "True"
    assert lab.condition(LACK) == ("", "")
    assert {write.resource for write in lab.sent} == {WORKLOADS}


def test_a_pod_takes_a_place_in_such_a_group_if_it_asks_for_the_same() -> None:
    lab = admitted_by_kueue()
    lab.end("one", "Failed")
    assert lab.condition(LACK)[0] == "True"

    put(lab, member("bigger", 2, cpu="9"))
    put(lab, member("three", 2))

    assert lab.is_gated("bigger")
    assert "NotAdmitted" in lab.reasons_said()
    assert not lab.is_gated("three")
    assert lab.pod("three")["metadata"]["labels"][POD_SET] == "5d2c7a91"
    assert lab.condition(LACK)[0] == "False"


def test_a_pod_that_waits_is_not_believed_which_pod_set_it_is_of() -> None:
    lab = admitted_by_kueue()
    lab.end("one", "Failed")

    put(lab, member("bigger", 2, cpu="9", annotations={ROLE_HASH: "5d2c7a91"}))

    assert lab.is_gated("bigger")

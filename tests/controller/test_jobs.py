"""A Job and its Workload, from first sight to the end."""

from __future__ import annotations

from makeway.api.labels import IN_USE, JOB_UID, POD_SET, WORKLOAD
from makeway.client.client import ApiError, Conflict, Resource
from makeway.client.resources import (
    FLAVORS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
)
from makeway.controller.jobs import Jobs
from makeway.plane.writes import Key
from tests.controller.lab import TRAIN, Lab, flavor, job, pod, running, suspended, workload_class

# First sight


def test_a_queued_job_gets_a_workload_that_asks_for_its_pods() -> None:
    lab = Lab(parallelism=3)
    lab.submit(annotations={"makeway.dev/preemption-mode": "PodGroup"})

    metadata, spec = lab.workload["metadata"], lab.workload["spec"]
    assert metadata["name"].startswith("job-train-")
    assert metadata["labels"] == {JOB_UID: lab.job["metadata"]["uid"]}
    assert metadata["annotations"] == {"makeway.dev/preemption-mode": "PodGroup"}
    assert metadata["finalizers"] == [IN_USE]
    assert metadata["ownerReferences"][0]["controller"] is True
    assert (spec["queueName"], spec["priority"], spec["active"]) == ("main", 0, True)
    assert spec["podSets"][0]["count"] == 3
    assert spec["podSets"][0]["template"] == lab.job["spec"]["template"]
    assert lab.reasons_said() == ["CreatedWorkload"]


def test_no_more_pods_are_asked_for_than_there_are_completions() -> None:
    lab = Lab(parallelism=8, completions=5)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})

    assert lab.workload["spec"]["podSets"][0]["count"] == 5
    assert lab.workload["spec"]["podSets"][0]["minCount"] == 2


def test_a_number_that_is_none_is_told_and_passed_over() -> None:
    lab = Lab()
    lab.submit(
        labels={"kueue.x-k8s.io/max-exec-time-seconds": "soon"},
        annotations={"kueue.x-k8s.io/job-min-parallelism": "7"},
    )

    assert "minCount" not in lab.workload["spec"]["podSets"][0]
    assert "maximumExecutionTimeSeconds" not in lab.workload["spec"]
    assert "Misunderstood" in lab.reasons_said()


def test_a_queued_job_that_runs_unasked_is_held_back() -> None:
    lab = Lab(suspend=False)
    lab.submit()

    assert lab.job["spec"]["suspend"] is True
    assert "Suspended" in lab.reasons_said()


def test_jobs_without_a_queue_or_under_other_management_are_left_alone() -> None:
    lab = Lab(suspend=False, managedBy="example.com/other")
    lab.submit()
    loose = job(suspend=False)
    loose["metadata"] |= {"name": "loose", "labels": {}}
    lab.put(JOBS, loose)
    lab.settle()

    assert lab.sent == []


def test_a_part_of_a_queued_job_waits_in_no_queue_of_its_own() -> None:
    lab = Lab()
    lab.submit()
    part = job(suspend=False)
    part["metadata"]["name"] = "part"
    part["metadata"]["ownerReferences"] = pod("x", lab.job["metadata"]["uid"])["metadata"][
        "ownerReferences"
    ]
    lab.put(JOBS, part)
    lab.settle()

    assert len(list(lab.picture.keys(WORKLOADS))) == 1
    assert lab.get(JOBS, Key("lab", "part"))["spec"]["suspend"] is False


def test_a_finished_job_gets_no_workload() -> None:
    lab = Lab(suspend=False)
    lab.job_to_be["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    lab.submit()

    assert lab.sent == []


def test_a_create_whose_answer_was_lost_makes_no_second_workload() -> None:
    lab = Lab()
    lab.fates_unknown = 1
    lab.submit()
    lab.settle(lab.now + 60)

    assert lab.workload["spec"]["queueName"] == "main"


# Priority


def test_the_label_names_the_class_that_counts() -> None:
    lab = Lab()
    lab.put(WORKLOAD_CLASSES, workload_class("urgent", 100))
    lab.put(PRIORITY_CLASSES, workload_class("pods", 7))
    lab.job_to_be["spec"]["template"]["spec"]["priorityClassName"] = "pods"
    lab.submit(labels={"kueue.x-k8s.io/priority-class": "urgent"})

    assert lab.workload["spec"]["priority"] == 100
    assert lab.workload["spec"]["priorityClassRef"]["kind"] == "WorkloadPriorityClass"


def test_without_a_label_the_class_of_the_pods_counts() -> None:
    lab = Lab()
    lab.put(PRIORITY_CLASSES, workload_class("pods", 7))
    lab.job_to_be["spec"]["template"]["spec"]["priorityClassName"] = "pods"
    lab.submit()

    assert lab.workload["spec"]["priority"] == 7
    assert lab.workload["spec"]["priorityClassRef"]["kind"] == "PriorityClass"


def test_without_any_class_the_default_one_counts() -> None:
    lab = Lab()
    lab.put(PRIORITY_CLASSES, {**workload_class("usual", 3), "globalDefault": True})
    lab.submit()

    assert lab.workload["spec"]["priority"] == 3


def test_a_job_of_a_missing_class_waits_for_the_class() -> None:
    lab = Lab()
    lab.submit(labels={"kueue.x-k8s.io/priority-class": "urgent"})
    assert list(lab.picture.keys(WORKLOADS)) == []
    assert lab.reasons_said() == ["PriorityClassNotFound"]

    lab.put(WORKLOAD_CLASSES, workload_class("urgent", 100))
    lab.settle()

    assert lab.workload["spec"]["priority"] == 100


# Start


def test_an_admitted_job_starts_with_what_its_flavor_needs_in_one_write() -> None:
    lab = Lab()
    lab.submit()
    lab.sent.clear()
    lab.admit()

    template = lab.job["spec"]["template"]
    assert lab.job["spec"]["suspend"] is False
    assert template["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert template["metadata"]["labels"] == {"app": "train", POD_SET: "main"}
    assert template["metadata"]["annotations"] == {WORKLOAD: lab.workload_key.name}
    assert [write.resource for write in lab.sent].count(JOBS) == 1
    assert lab.reasons_said()[-1] == "Started"


def test_a_job_that_has_little_left_to_do_starts_with_no_fewer_pods_than_it_accepts() -> None:
    lab = Lab(parallelism=4, completions=4)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "3"})
    lab.report(succeeded=2, conditions=[suspended("True")])

    lab.admit(count=2)

    assert (lab.job["spec"]["suspend"], lab.job["spec"]["parallelism"]) == (False, 3)


def test_a_job_admitted_in_part_starts_with_fewer_pods() -> None:
    lab = Lab(parallelism=8)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    lab.admit(count=3)

    assert lab.job["spec"]["parallelism"] == 3
    assert lab.job["spec"]["suspend"] is False


def test_an_indexed_job_may_ask_for_as_many_completions_as_pods() -> None:
    lab = Lab(parallelism=8, completions=8, completionMode="Indexed")
    lab.submit(
        annotations={
            "kueue.x-k8s.io/job-min-parallelism": "2",
            "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
        }
    )
    lab.admit(count=3)

    assert (lab.job["spec"]["parallelism"], lab.job["spec"]["completions"]) == (3, 3)


def test_what_an_admission_check_wants_of_the_pods_is_added() -> None:
    lab = Lab()
    lab.submit()
    update = {"name": "main", "nodeSelector": {"reservation": "r-1"}, "labels": {"seen": "yes"}}
    check = {"name": "provision", "state": "Ready", "podSetUpdates": [update]}
    lab.admit(admissionChecks=[check])

    template = lab.job["spec"]["template"]
    assert template["spec"]["nodeSelector"]["reservation"] == "r-1"
    assert template["metadata"]["labels"]["seen"] == "yes"


def test_a_job_that_contradicts_its_flavor_never_starts() -> None:
    lab = Lab()
    lab.job_to_be["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "reserved"}
    lab.submit()
    lab.admit()

    assert lab.job["spec"]["suspend"] is True
    assert lab.condition("Finished") == ("True", "FailedToStart")
    assert "FailedToStart" in lab.reasons_said()


def test_a_job_waits_for_a_flavor_that_is_gone() -> None:
    lab = Lab()
    lab.submit()
    lab.delete(FLAVORS, Key("", "spot"))
    lab.admit()
    assert lab.job["spec"]["suspend"] is True

    lab.put(FLAVORS, flavor("spot", {"pool": "spot"}))
    lab.settle()

    assert lab.job["spec"]["suspend"] is False


def test_a_start_that_conflicts_is_tried_again_and_told_once() -> None:
    lab = Lab()
    lab.submit()
    lab.refusals = [Conflict(409, "Conflict", "changed meanwhile")]
    lab.admit()
    lab.settle(lab.now + 1)

    assert lab.job["spec"]["suspend"] is False
    assert lab.reasons_said().count("Started") == 1


# Stop and release


def test_an_evicted_job_is_stopped_and_told_why() -> None:
    lab = running()
    lab.evict()

    assert lab.job["spec"]["suspend"] is True
    assert lab.reasons_said() == ["Stopped"]
    assert "lab/eval" in lab.said[0].message
    assert lab.holds_quota


def test_quota_is_given_back_when_the_last_pod_is_gone_and_not_before() -> None:
    lab = running()
    lab.evict()
    lab.delete(PODS, Key("lab", "train-0"))
    lab.settle()
    assert lab.holds_quota, "one pod is still there"
    lab.delete(PODS, Key("lab", "train-1"))
    lab.settle()
    assert lab.holds_quota, "the Job's status still counts pods"

    lab.stop_pods()

    assert lab.condition("QuotaReserved") == ("False", "Pending")
    assert lab.condition("Admitted") == ("False", "NoReservation")
    assert lab.condition("Evicted") == ("True", "Preempted")
    assert "admission" not in lab.workload["status"]


def test_a_pod_on_its_way_out_holds_quota() -> None:
    lab = running()
    lab.edit(PODS, Key("lab", "train-1"), {"metadata": {"finalizers": ["example.com/slow"]}})
    lab.evict()
    lab.stop_pods("train-0", "train-1")
    assert lab.holds_quota

    lab.edit(PODS, Key("lab", "train-1"), {"metadata": {"finalizers": None}})
    lab.settle()

    assert not lab.holds_quota


def test_a_failed_pod_on_its_way_out_holds_quota() -> None:
    lab = running()
    slow = Key("lab", "train-1")
    lab.edit(PODS, slow, {"metadata": {"finalizers": ["example.com/slow"]}})
    lab.edit(PODS, slow, {"status": {"phase": "Failed"}}, "status")
    lab.evict()
    lab.stop_pods("train-0", "train-1")

    assert lab.holds_quota


def test_pods_that_only_the_jobs_status_knows_of_hold_quota() -> None:
    lab = Lab()
    lab.submit()
    lab.admit()
    lab.report(active=1)
    lab.evict()
    assert lab.holds_quota

    lab.report(active=0, terminating=1)
    assert lab.holds_quota

    lab.report(terminating=0)
    assert not lab.holds_quota


def test_pods_nobody_has_seen_yet_hold_quota() -> None:
    lab = Lab()
    lab.submit()
    lab.admit()
    lab.report(conditions=[suspended("False")], startTime="1970-01-01T00:20:00Z")
    lab.evict()

    assert lab.job["spec"]["suspend"] is True
    assert lab.holds_quota, "who creates pods has not said that it stopped"


def test_a_workload_evicted_before_it_started_gives_its_quota_back_at_once() -> None:
    lab = Lab()
    lab.submit()
    lab.reserve()
    lab.evict()

    assert not lab.holds_quota


def test_a_stopped_job_is_again_as_its_user_wrote_it() -> None:
    lab = Lab(parallelism=8)
    lab.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    written = lab.job["spec"]
    lab.admit(count=3)
    lab.run_pods("train-0")
    lab.evict()
    lab.stop_pods("train-0")

    assert lab.job["spec"]["parallelism"] == 8
    template = lab.job["spec"]["template"]
    assert template["spec"]["nodeSelector"] == written["template"]["spec"]["nodeSelector"]
    assert template["metadata"]["labels"] == {"app": "train"}
    assert not template["spec"].get("tolerations")
    assert not template["metadata"].get("annotations")


def test_the_template_is_left_alone_until_the_job_counts_as_not_started() -> None:
    lab = running()
    lab.evict()
    for name in ("train-0", "train-1"):
        lab.delete(PODS, Key("lab", name))
    lab.report(active=0, conditions=[suspended("True")])
    assert not lab.holds_quota
    assert "pool" in lab.job["spec"]["template"]["spec"]["nodeSelector"]

    lab.report(startTime=None)

    assert "pool" not in lab.job["spec"]["template"]["spec"]["nodeSelector"]
    assert "Refused" not in lab.reasons_said()


def test_a_job_that_counts_as_started_waits_before_it_gets_another_flavor() -> None:
    lab = running()
    lab.evict()
    for name in ("train-0", "train-1"):
        lab.delete(PODS, Key("lab", name))
    lab.report(active=0, conditions=[suspended("True")])
    lab.edit(FLAVORS, Key("", "spot"), {"spec": {"nodeLabels": {"pool": "cheap"}}})
    lab.admit()
    assert lab.job["spec"]["suspend"] is True

    lab.report(startTime=None)

    assert lab.job["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "cheap"
    assert lab.job["spec"]["suspend"] is False
    assert "Refused" not in lab.reasons_said()


def test_a_job_runs_again_with_another_flavor() -> None:
    lab = running()
    lab.evict()
    lab.stop_pods("train-0", "train-1")
    lab.edit(FLAVORS, Key("", "spot"), {"spec": {"nodeLabels": {"pool": "cheap"}}})
    lab.admit()

    assert lab.job["spec"]["suspend"] is False
    assert lab.job["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "cheap"


def test_a_deactivated_workload_stops_its_job() -> None:
    lab = running()
    lab.edit(WORKLOADS, lab.workload_key, {"spec": {"active": False}})
    lab.settle()

    assert lab.job["spec"]["suspend"] is True
    assert lab.reasons_said() == ["Stopped"]


def test_after_a_restart_a_stop_goes_on_where_it_was() -> None:
    lab = running()
    lab.evict()
    lab.restart(Jobs(lab.picture))
    lab.settle()
    assert lab.holds_quota

    lab.stop_pods("train-0", "train-1")

    assert not lab.holds_quota


# The end


def test_a_finished_job_finishes_its_workload_and_lets_go_of_it() -> None:
    lab = running()
    for name in ("train-0", "train-1"):
        lab.edit(PODS, Key("lab", name), {"status": {"phase": "Succeeded"}}, "status")
    complete = {"type": "Complete", "status": "True", "message": "Reached 2 completions"}
    lab.report(active=0, succeeded=2, conditions=[complete])

    assert lab.condition("Finished") == ("True", "Succeeded")
    assert not lab.workload["metadata"].get("finalizers")
    assert lab.reasons_said() == ["FinishedWorkload"]


def test_a_failed_job_holds_its_quota_until_its_last_pod_is_gone() -> None:
    lab = running()
    failed = {"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}
    lab.report(active=0, conditions=[failed])
    assert lab.condition("Finished") == ("", "")

    lab.delete(PODS, Key("lab", "train-0"))
    lab.edit(PODS, Key("lab", "train-1"), {"status": {"phase": "Failed"}}, "status")
    lab.settle()

    assert lab.condition("Finished") == ("True", "Failed")


def test_a_job_whose_workload_somebody_declares_finished_does_not_run_on() -> None:
    lab = running()
    lab.say("Finished", "True", "OutOfSync")
    lab.settle()

    assert lab.job["spec"]["suspend"] is True


def test_a_workload_that_cannot_be_read_is_told_of_and_left_alone() -> None:
    lab = running()
    document = lab.workload
    document["spec"]["queueName"] = ["main"]
    document["metadata"]["resourceVersion"] = "10000"
    lab.picture.take(WORKLOADS, document)
    lab.restart(Jobs(lab.picture))
    lab.settle()

    assert lab.job["spec"]["suspend"] is False
    assert lab.reasons_said() == ["Unreadable"]


def test_the_workload_of_a_deleted_job_stays_until_its_pods_are_gone() -> None:
    lab = running()
    name = lab.workload_key
    lab.delete(JOBS, TRAIN)
    lab.delete(WORKLOADS, name)  # as the server does for what the Job owns
    lab.delete(PODS, Key("lab", "train-0"))
    lab.settle()
    assert lab.picture.has(WORKLOADS, name)

    lab.delete(PODS, Key("lab", "train-1"))
    lab.settle()

    assert not lab.picture.has(WORKLOADS, name)


def test_the_workload_of_a_job_deleted_without_its_pods_goes_when_they_have_ended() -> None:
    lab = running()
    name, pods = lab.workload_key, [Key("lab", "train-0"), Key("lab", "train-1")]
    labels = {"batch.kubernetes.io/controller-uid": lab.job["metadata"]["uid"]}
    for left in pods:
        lab.edit(PODS, left, {"metadata": {"labels": labels, "ownerReferences": None}})
    lab.edit(WORKLOADS, name, {"metadata": {"ownerReferences": None}})  # as a server does
    lab.delete(JOBS, TRAIN)
    lab.settle()
    assert lab.condition("QuotaReserved")[0] == "True"

    for left in pods:
        lab.edit(PODS, left, {"status": {"phase": "Succeeded"}}, "status")
    lab.settle()

    assert not lab.picture.has(WORKLOADS, name)


def test_a_job_made_anew_under_the_same_name_has_a_workload_of_its_own() -> None:
    lab = Lab()
    lab.submit()
    old = lab.workload_key
    lab.delete(JOBS, TRAIN)
    lab.put(JOBS, job())
    lab.delete(WORKLOADS, old)
    lab.settle()

    assert lab.workload_key != old


def test_a_workload_deleted_by_hand_stops_its_job_and_is_made_anew() -> None:
    lab = running()
    uid = lab.workload["metadata"]["uid"]
    lab.delete(WORKLOADS, lab.workload_key)
    lab.settle()
    assert lab.job["spec"]["suspend"] is True
    assert lab.workload["metadata"]["uid"] == uid

    lab.stop_pods("train-0", "train-1")

    assert lab.workload["metadata"]["uid"] != uid
    assert lab.workload["spec"]["podSets"][0]["template"] == lab.job["spec"]["template"]
    assert "pool" not in lab.job["spec"]["template"]["spec"]["nodeSelector"]


def test_a_workload_deleted_by_hand_stays_while_a_pod_is_there() -> None:
    lab = Lab()
    lab.submit()
    lab.admit()
    lab.put(PODS, pod("train-0", lab.job["metadata"]["uid"]))  # and no status tells of it yet
    name, uid = lab.workload_key, lab.workload["metadata"]["uid"]
    lab.delete(WORKLOADS, name)
    lab.settle()
    assert lab.workload["metadata"]["uid"] == uid

    lab.delete(PODS, Key("lab", "train-0"))
    lab.settle()

    assert lab.workload["metadata"]["uid"] != uid


def resource_versions(lab: Lab, resource: Resource) -> list[str]:
    return [document["metadata"]["resourceVersion"] for document in lab.picture.all(resource)]


def test_nothing_is_written_when_nothing_is_to_be_done() -> None:
    lab = running()
    before = resource_versions(lab, JOBS), resource_versions(lab, WORKLOADS)
    lab.restart(Jobs(lab.picture))
    lab.settle()

    assert (resource_versions(lab, JOBS), resource_versions(lab, WORKLOADS)) == before


def test_a_write_that_is_refused_is_told_once() -> None:
    lab = Lab()
    lab.refusals = [ApiError(422, "Invalid", "spec.podSets: no")] * 2
    lab.submit()
    lab.settle(lab.now + 10)
    lab.settle(lab.now + 10)

    assert lab.reasons_said() == ["Refused", "CreatedWorkload"]

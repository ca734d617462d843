"""A Job and its Workload, from first sight to the end."""

from __future__ import annotations

from makeway.api.kinds import (
    FLAVORS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    WORKLOAD_CLASSES,
    WORKLOADS,
    Resource,
)
from makeway.api.labels import IN_USE, JOB_UID, POD_SET, WORKLOAD
from makeway.client.client import ApiError, Conflict
from makeway.plane.writes import Key
from tests.harness.jobs import TRAIN, JobPlane, flavor, job, pod, running, suspended, workload_class

# First sight


def test_a_queued_job_gets_a_workload_that_asks_for_its_pods() -> None:
    plane = JobPlane(parallelism=3)
    plane.submit(annotations={"makeway.dev/preemption-mode": "PodGroup"})

    metadata, spec = plane.workload["metadata"], plane.workload["spec"]
    assert metadata["name"].startswith("job-train-")
    assert metadata["labels"] == {JOB_UID: plane.job["metadata"]["uid"]}
    assert metadata["annotations"] == {"makeway.dev/preemption-mode": "PodGroup"}
    assert metadata["finalizers"] == [IN_USE]
    assert metadata["ownerReferences"][0]["controller"] is True
    assert (spec["queueName"], spec["priority"], spec["active"]) == ("main", 0, True)
    assert spec["podSets"][0]["count"] == 3
    assert spec["podSets"][0]["template"] == plane.job["spec"]["template"]
    assert plane.reasons_said() == ["CreatedWorkload"]


def test_no_more_pods_are_asked_for_than_there_are_completions() -> None:
    plane = JobPlane(parallelism=8, completions=5)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})

    assert plane.workload["spec"]["podSets"][0]["count"] == 5
    assert plane.workload["spec"]["podSets"][0]["minCount"] == 2


def test_a_number_that_is_none_is_told_and_passed_over() -> None:
    plane = JobPlane()
    plane.submit_elsewhere(
        labels={"kueue.x-k8s.io/max-exec-time-seconds": "soon"},
        annotations={"kueue.x-k8s.io/job-min-parallelism": "7"},
    )

    assert "minCount" not in plane.workload["spec"]["podSets"][0]
    assert "maximumExecutionTimeSeconds" not in plane.workload["spec"]
    assert "Misunderstood" in plane.reasons_said()


def test_a_queued_job_that_runs_unasked_is_held_back() -> None:
    plane = JobPlane(suspend=False)
    plane.submit_elsewhere()

    assert plane.job["spec"]["suspend"] is True
    assert "Suspended" in plane.reasons_said()


def test_jobs_without_a_queue_or_under_other_management_are_left_alone() -> None:
    plane = JobPlane(suspend=False, managedBy="example.com/other")
    plane.submit()
    loose = job(suspend=False)
    loose["metadata"] |= {"name": "loose", "labels": {}}
    plane.create(JOBS, loose)
    plane.settle()

    assert plane.sent == []


def test_a_part_of_a_queued_job_waits_in_no_queue_of_its_own() -> None:
    plane = JobPlane()
    plane.submit()
    part = job(suspend=False)
    part["metadata"]["name"] = "part"
    part["metadata"]["ownerReferences"] = pod("x", plane.job["metadata"]["uid"])["metadata"][
        "ownerReferences"
    ]
    plane.create(JOBS, part)
    plane.settle()

    assert len(plane.all(WORKLOADS)) == 1
    assert plane.get(JOBS, Key("lab", "part"))["spec"]["suspend"] is False


def test_a_finished_job_gets_no_workload() -> None:
    plane = JobPlane(suspend=False)
    plane.job_to_be["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    plane.submit()

    assert plane.sent == []


def test_a_create_whose_answer_was_lost_makes_no_second_workload() -> None:
    plane = JobPlane()
    plane.fates_unknown = 1
    plane.submit()
    plane.settle(plane.now + 60)

    assert plane.workload["spec"]["queueName"] == "main"


# Priority


def test_the_label_names_the_class_that_counts() -> None:
    plane = JobPlane()
    plane.create(WORKLOAD_CLASSES, workload_class("urgent", 100))
    plane.create(PRIORITY_CLASSES, workload_class("pods", 7))
    plane.job_to_be["spec"]["template"]["spec"]["priorityClassName"] = "pods"
    plane.submit(labels={"kueue.x-k8s.io/priority-class": "urgent"})

    assert plane.workload["spec"]["priority"] == 100
    assert plane.workload["spec"]["priorityClassRef"]["kind"] == "WorkloadPriorityClass"


def test_without_a_label_the_class_of_the_pods_counts() -> None:
    plane = JobPlane()
    plane.create(PRIORITY_CLASSES, workload_class("pods", 7))
    plane.job_to_be["spec"]["template"]["spec"]["priorityClassName"] = "pods"
    plane.submit()

    assert plane.workload["spec"]["priority"] == 7
    assert plane.workload["spec"]["priorityClassRef"]["kind"] == "PriorityClass"


def test_without_any_class_the_default_one_counts() -> None:
    plane = JobPlane()
    plane.create(PRIORITY_CLASSES, {**workload_class("usual", 3), "globalDefault": True})
    plane.submit()

    assert plane.workload["spec"]["priority"] == 3


def test_a_job_of_a_missing_class_waits_for_the_class() -> None:
    plane = JobPlane()
    plane.submit(labels={"kueue.x-k8s.io/priority-class": "urgent"})
    assert plane.all(WORKLOADS) == []
    assert plane.reasons_said() == ["WorkloadPriorityClassNotFound"]

    plane.create(WORKLOAD_CLASSES, workload_class("urgent", 100))
    plane.settle()

    assert plane.workload["spec"]["priority"] == 100


# Start


def test_an_admitted_job_starts_with_what_its_flavor_needs_in_one_write() -> None:
    plane = JobPlane()
    plane.submit()
    labels = plane.job["spec"]["template"]["metadata"]["labels"]
    plane.sent.clear()
    plane.admit()

    template = plane.job["spec"]["template"]
    assert plane.job["spec"]["suspend"] is False
    assert template["spec"]["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert template["metadata"]["labels"] == {**labels, POD_SET: "main"}
    assert template["metadata"]["annotations"] == {WORKLOAD: plane.workload_key.name}
    assert [write.resource for write in plane.sent].count(JOBS) == 1
    assert plane.reasons_said()[-1] == "Started"


def test_a_job_that_has_little_left_to_do_starts_with_no_fewer_pods_than_it_accepts() -> None:
    plane = JobPlane(parallelism=4, completions=4)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "3"})
    plane.report(succeeded=2, conditions=[suspended("True")])

    plane.admit(count=2)

    assert (plane.job["spec"]["suspend"], plane.job["spec"]["parallelism"]) == (False, 3)


def test_a_job_admitted_in_part_starts_with_fewer_pods() -> None:
    plane = JobPlane(parallelism=8)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    plane.admit(count=3)

    assert plane.job["spec"]["parallelism"] == 3
    assert plane.job["spec"]["suspend"] is False


def test_an_indexed_job_may_ask_for_as_many_completions_as_pods() -> None:
    plane = JobPlane(parallelism=8, completions=8, completionMode="Indexed")
    plane.submit(
        annotations={
            "kueue.x-k8s.io/job-min-parallelism": "2",
            "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
        }
    )
    plane.admit(count=3)

    assert (plane.job["spec"]["parallelism"], plane.job["spec"]["completions"]) == (3, 3)


def test_what_an_admission_check_wants_of_the_pods_is_added() -> None:
    plane = JobPlane()
    plane.submit()
    update = {"name": "main", "nodeSelector": {"reservation": "r-1"}, "labels": {"seen": "yes"}}
    check = {"name": "provision", "state": "Ready", "podSetUpdates": [update]}
    plane.admit(admissionChecks=[check])

    template = plane.job["spec"]["template"]
    assert template["spec"]["nodeSelector"]["reservation"] == "r-1"
    assert template["metadata"]["labels"]["seen"] == "yes"


def test_a_job_that_contradicts_its_flavor_never_starts() -> None:
    plane = JobPlane()
    plane.job_to_be["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "reserved"}
    plane.submit()
    plane.admit()

    assert plane.job["spec"]["suspend"] is True
    assert plane.condition_of("Finished") == ("True", "FailedToStart")
    assert "FailedToStart" in plane.reasons_said()


def test_a_job_waits_for_a_flavor_that_is_gone() -> None:
    plane = JobPlane()
    plane.submit()
    plane.delete(FLAVORS, Key("", "spot"))
    plane.admit()
    assert plane.job["spec"]["suspend"] is True

    plane.create(FLAVORS, flavor("spot", {"pool": "spot"}))
    plane.settle()

    assert plane.job["spec"]["suspend"] is False


def test_a_start_that_conflicts_is_tried_again_and_told_once() -> None:
    plane = JobPlane()
    plane.submit()
    plane.refusals = [Conflict(409, "Conflict", "changed meanwhile")]
    plane.admit()
    plane.settle(plane.now + 1)

    assert plane.job["spec"]["suspend"] is False
    assert plane.reasons_said().count("Started") == 1


# Stop and release


def test_an_evicted_job_is_stopped_and_told_why() -> None:
    plane = running()
    plane.evict()

    assert plane.job["spec"]["suspend"] is True
    assert plane.reasons_said() == ["Stopped"]
    assert "lab/eval" in plane.said[0].message
    assert plane.holds_quota


def test_quota_is_given_back_when_the_last_pod_is_gone_and_not_before() -> None:
    plane = running()
    plane.evict()
    plane.delete(PODS, Key("lab", "train-0"), grace_s=0)
    plane.settle()
    assert plane.holds_quota, "one pod is still there"
    plane.delete(PODS, Key("lab", "train-1"), grace_s=0)
    plane.settle()
    assert plane.holds_quota, "the Job's status still counts pods"

    plane.stop_pods()

    assert plane.condition_of("QuotaReserved") == ("False", "PendingEvaluation")
    assert plane.condition_of("Admitted") == ("False", "NoReservation")
    assert plane.condition_of("Evicted") == ("True", "Preempted")
    assert "admission" not in plane.workload["status"]


def test_a_pod_on_its_way_out_holds_quota() -> None:
    plane = running()
    plane.edit(PODS, Key("lab", "train-1"), {"metadata": {"finalizers": ["example.com/slow"]}})
    plane.evict()
    plane.stop_pods("train-0", "train-1")
    assert plane.holds_quota

    plane.edit(PODS, Key("lab", "train-1"), {"metadata": {"finalizers": None}})
    plane.settle()

    assert not plane.holds_quota


def test_a_failed_pod_on_its_way_out_holds_quota() -> None:
    plane = running()
    slow = Key("lab", "train-1")
    plane.edit(PODS, slow, {"metadata": {"finalizers": ["example.com/slow"]}})
    plane.edit(PODS, slow, {"status": {"phase": "Failed"}}, "status")
    plane.evict()
    plane.stop_pods("train-0", "train-1")

    assert plane.holds_quota


def test_pods_that_only_the_jobs_status_knows_of_hold_quota() -> None:
    plane = JobPlane()
    plane.submit()
    plane.admit()
    plane.report(active=1)
    plane.evict()
    assert plane.holds_quota

    plane.report(active=0, terminating=1)
    assert plane.holds_quota

    plane.report(terminating=0)
    assert not plane.holds_quota


def test_pods_nobody_has_seen_yet_hold_quota() -> None:
    plane = JobPlane()
    plane.submit()
    plane.admit()
    plane.report(conditions=[suspended("False")], startTime="1970-01-01T00:20:00Z")
    plane.evict()

    assert plane.job["spec"]["suspend"] is True
    assert plane.holds_quota, "who creates pods has not said that it stopped"


def test_a_workload_evicted_before_it_started_gives_its_quota_back_at_once() -> None:
    plane = JobPlane()
    plane.submit()
    plane.reserve()
    plane.evict()

    assert not plane.holds_quota


def test_a_stopped_job_is_again_as_its_user_wrote_it() -> None:
    plane = JobPlane(parallelism=8)
    plane.submit(annotations={"kueue.x-k8s.io/job-min-parallelism": "2"})
    written = plane.job["spec"]
    plane.admit(count=3)
    plane.run_pods("train-0")
    plane.evict()
    plane.stop_pods("train-0")

    assert plane.job["spec"]["parallelism"] == 8
    template = plane.job["spec"]["template"]
    assert template["spec"]["nodeSelector"] == written["template"]["spec"]["nodeSelector"]
    assert template["metadata"]["labels"] == written["template"]["metadata"]["labels"]
    assert not template["spec"].get("tolerations")
    assert not template["metadata"].get("annotations")


def test_the_template_is_left_alone_until_the_job_counts_as_not_started() -> None:
    plane = running()
    plane.evict()
    for name in ("train-0", "train-1"):
        plane.delete(PODS, Key("lab", name), grace_s=0)
    plane.report(active=0, conditions=[suspended("True")])
    assert not plane.holds_quota
    assert "pool" in plane.job["spec"]["template"]["spec"]["nodeSelector"]

    plane.report(startTime=None)

    assert "pool" not in plane.job["spec"]["template"]["spec"]["nodeSelector"]
    assert "Refused" not in plane.reasons_said()


def test_a_job_that_counts_as_started_waits_before_it_gets_another_flavor() -> None:
    plane = running()
    plane.evict()
    for name in ("train-0", "train-1"):
        plane.delete(PODS, Key("lab", name), grace_s=0)
    plane.report(active=0, conditions=[suspended("True")])
    plane.edit(FLAVORS, Key("", "spot"), {"spec": {"nodeLabels": {"pool": "cheap"}}})
    plane.admit()
    assert plane.job["spec"]["suspend"] is True

    plane.report(startTime=None)

    assert plane.job["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "cheap"
    assert plane.job["spec"]["suspend"] is False
    assert "Refused" not in plane.reasons_said()


def test_a_job_runs_again_with_another_flavor() -> None:
    plane = running()
    plane.evict()
    plane.stop_pods("train-0", "train-1")
    plane.edit(FLAVORS, Key("", "spot"), {"spec": {"nodeLabels": {"pool": "cheap"}}})
    plane.admit()

    assert plane.job["spec"]["suspend"] is False
    assert plane.job["spec"]["template"]["spec"]["nodeSelector"]["pool"] == "cheap"


def test_a_deactivated_workload_stops_its_job() -> None:
    plane = running()
    plane.edit(WORKLOADS, plane.workload_key, {"spec": {"active": False}})
    plane.settle()

    assert plane.job["spec"]["suspend"] is True
    assert plane.reasons_said() == ["Stopped"]


def test_after_a_restart_a_stop_goes_on_where_it_was() -> None:
    plane = running()
    plane.evict()
    plane.restart()
    plane.settle()
    assert plane.holds_quota

    plane.stop_pods("train-0", "train-1")

    assert not plane.holds_quota


# The end


def test_a_finished_job_finishes_its_workload_and_lets_go_of_it() -> None:
    plane = running()
    for name in ("train-0", "train-1"):
        plane.edit(PODS, Key("lab", name), {"status": {"phase": "Succeeded"}}, "status")
    complete = {"type": "Complete", "status": "True", "message": "Reached 2 completions"}
    plane.report(active=0, succeeded=2, conditions=[complete])

    assert plane.condition_of("Finished") == ("True", "Succeeded")
    assert not plane.workload["metadata"].get("finalizers")
    assert plane.reasons_said() == ["FinishedWorkload"]


def test_a_failed_job_holds_its_quota_until_its_last_pod_is_gone() -> None:
    plane = running()
    failed = {"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"}
    plane.report(active=0, conditions=[failed])
    assert plane.condition_of("Finished") == ("", "")

    plane.delete(PODS, Key("lab", "train-0"), grace_s=0)
    plane.edit(PODS, Key("lab", "train-1"), {"status": {"phase": "Failed"}}, "status")
    plane.settle()

    assert plane.condition_of("Finished") == ("True", "Failed")


def test_a_job_whose_workload_somebody_declares_finished_does_not_run_on() -> None:
    plane = running()
    plane.say("Finished", "True", "OutOfSync")
    plane.settle()

    assert plane.job["spec"]["suspend"] is True


def test_a_workload_that_cannot_be_read_is_told_of_and_left_alone() -> None:
    plane = running()
    document = plane.workload
    document["spec"]["queueName"] = ["main"]
    plane.put(WORKLOADS, document)
    plane.restart()
    plane.settle()

    assert plane.job["spec"]["suspend"] is False
    assert plane.reasons_said() == ["Unreadable"]


def test_the_workload_of_a_deleted_job_stays_until_its_pods_are_gone() -> None:
    plane = running()
    name = plane.workload_key
    plane.delete(JOBS, TRAIN)
    plane.settle()
    assert plane.find(WORKLOADS, name)

    for name_of_pod in ("train-0", "train-1"):
        assert plane.find(WORKLOADS, name)
        plane.delete(PODS, Key("lab", name_of_pod), grace_s=0)
        plane.settle()

    assert plane.find(WORKLOADS, name) is None


def test_the_workload_of_a_job_deleted_without_its_pods_goes_when_they_have_ended() -> None:
    plane = running()
    name, pods = plane.workload_key, [Key("lab", "train-0"), Key("lab", "train-1")]
    labels = {"batch.kubernetes.io/controller-uid": plane.job["metadata"]["uid"]}
    for left in pods:
        plane.edit(PODS, left, {"metadata": {"labels": labels, "ownerReferences": None}})
    plane.edit(WORKLOADS, name, {"metadata": {"ownerReferences": None}})  # as a server does
    plane.delete(JOBS, TRAIN)
    plane.settle()
    assert plane.condition_of("QuotaReserved")[0] == "True"

    for left in pods:
        plane.edit(PODS, left, {"status": {"phase": "Succeeded"}}, "status")
    plane.settle()

    assert plane.find(WORKLOADS, name) is None


def test_a_job_made_anew_under_the_same_name_has_a_workload_of_its_own() -> None:
    plane = JobPlane()
    plane.submit()
    old = plane.workload_key
    plane.delete(JOBS, TRAIN)
    plane.create(JOBS, job())
    plane.delete(WORKLOADS, old)
    plane.settle()

    assert plane.workload_key != old


def test_a_workload_deleted_by_hand_stops_its_job_and_is_made_anew() -> None:
    plane = running()
    uid = plane.workload["metadata"]["uid"]
    plane.delete(WORKLOADS, plane.workload_key)
    plane.settle()
    assert plane.job["spec"]["suspend"] is True
    assert plane.workload["metadata"]["uid"] == uid

    plane.stop_pods("train-0", "train-1")

    assert plane.workload["metadata"]["uid"] != uid
    assert plane.workload["spec"]["podSets"][0]["template"] == plane.job["spec"]["template"]
    assert "pool" not in plane.job["spec"]["template"]["spec"]["nodeSelector"]


def test_a_workload_deleted_by_hand_stays_while_a_pod_is_there() -> None:
    plane = JobPlane()
    plane.submit()
    plane.admit()
    plane.create(
        PODS, pod("train-0", plane.job["metadata"]["uid"])
    )  # and no status tells of it yet
    name, uid = plane.workload_key, plane.workload["metadata"]["uid"]
    plane.delete(WORKLOADS, name)
    plane.settle()
    assert plane.workload["metadata"]["uid"] == uid

    plane.delete(PODS, Key("lab", "train-0"), grace_s=0)
    plane.settle()

    assert plane.workload["metadata"]["uid"] != uid


def resource_versions(plane: JobPlane, resource: Resource) -> list[str]:
    return [document["metadata"]["resourceVersion"] for document in plane.all(resource)]


def test_nothing_is_written_when_nothing_is_to_be_done() -> None:
    plane = running()
    before = resource_versions(plane, JOBS), resource_versions(plane, WORKLOADS)
    plane.restart()
    plane.settle()

    assert (resource_versions(plane, JOBS), resource_versions(plane, WORKLOADS)) == before


def test_a_write_that_is_refused_is_told_once() -> None:
    plane = JobPlane()
    plane.refusals = [ApiError(422, "Invalid", "spec.podSets: no")] * 2
    plane.submit()
    plane.settle(plane.now + 10)
    plane.settle(plane.now + 10)

    assert plane.reasons_said() == ["Refused", "CreatedWorkload"]

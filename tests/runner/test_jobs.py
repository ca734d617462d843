"""Jobs and their pods, case by case as Kubernetes documents batch/v1 Job."""

from __future__ import annotations

import pytest

from makeway.api.kinds import JOBS, PODS
from makeway.api.times import format_time
from makeway.client.client import ApiError, Conflict
from makeway.plane.parts import Failed
from makeway.plane.writes import Create, Patch
from tests.harness.job_pods import JobPodsPlane, index_of, indexed, job

TRACKING = "batch.kubernetes.io/job-tracking"


# Pods and completions


def test_a_job_of_one_pod_takes_four_writes() -> None:
    plane = JobPodsPlane(job())
    plane.end(*plane.active())

    assert plane.conditions == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert plane.status["succeeded"] == 1
    assert "active" not in plane.status
    assert plane.pods()[0]["metadata"].get("finalizers") is None
    assert [type(write).__name__ for write in plane.sent] == ["Patch", "Create", "Patch", "Patch"]
    assert plane.reasons_said() == ["SuccessfulCreate", "Completed"]


def test_a_pod_is_the_template_and_says_whose_it_is() -> None:
    plane = JobPodsPlane(job())
    (pod,) = plane.pods()

    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["uid"] == plane.job()["metadata"]["uid"]
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert pod["metadata"]["labels"] == {"app": "x"}
    assert pod["metadata"]["finalizers"] == [TRACKING]
    assert pod["metadata"]["name"].startswith("train-")
    (container,) = pod["spec"]["containers"]
    assert (container["name"], container["command"]) == ("main", ["true"])
    assert pod["spec"]["restartPolicy"] == "Never"


def test_never_more_pods_than_parallelism_nor_than_are_still_needed() -> None:
    plane = JobPodsPlane(job(completions=5, parallelism=3))
    assert len(plane.active()) == 3

    plane.end(*plane.active()[:2])
    assert (len(plane.active()), plane.status["succeeded"]) == (3, 2)
    plane.end(*plane.active()[:2])
    assert (len(plane.active()), plane.status["succeeded"]) == (1, 4)
    plane.end(*plane.active())
    assert (plane.status["succeeded"], len(plane.pods())) == (5, 5)
    assert "Complete" in plane.conditions
    assert (plane.status["ready"], plane.status["terminating"]) == (0, 0)  # not just absent


def test_a_work_queue_begins_nothing_after_its_first_success() -> None:
    plane = JobPodsPlane(job(parallelism=3))
    first, second, third = plane.active()

    plane.end(first)
    assert len(plane.active()) == 2
    plane.end(second, code=1)
    assert len(plane.active()) == 1
    assert plane.conditions == {}
    plane.end(third)
    assert "Complete" in plane.conditions
    assert (plane.status["succeeded"], plane.status["failed"]) == (2, 1)


def test_nothing_to_complete_is_complete() -> None:
    assert "Complete" in JobPodsPlane(job(completions=0, parallelism=2)).conditions


def test_parallelism_zero_waits() -> None:
    plane = JobPodsPlane(job(completions=2, parallelism=0))

    assert plane.pods() == []
    plane.change(parallelism=2)
    assert len(plane.active()) == 2


def test_when_parallelism_shrinks_those_go_first_that_have_done_least() -> None:
    plane = JobPodsPlane(job(completions=9, parallelism=2))
    plane.start()
    plane.now += 5
    plane.change(parallelism=4)
    old, young = plane.pods("Running"), plane.pods("Pending")
    assert (len(old), len(young)) == (2, 2)

    plane.change(parallelism=2)

    assert plane.active() == old
    assert plane.status["active"] == 2
    assert "failed" not in plane.status
    assert plane.reasons_said().count("SuccessfulDelete") == 2


def test_a_thousand_pods_are_created_five_hundred_at_a_time() -> None:
    plane = JobPodsPlane()
    plane.put(JOBS, job(completions=1000, parallelism=1000))
    (begun,) = plane.wanted()  # before any pod
    plane.send(begun)

    assert sum(isinstance(write, Create) for write in plane.wanted()) == 500


def test_no_pod_is_on_its_way_before_the_job_says_that_it_has_begun() -> None:
    plane = JobPodsPlane(job(suspend=True))
    plane.put(JOBS, {**plane.job(), "spec": {**plane.job()["spec"], "suspend": False}})
    (begun,) = plane.wanted()
    assert not isinstance(begun, Create)
    plane.send(begun, fate="lost")
    plane.put(JOBS, {**plane.job(), "spec": {**plane.job()["spec"], "suspend": True}})
    plane.wait(30)

    assert plane.pods() == []
    assert "startTime" not in plane.status


def test_what_is_right_is_not_written() -> None:
    plane = JobPodsPlane(job())
    before = len(plane.sent)
    plane.change(ttlSecondsAfterFinished=100)
    plane.restart()
    plane.settle()

    assert len(plane.sent) == before


def test_a_job_managed_by_others_is_left_alone() -> None:
    assert JobPodsPlane(job(managedBy="example.com/other")).sent == []
    assert len(JobPodsPlane(job(managedBy="kubernetes.io/job-controller")).active()) == 1


# Indexed


def test_each_index_gets_a_pod_that_knows_it() -> None:
    plane = JobPodsPlane(indexed(3))

    pod = plane.active(index=2)[0]
    assert [index_of(pod) for pod in plane.pods()] == [0, 1, 2]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
    assert pod["metadata"]["name"].startswith("train-2-")
    assert pod["spec"]["hostname"] == "train-2"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == path


def test_completed_indexes_are_written_in_runs() -> None:
    plane = JobPodsPlane(indexed(8))
    plane.end(*(pod for pod in plane.pods() if index_of(pod) in (0, 2, 3, 4, 6, 7)))

    assert plane.status["completedIndexes"] == "0,2-4,6,7"
    assert plane.status["succeeded"] == 6
    assert "uncountedTerminatedPods" not in plane.status


def test_a_failed_index_is_tried_again_under_another_name() -> None:
    plane = JobPodsPlane(indexed(2))
    (first,) = plane.active(index=1)
    plane.end(first, code=1)
    assert plane.active(index=1) == []
    plane.wait(10)

    (second,) = plane.active(index=1)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    plane.end(*plane.active())
    assert plane.status["completedIndexes"] == "0,1"
    assert (plane.status["succeeded"], plane.status["failed"]) == (2, 1)


def test_a_pod_whose_creation_comes_late_collides_with_the_one_created_instead() -> None:
    plane = JobPodsPlane(indexed(1))
    (first,) = plane.active()
    plane.end(first, code=1)
    plane.now += 10
    create, status = sorted(plane.wanted(), key=lambda write: isinstance(write, Patch))
    plane.send(create, "lost")
    plane.send(status)
    plane.remove(PODS, first)  # its name is free again, but not the one to use
    plane.wait(1)

    late = plane.carry_out(create)
    assert isinstance(late, Failed)
    assert isinstance(late.error, Conflict)
    assert len(plane.active()) == 1


def test_an_indexed_job_that_shrinks_lets_its_last_indexes_go() -> None:
    plane = JobPodsPlane(indexed(4))
    plane.change(completions=2, parallelism=2)

    assert [index_of(pod) for pod in plane.active()] == [0, 1]
    plane.end(*plane.active())
    assert "Complete" in plane.conditions


# Failures


def test_more_failures_than_the_limit_end_the_job() -> None:
    plane = JobPodsPlane(job(backoffLimit=1, completions=2, parallelism=2))
    plane.start()
    failing, bystander = plane.active()
    plane.end(failing, code=1)
    plane.wait(10)
    plane.end(next(pod for pod in plane.active() if pod != bystander), code=1)

    assert plane.conditions == {"FailureTarget": "BackoffLimitExceeded"}
    assert plane.active() == []
    assert plane.status["terminating"] == 1
    plane.end(bystander, code=143)
    assert plane.conditions["Failed"] == "BackoffLimitExceeded"
    assert plane.status["failed"] == 3
    assert "BackoffLimitExceeded" in plane.reasons_said()


def test_a_job_that_failed_says_what_its_last_pod_said() -> None:
    plane = JobPodsPlane(job(backoffLimit=0))
    (pod,) = plane.active()
    why = {"reason": "ContainerCannotRun", "message": "container main has no command"}
    plane.put(PODS, {**pod, "status": {"phase": "Failed", **why}})
    plane.settle()

    failed = next(c for c in plane.status["conditions"] if c["type"] == "Failed")
    assert failed["message"].endswith(f"; pod {pod['metadata']['name']}: {why['message']}")


def test_a_job_was_complete_when_its_last_pod_finished_though_nobody_looked() -> None:
    plane = JobPodsPlane(job(completions=2, parallelism=2))
    first, last = plane.active()
    began = plane.now
    for pod, at in ((first, began + 5), (last, began + 60)):
        ended = {"exitCode": 0, "finishedAt": format_time(int(at))}
        status = {"name": "main", "state": {"terminated": ended}}
        plane.put(PODS, {**pod, "status": {"phase": "Succeeded", "containerStatuses": [status]}})
    plane.now += 3600
    plane.restart()
    plane.settle()

    assert plane.status["completionTime"] == format_time(int(began + 60))


def test_six_failures_are_forgiven_by_default() -> None:
    plane = JobPodsPlane(job(), backoff_s=1)
    for _ in range(6):
        plane.end(*plane.active(), code=1)
        plane.wait(60)
    assert plane.conditions == {}

    plane.end(*plane.active(), code=1)
    assert plane.conditions["Failed"] == "BackoffLimitExceeded"
    assert plane.status["failed"] == 7


def test_after_failures_new_pods_wait_longer_and_longer() -> None:
    plane = JobPodsPlane(job(backoffLimit=99))
    waited = []
    for _ in range(8):
        plane.end(*plane.active(), code=1)
        assert plane.active() == []
        assert plane.next_at is not None
        waited.append(plane.next_at - plane.now)
        plane.wait(waited[-1])

    assert waited == [10, 20, 40, 80, 160, 320, 360, 360]


def test_a_success_forgets_the_failures_before_it() -> None:
    plane = JobPodsPlane(job(completions=3, parallelism=2))
    plane.end(plane.active()[0], code=1)
    plane.now += 1
    plane.end(plane.active()[0])

    assert len(plane.active()) == 2


def test_waiting_after_a_failure_survives_a_restart() -> None:
    plane = JobPodsPlane(job())
    plane.end(*plane.active(), code=1)
    plane.restart()
    plane.wait(9)
    assert plane.active() == []
    plane.wait(1)
    assert len(plane.active()) == 1


@pytest.mark.parametrize(
    ("limit", "restarts", "fails"), [(0, 1, True), (3, 2, False), (3, 3, True)]
)
def test_restarts_of_containers_count_towards_the_limit(
    limit: int, restarts: int, fails: bool
) -> None:
    plane = JobPodsPlane(job(backoffLimit=limit, restartPolicy="OnFailure"))
    (pod,) = plane.active()
    pod["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "restartCount": restarts}],
    }
    plane.put(PODS, pod)
    plane.settle()

    assert ("FailureTarget" in plane.conditions) == fails


def test_a_pod_that_somebody_deletes_has_failed_and_is_replaced_at_once() -> None:
    plane = JobPodsPlane(job(), backoff_s=0)
    plane.start()
    (pod,) = plane.active()
    plane.remove(PODS, pod)

    assert (len(plane.active()), plane.status["terminating"], plane.status["failed"]) == (1, 1, 1)
    plane.end(pod, code=143)
    assert (len(plane.pods()), plane.status["failed"]) == (1, 1)


def test_where_only_failed_pods_are_replaced_a_leaving_one_keeps_its_place() -> None:
    plane = JobPodsPlane(job(podReplacementPolicy="Failed"), backoff_s=0)
    plane.start()
    (pod,) = plane.active()
    plane.remove(PODS, pod)
    assert plane.active() == []
    assert "failed" not in plane.status

    plane.end(pod, code=143)
    assert (len(plane.active()), plane.status["failed"]) == (1, 1)


def test_a_success_in_the_last_moment_counts_where_only_failed_pods_are_replaced() -> None:
    plane = JobPodsPlane(job(podReplacementPolicy="Failed"))
    plane.start()
    (pod,) = plane.active()
    plane.remove(PODS, pod)
    plane.end(pod)

    assert "Complete" in plane.conditions
    assert plane.pods() == []


# Limits per index


def test_each_index_fails_by_its_own_limit() -> None:
    plane = JobPodsPlane(indexed(3, backoffLimitPerIndex=1))
    plane.end(*plane.active(index=0))
    plane.end(*plane.active(index=1), code=1)
    plane.wait(10)
    plane.end(*plane.active(index=1), code=1)
    assert plane.status["failedIndexes"] == "1"
    assert plane.conditions == {}

    plane.end(*plane.active(index=2))
    assert plane.conditions == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    assert (plane.status["completedIndexes"], plane.status["failed"]) == ("0,2", 2)


def test_one_index_waits_while_another_goes_on() -> None:
    plane = JobPodsPlane(indexed(3, parallelism=1, backoffLimitPerIndex=5))
    plane.end(*plane.active(), code=1)

    assert [index_of(pod) for pod in plane.active()] == [1]


def test_the_last_failure_of_an_index_stays_until_it_is_replaced() -> None:
    plane = JobPodsPlane(indexed(1, backoffLimitPerIndex=1))
    (pod,) = plane.active()
    plane.end(pod, code=1)
    plane.remove(PODS, pod)
    assert len(plane.pods()) == 1

    plane.wait(10)
    (replacement,) = plane.pods()
    count = replacement["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
    assert (count, plane.status["failed"]) == ("1", 1)


def test_too_many_failed_indexes_end_the_job() -> None:
    plane = JobPodsPlane(indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1))
    plane.end(*plane.active(index=0), *plane.active(index=3), code=1)

    assert plane.conditions["Failed"] == "MaxFailedIndexesExceeded"
    assert plane.status["failedIndexes"] == "0,3"
    assert plane.status["failed"] == 4


# Deadlines, suspension, the end


def test_a_job_that_runs_past_its_deadline_fails() -> None:
    plane = JobPodsPlane(job(activeDeadlineSeconds=60))
    plane.start()
    (pod,) = plane.active()
    assert plane.next_at == plane.now + 60
    plane.wait(60)

    assert plane.conditions == {"FailureTarget": "DeadlineExceeded"}
    plane.end(pod, code=143)
    assert plane.conditions["Failed"] == "DeadlineExceeded"
    assert plane.reasons_said()[-1] == "DeadlineExceeded"


def test_a_suspended_job_has_no_pods_and_no_start() -> None:
    plane = JobPodsPlane(job(suspend=True))

    assert plane.pods() == []
    assert plane.conditions == {"Suspended": "JobSuspended"}
    assert "startTime" not in plane.status
    assert plane.reasons_said() == ["Suspended"]


def test_suspending_deletes_what_runs_and_counts_none_of_it() -> None:
    plane = JobPodsPlane(job(completions=4, parallelism=2))
    plane.start()
    first, second = plane.active()
    plane.change(suspend=True)
    assert (plane.active(), plane.status["terminating"]) == ([], 2)
    assert "active" not in plane.status

    plane.end(first, second, code=143)
    assert plane.pods() == []
    assert {"failed", "startTime"}.isdisjoint(plane.status)
    assert plane.status["terminating"] == 0


def test_a_resumed_job_starts_its_clock_anew() -> None:
    plane = JobPodsPlane(job(activeDeadlineSeconds=60, suspend=True))
    plane.wait(100)
    plane.change(suspend=False)
    plane.wait(59)
    assert len(plane.active()) == 1
    (condition,) = plane.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "JobResumed")
    assert plane.reasons_said()[1] == "Resumed"

    plane.wait(1)
    assert "FailureTarget" in plane.conditions


def test_successes_before_a_suspension_still_count_after_it() -> None:
    plane = JobPodsPlane(job(completions=3, parallelism=2))
    plane.end(plane.active()[0])
    plane.change(suspend=True)
    plane.change(suspend=False)

    assert (len(plane.active()), plane.status["succeeded"]) == (2, 1)


def test_a_success_in_the_moment_of_suspension_is_counted() -> None:
    plane = JobPodsPlane(job(completions=2))
    (pod,) = plane.active()
    plane.put(PODS, {**pod, "status": {"phase": "Succeeded"}})
    plane.change(suspend=True)

    assert plane.status["succeeded"] == 1
    assert "finalizers" not in plane.pods()[0]["metadata"]


def test_a_finished_job_goes_when_its_time_has_come() -> None:
    plane = JobPodsPlane(job(ttlSecondsAfterFinished=30))
    plane.end(*plane.active())
    assert plane.next_at == plane.now + 30
    plane.wait(29)
    assert "deletionTimestamp" not in plane.job()["metadata"]

    plane.wait(1)
    assert plane.job()["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_pods_of_a_job_that_is_gone_are_let_go() -> None:
    plane = JobPodsPlane(job(parallelism=2))
    plane.remove(JOBS, plane.job())

    assert plane.pods() == []  # nothing holds them, so they went with it


def test_pods_of_an_earlier_job_of_the_same_name_are_let_go() -> None:
    plane = JobPodsPlane(job())
    anew = {**plane.job(), "status": {}}
    anew["metadata"]["uid"] = "another"
    plane.put(JOBS, anew)
    plane.restart()
    plane.settle()

    (first, second) = plane.pods()
    assert "finalizers" not in first["metadata"]
    assert second["metadata"]["finalizers"] == [TRACKING]


def test_a_refused_pod_is_told_and_tried_again_one_by_one() -> None:
    plane = JobPodsPlane(job(suspend=True, parallelism=3, completions=3))
    refusal = ApiError(403, "Forbidden", "quota exceeded")
    plane.fault = lambda write: refusal if isinstance(write, Create) else None
    plane.change(suspend=False)
    assert plane.reasons_said().count("FailedCreate") == 3
    plane.wait(30)  # now it also says that none is active
    complaints = plane.reasons_said().count("FailedCreate")
    plane.wait(30)
    assert plane.reasons_said().count("FailedCreate") == complaints + 1
    assert "active" not in plane.status

    plane.fault = lambda write: None
    plane.wait(30)
    assert len(plane.active()) == 3

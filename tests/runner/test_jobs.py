"""Jobs and their pods, case by case as Kubernetes documents batch/v1 Job."""

from __future__ import annotations

import pytest

from makeway.api.times import format_time
from makeway.client.client import Conflict
from makeway.client.resources import JOBS, PODS
from makeway.plane.writes import Create, Patch
from tests.runner.jobs_world import World, index_of, indexed, job

TRACKING = "batch.kubernetes.io/job-tracking"


# Pods and completions


def test_a_job_of_one_pod_takes_four_writes() -> None:
    lab = World(job())
    lab.end(*lab.active())

    assert lab.conditions == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert lab.status["succeeded"] == 1
    assert "active" not in lab.status
    assert lab.pods()[0]["metadata"].get("finalizers") is None
    assert [type(write).__name__ for write in lab.writes] == ["Patch", "Create", "Patch", "Patch"]
    assert lab.said == ["SuccessfulCreate", "Completed"]


def test_a_pod_is_the_template_and_says_whose_it_is() -> None:
    lab = World(job())
    (pod,) = lab.pods()

    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["uid"] == lab.job()["metadata"]["uid"]
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]
    assert pod["metadata"]["labels"] == {"app": "x"}
    assert pod["metadata"]["finalizers"] == [TRACKING]
    assert pod["metadata"]["name"].startswith("train-")
    assert pod["spec"] == lab.job()["spec"]["template"]["spec"]


def test_never_more_pods_than_parallelism_nor_than_are_still_needed() -> None:
    lab = World(job(completions=5, parallelism=3))
    assert len(lab.active()) == 3

    lab.end(*lab.active()[:2])
    assert (len(lab.active()), lab.status["succeeded"]) == (3, 2)
    lab.end(*lab.active()[:2])
    assert (len(lab.active()), lab.status["succeeded"]) == (1, 4)
    lab.end(*lab.active())
    assert (lab.status["succeeded"], len(lab.pods())) == (5, 5)
    assert "Complete" in lab.conditions


def test_a_work_queue_begins_nothing_after_its_first_success() -> None:
    lab = World(job(parallelism=3))
    first, second, third = lab.active()

    lab.end(first)
    assert len(lab.active()) == 2
    lab.end(second, code=1)
    assert len(lab.active()) == 1
    assert lab.conditions == {}
    lab.end(third)
    assert "Complete" in lab.conditions
    assert (lab.status["succeeded"], lab.status["failed"]) == (2, 1)


def test_nothing_to_complete_is_complete() -> None:
    assert "Complete" in World(job(completions=0, parallelism=2)).conditions


def test_parallelism_zero_waits() -> None:
    lab = World(job(completions=2, parallelism=0))

    assert lab.pods() == []
    lab.change(parallelism=2)
    assert len(lab.active()) == 2


def test_when_parallelism_shrinks_those_go_first_that_have_done_least() -> None:
    lab = World(job(completions=9, parallelism=2))
    lab.run()
    lab.now += 5
    lab.change(parallelism=4)
    old, young = lab.pods("Running"), lab.pods("Pending")
    assert (len(old), len(young)) == (2, 2)

    lab.change(parallelism=2)

    assert lab.active() == old
    assert lab.status["active"] == 2
    assert "failed" not in lab.status
    assert lab.said.count("SuccessfulDelete") == 2


def test_a_thousand_pods_are_created_five_hundred_at_a_time() -> None:
    lab = World()
    lab.put(JOBS, job(completions=1000, parallelism=1000))
    lab.tell()
    (begun,) = lab.ask()  # before any pod
    lab.send(begun)
    lab.tell()

    assert sum(isinstance(write, Create) for write in lab.ask()) == 500


def test_no_pod_is_on_its_way_before_the_job_says_that_it_has_begun() -> None:
    lab = World(job(suspend=True))
    lab.put(JOBS, {**lab.job(), "spec": {**lab.job()["spec"], "suspend": False}})
    lab.tell()
    (begun,) = lab.ask()
    assert not isinstance(begun, Create)
    lab.send(begun, fate="lost")
    lab.put(JOBS, {**lab.job(), "spec": {**lab.job()["spec"], "suspend": True}})
    lab.wait(30)

    assert lab.pods() == []
    assert "startTime" not in lab.status


def test_what_is_right_is_not_written() -> None:
    lab = World(job())
    before = len(lab.writes)
    lab.change(ttlSecondsAfterFinished=100)
    lab.restart()
    lab.settle()

    assert len(lab.writes) == before


def test_a_job_managed_by_others_is_left_alone() -> None:
    assert World(job(managedBy="example.com/other")).writes == []
    assert len(World(job(managedBy="kubernetes.io/job-controller")).active()) == 1


# Indexed


def test_each_index_gets_a_pod_that_knows_it() -> None:
    lab = World(indexed(3))

    pod = lab.active(index=2)[0]
    assert [index_of(pod) for pod in lab.pods()] == [0, 1, 2]
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
    assert pod["metadata"]["name"].startswith("train-2-")
    assert pod["spec"]["hostname"] == "train-2"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert variable["valueFrom"] == {"fieldRef": {"fieldPath": path}}


def test_completed_indexes_are_written_in_runs() -> None:
    lab = World(indexed(8))
    lab.end(*(pod for pod in lab.pods() if index_of(pod) in (0, 2, 3, 4, 6, 7)))

    assert lab.status["completedIndexes"] == "0,2-4,6,7"
    assert lab.status["succeeded"] == 6
    assert "uncountedTerminatedPods" not in lab.status


def test_a_failed_index_is_tried_again_under_another_name() -> None:
    lab = World(indexed(2))
    (first,) = lab.active(index=1)
    lab.end(first, code=1)
    assert lab.active(index=1) == []
    lab.wait(10)

    (second,) = lab.active(index=1)
    assert second["metadata"]["name"] != first["metadata"]["name"]
    lab.end(*lab.active())
    assert lab.status["completedIndexes"] == "0,1"
    assert (lab.status["succeeded"], lab.status["failed"]) == (2, 1)


def test_a_pod_whose_creation_comes_late_collides_with_the_one_created_instead() -> None:
    lab = World(indexed(1))
    (first,) = lab.active()
    lab.end(first, code=1)
    lab.now += 10
    create, status = sorted(lab.ask(), key=lambda write: isinstance(write, Patch))
    lab.send(create, "lost")
    lab.send(status)
    lab.delete(PODS, first)  # its name is free again, but not the one to use
    lab.wait(1)

    with pytest.raises(Conflict):
        lab.apply(create)
    assert len(lab.active()) == 1


def test_an_indexed_job_that_shrinks_lets_its_last_indexes_go() -> None:
    lab = World(indexed(4))
    lab.change(completions=2, parallelism=2)

    assert [index_of(pod) for pod in lab.active()] == [0, 1]
    lab.end(*lab.active())
    assert "Complete" in lab.conditions


# Failures


def test_more_failures_than_the_limit_end_the_job() -> None:
    lab = World(job(backoffLimit=1, completions=2, parallelism=2))
    lab.run()
    failing, bystander = lab.active()
    lab.end(failing, code=1)
    lab.wait(10)
    lab.end(next(pod for pod in lab.active() if pod != bystander), code=1)

    assert lab.conditions == {"FailureTarget": "BackoffLimitExceeded"}
    assert lab.active() == []
    assert lab.status["terminating"] == 1
    lab.end(bystander, code=143)
    assert lab.conditions["Failed"] == "BackoffLimitExceeded"
    assert lab.status["failed"] == 3
    assert "BackoffLimitExceeded" in lab.said


def test_a_job_that_failed_says_what_its_last_pod_said() -> None:
    lab = World(job(backoffLimit=0))
    (pod,) = lab.active()
    why = {"reason": "ContainerCannotRun", "message": "container main has no command"}
    lab.put(PODS, {**pod, "status": {"phase": "Failed", **why}})
    lab.settle()

    failed = next(c for c in lab.status["conditions"] if c["type"] == "Failed")
    assert failed["message"].endswith(f"; pod {pod['metadata']['name']}: {why['message']}")


def test_a_job_was_complete_when_its_last_pod_finished_though_nobody_looked() -> None:
    lab = World(job(completions=2, parallelism=2))
    first, last = lab.active()
    began = lab.now
    for pod, at in ((first, began + 5), (last, began + 60)):
        ended = {"exitCode": 0, "finishedAt": format_time(int(at))}
        status = {"name": "main", "state": {"terminated": ended}}
        lab.put(PODS, {**pod, "status": {"phase": "Succeeded", "containerStatuses": [status]}})
    lab.now += 3600
    lab.restart()
    lab.settle()

    assert lab.status["completionTime"] == format_time(int(began + 60))


def test_six_failures_are_forgiven_by_default() -> None:
    lab = World(job(), backoff_s=1)
    for _ in range(6):
        lab.end(*lab.active(), code=1)
        lab.wait(60)
    assert lab.conditions == {}

    lab.end(*lab.active(), code=1)
    assert lab.conditions["Failed"] == "BackoffLimitExceeded"
    assert lab.status["failed"] == 7


def test_after_failures_new_pods_wait_longer_and_longer() -> None:
    lab = World(job(backoffLimit=99))
    waited = []
    for _ in range(8):
        lab.end(*lab.active(), code=1)
        assert lab.active() == []
        assert lab.next_at is not None
        waited.append(lab.next_at - lab.now)
        lab.wait(waited[-1])

    assert waited == [10, 20, 40, 80, 160, 320, 360, 360]


def test_a_success_forgets_the_failures_before_it() -> None:
    lab = World(job(completions=3, parallelism=2))
    lab.end(lab.active()[0], code=1)
    lab.now += 1
    lab.end(lab.active()[0])

    assert len(lab.active()) == 2


def test_waiting_after_a_failure_survives_a_restart() -> None:
    lab = World(job())
    lab.end(*lab.active(), code=1)
    lab.restart()
    lab.wait(9)
    assert lab.active() == []
    lab.wait(1)
    assert len(lab.active()) == 1


@pytest.mark.parametrize(
    ("limit", "restarts", "fails"), [(0, 1, True), (3, 2, False), (3, 3, True)]
)
def test_restarts_of_containers_count_towards_the_limit(
    limit: int, restarts: int, fails: bool
) -> None:
    lab = World(job(backoffLimit=limit, restartPolicy="OnFailure"))
    (pod,) = lab.active()
    pod["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "restartCount": restarts}],
    }
    lab.put(PODS, pod)
    lab.settle()

    assert ("FailureTarget" in lab.conditions) == fails


def test_a_pod_that_somebody_deletes_has_failed_and_is_replaced_at_once() -> None:
    lab = World(job(), backoff_s=0)
    lab.run()
    (pod,) = lab.active()
    lab.delete(PODS, pod)

    assert (len(lab.active()), lab.status["terminating"], lab.status["failed"]) == (1, 1, 1)
    lab.end(pod, code=143)
    assert (len(lab.pods()), lab.status["failed"]) == (1, 1)


def test_where_only_failed_pods_are_replaced_a_leaving_one_keeps_its_place() -> None:
    lab = World(job(podReplacementPolicy="Failed"), backoff_s=0)
    lab.run()
    (pod,) = lab.active()
    lab.delete(PODS, pod)
    assert lab.active() == []
    assert "failed" not in lab.status

    lab.end(pod, code=143)
    assert (len(lab.active()), lab.status["failed"]) == (1, 1)


def test_a_success_in_the_last_moment_counts_where_only_failed_pods_are_replaced() -> None:
    lab = World(job(podReplacementPolicy="Failed"))
    lab.run()
    (pod,) = lab.active()
    lab.delete(PODS, pod)
    lab.end(pod)

    assert "Complete" in lab.conditions
    assert lab.pods() == []


# Limits per index


def test_each_index_fails_by_its_own_limit() -> None:
    lab = World(indexed(3, backoffLimitPerIndex=1))
    lab.end(*lab.active(index=0))
    lab.end(*lab.active(index=1), code=1)
    lab.wait(10)
    lab.end(*lab.active(index=1), code=1)
    assert lab.status["failedIndexes"] == "1"
    assert lab.conditions == {}

    lab.end(*lab.active(index=2))
    assert lab.conditions == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}
    assert (lab.status["completedIndexes"], lab.status["failed"]) == ("0,2", 2)


def test_one_index_waits_while_another_goes_on() -> None:
    lab = World(indexed(3, parallelism=1, backoffLimitPerIndex=5))
    lab.end(*lab.active(), code=1)

    assert [index_of(pod) for pod in lab.active()] == [1]


def test_the_last_failure_of_an_index_stays_until_it_is_replaced() -> None:
    lab = World(indexed(1, backoffLimitPerIndex=1))
    (pod,) = lab.active()
    lab.end(pod, code=1)
    lab.delete(PODS, pod)
    assert len(lab.pods()) == 1

    lab.wait(10)
    (replacement,) = lab.pods()
    count = replacement["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
    assert (count, lab.status["failed"]) == ("1", 1)


def test_too_many_failed_indexes_end_the_job() -> None:
    lab = World(indexed(4, backoffLimitPerIndex=0, maxFailedIndexes=1))
    lab.end(*lab.active(index=0), *lab.active(index=3), code=1)

    assert lab.conditions["Failed"] == "MaxFailedIndexesExceeded"
    assert lab.status["failedIndexes"] == "0,3"
    assert lab.status["failed"] == 4


# Deadlines, suspension, the end


def test_a_job_that_runs_past_its_deadline_fails() -> None:
    lab = World(job(activeDeadlineSeconds=60))
    lab.run()
    (pod,) = lab.active()
    assert lab.next_at == lab.now + 60
    lab.wait(60)

    assert lab.conditions == {"FailureTarget": "DeadlineExceeded"}
    lab.end(pod, code=143)
    assert lab.conditions["Failed"] == "DeadlineExceeded"
    assert lab.said[-1] == "DeadlineExceeded"


def test_a_suspended_job_has_no_pods_and_no_start() -> None:
    lab = World(job(suspend=True))

    assert lab.pods() == []
    assert lab.conditions == {"Suspended": "JobSuspended"}
    assert "startTime" not in lab.status
    assert lab.said == ["Suspended"]


def test_suspending_deletes_what_runs_and_counts_none_of_it() -> None:
    lab = World(job(completions=4, parallelism=2))
    lab.run()
    first, second = lab.active()
    lab.change(suspend=True)
    assert (lab.active(), lab.status["terminating"]) == ([], 2)
    assert "active" not in lab.status

    lab.end(first, second, code=143)
    assert lab.pods() == []
    assert {"failed", "terminating", "startTime"}.isdisjoint(lab.status)


def test_a_resumed_job_starts_its_clock_anew() -> None:
    lab = World(job(activeDeadlineSeconds=60, suspend=True))
    lab.wait(100)
    lab.change(suspend=False)
    lab.wait(59)
    assert len(lab.active()) == 1
    (condition,) = lab.status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "JobResumed")
    assert lab.said[1] == "Resumed"

    lab.wait(1)
    assert "FailureTarget" in lab.conditions


def test_successes_before_a_suspension_still_count_after_it() -> None:
    lab = World(job(completions=3, parallelism=2))
    lab.end(lab.active()[0])
    lab.change(suspend=True)
    lab.change(suspend=False)

    assert (len(lab.active()), lab.status["succeeded"]) == (2, 1)


def test_a_success_in_the_moment_of_suspension_is_counted() -> None:
    lab = World(job(completions=2))
    (pod,) = lab.active()
    lab.put(PODS, {**pod, "status": {"phase": "Succeeded"}})
    lab.change(suspend=True)

    assert lab.status["succeeded"] == 1
    assert "finalizers" not in lab.pods()[0]["metadata"]


def test_a_finished_job_goes_when_its_time_has_come() -> None:
    lab = World(job(ttlSecondsAfterFinished=30))
    lab.end(*lab.active())
    assert lab.next_at == lab.now + 30
    lab.wait(29)
    assert "deletionTimestamp" not in lab.job()["metadata"]

    lab.wait(1)
    assert lab.job()["metadata"]["finalizers"] == ["foregroundDeletion"]


def test_pods_of_a_job_that_is_gone_are_let_go() -> None:
    lab = World(job(parallelism=2))
    lab.delete(JOBS, lab.job())

    assert [pod["metadata"].get("finalizers") for pod in lab.pods()] == [None, None]


def test_pods_of_an_earlier_job_of_the_same_name_are_let_go() -> None:
    lab = World(job())
    (old,) = lab.active()
    lab.objects.clear()
    lab.put(PODS, old)
    lab.put(JOBS, job())
    lab.restart()
    lab.settle()

    (first, second) = lab.pods()
    assert "finalizers" not in first["metadata"]
    assert second["metadata"]["finalizers"] == [TRACKING]


def test_a_refused_pod_is_told_and_tried_again_one_by_one() -> None:
    lab = World(job(suspend=True, parallelism=3, completions=3))
    lab.refuses_pods = True
    lab.change(suspend=False)
    assert lab.said.count("FailedCreate") == 3
    lab.wait(30)  # now it also says that none is active
    complaints = lab.said.count("FailedCreate")
    lab.wait(30)
    assert lab.said.count("FailedCreate") == complaints + 1
    assert "active" not in lab.status

    lab.refuses_pods = False
    lab.wait(30)
    assert len(lab.active()) == 3

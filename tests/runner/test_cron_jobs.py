"""CronJobs make Jobs at their times, case by case as Kubernetes documents them."""

from __future__ import annotations

from typing import Any

from makeway.api.kinds import CRON_JOBS, JOBS
from makeway.api.times import format_time, parse_time
from makeway.client.client import ApiError, Document
from makeway.plane.writes import key_of
from makeway.runner.cron_jobs import CronJobs
from tests.harness.documents import template
from tests.harness.plane import Plane

NOON = parse_time("2026-11-16T12:00:00Z")
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
NUMBER = int(NOON) // 60  # of the minute; Jobs are named by it


class CronPlane(Plane):
    """A CronJob `tick` that was created at noon, every minute unless said otherwise."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(lambda picture: [CronJobs(picture)], now=NOON)
        made_of = {
            "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "night"}},
            "spec": {"template": template(restartPolicy="Never")},
        }
        self.put(
            CRON_JOBS,
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "tick", "namespace": "lab"},
                "spec": {"schedule": "* * * * *", "timeZone": "Etc/UTC", "jobTemplate": made_of}
                | spec,
            },
        )
        self.settle()

    def wait(self, seconds: float) -> None:
        self.settle(self.now + seconds)

    def away(self, seconds: float) -> None:
        """Nobody looks for so long."""
        self.now += seconds
        self.restart()
        self.settle()

    def jobs(self) -> list[str]:
        """By how many minutes after noon they are for."""
        names = [str(job["metadata"]["name"]) for job in self.all(JOBS)]
        return sorted(f"+{int(name.removeprefix('tick-')) - NUMBER}" for name in names)

    def end(self, minute: int, how: str = "Complete") -> None:
        job = self.get(JOBS, f"tick-{NUMBER + minute}")
        ended = {"type": how, "status": "True"}
        times = {"startTime": format_time(self.now), "completionTime": format_time(self.now)}
        status = {"conditions": [ended], **(times if how == "Complete" else {})}
        self.edit(JOBS, key_of(job), {"status": status}, "status")
        self.settle()

    @property
    def status(self) -> Document:
        found: Document = self.get(CRON_JOBS, "tick").get("status") or {}
        return found

    def active(self) -> list[str]:
        return [reference["name"] for reference in self.status.get("active") or ()]


def test_a_job_for_each_time_of_the_schedule() -> None:
    plane = CronPlane()
    assert plane.jobs() == []
    plane.wait(59)
    assert plane.jobs() == []
    plane.wait(1)
    assert plane.jobs() == ["+1"]
    plane.wait(MINUTE)
    assert plane.jobs() == ["+1", "+2"]

    job = plane.get(JOBS, f"tick-{NUMBER + 1}")
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "night"
    annotations = job["metadata"]["annotations"]
    when = annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert when == "2026-11-16T12:01:00Z"
    assert plane.active() == [f"tick-{NUMBER + 1}", f"tick-{NUMBER + 2}"]
    assert plane.status["lastScheduleTime"] == "2026-11-16T12:02:00Z"


def test_its_time_is_that_of_its_zone() -> None:
    plane = CronPlane(schedule="0 14 * * *", timeZone="Europe/Berlin")
    plane.wait(3600)  # 13:00 UTC
    (job,) = plane.all(JOBS)
    annotations = job["metadata"]["annotations"]
    when = annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert when == "2026-11-16T14:00:00+01:00"


def test_what_was_missed_comes_down_to_the_latest() -> None:
    plane = CronPlane()
    plane.away(5.5 * MINUTE)
    assert plane.jobs() == ["+5"]
    assert "TooManyMissedTimes" not in plane.reasons_said()

    plane.away(101 * MINUTE)
    assert plane.jobs() == ["+106", "+5"]
    assert "TooManyMissedTimes" in plane.reasons_said()


def test_of_times_at_uneven_distances_the_latest_is_not_lost() -> None:
    """At noon and at one; away from one until past four on the next day."""
    plane = CronPlane(schedule="0 12,13 * * *")
    plane.wait(HOUR)
    assert plane.jobs() == ["+60"]
    plane.away(27 * HOUR)
    assert plane.jobs() == ["+1500", "+60"]


def test_who_counts_from_the_time_before_runs_whatever_its_deadline() -> None:
    plane = CronPlane(schedule="@every 1h", startingDeadlineSeconds=30)
    for _ in range(125):
        plane.wait(MINUTE / 2)
    assert plane.jobs() == ["+60"]


def test_a_job_for_a_time_that_no_calendar_has_counts_for_nothing() -> None:
    plane = CronPlane()
    plane.wait(MINUTE)
    job = plane.get(JOBS, f"tick-{NUMBER + 1}")
    odd = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "9999-12-31T23:59:59Z"}
    plane.edit(JOBS, key_of(job), {"metadata": {"annotations": odd}})
    plane.wait(MINUTE)
    assert plane.jobs() == ["+1", "+2"]


def test_what_is_later_than_its_deadline_is_left_out() -> None:
    plane = CronPlane(schedule="0 * * * *", startingDeadlineSeconds=600)
    plane.away(3600 + 601)
    assert plane.jobs() == []
    plane.away(3600)
    assert plane.jobs() == []
    plane.away(3600 - 2)  # 9 minutes and 59 seconds after three
    assert plane.jobs() == ["+180"]


def test_who_forbids_a_second_one_starts_it_when_the_first_has_ended() -> None:
    plane = CronPlane(concurrencyPolicy="Forbid")
    for _ in range(4):
        plane.wait(MINUTE)
    assert plane.jobs() == ["+1"]
    assert plane.reasons_said().count("JobAlreadyActive") == 3  # once for each time

    plane.end(1)
    assert plane.jobs() == ["+1", "+4"]
    assert plane.status["lastSuccessfulTime"] == format_time(plane.now)
    assert "SawCompletedJob" in plane.reasons_said()


def test_who_replaces_ends_the_one_before() -> None:
    plane = CronPlane(concurrencyPolicy="Replace")
    plane.wait(MINUTE)
    plane.wait(MINUTE)
    assert plane.jobs() == ["+2"]
    assert plane.active() == [f"tick-{NUMBER + 2}"]


def test_suspended_it_starts_nothing_and_goes_on_with_what_runs() -> None:
    plane = CronPlane()
    plane.wait(MINUTE)
    plane.put(CRON_JOBS, _with(plane.get(CRON_JOBS, "tick"), suspend=True))
    plane.wait(10 * MINUTE)
    assert plane.jobs() == ["+1"]
    plane.end(1)
    assert plane.active() == []


def test_of_ended_jobs_the_latest_are_kept() -> None:
    plane = CronPlane(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0)
    for minute in range(1, 5):
        plane.wait(MINUTE)
        plane.end(minute, "Complete")
    assert plane.jobs() == ["+3", "+4"]
    plane.wait(MINUTE)
    plane.end(5, "Failed")
    assert plane.jobs() == ["+3", "+4"]


def test_no_job_is_made_twice_though_an_answer_is_lost() -> None:
    plane = CronPlane()
    plane.fates_unknown = 1
    plane.wait(MINUTE)
    plane.fates_unknown = 0
    plane.away(1)
    assert plane.jobs() == ["+1"]
    assert plane.status["lastScheduleTime"] == "2026-11-16T12:01:00Z"


def test_a_job_made_by_hand_counts_for_nothing_but_its_end() -> None:
    plane = CronPlane(concurrencyPolicy="Forbid")
    cron = plane.get(CRON_JOBS, "tick")
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": True}
    by_hand = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"tick-{NUMBER + 999}",
            "namespace": "lab",
            "ownerReferences": [{**owner, "uid": cron["metadata"]["uid"]}],
        },
        "spec": {"template": template(restartPolicy="Never")},
    }
    plane.put(JOBS, by_hand)
    plane.wait(MINUTE)
    assert plane.jobs() == ["+1", "+999"]
    assert plane.active() == [f"tick-{NUMBER + 1}"]


def test_a_job_that_the_server_will_not_have_is_told_of() -> None:
    plane = CronPlane()
    plane.refusals = [ApiError(422, "Invalid", "spec: nonsense")]
    plane.wait(MINUTE)
    assert "FailedCreate" in plane.reasons_said()
    plane.wait(MINUTE)
    assert plane.jobs() == ["+2"]


def _with(document: Document, **spec: Any) -> Document:
    return {**document, "spec": {**document["spec"], **spec}}

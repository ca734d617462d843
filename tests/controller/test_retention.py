"""objectRetentionPolicies: what is over goes after its time."""

from __future__ import annotations

import pytest

from makeway.api.configuration import Configuration, ObjectRetentionPolicies, WorkloadRetention
from makeway.api.kinds import JOBS, PODS, WORKLOADS
from makeway.controller.jobs import Jobs
from makeway.controller.pods import Pods
from makeway.controller.retention import Retention
from makeway.plane.picture import Picture
from tests.harness.jobs import OneWorkload, job
from tests.harness.pods import member, pod
from tests.harness.queues import workload

HOUR = 3600.0
GIVEN_UP = "DeactivatedDueToRequeuingLimitExceeded"


class Kept(OneWorkload):
    """Finished ones are kept for an hour, given up ones for two."""

    def __init__(
        self, finished_s: float | None = HOUR, given_up_s: float | None = 2 * HOUR
    ) -> None:
        policy = WorkloadRetention(after_finished=finished_s, after_deactivated_by_kueue=given_up_s)
        kept = ObjectRetentionPolicies(workloads=policy)
        retention = Configuration(object_retention_policies=kept).retention
        assert retention is not None

        def parts(picture: Picture) -> list[Jobs | Pods | Retention]:
            return [Jobs(picture), Pods(picture), Retention(picture, retention)]

        super().__init__(parts)

    def give_up(self, reason: str = GIVEN_UP) -> None:
        self.edit(WORKLOADS, self.workload_key, {"spec": {"active": False}})
        self.say("Evicted", "True", reason, "it was tried often enough")
        self.settle()

    def there(self) -> list[int]:
        """How many Workloads, Jobs and pods there are."""
        return [len(self.all(kind)) for kind in (WORKLOADS, JOBS, PODS)]


def with_job(**policy: float | None) -> Kept:
    plane = Kept(**policy)
    plane.create(JOBS, job())
    plane.settle()
    return plane


def finish(plane: Kept) -> None:
    plane.edit(
        JOBS,
        "train",
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        "status",
    )
    plane.settle()


def test_a_finished_workload_goes_after_an_hour_and_its_job_stays() -> None:
    plane = with_job()
    finish(plane)
    plane.run(HOUR - 1)
    assert plane.there() == [1, 1, 0]

    plane.run(2)

    assert plane.there() == [0, 1, 0]
    assert plane.reasons_said()[-1] == "Deleted"


def test_none_comes_after_it_for_the_job_that_is_over() -> None:
    plane = with_job(finished_s=0.0)
    finish(plane)
    plane.run(HOUR)

    assert plane.there() == [0, 1, 0]


def test_a_job_that_was_given_up_goes_after_two_hours_with_its_workload() -> None:
    plane = with_job()
    plane.give_up()
    plane.run(2 * HOUR - 1)
    assert plane.there() == [1, 1, 0]

    plane.run(2)

    assert plane.there() == [0, 0, 0]


@pytest.mark.parametrize("reason", ["Deactivated", "Preempted"])
def test_what_a_user_deactivated_stays(reason: str) -> None:
    plane = with_job()
    plane.give_up(reason)
    plane.run(100 * HOUR)

    assert plane.there() == [1, 1, 0]


def test_one_that_is_wanted_again_stays() -> None:
    plane = with_job()
    plane.give_up()
    plane.run(HOUR)
    plane.edit(WORKLOADS, plane.workload_key, {"spec": {"active": True}})
    plane.run(100 * HOUR)

    assert plane.there() == [1, 1, 0]


def test_each_setting_counts_by_itself() -> None:
    finished, given_up = with_job(finished_s=None), with_job(given_up_s=None)
    finish(finished)
    given_up.give_up()
    for plane in (finished, given_up):
        plane.run(100 * HOUR)

        assert plane.there() == [1, 1, 0]


def test_a_pod_that_was_given_up_goes() -> None:
    plane = Kept()
    plane.create(PODS, pod("solo"))
    plane.settle()
    plane.give_up()
    plane.run(3 * HOUR)

    assert plane.there() == [0, 0, 0]


def test_so_do_the_pods_of_a_group() -> None:
    plane = Kept()
    for name in ("one", "two"):
        plane.create(PODS, member(name, 2))
    plane.settle()
    plane.give_up()
    plane.run(3 * HOUR)

    assert plane.there() == [0, 0, 0]


def test_a_workload_that_nobody_asked_for_goes_itself() -> None:
    plane = Kept()
    plane.create(WORKLOADS, workload("by-hand", 1, "main", owned=False))
    plane.give_up()
    plane.run(3 * HOUR)

    assert plane.there() == [0, 0, 0]


def test_a_job_of_another_controller_is_that_controllers() -> None:
    plane = Kept()
    plane.create(WORKLOADS, workload("ray", 1, "main", owned=True))
    plane.give_up()
    plane.run(3 * HOUR)

    assert plane.there() == [1, 0, 0]


def test_a_policy_that_says_nothing_is_none() -> None:
    empty = ObjectRetentionPolicies(workloads=WorkloadRetention())

    assert Configuration().retention is None
    assert Configuration(object_retention_policies=empty).retention is None

"""Jobs that get no Workload yet: the limit of their array, and the end of others."""

from __future__ import annotations

from typing import Any

import pytest

from makeway.api.kinds import JOBS, WORKLOADS
from makeway.controller.jobs import Jobs
from tests.harness import documents
from tests.harness.plane import NAMESPACE, Plane

QUEUED = {"kueue.x-k8s.io/queue-name": "team"}


def job(name: str, rule: str = "", whom: str = "") -> dict[str, Any]:
    """A Job in a queue, perhaps one that waits for another."""
    notes = {f"makeway.dev/{rule}": whom} if rule else {}
    metadata = {"namespace": NAMESPACE, "labels": dict(QUEUED), "annotations": notes}
    return documents.job(name, metadata, suspend=True)


def member(index: int, limit: int) -> dict[str, Any]:
    """One of array 12."""
    made = job(f"a-{index}", "array-limit", str(limit))
    numbered = {"makeway.dev/array": "12", "makeway.dev/array-index": str(index)}
    made["metadata"]["labels"] |= numbered
    return made


class Outside(Plane):
    def __init__(self) -> None:
        super().__init__(lambda picture: [Jobs(picture)])

    def submit(self, *jobs: dict[str, Any]) -> None:
        for one in jobs:
            self.create(JOBS, one)
        self.settle()

    def queued(self) -> set[str]:
        """The Jobs that have a Workload."""
        owners = (found["metadata"]["ownerReferences"][0]["name"] for found in self.all(WORKLOADS))
        return set(owners)

    def end(self, name: str, how: str) -> None:
        conditions = [{"type": how, "status": "True"}]
        self.edit(JOBS, name, {"status": {"conditions": conditions}}, "status")
        self.settle()

    def reason(self, name: str) -> str:
        """Why it is to end; empty if it isn't."""
        found = (self.get(JOBS, name).get("status") or {}).get("conditions") or ()
        return str(found[0]["reason"]) if found else ""


def test_of_an_array_so_many_are_let_in_the_lowest_first() -> None:
    plane = Outside()
    plane.submit(*(member(index, limit=2) for index in (10, 2, 1, 3)))
    first = plane.queued()

    plane.end(sorted(first)[0], "Failed")

    assert len(first) == 2
    assert len(plane.queued()) == 3


def test_a_restart_lets_in_no_more() -> None:
    plane = Outside()
    plane.submit(*(member(index, limit=1) for index in (1, 2, 3)))
    before = plane.queued()

    plane.restart()
    plane.settle()

    assert plane.queued() == before
    assert len(before) == 1


def test_one_that_is_deleted_makes_room() -> None:
    plane = Outside()
    plane.submit(*(member(index, limit=1) for index in (1, 2)))
    (first,) = plane.queued()

    plane.delete(JOBS, first)
    plane.run(5)

    assert plane.queued() - {first}


@pytest.mark.parametrize(
    ("rule", "end", "is_queued"),
    [
        ("after", "Complete", True),
        ("after", "Failed", False),
        ("after-any", "Complete", True),
        ("after-any", "Failed", True),
        ("after-failed", "Failed", True),
        ("after-failed", "Complete", False),
    ],
)
def test_the_end_of_another_lets_it_in_or_ends_it(rule: str, end: str, is_queued: bool) -> None:
    plane = Outside()
    plane.submit(job("first"), job("second", rule, "first"))
    assert plane.queued() == {"first"}

    plane.end("first", end)

    assert ("second" in plane.queued()) is is_queued
    assert plane.reason("second") == ("" if is_queued else "DependencyNeverSatisfied")


def test_all_of_an_array_counts() -> None:
    plane = Outside()
    plane.submit(member(1, limit=9), member(2, limit=9), job("sum", "after", "array/12"))

    plane.end("a-1", "Complete")
    assert "sum" not in plane.queued()
    plane.end("a-2", "Complete")

    assert "sum" in plane.queued()


def test_a_job_that_never_was_is_not_waited_for() -> None:
    plane = Outside()

    plane.submit(job("lonely", "after", "nobody"))

    assert plane.reason("lonely") == "DependencyNeverSatisfied"
    # Kubernetes refuses the end of a Job that has never begun.
    assert plane.get(JOBS, "lonely")["status"]["startTime"] == "1970-01-01T00:16:40Z"


def test_a_cancelled_job_ends_as_failed_with_who_wanted_it() -> None:
    plane = Outside()
    plane.submit(job("train"))

    plane.edit(JOBS, "train", {"metadata": {"annotations": {"makeway.dev/cancelled-by": "ada"}}})
    plane.settle()

    (told,) = plane.get(JOBS, "train")["status"]["conditions"]
    assert (told["type"], told["reason"]) == ("FailureTarget", "Cancelled")
    assert told["message"] == "Cancelled by ada"

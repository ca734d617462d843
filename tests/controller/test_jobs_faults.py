"""Whatever fails in between: no quota is given back too early, and no Job is lost on the way.

A seed makes a history: queues, users and whoever runs Jobs act in any order, writes are refused,
conflict or are not answered, and the part is restarted. The test looks at every status that is
written; the end is quiet, and the Job must then be as its Workload says.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import orjson
import pytest

from makeway.api.kinds import JOBS, PODS, WORKLOADS, Resource
from makeway.client.client import Conflict, Document, Unavailable
from makeway.plane.writes import Key, key_of
from makeway.store import Event
from tests.harness.jobs import TRAIN, JobPlane, suspended
from tests.prerequisites import samples

STEPS = 60


class Watched(JobPlane):
    """Allows quota to be given back only when no pod is there."""

    def __init__(self) -> None:
        self.releases, self.wrongs = 0, list[str]()
        super().__init__()

    def watched(self, resource: Resource, event: Event) -> None:
        if resource != WORKLOADS or event.previous is None:
            return
        before, after = (orjson.loads(record.body) for record in (event.previous, event.record))
        if holds(before) and (event.is_deletion or not holds(after)):
            self.releases += 1
            if self.all(PODS):
                self.wrongs.append("quota was given back under a pod")
            if not all(job["spec"]["suspend"] for job in self.all(JOBS)):
                self.wrongs.append("quota was given back under a Job that runs")


def holds(workload: Document) -> bool:
    return any(
        condition["type"] == "QuotaReserved" and condition["status"] == "True"
        for condition in (workload.get("status") or {}).get("conditions") or ()
    )


def sync(plane: Watched) -> None:
    """Whoever runs Jobs brings the pods in line with the Job, one at a time."""
    pods = [key_of(pod) for pod in plane.all(PODS)]
    wanted = 0 if plane.job["spec"]["suspend"] else plane.job["spec"]["parallelism"]
    if len(pods) > wanted:
        plane.delete(PODS, pods[0], grace_s=0)
    elif len(pods) < wanted:
        plane.report(conditions=[suspended("False")], startTime="1970-01-01T00:20:00Z")
        names = (f"train-{n}" for n in range(wanted) if Key("lab", f"train-{n}") not in pods)
        plane.run_pods(next(names))
    if not wanted and not plane.all(PODS):
        plane.stop_pods()


def admit(plane: Watched) -> None:
    waiting = [found for found in plane.all(WORKLOADS) if not holds(found)]
    if waiting and "deletionTimestamp" not in waiting[0]["metadata"]:
        plane.admit(count=waiting[0]["spec"]["podSets"][0]["count"])


def evict(plane: Watched) -> None:
    if plane.has_workload and plane.holds_quota:
        plane.evict()


def resize(plane: Watched) -> None:
    plane.edit(JOBS, TRAIN, {"spec": {"parallelism": 1 + (int(plane.now) % 4)}})


def delete_workload(plane: Watched) -> None:
    for workload in plane.all(WORKLOADS):
        plane.delete(WORKLOADS, key_of(workload))


def restart(plane: Watched) -> None:
    plane.restart()


def refuse(plane: Watched) -> None:
    plane.refusals.append(Conflict(409, "Conflict", "changed meanwhile"))


def break_off(plane: Watched) -> None:
    plane.refusals.append(Unavailable("no answer"))


def lose_answer(plane: Watched) -> None:
    plane.fates_unknown += 1


COMMON: tuple[Callable[[Watched], None], ...] = (sync, sync, sync, admit, evict)
RARE = (resize, delete_workload, restart, refuse, break_off, lose_answer)


@pytest.mark.parametrize("seed", range(samples(40)))
def test_quota_and_job_survive_any_history(seed: int) -> None:
    draw, plane = random.Random(seed), Watched()
    plane.submit()
    for _ in range(STEPS):
        act = draw.choice(RARE if draw.random() < 0.2 else COMMON)
        act(plane)
        plane.settle(plane.now + draw.choice((0.0, 1.0, 40.0)))
        assert not plane.wrongs
    plane.refusals, plane.fates_unknown = [], 0
    for _ in range(20):
        plane.settle(plane.now + 60)
        sync(plane)

    assert not plane.wrongs
    [workload] = plane.all(WORKLOADS)
    assert plane.job["spec"]["suspend"] is not plane.holds_quota
    assert plane.releases > 0
    pod_set = workload["spec"]["podSets"][0]
    assert pod_set["count"] == plane.job["spec"]["parallelism"]
    assert pod_set["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}

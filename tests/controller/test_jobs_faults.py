"""Whatever fails in between: no quota is given back too early, and no Job is lost on the way.

A seed makes a history: queues, users and whoever runs Jobs act in any order, writes are refused,
conflict or are not answered, and the part is restarted. The desk looks at every status that is
written; the end is quiet, and the Job must then be as its Workload says.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from makeway.client.client import Conflict, Document, Resource, Unavailable
from makeway.client.resources import JOBS, PODS, WORKLOADS
from makeway.controller.jobs import Jobs
from makeway.plane.writes import Key
from tests.controller.lab import TRAIN, Lab, suspended

STEPS = 60


class Watched(Lab):
    """A lab that allows quota to be given back only when no pod is there."""

    releases = 0

    def _keep(self, resource: Resource, document: Document, old: Document | None) -> Document:
        metadata = document["metadata"]
        is_gone = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        is_released = is_gone or not holds(document)
        if resource == WORKLOADS and old is not None and holds(old) and is_released:
            assert not list(self.picture.keys(PODS)), "quota was given back under a pod"
            assert self.job["spec"]["suspend"], "quota was given back under a Job that runs"
            self.releases += 1
        return super()._keep(resource, document, old)


def holds(workload: Document) -> bool:
    return any(
        condition["type"] == "QuotaReserved" and condition["status"] == "True"
        for condition in (workload.get("status") or {}).get("conditions") or ()
    )


def sync(lab: Watched) -> None:
    """Whoever runs Jobs brings the pods in line with the Job, one at a time."""
    pods = sorted(lab.picture.keys(PODS))
    wanted = 0 if lab.job["spec"]["suspend"] else lab.job["spec"]["parallelism"]
    if len(pods) > wanted:
        lab.delete(PODS, pods[0])
    elif len(pods) < wanted:
        lab.report(conditions=[suspended("False")], startTime="1970-01-01T00:20:00Z")
        names = (f"train-{n}" for n in range(wanted) if Key("lab", f"train-{n}") not in pods)
        lab.run_pods(next(names))
    if not wanted and not list(lab.picture.keys(PODS)):
        lab.stop_pods()


def admit(lab: Watched) -> None:
    waiting = [found for found in lab.picture.all(WORKLOADS) if not holds(found)]
    if waiting and "deletionTimestamp" not in waiting[0]["metadata"]:
        lab.admit(count=waiting[0]["spec"]["podSets"][0]["count"])


def evict(lab: Watched) -> None:
    if list(lab.picture.keys(WORKLOADS)) and lab.holds_quota:
        lab.evict()


def resize(lab: Watched) -> None:
    lab.edit(JOBS, TRAIN, {"spec": {"parallelism": 1 + (int(lab.now) % 4)}})


def delete_workload(lab: Watched) -> None:
    for key in list(lab.picture.keys(WORKLOADS)):
        lab.delete(WORKLOADS, key)


def restart(lab: Watched) -> None:
    lab.restart(Jobs(lab.picture))


def refuse(lab: Watched) -> None:
    lab.refusals.append(Conflict(409, "Conflict", "changed meanwhile"))


def break_off(lab: Watched) -> None:
    lab.refusals.append(Unavailable("no answer"))


def lose_answer(lab: Watched) -> None:
    lab.fates_unknown += 1


COMMON: tuple[Callable[[Watched], None], ...] = (sync, sync, sync, admit, evict)
RARE = (resize, delete_workload, restart, refuse, break_off, lose_answer)


@pytest.mark.parametrize("seed", range(40))
def test_quota_and_job_survive_any_history(seed: int) -> None:
    draw, lab = random.Random(seed), Watched()
    lab.submit()
    for _ in range(STEPS):
        act = draw.choice(RARE if draw.random() < 0.2 else COMMON)
        act(lab)
        lab.settle(lab.now + draw.choice((0.0, 1.0, 40.0)))
    lab.refusals, lab.fates_unknown = [], 0
    for _ in range(20):
        lab.settle(lab.now + 60)
        sync(lab)

    [workload] = lab.picture.all(WORKLOADS)
    assert lab.job["spec"]["suspend"] is not lab.holds_quota
    assert lab.releases > 0
    pod_set = workload["spec"]["podSets"][0]
    assert pod_set["count"] == lab.job["spec"]["parallelism"]
    assert pod_set["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}

"""Jobs whose writes are lost, doubled, late or unanswered, with watches that lag and restarts.

Checked against what the server alone has seen, at every change of an object.
"""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest

from makeway.api.kinds import JOBS, PODS, Resource
from makeway.client.client import Document
from makeway.plane.writes import Key, ObjectWrite, key_of
from makeway.store import Event
from tests.harness.job_pods import ACTIVE, JobPodsPlane, index_of, indexed, job
from tests.prerequisites import samples

TRACKING = "batch.kubernetes.io/job-tracking"
STEPS = 120


class Trouble(JobPodsPlane):
    """Anything may go wrong, by a seed."""

    def __init__(self, seed: int, document: Document, *, people_delete: bool = True) -> None:
        self.chance, self.people_delete = Random(seed), people_delete
        self.on_the_way: list[ObjectWrite] = []
        self.late: list[ObjectWrite] = []
        self.shown: set[str] = set()  # uids of pods that the part has seen before the end
        self.ended: dict[str, Document] = {}  # pods that were tracked when they ended or left
        self.counters = (0, 0)
        self.wrongs: list[str] = []
        super().__init__(backoff_s=1.0)
        self.is_late = True
        self.put(JOBS, document)

    # Checks

    def watched(self, resource: Resource, event: Event) -> None:
        document = orjson.loads(event.record.body)
        if resource == PODS:
            self._note_end(document)
        else:
            status = document["status"]
            counters = (status.get("succeeded", 0), status.get("failed", 0))
            if any(new < old for new, old in zip(counters, self.counters, strict=True)):
                self.wrongs.append(f"after {self.counters} came {counters}")
            self.counters = counters
        self._check_active()

    def _note_end(self, pod: Document) -> None:
        metadata = pod["metadata"]
        has_ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        is_tracked = TRACKING in metadata.get("finalizers", ())
        if is_tracked and (has_ended or metadata.get("deletionTimestamp")):
            self.ended[metadata["uid"]] = pod

    def _check_active(self) -> None:
        spec = self.job()["spec"]
        only_failed = spec.get("podReplacementPolicy") == "Failed"
        running = self.running() if only_failed else self.active()
        if len(running) > spec["parallelism"]:
            self.wrongs.append(f"{len(running)} run at once")
        is_indexed = spec.get("completionMode") == "Indexed"
        if is_indexed and len(set(map(index_of, running))) < len(running):
            self.wrongs.append("two run for one index")

    def running(self) -> list[Document]:
        """Those that were told to end, too."""
        return [pod for pod in self.pods(*ACTIVE) if not is_over(pod)]

    def _show(self, resource: Resource, key: Key, document: Any, revision: int) -> None:
        if resource == PODS and document is not None and not self.is_finished:
            self.shown.add(document["metadata"]["uid"])
        super()._show(resource, key, document, revision)

    @property
    def is_finished(self) -> bool:
        known = self.find(JOBS, "train") is not None
        return known and not {"Complete", "Failed"}.isdisjoint(self.conditions)

    # What happens

    def step(self) -> None:
        moves = [self.hear_some, self.work, self.work, self.arrive, self.arrive, self.finish_pod]
        rare = [self.delete_pod, self.suspend, self.crash, self.do_late, self.pass_time]
        self.chance.choice(moves * 2 + rare)()

    def hear_some(self) -> None:
        self.hear(self.chance.randint(1, 4))

    def work(self) -> None:
        self.on_the_way += self.wanted()

    def arrive(self) -> None:
        if self.on_the_way:
            write = self.on_the_way.pop(self.chance.randrange(len(self.on_the_way)))
            fate = self.chance.choice(("done",) * 6 + ("lost", "unknown", "late"))
            if fate == "late":
                self.late.append(write)
            self.send(write, "lost" if fate == "late" else fate)

    def do_late(self) -> None:
        while self.late:
            self.carry_out(self.late.pop())

    def finish_pod(self) -> None:
        running = self.running()
        if running:
            self.end_quietly(self.chance.choice(running), self.chance.choice((0, 0, 1)))

    def end_quietly(self, pod: Document, code: int) -> None:
        self.report(pod, phase="Failed" if code else "Succeeded")
        if pod["metadata"].get("deletionTimestamp"):
            self.delete(PODS, key_of(pod), grace_s=0)

    def delete_pod(self) -> None:
        pods = [pod for pod in self.pods() if not pod["metadata"].get("deletionTimestamp")]
        if pods and self.people_delete:
            pod = self.chance.choice(pods)
            if pod["status"]["phase"] == "Pending":
                self.bind(pod["metadata"]["name"], "node")  # it will take its time to end
            self.delete(PODS, key_of(pod))

    def suspend(self) -> None:
        document = self.job()
        document["spec"]["suspend"] = not document["spec"].get("suspend")
        self.put(JOBS, document)

    def crash(self) -> None:
        """What is on its way is done or not; nobody hears which."""
        for write in (*self.on_the_way, *self.late):
            if self.chance.random() < 0.5:
                self.carry_out(write)
        self.on_the_way, self.late = [], []
        self.restart()

    def pass_time(self) -> None:
        self.now += self.chance.choice((1, 10, 60))

    def calm_down(self) -> None:
        """No more trouble: everything on its way arrives, and pods succeed."""
        self.is_late = False
        self.hear()
        self.do_late()
        for write in self.on_the_way:
            self.send(write)
        self.on_the_way = []
        if self.job()["spec"].get("suspend"):
            self.suspend()
        for _ in range(60):
            self.wait(400)
            running = self.running()
            if self.is_finished and not running:
                return
            for pod in running:
                self.end_quietly(self.get(PODS, key_of(pod)), 0)
        raise AssertionError("the job does not end")


def is_over(pod: Document) -> bool:
    metadata, phase = pod["metadata"], pod["status"]["phase"]
    is_leaving_at_once = metadata.get("deletionGracePeriodSeconds") == 0
    return phase in ("Succeeded", "Failed") or is_leaving_at_once


def played(seed: int, document: Document, *, people_delete: bool = True) -> Trouble:
    plane = Trouble(seed, document, people_delete=people_delete)
    for _ in range(STEPS):
        plane.step()
    plane.calm_down()
    plane.settle()
    assert not plane.wrongs
    return plane


def check_ends(plane: Trouble) -> None:
    """Each pod that ended while it was the job's to count was counted, once."""
    counted = {uid: pod for uid, pod in plane.ended.items() if uid in plane.shown}
    status = plane.status
    assert status.get("succeeded", 0) + status.get("failed", 0) == len(counted)
    assert not any(status.get("uncountedTerminatedPods", {}).values())
    assert not any(TRACKING in pod["metadata"].get("finalizers", ()) for pod in plane.pods())


@pytest.mark.parametrize("seed", range(samples(60)))
def test_every_end_is_counted_once_whatever_happens_to_writes(seed: int) -> None:
    plane = played(seed, job(completions=6, parallelism=3, backoffLimit=4))

    check_ends(plane)
    has_failed = plane.status.get("failed", 0) > 4
    assert ("Failed" in plane.conditions) == has_failed
    assert has_failed or plane.status["succeeded"] == 6


@pytest.mark.parametrize("seed", range(samples(60)))
def test_successes_are_exact_where_only_failed_pods_are_replaced(seed: int) -> None:
    document = job(completions=5, parallelism=2, backoffLimit=50, podReplacementPolicy="Failed")
    plane = played(seed, document)

    check_ends(plane)
    succeeded = [pod for pod in plane.ended.values() if pod["status"]["phase"] == "Succeeded"]
    assert plane.status["succeeded"] == len(succeeded) == 5
    assert "Complete" in plane.conditions


@pytest.mark.parametrize("seed", range(samples(60)))
def test_no_index_is_lost_and_none_has_two_pods(seed: int) -> None:
    plane = played(seed, indexed(6, parallelism=3, backoffLimit=50, podReplacementPolicy="Failed"))

    succeeded = {index_of(p) for p in plane.ended.values() if p["status"]["phase"] == "Succeeded"}
    assert succeeded == {0, 1, 2, 3, 4, 5}
    assert (plane.status["completedIndexes"], plane.status["succeeded"]) == ("0-5", 6)
    check_ends(plane)


@pytest.mark.parametrize("seed", range(samples(40)))
def test_a_work_queue_ends_with_its_last_pod(seed: int) -> None:
    plane = played(seed, job(parallelism=3, backoffLimit=50))

    check_ends(plane)
    assert "Complete" in plane.conditions


@pytest.mark.parametrize("seed", range(samples(60)))
def test_an_index_gets_no_more_tries_than_its_limit(seed: int) -> None:
    plane = played(seed, indexed(3, backoffLimitPerIndex=1), people_delete=False)

    failures = [index_of(p) for p in plane.ended.values() if p["status"]["phase"] != "Succeeded"]
    assert max(map(failures.count, range(3))) <= 2
    given_up = [index for index in range(3) if failures.count(index) == 2]
    assert ("Failed" in plane.conditions) == bool(given_up)

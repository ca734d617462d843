"""Jobs whose writes are lost, doubled, late or unanswered, with watches that lag and restarts.

Checked against what the server alone has seen, at every change of an object.
"""

from __future__ import annotations

import contextlib
import copy
from random import Random
from typing import Any

import pytest

from makeway.client.client import ApiError, Document, Resource
from makeway.client.resources import JOBS, PODS
from makeway.plane.writes import Key, ObjectWrite, key_of
from tests.runner.jobs_world import ACTIVE, World, index_of, indexed, job

TRACKING = "batch.kubernetes.io/job-tracking"
STEPS = 120


class Trouble(World):
    """A world where anything may go wrong, by a seed."""

    def __init__(self, seed: int, document: Document, *, people_delete: bool = True) -> None:
        self.chance, self.people_delete = Random(seed), people_delete
        self.on_the_way: list[ObjectWrite] = []
        self.late: list[ObjectWrite] = []
        self.shown: set[str] = set()  # uids of pods that the part has seen before the end
        self.ended: dict[str, Document] = {}  # pods that were tracked when they ended or left
        self.counters = (0, 0)
        super().__init__(backoff_s=1.0)
        self.put(JOBS, document)

    # Checks

    def put(self, resource: Resource, document: Document) -> Document:
        answer = super().put(resource, document)
        if resource == PODS:
            self._note_end(answer)
        else:
            status = answer["status"]
            counters = (status.get("succeeded", 0), status.get("failed", 0))
            assert all(new >= old for new, old in zip(counters, self.counters, strict=True))
            self.counters = counters
        self._check_active()
        return answer

    def _note_end(self, pod: Document) -> None:
        metadata = pod["metadata"]
        has_ended = pod["status"]["phase"] in ("Succeeded", "Failed")
        is_tracked = TRACKING in metadata.get("finalizers", ())
        if is_tracked and (has_ended or metadata.get("deletionTimestamp")):
            self.ended[metadata["uid"]] = pod

    def _check_active(self) -> None:
        only_failed = self.job()["spec"].get("podReplacementPolicy") == "Failed"
        running = self.running() if only_failed else self.active()
        assert len(running) <= self.job()["spec"]["parallelism"]
        if self.job()["spec"].get("completionMode") == "Indexed":
            assert len(set(map(index_of, running))) == len(running)

    def running(self) -> list[Document]:
        """Those that were told to end, too."""
        return [pod for pod in self.pods(*ACTIVE) if not is_over(pod)]

    def _show(self, resource: Resource, key: Key, document: Any, revision: int) -> None:
        if resource == PODS and document is not None and not self.is_finished:
            self.shown.add(document["metadata"]["uid"])
        super()._show(resource, key, document, revision)

    @property
    def is_finished(self) -> bool:
        known = (JOBS, Key("lab", "train")) in self.objects
        return known and not {"Complete", "Failed"}.isdisjoint(self.conditions)

    # What happens

    def step(self) -> None:
        moves = [self.hear, self.work, self.work, self.arrive, self.arrive, self.finish_pod]
        rare = [self.delete_pod, self.suspend, self.crash, self.do_late, self.pass_time]
        self.chance.choice(moves * 2 + rare)()

    def hear(self) -> None:
        self.tell(self.chance.randint(1, 4))

    def work(self) -> None:
        self.on_the_way += self.ask()

    def arrive(self) -> None:
        if self.on_the_way:
            write = self.on_the_way.pop(self.chance.randrange(len(self.on_the_way)))
            fate = self.chance.choice(("done",) * 6 + ("lost", "unknown", "late"))
            if fate == "late":
                self.late.append(write)
            self.send(write, "lost" if fate == "late" else fate)

    def do_late(self) -> None:
        while self.late:
            self._apply_unheard(self.late.pop())

    def _apply_unheard(self, write: ObjectWrite) -> None:
        with contextlib.suppress(ApiError):
            self.apply(write)

    def finish_pod(self) -> None:
        running = self.running()
        if running:
            self.end_quietly(self.chance.choice(running), self.chance.choice((0, 0, 1)))

    def end_quietly(self, pod: Document, code: int) -> None:
        ended = copy.deepcopy(pod)
        ended["status"] = {"phase": "Failed" if code else "Succeeded"}
        ended["metadata"].pop("deletionGracePeriodSeconds", None)
        self.put(PODS, ended)

    def delete_pod(self) -> None:
        pods = [pod for pod in self.pods() if not pod["metadata"].get("deletionTimestamp")]
        if pods and self.people_delete:
            pod = copy.deepcopy(self.chance.choice(pods))
            if pod["status"]["phase"] == "Pending":
                pod["spec"]["nodeName"] = "node"  # it runs, and will take its time to end
            self._mark_deleted(PODS, pod, "")

    def suspend(self) -> None:
        document = copy.deepcopy(self.job())
        document["spec"]["suspend"] = not document["spec"].get("suspend")
        self.put(JOBS, document)

    def crash(self) -> None:
        """What is on its way is done or not; nobody hears which."""
        for write in (*self.on_the_way, *self.late):
            if self.chance.random() < 0.5:
                self._apply_unheard(write)
        self.on_the_way, self.late = [], []
        self.restart()

    def pass_time(self) -> None:
        self.now += self.chance.choice((1, 10, 60))

    def calm_down(self) -> None:
        """No more trouble: everything on its way arrives, and pods succeed."""
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
                self.end_quietly(self.objects[PODS, key_of(pod)], 0)
        raise AssertionError("the job does not end")


def is_over(pod: Document) -> bool:
    metadata, phase = pod["metadata"], pod["status"]["phase"]
    is_leaving_at_once = metadata.get("deletionGracePeriodSeconds") == 0
    return phase in ("Succeeded", "Failed") or is_leaving_at_once


def played(seed: int, document: Document, *, people_delete: bool = True) -> Trouble:
    lab = Trouble(seed, document, people_delete=people_delete)
    for _ in range(STEPS):
        lab.step()
    lab.calm_down()
    lab.settle()
    return lab


def check_ends(lab: Trouble) -> None:
    """Each pod that ended while it was the job's to count was counted, once."""
    counted = {uid: pod for uid, pod in lab.ended.items() if uid in lab.shown}
    status = lab.status
    assert status.get("succeeded", 0) + status.get("failed", 0) == len(counted)
    assert not any(status.get("uncountedTerminatedPods", {}).values())
    assert not any(TRACKING in pod["metadata"].get("finalizers", ()) for pod in lab.pods())


@pytest.mark.parametrize("seed", range(60))
def test_every_end_is_counted_once_whatever_happens_to_writes(seed: int) -> None:
    lab = played(seed, job(completions=6, parallelism=3, backoffLimit=4))

    check_ends(lab)
    has_failed = lab.status.get("failed", 0) > 4
    assert ("Failed" in lab.conditions) == has_failed
    assert has_failed or lab.status["succeeded"] == 6


@pytest.mark.parametrize("seed", range(60))
def test_successes_are_exact_where_only_failed_pods_are_replaced(seed: int) -> None:
    document = job(completions=5, parallelism=2, backoffLimit=50, podReplacementPolicy="Failed")
    lab = played(seed, document)

    check_ends(lab)
    succeeded = [pod for pod in lab.ended.values() if pod["status"]["phase"] == "Succeeded"]
    assert lab.status["succeeded"] == len(succeeded) == 5
    assert "Complete" in lab.conditions


@pytest.mark.parametrize("seed", range(60))
def test_no_index_is_lost_and_none_has_two_pods(seed: int) -> None:
    lab = played(seed, indexed(6, parallelism=3, backoffLimit=50, podReplacementPolicy="Failed"))

    succeeded = {index_of(p) for p in lab.ended.values() if p["status"]["phase"] == "Succeeded"}
    assert succeeded == {0, 1, 2, 3, 4, 5}
    assert (lab.status["completedIndexes"], lab.status["succeeded"]) == ("0-5", 6)
    check_ends(lab)


@pytest.mark.parametrize("seed", range(40))
def test_a_work_queue_ends_with_its_last_pod(seed: int) -> None:
    lab = played(seed, job(parallelism=3, backoffLimit=50))

    check_ends(lab)
    assert "Complete" in lab.conditions


@pytest.mark.parametrize("seed", range(60))
def test_an_index_gets_no_more_tries_than_its_limit(seed: int) -> None:
    lab = played(seed, indexed(3, backoffLimitPerIndex=1), people_delete=False)

    failures = [index_of(p) for p in lab.ended.values() if p["status"]["phase"] != "Succeeded"]
    assert max(map(failures.count, range(3))) <= 2
    given_up = [index for index in range(3) if failures.count(index) == 2]
    assert ("Failed" in lab.conditions) == bool(given_up)

"""Whatever gets lost and whenever we are started again: in the end the pods are placed right."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.api.kinds import PODS, WORKLOADS
from makeway.client.client import ApiError, Conflict, Unavailable
from makeway.plane.parts import Failed
from makeway.plane.writes import ObjectWrite
from tests.harness.placing import PlacingPlane
from tests.prerequisites import samples

FAULTS = (
    Unavailable("no answer"),
    Conflict(409, "Conflict", "changed meanwhile"),
    ApiError(500, "InternalError", "of the server"),
)


class Faults:
    """Steps of a part with lost, refused and unanswered writes, late watches, and restarts."""

    def __init__(self, plane: PlacingPlane, seed: int) -> None:
        self.plane, self.chance, self.made = plane, random.Random(seed), 0

    def fault(self, write: ObjectWrite) -> ApiError | Unavailable | None:
        return self.chance.choice(FAULTS) if self.chance.random() < 0.3 else None

    def is_lost(self, write: ObjectWrite) -> bool:
        return self.chance.random() < 0.3

    def play(self, steps: int) -> None:
        plane = self.plane
        plane.fault, plane.is_lost, plane.is_late = self.fault, self.is_lost, True
        for _ in range(steps):
            plane.now += self.chance.choice((0.0, 0.2, 5.0))
            writes = plane.ask()
            self.chance.shuffle(writes)
            is_restarted = self.chance.random() < 0.2
            sent = self.chance.randint(0, len(writes)) if is_restarted else len(writes)
            for part, write in writes[:sent]:
                plane.answer(part, write)
            if is_restarted:
                plane.restart()
            if self.chance.random() < 0.3:
                self.end_leaving()
            if self.chance.random() < 0.5:
                plane.hear()
            check_room(plane)
        plane.is_late = False
        plane.hear()
        plane.fault, plane.is_lost = (lambda write: None), (lambda write: False)

    def end_leaving(self) -> None:
        """Those that leave are gone; a Job creates its pods anew."""
        for name in self.plane.leaving():
            pod = self.plane.get(PODS, name)
            self.plane.ended(name)
            if "train" in name:
                spec = {**pod["spec"]}
                spec.pop("nodeName", None)
                fresh = {k: v for k, v in pod["metadata"].items() if k in ("namespace", "labels")}
                self.made += 1
                metadata = {**fresh, "name": f"train-anew-{self.made}", "annotations": {}}
                self.plane.put(PODS, {"metadata": metadata, "spec": spec, "status": {}})

    def end(self) -> None:
        for _ in range(6):
            self.plane.run(60)
            self.end_leaving()


def check_room(plane: PlacingPlane) -> None:
    """On no node do more pods stand than it has room for."""
    used: dict[str, int] = {}
    for pod in plane.all(PODS):
        node = pod["spec"].get("nodeName")
        if node:
            used[node] = used.get(node, 0) + 4
    assert all(cpu <= 4 for cpu in used.values()), used


@settings(max_examples=samples(60), deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 12))
def test_a_gang_gets_its_nodes_through_any_faults(seed: int, steps: int) -> None:
    plane = PlacingPlane(n1=4, n2=4, n3=4)
    plane.workload("low", 2, mode="PodGroup")
    plane.pod("low-0", on="n1", workload="low")
    plane.pod("low-1", on="n2", workload="low")
    plane.group("train", 3)
    for index in range(3):
        plane.pod(f"train-{index}", group="train", priority=100)
    faults = Faults(plane, seed)
    faults.play(steps)
    faults.end()
    check_room(plane)
    bound = [p["spec"].get("nodeName") for p in plane.all(PODS)]
    assert sorted(bound) == ["n1", "n2", "n3"]
    assert plane.condition(WORKLOADS, "low", "Evicted")["status"] == "True"


@settings(max_examples=samples(60), deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 12))
def test_what_we_count_on_is_in_the_end_what_there_is(seed: int, steps: int) -> None:
    plane = PlacingPlane(n1=4, n2=4)
    for index in range(4):
        plane.pod(f"pod-{index}", priority=10 * index)
    faults = Faults(plane, seed)
    faults.play(steps)
    faults.end()
    check_room(plane)
    assert sum(bool(p["spec"].get("nodeName")) for p in plane.all(PODS)) == 2
    for pod in plane.all(PODS):
        if not pod["spec"].get("nodeName"):
            assert plane.condition(PODS, pod["metadata"]["name"], "PodScheduled")["message"]


@pytest.mark.parametrize("step", range(12))
def test_a_restart_after_any_write_changes_nothing(step: int) -> None:
    plane = PlacingPlane(n1=4, n2=4)
    plane.pod("low-1", on="n1")
    plane.pod("low-2", on="n2")
    plane.group("train", 2)
    for index in range(2):
        plane.pod(f"train-{index}", group="train", priority=100)
    written = 0
    while written < step:
        writes = plane.ask()
        if not writes:
            break
        for part, write in writes[: step - written]:
            outcome = plane.carry_out(write)
            assert not isinstance(outcome, Failed)
            if written + 1 < step:
                part.settled(write, outcome, plane.now)
            written += 1
    plane.restart()
    plane.run()
    plane.ended("low-1", "low-2")
    plane.run()
    assert sorted(plane.nodes_of("train-0", "train-1")) == ["n1", "n2"]

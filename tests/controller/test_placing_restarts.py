"""Whatever gets lost and whenever we are started again: in the end the pods are placed right."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.client.client import ApiError, Conflict, Unavailable
from makeway.client.resources import PODS, WORKLOADS
from makeway.plane.parts import Failed
from makeway.plane.writes import ObjectWrite, Say
from tests.controller.placing_lab import Lab

FAULTS = (
    Unavailable("no answer"),
    Conflict(409, "Conflict", "changed meanwhile"),
    ApiError(500, "InternalError", "of the server"),
)


class Weather:
    """Steps of a part with lost, refused and unanswered writes, late watches, and restarts."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.chance = lab, random.Random(seed)

    def fault(self, write: ObjectWrite) -> Exception | None:
        return self.chance.choice(FAULTS) if self.chance.random() < 0.3 else None

    def is_lost(self, write: ObjectWrite) -> bool:
        return self.chance.random() < 0.3

    def blow(self, steps: int) -> None:
        lab = self.lab
        lab.fault, lab.is_lost, lab.is_late = self.fault, self.is_lost, True
        for _ in range(steps):
            lab.now += self.chance.choice((0.0, 0.2, 5.0))
            writes = [w for w in lab.part.act(lab.now).writes if not isinstance(w, Say)]
            self.chance.shuffle(writes)
            is_restarted = self.chance.random() < 0.2
            for write in writes[: self.chance.randint(0, len(writes))] if is_restarted else writes:
                lab.answer(write)
            if is_restarted:
                lab.restart()
            if self.chance.random() < 0.3:
                self.end_leaving()
            if self.chance.random() < 0.5:
                lab.hear()
            check_room(lab)
        lab.is_late = False
        lab.hear()
        lab.fault, lab.is_lost = (lambda write: None), (lambda write: False)

    def end_leaving(self) -> None:
        """Those that leave are gone; a Job creates its pods anew."""
        for name in self.lab.leaving():
            pod = self.lab.get(PODS, name)
            self.lab.ended(name)
            if "train" in name:
                spec = {**pod["spec"]}
                spec.pop("nodeName", None)
                fresh = {k: v for k, v in pod["metadata"].items() if k in ("namespace", "labels")}
                number = self.lab.revision
                metadata = {**fresh, "name": f"train-{number}", "annotations": {}}
                self.lab.put(PODS, {"metadata": metadata, "spec": spec, "status": {}})

    def calm_down(self) -> None:
        for _ in range(6):
            self.lab.run(60)
            self.end_leaving()


def check_room(lab: Lab) -> None:
    """On no node do more pods stand than it has room for."""
    used: dict[str, int] = {}
    for pod in lab.truth.all(PODS):
        node = pod["spec"].get("nodeName")
        if node:
            used[node] = used.get(node, 0) + 4
    assert all(cpu <= 4 for cpu in used.values()), used


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 12))
def test_a_gang_gets_its_nodes_through_any_weather(seed: int, steps: int) -> None:
    lab = Lab(n1=4, n2=4, n3=4)
    lab.workload("low", 2, mode="PodGroup")
    lab.pod("low-0", on="n1", workload="low")
    lab.pod("low-1", on="n2", workload="low")
    lab.group("train", 3)
    for index in range(3):
        lab.pod(f"train-{index}", group="train", priority=100)
    weather = Weather(lab, seed)
    weather.blow(steps)
    weather.calm_down()
    check_room(lab)
    bound = [p["spec"].get("nodeName") for p in lab.truth.all(PODS)]
    assert sorted(bound) == ["n1", "n2", "n3"]
    assert lab.condition(WORKLOADS, "low", "Evicted")["status"] == "True"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 12))
def test_what_we_count_on_is_in_the_end_what_there_is(seed: int, steps: int) -> None:
    lab = Lab(n1=4, n2=4)
    for index in range(4):
        lab.pod(f"pod-{index}", priority=10 * index)
    weather = Weather(lab, seed)
    weather.blow(steps)
    weather.calm_down()
    check_room(lab)
    assert sum(bool(p["spec"].get("nodeName")) for p in lab.truth.all(PODS)) == 2
    for pod in lab.truth.all(PODS):
        if not pod["spec"].get("nodeName"):
            assert lab.condition(PODS, pod["metadata"]["name"], "PodScheduled")["message"]


@pytest.mark.parametrize("step", range(12))
def test_a_restart_after_any_write_changes_nothing(step: int) -> None:
    lab = Lab(n1=4, n2=4)
    lab.pod("low-1", on="n1")
    lab.pod("low-2", on="n2")
    lab.group("train", 2)
    for index in range(2):
        lab.pod(f"train-{index}", group="train", priority=100)
    written = 0
    while written < step:
        plan = lab.part.act(lab.now)
        writes = [write for write in plan.writes if not isinstance(write, Say)]
        if not writes:
            break
        for write in writes[: step - written]:
            outcome = lab.carry_out(write)
            assert not isinstance(outcome, Failed)
            if written + 1 < step:
                lab.part.settled(write, outcome, lab.now)
            written += 1
    lab.restart()
    lab.run()
    lab.ended("low-1", "low-2")
    lab.run()
    assert sorted(lab.nodes_of("train-0", "train-1")) == ["n1", "n2"]

"""A group under random hands: users, queues, kubelets, lost writes and other controllers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from makeway.api.kinds import PODS, WORKLOADS
from makeway.client.client import Conflict
from makeway.controller.pod_members import Member, member_of
from makeway.plane.writes import key_of
from tests.harness.pods import PodPlane, member, pod
from tests.prerequisites import samples

TOTAL = 3
STEPS = 60


class RandomHands:
    def __init__(self, seed: int, *, is_group: bool) -> None:
        self.plane, self.chance, self.is_group = PodPlane(), random.Random(seed), is_group
        self.made, self.held = 0, False

    def play(self) -> None:
        acts: list[Callable[[], None]] = [
            *(self.create, self.create, self.create, self.admit, self.admit),
            *(self.run, self.run, self.run, self.end, self.end),
            *(self.evict, self.remove, self.drop_workload),
        ]
        for _ in range(STEPS):
            self.trouble()
            self.chance.choice(acts)()
            self.settle()
            self.check()

    def clear_up(self) -> None:
        """Everybody goes, and those that run are ended."""
        plane = self.plane
        plane.refusals, plane.fates_unknown = [], 0
        for found in self.members():
            plane.delete(PODS, found.key)
        for _ in range(4):
            self.settle()
            for found in self.members():
                if found.is_active:
                    plane.end(found.key.name, "Failed")
        for workload in plane.all(WORKLOADS):  # those that wait for other pods
            plane.delete(WORKLOADS, key_of(workload))
        for _ in range(4):
            self.settle()

    def settle(self) -> None:
        self.plane.settle(self.plane.now + 60)

    def members(self) -> list[Member]:
        picture = self.plane.picture
        found = [picture.find(PODS, key) for key in picture.keys(PODS)]
        entries = [member_of(pod) for pod in found if pod is not None]
        return [entry[1] for entry in entries if entry is not None]

    def check(self) -> None:
        """Who runs has quota, and no quota is given back while somebody runs."""
        active = [found for found in self.members() if found.is_active]
        held = self.plane.has_workload and self.plane.holds_quota
        if not held:
            assert all(found.is_leaving for found in active)
        if self.held and not held and not self.is_over:
            assert not active
        assert len(active) <= (TOTAL if self.is_group else 1)
        self.held = held

    @property
    def is_over(self) -> bool:
        return self.plane.has_workload and self.plane.condition_of("Finished")[0] == "True"

    def trouble(self) -> None:
        match self.chance.randrange(6):
            case 0:
                self.plane.refusals = [Conflict(409, "Conflict", "faster")]
            case 1:
                self.plane.fates_unknown = self.chance.randrange(3)
            case 2:
                self.plane.restart()

    # Hands

    def create(self) -> None:
        self.made += 1
        name = f"p{self.made:03}"
        if self.is_group:
            self.plane.create(PODS, member(name, TOTAL))
        elif not self.members():
            self.plane.create(PODS, pod(name))

    def admit(self) -> None:
        plane = self.plane
        is_waiting = plane.has_workload and not plane.holds_quota and not self.is_over
        if is_waiting and plane.condition_of("WaitingForReplacementPods")[0] != "True":
            plane.admit()

    def evict(self) -> None:
        if self.plane.has_workload and self.plane.holds_quota and not self.is_over:
            self.plane.evict()

    def run(self) -> None:
        ready = [m for m in self.members() if m.is_active and not m.is_leaving and not m.has_node]
        if ready:
            self.plane.start(self.chance.choice(ready).key.name)

    def end(self) -> None:
        running = [found for found in self.members() if found.is_active and found.has_node]
        if running:
            phase = self.chance.choice(["Succeeded", "Failed"])
            self.plane.end(self.chance.choice(running).key.name, phase)

    def remove(self) -> None:
        found = self.members()
        if found:
            self.plane.delete(PODS, self.chance.choice(found).key)

    def drop_workload(self) -> None:
        for workload in self.plane.all(WORKLOADS):
            if self.chance.random() < 0.3:
                self.plane.delete(WORKLOADS, key_of(workload))


@pytest.mark.parametrize("is_group", [False, True], ids=["alone", "group"])
def test_nothing_runs_without_quota_and_nothing_is_left_in_the_end(is_group: bool) -> None:
    for seed in range(samples(40)):
        hands = RandomHands(seed, is_group=is_group)
        hands.play()
        hands.clear_up()

        assert hands.plane.all(PODS) == [], seed
        assert not hands.plane.has_workload, seed

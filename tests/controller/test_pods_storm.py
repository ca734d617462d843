"""A group under random hands: users, queues, kubelets, lost writes and other controllers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from makeway.client.client import Conflict
from makeway.client.resources import PODS, WORKLOADS
from makeway.controller.pod_members import Member, member_of
from makeway.controller.pods import Pods
from makeway.plane.writes import Key, key_of
from tests.controller.pods_lab import PodLab, member, pod

TOTAL = 3
STEPS = 60


class Storm:
    def __init__(self, seed: int, *, is_group: bool) -> None:
        self.lab, self.chance, self.is_group = PodLab(), random.Random(seed), is_group
        self.made, self.held = 0, False

    def play(self) -> None:
        hands: list[Callable[[], None]] = [
            *(self.create, self.create, self.create, self.admit, self.admit),
            *(self.run, self.run, self.run, self.end, self.end),
            *(self.evict, self.remove, self.drop_workload),
        ]
        for _ in range(STEPS):
            self.trouble()
            self.chance.choice(hands)()
            self.settle()
            self.check()

    def clear_up(self) -> None:
        """Everybody goes, and those that run are ended."""
        lab = self.lab
        lab.refusals, lab.fates_unknown = [], 0
        for found in self.members():
            lab.delete(PODS, found.key)
        for _ in range(4):
            self.settle()
            for found in self.members():
                if found.is_active:
                    lab.end(found.key.name, "Failed")
        for key in list(lab.picture.keys(WORKLOADS)):  # those that wait for other pods
            lab.delete(WORKLOADS, key)
        for _ in range(4):
            self.settle()

    def settle(self) -> None:
        self.lab.settle(self.lab.now + 60)
        there = {found.uid for found in self.members()}
        for workload in list(self.lab.picture.all(WORKLOADS)):  # as a server collects orphans
            owners = workload["metadata"].get("ownerReferences") or ()
            if owners and all(owner["uid"] not in there for owner in owners):
                self.lab.delete(WORKLOADS, key_of(workload))

    def members(self) -> list[Member]:
        picture = self.lab.picture
        found = [picture.find(PODS, key) for key in picture.keys(PODS)]
        entries = [member_of(pod) for pod in found if pod is not None]
        return [entry[1] for entry in entries if entry is not None]

    def check(self) -> None:
        """Who runs has quota, and no quota is given back while somebody runs."""
        active = [found for found in self.members() if found.is_active]
        held = self.lab.has_workload and self.lab.holds_quota
        if not held:
            assert all(found.is_leaving for found in active)
        if self.held and not held and not self.is_over:
            assert not active
        assert len(active) <= (TOTAL if self.is_group else 1)
        self.held = held

    @property
    def is_over(self) -> bool:
        return self.lab.has_workload and self.lab.condition("Finished")[0] == "True"

    def trouble(self) -> None:
        match self.chance.randrange(6):
            case 0:
                self.lab.refusals = [Conflict(409, "Conflict", "faster")]
            case 1:
                self.lab.fates_unknown = self.chance.randrange(3)
            case 2:
                self.lab.restart(Pods(self.lab.picture))

    # Hands

    def create(self) -> None:
        self.made += 1
        name = f"p{self.made:03}"
        if self.is_group:
            self.lab.put(PODS, member(name, TOTAL))
        elif not self.members():
            self.lab.put(PODS, pod(name))

    def admit(self) -> None:
        lab = self.lab
        is_waiting = lab.has_workload and not lab.holds_quota and not self.is_over
        if is_waiting and lab.condition("WaitingForReplacementPods")[0] != "True":
            lab.admit()

    def evict(self) -> None:
        if self.lab.has_workload and self.lab.holds_quota and not self.is_over:
            self.lab.evict()

    def run(self) -> None:
        ready = [m for m in self.members() if m.is_active and not m.is_leaving and not m.has_node]
        if ready:
            self.lab.run(self.chance.choice(ready).key.name)

    def end(self) -> None:
        running = [found for found in self.members() if found.is_active and found.has_node]
        if running:
            phase = self.chance.choice(["Succeeded", "Failed"])
            self.lab.end(self.chance.choice(running).key.name, phase)

    def remove(self) -> None:
        found = self.members()
        if found:
            self.lab.delete(PODS, self.chance.choice(found).key)

    def drop_workload(self) -> None:
        for key in list(self.lab.picture.keys(WORKLOADS)):
            if self.chance.random() < 0.3:
                self.lab.delete(WORKLOADS, Key(*key))


@pytest.mark.parametrize("is_group", [False, True], ids=["alone", "group"])
def test_nothing_runs_without_quota_and_nothing_is_left_in_the_end(is_group: bool) -> None:
    for seed in range(30):
        storm = Storm(seed, is_group=is_group)
        storm.play()
        storm.clear_up()

        assert list(storm.lab.picture.keys(PODS)) == [], seed
        assert not storm.lab.has_workload, seed

"""Small clusters with a bit of everything, and plain answers about them by trying everything.

Shares no code with what it judges: see `test_random_worlds.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from makeway.engine.matching import Constraints, Taint, Toleration
from makeway.placement.decisions import Placement
from makeway.placement.events import BudgetSeen, GangSeen, NodeSeen, PlacementEvent, PodSeen
from makeway.placement.model import (
    NAME_FIELD,
    Budget,
    BudgetKey,
    DisruptionMode,
    Gang,
    GangKey,
    Node,
    NodeName,
    Pod,
    PodKey,
    PodShape,
    Selector,
    Unit,
    gang_unit,
    pod_unit,
)
from makeway.selectors import Requirement
from tests.placement.scenario import CPU, GPU, PODS

HIGH = 100  # scheduling priority of the preemptor
MINE = GangKey("lab/g")
Free = dict[NodeName, dict[str, int]]


@dataclass(kw_only=True)
class World:
    nodes: dict[NodeName, Node]
    gangs: dict[GangKey, Gang]
    running: list[Pod]  # some of them leaving
    others: list[Pod]  # that wait with a nomination
    members: list[Pod]  # of the preemptor, without a node
    budgets: list[Budget] = field(default_factory=list)
    is_gang: bool = True
    are_alike: bool = True

    @property
    def unit(self) -> Unit:
        return gang_unit(MINE) if self.is_gang else pod_unit(self.members[0].key)

    @property
    def needed(self) -> int:
        if not self.is_gang:
            return 1
        return max(0, self.gangs[MINE].min_count - len(self.mine))

    @property
    def mine(self) -> list[Pod]:
        """Members of the preemptor that run."""
        return [pod for pod in self.running if pod.gang == MINE]

    @property
    def staying(self) -> list[Pod]:
        return [pod for pod in self.running if not pod.terminating]

    @property
    def may_preempt(self) -> bool:
        return (self.gangs[MINE] if self.is_gang else self.members[0]).may_preempt

    @property
    def topology_key(self) -> str | None:
        return self.gangs[MINE].topology_key if self.is_gang else None

    def events(self) -> list[PlacementEvent]:
        return [
            *map(NodeSeen, self.nodes.values()),
            *map(GangSeen, self.gangs.values()),
            *map(PodSeen, (*self.running, *self.others, *self.members)),
            *map(BudgetSeen, self.budgets),
        ]

    def victim_priority(self, pod: Pod) -> int:
        owner: Pod | Gang = pod if pod.gang is None else self.gangs[pod.gang]
        return max(owner.priority, owner.preemption_priority or owner.priority)

    def units(self) -> dict[Unit, list[Pod]]:
        """Pods that stay, by the unit in which they are preempted."""
        found: dict[Unit, list[Pod]] = {}
        for pod in self.staying:
            together = pod.gang is not None and self.gangs[pod.gang].mode is DisruptionMode.GANG
            unit = gang_unit(pod.gang) if together and pod.gang else pod_unit(pod.key)
            found.setdefault(unit, []).append(pod)
        return found

    def free(self, beside: Iterable[Pod]) -> Free:
        """What is left beside these pods and those nominated with an equal or higher priority."""
        free = {name: capacity_of(node) for name, node in self.nodes.items()}
        for pod in beside:
            assert pod.node is not None
            take(pod, free[pod.node])
        for pod in self.others:
            if pod.nominated in free and pod.priority >= HIGH:
                take(pod, free[pod.nominated])
        return free

    def domains(self) -> list[list[NodeName]]:
        """Sets of nodes of which a gang may use one; for victims of a pod see `cost_domains`."""
        key = self.topology_key
        if key is None:
            return [list(self.nodes)]
        value = {name: node.labels.get(key) for name, node in self.nodes.items()}
        fixed = {value[pod.node] for pod in self.mine if pod.node is not None}
        values = sorted({v for v in value.values() if v is not None and (not fixed or v in fixed)})
        return [[name for name in self.nodes if value[name] == v] for v in values]

    def cost_domains(self) -> list[list[NodeName]]:
        return self.domains() if self.is_gang else [[name] for name in self.nodes]

    def most(self, beside: Iterable[Pod], domain: Sequence[NodeName]) -> int:
        """The most members that have room in a domain beside these pods."""
        free = self.free(beside)
        left, best = {name: free[name] for name in domain}, 0

        def place_from(index: int, placed: int) -> None:
            nonlocal best
            best = max(best, placed)
            if placed + len(self.members) - index <= best:
                return
            member = self.members[index]
            for name in domain:
                if suits(member, self.nodes[name]) and fits(member, left[name]):
                    take(member, left[name])
                    place_from(index + 1, placed + 1)
                    take(member, left[name], sign=1)
            place_from(index + 1, placed)

        place_from(0, 0)
        return best

    def holds(self, placement: Placement, beside: Iterable[Pod]) -> bool:
        """Does a placement keep to room, constraints and topology beside these pods?"""
        free = self.free(beside)
        members = {member.key: member for member in self.members}
        used = {place.node for place in placement}
        if not used <= self.nodes.keys():
            return False
        for place in placement:
            member = members[place.pod]
            if not suits(member, self.nodes[place.node]) or not fits(member, free[place.node]):
                return False
            take(member, free[place.node])
        return not used or any(used <= set(domain) for domain in self.domains())

    def least_level(self) -> int | None:
        """The smallest N such that it is enough if all units up to N go; None: never."""
        below = {p for pod in self.staying if (p := self.victim_priority(pod)) < HIGH}
        for level in sorted(below):
            left = [pod for pod in self.staying if self.victim_priority(pod) > level]
            if any(self.most(left, domain) >= self.needed for domain in self.cost_domains()):
                return level
        return None


def capacity_of(node: Node) -> dict[str, int]:
    return {str(resource): amount for resource, amount in node.capacity.items()}


def amounts(pod: Pod) -> dict[str, int]:
    return {**{str(resource): amount for resource, amount in pod.shape.requests}, "pods": 1}


def fits(pod: Pod, free: dict[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in amounts(pod).items())


def take(pod: Pod, free: dict[str, int], sign: int = -1) -> None:
    for resource, amount in amounts(pod).items():
        free[resource] = free.get(resource, 0) + sign * amount


def suits(pod: Pod, node: Node) -> bool:
    asks = pod.shape.constraints
    labels = {**node.labels, NAME_FIELD: str(node.name)}
    taints = [*node.taints]
    if node.unschedulable:
        taints.append(Taint("node.kubernetes.io/unschedulable"))
    return (
        all(labels.get(key) == value for key, value in asks.selector)
        and (not asks.affinity or any(all(r.holds(labels) for r in t) for t in asks.affinity))
        and all(any(t.tolerates(taint) for t in asks.tolerations) for taint in taints)
    )


class Maker:
    """Draws a world; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def world(self) -> World:
        nodes = {node.name: node for node in map(self.node, range(self.dice.randint(1, 4)))}
        gangs = {gang.key: gang for gang in map(self.victim_gang, range(self.dice.randint(0, 3)))}
        is_gang, are_alike = self.chance(0.65), self.chance(0.6)
        world = World(nodes=nodes, gangs=gangs, running=[], others=[], members=[], is_gang=is_gang)
        world.are_alike = are_alike
        for index in range(self.dice.randint(0, 9)):
            gang = self.dice.choice([None, *gangs])
            self.run(world, self.pod(f"p{index}", gang), on=self.dice.choice(list(nodes)))
        for index in range(self.dice.choice([0, 0, 1, 2])):
            self.nominate_other(world, index)
        self.add_preemptor(world)
        if self.chance(0.4):
            world.budgets = [self.budget(app) for app in "xy"]
        return world

    def node(self, index: int) -> Node:
        dice = self.dice
        return Node(
            name=NodeName(f"n{index}"),
            capacity={CPU: dice.randint(1, 8), GPU: dice.randint(0, 2), PODS: dice.randint(1, 6)},
            labels={"zone": dice.choice("ab")} if self.chance(0.9) else {},
            taints=(Taint("t"),) if self.chance(0.1) else (),
            unschedulable=self.chance(0.05),
        )

    def victim_gang(self, index: int) -> Gang:
        priority = 10 * self.dice.randint(1, 12)
        return Gang(
            key=GangKey(f"lab/v{index}"),
            min_count=self.dice.choice([0, 1, 2]),
            mode=self.dice.choice(list(DisruptionMode)),
            priority=priority,
            preemption_priority=self.dice.choice([None, priority, priority + 20]),
        )

    def shape(self, cpu_min: int) -> PodShape:
        asked = ((CPU, self.dice.randint(cpu_min, 4)), (GPU, int(self.chance(0.2))))
        requests = tuple((resource, amount) for resource, amount in asked if amount)
        return PodShape(requests)

    def constraints(self) -> Constraints:
        by_name = Requirement(NAME_FIELD, "In", ("n0", "n1"))
        return Constraints(
            selector=(("zone", "a"),) if self.chance(0.15) else (),
            affinity=((Requirement("zone", "In", ("b",)),), (by_name,))
            if self.chance(0.15)
            else (),
            tolerations=(Toleration("t", "Exists"),) if self.chance(0.4) else (),
        )

    def pod(self, name: str, gang: GangKey | None) -> Pod:
        return Pod(
            key=PodKey(f"lab/{name}"),
            namespace="lab",
            shape=self.shape(0),
            priority=10 * self.dice.randint(1, 12),
            preemption_priority=130 if self.chance(0.1) else None,
            gang=gang,
            labels={"app": self.dice.choice("xy")},
            started_at=float(self.dice.randint(0, 3)),
            terminating=self.chance(0.12),
        )

    def run(self, world: World, pod: Pod, on: NodeName) -> None:
        """Let a pod run on a node unless it is too full."""
        free = capacity_of(world.nodes[on])
        for other in world.running:
            if other.node == on:
                take(other, free)
        if fits(pod, free):
            world.running.append(replace(pod, node=on))

    def nominate_other(self, world: World, index: int) -> None:
        pod = Pod(
            key=PodKey(f"lab/o{index}"),
            namespace="lab",
            shape=self.shape(0),
            priority=self.dice.choice([50, HIGH, 120]),
            nominated=self.dice.choice([*world.nodes, NodeName("lost")]),
        )
        world.others.append(pod)

    def add_preemptor(self, world: World) -> None:
        dice = self.dice
        first = self.shape(1)._replace(constraints=self.constraints())
        count = dice.randint(1, 4) if world.is_gang else 1
        has_nominations = self.chance(0.3)
        for index in range(count):
            shape = first
            if not world.are_alike and self.chance(0.7):
                shape = self.shape(1)._replace(constraints=self.constraints())
            is_nominated = has_nominations and self.chance(0.8)
            nominated = dice.choice([*world.nodes, NodeName("lost")]) if is_nominated else None
            member = Pod(
                key=PodKey(f"lab/g{index}"),
                namespace="lab",
                shape=shape,
                priority=HIGH,
                may_preempt=self.chance(0.9),
                gang=MINE if world.is_gang else None,
                nominated=nominated,
            )
            world.members.append(member)
        if world.is_gang:
            world.gangs[MINE] = Gang(
                key=MINE,
                min_count=dice.randint(1, count),
                mode=dice.choice(list(DisruptionMode)),
                priority=HIGH,
                may_preempt=self.chance(0.9),
                topology_key="zone" if self.chance(0.35) else None,
            )
            if self.chance(0.3):
                running = Pod(key=PodKey("lab/g9"), namespace="lab", shape=first, gang=MINE)
                self.run(world, running, on=dice.choice(list(world.nodes)))

    def budget(self, app: str) -> Budget:
        return Budget(
            key=BudgetKey(f"lab/{app}"),
            namespace="lab",
            selector=Selector((Requirement("app", "In", (app,)),)),
            allowed=self.dice.randint(0, 2),
            disrupted=frozenset({f"p{self.dice.randint(0, 8)}"} if self.chance(0.3) else ()),
        )

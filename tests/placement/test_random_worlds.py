"""Every answer about a small random cluster is held against trying everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

import pytest

from makeway.placement.decisions import (
    BindPods,
    Place,
    PlacementDecision,
    PreemptUnits,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.events import GangSeen, NodeSeen, PlacementEvent, PodGone, PodSeen
from makeway.placement.model import Apart, Gang, GangKey, Node, Pod, PodKey, PodShape, Spread
from makeway.placement.state import PlacementState
from tests.placement.one import place_one
from tests.placement.random_worlds import HIGH, Maker, World, capacity_of, take
from tests.prerequisites import samples

LOT = 125  # worlds of a test: most are judged faster than a test is set up


def with_seeds(count: int) -> Callable[[Callable[[int], None]], Callable[[range], None]]:
    """The test, for so many seeds; it names the one that fails."""

    def for_lots(test: Callable[[int], None]) -> Callable[[range], None]:
        lots = [range(first, first + LOT) for first in range(0, samples(count), LOT)]

        @pytest.mark.parametrize("seeds", lots, ids=str)
        def run(seeds: range) -> None:
            for seed in seeds:
                try:
                    test(seed)
                except AssertionError as error:
                    error.add_note(f"seed {seed}")
                    raise

        return run

    return for_lots


def check_bind(world: World, bind: BindPods) -> None:
    assert len(bind.placement) >= max(1, world.needed)
    assert world.holds(bind.placement, world.running)
    if world.are_alike:  # as many as there is room for
        most = max(world.most(world.running, domain) for domain in world.domains())
        assert len(bind.placement) == most


def check_wait(world: World, wait: WaitForNodes) -> None:
    room_now = (world.most(world.running, domain) for domain in world.domains())
    assert max(room_now, default=0) < max(1, world.needed)
    if wait.reason is WaitReason.VICTIMS_LEAVING:
        assert len(wait.nominated) >= max(1, world.needed)
        assert world.holds(wait.nominated, world.staying)
        return
    assert nominated_at_most(world) < max(1, world.needed)
    match wait.reason:
        case WaitReason.MAY_NOT_PREEMPT:
            assert not world.may_preempt
        case WaitReason.NOT_ENOUGH_ROOM | WaitReason.NO_CANDIDATES:
            assert world.needed == 0 or world.least_level() is None
        case reason:
            raise AssertionError(reason)


def nominated_at_most(world: World) -> int:
    """How many members could still go where they are nominated."""
    places = [Place(m.key, m.nominated) for m in world.members if m.nominated is not None]
    for count in range(len(places), 0, -1):
        if any(world.holds(part, world.staying) for part in combinations(places, count)):
            return count
    return 0


def check_preempt(world: World, plan: PreemptUnits) -> None:
    check_victims(world, plan)
    left = beside(world, plan)
    assert nominated_at_most(world) < world.needed  # else no new victims are chosen
    used = {place.node for place in plan.placement}
    for victim in plan.victims:
        domain = next(d for d in world.cost_domains() if used <= set(d))
        back = left + world.units()[victim.unit]
        assert world.most(back, domain) < world.needed  # superfluous for no placement
    if plan.victims:
        room_later = (world.most(world.staying, domain) for domain in world.domains())
        assert max(room_later) < world.needed
    if plan.victims and not world.budgets:
        assert plan.level == world.least_level()


def check_victims(world: World, plan: PreemptUnits) -> None:
    """They may be taken, suffice for this placement, and none of them is superfluous for it."""
    units, left = world.units(), beside(world, plan)
    assert world.may_preempt
    assert len(plan.placement) >= world.needed > 0  # never a victim without a whole placement
    assert world.holds(plan.placement, left)  # the victims suffice
    used = {place.node for place in plan.placement}
    for victim in plan.victims:
        pods = units[victim.unit]
        assert set(victim.pods) == {pod.key for pod in pods}  # a unit goes as a whole
        assert set(victim.in_the_way) == {pod.key for pod in pods if pod.node in used}
        assert victim.in_the_way
        assert victim.priority == world.victim_priority(pods[0]) < HIGH  # nobody outranks
        assert not world.holds(plan.placement, left + pods)  # nobody is superfluous


def beside(world: World, plan: PreemptUnits) -> list[Pod]:
    """Who runs once victims and those that leave anyway are gone."""
    gone = set(plan.pods)
    return [pod for pod in world.staying if pod.key not in gone]


def check(world: World, decision: PlacementDecision | None) -> None:
    match decision:
        case BindPods():
            check_bind(world, decision)
        case WaitForNodes():
            check_wait(world, decision)
        case PreemptUnits():
            check_preempt(world, decision)
        case _:
            raise AssertionError(decision)


def told(world: World, events: Iterable[PlacementEvent] = ()) -> PlacementState:
    state = PlacementState()
    for event in events or world.events():
        state.apply(event)
    return state


def answer(world: World, events: Iterable[PlacementEvent] = ()) -> PlacementDecision:
    decision = place_one(told(world, events), world.unit, now=0.0)
    assert decision is not None
    return decision


@with_seeds(2_000)
def test_no_answer_is_worse_than_trying_everything(seed: int) -> None:
    world = Maker(seed).world()
    check(world, answer(world))


@with_seeds(1_000)
def test_a_plan_is_kept_until_its_victims_are_gone_and_then_it_is_bound(seed: int) -> None:
    world = Maker(seed).world()
    state = told(world)
    plan = place_one(state, world.unit, now=0.0)
    if not isinstance(plan, PreemptUnits):
        return
    again = place_one(state, world.unit, now=1.0)
    assert isinstance(again, WaitForNodes)
    assert (again.reason, again.nominated) == (WaitReason.VICTIMS_LEAVING, plan.placement)
    for pod in world.running:
        if pod.terminating or pod.key in plan.pods:
            state.apply(PodGone(pod.key))
    assert isinstance(place_one(state, world.unit, now=2.0), BindPods)


@with_seeds(1_000)
def test_budgets_change_who_goes_and_not_whether_it_works(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    free = answer(replace(world, budgets=[]))
    guarded = answer(replace(world, budgets=[maker.budget(app) for app in "xy"]))
    assert type(guarded) is type(free)


@with_seeds(1_000)
def test_the_order_of_events_does_not_matter(seed: int) -> None:
    maker = Maker(seed)
    world = maker.world()
    events = world.events()
    maker.dice.shuffle(events)
    decision, again = answer(world), answer(world, events)
    if isinstance(decision, PreemptUnits):
        assert isinstance(again, PreemptUnits)
        assert again.pods == decision.pods
        assert again.placement == decision.placement
    else:
        assert again == decision


@with_seeds(1_000)
def test_members_keep_their_distance(seed: int) -> None:
    maker = Maker(seed)
    dice, world = maker.dice, maker.world()
    apart = dice.choice([Apart("zone"), None])
    spread = dice.choice([Spread("zone"), Spread("zone", 2), None])
    zones = {name: dice.choice("abc") for name in world.nodes}
    nodes = {
        name: Node(name=name, capacity=node.capacity, labels={"zone": zones[name]})
        for name, node in world.nodes.items()
    }
    gangs = {key: replace(gang, topology_key=None) for key, gang in world.gangs.items()}
    members = [
        replace(m, nominated=None, shape=PodShape(m.shape.requests, apart=apart, spread=spread))
        for m in world.members
    ]
    running = [pod for pod in world.running if pod not in world.mine]
    world = replace(world, nodes=nodes, gangs=gangs, members=members, running=running)
    decision = answer(world)
    if isinstance(decision, PreemptUnits):
        check_victims(world, decision)
    if isinstance(decision, BindPods):
        assert len(decision.placement) >= world.needed
        assert world.holds(decision.placement, world.running)
    if isinstance(decision, BindPods | PreemptUnits):
        counts = dict.fromkeys(zones.values(), 0)
        for place in decision.placement:
            counts[zones[place.node]] += 1
        assert apart is None or max(counts.values()) <= 1
        assert spread is None or max(counts.values()) - min(counts.values()) <= spread.max_skew


class Traffic:
    """Gangs and pods arrive one after the other; victims come back to the queue."""

    def __init__(self, seed: int) -> None:
        self.maker = maker = Maker(seed)
        dice = maker.dice
        self.nodes = [maker.node(index) for index in range(dice.randint(2, 5))]
        self.gangs = {gang.key: gang for gang in map(maker.victim_gang, range(dice.randint(1, 5)))}
        arrivals = [
            [self.member(gang, index) for index in range(dice.randint(1, 4))]
            for gang in self.gangs.values()
        ]
        arrivals += [[self.loose_pod(index)] for index in range(dice.randint(0, 6))]
        dice.shuffle(arrivals)
        self.arrivals = arrivals
        self.pods = {pod.key: pod for pods in arrivals for pod in pods}
        self.leaving: list[PodKey] = []
        self.state = self.told([])

    def member(self, gang: Gang, index: int) -> Pod:
        pod = self.maker.pod(f"{gang.key[4:]}-{index}", gang.key)
        shape = pod.shape._replace(constraints=self.maker.constraints())
        return replace(pod, shape=shape, terminating=False, started_at=None)

    def loose_pod(self, index: int) -> Pod:
        return replace(self.maker.pod(f"p{index}", None), terminating=False, started_at=None)

    def told(self, pods: Iterable[Pod]) -> PlacementState:
        state = PlacementState()
        events: list[PlacementEvent] = [
            *map(NodeSeen, self.nodes),
            *map(GangSeen, self.gangs.values()),
        ]
        for event in (*events, *map(PodSeen, pods)):
            state.apply(event)
        return state

    def known(self) -> list[Pod]:
        pods = map(self.state.pod, self.pods)
        return [pod for pod in pods if pod is not None]

    def cycle(self, now: float) -> bool:
        """Return whether anything moved."""
        if self.arrivals:
            for pod in self.arrivals.pop():
                self.state.apply(PodSeen(pod))
        decisions = self.state.place(now)
        for decision in decisions:
            if isinstance(decision, PreemptUnits):
                self.leaving += decision.pods
        moved = bool(self.arrivals or self.leaving)
        gone = [key for key in self.leaving if self.maker.chance(0.6)]
        self.leaving = [key for key in self.leaving if key not in gone]
        self.check(decisions)
        for key in gone:
            self.state.apply(PodGone(key))
            self.state.apply(PodSeen(self.pods[key]))
        return moved or any(isinstance(decision, BindPods | PreemptUnits) for decision in decisions)

    def check(self, decisions: list[PlacementDecision]) -> None:
        assert len(self.leaving) == len(set(self.leaving))  # nobody is a victim twice
        for node in self.nodes:
            free = capacity_of(node)
            for pod in self.known():
                if pod.node == node.name:
                    take(pod, free)
            assert min(free.values()) >= 0, node
        for decision in decisions:
            if isinstance(decision, BindPods) and decision.preemptor.is_gang:
                gang = self.gangs[GangKey(decision.preemptor.key)]
                running = [p for p in self.known() if p.gang == gang.key and p.node]
                assert sum(not pod.terminating for pod in running) >= gang.min_count


@with_seeds(1_000)
def test_traffic_settles_and_nobody_waits_who_could_run(seed: int) -> None:
    traffic = Traffic(seed)
    cycles = 0
    while traffic.cycle(now=float(cycles)):
        cycles += 1
        assert cycles < 100, "it goes round in circles"
    again = traffic.told(traffic.known()).place(now=float(cycles))
    assert all(isinstance(decision, WaitForNodes) for decision in again)

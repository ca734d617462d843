"""What must hold for every plan, checked on small clusters against trying everything."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from makeway.placement.decisions import (
    BindPods,
    PlacementDecision,
    PreemptUnits,
    WaitForNodes,
    WaitReason,
)
from makeway.placement.events import (
    BudgetSeen,
    GangSeen,
    NodeSeen,
    PlacementEvent,
    PodGone,
    PodSeen,
)
from makeway.placement.model import (
    Apart,
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
    Spread,
    gang_unit,
    pod_unit,
)
from makeway.placement.state import PlacementState
from makeway.selectors import Requirement
from tests.placement import oracle
from tests.placement.one import place_one
from tests.placement.scenario import CPU, GPU, PODS

HIGH = 100
EXAMPLES = settings(max_examples=200, deadline=None)


class World(NamedTuple):
    nodes: tuple[Node, ...]
    gangs: dict[str, Gang]
    pods: tuple[Pod, ...]  # that run
    members: tuple[Pod, ...]  # of the preemptor, waiting
    needed: int
    budgets: tuple[Budget, ...]

    def events(self) -> list[PlacementEvent]:
        return [
            *(NodeSeen(node) for node in self.nodes),
            *(GangSeen(gang) for gang in self.gangs.values()),
            *(PodSeen(pod) for pod in (*self.pods, *self.members)),
            *(BudgetSeen(budget) for budget in self.budgets),
        ]

    def decide(self, events: list[PlacementEvent] | None = None) -> PlacementDecision:
        state = PlacementState()
        for event in events or self.events():
            state.apply(event)
        gang = self.members[0].gang
        unit = pod_unit(self.members[0].key) if gang is None else gang_unit(gang)
        decision = place_one(state, unit, now=0.0)
        assert decision is not None
        return decision


def shape(cpu: int, gpu: int) -> PodShape:
    return PodShape(tuple((name, amount) for name, amount in ((CPU, cpu), (GPU, gpu)) if amount))


@st.composite
def worlds(
    draw: st.DrawFn, *, alike: bool = True, single: bool = False, budgets: bool = False
) -> World:
    """Up to four nodes that are never overfull, victims alone and in gangs, and a preemptor."""
    number = st.integers
    nodes = tuple(
        Node(
            name=NodeName(f"n{i}"),
            capacity={
                CPU: draw(number(1, 8)),
                GPU: draw(number(0, 2)),
                PODS: draw(number(1, 6)),
            },
        )
        for i in range(draw(number(1, 4)))
    )
    gangs: dict[str, Gang] = {}
    for i in range(draw(number(0, 3))):
        priority = draw(number(1, 12)) * 10
        gangs[f"lab/v{i}"] = Gang(
            key=GangKey(f"lab/v{i}"),
            mode=draw(st.sampled_from(DisruptionMode)),
            priority=priority,
            preemption_priority=priority + draw(st.sampled_from([0, 0, 20])),
        )
    pods: list[Pod] = []
    for i in range(draw(number(0, 8))):
        gang = draw(st.sampled_from([None, *gangs]))
        pod = Pod(
            key=PodKey(f"lab/p{i}"),
            namespace="lab",
            shape=shape(draw(number(0, 4)), draw(number(0, 1))),
            priority=draw(number(1, 12)) * 10,
            gang=None if gang is None else GangKey(gang),
            node=draw(st.sampled_from([node.name for node in nodes])),
            labels={"app": draw(st.sampled_from("xy"))},
            started_at=float(draw(number(0, 3))),
            terminating=draw(number(0, 9)) == 0,
        )
        node = next(node for node in nodes if node.name == pod.node)
        if oracle.fits(pod, oracle.free_on(node, pods)):
            pods.append(pod)
    count = 1 if single else draw(number(1, 3))
    first = shape(draw(number(1, 6)), draw(number(0, 1)))
    shapes = [first if alike else shape(draw(number(1, 6)), 0) for _ in range(count)]
    if not single:
        gangs["lab/g"] = Gang(key=GangKey("lab/g"), min_count=draw(number(1, count)), priority=HIGH)
    members = tuple(
        Pod(
            key=PodKey(f"lab/g{i}"),
            namespace="lab",
            shape=each,
            priority=HIGH,
            gang=None if single else GangKey("lab/g"),
        )
        for i, each in enumerate(shapes)
    )
    needed = 1 if single else gangs["lab/g"].min_count
    guards = tuple(
        Budget(
            key=BudgetKey(f"lab/{app}"),
            namespace="lab",
            selector=Selector((Requirement("app", "In", (app,)),)),
            allowed=draw(number(0, 2)),
        )
        for app in ("xy" if budgets else "")
    )
    return World(nodes, gangs, tuple(pods), members, needed, guards)


def remaining(world: World, decision: PreemptUnits) -> list[Pod]:
    """Who runs once victims and those that leave anyway are gone."""
    gone = set(decision.pods)
    return [pod for pod in world.pods if pod.key not in gone and not pod.terminating]


def holds(world: World, pods: list[Pod], decision: PreemptUnits | BindPods) -> bool:
    """Do all members of the placement have room on their nodes beside these pods?"""
    where = dict(decision.placement)
    placed = [replace(m, node=where[m.key]) for m in world.members if m.key in where]
    for node in world.nodes:
        here = [pod for pod in placed if pod.node == node.name]
        free = oracle.free_on(node, pods)
        asked = {resource for pod in here for resource in oracle.amounts(pod)}
        for pod in here:
            for resource, amount in oracle.amounts(pod).items():
                free[resource] = free.get(resource, 0) - amount
        if any(free[resource] < 0 for resource in asked):
            return False
    return True


def check_plan(world: World, decision: PlacementDecision) -> None:
    units = oracle.units_of(world.pods, world.gangs)
    if isinstance(decision, BindPods):
        assert len(decision.placement) >= world.needed
        assert holds(world, list(world.pods), decision)
    if not isinstance(decision, PreemptUnits):
        return
    assert len(decision.placement) >= world.needed  # never a victim without a whole placement
    left = remaining(world, decision)
    assert holds(world, left, decision)  # the victims suffice
    for victim in decision.victims:
        pods = units[f"{'gang' if victim.unit.is_gang else 'pod'} {victim.unit.key}"]
        nodes = {place.node for place in decision.placement}
        assert set(victim.in_the_way) == {pod.key for pod in pods if pod.node in nodes}
        assert victim.in_the_way
        assert set(victim.pods) == {pod.key for pod in pods}  # a unit goes as a whole
        assert all(oracle.priority_of(pod, world.gangs) == victim.priority for pod in pods)
        assert victim.priority < HIGH  # nobody outranks the preemptor
        assert not holds(world, left + pods, decision)  # nobody is superfluous


@EXAMPLES
@given(worlds())
def test_a_plan_for_members_alike_is_sound_and_its_level_the_least(world: World) -> None:
    decision = world.decide()
    check_plan(world, decision)
    level = oracle.least_level(
        world.members, world.needed, world.nodes, world.pods, world.gangs, HIGH
    )
    staying = [pod for pod in world.pods if not pod.terminating]
    if isinstance(decision, PreemptUnits) and decision.victims:
        assert decision.level == level
        assert not oracle.can_place(world.members, world.needed, world.nodes, staying)
        for victim in decision.victims:  # needed by every placement, not only by this one
            back = [pod for pod in world.pods if pod.key in victim.pods]
            beside = remaining(world, decision) + back
            assert not oracle.can_place(world.members, world.needed, world.nodes, beside)
    if isinstance(decision, WaitForNodes):
        assert decision.reason in (WaitReason.NOT_ENOUGH_ROOM, WaitReason.NO_CANDIDATES)
        assert level is None


@EXAMPLES
@given(worlds(alike=False))
def test_a_plan_for_members_of_different_shapes_is_sound(world: World) -> None:
    decision = world.decide()
    check_plan(world, decision)
    level = oracle.least_level(
        world.members, world.needed, world.nodes, world.pods, world.gangs, HIGH
    )
    if isinstance(decision, PreemptUnits) and decision.victims:
        assert decision.level == level  # so few members are packed exactly
    if isinstance(decision, WaitForNodes):
        assert level is None


@EXAMPLES
@given(worlds(single=True))
def test_a_single_pod_costs_the_least_level_of_all_nodes(world: World) -> None:
    decision = world.decide()
    check_plan(world, decision)
    levels = [
        oracle.least_level(world.members, 1, [node], world.pods, world.gangs, HIGH)
        for node in world.nodes
    ]
    if isinstance(decision, PreemptUnits) and decision.victims:
        assert decision.level == min(level for level in levels if level is not None)
    if isinstance(decision, WaitForNodes):
        assert set(levels) == {None}


@EXAMPLES
@given(worlds(budgets=True), worlds(budgets=True, alike=False), worlds(budgets=True, single=True))
def test_budgets_change_who_goes_and_not_whether_it_works(
    alike: World, different: World, single: World
) -> None:
    for world in (alike, different, single):
        decision = world.decide()
        check_plan(world, decision)
        assert type(decision) is type(world._replace(budgets=()).decide())


@EXAMPLES
@given(
    worlds(),
    st.lists(st.sampled_from("abc"), min_size=4, max_size=4),
    st.sampled_from([Apart("zone"), None]),
    st.sampled_from([Spread("zone"), Spread("zone", 2), None]),
)
def test_members_keep_their_distance(
    world: World, zones: list[str], apart: Apart | None, spread: Spread | None
) -> None:
    nodes = tuple(
        replace(node, labels={"zone": zone}) for node, zone in zip(world.nodes, zones, strict=False)
    )
    members = tuple(
        replace(m, shape=m.shape._replace(apart=apart, spread=spread)) for m in world.members
    )
    world = world._replace(nodes=nodes, members=members)
    decision = world.decide()
    check_plan(world, decision)
    if isinstance(decision, BindPods | PreemptUnits):
        zone_of = {node.name: node.labels["zone"] for node in nodes}
        counts = dict.fromkeys(zone_of.values(), 0)
        for place in decision.placement:
            counts[zone_of[place.node]] += 1
        assert apart is None or max(counts.values()) <= 1
        assert spread is None or max(counts.values()) - min(counts.values()) <= spread.max_skew


@EXAMPLES
@given(worlds(alike=False, budgets=True), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(world: World, dice: random.Random) -> None:
    decision = world.decide()
    events = world.events()
    dice.shuffle(events)
    again = world.decide(events)
    if isinstance(decision, PreemptUnits):
        assert isinstance(again, PreemptUnits)
        assert again.pods == decision.pods
        assert again.placement == decision.placement
    else:
        assert again == decision


@EXAMPLES
@given(worlds(alike=False, budgets=True))
def test_preemptions_never_go_round_in_circles(world: World) -> None:
    """Victims come back to the queue at once; sooner or later nobody moves any more."""
    state = PlacementState()
    for event in world.events():
        state.apply(event)
    for cycle in range(60):
        decisions = state.place(now=float(cycle))
        leaving = [pod for pod in (*world.pods, *world.members) if _leaves(state, pod)]
        for pod in leaving:
            state.apply(PodGone(pod.key))
            state.apply(PodSeen(replace(pod, node=None, terminating=False, started_at=None)))
        if not leaving and not any(isinstance(d, BindPods | PreemptUnits) for d in decisions):
            return
    raise AssertionError("still moving after 60 cycles")


def _leaves(state: PlacementState, pod: Pod) -> bool:
    known = state.pod(pod.key)
    return known is not None and known.terminating

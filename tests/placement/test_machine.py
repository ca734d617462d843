"""A cluster over time: whatever happens in whatever order, our picture of it stays in step."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from makeway.placement.decisions import BindPods, PreemptUnits, Unwind
from makeway.placement.events import BindFailed, EvictionFailed, GangGone, PodGone, PodSeen
from makeway.placement.model import GangKey, PodKey
from tests.placement.scenario import Cluster
from tests.prerequisites import samples

NAMES = st.sampled_from([f"p{i}" for i in range(8)])
GANGS = st.sampled_from(["g", "h"])
NODES = st.sampled_from(["n1", "n2", "n3"])


class PlacementMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lab = Cluster()

    @rule(name=NODES, cpu=st.integers(1, 8), cordoned=st.booleans())
    def see_node(self, name: str, cpu: int, cordoned: bool) -> None:
        self.lab.node(name, cpu=cpu, unschedulable=cordoned)

    @rule(name=NODES)
    def lose_node(self, name: str) -> None:
        self.lab.lose_node(name)

    @rule(
        name=GANGS,
        min_count=st.integers(1, 3),
        priority=st.integers(1, 5),
        together=st.booleans(),
    )
    def see_gang(self, name: str, min_count: int, priority: int, together: bool) -> None:
        self.lab.gang(name, min_count=min_count, priority=priority, together=together)

    @rule(name=GANGS)
    def lose_gang(self, name: str) -> None:
        self.lab.tell(GangGone(GangKey(f"lab/{name}")))

    @rule(
        name=NAMES,
        cpu=st.integers(0, 4),
        priority=st.integers(1, 5),
        gang=st.none() | GANGS,
        leaving=st.booleans(),
    )
    def see_pod(self, name: str, cpu: int, priority: int, gang: str | None, leaving: bool) -> None:
        """A pod as the watch shows it: where it was bound it stays bound."""
        known = self.lab.state.pod(PodKey(f"lab/{name}"))
        node = None if known is None else known.node
        self.lab.pod(name, cpu=cpu, priority=priority, gang=gang, leaving=leaving, on=node)

    @rule(name=NAMES)
    def end_pod(self, name: str) -> None:
        self.lab.ended(name)

    @rule(name=NAMES)
    def refuse_bind(self, name: str) -> None:
        self.lab.tell(BindFailed(PodKey(f"lab/{name}")))

    @rule(name=NAMES)
    def refuse_eviction(self, name: str) -> None:
        self.lab.tell(EvictionFailed(PodKey(f"lab/{name}")))

    @rule(confirm=st.booleans())
    def cycle(self, confirm: bool) -> None:
        """Decide; what is decided may be confirmed at once."""
        state = self.lab.state
        self.lab.now += 1
        for decision in state.place(self.lab.now):
            match decision:
                case BindPods():
                    for place in decision.placement:
                        pod = state.pod(place.pod)
                        assert pod is not None
                        assert pod.node == place.node
                        if confirm:
                            self.lab.tell(PodSeen(replace(pod, started_at=self.lab.now)))
                case PreemptUnits() | Unwind():
                    for key in decision.pods if confirm else ():
                        self.lab.tell(PodGone(key))

    @rule()
    def look_again(self) -> None:
        """A second cycle binds nobody whom the first one could have bound."""
        state = self.lab.state
        state.place(self.lab.now)
        assert not any(isinstance(decision, BindPods) for decision in state.place(self.lab.now))

    @invariant()
    def our_picture_agrees_with_itself(self) -> None:
        self.lab.check()


TestPlacementMachine = PlacementMachine.TestCase
TestPlacementMachine.settings = settings(
    max_examples=samples(100), stateful_step_count=30, deadline=None
)

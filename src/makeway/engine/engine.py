"""The engine as its drivers see it: `apply(event)` and `run_cycle(now)`."""

from __future__ import annotations

from makeway.engine.cycle import TreeCycle
from makeway.engine.decisions import Cycle, Decision, HeadOutcome
from makeway.engine.events import Event
from makeway.engine.explain import Explanation, explain, waiting_line
from makeway.engine.happenings import apply
from makeway.engine.model import Config, QueueName, WorkloadKey
from makeway.engine.state import ClusterState
from makeway.engine.upkeep import Upkeep


class Engine:
    def __init__(self, config: Config | None = None) -> None:
        self.state = ClusterState(config)

    def apply(self, event: Event) -> None:
        """Take note of something that has happened."""
        apply(self.state, event)

    def tend(self, now: float) -> tuple[Decision, ...]:
        """See to clocks, checks and draining queues; every cycle begins with this."""
        self.state.settle_forest()
        upkeep = Upkeep(self.state, now)
        upkeep.run()
        return tuple(upkeep.decisions)

    def run_cycle(self, now: float) -> Cycle:
        """Decide about the first of every queue. Decisions count from now on (assumed).

        Cost: heads times flavors, in the trees where something has happened since the last cycle.
        """
        decisions = list(self.tend(now))
        state = self.state
        trees, state.unsettled = state.unsettled, {}
        busy = [tree for tree in trees.values() if tree.has_heads()]
        outcomes: list[HeadOutcome] = []
        not_nominated: list[WorkloadKey] = []
        if busy:
            state.cycle += 1
        for tree in busy:
            cycle = TreeCycle(state, tree, now)
            cycle.run()
            decisions.extend(cycle.consequences.decisions)
            outcomes.extend(cycle.outcomes)
            not_nominated.extend(cycle.not_nominated)
            if tree.settled is None:
                state.unsettled[id(tree)] = tree
        is_due = any(tree.is_due for tree in state.unsettled.values())
        return Cycle(
            decisions=tuple(decisions),
            order=tuple(outcomes),
            not_nominated=tuple(not_nominated),
            next_at=now if is_due else state.next_clock(),
            had_heads=bool(busy),
        )

    def explain(self, key: WorkloadKey, now: float) -> Explanation:
        """Why a workload does not run, who holds what it needs, and what would help."""
        return explain(self.state, key, now)

    def waiting_in(self, name: QueueName, limit: int | None = None) -> tuple[WorkloadKey, ...]:
        """Who waits in a queue, first come first; no more than `limit`, if given."""
        self.state.settle_forest()
        line = waiting_line(self.state, self.state.queues[name], limit)
        return tuple(entry.workload.key for entry in line)

    def standing_heads(self) -> tuple[HeadOutcome, ...]:
        """Heads of trees where nothing has changed: what the last cycle said of them holds."""
        self.state.settle_forest()
        return tuple(outcome for tree in self.state.trees for outcome in tree.settled or ())

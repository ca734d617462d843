"""The engine as its drivers see it: `apply(event)` and `run_cycle(now)`; the rest only asks."""

from __future__ import annotations

from collections.abc import Iterable

from makeway.engine.beginning import beginning
from makeway.engine.compiling import mypyc_attr
from makeway.engine.cycle import TreeCycle, first_order, is_idle, owners_of_heads
from makeway.engine.decisions import Cycle, HeadOutcome
from makeway.engine.events import Event
from makeway.engine.explain import Explanation, Glance, explain, glances, waiting_line
from makeway.engine.handlers import handle
from makeway.engine.model import Changes, Config, QueueName, WorkloadKey
from makeway.engine.state import ClusterState
from makeway.engine.upkeep import tend
from makeway.engine.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine:
    def __init__(self, config: Config | None = None) -> None:
        self.state = ClusterState(config)
        self.view = View(self.state)  # for whoever only wants to know

    def apply(self, event: Event) -> Changes:
        """Take note of something that has happened; returns what it makes of statuses."""
        handle(self.state, event)
        return self.state.take_changes()

    def beginning(self, now: float) -> tuple[Event, ...]:
        """All that is known, as the events that make a fresh engine know it."""
        return beginning(self.state, now)

    def begin_anew(self, now: float) -> tuple[Event, ...]:
        """Forget every note on searches; returns all that is known, as events.

        From here on it decides as a fresh engine does that is told these. Cost: all workloads.
        """
        events, old = self.beginning(now), self.state
        self.state = ClusterState(old.config)
        self.state.revision, self.state.cycle = old.revision, old.cycle
        self.view.turn_to(self.state)
        for event in events:
            self.apply(event)
        return events

    def needs_cycle(self, now: float) -> bool:
        """Whether a cycle at this time might decide something; if in doubt, yes."""
        state = self.state
        if state.attention or state.trees_are_stale or state.has_special_lines:
            return True
        if state.config.history is not None:
            return True  # usage is counted from cycle to cycle
        next_at = state.next_at()
        if next_at is not None and next_at <= now:
            return True
        return not all(map(is_idle, state.unsettled.values()))

    def next_at(self) -> float | None:
        """When to run a cycle though nothing happen before; None: no need."""
        return self.state.next_at()

    def run_cycle(self, now: float) -> Cycle:
        """Decide about the first of every queue. Decisions count from now on (assumed).

        Cost: heads times flavors, in the trees where something has happened since the last cycle.
        """
        state = self.state
        state.now = now
        state.build_trees()
        history = state.config.history
        if history is not None:
            state.settle_history(history)
        state.has_run = True
        decisions = tend(state, now)
        trees, state.unsettled = state.unsettled, {}
        outcomes: list[HeadOutcome] = []
        not_nominated: list[WorkloadKey] = []
        busy = [owners for tree in trees.values() if (owners := owners_of_heads(state, tree))]
        policy = state.config.pods_ready
        if policy is not None and policy.blocks_admission:
            busy.sort(key=lambda owners: first_order(state, owners.tree))  # one of all is admitted
        if busy:
            state.cycle += 1
        for owners in busy:
            tree = owners.tree
            cycle = TreeCycle(state, owners, now)
            cycle.run()
            decisions.extend(cycle.consequences.decisions)
            outcomes.extend(cycle.outcomes)
            not_nominated.extend(cycle.not_nominated)
            if history is not None:
                state.settle_history(history)
                state.see_to_lanes(tree, history)
            if not tree.is_settled:
                state.unsettled[id(tree)] = tree
        needs_cycle = bool(state.attention)  # clocks are to be set
        if state.unsettled and not needs_cycle:
            needs_cycle = any(tree.needs_cycle for tree in state.unsettled.values())
        return Cycle(
            number=state.cycle,
            decisions=tuple(decisions),
            order=tuple(outcomes),
            not_nominated=tuple(not_nominated),
            changes=state.take_changes(),
            next_at=now if needs_cycle else state.next_at(),
            had_heads=bool(busy),
        )

    # --- asking; nothing is changed by it ---

    def explain(self, key: WorkloadKey, now: float | None = None) -> Explanation:
        """Why a workload does not run, who holds what it needs, and what would help.

        What is at stake counts up to `now`; None: to the last cycle.
        """
        return explain(self.state, key, now)

    def glances(
        self, keys: Iterable[WorkloadKey], line_max: int = 1000
    ) -> dict[WorkloadKey, Glance]:
        """Why those among them that wait do so, in short, and where in their queues."""
        return glances(self.state, keys, line_max)

    def waiting_in(self, name: QueueName, limit: int | None = None) -> tuple[WorkloadKey, ...]:
        """Who waits in a queue, first come first; no more than `limit`, if given."""
        line = waiting_line(self.state, self.state.queues[name], limit)
        return tuple(entry.workload.key for entry in line)

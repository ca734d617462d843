"""What must hold whatever queues grant, sort, limit and remember; in random worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings

from makeway.engine import events as ev
from makeway.engine.decisions import Cycle, Preempt, VictimRule
from makeway.engine.model import (
    Aging,
    Config,
    EvictionReason,
    HistoryPolicy,
    LocalQueue,
    LocalQueueKey,
    Milestone,
    Phase,
    Preemption,
    Queue,
    QueueName,
    Sorting,
    Workload,
)
from tests.engine.test_properties import RANDOMS, facts, rebuild
from tests.engine.worlds import (
    Before,
    Play,
    check_nobody_is_superfluous,
    check_policy_allows,
    check_victims_suffice,
)
from tests.harness.random_worlds import PLAIN, Knobs, Worldmaker

CLASSICAL = replace(PLAIN, fair_sharing=False)

EXAMPLES = settings(max_examples=25, deadline=None, derandomize=True)


class Accepting(Worldmaker):
    """Worlds in which every field of this sort is set now and then."""

    remembers = True

    def _config(self) -> Config:
        history = HistoryPolicy(half_life_s=20.0, sampling_s=3.0)
        has_history = self.remembers and self.rng.random() < 0.5
        return replace(super()._config(), history=history if has_history else None)

    def preemption(self) -> Preemption:
        rng = self.rng
        return replace(
            super().preemption(),
            after_waiting_s=rng.choice([0.0, 0.0, 4.0]),
            sorting=tuple(rng.sample(list(Sorting), rng.choice([0, 0, 1, 2]))),
            min_runtime_s=rng.choice([0.0, 0.0, 3.0, 8.0]),
            evictions_per_hour=rng.choice([None, None, 2]),
        )

    def queue(self, name: QueueName, cohort: object) -> Queue:
        made = super().queue(name, cohort)  # type: ignore[arg-type]
        aging = Aging(5, 1, 3) if self.rng.random() < 0.3 else None
        return replace(made, aging=aging, counts_history=self.rng.random() < 0.5)

    def workload(self, number: int, queue: QueueName, now: float) -> Workload:
        rng, made = self.rng, super().workload(number, queue, now)
        return replace(
            made,
            local_queue=rng.choice([made.local_queue, second(queue).key]),
            milestones=rng.choice([(), (), (Milestone(0, 9), Milestone(6, 0))]),
            ends_when_preempted=rng.random() < 0.2,
            checkpoint_at=now + 2 if rng.random() < 0.2 else None,
        )


class Forgetful(Accepting):
    """The past does not count: what is written down of it is rounded."""

    remembers = False


def second(queue: QueueName) -> LocalQueue:
    return LocalQueue(key=LocalQueueKey(f"team-a/second-{queue}"), queue=queue, weight=2.0)


def lived(rng: Random, knobs: Knobs, maker: type[Accepting] = Accepting, most: int = 24) -> Play:
    play = Play(maker(rng, knobs))
    for queue in play.world.queues:
        play.apply(ev.LocalQueueChanged(second(queue.name)))
    play.on_cycle += (check_protection, check_budgets, check_ends)
    if knobs.fair_sharing is False:
        play.on_cycle.append(check_nobody_is_superfluous)
    play.on_cycle += (check_victims_suffice, check_policy_allows)
    play.fill(most)
    deeds: list[Callable[[], object]] = [
        *(play.let_one_go, play.pods_change, play.pass_time, play.submit, play.finish)
    ]
    for _ in range(rng.randint(2, 12)):
        rng.choice(deeds)()
        play.run()
    return play


def check_protection(before: Before, cycle: Cycle) -> None:
    for decision in cycle.decisions:
        if not isinstance(decision, Preempt):
            continue
        for victim in (victim for victim in decision.victims if victim.is_new):
            status = before.state.entries[victim.workload].status
            granted_s = before.preemption(victim.queue).min_runtime_s
            since = status.admitted_at if status.ready_at is None else status.ready_at
            assert status.eviction is not None
            assert since is None or status.eviction.at - since >= granted_s, victim


def check_budgets(before: Before, cycle: Cycle) -> None:
    """A budget may be overdrawn by one who needs more than all of it, and by nobody else."""
    for decision in cycle.decisions:
        limit = before.preemption(decision.queue).evictions_per_hour
        if not isinstance(decision, Preempt) or limit is None:
            continue
        taken = [v for v in decision.victims if v.is_new and v.rule is not VictimRule.RECLAIM]
        spent = before.state.budgets.spent(decision.queue, before.state.now)
        assert not taken or len(spent) <= max(limit, len(taken))


def check_ends(before: Before, cycle: Cycle) -> None:
    preempted = EvictionReason.PREEMPTED, EvictionReason.PREEMPTED_IN_PLACEMENT
    for key, entry in before.state.entries.items():
        eviction = entry.status.eviction
        if entry.workload.ends_when_preempted and eviction and eviction.reason in preempted:
            assert entry.phase in (Phase.EVICTING, Phase.FINISHED), key


@EXAMPLES
@given(rng=RANDOMS)
def test_preemption_obeys_policies_is_minimal_and_takes_nobody_who_is_protected(
    rng: Random,
) -> None:
    lived(rng, CLASSICAL)


@EXAMPLES
@given(rng=RANDOMS)
def test_the_same_holds_under_fair_sharing(rng: Random) -> None:
    lived(rng, replace(PLAIN, fair_sharing=True))


@EXAMPLES
@given(rng=RANDOMS)
def test_the_engine_comes_to_rest_and_says_when_to_look_again(rng: Random) -> None:
    play = lived(rng, replace(PLAIN, hold_for_preemptor=True))
    play.settle()
    for _ in range(200):  # pauses and steps of waiting may go on for long
        next_at = play.state.next_at()
        if next_at is None:
            return
        assert next_at > play.now
        play.now = next_at
        play.settle()


@EXAMPLES
@given(rng=RANDOMS)
def test_a_fresh_engine_that_is_shown_the_objects_stands_where_this_one_does(rng: Random) -> None:
    play = lived(rng, replace(PLAIN, hold_for_preemptor=True), Forgetful)
    play.settle()
    rebuilt = rebuild(play.state)
    said = rebuilt.run_cycle(play.now).decisions
    assert not [decision for decision in said if isinstance(decision, Preempt)]
    assert facts(rebuilt.state) == facts(play.state)

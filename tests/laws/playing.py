"""Plays a story on an engine, and judges on the way what must hold at every moment.

The player keeps an account of its own of who holds what, from decisions alone. After each step it
runs cycles at the same instant while the engine asks for them, lets whoever was evicted go, and
where the engine names a later time (a back-off), goes there: until nothing more is decided. A step
so played out is a *quiet period*.

Law 1 is judged by the *issues* of a quiet period: a workload issues new victims. The same issue on
the same holdings for the third time is a circle. Where the backstop is on, the times between
the issues of a workload are compared with rule B1 as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from makeway.engine import events as ev
from makeway.engine.decisions import Admit, Cycle, Evict, Preempt, Reserve, VictimRule
from makeway.engine.engine import Engine
from makeway.engine.model import Amounts, Cohort, FlavorResource, Queue, QueueName, WorkloadKey
from tests.harness.engine import add_queue, objects_in
from tests.harness.quota_forest import QuotaForest
from tests.harness.random_worlds import World
from tests.laws.story import (
    Arrive,
    EditCohort,
    EditQueue,
    End,
    Reprioritize,
    Restart,
    SeeAgain,
    Step,
    Story,
    Until,
    short,
)

CYCLES_MOST = 3000  # in a quiet period; who needs more does not come to rest
ROUNDS = 3  # so many times the same issue on the same holdings is a circle
RAN_LONG_S = 300.0  # whoever ran so long begins to count anew (B1)
PAUSE_MOST_S = 3600.0


class Law:
    """Names of what can be broken."""

    CIRCLE = "circle"  # law 1, with nothing that stops it
    RESTLESS = "restless"  # law 1, and no circle was found in it
    BACKSTOP = "backstop"  # law 6: victims issued before their time
    FRESH = "fresh engine decides"  # law 2
    SEEN_AGAIN = "seeing again decides"  # law 2
    FITS = "waits though it fits"  # law 2
    MIDWAY = "fresh engine decides midway"  # law 5: a restart while victims make way
    ASKING = "asking changes decisions"  # law 3
    CLAIM = "claim left at rest"  # law 5
    USELESS_CLAIM = "claim that cannot be used"  # law 5
    QUOTA = "quota exceeded"


class Broken(Exception):
    def __init__(self, law: str, what: str) -> None:
        super().__init__(f"{law}: {what}")
        self.law = law
        self.what = what


class Issue(NamedTuple):
    """A workload issues new victims."""

    at: float
    preemptor: WorkloadKey
    victims: tuple[tuple[WorkloadKey, VictimRule], ...]

    def __str__(self) -> str:
        victims = ", ".join(f"{short(key)} ({rule.value})" for key, rule in self.victims)
        return f"{self.at:g} s: {short(self.preemptor)} takes {victims}"


class Held(NamedTuple):
    queue: QueueName
    usage: Amounts
    since: float


class Stage:
    """A world made ready once, for many players."""

    def __init__(self, world: World) -> None:
        self.events = world.events()
        self.forest = forest_of(world.queues, world.cohorts)


class Player:
    def __init__(self, story: Story, stage: Stage | None = None) -> None:
        stage = stage or Stage(story.world)
        self.story = story
        self.now = 0.0
        self.engine = Engine(story.world.config)
        for event in stage.events:
            self.engine.apply(event)
        self.queues = {queue.name: queue for queue in story.world.queues}
        self.cohorts = {cohort.name: cohort for cohort in story.world.cohorts}
        self.held: dict[WorkloadKey, Held] = {}
        self.leaving: list[WorkloadKey] = []  # evicted, pods not gone; in order of eviction
        self.issues: list[Issue] = []  # of this quiet period
        self.issue_counts: Counter[WorkloadKey] = Counter()  # in all of the story
        self.circle: list[Issue] | None = None  # one round of it
        self._seen: dict[object, list[int]] = {}  # issue and holdings -> numbers of the issues
        self._counted: dict[WorkloadKey, tuple[int, float]] = {}  # B1: how many, when the last
        self.has_backstop = story.world.config.gates.preemption_backoff
        self.forest = QuotaForest(stage.forest)

    # --- steps ---

    def play(self) -> None:
        for step in self.story.steps:
            self.step(step)
            if self.circle is not None:
                return

    def step(self, step: Step) -> None:
        self.now += step.after_s
        self.issues.clear()
        self._seen.clear()
        self._do(step)
        if step.until is not Until.HEARD:
            self.settle(lets_go=step.until is Until.REST)

    def _do(self, step: Step) -> None:
        deed = step.deed
        match deed:
            case Arrive():
                self.engine.apply(ev.WorkloadSeen(replace(deed.workload, created_at=self.now)))
            case End():
                self._counted.pop(deed.key, None)
                self._let_go_of(deed.key)
                self.engine.apply(ev.WorkloadFinished(deed.key))
            case Reprioritize():
                self._reprioritize(deed)
            case EditQueue():
                self.queues[deed.queue.name] = deed.queue
                self.engine.apply(ev.QueueChanged(deed.queue))
                self._quotas_edited()
            case EditCohort():
                self.cohorts[deed.cohort.name] = deed.cohort
                self.engine.apply(ev.CohortChanged(deed.cohort))
                self._quotas_edited()
            case Restart():
                self.engine = fresh_engine(self.engine)
            case SeeAgain():
                self.see_again(deed.key)

    def _reprioritize(self, deed: Reprioritize) -> None:
        entry = self.engine.state.entries.get(deed.key)
        if entry is not None:
            self._counted.pop(deed.key, None)
            self.engine.apply(ev.WorkloadEdited(replace(entry.workload, priority=deed.priority)))

    def see_again(self, key: WorkloadKey) -> None:
        entry = self.engine.state.entries.get(key)
        if entry is not None:
            self.engine.apply(ev.WorkloadSeen(entry.workload, entry.status))

    def _quotas_edited(self) -> None:
        self._counted.clear()  # B3, generously: those of other trees too
        self._count_quotas()

    def _count_quotas(self) -> None:
        self.forest = forest_of(self.queues.values(), self.cohorts.values())
        for held in self.held.values():
            self.forest.charge(held.queue, held.usage)

    # --- cycles ---

    def settle(self, lets_go: bool) -> None:
        at_once = lets_go and not self.story.one_by_one
        for _ in range(CYCLES_MOST):
            next_at = self.cycle().next_at
            if self.circle is not None:
                return
            if at_once and self.leaving:
                self._let_all_go()
                continue
            if next_at is not None and next_at <= self.now:
                continue
            if not self.leaving:
                if next_at is None or not lets_go:
                    return
                self.now = next_at
            elif lets_go:
                self.on_pause()
                self._let_go(self.leaving[0])
            else:
                self.on_pause()
                return
        raise Broken(Law.RESTLESS, f"{CYCLES_MOST} cycles, {len(self.issues)} issues")

    def on_pause(self) -> None:
        """The engine has nothing more to say until somebody evicted lets go."""

    def cycle(self) -> Cycle:
        cycle = self.engine.run_cycle(self.now)
        for decision in cycle.decisions:
            match decision:
                case Admit() | Reserve():
                    self._admitted(decision)
                case Preempt():
                    self._preempted(decision)
                case Evict():
                    self.leaving.append(decision.workload)
        return cycle

    def _let_all_go(self) -> None:
        for key in list(self.leaving):
            self._let_go(key)

    def _let_go(self, key: WorkloadKey) -> None:
        self._let_go_of(key)
        self.engine.apply(ev.PodsGone(key))

    def _let_go_of(self, key: WorkloadKey) -> None:
        held = self.held.pop(key, None)
        if held is not None:
            back = {cell: -amount for cell, amount in held.usage.items()}
            self.forest.charge(held.queue, back)
        if key in self.leaving:
            self.leaving.remove(key)

    # --- what is judged on the way ---

    def _admitted(self, decision: Admit | Reserve) -> None:
        key, queue = decision.workload, decision.queue
        if key in self.held:
            raise Broken(Law.QUOTA, f"{short(key)} holds quota already")
        usage = decision.assignment.usage()
        self.held[key] = Held(queue, usage, self.now)
        self.forest.charge(queue, usage)
        for cell in usage:
            try:
                self.forest.check_limits(queue, cell)
            except AssertionError as error:
                raise Broken(Law.QUOTA, f"{short(key)} is admitted: {error}") from None

    def _preempted(self, decision: Preempt) -> None:
        new = [victim for victim in decision.victims if victim.is_new]
        if not new:
            return
        victims = tuple((victim.workload, victim.rule) for victim in new)
        self._look_for_circle(Issue(self.now, decision.preemptor, victims))
        self._judge_time(decision.preemptor)
        for victim in new:
            key = victim.workload
            self.leaving.append(key)
            if self.now - self.held[key].since >= RAN_LONG_S:
                self._counted.pop(key, None)

    def _look_for_circle(self, issue: Issue) -> None:
        holdings = frozenset((key, *held.usage) for key, held in self.held.items())
        sightings = self._seen.setdefault((issue.preemptor, issue.victims, holdings), [])
        sightings.append(len(self.issues))
        self.issues.append(issue)
        self.issue_counts[issue.preemptor] += 1
        if len(sightings) == ROUNDS:
            self.circle = self.issues[sightings[-2] : sightings[-1]]

    def _judge_time(self, key: WorkloadKey) -> None:
        """B1: the n-th issue not before 2^(n-2) s after the last."""
        count, last = self._counted.get(key, (0, 0.0))
        self._counted[key] = (count + 1, self.now)
        if not self.has_backstop or count == 0:
            return
        pause_s = min(2.0 ** (count - 1), PAUSE_MOST_S)
        if self.now < last + pause_s:
            what = f"{short(key)} issues victims {self.now - last:g} s after issue {count}"
            raise Broken(Law.BACKSTOP, f"{what}, not {pause_s:g} s")


def forest_of(queues: Iterable[Queue], cohorts: Iterable[Cohort]) -> QuotaForest[FlavorResource]:
    forest = QuotaForest[FlavorResource]()
    for queue in queues:
        add_queue(forest, queue)
    for cohort in cohorts:
        forest.add_cohort(cohort.name, cohort.parent, cohort.quotas)
    return forest


def fresh_engine(old: Engine) -> Engine:
    """One that knows what the objects say. The last comes first: the order must not matter."""
    engine = Engine(old.state.config)
    for event in reversed(objects_in(old.state)):
        engine.apply(event)
    return engine

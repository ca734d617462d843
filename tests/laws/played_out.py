"""Worlds of small sizes, played out in full: every policy, every succession of arrivals.

X1: two queues with 1 and 2 of one flavor, sizes 1 and 3, two priorities, four arrivals; all
    policies, both strategies, classical and fair.
X2: three queues with 1 each, side by side or on two levels, three arrivals, then two of the three
    end; queues may preempt in their own line and reclaim from anybody.
X3: two queues with 1 and 2 of two flavors, five arrivals of three sizes; the same policies.

Each arrival or end is settled before the next. Successions are walked like a tree, and much of it
need not be played:

- Policies under which all decisions were the same so far, down to the kinds of reasons, have led
  to the same state. They stay together until a step asks them and gets different answers. A
  queue's policy is asked when its head does not simply fit; that about its own line only if
  somebody of it has run; that about borrowing only if the head would borrow.
- What follows a broken law is not played.
- Where queues have the same quota, they are named in the order in which they appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from makeway.engine.decisions import Cycle, Decision, HeadMode, HeadResult, Wait
from makeway.engine.model import (
    Cohort,
    CohortName,
    Config,
    FlavorResource,
    Policy,
    Preemption,
    QueueName,
    Strategy,
    WorkloadKey,
)
from tests.harness.random_worlds import World
from tests.laws.examining import examine
from tests.laws.figures import Figures
from tests.laws.gates import without
from tests.laws.judging import JudgedPlayer
from tests.laws.playing import Stage
from tests.laws.story import Arrive, Deed, End, Step, Story, arrival, cpu_queue, cpu_world

Policies = tuple[Preemption, ...]  # of each queue
Deeds = tuple[Deed, ...]


class Asked(NamedTuple):
    """Which policies of a queue were asked in a step."""

    about_cohort: bool
    about_line: bool
    about_borrowing: bool


class Frame(NamedTuple):
    """A world but for its policies."""

    words: str
    choices: tuple[Preemption, ...]  # for each queue
    queues: tuple[QueueName, ...]
    world: Callable[[Policies], World]


@dataclass(frozen=True)
class SmallWorlds:
    frames: tuple[Frame, ...]
    next_deeds: Callable[[Deeds], list[Deed]]  # none: the story is at its end


# --- policies ---


def all_policies(is_fair: bool) -> tuple[Preemption, ...]:
    within = [Policy.NEVER, Policy.LOWER_PRIORITY, Policy.LOWER_OR_NEWER_EQUAL]
    reclaim = [Policy.NEVER, Policy.LOWER_PRIORITY, Policy.ANY]
    return tuple(
        Preemption(within_queue=w, reclaim=r, borrow_while_reclaiming=b)
        for w, r, b in product(within, reclaim, [False, True])
        if not b or (r is not Policy.NEVER and not is_fair)
    )


def lively_policies(is_fair: bool) -> tuple[Preemption, ...]:
    return tuple(
        policy
        for policy in all_policies(is_fair)
        if policy.within_queue is not Policy.NEVER and policy.reclaim is Policy.ANY
    )


# --- frames ---


def flat(
    nominal: dict[str, tuple[int, ...]], policies: Callable[[bool], tuple[Preemption, ...]]
) -> Iterator[Frame]:
    for is_fair, strategy in product([False, True], Strategy):

        def world(
            chosen: Policies, is_fair: bool = is_fair, strategy: Strategy = strategy
        ) -> World:
            queues = [
                cpu_queue(name, *amounts, strategy=strategy, preemption=preemption)
                for (name, amounts), preemption in zip(nominal.items(), chosen, strict=True)
            ]
            return cpu_world(Config(fair_sharing=is_fair), *queues)

        words = f"{'fair' if is_fair else 'classical'} {strategy.value}"
        yield Frame(words, policies(is_fair), tuple(map(QueueName, nominal)), world)


TWO_LEVELS = (
    Cohort(name=CohortName("x"), parent=CohortName("lab")),
    Cohort(name=CohortName("y"), parent=CohortName("lab")),
)


def two_levels() -> Iterator[Frame]:
    """a and b in x, c in y, x and y in lab."""
    for frame in flat({"a": (1,), "b": (1,), "c": (1,)}, lively_policies):

        def world(chosen: Policies, frame: Frame = frame) -> World:
            flat_world = frame.world(chosen)
            queues = [
                cpu_queue(
                    queue.name,
                    1,
                    cohort="y" if queue.name == "c" else "x",
                    strategy=queue.strategy,
                    preemption=queue.preemption,
                )
                for queue in flat_world.queues
            ]
            return cpu_world(flat_world.config, *queues, cohorts=TWO_LEVELS)

        yield frame._replace(words=f"two levels {frame.words}", world=world)


# --- successions ---


def arrivals(count: int, *options: tuple[str, int, int]) -> Callable[[Deeds], list[Deed]]:
    """So many, each of one of these: queue, size, priority."""

    def next_deeds(deeds: Deeds) -> list[Deed]:
        number = len(deeds) + 1
        return [arrival(number, *option) for option in options] if number <= count else []

    return next_deeds


def with_ends(count: int, ends: int, alike: str) -> Callable[[Deeds], list[Deed]]:
    """So many arrive, then some of them end, each way. Queues that are alike appear in order."""
    arriving = arrivals(count, *product("abc", (1, 3), (0, 10)))

    def next_deeds(deeds: Deeds) -> list[Deed]:
        if len(deeds) < count:
            return [deed for deed in arriving(deeds) if _is_in_order((*deeds, deed), alike)]
        ended = {deed.key for deed in deeds if isinstance(deed, End)}
        keys = [deed.workload.key for deed in deeds if isinstance(deed, Arrive)]
        return [End(key) for key in keys if key not in ended] if len(ended) < ends else []

    return next_deeds


def _is_in_order(deeds: Deeds, alike: str) -> bool:
    queues = [deed.workload.local_queue[-1] for deed in deeds if isinstance(deed, Arrive)]
    seen = [queue for queue in dict.fromkeys(queues) if queue in alike]
    return seen == list(alike[: len(seen)])


SETS: dict[str, Callable[[], SmallWorlds]] = {
    "X1": lambda: SmallWorlds(
        tuple(flat({"a": (1,), "b": (2,)}, all_policies)),
        arrivals(4, *product("ab", (1, 3), (0, 10))),
    ),
    "X2": lambda: SmallWorlds(
        tuple(flat({"a": (1,), "b": (1,), "c": (1,)}, lively_policies)), with_ends(3, 2, "abc")
    ),
    "X2-levels": lambda: SmallWorlds(tuple(two_levels()), with_ends(3, 2, "ab")),
    "X3": lambda: SmallWorlds(
        tuple(flat({"a": (1, 1), "b": (2, 2)}, lively_policies)),
        arrivals(5, *product("a", (1, 2, 3), (10,)), *product("b", (1, 2, 3), (0,))),
    ),
}


@cache
def small_worlds(name: str) -> SmallWorlds:
    return SETS[name]()


# --- playing ---


class Part(NamedTuple):
    """All stories of a frame that begin in this way."""

    name: str
    frame: int
    beginning: Deeds


def parts_of(name: str) -> list[Part]:
    """The beginnings are of two deeds."""
    worlds = small_worlds(name)
    return [
        Part(name, frame, (first, second))
        for frame in range(len(worlds.frames))
        for first in worlds.next_deeds(())
        for second in worlds.next_deeds((first,))
    ]


def play_out(off: tuple[str, ...], part: Part) -> Figures:
    playing = PlayingOut(part, off)
    playing.play()
    return playing.figures


class WatchedPlayer(JudgedPlayer):
    """Notes, of the last step, what was decided and whose policies were asked."""

    def __init__(self, story: Story, stage: Stage, number: int) -> None:
        super().__init__(story, stage)
        self.number = number  # of the story
        self.decisions: list[Decision] = []
        self._waited: set[QueueName] = set()
        self._would_borrow: set[QueueName] = set()
        self._ran: set[QueueName] = set()  # in any step

    def step(self, step: Step) -> None:
        self.decisions.clear()
        self._waited.clear()
        self._would_borrow.clear()
        super().step(step)

    def cycle(self) -> Cycle:
        cycle = super().cycle()
        self.decisions += cycle.decisions
        self._ran.update(held.queue for held in self.held.values())
        for head in cycle.order:
            if head.mode is not HeadMode.FIT or head.result is not HeadResult.ADMITTED:
                self._waited.add(head.queue)
                if self._borrows(head.workload, head.queue):
                    self._would_borrow.add(head.queue)
        return cycle

    def _borrows(self, key: WorkloadKey, queue: QueueName) -> bool:
        """Would it, in some flavor? (Those evicted in this cycle still count.)"""
        (pod_set,) = self.engine.state.entries[key].workload.pod_sets
        (group,) = self.queues[queue].groups
        node = f"queue:{queue}"
        return any(
            self.forest.usage(node, cell) + amount > self.forest.subtree(node, cell)
            for resource, amount in pod_set.requests
            for quotas in group.flavors
            for cell in [FlavorResource(quotas.flavor, resource)]
        )

    def asked(self, queues: tuple[QueueName, ...]) -> tuple[Asked, ...]:
        return tuple(
            Asked(q in self._waited, q in self._waited & self._ran, q in self._would_borrow)
            for q in queues
        )

    def seen_again_at_the_end(self) -> list[WorkloadKey]:
        """In every fourth story one of them, each in its turn."""
        keys = super().seen_again_at_the_end()
        return keys[self.number % (4 * len(keys)) :][:1]


class PlayingOut:
    def __init__(self, part: Part, off: tuple[str, ...]) -> None:
        self.part = part
        self.worlds = small_worlds(part.name)
        self.frame = self.worlds.frames[part.frame]
        self.figures = Figures()
        self._stages: dict[Policies, tuple[Story, Stage]] = {}
        for policies in product(self.frame.choices, repeat=len(self.frame.queues)):
            story = without(Story(self.frame.world(policies), ()), *off)
            self._stages[policies] = story, Stage(story.world)

    def play(self) -> None:
        """All stories that begin as the part does."""
        groups, deeds = [list(self._stages)], self.part.beginning
        for count in range(1, len(deeds) + 1):
            groups = self._split(deeds[:count], groups)
        self._go_on(deeds, groups)

    def _go_on(self, deeds: Deeds, groups: list[list[Policies]]) -> None:
        for deed in self.worlds.next_deeds(deeds):
            longer = (*deeds, deed)
            if split := self._split(longer, groups):
                self._go_on(longer, split)

    def _split(self, deeds: Deeds, groups: list[list[Policies]]) -> list[list[Policies]]:
        """The policies under which no law was broken, by what was decided in the last step."""
        return [part for group in groups for part in self._split_group(deeds, group)]

    def _split_group(self, deeds: Deeds, group: list[Policies]) -> list[list[Policies]]:
        answers: dict[tuple[Asked, ...], dict[object, object]] = {}
        by_answer: dict[object, list[Policies]] = {}
        for policies in group:
            answer = _known_answer(policies, answers)
            if answer is None:
                asked, answer = self._play(deeds, policies)
                answers.setdefault(asked, {})[_as_asked(policies, asked)] = answer
            else:
                self.figures.covered += 1
            if answer is not BROKEN:
                by_answer.setdefault(answer, []).append(policies)
        return list(by_answer.values())

    def _play(self, deeds: Deeds, policies: Policies) -> tuple[tuple[Asked, ...], object]:
        bare, stage = self._stages[policies]
        story = bare.with_steps(tuple(map(Step, deeds)))
        player = WatchedPlayer(story, stage, self.figures.stories)
        is_last = (len(deeds) - 1).__eq__  # what comes before was judged before
        verdict = examine(player, is_last, is_last)
        self.figures.add(f"{self.part.name} {self.frame.words}", story, verdict)
        is_broken = verdict.finding or verdict.backstopped
        answer = BROKEN if is_broken else tuple(map(_in_short, player.decisions))
        return player.asked(self.frame.queues), answer


BROKEN = "broken"


def _in_short(decision: Decision) -> object:
    """Of a wait only the kinds of its reasons: how much is missing decides nothing."""
    if isinstance(decision, Wait):
        return decision.workload, decision.is_preemptor, *map(type, decision.reasons)
    return decision


def _known_answer(
    policies: Policies, answers: dict[tuple[Asked, ...], dict[object, object]]
) -> object | None:
    for asked, known in answers.items():
        answer = known.get(_as_asked(policies, asked))
        if answer is not None:
            return answer
    return None


def _as_asked(policies: Policies, asked: tuple[Asked, ...]) -> object:
    """The policies without what made no difference."""
    return tuple(
        (
            about.about_cohort and policy.reclaim,
            about.about_line and policy.within_queue,
            about.about_borrowing and policy.borrow_while_reclaiming,
        )
        for policy, about in zip(policies, asked, strict=True)
    )

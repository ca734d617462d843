"""Worlds of small sizes, played out in full: every policy, every succession of arrivals.

X1: two queues with 1 and 2 of one flavor, sizes 1 and 3, two priorities, four arrivals; all
    policies, both strategies, classical and fair.
X2: three queues with 1 each, side by side or on two levels, three arrivals, then two of the three
    end; queues may preempt in their own line and reclaim from anybody.
X3: two queues with 1 and 2 of two flavors, five arrivals of three sizes; the same policies.

Each arrival or end is settled before the next. Much need not be played twice: a queue's policy
makes no difference where every head of that queue was admitted at once, so one policy stands for
all; that everybody is important says the same as that nobody is; whatever follows a broken law is
not played; and where all queues have the same quota, they are named in the order in which they
appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from typing import NamedTuple

from makeway.engine.decisions import Cycle, HeadMode, HeadResult
from makeway.engine.model import (
    Cohort,
    CohortName,
    Config,
    Policy,
    Preemption,
    QueueName,
    Strategy,
    WorkloadKey,
)
from tests.engine.worlds import World
from tests.laws.examining import examine
from tests.laws.figures import Figures
from tests.laws.gates import without
from tests.laws.judging import JudgedPlayer
from tests.laws.playing import Stage
from tests.laws.story import Arrive, Deed, End, Step, Story, arrival, cpu_queue, cpu_world

Policies = tuple[Preemption, ...]  # of each queue
Consulted = tuple[tuple[bool, bool], ...]  # by queue: about the cohort, about its own line


class Frame(NamedTuple):
    """A world but for its policies."""

    words: str
    choices: tuple[Preemption, ...]  # for each queue
    queues: tuple[QueueName, ...]
    world: Callable[[Policies], World]


@dataclass(frozen=True)
class SmallWorlds:
    frames: tuple[Frame, ...]
    successions: tuple[tuple[Deed, ...], ...]


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


def arrivals(
    count: int, queues: str, sizes: tuple[int, ...], priorities: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[Arrive, ...]]:
    options = [(q, size, p) for q in queues for size in sizes for p in priorities[q]]
    for chosen in product(options, repeat=count):
        if len(priorities["a"]) > 1 and all(priority for _, _, priority in chosen):
            continue  # the same as if nobody were important
        yield tuple(arrival(number, *one) for number, one in enumerate(chosen, start=1))


def in_order_of_appearance(deeds: tuple[Arrive, ...], alike: str) -> bool:
    seen = dict.fromkeys(deed.workload.local_queue[-1] for deed in deeds)
    return [queue for queue in seen if queue in alike] == list(alike[: len(set(seen) & set(alike))])


def with_ends(alike: str) -> Iterator[tuple[Deed, ...]]:
    both = dict.fromkeys("abc", (0, 10))
    for deeds in arrivals(3, "abc", (1, 3), both):
        if in_order_of_appearance(deeds, alike):
            for ended in permutations([deed.workload.key for deed in deeds], 2):
                yield (*deeds, *map(End, ended))


SETS: dict[str, Callable[[], SmallWorlds]] = {
    "X1": lambda: SmallWorlds(
        tuple(flat({"a": (1,), "b": (2,)}, all_policies)),
        tuple(arrivals(4, "ab", (1, 3), {"a": (0, 10), "b": (0, 10)})),
    ),
    "X2": lambda: SmallWorlds(
        tuple(flat({"a": (1,), "b": (1,), "c": (1,)}, lively_policies)), tuple(with_ends("abc"))
    ),
    "X2-levels": lambda: SmallWorlds(tuple(two_levels()), tuple(with_ends("ab"))),
    "X3": lambda: SmallWorlds(
        tuple(flat({"a": (1, 1), "b": (2, 2)}, lively_policies)),
        tuple(arrivals(5, "ab", (1, 2, 3), {"a": (10,), "b": (0,)})),
    ),
}


@cache
def small_worlds(name: str) -> SmallWorlds:
    return SETS[name]()


# --- playing ---


class Part(NamedTuple):
    """Some of the successions, in one frame."""

    name: str
    frame: int
    successions: range


def parts_of(name: str, size: int = 64) -> list[Part]:
    worlds = small_worlds(name)
    count = len(worlds.successions)
    return [
        Part(name, frame, range(first, min(count, first + size)))
        for frame in range(len(worlds.frames))
        for first in range(0, count, size)
    ]


def play_out(off: tuple[str, ...], stride: int, part: Part) -> Figures:
    """Play every `stride`-th story of a part."""
    playing = PlayingOut(part, off, stride)
    for number in part.successions:
        playing.play(number)
    return playing.figures


class WatchedPlayer(JudgedPlayer):
    """Notes the queues whose policies may have made a difference.

    A queue's policies are asked when its head does not simply fit; that about its own line only
    if somebody of that line has ever run.
    """

    def __init__(self, story: Story, stage: Stage) -> None:
        super().__init__(story, stage)
        self._had_to_wait: set[QueueName] = set()
        self._ran: set[QueueName] = set()

    def cycle(self) -> Cycle:
        cycle = super().cycle()
        for head in cycle.order:
            is_plain = head.mode is HeadMode.FIT and head.result is HeadResult.ADMITTED
            (self._ran if is_plain else self._had_to_wait).add(head.queue)
        return cycle

    def consulted(self, queues: tuple[QueueName, ...]) -> Consulted:
        return tuple(
            (queue in self._had_to_wait, queue in self._had_to_wait and queue in self._ran)
            for queue in queues
        )

    def seen_again_at_the_end(self) -> list[WorkloadKey]:
        keys = super().seen_again_at_the_end()
        return keys[len(self._ran) % len(keys) :][:1]  # one of them, not always the same


class PlayingOut:
    def __init__(self, part: Part, off: tuple[str, ...], stride: int) -> None:
        self.part = part
        self.off = off
        self.stride = stride
        self.worlds = small_worlds(part.name)
        self.frame = self.worlds.frames[part.frame]
        self.figures = Figures()
        choices = product(self.frame.choices, repeat=len(self.frame.queues))
        self._stages = {policies: self._stage(policies) for policies in choices}
        self._before: tuple[Deed, ...] = ()  # the succession played last
        self._broken: dict[Policies, int] = {}  # steps of that one, up to where a law was broken
        self._number = part.frame  # of stories, to take every n-th

    def _stage(self, policies: Policies) -> tuple[Story, Stage]:
        story = without(Story(self.frame.world(policies), ()), *self.off)
        return story, Stage(story.world)

    def play(self, number: int) -> None:
        """A succession under all policies; those that make no difference are played once."""
        deeds = self.worlds.successions[number]
        shared = _shared(deeds, self._before)
        self._broken = {p: steps for p, steps in self._broken.items() if steps <= shared}
        self._before = deeds
        played: dict[Consulted, set[object]] = {}
        for policies in self._stages:
            if policies in self._broken or _is_covered(policies, played):
                self.figures.covered += 1
            elif self._is_due():
                consulted = self._play(number, deeds, policies, shared)
                played.setdefault(consulted, set()).add(_as_consulted(policies, consulted))

    def _is_due(self) -> bool:
        self._number += 1
        return self._number % self.stride == 0

    def _play(
        self, number: int, deeds: tuple[Deed, ...], policies: Policies, shared: int
    ) -> Consulted:
        bare, stage = self._stages[policies]
        story = bare.with_steps(tuple(map(Step, deeds)))
        player = WatchedPlayer(story, stage)
        first = shared if self.stride == 1 else len(deeds) - 1  # what is shared was judged before
        is_new = range(first, len(deeds)).__contains__
        verdict = examine(player, is_new, is_new)
        if verdict.finding or verdict.backstopped:
            self._broken[policies] = verdict.steps
        self.figures.add(f"{self.part.name} {self.frame.words} {number}", story, verdict)
        return player.consulted(self.frame.queues)


def _shared(one: tuple[Deed, ...], other: tuple[Deed, ...]) -> int:
    """How many deeds both begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _is_covered(policies: Policies, played: dict[Consulted, set[object]]) -> bool:
    return any(_as_consulted(policies, consulted) in known for consulted, known in played.items())


def _as_consulted(policies: Policies, consulted: Consulted) -> object:
    """The policies without what made no difference."""
    return tuple(
        (
            about_cohort and (policy.reclaim, policy.borrow_while_reclaiming),
            about_line and policy.within_queue,
        )
        for policy, (about_cohort, about_line) in zip(policies, consulted, strict=True)
    )

"""Stories invented by chance: small ones by the hundred thousand, and large ones.

The worlds are those of `tests.engine.worlds`, with other sizes. A seed gives always the same story.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from makeway.engine.model import (
    Cohort,
    CohortName,
    Gates,
    PodSet,
    PodSetName,
    Queue,
    QueueName,
    Quota,
    ResourceGroup,
    StopPolicy,
    Workload,
    WorkloadKey,
)
from tests.engine.worlds import PLAIN, World, Worldmaker
from tests.laws.story import (
    Arrive,
    Deed,
    EditCohort,
    EditQueue,
    End,
    Reprioritize,
    Restart,
    SeeAgain,
    Step,
    Story,
    Until,
)

HOLDING_PLACES = replace(PLAIN, hold_for_preemptor=True)


class SmallWorldmaker(Worldmaker):
    """Two or three queues in one cohort, quotas up to 3, one or two flavors of cpu."""

    def __init__(self, rng: Random, is_fair: bool) -> None:
        super().__init__(rng, replace(HOLDING_PLACES, fair_sharing=is_fair))
        self.config = replace(self.config, gates=Gates())
        self.resources = self.resources[:1]
        self.flavors = self.flavors[:2]

    def world(self) -> World:
        name = CohortName("lab")
        queues = [self.queue(QueueName(n), name) for n in "abc"[: self.rng.randint(2, 3)]]
        return World(self.config, self.flavors, (), tuple(queues))

    def quota(self, has_parent: bool) -> Quota:
        rng = self.rng
        nominal = rng.randint(0, 3)
        if not has_parent or rng.random() < 0.8:
            return Quota(nominal)
        return Quota(
            nominal,
            borrowing_limit=rng.randint(0, 2) if rng.random() < 0.5 else None,
            lending_limit=rng.randint(0, nominal) if rng.random() < 0.5 else None,
        )

    def groups(self, has_parent: bool) -> tuple[ResourceGroup, ...]:
        group, *_ = super().groups(has_parent)
        return (group,)

    def workload(self, number: int, queue: QueueName, now: float) -> Workload:
        return replace(
            super().workload(number, queue, now),
            preemption_priority=None,
            pod_sets=(self._pods(),),
            defect=None,
        )

    def _pods(self) -> PodSet:
        requests = [(resource, self.rng.randint(1, 4)) for resource in self.resources]
        return PodSet(name=PodSetName("main"), count=1, requests=tuple(sorted(requests)))


class LargeWorldmaker(SmallWorldmaker):
    """Up to eight queues in trees, up to three flavors and two resources."""

    def __init__(self, rng: Random, is_fair: bool) -> None:
        Worldmaker.__init__(self, rng, replace(HOLDING_PLACES, fair_sharing=is_fair))
        self.config = replace(self.config, gates=Gates())

    def world(self) -> World:
        rng = self.rng
        cohorts = [
            cohort for tree in range(rng.randint(1, 2)) for cohort in self._cohorts(f"t{tree}")
        ]
        names = [cohort.name for cohort in cohorts]
        queues = [
            self.queue(QueueName(f"q{number}"), rng.choice(names))
            for number in range(rng.randint(3, 8))
        ]
        return World(self.config, self.flavors, tuple(cohorts), tuple(queues))

    def quota(self, has_parent: bool) -> Quota:
        return Worldmaker.quota(self, has_parent)

    def groups(self, has_parent: bool) -> tuple[ResourceGroup, ...]:
        """One group: what a workload may choose from is then a list of flavors."""
        groups = Worldmaker.groups(self, has_parent)
        while len(groups) > 1:
            groups = Worldmaker.groups(self, has_parent)
        return groups


# --- stories ---


def small_story(seed: int) -> Story:
    """Eight workloads arrive; most often each is settled before the next one comes."""
    rng = Random(f"small {seed}")
    maker = SmallWorldmaker(rng, is_fair=seed % 2 == 1)
    world = maker.world()
    is_hasty = rng.random() < 0.5
    steps: list[Step] = []
    for number in range(1, 9):
        queue = rng.choice(world.queues).name
        deed = Arrive(maker.workload(number, queue, 0.0))
        steps.append(Step(deed, _pace(rng) if is_hasty else Until.REST))
    if rng.random() < 0.5:
        steps.append(Step(End(rng.choice(arrived(steps)))))
    steps[-1] = steps[-1]._replace(until=Until.REST)
    return Story(world, tuple(steps), one_by_one=rng.random() < 0.3)


def _pace(rng: Random) -> Until:
    return rng.choice([Until.HEARD, Until.QUIET, Until.REST, Until.REST])


def arrived(steps: list[Step]) -> list[WorkloadKey]:
    return [step.deed.workload.key for step in steps if isinstance(step.deed, Arrive)]


class LargeStory:
    """Arrivals, and in between them ends, edits, restarts and repeated sights."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(f"large {seed}")
        self.maker = LargeWorldmaker(self.rng, is_fair=seed % 2 == 1)
        self.world = self.maker.world()
        self.queues = {queue.name: queue for queue in self.world.queues}
        self.arrived: list[WorkloadKey] = []
        self.present: list[WorkloadKey] = []

    def story(self) -> Story:
        rng = self.rng
        most = rng.randint(10, 60)
        steps: list[Step] = []
        while len(self.arrived) < most:
            after_s = rng.choice([0.0, 1.0, 1.0, 30.0, 400.0])
            steps.append(Step(self.deed(), _pace(rng), after_s))
        steps[-1] = steps[-1]._replace(until=Until.REST)
        return Story(self.world, tuple(steps), one_by_one=rng.random() < 0.5)

    def deed(self) -> Deed:
        if not self.present or self.rng.random() < 0.5:
            return self.arrive()
        return self.rng.choice(DEEDS)(self)

    def arrive(self) -> Deed:
        queue = self.rng.choice(self.world.queues).name
        workload = self.maker.workload(len(self.arrived) + 1, queue, 0.0)
        self.arrived.append(workload.key)
        self.present.append(workload.key)
        return Arrive(workload)

    def end(self) -> Deed:
        key = self.rng.choice(self.present)
        self.present.remove(key)
        return End(key)

    def reprioritize(self) -> Deed:
        return Reprioritize(self.rng.choice(self.present), self.rng.randint(0, 2))

    def see_again(self) -> Deed:
        return SeeAgain(self.rng.choice(self.present))

    def restart(self) -> Deed:
        return Restart()

    def edit_queue(self) -> Deed:
        queue = self._edited(self.queues[self.rng.choice(self.world.queues).name])
        self.queues[queue.name] = queue
        return EditQueue(queue)

    def _edited(self, queue: Queue) -> Queue:
        match self.rng.randint(0, 3):
            case 0:
                return replace(queue, groups=self.maker.groups(queue.cohort is not None))
            case 1:
                return replace(queue, preemption=self.maker.preemption())
            case 2:
                return replace(queue, stop_policy=self.rng.choice(list(StopPolicy)))
        return replace(queue, stop_policy=StopPolicy.NONE)

    def edit_cohort(self) -> Deed:
        cohort: Cohort = self.rng.choice(self.world.cohorts)
        return EditCohort(self.maker.cohort(cohort.name, cohort.parent))


DEEDS: list[Callable[[LargeStory], Deed]] = [
    *[LargeStory.end] * 12,
    *[LargeStory.reprioritize] * 3,
    *[LargeStory.see_again] * 3,
    *[LargeStory.restart] * 2,
    *[LargeStory.edit_queue] * 2,
    LargeStory.edit_cohort,
]


def large_story(seed: int) -> Story:
    return LargeStory(seed).story()


STORIES: dict[str, Callable[[int], Story]] = {"small": small_story, "large": large_story}

"""Stories invented by chance: small ones by the hundred thousand, and large ones.

The worlds are those of `tests.harness.random_worlds`, in two sizes. A seed gives always the
same story.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from makeway.engine.model import Cohort, Gates, Queue, StopPolicy, WorkloadKey
from tests.harness.random_worlds import Knobs, Worldmaker
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

# Two or three queues in one cohort, quotas up to 3, one or two flavors of cpu.
SMALL = Knobs(
    trees=(1,),
    loose=0.0,
    queues=(2, 3),
    cohorts=(0,),
    undeclared=1.0,
    resources=(("cpu",),),
    flavors=(1, 1, 2),
    quotas=(0, 1, 2, 3),
    limits=0.1,
    gates=Gates(),
    odd_workloads=False,
)
# Up to eight queues in trees, up to three flavors and two resources; what a workload may choose
# from is a list of flavors.
LARGE = Knobs(loose=0.0, queues=(2, 3, 4), gates=Gates(), odd_workloads=False, split_groups=False)


def maker_of(rng: Random, knobs: Knobs, seed: int) -> Worldmaker:
    return Worldmaker(rng, replace(knobs, fair_sharing=seed % 2 == 1))


# --- stories ---


def small_story(seed: int) -> Story:
    """Eight workloads arrive; most often each is settled before the next one comes."""
    rng = Random(f"small {seed}")
    maker = maker_of(rng, SMALL, seed)
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
        self.maker = maker_of(self.rng, LARGE, seed)
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

"""Makes a failing story small: leaves out and simplifies whatever it fails without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from makeway.engine.model import (
    Config,
    FlavorQuotas,
    Fungibility,
    Policy,
    Preemption,
    Queue,
    Quota,
    Strategy,
    Workload,
)
from tests.laws.story import Arrive, Step, Story, Until

Fails = Callable[[Story], bool]

EXAMINATIONS_MOST = 1500


def shrink(story: Story, fails: Fails) -> Story:
    """The smallest story on the way down that still fails; the story itself if none does."""
    return Shrinking(fails).shrunk(story)


class Shrinking:
    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._left = EXAMINATIONS_MOST

    def shrunk(self, story: Story) -> Story:
        before = None
        while story is not before and self._left > 0:
            before = story
            story = self._simplified(self._shortened(story))
        return story

    def _shortened(self, story: Story) -> Story:
        """Without the steps that do not matter: first many at a time, then one by one."""
        size = len(story.steps) // 2
        while size:
            at = 0
            while at < len(story.steps):
                shorter = story.with_steps(story.steps[:at] + story.steps[at + size :])
                if self._still_fails(shorter):
                    story = shorter
                else:
                    at += size
            size //= 2
        return story

    def _simplified(self, story: Story) -> Story:
        """Takes every simplification that leaves it failing, and looks for the next behind it."""
        number = 0
        while (simple := next(islice(simpler(story), number, None), None)) is not None:
            if self._still_fails(simple):
                story = simple
            else:
                number += 1
        return story

    def _still_fails(self, story: Story) -> bool:
        self._left -= 1
        return self._left >= 0 and self._fails(story)


def simpler(story: Story) -> Iterator[Story]:
    """The same with one thing simpler."""
    steps = story.steps
    yield from _fewer_queues(story)
    if story.one_by_one:
        yield replace(story, one_by_one=False)
    for config in _simpler_configs(story.world.config):
        yield story.with_config(config)
    for number, queue in enumerate(story.world.queues):
        for simple in _simpler_queues(queue):
            queues = (*story.world.queues[:number], simple, *story.world.queues[number + 1 :])
            yield replace(story, world=replace(story.world, queues=queues))
    for number, step in enumerate(steps):
        for easier in _simpler_steps(step):
            yield story.with_steps((*steps[:number], easier, *steps[number + 1 :]))


def _fewer_queues(story: Story) -> Iterator[Story]:
    asked = {s.deed.workload.local_queue for s in story.steps if isinstance(s.deed, Arrive)}
    for queue in story.world.queues:
        if not any(key.endswith(f"/{queue.name}") for key in asked):
            queues = tuple(q for q in story.world.queues if q is not queue)
            yield replace(story, world=replace(story.world, queues=queues))
    named = {q.cohort for q in story.world.queues} | {c.parent for c in story.world.cohorts}
    for cohort in story.world.cohorts:
        cohorts = tuple(c for c in story.world.cohorts if c is not cohort)
        if cohort.name not in named or not cohort.quotas:
            yield replace(story, world=replace(story.world, cohorts=cohorts))
        elif cohort.quotas:
            bare = tuple(replace(c, quotas={}) if c is cohort else c for c in story.world.cohorts)
            yield replace(story, world=replace(story.world, cohorts=bare))


def _simpler_configs(config: Config) -> Iterator[Config]:
    default = Config()
    for changes in (
        {"fair_sharing": False},
        {"share_rules": default.share_rules},
        {"after_preemption": default.after_preemption},
        {"after_pods_ready_timeout": default.after_pods_ready_timeout, "backoff": default.backoff},
    ):
        simple = replace(config, **changes)
        if simple != config:
            yield simple


def _simpler_queues(queue: Queue) -> Iterator[Queue]:
    candidates = [
        replace(queue, preemption=Preemption()),
        replace(queue, preemption=replace(queue.preemption, within_queue=Policy.NEVER)),
        replace(queue, preemption=replace(queue.preemption, borrow_while_reclaiming=False)),
        replace(queue, preemption=replace(queue.preemption, borrow_threshold=None)),
        replace(queue, strategy=Strategy.BEST_EFFORT_FIFO),
        replace(queue, fungibility=Fungibility()),
        replace(queue, namespaces=Queue(name=queue.name).namespaces),
        replace(queue, weight=1.0),
    ]
    (group,) = queue.groups
    if len(group.flavors) > 1:
        candidates += [
            replace(queue, groups=(group._replace(flavors=flavors),))
            for flavors in (group.flavors[:1], group.flavors[1:])
        ]
    for number, quotas in enumerate(group.flavors):
        for simple in _simpler_quotas(quotas):
            flavors = (*group.flavors[:number], simple, *group.flavors[number + 1 :])
            candidates.append(replace(queue, groups=(group._replace(flavors=flavors),)))
    return (simple for simple in candidates if simple != queue)


def _simpler_quotas(quotas: FlavorQuotas) -> Iterator[FlavorQuotas]:
    for resource, quota in quotas.quotas.items():
        options = [
            Quota(quota.nominal),
            quota._replace(borrowing_limit=None),
            quota._replace(lending_limit=None),
        ]
        if quota.nominal:
            options.append(Quota(quota.nominal - 1))
        for simple in options:
            if simple != quota:
                yield quotas._replace(quotas={**quotas.quotas, resource: simple})


def _simpler_steps(step: Step) -> Iterator[Step]:
    if step.until is not Until.REST:
        yield step._replace(until=Until.REST)
    if step.after_s != 1.0:
        yield step._replace(after_s=1.0)
    if isinstance(step.deed, Arrive):
        for workload in _simpler_workloads(step.deed.workload):
            yield step._replace(deed=Arrive(workload))


def _simpler_workloads(workload: Workload) -> Iterator[Workload]:
    if workload.priority:
        yield replace(workload, priority=workload.priority - 1)
    (pod_set,) = workload.pod_sets
    for resource, amount in pod_set.requests:
        if amount > 1:
            requests = {**dict(pod_set.requests), resource: amount - 1}
            smaller = replace(pod_set, requests=tuple(sorted(requests.items())))
            yield replace(workload, pod_sets=(smaller,))

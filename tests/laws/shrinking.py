"""Makes a failing story small: leaves out and simplifies whatever it fails without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

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

EXAMINATIONS_MOST = 3000


def shrink(story: Story, fails: Fails) -> Story:
    """The smallest story on the way down that still fails; the story itself if none does."""
    left = EXAMINATIONS_MOST
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in simpler(story):
            left -= 1
            if left < 0:
                return story
            if fails(smaller):
                story, is_smaller = smaller, True
                break
    return story


def simpler(story: Story) -> Iterator[Story]:
    """The same with one thing less, the largest things first."""
    steps, count = story.steps, len(story.steps)
    for size in (count // 2, count // 4, 1):
        if size:
            for at in range(0, count, size):
                yield story.with_steps(steps[:at] + steps[at + size :])
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

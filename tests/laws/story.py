"""A story: a world, and what happens to it from outside, step by step.

Everything else follows from it by playing: who is admitted, who makes way, who comes back. A story
is plain data, so that steps can be left out when a failure is made small, and it can be written
down as the lines of a test (`as_test`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import NamedTuple

from makeway.engine.model import (
    Cohort,
    CohortName,
    Config,
    Flavor,
    FlavorName,
    FlavorQuotas,
    Fungibility,
    LocalQueueKey,
    PodSet,
    PodSetName,
    Policy,
    Preemption,
    Queue,
    QueueName,
    Quota,
    ResourceGroup,
    ResourceName,
    Strategy,
    Workload,
    WorkloadKey,
)
from tests.harness.random_worlds import NAMESPACE, World

CPU = ResourceName("cpu")


# --- what may happen ---


class Arrive(NamedTuple):
    workload: Workload  # its time of creation is when it arrives


class End(NamedTuple):
    """It finishes; who has not run is taken away."""

    key: WorkloadKey


class Reprioritize(NamedTuple):
    key: WorkloadKey
    priority: int


class EditQueue(NamedTuple):
    queue: Queue


class EditCohort(NamedTuple):
    cohort: Cohort


class Restart(NamedTuple):
    """A new engine is shown the same objects."""


class SeeAgain(NamedTuple):
    """An object is shown once more, as it is."""

    key: WorkloadKey


Deed = Arrive | End | Reprioritize | EditQueue | EditCohort | Restart | SeeAgain


class Until(Enum):
    """How far things go after a deed, before the next one."""

    HEARD = "heard"  # no cycle runs
    QUIET = "quiet"  # cycles run, but whoever is evicted keeps its place
    REST = "rest"  # everybody evicted has let go, and nothing more is decided


class Step(NamedTuple):
    deed: Deed
    until: Until = Until.REST
    after_s: float = 1.0  # since the step before


@dataclass(frozen=True)
class Story:
    world: World
    steps: tuple[Step, ...]
    one_by_one: bool = False  # those evicted let go one after the other, not all at once

    def with_steps(self, steps: tuple[Step, ...]) -> Story:
        return replace(self, steps=steps)

    def with_config(self, config: Config) -> Story:
        return replace(self, world=replace(self.world, config=config))


# --- small worlds in few words ---


def cpu_queue(
    name: str,
    *nominal: int,
    cohort: str = "lab",
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO,
    preemption: Preemption = Preemption(),  # noqa: B008
) -> Queue:
    """A queue with so much cpu of each flavor: f0, f1 …"""
    quotas = [
        FlavorQuotas(FlavorName(f"f{number}"), {CPU: Quota(amount)})
        for number, amount in enumerate(nominal)
    ]
    return Queue(
        name=QueueName(name),
        cohort=CohortName(cohort),
        groups=(ResourceGroup((CPU,), tuple(quotas)),),
        strategy=strategy,
        preemption=preemption,
        fungibility=Fungibility(),
    )


def cpu_world(config: Config, *queues: Queue, cohorts: tuple[Cohort, ...] = ()) -> World:
    names = {flavor.flavor for queue in queues for g in queue.groups for flavor in g.flavors}
    return World(config, tuple(Flavor(name=name) for name in sorted(names)), cohorts, queues)


def arrival(number: int, queue: str, size: int, priority: int = 0) -> Arrive:
    return Arrive(
        Workload(
            key=WorkloadKey(f"{NAMESPACE}/w{number}"),
            uid=f"{number:04}",
            local_queue=LocalQueueKey(f"{NAMESPACE}/{queue}"),
            namespace=NAMESPACE,
            priority=priority,
            pod_sets=(PodSet(name=PodSetName("main"), count=1, requests=((CPU, size),)),),
        )
    )


# --- written down ---

POLICIES = {
    Policy.NEVER: "NEVER",
    Policy.LOWER_PRIORITY: "LOWER",
    Policy.LOWER_OR_NEWER_EQUAL: "NEWER_EQUAL",
    Policy.ANY: "ANY",
}


def as_test(story: Story) -> str:
    """The story in the words of `tests.harness.engine`, to be copied into a test."""
    parts = [*map(_cohort, story.world.cohorts), *map(_queue, story.world.queues)]
    lines = ["lab = Scenario("]
    lines += [f"    {part}," for part in parts]
    lines += [f"    config={_config(story.world.config)},", ")"]
    for step in story.steps:
        lines += _step(step, story.one_by_one)
    return "\n".join(lines)


def _step(step: Step, one_by_one: bool) -> Iterator[str]:
    yield f"lab.later({step.after_s:g})"
    deed = step.deed
    match deed:
        case Arrive():
            yield f"lab.pending({_workload(deed.workload)})"
        case End():
            yield f"lab.finish({short(deed.key)!r})"
        case Reprioritize():
            yield f"lab.edit({short(deed.key)!r}, priority={deed.priority})"
        case EditQueue():
            yield f"lab.change({_queue(deed.queue)})"
        case EditCohort():
            yield f"lab.change({_cohort(deed.cohort)})"
        case Restart():
            yield "lab.restart()"
        case SeeAgain():
            yield f"lab.see_again({short(deed.key)!r})"
    match step.until:
        case Until.QUIET:
            yield "lab.cycles()"
        case Until.REST:
            yield f"lab.settle({'one_by_one=True' if one_by_one else ''})"
        case Until.HEARD:
            pass


def short(key: str) -> str:
    return key.removeprefix(f"{NAMESPACE}/")


def _workload(workload: Workload) -> str:
    words = [repr(short(workload.key))]
    pod_sets = workload.pod_sets
    if len(pod_sets) == 1 and pod_sets[0].count == 1 and pod_sets[0].min_count is None:
        amounts = [f"{name}={amount}" for name, amount in pod_sets[0].requests]
    else:
        words += [_pods(pod_set) for pod_set in pod_sets]
        amounts = []
    words += [f"on={short(workload.local_queue)!r}", *amounts]
    if workload.priority:
        words.append(f"priority={workload.priority}")
    if workload.preemption_priority is not None:
        words.append(f"as_victim={workload.preemption_priority}")
    return ", ".join(words)


def _pods(pod_set: PodSet) -> str:
    words = [repr(str(pod_set.name)), str(pod_set.count)]
    if pod_set.min_count is not None:
        words.append(f"at_least={pod_set.min_count}")
    words += [f"{name}={amount}" for name, amount in pod_set.requests]
    return f"pods({', '.join(words)})"


def _config(config: Config) -> str:
    words = []
    if config.fair_sharing:
        words.append("fair_sharing=True")
        if config.share_rules != Config().share_rules:
            rules = "".join(f"ShareRule.{rule.name}, " for rule in config.share_rules)
            words.append(f"share_rules=({rules})")
    if config.after_preemption is not Config().after_preemption:
        words.append(f"after_preemption=RequeueTime.{config.after_preemption.name}")
    gates, default = config.gates, Config().gates
    changed = [f.name for f in fields(gates) if getattr(gates, f.name) != getattr(default, f.name)]
    if changed:
        switched = ", ".join(f"{name}={getattr(gates, name)}" for name in changed)
        words.append(f"gates=Gates({switched})")
    return f"Config({', '.join(words)})"


def _queue(queue: Queue) -> str:
    words = [repr(str(queue.name))]
    if queue.cohort is not None:
        words.append(f"cohort={str(queue.cohort)!r}")
    if queue.strategy is Strategy.STRICT_FIFO:
        words.append("strategy=STRICT")
    words += _policies(queue.preemption)
    words += _searches(queue.fungibility)
    if queue.weight != 1.0:
        words.append(f"weight={queue.weight:g}")
    if queue.stop_policy is not Queue(name=queue.name).stop_policy:
        words.append(f"stop={queue.stop_policy.name}")
    words += _offers(queue)
    return f"queue({', '.join(words)})"


def _policies(preemption: Preemption) -> Iterator[str]:
    if preemption.within_queue is not Policy.NEVER:
        yield f"within={POLICIES[preemption.within_queue]}"
    if preemption.reclaim is not Policy.NEVER:
        yield f"reclaim={POLICIES[preemption.reclaim]}"
    if preemption.borrow_while_reclaiming:
        yield "borrow_within=True"
    if preemption.borrow_threshold is not None:
        yield f"threshold={preemption.borrow_threshold}"


def _searches(fungibility: Fungibility) -> Iterator[str]:
    default = Fungibility()
    if fungibility.when_can_borrow is not default.when_can_borrow:
        yield f"when_can_borrow={fungibility.when_can_borrow.name}"
    if fungibility.when_can_preempt is not default.when_can_preempt:
        yield f"when_can_preempt={fungibility.when_can_preempt.name}"
    if fungibility.preference is not None:
        yield f"preference=Preference.{fungibility.preference.name}"


def _offers(queue: Queue) -> Iterator[str]:
    for group in queue.groups:
        for resource in group.resources:
            by_flavor = {
                str(quotas.flavor): quotas.quotas.get(resource, Quota()) for quotas in group.flavors
            }
            offers = ", ".join(f"{flavor!r}: {_quota(q)}" for flavor, q in by_flavor.items())
            yield f"{resource}={{{offers}}}"


def _quota(quota: Quota) -> str:
    words = [str(quota.nominal)]
    if quota.borrowing_limit is not None:
        words.append(f"borrow={quota.borrowing_limit}")
    if quota.lending_limit is not None:
        words.append(f"lend={quota.lending_limit}")
    return words[0] if len(words) == 1 else f"quota({', '.join(words)})"


def _cohort(cohort: Cohort) -> str:
    words = [repr(str(cohort.name))]
    if cohort.parent is not None:
        words.append(f"parent={str(cohort.parent)!r}")
    by_resource: dict[str, list[str]] = {}
    for cell, quota in cohort.quotas.items():
        by_resource.setdefault(cell.resource, []).append(f"{str(cell.flavor)!r}: {_quota(quota)}")
    words += [f"{resource}={{{', '.join(some)}}}" for resource, some in by_resource.items()]
    if cohort.weight != 1.0:
        words.append(f"weight={cohort.weight:g}")
    return f"cohort({', '.join(words)})"

"""What a world has to give: flavors, machines, queues, and who may say no."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from makeway.api.kinds import (
    CHECKS,
    COHORTS,
    FLAVORS,
    LOCAL_QUEUES,
    NODES,
    PRIORITY_CLASSES,
    QUEUES,
    WORKLOAD_CLASSES,
)
from makeway.engine.model import (
    Cohort,
    FlavorName,
    FlavorResource,
    Fungibility,
    Preemption,
    Queue,
    Quota,
    Search,
)
from tests.harness.random_worlds import Knobs, Worldmaker
from tests.simulation.worlds import (
    GPU,
    JOB_MAX,
    PRIORITIES,
    Change,
    Create,
    Document,
    Size,
    Step,
    Traits,
    named,
)

NODES_MAX = 4  # of a flavor
ROOMY_CPU, ROOMY_GPUS = 24, 12  # of a node, where whatever quota admits finds a place
GHOST = FlavorName("ghost")  # no node has its label
CHECK = "budget-office"
POD_CLASSES = {"pod-low": 1, "pod-middle": 5, "pod-high": 10}
QUOTA_MIN = JOB_MAX
TREE_MAX = 3  # queues of a cohort and those below it
RESOURCES = ("cpu", GPU)


def supply(maker: Worldmaker, traits: Traits) -> tuple[list[Step], list[Create]]:
    """Everything that is there from the beginning, and the queues among it."""
    world = maker.world()
    flavors = [flavor.name for flavor in world.flavors]
    queues = [_queue(maker, queue, traits) for queue in world.queues]
    doors = (named(LOCAL_QUEUES, q.name, spec={"clusterQueue": q.name}) for q in world.queues)
    objects: list[Step] = [
        *(flavor(name) for name in flavors),
        *([flavor(GHOST)] if traits.has_ghost else ()),
        *_nodes(maker.rng, flavors, traits),
        *(named(WORKLOAD_CLASSES, name, value=value) for name, value in PRIORITIES.items()),
        *(named(PRIORITY_CLASSES, name, value=value) for name, value in POD_CLASSES.items()),
        *map(_cohort, world.cohorts),
        *(_check() if traits.has_checks else ()),
        *queues,
        *doors,
    ]
    return objects, queues


def knobs_of(size: Size, traits: Traits) -> Knobs:
    """What a queue has is enough for any job; cohorts may lend a little more."""
    return Knobs(
        trees=(1, 2) if size.queues_max > TREE_MAX else (1,),
        loose=0.1,
        queues=range(2, min(size.queues_max, TREE_MAX) + 1),
        undeclared=0.5,
        resources=(RESOURCES,),
        flavors=range(1, size.flavors_max + 1),
        quotas=range(QUOTA_MIN, size.quota_max + 1),
        lent=range(5),
        limits=0.2,
        thresholds=(None, -1, 5),
        fair_sharing=traits.is_fair,
        split_groups=False,
        checks=traits.has_checks,
    )


def flavor(name: str) -> Create:
    return named(FLAVORS, name, spec={"nodeLabels": {"flavor": name}})


def _nodes(chance: Random, flavors: Sequence[str], traits: Traits) -> Iterator[Create]:
    for of in flavors:
        for number in range(chance.randint(1, 2 if traits.is_tight else NODES_MAX)):
            yield _node(of, number, is_tight=traits.is_tight)


def _node(of: str, number: int, *, is_tight: bool) -> Create:
    cpu, gpus = (JOB_MAX, JOB_MAX) if is_tight else (ROOMY_CPU, ROOMY_GPUS)
    room = {"cpu": str(cpu), GPU: str(gpus), "memory": "64Gi", "pods": "110"}
    created = named(
        NODES,
        f"node-{of}-{number}",
        status={
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )
    created.document["metadata"]["labels"] = {"flavor": of}
    return created


def _check() -> list[Step]:
    """Somebody answers for it by and by."""
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "is there"}
    now = {"lastTransitionTime": "2023-11-14T22:13:20Z"}
    patch = {"status": {"conditions": [{**active, **now}]}}
    return [
        named(CHECKS, CHECK, spec={"controllerName": "makeway.dev/people"}),
        Change(CHECKS, CHECK, patch, "status"),
    ]


def _cohort(cohort: Cohort) -> Create:
    spec: Document = {"parentName": cohort.parent} if cohort.parent else {}
    if cohort.quotas:
        spec["resourceGroups"] = [group_of(cohort.quotas)]
    return named(COHORTS, cohort.name, spec=spec)


def _queue(maker: Worldmaker, queue: Queue, traits: Traits) -> Create:
    (group,) = queue.groups
    quotas = {
        FlavorResource(of.flavor, resource): quota
        for of in group.flavors
        for resource, quota in of.quotas.items()
    }
    has_ghost = traits.has_ghost and maker.chance(0.6)
    if has_ghost:
        first = group.flavors[0].quotas
        quotas = {**{FlavorResource(GHOST, r): quota for r, quota in first.items()}, **quotas}
    spec: Document = {
        "namespaceSelector": {},
        "queueingStrategy": queue.strategy.value,
        "resourceGroups": [group_of(quotas)],
        "preemption": _preemption(queue.preemption),
        "flavorFungibility": _fungibility(queue.fungibility),
    }
    # Who waits for pods gives up by and by; else only a rule takes anybody from the ghost.
    if has_ghost and (not traits.waits_for_pods or maker.chance(0.6)):
        spec["flavorFungibility"]["fallbackStrategy"] = _fallbacks(maker.rng, traits)
    if queue.cohort:
        spec["cohortName"] = queue.cohort
    if traits.is_fair:
        spec["fairSharing"] = {"weight": f"{queue.weight:g}"}
    if queue.checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    return named(QUEUES, queue.name, spec=spec)


def _fungibility(fungibility: Fungibility) -> Document:
    searches = fungibility.when_can_borrow, fungibility.when_can_preempt
    written: Document = dict(
        zip(("whenCanBorrow", "whenCanPreempt"), (s.value for s in searches), strict=True)
    )
    if fungibility.preference and set(searches) == {Search.TRY_NEXT}:
        written["preference"] = fungibility.preference.value
    return written


def _fallbacks(chance: Random, traits: Traits) -> Document:
    rules: list[Document] = [{"name": GHOST, "timeout": f"{chance.randint(20, 90)}s"}]
    if traits.has_checks and chance.random() < 0.5:
        rules.append({"name": "*", "trigger": "AdmissionCheckRejected"})
    policy = chance.choice(["DeactivateWorkload", "RetryAllFlavors"])
    return {"failurePolicy": policy, "rules": rules}


def _preemption(preemption: Preemption) -> Document:
    rules: Document = {
        "withinClusterQueue": preemption.within_queue.value,
        "reclaimWithinCohort": preemption.reclaim.value,
    }
    if preemption.borrow_while_reclaiming:
        rules["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if preemption.borrow_threshold is not None:
            rules["borrowWithinCohort"]["maxPriorityThreshold"] = preemption.borrow_threshold
    return rules


def group_of(quotas: Mapping[FlavorResource, Quota]) -> Document:
    flavors: dict[str, list[Document]] = {}
    for (flavor, resource), quota in quotas.items():
        written = {"name": resource, "nominalQuota": str(quota.nominal)}
        if quota.borrowing_limit is not None:
            written["borrowingLimit"] = str(quota.borrowing_limit)
        if quota.lending_limit is not None:
            written["lendingLimit"] = str(quota.lending_limit)
        flavors.setdefault(flavor, []).append(written)
    listed = [{"name": name, "resources": resources} for name, resources in flavors.items()]
    return {"coveredResources": list(RESOURCES), "flavors": listed}

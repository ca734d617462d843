"""What a world has to give: flavors, machines, queues, and who may say no."""

from __future__ import annotations

from collections.abc import Iterator
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
GHOST = "ghost"  # no node has its label
CHECK = "budget-office"
POD_CLASSES = {"pod-low": 1, "pod-middle": 5, "pod-high": 10}
QUOTA_MIN = JOB_MAX


def supply(chance: Random, size: Size, traits: Traits) -> tuple[list[Step], list[Create]]:
    """Everything that is there from the beginning, and the queues among it."""
    flavors = [f"flavor-{n}" for n in range(chance.randint(1, size.flavors_max))]
    names = [f"queue-{n}" for n in range(chance.randint(min(2, size.queues_max), size.queues_max))]
    cohorts = [f"cohort-{n}" for n in range(chance.randint(1, 2))]
    queues = [_queue(chance, name, cohorts, flavors, size.quota_max, traits) for name in names]
    objects: list[Step] = [
        *(flavor(name) for name in flavors),
        *([flavor(GHOST)] if traits.has_ghost else ()),
        *_nodes(chance, flavors, traits),
        *(named(WORKLOAD_CLASSES, name, value=value) for name, value in PRIORITIES.items()),
        *(named(PRIORITY_CLASSES, name, value=value) for name, value in POD_CLASSES.items()),
        *_cohorts(chance, cohorts, flavors),
        *(_check() if traits.has_checks else ()),
        *queues,
        *(named(LOCAL_QUEUES, name, spec={"clusterQueue": name}) for name in names),
    ]
    return objects, queues


def flavor(name: str) -> Create:
    return named(FLAVORS, name, spec={"nodeLabels": {"flavor": name}})


def _nodes(chance: Random, flavors: list[str], traits: Traits) -> Iterator[Create]:
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


def _cohorts(chance: Random, cohorts: list[str], flavors: list[str]) -> Iterator[Create]:
    """Some are only named by their queues; the others may hang below each other."""
    for number, name in enumerate(cohorts):
        if chance.random() < 0.5:
            continue
        spec: Document = {}
        if number and chance.random() < 0.5:
            spec["parentName"] = cohorts[chance.randrange(number)]
        if chance.random() < 0.3:
            spec["resourceGroups"] = [group(chance, flavors, 0, 4, has_limits=False)]
        yield named(COHORTS, name, spec=spec)


def _queue(
    chance: Random,
    name: str,
    cohorts: list[str],
    flavors: list[str],
    quota_max: int,
    traits: Traits,
) -> Create:
    own = flavors[: chance.randint(1, len(flavors))]
    chance.shuffle(own)
    if traits.has_ghost and chance.random() < 0.6:
        own.insert(0, GHOST)
    in_cohort = chance.random() < 0.9
    spec: Document = {
        "namespaceSelector": {},
        "queueingStrategy": chance.choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
        "resourceGroups": [group(chance, own, QUOTA_MIN, quota_max, has_limits=in_cohort)],
        "preemption": _preemption(chance, in_cohort),
    }
    if in_cohort:
        spec["cohortName"] = chance.choice(cohorts)
    if traits.is_fair:
        spec["fairSharing"] = {"weight": str(chance.choice([1, 1, 2]))}
    if traits.has_checks and chance.random() < 0.7:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    if len(own) > 1:
        spec["flavorFungibility"] = _fungibility(chance, own, traits)
    return named(QUEUES, name, spec=spec)


def _fungibility(chance: Random, own: list[str], traits: Traits) -> Document:
    fungibility: Document = {
        "whenCanBorrow": chance.choice(["MayStopSearch", "TryNextFlavor"]),
        "whenCanPreempt": chance.choice(["MayStopSearch", "TryNextFlavor"]),
    }
    # Who waits for pods gives up by and by; else only a rule takes anybody from the ghost.
    if GHOST in own and (not traits.waits_for_pods or chance.random() < 0.6):
        rules: list[Document] = [{"name": GHOST, "timeout": f"{chance.randint(20, 90)}s"}]
        if traits.has_checks and chance.random() < 0.5:
            rules.append({"name": "*", "trigger": "AdmissionCheckRejected"})
        fungibility["fallbackStrategy"] = {
            "failurePolicy": chance.choice(["DeactivateWorkload", "RetryAllFlavors"]),
            "rules": rules,
        }
    return fungibility


def group(chance: Random, flavors: list[str], low: int, high: int, *, has_limits: bool) -> Document:
    quotas = []
    for of in flavors:
        resources = []
        for resource in ("cpu", GPU):
            quota: Document = {"name": resource, "nominalQuota": str(chance.randint(low, high))}
            if has_limits and chance.random() < 0.2:
                quota["borrowingLimit"] = str(chance.randint(0, 8))
            if has_limits and chance.random() < 0.2:
                quota["lendingLimit"] = str(chance.randint(0, int(quota["nominalQuota"])))
            resources.append(quota)
        quotas.append({"name": of, "resources": resources})
    return {"coveredResources": ["cpu", GPU], "flavors": quotas}


def _preemption(chance: Random, in_cohort: bool) -> Document:
    reclaims = ["Never", "LowerPriority", "LowerPriority", "Any", "Any", "Any"]
    reclaim = chance.choice(reclaims) if in_cohort else "Never"
    withins = ["Never", *["LowerPriority"] * 4, *["LowerOrNewerEqualPriority"] * 2]
    within = chance.choice(withins)
    rules: Document = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if reclaim != "Never" and chance.random() < 0.4:
        rules["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if chance.random() < 0.5:
            rules["borrowWithinCohort"]["maxPriorityThreshold"] = chance.choice([-1, 5])
    return rules

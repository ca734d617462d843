"""Worlds made from a seed: queues and their quota, machines, jobs, and people who change things.

Machines are roomy, so that whatever quota admits also finds a place; what a job needs is never more
than its queue could have with nobody else around, unless a world is meant to contain that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from makeway.client.client import Resource
from makeway.client.resources import (
    COHORTS,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    QUEUES,
    WORKLOAD_CLASSES,
)
from tests.simulation.machine import Behaviour

Document = dict[str, Any]

NAMESPACE = "default"
PRIORITIES = {"low": -10, "middle": 0, "high": 10, "urgent": 1000}
NODES_MAX = 4  # of a flavor
NODE_CPU, NODE_GPUS = 16, 4
JOB_MAX = 4  # cpus, or GPUs, of all its pods: the least that a queue or a node has
GPU = "nvidia.com/gpu"


class Create(NamedTuple):
    resource: Resource
    document: Document


class Change(NamedTuple):
    resource: Resource
    name: str
    patch: Document


class Remove(NamedTuple):
    resource: Resource
    name: str


Step = Create | Change | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    seed: int
    objects: tuple[Create, ...]  # there before anything happens
    steps: tuple[tuple[float, Step], ...]  # by time in seconds
    storm_s: float  # how long the weather is bad

    @property
    def nodes(self) -> list[Document]:
        return [create.document for create in self.objects if create.resource == NODES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large worlds get."""

    queues_max: int = 5
    flavors_max: int = 3
    jobs_min: int = 5
    jobs_max: int = 25
    arrivals_s: float = 300.0
    edits_max: int = 4
    quota_max: int = 8  # cpus of a queue, per flavor; four at least
    storm_s: float = 200.0  # after the last arrival, at most
    gpu_share: float = 0.4  # of the jobs


TINY = Size(
    queues_max=2,
    flavors_max=1,
    jobs_min=2,
    jobs_max=5,
    arrivals_s=40.0,
    edits_max=1,
    quota_max=5,
    storm_s=60.0,
)
SMALL = Size(queues_max=2, flavors_max=1, jobs_max=8, arrivals_s=120.0, edits_max=2, quota_max=6)
MIDDLE = Size()
PLAIN = Size(jobs_max=20, edits_max=0, quota_max=12, gpu_share=0.0)  # no harder than toys
SIZES = {"tiny": TINY, "small": SMALL, "middle": MIDDLE}


def new_world(seed: int, size: Size = MIDDLE) -> World:
    chance = Random(f"world {seed}")
    flavors = [f"flavor-{n}" for n in range(chance.randint(1, size.flavors_max))]
    queues = [f"queue-{n}" for n in range(chance.randint(min(2, size.queues_max), size.queues_max))]
    cohorts = [f"cohort-{n}" for n in range(chance.randint(1, 3))]
    queue_objects = [_queue(chance, name, cohorts, flavors, size.quota_max) for name in queues]
    objects = (
        *(_flavor(name) for name in flavors),
        *(_node(flavor, n) for flavor in flavors for n in range(chance.randint(1, NODES_MAX))),
        *(_priority(name, value) for name, value in PRIORITIES.items()),
        *_cohorts(chance, cohorts, flavors),
        *queue_objects,
        *(_local_queue(name) for name in queues),
    )
    jobs = [f"job-{n}" for n in range(chance.randint(size.jobs_min, size.jobs_max))]
    steps: list[tuple[float, Step]] = [
        (round(chance.uniform(0, size.arrivals_s), 1), _job(chance, name, queues, size.gpu_share))
        for name in jobs
    ]
    for _ in range(chance.randint(0, size.edits_max)):
        steps += _edit(chance, queue_objects, flavors, jobs, size.arrivals_s)
    return World(
        seed=seed,
        objects=objects,
        steps=tuple(sorted(steps, key=lambda step: step[0])),
        storm_s=size.arrivals_s + chance.uniform(30.0, size.storm_s),
    )


# --- objects ---


def _named(resource: Resource, name: str, **rest: Any) -> Create:
    metadata: Document = {"name": name}
    if resource.is_namespaced:
        metadata["namespace"] = NAMESPACE
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return Create(resource, {**document, **rest})


def _flavor(name: str) -> Create:
    return _named(FLAVORS, name, spec={"nodeLabels": {"flavor": name}})


def _node(flavor: str, number: int) -> Create:
    room = {"cpu": str(NODE_CPU), GPU: str(NODE_GPUS), "memory": "64Gi", "pods": "110"}
    created = _named(
        NODES,
        f"node-{flavor}-{number}",
        status={
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )
    created.document["metadata"]["labels"] = {"flavor": flavor}
    return created


def _priority(name: str, value: int) -> Create:
    return _named(WORKLOAD_CLASSES, name, value=value)


def _local_queue(queue: str) -> Create:
    return _named(LOCAL_QUEUES, queue, spec={"clusterQueue": queue})


def _cohorts(chance: Random, cohorts: list[str], flavors: list[str]) -> Iterator[Create]:
    """Some are only named by their queues; the others may hang below each other."""
    for number, name in enumerate(cohorts):
        if chance.random() < 0.5:
            continue
        spec: Document = {}
        if number and chance.random() < 0.5:
            spec["parentName"] = cohorts[chance.randrange(number)]
        if chance.random() < 0.3:
            spec["resourceGroups"] = [_group(chance, flavors, 0, 6, has_limits=False)]
        yield _named(COHORTS, name, spec=spec)


def _queue(
    chance: Random, name: str, cohorts: list[str], flavors: list[str], quota_max: int
) -> Create:
    own = flavors[: chance.randint(1, len(flavors))]
    chance.shuffle(own)
    in_cohort = chance.random() < 0.85
    spec: Document = {
        "namespaceSelector": {},
        "queueingStrategy": chance.choice(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"]),
        "resourceGroups": [_group(chance, own, 4, quota_max, has_limits=in_cohort)],
        "preemption": _preemption(chance, in_cohort),
    }
    if in_cohort:
        spec["cohortName"] = chance.choice(cohorts)
    if len(own) > 1:
        spec["flavorFungibility"] = {
            "whenCanBorrow": chance.choice(["MayStopSearch", "TryNextFlavor"]),
            "whenCanPreempt": chance.choice(["MayStopSearch", "TryNextFlavor"]),
        }
    return _named(QUEUES, name, spec=spec)


def _group(
    chance: Random, flavors: list[str], low: int, high: int, *, has_limits: bool
) -> Document:
    quotas = []
    for flavor in flavors:
        resources = []
        for resource in ("cpu", GPU):
            quota: Document = {"name": resource, "nominalQuota": str(chance.randint(low, high))}
            if has_limits and chance.random() < 0.3:
                quota["borrowingLimit"] = str(chance.randint(0, 8))
            if has_limits and chance.random() < 0.3:
                quota["lendingLimit"] = str(chance.randint(0, int(quota["nominalQuota"])))
            resources.append(quota)
        quotas.append({"name": flavor, "resources": resources})
    return {"coveredResources": ["cpu", GPU], "flavors": quotas}


def _preemption(chance: Random, in_cohort: bool) -> Document:
    reclaim = chance.choice(["Never", "LowerPriority", "Any"]) if in_cohort else "Never"
    within = chance.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
    rules: Document = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
    if reclaim != "Never" and chance.random() < 0.3:
        rules["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if chance.random() < 0.5:
            rules["borrowWithinCohort"]["maxPriorityThreshold"] = chance.choice([-1, 5])
    return rules


def _job(chance: Random, name: str, queues: list[str], gpu_share: float) -> Create:
    pods = chance.choice([1, 1, 1, 2, 2, 4])
    requests = {"cpu": str(chance.randint(1, JOB_MAX // pods))}
    if chance.random() < gpu_share:
        requests[GPU] = str(chance.randint(1, JOB_MAX // pods))
    completions = pods * chance.choice([1, 1, 2])
    created = _named(
        JOBS,
        name,
        spec={
            "suspend": True,
            "parallelism": pods,
            "completions": completions,
            "completionMode": chance.choice(["NonIndexed", "Indexed"]),
            "backoffLimit": chance.randint(0, 2),
            "template": _template(chance, requests),
        },
    )
    created.document["metadata"]["labels"] = {
        "kueue.x-k8s.io/queue-name": chance.choice(queues),
        "kueue.x-k8s.io/priority-class": chance.choice(list(PRIORITIES)),
    }
    if pods > 1 and chance.random() < 0.3:
        least = {"kueue.x-k8s.io/job-min-parallelism": str(chance.randint(1, pods - 1))}
        created.document["metadata"]["annotations"] = least
    return created


def _template(chance: Random, requests: Mapping[str, str]) -> Document:
    behaviour = Behaviour(
        run_s=chance.randint(10, 120),
        exit_code=1 if chance.random() < 0.15 else 0,
        stop_s=chance.choice([0.5, 5, 100]),
    )
    container = {
        "name": "main",
        "image": "none",
        "command": behaviour.command(),
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    return {
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
        },
    }


# --- people ---


def _edit(
    chance: Random, queues: list[Create], flavors: list[str], jobs: list[str], until_s: float
) -> list[tuple[float, Step]]:
    at = round(chance.uniform(5, until_s), 1)
    later = at + round(chance.uniform(10, 90), 1)
    chosen, job = chance.choice(queues), chance.choice(jobs)
    queue = chosen.document["metadata"]["name"]
    match chance.choice(["hold", "drain", "delete", "priority", "flavor", "quota"]):
        case "hold":
            return _stopped(QUEUES, queue, "Hold", at, later)
        case "drain":
            return _stopped(QUEUES, queue, "HoldAndDrain", at, later)
        case "delete":
            return [(at, Remove(JOBS, job))]
        case "priority":
            label = {"kueue.x-k8s.io/priority-class": chance.choice(list(PRIORITIES))}
            return [(at, Change(JOBS, job, {"metadata": {"labels": label}}))]
        case "flavor":
            flavor = chance.choice(flavors)
            return [(at, Remove(FLAVORS, flavor)), (later, _flavor(flavor))]
        case _:
            (group,) = chosen.document["spec"]["resourceGroups"]
            names = [flavor["name"] for flavor in group["flavors"]]
            changed = _group(chance, names, 4, 16, has_limits=False)
            return [(at, Change(QUEUES, queue, {"spec": {"resourceGroups": [changed]}}))]


def _stopped(
    resource: Resource, name: str, policy: str, at: float, later: float
) -> list[tuple[float, Step]]:
    return [
        (at, Change(resource, name, {"spec": {"stopPolicy": policy}})),
        (later, Change(resource, name, {"spec": {"stopPolicy": "None"}})),
    ]

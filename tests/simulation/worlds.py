"""Worlds made from a seed: queues and their quota, machines, jobs, and people who change things.

What a job needs is never more than its queue and the machines could give it with nobody else
around, unless a world is meant to contain that. Every world has a few traits besides; each of them
brings in something that goes its own way, so that all pairs of them meet in some world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from random import Random
from typing import Any, NamedTuple

from makeway.api.configuration import (
    Configuration,
    FairSharingConfiguration,
    RequeueStrategy,
    RequeueTimestamp,
    RequeuingStrategy,
    WaitForPodsReady,
)
from makeway.api.kinds import NODES, Resource

Document = dict[str, Any]

NAMESPACE = "default"
PRIORITIES = {"low": -10, "middle": 0, "high": 10, "urgent": 1000}
JOB_MAX = 4  # cpus, or GPUs, of all its pods: the least that a queue or a node has
GPU = "nvidia.com/gpu"


class Create(NamedTuple):
    resource: Resource
    document: Document


class Change(NamedTuple):
    resource: Resource
    name: str
    patch: Document
    subresource: str = ""


class Remove(NamedTuple):
    resource: Resource
    name: str


Step = Create | Change | Remove
Steps = list[tuple[float, Step]]  # by time in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    is_tight: bool = False  # machines have less than the queues, and pods have priorities
    has_ghost: bool = False  # a flavor of which there is no node
    waits_for_pods: bool = False
    has_checks: bool = False
    is_fair: bool = False
    has_gangs: bool = False  # that no queue knows of
    has_loose_pods: bool = False  # in queues, without a job
    has_budgets: bool = False
    is_split: bool = False  # who decides runs apart from the machines, and may be there twice


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    seed: int
    traits: Traits
    configuration: Configuration
    objects: tuple[Step, ...]  # there before anything happens
    steps: tuple[tuple[float, Step], ...]
    faults_s: float  # how long faults happen

    @property
    def nodes(self) -> list[Document]:
        creates = [step for step in self.objects if isinstance(step, Create)]
        return [create.document for create in creates if create.resource == NODES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large worlds get."""

    queues_max: int = 5
    flavors_max: int = 3
    jobs_min: int = 8
    jobs_max: int = 30
    arrivals_s: float = 300.0
    edits_max: int = 4
    quota_max: int = 6  # cpus of a queue, per flavor; four at least
    faults_s: float = 200.0  # after the last arrival, at most
    gpu_share: float = 0.4  # of the jobs
    variety: float = 0.25  # how likely each trait is


TINY = Size(
    queues_max=2,
    flavors_max=1,
    jobs_min=3,
    jobs_max=7,
    arrivals_s=40.0,
    edits_max=1,
    quota_max=5,
    faults_s=60.0,
    gpu_share=0.2,
)
SMALL = Size(queues_max=3, flavors_max=2, jobs_max=12, arrivals_s=120.0, edits_max=2, quota_max=5)
MIDDLE = Size()
SIZES = {"tiny": TINY, "small": SMALL, "middle": MIDDLE}


def new_traits(chance: Random, variety: float) -> Traits:
    return Traits(**{field.name: chance.random() < variety for field in fields(Traits)})


def new_configuration(chance: Random, traits: Traits) -> Configuration:
    times: tuple[RequeueTimestamp, ...] = ("UseEvictionTimestamp", "UseCreationTimestamp")
    requeue = RequeueStrategy(
        priority_preemption=chance.choice(times),
        pods_ready_timeout=chance.choice(times),
    )
    waiting = WaitForPodsReady(
        timeout=float(chance.randint(30, 90)),
        block_admission=chance.random() < 0.3,
        recovery_timeout=chance.choice([None, 0.0, 60.0]),
        requeuing_strategy=RequeuingStrategy(
            backoff_base_seconds=chance.choice([1, 10]),
            backoff_max_seconds=60,
            backoff_limit_count=chance.randint(0, 3),
        ),
    )
    return Configuration(
        requeue_strategy=requeue,
        wait_for_pods_ready=waiting if traits.waits_for_pods else None,
        fair_sharing=FairSharingConfiguration() if traits.is_fair else None,
    )


def named(resource: Resource, name: str, **rest: Any) -> Create:
    metadata: Document = {"name": name}
    if resource.is_namespaced:
        metadata["namespace"] = NAMESPACE
    document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return Create(resource, {**document, **rest})


def name_in(create: Create) -> str:
    return str(create.document["metadata"]["name"])


def moments(chance: Random, until_s: float) -> Iterator[float]:
    """Some come in a throng, the others one by one."""
    throng_at = chance.uniform(0, until_s)
    while True:
        is_in_throng = chance.random() < 0.4
        yield round(throng_at if is_in_throng else chance.uniform(0, until_s), 1)

"""Generator files in the form of Kueue's performance tests: queues and jobs made by recipe.

cohorts:
- className: cohort
  count: 5                        # as many cohorts
  queuesSets:
  - className: cq
    count: 6                      # with as many queues each
    nominalQuota: 20
    borrowingLimit: 100
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 350                  # as many of each of these, one every 100 ms
      creationIntervalMs: 100
      workloads:
      - {className: small, runtimeMs: 200, priority: 50, request: 1}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from makeway.api import quantity
from makeway.api.codec import decode_unconverted
from makeway.api.manifests import read_manifests
from makeway.sim.trace_jobs import (
    CPUS,
    FilePosition,
    SimulationError,
    Trace,
    TraceJob,
    in_order,
    position_of,
)

FLAVOR = "rf"
RESOURCE = "cpu"
MS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTemplate:
    class_name: str
    runtime_ms: int
    priority: int = 0
    request: int | str = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadsSet:
    count: int
    creation_interval_ms: int = 0
    workloads: tuple[WorkloadTemplate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesSet:
    class_name: str
    count: int = 1
    nominal_quota: int | str = 0
    borrowing_limit: int | str | None = None
    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    workloads_sets: tuple[WorkloadsSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSet:
    class_name: str
    count: int = 1
    queues_sets: tuple[QueuesSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    API_VERSION: ClassVar[str] = "makeway.dev/v1alpha1"
    KIND: ClassVar[str] = "Generator"

    cohorts: tuple[CohortSet, ...]


def read_generator(text: str, source: str) -> Trace:
    """Make the jobs of a generator file, and the queue objects that go with them."""
    if text.lstrip().startswith("-"):  # files of older versions are the list of cohorts
        text = "cohorts:\n" + text
    found = read_manifests(text, source)
    for trouble in found.troubles:
        raise SimulationError(f"{position_of(trouble.position)}: {trouble.error}")
    if len(found.manifests) != 1 or "cohorts" not in found.manifests[0].document:
        raise SimulationError(
            f"{FilePosition(source, 1, 1)}: this is no generator file; it begins with cohorts:"
            " (queue objects go to -f)"
        )
    manifest = found.manifests[0]
    decoded = decode_unconverted(Generator, manifest.document)
    for error in decoded.errors:
        raise SimulationError(f"{position_of(manifest.locate(error.path))}: {error}")
    assert decoded.object is not None
    try:
        jobs = in_order(_jobs(decoded.object))
        manifests = tuple(_manifests(decoded.object))
    except quantity.QuantityError as error:
        raise SimulationError(
            f"{position_of(manifest.position)}: {error} is not a quantity"
        ) from None
    if not jobs:
        raise SimulationError(f"{position_of(manifest.position)}: this file makes no jobs")
    return Trace(source=source, layout="generator", jobs=jobs, rows=len(jobs), manifests=manifests)


def _queues(generator: Generator) -> Iterator[tuple[str, str, QueuesSet]]:
    """Cohort, name and recipe of every queue."""
    for cohorts in generator.cohorts:
        for i in range(cohorts.count):
            cohort = f"{cohorts.class_name}-{i}"
            for queues in cohorts.queues_sets:
                for j in range(queues.count):
                    yield cohort, f"{cohort}-{queues.class_name}-{j}", queues


def _jobs(generator: Generator) -> Iterator[TraceJob]:
    """Each set makes one job per interval, its templates in turn; the first after one interval."""
    for _, queue, queues in _queues(generator):
        for k, recipe in enumerate(queues.workloads_sets):
            at_s, interval_s = 0.0, recipe.creation_interval_ms * MS
            for i in range(recipe.count):
                for t, template in enumerate(recipe.workloads):
                    at_s = (i * len(recipe.workloads) + t + 1) * interval_s
                    amount = quantity.amount(RESOURCE, template.request)
                    yield TraceJob(
                        name=f"{queue}-{template.class_name}-{k}-{i}-{t}",
                        queue=queue,
                        submit_s=at_s,
                        run_s=template.runtime_ms * MS,
                        amounts=((CPUS, amount),),
                        priority=str(template.priority),
                    )


def _manifests(generator: Generator) -> Iterator[dict[str, object]]:
    api_version = "kueue.x-k8s.io/v1beta2"
    yield {"apiVersion": api_version, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    for cohort, name, recipe in _queues(generator):
        quota: dict[str, object] = {"name": RESOURCE, "nominalQuota": recipe.nominal_quota}
        if recipe.borrowing_limit is not None:
            quota["borrowingLimit"] = recipe.borrowing_limit
        flavors = [{"name": FLAVOR, "resources": [quota]}]
        yield {
            "apiVersion": api_version,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {
                "cohortName": cohort,
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": [RESOURCE], "flavors": flavors}],
                "preemption": {
                    "reclaimWithinCohort": recipe.reclaim_within_cohort,
                    "withinClusterQueue": recipe.within_cluster_queue,
                },
            },
        }

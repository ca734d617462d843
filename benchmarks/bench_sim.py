"""Simulated events per CPU second, by length of the trace: real jobs, then Poisson arrivals.

The Philly jobs (design section 14) run on 600 GPUs in two flavors; each of the 15 virtual clusters
owns quota by its past use, all are one cohort, and preemption is on, so that thousands wait at
times. `--quick` takes the first tenth of everything.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from makeway.sim.cluster import SimulatedCluster, parse_cluster
from makeway.sim.page import render_page
from makeway.sim.report import as_json
from makeway.sim.simulate import simulate
from makeway.sim.trace_jobs import GPUS, Trace, TraceJob
from makeway.sim.traces import read_trace

SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"
PHILLY = SHARED / "philly.csv.gz"
NASA = SHARED / "NASA-iPSC-1993-3.1-cln.swf.gz"
FLAVORS = {"p100": 400, "m40": 200}
QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: "{name}"}}
spec:
  cohortName: all
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: ["{resource}"]
    flavors: [{flavors}]
  preemption: {{reclaimWithinCohort: {reclaim}, withinClusterQueue: LowerPriority}}
"""
FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {{name: {name}}}\n"


class Row(NamedTuple):
    case: str
    jobs: int
    events: int
    cpu_s: float
    memory_mb: float
    waiting: int  # at most, in one queue

    @property
    def events_per_s(self) -> float:
        return self.events / self.cpu_s


def cluster_of(
    resource_name: str,
    quotas: dict[str, dict[str, int]],
    reclaim: str = "Any",  # and what else is written after that
) -> SimulatedCluster:
    flavors = dict.fromkeys(flavor for quota in quotas.values() for flavor in quota)
    documents = [FLAVOR.format(name=flavor) for flavor in flavors]
    for name, quota in sorted(quotas.items()):
        lines = ", ".join(
            f'{{name: {flavor}, resources: [{{name: "{resource_name}", nominalQuota: {amount}}}]}}'
            for flavor, amount in quota.items()
        )
        documents.append(
            QUEUE.format(name=name, resource=resource_name, flavors=lines, reclaim=reclaim)
        )
    return parse_cluster("---\n".join(documents), "benchmark")


def philly_cluster(trace: Trace, reclaim: str = "Any") -> SimulatedCluster:
    """Quota by past use, 600 GPUs in all but for rounding."""
    used: dict[str, float] = {}
    for job in trace.jobs:
        used[job.queue] = used.get(job.queue, 0.0) + job.run_s * dict(job.amounts)[GPUS]
    total = sum(used.values())
    return cluster_of(
        "nvidia.com/gpu",
        {
            name: {flavor: round(amount * share / total) for flavor, amount in FLAVORS.items()}
            for name, share in used.items()
        },
        reclaim,
    )


def philly(jobs: int | None) -> Row:
    trace = read_trace(PHILLY)
    cluster = philly_cluster(trace)  # of the whole log, so that all rows have the same
    return measure("Philly, 600 GPUs, preemption", cluster, trace, jobs)


def nasa(jobs: int | None) -> Row:
    trace = read_trace(NASA)
    cluster = cluster_of("cpu", {"main": {"nodes": 96}})
    return measure("NASA, 96 nodes", cluster, trace, jobs, queue="main")


def poisson(jobs: int) -> Row:
    """One queue, 100 places, 95 % in use."""
    source, at = Random(1), 0.0
    made = []
    for i in range(jobs):
        at += source.expovariate(0.95)
        amounts = ((GPUS, 1),)
        made.append(TraceJob(f"job-{i}", "main", at, source.expovariate(0.01), amounts))
    trace = Trace(source="poisson", layout="made", jobs=tuple(made), rows=jobs)
    cluster = cluster_of("nvidia.com/gpu", {"main": {"a100": 100}})
    return measure("Poisson arrivals, one queue", cluster, trace, None)


def measure(
    case: str, cluster: SimulatedCluster, trace: Trace, jobs: int | None, queue: str | None = None
) -> Row:
    start = time.process_time()
    result = simulate(cluster, trace, jobs=jobs, queue=queue)
    cpu_s = time.process_time() - start
    as_json(result)
    render_page(result)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    waiting = max(steps.peak(result.end) for steps in result.record.waiting.values())
    return Row(case, len(result.runs), result.record.steps, cpu_s, peak_mb, waiting)


def rows(is_quick: bool) -> Iterator[Row]:
    """Each in a process of its own, so that memory is its own too."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for jobs in (1_000, 10_000) if is_quick else (8_000, 80_000):
            yield pool.apply(poisson, (jobs,))
        if NASA.exists():
            yield pool.apply(nasa, (1_800 if is_quick else None,))
        if PHILLY.exists():
            for count in (800, 8_000) if is_quick else (8_000, None):
                yield pool.apply(philly, (count,))


def main(arguments: Sequence[str] = ()) -> None:
    print("simulation: events (arrivals, starts, ends, evictions) per CPU second")
    columns = ("jobs", "events", "most waiting", "CPU s", "events/s", "MB with report")
    print(f"  {'case':<30}" + "".join(f"{c:>16}" for c in columns))
    for row in rows("--quick" in arguments):
        figures = (
            *(f"{row.jobs}", f"{row.events}", f"{row.waiting}", f"{row.cpu_s:.1f}"),
            *(f"{row.events_per_s:.0f}", f"{row.memory_mb:.0f}"),
        )
        print(f"  {row.case:<30}" + "".join(f"{f:>16}" for f in figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

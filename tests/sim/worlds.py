"""Small worlds in few words: queues as YAML text, jobs as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from makeway.sim import Result, simulate
from makeway.sim.cluster import SimulatedCluster, parse_cluster
from makeway.sim.record import JobRun
from makeway.sim.trace_jobs import GPUS, Trace, TraceJob

MINUTE, HOUR = 60.0, 3600.0


def flavor(name: str) -> str:
    return f"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: {name}}}
"""


def queue(name: str, *, cohort: str = "", more: str = "", **gpus: int) -> str:
    """A queue with so many GPUs of each flavor."""
    flavors = "".join(
        f"\n    - {{name: {flavor}, resources: [{{name: nvidia.com/gpu, nominalQuota: {gpu}}}]}}"
        for flavor, gpu in gpus.items()
    )
    spec = f"  cohortName: {cohort}\n" if cohort else ""
    return f"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
{spec}  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:{flavors}
{more}"""


def settings(spec: str) -> str:
    return f"apiVersion: makeway.dev/v1alpha1\nkind: Simulation\nspec: {{{spec}}}\n"


def cluster(*documents: str) -> SimulatedCluster:
    return parse_cluster("---\n".join(documents), "test.yaml")


def job(
    name: str,
    at: float = 0.0,
    run: float = MINUTE,
    gpus: int = 1,
    on: str = "",
    priority: int = 0,
    cancel: float | None = None,
    checkpoint: float | None = None,
) -> TraceJob:
    return TraceJob(
        name=name,
        queue=on,
        submit_s=at,
        run_s=run,
        amounts=((GPUS, gpus),),
        priority=str(priority),
        cancel_s=cancel,
        checkpoint_s=checkpoint,
    )


def trace(jobs: Iterable[TraceJob]) -> Trace:
    in_order = tuple(sorted(jobs, key=lambda job: job.submit_s))
    return Trace(source="test", layout="test", jobs=in_order, rows=len(in_order))


def play(
    documents: Sequence[str], *jobs: TraceJob, seed: int = 0, until: float | None = None
) -> Result:
    names = [job.name for job in jobs]
    return simulate(cluster(*documents), trace(jobs), seed=seed, until=until, explain=names[:50])


def run(result: Result, name: str) -> JobRun:
    return result.job(name)


def told(result: Result, name: str) -> list[str]:
    """What happened to a job, in a word each."""
    story = result.job(name).story
    assert story is not None
    return [getattr(m.what, "what", type(m.what).__name__) for m in story]

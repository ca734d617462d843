"""A queue configuration proposed from a trace: what is in it, and what would have sufficed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from makeway.api.quantity import format_amount
from makeway.sim.cluster import as_name
from makeway.sim.demand import RESOURCES
from makeway.sim.record import Steps
from makeway.sim.spans import short_span
from makeway.sim.statistics import together
from makeway.sim.trace_jobs import SimulationError, Trace, TraceJob

FLAVOR = "default"
COHORT = "all"


def propose(trace: Trace, share: float, queue: str | None = None) -> str:
    """YAML with one queue per queue of the trace, each with the quota that would have sufficed
    for `share` of the time in which it had work, had every job started at once.
    """
    if not 0 < share <= 1:
        raise SimulationError(f"--share {share}: write a share between 0 and 1, for example 0.95")
    by_queue: dict[str, list[TraceJob]] = {}
    for job in trace.jobs:
        by_queue.setdefault(job.queue or queue or "main", []).append(job)
    return "---\n".join(_documents(trace, by_queue, share))


def _documents(trace: Trace, by_queue: Mapping[str, list[TraceJob]], share: float) -> Iterator[str]:
    span_s = max(job.submit_s + job.run_s for job in trace.jobs)
    words = sorted({word for job in trace.jobs for word, _ in job.amounts})
    quotas = {
        name: {w: _sufficient(jobs, w, share) for w in words} for name, jobs in by_queue.items()
    }
    used = [word for word in words if any(quotas[name][word] for name in quotas)]
    yield (
        f"# Proposed by makeway simulate init from {trace.source}:\n"
        f"# {len(trace.jobs)} jobs over {short_span(span_s)} in {len(by_queue)} queues.\n"
        f"# Each queue owns what would have sufficed for {100 * share:g} % of the time in which\n"
        "# it had work, had every job started at once. All queues lend to each other what they\n"
        "# don't use. Edit this file, then: makeway simulate -f FILE --trace ...\n"
        "apiVersion: kueue.x-k8s.io/v1beta2\n"
        "kind: ResourceFlavor\n"
        f"metadata: {{name: {FLAVOR}}}\n"
    )
    for name, jobs in sorted(by_queue.items()):
        yield _queue(name, jobs, {word: quotas[name][word] for word in used})


def _queue(name: str, jobs: list[TraceJob], quotas: Mapping[str, int]) -> str:
    resources = {RESOURCES.get(word, word): (word, amount) for word, amount in quotas.items()}
    lines = []
    for resource, (word, amount) in resources.items():
        most = max((dict(job.amounts).get(word, 0) for job in jobs), default=0)
        peak = _sufficient(jobs, word, 1.0)
        lines.append(
            f'      - {{name: {resource}, nominalQuota: "{format_amount(resource, amount)}"}}'
            f"  # peak {format_amount(resource, peak)},"
            f" biggest job {format_amount(resource, most)}"
        )
    covered = ", ".join(resources)
    return (
        f"# {len(jobs)} jobs\n"
        "apiVersion: kueue.x-k8s.io/v1beta2\n"
        "kind: ClusterQueue\n"
        f'metadata: {{name: "{as_name(name)}"}}\n'
        "spec:\n"
        f"  cohortName: {COHORT}\n"
        "  namespaceSelector: {}\n"
        "  resourceGroups:\n"
        f"  - coveredResources: [{covered}]\n"
        "    flavors:\n"
        f"    - name: {FLAVOR}\n"
        "      resources:\n" + "\n".join(lines) + "\n"
        "  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}\n"
    )


def _sufficient(jobs: list[TraceJob], word: str, share: float) -> int:
    """The least amount that covers this share of the time in which any is wanted."""
    steps = wanted(jobs, word)
    time_at: dict[int, float] = {}
    for start, end, (value,) in together([steps], steps.times[-1] if steps.times else 0.0):
        if value:
            time_at[value] = time_at.get(value, 0.0) + end - start
    covered_s, wanted_s = 0.0, share * sum(time_at.values())
    for value in sorted(time_at):
        covered_s += time_at[value]
        if covered_s >= wanted_s * (1 - 1e-12):
            return value
    return max((dict(job.amounts).get(word, 0) for job in jobs), default=0)


def wanted(jobs: list[TraceJob], word: str) -> Steps:
    """What jobs would hold over time if every one of them started at once."""
    changes: list[tuple[float, int]] = []
    for job in jobs:
        amount = dict(job.amounts).get(word, 0)
        if amount and job.run_s > 0:
            changes.append((job.submit_s, amount))
            changes.append((job.submit_s + job.run_s, -amount))
    steps = Steps()
    for at, change in sorted(changes):
        steps.add(at, change)
    return steps

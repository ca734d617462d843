"""A queue configuration proposed from a trace: what is in it, and what would have sufficed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from makeway.api.quantity import format_amount
from makeway.sim.cluster import as_name
from makeway.sim.demand import RESOURCES
from makeway.sim.record import Steps
from makeway.sim.spans import short_span
from makeway.sim.statistics import together
from makeway.sim.trace_jobs import SimulationError, Trace, TraceJob

FLAVOR = "default"
COHORT = "all"
Jobs = Sequence[TraceJob]


def propose(trace: Trace, share: float, queue: str | None = None) -> str:
    """YAML with one queue per queue of the trace and one flavor per flavor that its jobs name, each
    with the quota that would have sufficed for `share` of the time in which it had work, had every
    job started at once.
    """
    if not 0 < share <= 1:
        raise SimulationError(f"--share {share}: write a share between 0 and 1, for example 0.95")
    by_queue: dict[str, list[TraceJob]] = {}
    for job in trace.jobs:
        by_queue.setdefault(as_name(job.queue or queue or "main"), []).append(job)
    return "---\n".join(_documents(trace, by_queue, share))


def _documents(trace: Trace, by_queue: Mapping[str, Jobs], share: float) -> Iterator[str]:
    span_s = max(job.submit_s + job.run_s for job in trace.jobs)
    flavors = _flavors(trace)
    number = "1 queue" if len(by_queue) == 1 else f"{len(by_queue)} queues"
    head = (
        f"# Proposed by makeway simulate init from {trace.source}:\n"
        f"# {len(trace.jobs)} jobs over {short_span(span_s)} in {number}.\n"
        + "".join(f"# {line}\n" for line in _remarks(trace, by_queue))
        + f"# Each queue owns what would have sufficed for {100 * share:g} % of the time in which\n"
        "# it had work, had every job started at once. All queues lend to each other\n"
        "# what they don't use. Edit this file, then:\n"
        "# makeway simulate -f FILE --trace ...\n"
    )
    for flavor in flavors:
        yield (
            f"{head}apiVersion: kueue.x-k8s.io/v1beta2\n"
            "kind: ResourceFlavor\n"
            f'metadata: {{name: "{flavor}"}}\n'
        )
        head = ""
    words = sorted({word for job in trace.jobs for word, _ in job.amounts})
    used = [
        word for word in words if any(_sufficient(jobs, word, share) for jobs in by_queue.values())
    ]
    for name, jobs in sorted(by_queue.items()):
        yield _queue(name, _by_flavor(jobs, flavors), used, share)


def _remarks(trace: Trace, by_queue: Mapping[str, Jobs]) -> Iterator[str]:
    """What a reader of the proposal has to know about the trace."""
    for sentence in trace.warnings:
        yield f"WARNING: {sentence}"
    for oddity in trace.oddities:
        examples = (
            f" ({'; '.join(oddity.examples)})" if oddity.is_left_out and oddity.examples else ""
        )
        verb = "left out" if oddity.is_left_out else "noted"
        yield f"{verb}: {oddity.count} {oddity.what}{examples}"
    users = len({job.user for job in trace.jobs if job.user})
    if len(by_queue) == 1 and users > 1:
        yield f"One queue and {users} users: --map queue=COLUMN could tell them apart."


def _flavors(trace: Trace) -> list[str]:
    """Those that most jobs need come first, so that jobs without a wish get them."""
    counts = Counter(as_name(job.flavors[0]) for job in trace.jobs if job.flavors)
    return [name for name, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))] or [
        FLAVOR
    ]


def _by_flavor(jobs: Jobs, flavors: Sequence[str]) -> dict[str, list[TraceJob]]:
    """Each job counts for the first flavor that it may run on."""
    found: dict[str, list[TraceJob]] = {flavor: [] for flavor in flavors}
    for job in jobs:
        found[as_name(job.flavors[0]) if job.flavors else flavors[0]].append(job)
    return {flavor: own for flavor, own in found.items() if own}


def _queue(name: str, by_flavor: Mapping[str, Jobs], words: Sequence[str], share: float) -> str:
    resources = {RESOURCES.get(word, word): word for word in words}
    number = sum(len(jobs) for jobs in by_flavor.values())
    return (
        f"# {number} jobs\n"
        "apiVersion: kueue.x-k8s.io/v1beta2\n"
        "kind: ClusterQueue\n"
        f'metadata: {{name: "{name}"}}\n'
        "spec:\n"
        f"  cohortName: {COHORT}\n"
        "  namespaceSelector: {}\n"
        "  resourceGroups:\n"
        f"  - coveredResources: [{', '.join(resources)}]\n"
        "    flavors:\n"
        + "".join(_quotas(flavor, jobs, resources, share) for flavor, jobs in by_flavor.items())
        + "  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}\n"
    )


def _quotas(flavor: str, jobs: Jobs, resources: Mapping[str, str], share: float) -> str:
    lines = []
    for resource, word in resources.items():
        own = format_amount(resource, _sufficient(jobs, word, share))
        peak = format_amount(resource, _sufficient(jobs, word, 1.0))
        most = max((dict(job.amounts).get(word, 0) for job in jobs), default=0)
        lines.append(
            f'      - {{name: {resource}, nominalQuota: "{own}"}}'
            f"  # peak {peak}, biggest job {format_amount(resource, most)}\n"
        )
    return f'    - name: "{flavor}"\n      resources:\n' + "".join(lines)


def _sufficient(jobs: Jobs, word: str, share: float) -> int:
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


def wanted(jobs: Jobs, word: str) -> Steps:
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

"""Units that are surely wrong: nobody has a trace of 300 years."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from makeway.sim.layouts import RUN, SUBMIT, TraceColumn
from makeway.sim.spans import short_span
from makeway.sim.trace_jobs import CPUS, MEMORY, TraceJob

SPAN_MAX_S = 3 * 365 * 86_400.0
RUN_MAX_S = 30 * 86_400.0
MEMORY_LEAST = 1_000_000  # bytes
CPUS_MOST = 10_000_000  # thousandths


def implausible(jobs: Sequence[TraceJob], columns: Mapping[str, TraceColumn]) -> Iterator[str]:
    """A sentence for each, with the mapping that would mend it."""

    def hint(field: str, factor: str) -> str:
        return f"--map {field}={columns[field].name}*{factor}" if field in columns else "--map"

    span_s = jobs[-1].submit_s - jobs[0].submit_s
    if span_s > SPAN_MAX_S:
        yield (
            f"submissions span {span_s / 86_400 / 365:.0f} years: perhaps they are no seconds, but"
            f" milliseconds ({hint(SUBMIT, '0.001')}) or microseconds ({hint(SUBMIT, '0.000001')})"
        )
    typical_s = median(job.run_s for job in jobs)
    if typical_s > RUN_MAX_S:
        yield (
            f"half of the jobs run longer than {short_span(typical_s)}: perhaps that is in"
            f" milliseconds ({hint(RUN, '0.001')})"
        )
    amounts = [dict(job.amounts) for job in jobs]
    memory = [own[MEMORY] for own in amounts if MEMORY in own]
    if memory and median(memory) < MEMORY_LEAST:
        yield (
            f"half of the jobs ask for {median(memory):.0f} bytes of memory or less: perhaps it is"
            f" MiB ({hint(MEMORY, '1048576')}) or GiB ({hint(MEMORY, '1073741824')})"
        )
    cpus = [own[CPUS] for own in amounts if CPUS in own]
    if cpus and median(cpus) > CPUS_MOST:
        yield (
            f"half of the jobs ask for {median(cpus) / 1000:.0f} CPUs or more: perhaps that is"
            f" thousandths ({hint(CPUS, '0.001')})"
        )

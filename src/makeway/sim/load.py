"""Another load: more or fewer jobs, and traces drawn from a trace.

More load is more jobs, not a faster clock: nights stay nights. Every draw has the name of its job,
so what comes at 1.2 times the load also comes at 1.5 times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from makeway.sim.cluster import as_name
from makeway.sim.seeded_random import SeededRandom
from makeway.sim.trace_jobs import SimulationError, Trace, TraceJob, in_order

COPY_WITHIN_S = 3600.0  # a copy comes within so much time of its original


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    scale: float = 1.0  # for every queue
    growth: Mapping[str, float] = field(default_factory=dict)  # by queue, on top of that
    bootstrap_s: float | None = None  # the length of the blocks that are drawn; None: a replay

    @property
    def is_recorded(self) -> bool:
        return self.scale == 1.0 and not self.growth and self.bootstrap_s is None

    def applied(self, trace: Trace, seed: int) -> Trace:
        """The trace under this load; the same seed gives the same jobs."""
        if self.is_recorded:
            return trace
        random, recorded = SeededRandom(seed), len(trace.jobs)
        if self.bootstrap_s is not None:
            trace = replace(trace, jobs=in_order(_drawn(trace, self.bootstrap_s, random)))
        self._check_names(trace)
        jobs = (copy for job in trace.jobs for copy in self._copies(job, random))
        return replace(trace, jobs=in_order(jobs), drawn_from=recorded)

    def _check_names(self, trace: Trace) -> None:
        known = {as_name(job.queue) for job in trace.jobs}
        for name in self.growth:
            if as_name(name) not in known:
                there = ", ".join(sorted(known))
                raise SimulationError(f"load of queue {name}: the trace has only {there}")

    def _copies(self, job: TraceJob, random: SeededRandom) -> Iterator[TraceJob]:
        factor = self.scale
        for name, growth in self.growth.items():
            if as_name(name) == as_name(job.queue):
                factor *= growth
        draws = random.named("load", job.name)
        number = int(factor) + (draws.random() < factor % 1)
        for copy in range(number):
            yield job if copy == 0 else _copy(job, copy + 1, draws.uniform(0, COPY_WITHIN_S))


def _copy(job: TraceJob, number: int, later_s: float) -> TraceJob:
    """Jobs that follow upon others follow upon the originals."""
    cancel_s = None if job.cancel_s is None else job.cancel_s + later_s
    name = f"{job.name}~{number}"
    return job._replace(name=name, submit_s=job.submit_s + later_s, cancel_s=cancel_s)


def _drawn(trace: Trace, block_s: float, random: SeededRandom) -> Iterator[TraceJob]:
    """As many blocks as the trace has, drawn from it with replacement."""
    last = trace.jobs[-1].submit_s
    count = ceil(last / block_s) if last else 0
    if count < 2:
        raise SimulationError(
            f"--bootstrap: the jobs come within {last:.0f} s, that is not two blocks of"
            f" {block_s:.0f} s to draw from"
        )
    blocks: list[list[TraceJob]] = [[] for _ in range(count)]
    for job in trace.jobs:
        blocks[min(int(job.submit_s / block_s), count - 1)].append(job)
    draws = random.named("bootstrap")
    for place in range(count):
        drawn = draws.randrange(count)
        names = {job.name for job in blocks[drawn]}
        for job in blocks[drawn]:
            after = tuple(f"{name}@{place}" for name in job.after if name in names)
            yield _moved(job, place, (place - drawn) * block_s)._replace(after=after)


def _moved(job: TraceJob, place: int, by_s: float) -> TraceJob:
    cancel_s = None if job.cancel_s is None else job.cancel_s + by_s
    name = f"{job.name}@{place}"
    return job._replace(name=name, submit_s=job.submit_s + by_s, cancel_s=cancel_s)

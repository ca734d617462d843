"""Which flavors a job of a trace may run on, as constraints that the engine understands."""

from __future__ import annotations

from makeway.engine.matching import UNCONSTRAINED, Constraints
from makeway.engine.model import FlavorName
from makeway.selectors import Requirement
from makeway.sim.cluster import FLAVOR_LABEL, SimulatedCluster
from makeway.sim.trace_jobs import Oddity, Trace, TraceJob

WORDS_NAMED = 3


class AllowedFlavors:
    def __init__(self, cluster: SimulatedCluster, trace: Trace, main_resource: str) -> None:
        words = dict.fromkeys(word for job in trace.jobs for word in job.flavors)
        in_use = {cell.flavor for cell in cluster.cells() if cell.resource == main_resource}
        self._named: dict[str, tuple[FlavorName, ...]] = {
            word: tuple(name for name in cluster.flavors_named(word) if name in in_use)
            for word in words
        }
        self.is_told_apart = any(self._named.values())
        # What has nothing to do with the main resource is free for all: where CPUs come from.
        self._others = tuple(
            flavor.flavor
            for queue in cluster.queues.values()
            for group in queue.groups
            for flavor in group.flavors
            if not any(resource == main_resource for resource in flavor.quotas)
        )
        self._trace = trace

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        """Jobs name flavors, and none of those is configured: all of them run anywhere."""
        if self.is_told_apart or not self._named:
            return ()
        some = ", ".join([*self._named][:WORDS_NAMED])
        more = " ..." if len(self._named) > WORDS_NAMED else ""
        what = f"jobs need flavors ({some}{more}) of which none is configured: they run anywhere"
        return (Oddity(what, False, sum(bool(job.flavors) for job in self._trace.jobs)),)

    def why_not(self, job: TraceJob) -> str | None:
        """The flavors that a job needs and that are not there; None where it may run somewhere."""
        if not self.is_told_apart or not job.flavors or self._allowed(job):
            return None
        return "|".join(job.flavors)

    def constraints(self, job: TraceJob) -> Constraints:
        if not self.is_told_apart or not job.flavors:
            return UNCONSTRAINED
        names = tuple(sorted({*self._allowed(job), *self._others}))
        return Constraints(affinity=((Requirement(FLAVOR_LABEL, "In", names),),))

    def _allowed(self, job: TraceJob) -> list[FlavorName]:
        return [name for word in job.flavors for name in self._named[word]]

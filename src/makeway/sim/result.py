"""The result of a simulation, for programs: `simulate(...).wait("team-a").p95`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import NamedTuple

from makeway.engine.model import FlavorResource, QueueName
from makeway.sim.cluster import Cluster, nominal_of
from makeway.sim.demand import Demand
from makeway.sim.jobs import Oddity, Trace
from makeway.sim.metrics import (
    Waits,
    share_over_entitlement,
    size_group,
    wait_of,
    waits_of,
)
from makeway.sim.record import Fate, Life, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One resource of one flavor over the whole time, in its smallest unit."""

    cell: FlavorResource
    quota: int
    used: float  # on average: charged to somebody
    busy: float  # on average: of it, with pods running
    peak: int
    borrowed: float  # on average: used by queues beyond what they own

    @property
    def share(self) -> float:
        return self.used / self.quota if self.quota else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """In seconds of the main resource, smallest unit."""

    useful: float  # of jobs that finished
    lost: float  # progress that evictions and failures took
    kept: float  # of jobs that have not finished, or were cancelled
    idle: float  # quota held while no pods ran: starting, stopping, checks


class Makespan(NamedTuple):
    """How long it all took, and what for, as time with all of a tree's quota in use."""

    seconds: float
    work_s: float  # no policy could be faster than this
    lost_s: float  # progress that was lost and made again

    @property
    def unused_s(self) -> float:
        """Quota that lay idle: nobody was there, nobody fitted, or pods were starting."""
        return self.seconds - self.work_s - self.lost_s


@dataclass(kw_only=True)
class Result:
    """What came of a trace under a configuration."""

    cluster: Cluster
    trace: Trace
    demand: Demand
    record: Record
    seed: int
    end: float  # when the simulation stopped, in seconds from the first submission
    is_complete: bool  # False: stopped early, by request or by --until
    label: str = ""

    # --- jobs ---

    @property
    def lives(self) -> Sequence[Life]:
        return self.record.lives

    def job(self, name: str) -> Life:
        for life in self.record.lives:
            if name in (life.job.name, life.key):
                return life
        raise KeyError(name)

    @cached_property
    def fates(self) -> dict[Fate, int]:
        counts = Counter(life.fate for life in self.record.lives)
        counts[Fate.TO_COME] = len(self.demand.lives) - len(self.record.lives)
        return {fate: counts[fate] for fate in Fate}

    @property
    def finished(self) -> int:
        return self.fates[Fate.FINISHED]

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        return (*self.trace.oddities, *self.demand.oddities)

    # --- waiting ---

    def wait(self, queue: str | None = None, *, priority: int | None = None) -> Waits:
        """Of all jobs, or of those of a queue or a priority."""
        if queue is not None and QueueName(queue) not in self.cluster.queues:
            raise KeyError(queue)
        return waits_of(
            (
                life
                for life in self.record.lives
                if queue in (None, life.queue) and priority in (None, life.priority)
            ),
            self.end,
        )

    def waits_by_queue(self) -> dict[str, Waits]:
        groups: dict[str, list[Life]] = {name: [] for name in self.cluster.queues}
        for life in self.record.lives:
            groups[life.queue].append(life)
        return {name: waits_of(lives, self.end) for name, lives in groups.items()}

    def waits_by_priority(self) -> dict[int, Waits]:
        groups: dict[int, list[Life]] = {}
        for life in self.record.lives:
            groups.setdefault(life.priority, []).append(life)
        return {p: waits_of(groups[p], self.end) for p in sorted(groups, reverse=True)}

    def waits_by_size(self) -> dict[tuple[int, int], Waits]:
        """By how much of the main resource a job asks for, in whole units."""
        groups: dict[tuple[int, int], list[Life]] = {}
        for life in self.record.lives:
            groups.setdefault(size_group(self.in_units(life.size)), []).append(life)
        return {group: waits_of(groups[group], self.end) for group in sorted(groups)}

    def longest_waits(self, count: int = 20) -> list[Life]:
        waiting = (life for life in self.record.lives if life.fate is not Fate.NEVER_FITS)
        longest = nlargest(count, waiting, key=lambda life: (wait_of(life, self.end), -life.index))
        return [life for life in longest if wait_of(life, self.end) > 0]

    def wait_of(self, life: Life) -> float:
        return wait_of(life, self.end)

    # --- use of quota ---

    @property
    def main_resource(self) -> str:
        return self.demand.main_resource

    def in_units(self, amount: int) -> int:
        """Of the main resource: whole CPUs, not thousandths."""
        return -(-amount // 1000) if self.main_resource == "cpu" else amount

    def use(self, flavor: str, resource: str | None = None) -> Use:
        for use in self.uses:
            if use.cell.flavor == flavor and resource in (None, use.cell.resource):
                return use
        raise KeyError(flavor)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return tuple(self._use(cell) for cell in self.cluster.cells())

    def _use(self, cell: FlavorResource) -> Use:
        record, end = self.record, self.end or 1.0
        used = borrowed = 0.0
        for (name, of), steps in record.used.items():
            if of == cell:
                nominal = nominal_of(self.cluster.queues[name]).get(cell, 0)
                for start, stop, value in steps.pieces(end):
                    used += value * (stop - start)
                    borrowed += max(0, value - nominal) * (stop - start)
        busy = record.busy[cell]
        return Use(
            cell=cell,
            quota=self.cluster.quota_of(cell),
            used=used / end,
            busy=busy.integral(end) / end,
            peak=busy.peak(),
            borrowed=borrowed / end,
        )

    @cached_property
    def shares(self) -> dict[str, float | None]:
        """Per queue: what it had over what it owns while somebody waited in it."""
        found: dict[str, float | None] = {}
        for name, queue in self.cluster.queues.items():
            owned = nominal_of(queue)
            cells = [cell for cell in owned if cell.resource == self.main_resource]
            found[name] = share_over_entitlement(
                [self.record.used[name, cell] for cell in self._main_cells()],
                self.record.waiting[name],
                sum(owned[cell] for cell in cells),
                self.end,
            )
        return found

    def _main_cells(self) -> list[FlavorResource]:
        return [cell for cell in self.cluster.cells() if cell.resource == self.main_resource]

    # --- making way ---

    @property
    def preemptions(self) -> int:
        return sum(eviction.by >= 0 for eviction in self.record.evictions)

    @cached_property
    def evictions(self) -> dict[str, int]:
        """By cause, most frequent first."""
        counts = Counter(eviction.cause for eviction in self.record.evictions)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def _evictions_by_job(self) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = {}
        for eviction in self.record.evictions:
            found.setdefault(eviction.job, Counter())[eviction.cause] += 1
        return found

    def evictions_of(self, life: Life) -> dict[str, int]:
        """By cause."""
        return dict(sorted(self._evictions_by_job.get(life.index, Counter()).items()))

    @cached_property
    def work(self) -> Work:
        useful = lost = kept = 0.0
        for life in self.record.lives:
            lost += life.lost_s * life.size
            if life.fate is Fate.FINISHED:
                useful += life.done_s * life.size
            else:
                kept += self._progress_s(life) * life.size
        held = sum(use.used for use in self.uses if use.cell.resource == self.main_resource)
        busy = sum(use.busy for use in self.uses if use.cell.resource == self.main_resource)
        return Work(useful=useful, lost=lost, kept=kept, idle=(held - busy) * self.end)

    def _progress_s(self, life: Life) -> float:
        if life.run_from is None:
            return life.done_s
        return life.done_s + (self.end - life.run_from) * life.pods_admitted / life.pods_asked

    @cached_property
    def makespan(self) -> Makespan:
        """From the first submission to the last end, taken apart for the busiest cohort tree."""
        first = self.record.lives[0].job.submit_s if self.record.lives else 0.0
        ends = [life.ended_at for life in self.record.lives if life.ended_at is not None]
        is_over = self.is_complete and len(ends) == len(self.record.lives)
        seconds = (max(ends, default=0.0) if is_over else self.end) - first
        roots = {name: self.cluster.root_of(name) for name in self.cluster.queues}
        quota = self.cluster.quota_by_root(self.main_resource)
        work, lost = dict.fromkeys(quota, 0.0), dict.fromkeys(quota, 0.0)
        for life in self.record.lives:
            if life.fate is not Fate.NEVER_FITS:
                work[roots[life.queue]] += self._progress_s(life) * life.size
                lost[roots[life.queue]] += life.lost_s * life.size
        spans = [
            (work[root] / quota[root], lost[root] / quota[root]) for root in work if quota[root]
        ]
        work_s, lost_s = max(spans, default=(0.0, 0.0))
        return Makespan(seconds, work_s, lost_s)

"""The result of a simulation, for programs: `simulate(...).wait("team-a").p95`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from typing import NamedTuple, TypeVar

from makeway.api.quantity import smallest_units
from makeway.engine.model import FlavorResource, QueueName
from makeway.sim.cluster import SimulatedCluster, nominal_of
from makeway.sim.continuation import Continuation
from makeway.sim.demand import Demand
from makeway.sim.entitlement import shares_of
from makeway.sim.measuring import EVERYTHING, Measure, Window
from makeway.sim.money import Money, money_of
from makeway.sim.record import JobOutcome, JobRun, RecordedEviction, SimulationRecord
from makeway.sim.statistics import (
    Waits,
    jain_index,
    quantile,
    size_group,
    wait_of,
    waits_of,
)
from makeway.sim.trace_jobs import Oddity, Trace

KeyT = TypeVar("KeyT")
USERS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One resource of one flavor over the time that is measured, in its smallest unit."""

    cell: FlavorResource
    quota: int
    used: float  # on average: quota charged to jobs
    used_while_jobs_came: float | None  # the same, up to the last submission; None: that is no time
    busy: float  # on average: quota charged to jobs whose pods run
    peak: int
    borrowed: float  # on average: used by queues beyond what they own

    @property
    def share(self) -> float:
        return self.used / self.quota if self.quota else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Of the jobs that count, in seconds of the main resource, smallest unit."""

    useful: float  # work of jobs that finished
    lost: float  # progress that evictions and failures took
    kept: float  # work of jobs that have not finished, or were cancelled
    idle: float  # quota held while no pods ran: starting, stopping, checks


class Preempted(NamedTuple):
    jobs: int
    lost: float  # what they lost, in seconds of the main resource


class Makespan(NamedTuple):
    """How long it all took, and what for, as time with all of a tree's quota in use."""

    seconds: float
    work_s: float  # no policy could be faster than this
    lost_s: float  # progress that was lost and made again

    @property
    def unused_s(self) -> float:
        """Quota that lay idle: no job was there, no job fitted, or pods were starting."""
        return self.seconds - self.work_s - self.lost_s


@dataclass(kw_only=True)
class Result:
    """What came of a trace under a configuration."""

    cluster: SimulatedCluster
    trace: Trace
    demand: Demand | Continuation
    record: SimulationRecord
    seed: int
    end: float  # when the simulation stopped, in seconds from the first submission
    is_complete: bool  # False: more would happen, but it was stopped, at its end, or given up
    until: float | None = None  # the end that was asked for
    measure: Measure = EVERYTHING
    is_given_up: bool = False  # it went on and on, far beyond what its work needs
    label: str = ""

    @property
    def is_as_long_as_asked(self) -> bool:
        return self.is_complete or (self.until is not None and self.end >= self.until)

    # --- what counts ---

    @cached_property
    def window(self) -> Window:
        return self.measure.window(self.last_submit, self.end)

    @cached_property
    def last_submit(self) -> float:
        return max((run.submitted_at for run in self.record.runs), default=0.0)

    @cached_property
    def counted(self) -> Sequence[JobRun]:
        """The jobs that figures are about: those submitted in the window."""
        if self.window.is_whole:
            return self.record.runs  # with those that came before the simulation began
        return [run for run in self.record.runs if self.window.has(run.submitted_at)]

    # --- jobs ---

    @property
    def runs(self) -> Sequence[JobRun]:
        return self.record.runs

    def job(self, name: str) -> JobRun:
        for run in self.record.runs:
            if name in (run.job.name, run.key):
                return run
        raise KeyError(name)

    @cached_property
    def outcomes(self) -> dict[JobOutcome, int]:
        counts = Counter(run.outcome for run in self.record.runs)
        counts[JobOutcome.TO_COME] = len(self.demand.all_runs) - len(self.record.runs)
        return {outcome: counts[outcome] for outcome in JobOutcome}

    @property
    def finished(self) -> int:
        return self.outcomes[JobOutcome.FINISHED]

    @property
    def never_fit(self) -> int:
        """Jobs that no wait counts, because even alone they would find no room."""
        return sum(run.outcome is JobOutcome.NEVER_FITS for run in self.counted)

    @property
    def waits_for_ever(self) -> int:
        """Jobs that wait while nothing more will happen, as those of a queue that is stopped."""
        return self.outcomes[JobOutcome.WAITING] if self.is_complete else 0

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
                run
                for run in self.counted
                if queue in (None, run.queue) and priority in (None, run.priority)
            ),
            self.end,
        )

    def waits_by_queue(self) -> dict[str, Waits]:
        groups = self._grouped(lambda run: run.queue)
        return {name: waits_of(groups.get(name, ()), self.end) for name in self.cluster.queues}

    def waits_by_priority(self) -> dict[int, Waits]:
        groups = self._grouped(lambda run: run.priority)
        return {p: waits_of(groups[p], self.end) for p in sorted(groups, reverse=True)}

    def waits_by_size(self) -> dict[tuple[int, int], Waits]:
        """By how much of the main resource a job asks for, in whole units."""
        groups = self._grouped(self.size_group_of)
        return {group: waits_of(groups[group], self.end) for group in sorted(groups)}

    def waits_by_user(self) -> dict[str, Waits]:
        """Of those with most jobs; empty where the trace names no users."""
        groups = self._grouped(lambda run: run.job.user)
        groups.pop("", None)
        names = sorted(groups, key=lambda name: (-len(groups[name]), name))[:USERS_SHOWN]
        return {name: waits_of(groups[name], self.end) for name in names}

    @cached_property
    def requested_share(self) -> float | None:
        """The run time over what users asked for, at the median; None where that is not known."""
        shares = [
            run.job.run_s / run.job.requested_s for run in self.counted if run.job.requested_s
        ]
        return quantile(sorted(shares), 0.5) if shares else None

    def _grouped(self, key_of: Callable[[JobRun], KeyT]) -> dict[KeyT, list[JobRun]]:
        groups: dict[KeyT, list[JobRun]] = {}
        for run in self.counted:
            groups.setdefault(key_of(run), []).append(run)
        return groups

    def size_group_of(self, run: JobRun) -> tuple[int, int]:
        return size_group(self.in_units(run.size))

    def longest_waits(self, count: int = 20) -> list[JobRun]:
        waiting = (run for run in self.counted if run.outcome is not JobOutcome.NEVER_FITS)
        longest = nlargest(count, waiting, key=lambda run: (self.wait_of(run), -run.index))
        return [run for run in longest if self.wait_of(run) > 0]

    def wait_of(self, run: JobRun) -> float:
        return wait_of(run, self.end)

    # --- use of quota ---

    @property
    def main_resource(self) -> str:
        return self.demand.main_resource

    def in_units(self, amount: int) -> int:
        """Of the main resource: whole CPUs, not thousandths."""
        return -(-amount // smallest_units(self.main_resource))

    def in_hours(self, amount_s: float) -> float:
        """Of the main resource: an amount times seconds, as hours of whole ones."""
        return amount_s / (3600 * smallest_units(self.main_resource))

    def use(self, flavor: str, resource: str | None = None) -> Use:
        for use in self.uses:
            if use.cell.flavor == flavor and resource in (None, use.cell.resource):
                return use
        raise KeyError(flavor)

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        return tuple(self._use(cell) for cell in self.cluster.cells())

    def _use(self, cell: FlavorResource) -> Use:
        record, (since, until, _) = self.record, self.window
        length_s = until - since or 1.0
        used = borrowed = while_jobs_came = 0.0
        came_until = min(self.last_submit, until)
        came_s = came_until - since
        for (name, of), steps in record.used.items():
            if of == cell:
                nominal = nominal_of(self.cluster.queues[name]).get(cell, 0)
                while_jobs_came += steps.integral(came_until, since)
                for start, stop, value in steps.pieces(until, since):
                    used += value * (stop - start)
                    borrowed += max(0, value - nominal) * (stop - start)
        busy = record.busy[cell]
        return Use(
            cell=cell,
            quota=self.cluster.quota_of(cell),
            used=used / length_s,
            used_while_jobs_came=while_jobs_came / came_s if came_s > 0 else None,
            busy=busy.integral(until, since) / length_s,
            peak=busy.peak(until, since),
            borrowed=borrowed / length_s,
        )

    @cached_property
    def shares(self) -> dict[str, float | None]:
        """Per queue: what it had over what was due to it, while jobs waited in it."""
        return shares_of(self.cluster, self.record, self.main_resource, self.window)

    @property
    def fairness(self) -> float | None:
        """Jain's index of the shares; None with fewer than two of them."""
        return jain_index([share for share in self.shares.values() if share is not None])

    @cached_property
    def money(self) -> Money | None:
        """What it costs; None where nothing has a price."""
        return money_of(self.cluster, self.record, self.main_resource, self.window)

    # --- making way ---

    @cached_property
    def evictions_counted(self) -> Sequence[RecordedEviction]:
        """Those within the window."""
        return [one for one in self.record.evictions if self.window.has(one.at)]

    @property
    def preemptions(self) -> int:
        return sum(eviction.by >= 0 for eviction in self.evictions_counted)

    @cached_property
    def preemptions_by_queues(self) -> dict[tuple[QueueName, QueueName], Preempted]:
        """By queue of the preemptor and queue of the victim, most frequent first."""
        runs, found = self.demand.all_runs, dict[tuple[QueueName, QueueName], list[float]]()
        for eviction in self.evictions_counted:
            if eviction.by >= 0:
                found.setdefault((runs[eviction.by].queue, eviction.queue), [0.0, 0.0])[0] += 1
        for loss in self.record.losses:
            pair = runs[loss.by].queue, runs[loss.job].queue
            if loss.by >= 0 and pair in found and self.window.has(loss.at):
                found[pair][1] += loss.machine_s * runs[loss.job].size
        order = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        return {pair: Preempted(int(jobs), lost) for pair, (jobs, lost) in order}

    @cached_property
    def evictions(self) -> dict[str, int]:
        """By cause, most frequent first."""
        counts = Counter(eviction.cause for eviction in self.evictions_counted)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @cached_property
    def _evictions_by_job(self) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = {}
        for eviction in self.record.evictions:
            found.setdefault(eviction.job, Counter())[eviction.cause] += 1
        return found

    def evictions_of(self, run: JobRun) -> dict[str, int]:
        """By cause."""
        return dict(sorted(self._evictions_by_job.get(run.index, Counter()).items()))

    @cached_property
    def work(self) -> Work:
        useful = lost = kept = 0.0
        for run in self.counted:
            lost += run.lost_s * run.size
            if run.outcome is JobOutcome.FINISHED:
                useful += run.done_s * run.size
            else:
                kept += self._progress_s(run) * run.size
        held = sum(use.used for use in self.uses if use.cell.resource == self.main_resource)
        busy = sum(use.busy for use in self.uses if use.cell.resource == self.main_resource)
        return Work(useful=useful, lost=lost, kept=kept, idle=(held - busy) * self.window.length_s)

    def _progress_s(self, run: JobRun) -> float:
        if run.run_from is None:
            return run.done_s
        return run.done_s + (self.end - run.run_from) * run.speed

    @cached_property
    def makespan(self) -> Makespan:
        """From the first submission, or the beginning, to the last end.

        Taken apart for the busiest cohort tree, without what jobs did before the beginning.
        """
        first = max(0.0, self.record.runs[0].submitted_at) if self.record.runs else 0.0
        ends = [run.ended_at for run in self.record.runs if run.ended_at is not None]
        is_over = self.is_complete and len(ends) == len(self.record.runs)
        seconds = (max(ends, default=0.0) if is_over else self.end) - first
        roots = {name: self.cluster.root_of(name) for name in self.cluster.queues}
        quota = self.cluster.quota_by_root(self.main_resource)
        work, lost = dict.fromkeys(quota, 0.0), dict.fromkeys(quota, 0.0)
        for run in self.record.runs:
            if run.outcome is not JobOutcome.NEVER_FITS:
                here_s = self._progress_s(run) - run.begun_s
                work[roots[run.queue]] += max(0.0, here_s) * run.size
                lost[roots[run.queue]] += (run.lost_s + min(0.0, here_s)) * run.size
        spans = [
            (work[root] / quota[root], lost[root] / quota[root]) for root in work if quota[root]
        ]
        work_s, lost_s = max(spans, default=(0.0, 0.0))
        return Makespan(seconds, work_s, lost_s)

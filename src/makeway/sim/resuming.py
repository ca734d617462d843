"""A world takes up a beginning: whoever is there already stands where it stood.

What was planned for a job follows from its state, as every draw has the name of the job and of its
attempt: pods that were starting are ready when they would have been, checks answer when they would
have, and what was on its way out is gone on time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from makeway.engine import events as ev
from makeway.engine.model import CheckState, EvictionReason, Phase
from makeway.sim.beginning import OpenJob
from makeway.sim.continuation import Continuation
from makeway.sim.outages import StockoutBegan
from makeway.sim.record import JobOutcome, JobRun

if TYPE_CHECKING:
    from makeway.sim.world import World

PREEMPTIONS = (EvictionReason.PREEMPTED, EvictionReason.PREEMPTED_IN_PLACEMENT)


def resume(world: World, continuation: Continuation) -> None:
    beginning = continuation.beginning
    world.now = beginning.at
    _skip_outages(world)
    for event in beginning.memory:
        world.engine.apply(event)
    for open_job, run in zip(beginning.jobs, continuation.open_runs, strict=True):
        _take_in(world, open_job, run)
    for run in map(world.runs.__getitem__, beginning.for_machines):
        world.waiting_for_machines[run.index] = run


def _skip_outages(world: World) -> None:
    """Stockouts that last are there; what has failed in the past stays as it is."""
    while (change := world.outages.take(world.now)) is not None:
        if isinstance(change, StockoutBegan) and change.until > world.now:
            stockout = change.stockout
            known = world.stockouts.setdefault(stockout.flavor, [])
            known.append((change.until, stockout.share))


def _take_in(world: World, open_job: OpenJob, run: JobRun) -> None:
    world.record.runs.append(run)
    world.runs[run.key] = run
    run.attempt, run.evictions = open_job.attempt, open_job.evictions
    run.done_s, run.lost_s = open_job.done_s, open_job.lost_s
    run.begun_s = open_job.ran_s(world.now)
    run.first_run_at = open_job.first_run_at
    world.engine.apply(ev.WorkloadSeen(open_job.workload, open_job.status))
    if open_job.status.assignment is None:
        run.outcome = JobOutcome.WAITING
        world.record.add_waiting(world.now, run, 1)
    else:
        _give_quota(world, open_job, run)
        _go_on(world, open_job, run)
    world.plan_giving_up(run)


def _give_quota(world: World, open_job: OpenJob, run: JobRun) -> None:
    assignment = open_job.status.assignment
    assert assignment is not None
    run.usage, run.flavors = assignment.usage(), assignment.flavors()
    world.record.add_cells(run.queue, run.usage)
    run.flavor_speed = world.demand.speed_on(run, run.usage)
    run.pods_admitted = sum(pod_set.count for pod_set in assignment.pod_sets)
    is_leaving = open_job.status.eviction is not None
    world.circles.place(run, is_leaving=is_leaving)
    world.record.add_held(world.now, run, 1)
    if open_job.machines_from is not None:
        world.take_machines(run)
        run.machines_from = open_job.machines_from
        if world.machines is not None and world.machines.pool_of(run) is not None:
            requests = world.demand.pod_requests(run)
            world.machines.ask(run, requests, open_job.machines_from, open_job.nodes)
            if is_leaving:
                world.machines.leave(run.key)


def _go_on(world: World, open_job: OpenJob, run: JobRun) -> None:
    status = open_job.status
    run.held_from = status.reserved_at or world.now
    if status.pods_lost_at is not None:
        run.held_from = status.pods_lost_at
    if status.eviction is not None:
        run.held_from = status.eviction.at
        if not open_job.workload.active:
            run.outcome = JobOutcome.DEACTIVATED
        elif run.ends_when_preempted and status.eviction.reason in PREEMPTIONS:
            run.outcome = JobOutcome.TERMINATED
        world.plan_gone(run)
        return
    is_ready = open_job.run_from is not None
    world.engine.apply(ev.PodsChanged(run.key, is_ready, open_job.run_from or world.now))
    if world.engine.view[run.key].phase is Phase.RESERVED:
        for check in world.engine.view.checks_for(run.key):
            if status.checks.get(check, CheckState.PENDING) is CheckState.PENDING:
                world.ask_check(run, check)
    elif open_job.run_from is not None:
        run.run_from, run.outcome = open_job.run_from, JobOutcome.RUNNING
        world.running[run.index] = run
        world.record.add_running(world.now, run, 1)
        world.plan_finish(run, open_job.run_from)
    elif open_job.machines_from is not None and not _wants_nodes(world, open_job, run):
        world.plan_ready(run, open_job.machines_from)


def _wants_nodes(world: World, open_job: OpenJob, run: JobRun) -> bool:
    has_pool = world.machines is not None and world.machines.pool_of(run) is not None
    return has_pool and not open_job.nodes

"""The simulated world: it tells the engine what happens and does what the engine decides.

There is no policy in here. Jobs come when the trace says so, pods take their time to start and
to stop, stockouts and failures come as the settings have it; which job runs is the engine's affair.
One loop goes from moment to moment: all that is due happens, then there is a cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, NamedTuple, assert_never

from makeway.engine import events as ev
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    Decision,
    Evict,
    Preempt,
    Reason,
    Requeue,
    Reserve,
    StartOver,
    Wait,
)
from makeway.engine.engine import Engine
from makeway.engine.explain import Explanation
from makeway.engine.model import (
    CheckName,
    CheckState,
    EvictionReason,
    FlavorName,
    FlavorResource,
    QueueName,
    Sorting,
    Strategy,
    WorkloadKey,
)
from makeway.placement.decisions import BindPods, PreemptUnits, WaitForNodes
from makeway.sim.circle_watch import CircleWatch, Unwatched
from makeway.sim.circles import Circle, Round
from makeway.sim.clock import Agenda
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Continuation
from makeway.sim.demand import Demand
from makeway.sim.fitting import EmptyCluster
from makeway.sim.outages import NodeFailed, OutageEvent, Outages, StockoutBegan, StockoutEnded
from makeway.sim.record import (
    Incident,
    JobOutcome,
    JobRun,
    Loss,
    RecordedEviction,
    SimulationRecord,
    StayEnding,
    Unrecorded,
)
from makeway.sim.resuming import resume
from makeway.sim.seeded_random import SeededRandom
from makeway.sim.settings import EVERY, NO_DELAY, READY_AT_ONCE, Failure, Stockout, setting_for
from makeway.sim.successors import Successors, is_sent_by_others
from makeway.sim.trace_jobs import Trace

if TYPE_CHECKING:
    from makeway.sim.machines import Machines

CYCLES_BETWEEN_LOOKS = 256  # a watcher is asked this seldom
ANY_ATTEMPT = -1
FINISHED, PODS_GONE = Incident("finished"), Incident("pods gone")


class Progress(NamedTuple):
    now: float
    last_submit: float
    jobs_ended: int
    jobs: int
    steps: int


Watch = Callable[[Progress], bool]  # returns whether to go on
Notice = Callable[[Circle], None]  # is told of each circle, the first time that it is seen


class Planned(NamedTuple):
    """Something that will happen to a job, unless its attempt is over by then."""

    act: Callable[[JobRun], None]
    run: JobRun
    attempt: int

    @property
    def is_off(self) -> bool:
        return self.run.ended_at is not None or self.attempt not in (self.run.attempt, ANY_ATTEMPT)


class World:
    def __init__(
        self,
        cluster: SimulatedCluster,
        trace: Trace | Continuation,
        seed: int = 0,
        explained: Iterable[str] = (),
        queue: str | None = None,
        is_recorded: bool = True,
    ) -> None:
        """Jobs named in `explained` keep their story, and `queue` takes those that have none.

        Unless the world `is_recorded`, it tells no more than when its jobs start and end.
        """
        self.cluster, self.settings = cluster, cluster.settings
        self.random = SeededRandom(seed)
        config = replace(
            cluster.config,
            pauses_until_change=True,
            is_simulated=True,
            tells_reasons=is_recorded,
            skips_refused_lines=not is_recorded,
            tells_decisions_only=True,
        )
        self.engine = Engine(config)
        self.record = SimulationRecord() if is_recorded else Unrecorded()
        self.now = 0.0
        self.agenda: Agenda[Planned] = Agenda()
        self.outages = Outages(self.settings, self.random)
        self.demand = (
            Demand(cluster, trace, tuple(explained), queue) if isinstance(trace, Trace) else trace
        )
        self.successors = Successors(self.demand.runs)
        # Jobs that are still to be submitted, as the trace has it.
        self._arrivals = deque(run for run in self.demand.runs if not is_sent_by_others(run))
        self._coming = 0  # jobs whose submission is on the agenda
        self._next_cycle_at: float | None = None  # when the engine wants to be asked again
        self._is_cycle_due = False  # at this very moment, as is known from the last one
        self.runs: dict[WorkloadKey, JobRun] = {}  # jobs that have come and not ended
        self.stockouts: dict[str, list[tuple[float, Fraction]]] = {}  # by flavor: until, share
        self.machines_in_use: dict[FlavorResource, int] = {}
        self.on_machines: dict[int, dict[FlavorResource, int]] = {}  # by job: what it has of those
        self.waiting_for_machines: dict[int, JobRun] = {}  # jobs admitted in a stockout
        self.running: dict[int, JobRun] = {}  # jobs whose pods run
        self.machines = machines_for(cluster)
        is_watched = is_recorded or not cluster.config.gates.preemption_backoff
        watch = CircleWatch if is_watched else Unwatched
        self.circles = watch({name: cluster.root_of(name) for name in cluster.queues})
        self.kept: dict[WorkloadKey, JobRun] = {}  # jobs kept from preempting, and from their line
        self._told: dict[object, tuple[Reason, ...]] = {}  # what the last of its equals was told
        self._notice: Notice | None = None
        self._tells_ready_pods = is_recorded or depends_on_pods(cluster)
        self._tells_checkpoints = any(
            Sorting.LEAST_WORK_LOST in queue.preemption.sorting for queue in cluster.queues.values()
        )
        self._checks = {check.name: check for check in self.settings.checks}
        for event in cluster.events:  # after the demand, which may have added local queues
            self.engine.apply(event)
        self.empty_cluster = EmptyCluster(cluster)
        for name in cluster.queues:
            self.record.add_queue(name, cluster.cells())
        if isinstance(trace, Continuation):
            resume(self, trace)
            self._next_cycle_at = self.now

    def expect(self, runs: Iterable[JobRun]) -> None:
        """More jobs are to come, all after those that are known already."""
        self._arrivals.extend(runs)

    # --- from moment to moment ---

    def run(
        self,
        until: float | None = None,
        watch: Watch | None = None,
        notice: Notice | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> bool:
        """Go on until nothing can happen any more; False if it was stopped before that.

        `is_over` is asked at every moment, `watch` now and then.
        """
        self._notice = notice
        while (now := self._next_moment()) is not None:
            if until is not None and now > until:
                self.now = until
                return False
            self.now = now
            self._apply_due()
            self._decide()
            if self.machines is not None:
                self._place(self.machines)
            if is_over is not None and is_over():
                return False
            if watch is not None and self._is_watched() and not watch(self.progress()):
                return False
        return True

    def _next_moment(self) -> float | None:
        """When something happens next; None when nothing will, or no job is left."""
        if not self._arrivals and not self.runs and not self._coming:
            return None
        if self._next_cycle_at == self.now:
            return self.now  # nothing else can come before that
        agenda = self.agenda
        while (planned := agenda.first) is not None and planned.is_off:
            agenda.drop_first()
        at = _earlier(self._next_cycle_at, agenda.next_at)
        if self._arrivals:
            at = _earlier(at, self._arrivals[0].job.submit_s)
        if at is None and not self.waiting_for_machines:
            return None
        return _earlier(at, self.outages.next_at)

    def _apply_due(self) -> None:
        """Let everything happen that is due: outages, then what jobs do, then new jobs."""
        now = self.now
        while (change := self.outages.take(now)) is not None:
            self._apply_outage(change)
        while (planned := self.agenda.take(now)) is not None:
            if not planned.is_off:
                self.record.steps += 1
                planned.act(planned.run)
        while self._arrivals and self._arrivals[0].job.submit_s <= now:
            run = self._arrivals.popleft()
            if not self.successors.has_to_wait(run):
                self.record.steps += 1
                self._submit(run)

    def explain_open(self) -> None:
        """End the stories of jobs that have not ended with where they stand, and why."""
        for run in [*self.kept.values()]:
            self._let_back(run)
        for run in self.runs.values():
            self._tell_as_equals(run)
            if run.story is not None:
                run.tell(self.now, self.engine.explain(run.key, self.now))

    def _equals_of(self, run: JobRun) -> object:
        """What those have in common who wait for the same reasons."""
        return (run.priority, self.demand.shape_of(run))

    def _tell_as_equals(self, run: JobRun) -> None:
        """Who has waited without being told why waits, or did, for what its equals were told.

        Where others may pass, the first of each shape is told. Behind a strict head nobody is.
        """
        if run.reasons or run.usage is not None or run.submitted_at == self.now:
            return
        is_passed = self.cluster.queues[run.queue].strategy is Strategy.BEST_EFFORT_FIFO
        reasons = self._told.get(self._equals_of(run)) if is_passed else None
        if reasons is not None:
            run.reasons = reasons
            run.tell(self.now, Wait(workload=run.key, queue=run.queue, reasons=reasons))

    def _is_watched(self) -> bool:
        return self.record.cycles % CYCLES_BETWEEN_LOOKS == 0

    def progress(self) -> Progress:
        runs = self.demand.runs
        last = runs[-1].job.submit_s if runs else 0.0
        ended = len(self.record.runs) - len(self.runs)
        return Progress(self.now, last, ended, len(runs), self.record.steps)

    def _tell(self, event: ev.Event) -> None:
        """Tell the engine what has happened: it is asked at this very moment what follows.

        So it is when a decision is carried out, too. What the cycle said about the time of the
        next one was said before that.
        """
        self.engine.apply(event)
        self._next_cycle_at = self.now

    def _decide(self) -> None:
        is_due, self._is_cycle_due = self._is_cycle_due, False
        if not is_due and not self._needs_cycle():
            return
        self.record.cycles += 1
        cycle = self.engine.run_cycle(self.now)
        self._next_cycle_at = cycle.next_at
        closed = self.circles.note(self.now, cycle.decisions)
        for decision in cycle.decisions:
            self._carry_out(decision)
        for round_ in closed:
            self._break_circle(round_)
        self._is_cycle_due = self._next_cycle_at == self.now and self._needs_cycle()

    def _needs_cycle(self) -> bool:
        """Whether the engine has to be asked now; if not, it is noted when it wants to be."""
        if self.engine.needs_cycle(self.now):
            return True
        self._next_cycle_at = self.engine.next_at()
        return False

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Preempt):
            self._preempt(decision)
            return
        run = self.runs[decision.workload]
        if not isinstance(decision, Wait):
            self._tell_as_equals(run)
            run.tell(self.now, decision)
        elif decision.reasons != run.reasons:
            run.tell(self.now, decision)
        match decision:
            case Admit():
                self._take_hold(run, decision)
                self._start_pods(run)
            case Reserve():
                self._take_hold(run, decision)
                for check in decision.checks:
                    self.ask_check(run, check)
            case Wait():
                run.reasons = decision.reasons
                if not decision.is_preemptor:
                    self._told[self._equals_of(run)] = decision.reasons
            case Evict():
                self._evict(run, decision)
            case Deactivate():
                self.record.count(decision.reason.value)
                if run.usage is not None:
                    self._stop(run, decision.reason.value, StayEnding.EVICTED)
                    run.outcome = JobOutcome.DEACTIVATED
                else:
                    self._leave(run, JobOutcome.DEACTIVATED)
            case Requeue():
                self.record.count("requeues after a back-off")
                self._change_from_outside(run.queue)
            case StartOver():
                self.record.count("rounds over all flavors")
                self._change_from_outside(run.queue)
            case _:
                assert_never(decision)

    def _preempt(self, decision: Preempt) -> None:
        preemptor = self.runs[decision.preemptor]
        preemptor.reasons = decision.reasons
        preemptor.tell(self.now, decision)
        for victim in decision.victims:
            if victim.is_new:
                run = self.runs[victim.workload]
                run.tell(self.now, decision)
                self._stop(run, victim.rule.value, StayEnding.PREEMPTED, preemptor.index)

    def _evict(self, run: JobRun, decision: Evict) -> None:
        if decision.reason is EvictionReason.FLAVOR_FALLBACK:
            for failure in decision.flavors:
                self.record.count(f"fallbacks from {failure.flavor}")
        self._stop(run, decision.reason.value, StayEnding.EVICTED)
        self._change_from_outside(run.queue)

    # --- circles ---

    def _break_circle(self, closed: Round) -> None:
        """See to it that the clock goes on: a circle may take no time.

        The engine lets longer and longer pauses lie between two rounds. Without that gate, whoever
        begins a round again is taken out of its line until a change from outside.
        """
        run = self.runs[closed.preemptor]
        is_kept = not self.cluster.config.gates.preemption_backoff
        circle = self.record.circles.add(closed, self.now, is_kept=is_kept)
        self.record.count("circles of displacement")
        if is_kept:
            run.tell(self.now, Incident("kept from preempting", "it would begin a round again"))
            self.kept[run.key] = run
            self._tell(ev.WorkloadEdited(replace(self.demand.workload(run), active=False)))
        if circle.times == 1 and self._notice is not None:
            self._notice(circle)

    def _change_from_outside(self, queue: QueueName) -> None:
        """Something has happened in a tree that no decision has brought about."""
        self.circles.change_from_outside(queue)
        if not self.kept:
            return
        root_of = self.cluster.root_of
        for run in [run for run in self.kept.values() if root_of(run.queue) == root_of(queue)]:
            self._let_back(run)

    def _let_back(self, run: JobRun) -> None:
        del self.kept[run.key]
        run.tell(self.now, Incident("may preempt again"))
        self._tell(ev.WorkloadEdited(self.demand.workload(run)))

    # --- a job's way ---

    def _come(self, run: JobRun) -> None:
        self._coming -= 1
        self._submit(run)

    def _submit(self, run: JobRun) -> None:
        self.record.runs.append(run)
        self.runs[run.key] = run
        run.submitted_at = self.now
        run.outcome = JobOutcome.WAITING
        self.record.add_waiting(self.now, run, 1)
        if run.story is not None:
            run.tell(self.now, Incident("submitted", f"to queue {run.queue}"))
        workload = self.demand.workload(run)
        never = self.empty_cluster.why_never(workload, self.demand.shape_of(run))
        if never is not None:
            self._turn_away(run, never)
            return
        self._tell(ev.WorkloadSeen(workload))
        self._change_from_outside(run.queue)
        self.plan_giving_up(run)

    def _turn_away(self, run: JobRun, never: Explanation) -> None:
        """The job can never fit. The engine would let it wait for ever, and others behind it."""
        self.record.count("jobs that can never fit")
        run.reasons = never.obstacles
        run.tell(self.now, never)
        self._leave(run, JobOutcome.NEVER_FITS)

    def plan_giving_up(self, run: JobRun) -> None:
        gives_up_at = self._gives_up_at(run)
        if gives_up_at is not None:
            self.agenda.plan(max(self.now, gives_up_at), Planned(self._cancel, run, ANY_ATTEMPT))

    def _gives_up_at(self, run: JobRun) -> float | None:
        if run.job.cancel_s is not None:
            return run.job.cancel_s
        rule = setting_for(self.settings.cancellations, run.queue)
        if rule is None or self.random.named("cancels", run.key).random() >= rule.share:
            return None
        return run.submitted_at + self.random.delay_s(rule.patience, "patience", run.key)

    def _take_hold(self, run: JobRun, decision: Admit | Reserve) -> None:
        if run.usage is not None:
            return  # the quota was reserved before, and now the job is admitted
        run.usage = decision.assignment.usage()
        run.flavors = decision.assignment.flavors()
        run.flavor_speed = self.demand.speed_on(run, run.usage)
        run.held_from = self.now
        run.pods_admitted = sum(pod_set.count for pod_set in decision.assignment.pod_sets)
        self.circles.place(run)
        self.record.add_held(self.now, run, 1)
        self.record.add_waiting(self.now, run, -1)

    def ask_check(self, run: JobRun, check: CheckName) -> None:
        """Somebody was asked when the job took hold of its quota, and answers after a while."""
        setting = self._checks.get(check) or self._checks.get(EVERY) or READY_AT_ONCE
        name = ("check", check, run.key, run.attempt)
        draw = self.random.named(*name).random() if setting.rejects or setting.retries else 1.0
        state = CheckState.READY
        if draw < setting.rejects:
            state = CheckState.REJECTED
        elif draw < setting.rejects + setting.retries:
            state = CheckState.RETRY
        answer = ev.CheckAnswered(run.key, check, state, setting.retry_after)

        def say(run: JobRun) -> None:
            self.record.count(f"admission check {check} said {state.value}")
            run.tell(self.now, Incident(f"check {check} says {state.value}"))
            self._tell(answer)
            self._change_from_outside(run.queue)

        delay_s = self.random.delay_s(setting, *name, "latency")
        self.agenda.plan(max(self.now, run.held_from + delay_s), Planned(say, run, run.attempt))

    def _start_pods(self, run: JobRun) -> None:
        if not self._are_there_machines(run):
            self.waiting_for_machines[run.index] = run
            run.tell(self.now, Incident("no machines", f"of flavor {', '.join(run.flavors)}"))
            return
        self.take_machines(run)
        if self.machines is not None and self.machines.pool_of(run) is not None:
            self.machines.ask(run, self.demand.pod_requests(run), self.now)
        else:
            self._start_on_machines(run)

    def _start_on_machines(self, run: JobRun) -> None:
        """The machines are there; pods take a while until they are ready."""
        run.machines_from = self.now
        delay_s = self._startup_s(run)
        if delay_s:
            self.agenda.plan(self.now + delay_s, Planned(self._pods_ready, run, run.attempt))
        else:
            self._pods_ready(run)

    def plan_ready(self, run: JobRun, since: float) -> None:
        """The machines have been there for a while; what is left until its pods are ready."""
        at = max(self.now, since + self._startup_s(run))
        self.agenda.plan(at, Planned(self._pods_ready, run, run.attempt))

    def _startup_s(self, run: JobRun) -> float:
        delay_s = 0.0
        for flavor in run.flavors if self.settings.startup else ():
            delay = setting_for(self.settings.startup, flavor) or NO_DELAY
            name = ("startup", flavor, run.key, run.attempt)
            delay_s = max(delay_s, self.random.delay_s(delay, *name))
        return delay_s

    def _pods_ready(self, run: JobRun) -> None:
        run.run_from = self.now
        if run.first_run_at is None:
            run.first_run_at = self.now
        run.outcome = JobOutcome.RUNNING
        self.running[run.index] = run
        self.record.add_running(self.now, run, 1)
        self.record.stay(run, run.held_from, self.now, StayEnding.OPEN, ran=False)
        if run.story is not None:
            run.tell(self.now, Incident("pods ready", f"on {', '.join(run.flavors)}"))
        if self._tells_ready_pods:
            self._tell(ev.PodsChanged(run.key, True, self.now))
        self.plan_finish(run, self.now)

    def plan_finish(self, run: JobRun, since: float) -> None:
        """Its pods run since then, with `done_s` behind it."""
        left_s = (run.job.run_s - run.done_s) / run.speed
        self.agenda.plan(max(self.now, since + left_s), Planned(self._finish, run, run.attempt))
        if self._tells_checkpoints and run.checkpoint_s is not None:
            progress_s = run.done_s + (self.now - since) * run.speed
            self._plan_checkpoint(run, progress_s, run.checkpoint_s)

    def _plan_checkpoint(self, run: JobRun, progress_s: float, every_s: float) -> None:
        """When its progress has reached the next full interval, it is safe up to there."""
        next_s = (progress_s // every_s + 1) * every_s

        def save(run: JobRun) -> None:
            workload = replace(self.demand.workload(run), checkpoint_at=self.now)
            self.engine.apply(ev.WorkloadEdited(workload))  # nobody has to be asked for that
            self._plan_checkpoint(run, next_s, every_s)

        if next_s < run.job.run_s:
            at = self.now + (next_s - progress_s) / run.speed
            self.agenda.plan(at, Planned(save, run, run.attempt))

    def _finish(self, run: JobRun) -> None:
        self._end_stay(run, StayEnding.FINISHED)
        run.done_s = run.job.run_s
        run.tell(self.now, FINISHED)
        self._leave(run, JobOutcome.FINISHED)

    def _cancel(self, run: JobRun) -> None:
        if run.ended_at is not None:
            return
        if run.run_from is not None:
            run.done_s += (self.now - run.run_from) * run.speed
        self._end_stay(run, StayEnding.CANCELLED)
        self._tell_as_equals(run)
        run.tell(self.now, Incident("cancelled", "by its user"))
        self._leave(run, JobOutcome.CANCELLED)

    def _stop(self, run: JobRun, cause: str, ending: StayEnding, by: int = -1) -> None:
        """The pods are told to end; they are gone after a while."""
        run.evictions += 1
        eviction = RecordedEviction(self.now, run.index, run.queue, cause, by)
        self.record.evictions.append(eviction)
        self._lose_progress(run, by)
        self._end_stay(run, ending)
        if ending is StayEnding.PREEMPTED and run.ends_when_preempted:
            run.outcome = JobOutcome.TERMINATED
        run.held_from = self.now
        self.circles.place(run, is_leaving=True)
        if self.machines is not None:
            self.machines.leave(run.key)
        self.plan_gone(run)

    def plan_gone(self, run: JobRun) -> None:
        """Its pods were told to end when it began to hold its quota for nothing but that."""
        at = max(self.now, run.held_from + self.settings.termination)
        self.agenda.plan(at, Planned(self._pods_gone, run, run.attempt))

    def _pods_gone(self, run: JobRun) -> None:
        self.record.stay(run, run.held_from, self.now, StayEnding.OPEN, ran=False)
        self._tell(ev.PodsGone(run.key))
        run.tell(self.now, PODS_GONE)
        if run.outcome in (JobOutcome.DEACTIVATED, JobOutcome.TERMINATED):
            self._leave(run, run.outcome)
            return
        self._release(run)
        run.outcome = JobOutcome.WAITING
        self.record.add_waiting(self.now, run, 1)

    def _lose_progress(self, run: JobRun, by: int = -1) -> None:
        if run.run_from is None:
            return
        progress_s = run.done_s + (self.now - run.run_from) * run.speed
        kept_s = 0.0
        if run.checkpoint_s is not None:
            kept_s = max(run.done_s, progress_s // run.checkpoint_s * run.checkpoint_s)
        run.done_s = min(kept_s, run.job.run_s)
        lost_s = progress_s - run.done_s
        run.lost_s += lost_s
        if lost_s > 0:
            loss = Loss(self.now, run.index, run.usage or {}, lost_s / run.speed, by)
            self.record.losses.append(loss)

    def _end_stay(self, run: JobRun, ending: StayEnding) -> None:
        """The pods no longer run, and nothing that was planned for them happens."""
        run.attempt += 1
        self.waiting_for_machines.pop(run.index, None)
        if run.run_from is not None:
            self.record.stay(run, run.run_from, self.now, ending, ran=True)
            self.record.add_running(self.now, run, -1)
            del self.running[run.index]
            run.run_from = None
        elif run.usage is not None:
            self.record.stay(run, run.held_from, self.now, ending, ran=False)

    def _leave(self, run: JobRun, outcome: JobOutcome) -> None:
        """The job is gone for good; the engine need not remember it."""
        if run.usage is None:
            self.record.add_waiting(self.now, run, -1)
        self._release(run)
        run.outcome, run.ended_at = outcome, self.now
        run.attempt += 1
        del self.runs[run.key]
        self.kept.pop(run.key, None)
        for follower in self.successors.after(run):
            self._coming += 1
            planned = Planned(self._come, follower, ANY_ATTEMPT)
            self.agenda.plan(self.now + (follower.job.think_s or 0.0), planned)
        self._tell(ev.WorkloadRemoved(run.key))
        self._change_from_outside(run.queue)

    def _release(self, run: JobRun) -> None:
        self._return_machines(run)
        if self.machines is not None:
            self.machines.release(run.key)
        if run.usage is not None:
            self.record.add_held(self.now, run, -1)
            run.usage = None
            run.flavors = ()
            self.circles.place(run)

    # --- machines ---

    def _apply_outage(self, change: OutageEvent) -> None:
        match change:
            case StockoutBegan():
                self._begin_stockout(change.stockout, change.until)
            case StockoutEnded():
                waiting, self.waiting_for_machines = self.waiting_for_machines, {}
                for run in waiting.values():
                    self._change_from_outside(run.queue)
                    self._start_pods(run)
            case NodeFailed():
                self._fail_node(change.failure, change.draws)
            case _:
                assert_never(change)

    def _begin_stockout(self, stockout: Stockout, until: float) -> None:
        flavor = stockout.flavor
        self.stockouts.setdefault(flavor, []).append((until, stockout.share))
        self.record.stockouts.append((self.now, until, flavor, float(stockout.share)))
        self.record.count(f"stockouts of {flavor}")
        if not stockout.stops_running:
            return
        hit = [run for run in self.running.values() if flavor in run.flavors]
        if stockout.share < 1:
            self.random.named("stockout hits", flavor, self.now).shuffle(hit)
        for run in hit:
            if self._lacks_machines(FlavorName(flavor)):
                self._fail(run, f"flavor {flavor} ran dry")

    def _missing(self, flavor: FlavorName) -> Fraction:
        """The share of a flavor's quota that has no machines now."""
        stockouts = self.stockouts.get(flavor, ())
        return min(Fraction(1), sum((s for until, s in stockouts if until > self.now), Fraction(0)))

    def _there_are(self, cell: FlavorResource) -> int:
        return int((1 - self._missing(cell.flavor)) * self.cluster.quota_of(cell))

    def _are_there_machines(self, run: JobRun) -> bool:
        return not self.stockouts or all(
            self.machines_in_use.get(cell, 0) + amount <= self._there_are(cell)
            for cell, amount in (run.usage or {}).items()
            if cell.flavor in self.stockouts and self._missing(cell.flavor)
        )

    def _lacks_machines(self, flavor: FlavorName) -> bool:
        """Are more machines in use than there are?"""
        in_use = self.machines_in_use.items()
        return any(n > self._there_are(cell) for cell, n in in_use if cell.flavor == flavor)

    def take_machines(self, run: JobRun) -> None:
        run.machines_from = self.now
        self.on_machines[run.index] = run.usage or {}
        for cell, amount in (run.usage or {}).items():
            self.machines_in_use[cell] = self.machines_in_use.get(cell, 0) + amount
            self.record.add_rented(self.now, cell, amount)

    def _return_machines(self, run: JobRun) -> None:
        """Whoever waits for machines of a flavor that is short may have them now."""
        run.machines_from = None
        for cell, amount in self.on_machines.pop(run.index, {}).items():
            self.machines_in_use[cell] -= amount
            self.record.add_rented(self.now, cell, -amount)
        for waiting in self.waiting_for_machines.values():
            if self._are_there_machines(waiting):
                planned = Planned(self._try_machines, waiting, waiting.attempt)
                self.agenda.plan(self.now, planned)

    def _try_machines(self, run: JobRun) -> None:
        if self.waiting_for_machines.pop(run.index, None) is not None:
            self._start_pods(run)

    def _place(self, machines: Machines) -> None:
        """Let placement decide about the jobs that wait for nodes, and carry that out."""
        for decision in machines.place(self.now):
            match decision:
                case BindPods():
                    run = self.runs[WorkloadKey(decision.preemptor.key)]
                    nodes = sorted({place.node for place in decision.placement})
                    run.tell(self.now, Incident("placed", f"on {', '.join(nodes)}"))
                    self._start_on_machines(run)
                case PreemptUnits():
                    preemptor = self.runs[WorkloadKey(decision.preemptor.key)]
                    for workload in decision.workloads:
                        self._make_way(self.runs[workload], preemptor)
                case WaitForNodes():
                    run = self.runs[WorkloadKey(decision.preemptor.key)]
                    run.tell(self.now, Incident("waits for nodes", decision.reason.value))
                case _:
                    raise AssertionError(f"no bind of ours ever fails, yet {decision}")

    def _make_way(self, run: JobRun, preemptor: JobRun) -> None:
        """A whole job is preempted for the sake of another one's place on nodes."""
        detail, reason = f"{preemptor.key} needs its nodes", EvictionReason.PREEMPTED_IN_PLACEMENT
        run.tell(self.now, Incident("preempted in placement", detail))
        self._tell(ev.Evicted(run.key, reason, self.now))
        self._stop(run, reason.value, StayEnding.PREEMPTED, preemptor.index)

    def _fail_node(self, failure: Failure, draws: Random) -> None:
        """A node fails, and with it jobs that run on its flavor."""
        self.record.count(f"node failures of {failure.flavor}")
        for _ in range(failure.jobs):
            hit = [run for run in self.running.values() if failure.flavor in run.flavors]
            if not hit:
                return
            chosen = draws.choice(hit)
            beside = (
                (chosen.key,) if self.machines is None else self.machines.jobs_beside(chosen.key)
            )
            for key in beside:
                if self.runs[key].run_from is not None:
                    self._fail(self.runs[key], f"a node of {failure.flavor} failed")

    def _fail(self, run: JobRun, why: str) -> None:
        """Pods are lost and start again; the job keeps its quota unless the engine says else."""
        self.record.count("jobs hit by failures")
        self._lose_progress(run)
        self._end_stay(run, StayEnding.FAILED)
        run.held_from = self.now
        run.tell(self.now, Incident("pods failed", why))
        self._tell(ev.PodsChanged(run.key, False, self.now))
        self._change_from_outside(run.queue)
        self._return_machines(run)
        if self.machines is not None:
            self.machines.release(run.key)
        self._start_pods(run)


def _earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two moments, of which either may never come."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def depends_on_pods(cluster: SimulatedCluster) -> bool:
    """Whether it makes a difference to any decision when pods are ready."""
    return (
        cluster.config.pods_ready is not None
        or bool(cluster.settings.startup or cluster.settings.failures)
        or any(
            queue.fungibility.fallbacks.rules
            or queue.preemption.min_runtime_s
            or queue.preemption.sorting
            for queue in cluster.queues.values()
        )
    )


def machines_for(cluster: SimulatedCluster) -> Machines | None:
    if not cluster.settings.nodes:
        return None
    # Imported here: numpy takes 0.2 s to load, longer than many a simulation.
    from makeway.sim.machines import Machines

    return Machines(cluster.settings.nodes)

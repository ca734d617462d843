"""The simulated world: it tells the engine what happens and does what the engine decides.

There is no policy in here. Jobs come when the trace says so, pods take their time to start and
to stop, machines run dry or break as the settings have it; who runs is the engine's affair. One
loop goes from moment to moment: all that is due happens, then there is a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, NamedTuple, assert_never

from makeway.engine import events as ev
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    Decision,
    Evict,
    Preempt,
    Requeue,
    Reserve,
    StartOver,
    Wait,
)
from makeway.engine.engine import Engine
from makeway.engine.model import (
    CheckName,
    CheckState,
    EvictionReason,
    WorkloadKey,
)
from makeway.sim.chance import Chance
from makeway.sim.clock import Agenda
from makeway.sim.cluster import Cluster
from makeway.sim.demand import Demand
from makeway.sim.jobs import Trace
from makeway.sim.record import (
    Ending,
    Eviction,
    Fate,
    Incident,
    Life,
    MadeWay,
    Moment,
    NoRoom,
    Placed,
    Record,
)
from makeway.sim.settings import (
    EVERY,
    NO_DELAY,
    READY_AT_ONCE,
    Failure,
    Stockout,
    for_flavor,
    for_queue,
)
from makeway.sim.weather import Change, MachinesBack, NodeFailed, RanDry, Weather
from makeway.translate.categories import can_never_run

if TYPE_CHECKING:
    from makeway.sim.machines import Machines

CYCLES_BETWEEN_LOOKS = 256  # of whoever watches
ANY_ATTEMPT = -1


class Progress(NamedTuple):
    now: float
    last_submit: float
    jobs_ended: int
    jobs: int
    steps: int


Watch = Callable[[Progress], bool]  # returns whether to go on


class Planned(NamedTuple):
    """Something that will happen to a job, unless its attempt is over by then."""

    act: Callable[[Life], None]
    life: Life
    attempt: int

    @property
    def is_off(self) -> bool:
        return self.life.ended_at is not None or self.attempt not in (
            self.life.attempt,
            ANY_ATTEMPT,
        )


class World:
    def __init__(
        self,
        cluster: Cluster,
        trace: Trace,
        seed: int = 0,
        explained: Iterable[str] = (),
        queue: str | None = None,
    ) -> None:
        self.cluster, self.settings = cluster, cluster.settings
        self.trace = trace
        self.chance = Chance(seed)
        self.engine = Engine(cluster.config)
        self.record = Record()
        self.now = 0.0
        self.agenda: Agenda[Planned] = Agenda()
        self.weather = Weather(self.settings, self.chance)
        self.demand = Demand(cluster, trace, tuple(explained), queue)
        self._arrivals = iter(self.demand.lives)
        self._coming = next(self._arrivals, None)  # the next one to be submitted
        self._deadline: float | None = None  # when the engine wants to be asked again
        self.lives: dict[WorkloadKey, Life] = {}  # that have come and not ended
        self.jobs_ended = 0
        self.dry_until: dict[str, float] = {}  # by flavor
        self.waiting_for_machines: dict[int, Life] = {}  # admitted onto a dry flavor
        self.running: dict[int, Life] = {}  # whose pods run
        self._startup = {
            cell.flavor: for_flavor(self.settings.startup, cell.flavor) or NO_DELAY
            for cell in cluster.cells()
        }
        self.machines = machines_for(cluster)
        self._checks = {check.name: check for check in self.settings.checks}
        for event in cluster.events:  # after the demand, which may have added local queues
            self.engine.apply(event)
        for name in cluster.queues:
            self.record.add_queue(name, cluster.cells())

    # --- from moment to moment ---

    def run(self, until: float | None = None, watch: Watch | None = None) -> bool:
        """Go on until nothing can happen any more; False if it was stopped before that."""
        while (now := self._next_moment()) is not None:
            if until is not None and now > until:
                self.now = until
                return False
            self.now = now
            self._let_happen()
            self._deadline = self._decide()
            if self.machines is not None:
                self._place(self.machines)
            if not self._may_go_on(watch):
                return False
        return True

    def _next_moment(self) -> float | None:
        """When something happens next; None when nothing will, or nobody is left to care."""
        if self._coming is None and not self.lives:
            return None
        agenda = self.agenda
        while (planned := agenda.first) is not None and planned.is_off:
            agenda.drop_first()
        moments = [at for at in (agenda.next_at, self._deadline) if at is not None]
        if self._coming is not None:
            moments.append(self._coming.job.submit_s)
        if not moments and not self.waiting_for_machines:
            return None
        if self.weather.next_at is not None:
            moments.append(self.weather.next_at)
        return min(moments, default=None)

    def _let_happen(self) -> None:
        """All that is due: machines first, then jobs that are there, then new ones."""
        now = self.now
        while (change := self.weather.take(now)) is not None:
            self._endure(change)
        while (planned := self.agenda.take(now)) is not None:
            if not planned.is_off:
                self.record.steps += 1
                planned.act(planned.life)
        while (coming := self._coming) is not None and coming.job.submit_s <= now:
            self.record.steps += 1
            self._coming = next(self._arrivals, None)
            self._submit(coming)

    def explain_open(self) -> None:
        """End the stories of jobs that have not ended with where they stand, and why."""
        for life in self.lives.values():
            if life.story is not None:
                life.story.append(Moment(self.now, self.engine.explain(life.key)))

    def _may_go_on(self, watch: Watch | None) -> bool:
        if watch is None or self.record.cycles % CYCLES_BETWEEN_LOOKS:
            return True
        return watch(self.progress())

    def progress(self) -> Progress:
        lives = self.demand.lives
        last = lives[-1].job.submit_s if lives else 0.0
        return Progress(self.now, last, self.jobs_ended, len(lives), self.record.steps)

    def _decide(self) -> float | None:
        self.record.cycles += 1
        cycle = self.engine.run_cycle(self.now)
        for decision in cycle.decisions:
            self._carry_out(decision)
        return cycle.next_at

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Preempt():
                preemptor = self.lives[decision.preemptor]
                preemptor.reasons = decision.reasons
                self._tell(preemptor, decision)
                for victim in decision.victims:
                    if victim.is_new:
                        life = self.lives[victim.workload]
                        self._tell(life, decision)
                        self._stop(life, victim.rule.value, Ending.PREEMPTED, preemptor.index)
                return
            case _:
                life = self.lives[decision.workload]
        self._tell(life, decision)
        match decision:
            case Admit():
                self._take_hold(life, decision)
                self._start_pods(life)
            case Reserve():
                self._take_hold(life, decision)
                for check in decision.checks:
                    self._ask(life, check)
            case Wait():
                life.reasons = decision.reasons
                if can_never_run(decision.reasons) and self._can_never_run(life):
                    self.record.count("jobs that can never fit")
                    self._leave(life, Fate.NEVER_FITS)
            case Evict():
                self._evict(life, decision)
            case Deactivate():
                self.record.count(decision.reason.value)
                if life.usage is not None:
                    self._stop(life, decision.reason.value, Ending.EVICTED)
                    life.fate = Fate.DEACTIVATED
                else:
                    self._leave(life, Fate.DEACTIVATED)
            case Requeue():
                self.record.count("requeues after a back-off")
            case StartOver():
                self.record.count("rounds over all flavors")
            case _:
                assert_never(decision)

    def _can_never_run(self, life: Life) -> bool:
        """A cycle may have looked at some flavors only; ask about all of them."""
        obstacles = self.engine.explain(life.key).obstacles
        return can_never_run(obstacles)

    def _evict(self, life: Life, decision: Evict) -> None:
        if decision.reason is EvictionReason.FLAVOR_FALLBACK:
            for failure in decision.flavors:
                self.record.count(f"fallbacks from {failure.flavor}")
        self._stop(life, decision.reason.value, Ending.EVICTED)

    # --- a job's way ---

    def _submit(self, life: Life) -> None:
        self.record.lives.append(life)
        self.lives[life.key] = life
        life.fate = Fate.WAITING
        self.record.waiting[life.queue].add(self.now, 1)
        self._tell(life, Incident("submitted", f"to queue {life.queue}"))
        self.engine.apply(ev.WorkloadSeen(self.demand.workload(life)))
        gives_up_at = self._gives_up_at(life)
        if gives_up_at is not None:
            self.agenda.plan(max(self.now, gives_up_at), Planned(self._cancel, life, ANY_ATTEMPT))

    def _gives_up_at(self, life: Life) -> float | None:
        if life.job.cancel_s is not None:
            return life.job.cancel_s
        rule = for_queue(self.settings.cancellations, life.queue)
        if rule is None or self.chance.named("cancels", life.key).random() >= rule.share:
            return None
        return self.now + self.chance.delay_s(rule.patience, "patience", life.key)

    def _take_hold(self, life: Life, decision: Admit | Reserve) -> None:
        if life.usage is not None:
            return  # it was reserved before, and is admitted now
        life.usage = decision.assignment.usage()
        life.flavors = decision.assignment.flavors()
        life.held_from = self.now
        life.pods_admitted = sum(pod_set.count for pod_set in decision.assignment.pod_sets)
        self.record.charge(self.now, life.queue, life.usage)
        self.record.waiting[life.queue].add(self.now, -1)

    def _ask(self, life: Life, check: CheckName) -> None:
        setting = self._checks.get(check) or self._checks.get(EVERY) or READY_AT_ONCE
        name = ("check", check, life.key, life.attempt)
        luck = self.chance.named(*name).random() if setting.rejects or setting.retries else 1.0
        state = CheckState.READY
        if luck < setting.rejects:
            state = CheckState.REJECTED
        elif luck < setting.rejects + setting.retries:
            state = CheckState.RETRY
        answer = ev.CheckAnswered(life.key, check, state, setting.retry_after)

        def say(life: Life) -> None:
            self.record.count(f"admission check {check} said {state.value}")
            self._tell(life, Incident(f"check {check} says {state.value}"))
            self.engine.apply(answer)

        delay_s = self.chance.delay_s(setting, *name, "latency")
        self.agenda.plan(self.now + delay_s, Planned(say, life, life.attempt))

    def _start_pods(self, life: Life) -> None:
        if any(self.dry_until.get(flavor, 0.0) > self.now for flavor in life.flavors):
            self.waiting_for_machines[life.index] = life
            self._tell(life, Incident("no machines", f"of flavor {', '.join(life.flavors)}"))
        elif self.machines is not None and self.machines.pool_of(life) is not None:
            self.machines.ask(life, self.demand.pod_requests(life), self.now)
        else:
            self._boot(life)

    def _boot(self, life: Life) -> None:
        """Its machines are there; pods take a while until they are ready."""
        planned = Planned(self._pods_ready, life, life.attempt)
        delay_s = max(
            (
                self.chance.delay_s(self._startup[f], "startup", f, life.key, life.attempt)
                for f in life.flavors
            ),
            default=0.0,
        )
        if delay_s:
            self.agenda.plan(self.now + delay_s, planned)
        else:
            self._pods_ready(life)

    def _pods_ready(self, life: Life) -> None:
        life.run_from = self.now
        if life.first_run_at is None:
            life.first_run_at = self.now
        life.fate = Fate.RUNNING
        self.running[life.index] = life
        self.record.running[life.queue].add(self.now, 1)
        self._count_busy(life, 1)
        self.record.stay(life, life.held_from, self.now, Ending.OPEN, ran=False)
        self._tell(life, Incident("pods ready", f"on {', '.join(life.flavors)}"))
        self.engine.apply(ev.PodsChanged(life.key, True, self.now))
        left_s = (life.job.run_s - life.done_s) / speed_of(life)
        self.agenda.plan(self.now + left_s, Planned(self._finish, life, life.attempt))

    def _finish(self, life: Life) -> None:
        self._end_stay(life, Ending.FINISHED)
        life.done_s = life.job.run_s
        self.engine.apply(ev.WorkloadFinished(life.key))
        self._tell(life, Incident("finished"))
        self._leave(life, Fate.FINISHED)

    def _cancel(self, life: Life) -> None:
        if life.ended_at is not None:
            return
        if life.run_from is not None:
            life.done_s += (self.now - life.run_from) * speed_of(life)
        self._end_stay(life, Ending.CANCELLED)
        self._tell(life, Incident("cancelled", "by its user"))
        self._leave(life, Fate.CANCELLED)

    def _stop(self, life: Life, cause: str, ending: Ending, by: int = -1) -> None:
        """Its pods are told to end; they are gone after a while."""
        life.evictions += 1
        self.record.evictions.append(Eviction(self.now, life.index, life.queue, cause, by))
        self._lose_progress(life)
        self._end_stay(life, ending)
        life.held_from = self.now
        if self.machines is not None:
            self.machines.leave(life.key)
        gone = Planned(self._pods_gone, life, life.attempt)
        self.agenda.plan(self.now + self.settings.termination, gone)

    def _pods_gone(self, life: Life) -> None:
        self.record.stay(life, life.held_from, self.now, Ending.OPEN, ran=False)
        self.engine.apply(ev.PodsGone(life.key))
        self._tell(life, Incident("pods gone"))
        if life.fate is Fate.DEACTIVATED:
            self._leave(life, Fate.DEACTIVATED)
            return
        self._release(life)
        life.fate = Fate.WAITING
        self.record.waiting[life.queue].add(self.now, 1)

    def _lose_progress(self, life: Life) -> None:
        if life.run_from is None:
            return
        progress_s = life.done_s + (self.now - life.run_from) * speed_of(life)
        kept_s = 0.0
        if life.checkpoint_s is not None:
            kept_s = max(life.done_s, progress_s // life.checkpoint_s * life.checkpoint_s)
        life.done_s = min(kept_s, life.job.run_s)
        life.lost_s += progress_s - life.done_s

    def _end_stay(self, life: Life, ending: Ending) -> None:
        """Its pods no longer run, and nothing that was planned for them happens."""
        life.attempt += 1
        self.waiting_for_machines.pop(life.index, None)
        if life.run_from is not None:
            self.record.stay(life, life.run_from, self.now, ending, ran=True)
            self.record.running[life.queue].add(self.now, -1)
            self._count_busy(life, -1)
            del self.running[life.index]
            life.run_from = None
        elif life.usage is not None:
            self.record.stay(life, life.held_from, self.now, ending, ran=False)

    def _leave(self, life: Life, fate: Fate) -> None:
        """It is gone for good; the engine need not remember it."""
        if life.usage is None:
            self.record.waiting[life.queue].add(self.now, -1)
        self._release(life)
        life.fate, life.ended_at = fate, self.now
        life.attempt += 1
        self.jobs_ended += 1
        del self.lives[life.key]
        self.engine.apply(ev.WorkloadRemoved(life.key))

    def _release(self, life: Life) -> None:
        if self.machines is not None:
            self.machines.release(life.key)
        if life.usage is not None:
            self.record.release(self.now, life.queue, life.usage)
            life.usage = None
            life.flavors = ()

    def _count_busy(self, life: Life, sign: int) -> None:
        assert life.usage is not None
        for cell, amount in life.usage.items():
            self.record.busy[cell].add(self.now, sign * amount)

    def _tell(self, life: Life, what: Decision | Incident) -> None:
        if life.story is not None:
            life.story.append(Moment(self.now, what))

    # --- machines ---

    def _endure(self, change: Change) -> None:
        match change:
            case RanDry():
                self._run_dry(change.stockout, change.until)
            case MachinesBack():
                waiting, self.waiting_for_machines = self.waiting_for_machines, {}
                for life in waiting.values():
                    self._start_pods(life)
            case NodeFailed():
                self._break(change.failure, change.draws)
            case _:
                assert_never(change)

    def _run_dry(self, stockout: Stockout, until: float) -> None:
        flavor = stockout.flavor
        self.dry_until[flavor] = max(until, self.dry_until.get(flavor, 0.0))
        self.record.dry.append((self.now, until, flavor))
        self.record.count(f"stockouts of {flavor}")
        if stockout.stops_running:
            for life in [life for life in self.running.values() if flavor in life.flavors]:
                self._fail(life, f"flavor {flavor} ran dry")

    def _place(self, machines: Machines) -> None:
        """Let placement decide about those who wait for nodes, and carry that out."""
        for outcome in machines.place(self.now):
            life = self.lives[outcome.workload]
            match outcome:
                case Placed():
                    self._tell(life, Incident("placed", f"on {', '.join(outcome.nodes)}"))
                    self._boot(life)
                case MadeWay():
                    preemptor = self.lives[outcome.preemptor]
                    detail = f"{preemptor.key} needs its nodes"
                    self._tell(life, Incident("preempted in placement", detail))
                    reason = EvictionReason.PREEMPTED_IN_PLACEMENT
                    self.engine.apply(ev.Evicted(life.key, reason, self.now))
                    self._stop(life, reason.value, Ending.PREEMPTED, preemptor.index)
                case NoRoom():
                    self._tell(life, Incident("waits for nodes", outcome.why))
                case _:
                    assert_never(outcome)

    def _break(self, failure: Failure, draws: Random) -> None:
        """A node fails, and with it jobs that run on its flavor."""
        self.record.count(f"node failures of {failure.flavor}")
        for _ in range(failure.jobs):
            hit = [life for life in self.running.values() if failure.flavor in life.flavors]
            if not hit:
                return
            chosen = draws.choice(hit)
            beside = (
                (chosen.key,) if self.machines is None else self.machines.jobs_beside(chosen.key)
            )
            for key in beside:
                if self.lives[key].run_from is not None:
                    self._fail(self.lives[key], f"a node of {failure.flavor} failed")

    def _fail(self, life: Life, why: str) -> None:
        """Pods are lost and start again; the job keeps its quota unless the engine says else."""
        self.record.count("jobs hit by failures")
        self._lose_progress(life)
        self._end_stay(life, Ending.FAILED)
        life.held_from = self.now
        self._tell(life, Incident("pods failed", why))
        self.engine.apply(ev.PodsChanged(life.key, False, self.now))
        if self.machines is not None:
            self.machines.release(life.key)
        self._start_pods(life)


def machines_for(cluster: Cluster) -> Machines | None:
    if not cluster.settings.nodes:
        return None
    # Here, because placement loads numpy, which takes longer than many a simulation.
    from makeway.sim.machines import Machines

    return Machines(cluster.settings.nodes)


def speed_of(life: Life) -> float:
    """With fewer pods than asked for, the work takes longer in proportion."""
    return life.pods_admitted / life.pods_asked

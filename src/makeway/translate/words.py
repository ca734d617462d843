"""The engine's decisions and reasons as text.

Here, and nowhere else, they become sentences. Phrases that users of Kueue search their logs for
are kept word for word ("insufficient unused quota for cpu in flavor spot, 9 more needed"); where
Kueue gives a UID, the name of the other workload stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import ceil
from typing import NamedTuple, Self, assert_never

from makeway.api.quantity import format_amount
from makeway.api.times import format_span
from makeway.engine import decisions as dec
from makeway.engine import explain as exp
from makeway.engine import model
from makeway.translate.workloads import PODS_GONE

NAMES_SHOWN = 3
_ALL_AGAIN = "Every flavor that it could use is exhausted; it may try all of them again"
_ACCOMMODATES = "Preempted to accommodate a workload"


class Ref(NamedTuple):
    """An object that a line speaks of; whoever shows the line may call it by another name."""

    kind: str
    key: str  # namespace/name, or the name alone

    @property
    def text(self) -> str:
        """The key; of a LocalQueue, which is in the namespace of who waits in it, the name."""
        return self.key.rpartition("/")[2] if self.kind == "LocalQueue" else self.key


class Line(tuple[str | Ref, ...]):
    """A sentence in pieces, text and references; as a string it names the objects."""

    def __new__(cls, *pieces: str | Ref) -> Self:
        return super().__new__(cls, (piece for piece in pieces if piece))

    def __str__(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self)


def workload(key: model.WorkloadKey) -> Ref:
    return Ref("Workload", key)


class Text(NamedTuple):
    """A decision for people: what happened, to whom, and the sentences that explain it."""

    verb: str
    workload: model.WorkloadKey
    details: tuple[str, ...]  # at least one


def decision_text(decision: dec.Decision) -> Text:
    match decision:
        case dec.Admit():
            return Text("admitted", decision.workload, tuple(_admission(decision)))
        case dec.Reserve():
            return Text("reserved", decision.workload, tuple(_reservation(decision)))
        case dec.Preempt():
            return Text("preempts", decision.preemptor, tuple(_preemption(decision)))
        case dec.Wait():
            reasons = tuple(map(str, obstacle_lines(decision.reasons)))
            return Text("waits", decision.workload, reasons)
        case dec.Evict():
            return Text("evicted", decision.workload, tuple(_eviction(decision)))
        case dec.Deactivate():
            return Text("deactivated", decision.workload, tuple(_deactivation(decision)))
        case dec.Requeue():
            where = f"in line again in ClusterQueue {decision.queue}"
            details = (f"The workload backoff was finished; {where}",)
            return Text("requeued", decision.workload, details)
        case dec.StartOver():
            return Text("starts over", decision.workload, tuple(_new_round(decision)))
        case _:
            assert_never(decision)


def message_of(decision: dec.Decision) -> str:
    """All that a decision says in one line, as in the message of a condition."""
    return ". ".join(decision_text(decision).details)


# --- decisions ---


def reserved_text(queue: model.QueueName, waited_s: float) -> str:
    waited = format_span(waited_s)
    return f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited}"


def admitted_text(decision: dec.Admit) -> str:
    """What the event says: how long it waited for its checks."""
    waited = format_span(decision.checked_s)
    text = f"Admitted by ClusterQueue {decision.queue}, wait time since reservation was {waited}"
    return ". ".join((text, *_assigned(decision.assignment, decision.is_borrowing)))


def is_admitted_text(decision: dec.Admit) -> str:
    """The same as its condition has it."""
    return f"The workload is admitted. {admitted_text(decision)}"


def preempted_text(victims: Sequence[model.WorkloadKey]) -> str:
    """What the preemptor is told."""
    return f"Preempted {named(victims)} to make room"


def in_line_text(queue: model.QueueName, head: model.WorkloadKey | None) -> str:
    """For one in line that was not looked at; `head` is who stands before it."""
    return f"Waits in ClusterQueue {queue}" + (f" behind {head}" if head is not None else "")


def _admission(decision: dec.Admit) -> Iterator[str]:
    waited = format_span(decision.waited_s)
    yield f"Admitted by ClusterQueue {decision.queue}, wait time since queued was {waited}"
    yield from _assigned(decision.assignment, decision.is_borrowing)


def _reservation(decision: dec.Reserve) -> Iterator[str]:
    yield reserved_text(decision.queue, decision.waited_s)
    yield from _assigned(decision.assignment, decision.is_borrowing)
    yield f"It may start when {_names('admission check', decision.checks)} said Ready"


def _assigned(assignment: model.Assignment, is_borrowing: bool) -> Iterator[str]:
    amounts = [
        f"{amount_text(cell, used)} of flavor {cell.flavor}"
        for cell, used in sorted(assignment.usage().items())
    ]
    if amounts:
        yield ", ".join(amounts) + (", borrowing from the cohort" if is_borrowing else "")


def _preemption(decision: dec.Preempt) -> Iterator[str]:
    yield from map(str, obstacle_lines(decision.reasons))
    for victim in decision.victims:
        yield victim_line(victim, decision.preemptor)


class Standing(NamedTuple):
    """Who a workload is to others, and where its queue stands."""

    uid: str
    job_uid: str  # empty: of no job
    path: str  # of its queue, from the root of its tree


def victim_told(
    victim: dec.Victim, preemptor: model.WorkloadKey, standing: Standing, path: str
) -> str:
    """The same in the form that users of Kueue know; `standing` is the preemptor's."""
    unknown = "UNKNOWN"
    who = f"UID: {standing.uid or unknown}, JobUID: {standing.job_uid or unknown}"
    paths = f"preemptor path: {standing.path}; preemptee path: {path}"
    told = f"{_ACCOMMODATES} ({who}) due to {rule_text(victim.rule)}; {paths}"
    cells = _contested(victim)
    return f"{told}; preemptor: {preemptor}{f', for its {cells}' if cells else ''}"


def _contested(victim: dec.Victim) -> str:
    return ", ".join(f"{cell.resource} in flavor {cell.flavor}" for cell in victim.cells)


def victim_line(victim: dec.Victim, preemptor: model.WorkloadKey) -> str:
    return f"{victim.workload}: {victim_message(victim, preemptor)}"


def victim_message(victim: dec.Victim, preemptor: model.WorkloadKey) -> str:
    """What the victim is told; its first words are those of Kueue's condition."""
    return f"{_ACCOMMODATES} ({preemptor}) {victim_reason(victim)}"


def victim_reason(victim: dec.Victim) -> str:
    """By which rule a victim has to go, and for what of it."""
    reason, cells = f"due to {rule_text(victim.rule)} [{victim.rule.value}]", _contested(victim)
    if cells:
        reason += f", for its {cells}"
    return reason if victim.is_new else f"{reason}; it was on its way out already"


def rule_text(rule: dec.VictimRule) -> str:
    match rule:
        case dec.VictimRule.IN_QUEUE:
            return "prioritization in the ClusterQueue"
        case dec.VictimRule.RECLAIM:
            return "reclamation within the cohort"
        case dec.VictimRule.RECLAIM_WHILE_BORROWING:
            return "reclamation within the cohort while borrowing"
        case dec.VictimRule.FAIR_SHARING:
            return "Fair Sharing within the cohort"
        case _:
            assert_never(rule)


def _eviction(decision: dec.Evict) -> Iterator[str]:
    yield _eviction_cause(decision)
    outcome = "has failed" if decision.starts_over else "is passed over from now on"
    for failure in decision.flavors:
        why = f"{_trigger(failure.trigger)} [{failure.trigger.value}]"
        yield f"Flavor {failure.flavor} {outcome}: {why}"
    if decision.starts_over:
        yield _ALL_AGAIN
    if decision.requeue_at is not None:
        yield _back_off(decision.requeue_count)


def _eviction_cause(decision: dec.Evict) -> str:
    match decision.reason:
        case model.EvictionReason.PREEMPTED:
            return _ACCOMMODATES
        case model.EvictionReason.PREEMPTED_IN_PLACEMENT:
            return f"{_ACCOMMODATES} that needs its nodes"
        case model.EvictionReason.NODE_REBOOTED:
            return "The machine was started anew while its pods ran"
        case model.EvictionReason.PODS_READY_TIMEOUT:
            is_lost = decision.cause is model.Cause.WAIT_FOR_RECOVERY
            what = ": pods that were ready did not recover" if is_lost else ""
            return f"Exceeded the PodsReady timeout {decision.workload}{what}"
        case model.EvictionReason.ADMISSION_CHECK:
            return f"Evicted due to {_checks_in('Retry', decision.checks)}"
        case model.EvictionReason.FLAVOR_FALLBACK:
            flavors = ", ".join(failure.flavor for failure in decision.flavors)
            return (
                f"Evicted from ClusterQueue {decision.queue}: it falls back from flavor {flavors}"
            )
        case model.EvictionReason.QUEUE_STOPPED:
            return "The ClusterQueue is stopped"
        case model.EvictionReason.LOCAL_QUEUE_STOPPED:
            return "The LocalQueue is stopped"
        case model.EvictionReason.DEACTIVATED:
            return deactivated_text("" if decision.cause is None else due_to(decision.cause))
        case _:
            assert_never(decision.reason)


def stopped_text(reason: model.EvictionReason) -> str:
    """The same as a clause, where no more is known than the reason."""
    match reason:
        case model.EvictionReason.PREEMPTED:
            return "it makes way for a workload"
        case model.EvictionReason.PREEMPTED_IN_PLACEMENT:
            return "it makes way for a workload that needs its nodes"
        case model.EvictionReason.NODE_REBOOTED:
            return "the machine was started anew while its pods ran"
        case model.EvictionReason.PODS_READY_TIMEOUT:
            return "it exceeds the PodsReady timeout"
        case model.EvictionReason.ADMISSION_CHECK:
            return "an AdmissionCheck is in Retry state"
        case model.EvictionReason.FLAVOR_FALLBACK:
            return "it falls back to another flavor"
        case model.EvictionReason.QUEUE_STOPPED:
            return "the ClusterQueue is stopped"
        case model.EvictionReason.LOCAL_QUEUE_STOPPED:
            return "the LocalQueue is stopped"
        case model.EvictionReason.DEACTIVATED:
            return "the workload is deactivated"
        case _:
            assert_never(reason)


def _checks_in(state: str, checks: Sequence[model.CheckName]) -> str:
    what = "AdmissionChecks" if len(checks) > 1 else "AdmissionCheck"
    return f"{what} in {state} state: " + "; ".join(f'"{check}"' for check in checks)


def deactivated_text(cause: str) -> str:
    """That a workload is switched off; an empty cause: its user wants it so."""
    return f"The workload is deactivated due to {cause}" if cause else "The workload is deactivated"


def due_to(cause: model.Cause, checks: Sequence[model.CheckName] = ()) -> str:
    """What stands behind an eviction; `checks` that were rejected, where they are known."""
    match cause:
        case model.Cause.FLAVORS_EXHAUSTED:
            return "exhausting every flavor that it could use"
        case model.Cause.REQUEUE_LIMIT:
            return "exceeding the maximum number of re-queuing retries"
        case model.Cause.CHECK_REJECTED:
            return (
                _checks_in("Rejected", checks) if checks else "an AdmissionCheck in Rejected state"
            )
        case model.Cause.TIME_IS_UP:
            return "exceeding the maximum execution time"
        case model.Cause.WAIT_FOR_START:
            return "pods that were not ready in time"
        case model.Cause.WAIT_FOR_RECOVERY:
            return "pods that did not recover in time"
        case _:
            assert_never(cause)


def _trigger(trigger: model.Trigger) -> str:
    match trigger:
        case model.Trigger.TIMEOUT:
            return "pods were not ready within the rule's timeout"
        case model.Trigger.CHECK_REJECTED:
            return "an admission check rejected it"
        case _:
            assert_never(trigger)


def _deactivation(decision: dec.Deactivate) -> Iterator[str]:
    yield deactivated_text(due_to(decision.reason.cause, decision.checks))
    for trial in decision.history:
        yield trial_text(trial)
    yield "Set active: true to let it try again"


def _new_round(decision: dec.StartOver) -> Iterator[str]:
    yield _ALL_AGAIN
    if decision.requeue_at is not None:
        yield _back_off(decision.requeue_count)


def _back_off(count: int) -> str:
    return f"In line again after a back-off (requeue number {count})"


def trial_text(trial: model.FlavorTrial) -> str:
    if trial.reason is None or trial.exhausted_at is None:
        return f"Flavor {trial.flavor}: not exhausted"
    held = format_span(trial.exhausted_at - trial.assigned_at)
    return f"Flavor {trial.flavor}: {_trigger(trial.reason)}, {held} after it was assigned"


# --- reasons ---


def waiting_message(
    obstacles: Iterable[exp.Obstacle], moment: Callable[[float], str] | None = None
) -> str:
    """All obstacles in one line, as in the message of a condition; those of a pod set together.

    `moment` writes a point in time, where readers have a clock that it can be found on.
    """
    whole, of_pod_sets = _by_pod_set(obstacles)
    parts = [str(obstacle_line(obstacle, moment=moment)) for obstacle in whole]
    for pod_set, own in of_pod_sets.items():
        texts = ", ".join(map(_of_pod_set, own))
        parts.append(f"couldn't assign flavors to pod set {pod_set}: {texts}")
    return ". ".join(parts)


def obstacle_lines(
    obstacles: Iterable[exp.Obstacle],
    now: float | None = None,
    moment: Callable[[float], str] | None = None,
) -> Iterator[Line]:
    """The same, an obstacle on each line."""
    whole, of_pod_sets = _by_pod_set(obstacles)
    yield from (obstacle_line(obstacle, now, moment) for obstacle in whole)
    for pod_set, own in of_pod_sets.items():
        yield Line(f"couldn't assign flavors to pod set {pod_set}:")
        yield from (Line(f"- {_of_pod_set(reason)}") for reason in own)


_OfPodSet = dec.NotCovered | dec.FlavorMismatch | dec.ExceedsCapacity | dec.Shortfall


def _by_pod_set(
    obstacles: Iterable[exp.Obstacle],
) -> tuple[list[exp.Obstacle], dict[model.PodSetName, list[_OfPodSet]]]:
    """Obstacles that concern the workload as a whole, and those of its pod sets."""
    whole: list[exp.Obstacle] = []
    of_pod_sets: dict[model.PodSetName, list[_OfPodSet]] = {}
    for obstacle in _without_contradiction(tuple(obstacles)):
        if isinstance(obstacle, _OfPodSet):
            of_pod_sets.setdefault(obstacle.pod_set, []).append(obstacle)
        else:
            whole.append(obstacle)
    return whole, of_pod_sets


def _without_contradiction(obstacles: Sequence[exp.Obstacle]) -> Iterator[exp.Obstacle]:
    """Who may not preempt now, or not this much, may have victims who would free enough."""
    of_time = dec.PreemptionPaused | dec.OnlyTime
    is_pausing = any(isinstance(obstacle, of_time) for obstacle in obstacles)
    refused = {obstacle.cell for obstacle in obstacles if isinstance(obstacle, dec.WaitsForOwner)}
    for obstacle in obstacles:
        if isinstance(obstacle, dec.Shortfall) and (is_pausing or obstacle.cell in refused):
            yield obstacle._replace(preemption=dec.Preemptability.POSSIBLE)
        else:
            yield obstacle


def obstacle_line(
    obstacle: exp.Obstacle,
    now: float | None = None,
    moment: Callable[[float], str] | None = None,
) -> Line:
    """What is in the way of a workload; with `now`, how much longer what time will end."""
    match obstacle:
        case dec.LostToOthers():
            return Line("Workload no longer fits after processing another workload")
        case dec.VictimsTaken():
            return Line("Workload has overlapping preemption targets with another workload")
        case dec.WaitingForVictims(victims):
            return Line(f"Pending the preemption of {len(victims)} workload(s): ", *named(victims))
        case dec.HeldForPreemptor(preemptor):
            return Line("The place is held for ", workload(preemptor), ", for whom others make way")
        case dec.PodsNotReady(unready):
            text = "waiting for all admitted workloads to be in PodsReady condition: those of "
            return Line(text, workload(unready), " are not ready")
        case dec.WaitsForOwner(cell, owner, queue):
            what = f"borrowing {cell.resource} of flavor {cell.flavor} would take what "
            whose = (workload(owner), " waits for in ClusterQueue ", Ref("ClusterQueue", queue))
            return Line(f"Owners first: {what}", *whose)
        case dec.PreemptionPaused(preemptions, until):
            if moment is not None and now is None:
                return Line(_pause_text(obstacle, f"at {moment(until)}"))
            if now is not None:
                return Line(_pause_text(obstacle, f"in {format_span(ceil(until - now))}"))
            pause = format_span(until - preemptions.last_at)
            return Line(_pause_text(obstacle, f"{pause} after the last time"))
        case dec.PreemptsLater(since, until):
            wait = format_span(until - since)
            text = f"Its queue lets a workload preempt {wait} after the first attempt"
            return Line(f"{text}: it may preempt {_from(until, now, moment)}")
        case dec.VictimsProtected(until, victims):
            when = _from(until, now, moment)
            what = " not run for the time that its queue grants: it may preempt "
            have = " has" if len(victims) == 1 else " have each"
            return Line(*named(victims), f"{have}{what}{when}")
        case dec.BudgetSpent(limit, needed, until):
            budget = f"The preemptors of its queue may cause {limit} eviction(s) in an hour"
            rest = f"fewer than the {needed} that it needs are left"
            return Line(f"{budget}, and {rest}: it may preempt {_from(until, now, moment)}")
        case dec.NamespaceNotAdmitted(namespace):
            return Line(f"Workload namespace ({namespace}) doesn't match ClusterQueue selector")
        case dec.Defective(problem) if problem == PODS_GONE:
            return Line(f"The workload waits for pods: {problem}")
        case dec.Defective(problem):
            return Line(f"The workload can't run as it is written: {problem}")
        case exp.NoLocalQueue(local_queue):
            return Line("LocalQueue ", Ref("LocalQueue", local_queue), " doesn't exist")
        case exp.LocalQueueStopped(local_queue):
            return Line("LocalQueue ", Ref("LocalQueue", local_queue), " is inactive: Stopped")
        case exp.NoQueue(queue):
            return Line("ClusterQueue ", Ref("ClusterQueue", queue), " doesn't exist")
        case exp.QueueInactive(queue, why, missing):
            named_ones = f" ({', '.join(missing)})" if missing else ""
            why_text = f" is inactive: {why.value}{named_ones}"
            return Line("ClusterQueue ", Ref("ClusterQueue", queue), why_text)
        case exp.BackingOff(until, requeues):
            left = format_span(until - (now or 0.0))
            return Line(f"It backs off for another {left} (requeue number {requeues})")
        case exp.EvictedByStop(reason):
            return Line(f"It waits for the return of its queue [{reason.value}]")
        case exp.BehindHead(head):
            return Line("Nobody passes the head of a StrictFIFO queue: ", workload(head))
        case exp.ChecksOpen(checks):
            states = ", ".join(f"{check} is {state.value}" for check, state in checks)
            return Line(f"Admission checks are open: {states}")
        case exp.LettingGo(reason):
            return Line(f"Its pods have not gone yet [{reason.value}]")
        case _:
            return Line(_of_pod_set(obstacle))


def _from(until: float, now: float | None, moment: Callable[[float], str] | None) -> str:
    """From a point in time on, as far as readers have a clock that it can be found on."""
    left = "" if now is None else format_span(max(0, ceil(until - now)))
    if moment is not None:
        return f"from {moment(until)} on" + (f" (in {left})" if left else "")
    return f"in {left}" if left else "then"


def _pause_text(paused: dec.PreemptionPaused, when: str) -> str:
    times = paused.preemptions.times
    often = "once" if times == 1 else f"{times} times"
    return f"It has preempted others {often} without running for long: it may preempt again {when}"


def _of_pod_set(reason: _OfPodSet) -> str:
    match reason:
        case dec.NotCovered():
            return f"resource {reason.resource} unavailable in ClusterQueue"
        case dec.FlavorMismatch():
            return _mismatch(reason)
        case dec.ExceedsCapacity():
            return _exceeds(reason)
        case dec.Shortfall():
            return _shortfall(reason)
        case _:
            assert_never(reason)


def _mismatch(reason: dec.FlavorMismatch) -> str:
    match reason.kind:
        case dec.MismatchKind.MISSING:
            return f"flavor {reason.flavor} not found"
        case dec.MismatchKind.TAINT:
            return f"untolerated taint {reason.detail} in flavor {reason.flavor}"
        case dec.MismatchKind.AFFINITY:
            return f"flavor {reason.flavor} doesn't match node affinity"
        case dec.MismatchKind.EXHAUSTED:
            return f"flavor {reason.flavor} is exhausted for this workload"
        case _:
            assert_never(reason.kind)


def _exceeds(reason: dec.ExceedsCapacity) -> str:
    flavor, resource = reason.cell
    earlier, requested, capacity = (
        format_amount(resource, amount)
        for amount in (reason.earlier, reason.requested, reason.capacity)
    )
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets"
        f" requests ({earlier}) + current podset request ({requested})"
        f" > maximum capacity ({capacity})"
    )


def _shortfall(reason: dec.Shortfall) -> str:
    flavor, resource = reason.cell
    missing = format_amount(resource, reason.missing)
    text = f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"
    match reason.preemption:
        case dec.Preemptability.POSSIBLE:
            return text
        case dec.Preemptability.FORBIDDEN:
            why = "the request exceeds nominal quota and policy forbids preemption with borrowing"
            return f"{text} ({why})"
        case dec.Preemptability.NO_VICTIMS:
            return f"{text} (nobody who may be preempted would free enough)"
        case _:
            assert_never(reason.preemption)


# --- amounts, names ---


def amount_text(cell: model.FlavorResource, amount: int) -> str:
    return f"{format_amount(cell.resource, amount)} {cell.resource}"


def _names(what: str, names: tuple[str, ...]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def named(keys: Sequence[model.WorkloadKey], last: str = "and") -> Line:
    """`a`, `a and b`, `a, b and 7 more`."""
    names: list[str | Ref] = [workload(key) for key in keys[:NAMES_SHOWN]]
    if len(keys) > NAMES_SHOWN:
        names.append(f"{len(keys) - NAMES_SHOWN} more")
    between = [", "] * (len(names) - 2) + [f" {last} "] * (len(names) > 1)
    return Line(*(piece for pair in zip_longest(names, between, fillvalue="") for piece in pair))

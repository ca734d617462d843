"""The engine's decisions and reasons as text.

Here, and nowhere else, data becomes sentences. Phrases that users of Kueue search their logs for
are kept word for word ("insufficient unused quota for cpu in flavor spot, 9 more needed"); where
Kueue gives a UID, the name of the other workload stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, assert_never

from makeway.api.quantity import format_amount
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationReason,
    Decision,
    Defective,
    Evict,
    ExceedsCapacity,
    FlavorFailure,
    FlavorMismatch,
    HeldForPreemptor,
    LostToOthers,
    MismatchKind,
    NamespaceNotAdmitted,
    NotCovered,
    Preempt,
    Preemptability,
    Reason,
    Requeue,
    Reserve,
    Shortfall,
    StartOver,
    Victim,
    VictimRule,
    VictimsTaken,
    Wait,
    WaitingForVictims,
)
from makeway.engine.model import (
    Assignment,
    EvictionReason,
    FlavorResource,
    FlavorTrial,
    PodSetName,
    Trigger,
    WorkloadKey,
)
from makeway.translate.workloads import PODS_GONE

NAMES_SHOWN = 3


class Text(NamedTuple):
    """A decision for people: what happened, to whom, and the sentences that explain it."""

    verb: str
    workload: WorkloadKey
    details: tuple[str, ...]  # at least one


def decision_text(decision: Decision) -> Text:
    match decision:
        case Admit():
            return Text("admitted", decision.workload, tuple(_admission(decision)))
        case Reserve():
            return Text("reserved", decision.workload, tuple(_reservation(decision)))
        case Preempt():
            return Text("preempts", decision.preemptor, tuple(_preemption(decision)))
        case Wait():
            return Text("waits", decision.workload, tuple(reason_lines(decision.reasons)))
        case Evict():
            return Text("evicted", decision.workload, tuple(_eviction(decision)))
        case Deactivate():
            return Text("deactivated", decision.workload, tuple(_deactivation(decision)))
        case Requeue():
            details = (f"Back-off finished, in line again in ClusterQueue {decision.queue}",)
            return Text("requeued", decision.workload, details)
        case StartOver():
            return Text("starts over", decision.workload, tuple(_new_round(decision)))
        case _:
            assert_never(decision)


# --- decisions ---


def _admission(decision: Admit) -> Iterator[str]:
    waited = format_span(decision.waited_s)
    yield f"Admitted by ClusterQueue {decision.queue}, wait time since queued was {waited}"
    yield from _assigned(decision.assignment, decision.is_borrowing)


def _reservation(decision: Reserve) -> Iterator[str]:
    waited = format_span(decision.waited_s)
    yield f"Quota reserved in ClusterQueue {decision.queue}, wait time since queued was {waited}"
    yield from _assigned(decision.assignment, decision.is_borrowing)
    yield f"It may start when {_names('admission check', decision.checks)} said Ready"


def _assigned(assignment: Assignment, is_borrowing: bool) -> Iterator[str]:
    amounts = [
        f"{amount_text(cell, used)} of flavor {cell.flavor}" for cell, used in _cells(assignment)
    ]
    if amounts:
        yield ", ".join(amounts) + (", borrowing from the cohort" if is_borrowing else "")


def _cells(assignment: Assignment) -> Iterator[tuple[FlavorResource, int]]:
    yield from sorted(assignment.usage().items())


def _preemption(decision: Preempt) -> Iterator[str]:
    yield from reason_lines(decision.reasons)
    for victim in decision.victims:
        yield f"{victim.workload}: {victim_message(victim, decision.preemptor)}"


def victim_message(victim: Victim, preemptor: WorkloadKey) -> str:
    """What the victim is told; its first words are those of Kueue's condition."""
    cells = ", ".join(f"{cell.resource} in flavor {cell.flavor}" for cell in victim.cells)
    message = (
        f"Preempted to accommodate a workload ({preemptor}) due to {rule_text(victim.rule)}"
        f" [{victim.rule.value}]"
    )
    if cells:
        message += f", for its {cells}"
    return message if victim.is_new else f"{message}; it was on its way out already"


def rule_text(rule: VictimRule) -> str:
    match rule:
        case VictimRule.IN_QUEUE:
            return "prioritization in the ClusterQueue"
        case VictimRule.RECLAIM:
            return "reclamation within the cohort"
        case VictimRule.RECLAIM_WHILE_BORROWING:
            return "reclamation within the cohort while borrowing"
        case VictimRule.FAIR_SHARING:
            return "Fair Sharing within the cohort"
        case _:
            assert_never(rule)


def _eviction(decision: Evict) -> Iterator[str]:
    message = f"Evicted from ClusterQueue {decision.queue}: {_eviction_cause(decision)}"
    yield f"{message} [{decision.reason.value}]"
    for failure in decision.flavors:
        yield f"Flavor {failure.flavor} is passed over from now on: {_failure(failure)}"
    if decision.requeue_at is not None:
        yield _back_off(decision.requeue_count)


def _eviction_cause(decision: Evict) -> str:
    match decision.reason:
        case EvictionReason.PREEMPTED:
            return "another workload needs its place"
        case EvictionReason.PREEMPTED_IN_PLACEMENT:
            return "another workload needs its nodes"
        case EvictionReason.PODS_READY_TIMEOUT:
            return "its pods were not ready in time"
        case EvictionReason.ADMISSION_CHECK:
            return f"{_names('admission check', decision.checks)} asked for a retry"
        case EvictionReason.FLAVOR_FALLBACK:
            flavors = ", ".join(failure.flavor for failure in decision.flavors)
            return f"it falls back from flavor {flavors}"
        case EvictionReason.QUEUE_STOPPED:
            return "the ClusterQueue is stopped"
        case EvictionReason.LOCAL_QUEUE_STOPPED:
            return "its LocalQueue is stopped"
        case EvictionReason.DEACTIVATED:
            return "the workload is deactivated"
        case _:
            assert_never(decision.reason)


def _failure(failure: FlavorFailure) -> str:
    return f"{_trigger(failure.trigger)} [{failure.trigger.value}]"


def _trigger(trigger: Trigger) -> str:
    match trigger:
        case Trigger.TIMEOUT:
            return "pods were not ready within the rule's timeout"
        case Trigger.CHECK_REJECTED:
            return "an admission check rejected it"
        case _:
            assert_never(trigger)


def _deactivation(decision: Deactivate) -> Iterator[str]:
    yield f"{_deactivation_cause(decision)} [{decision.reason.value}]"
    for trial in decision.history:
        yield trial_text(trial)
    yield "Set active: true to let it try again"


def _deactivation_cause(decision: Deactivate) -> str:
    match decision.reason:
        case DeactivationReason.FLAVORS_EXHAUSTED:
            return "Every flavor that it could use is exhausted"
        case DeactivationReason.REQUEUE_LIMIT:
            return "It was requeued as often as the back-off limit allows"
        case DeactivationReason.CHECK_REJECTED:
            return f"Rejected by {_names('admission check', decision.checks)}"
        case _:
            assert_never(decision.reason)


def _new_round(decision: StartOver) -> Iterator[str]:
    yield "Every flavor that it could use is exhausted; it may try all of them again"
    if decision.requeue_at is not None:
        yield _back_off(decision.requeue_count)


def _back_off(count: int) -> str:
    return f"In line again after a back-off (requeue number {count})"


def trial_text(trial: FlavorTrial) -> str:
    if trial.reason is None or trial.exhausted_at is None:
        return f"Flavor {trial.flavor}: not exhausted"
    held = format_span(trial.exhausted_at - trial.assigned_at)
    return f"Flavor {trial.flavor}: {_trigger(trial.reason)}, {held} after it was assigned"


# --- reasons ---


def waiting_message(reasons: Iterable[Reason]) -> str:
    """All reasons in one line, as in the message of a condition; those of a pod set together."""
    whole, of_pod_sets = _by_pod_set(reasons)
    parts = [reason_text(reason) for reason in whole]
    for pod_set, own in of_pod_sets.items():
        texts = ", ".join(map(reason_text, own))
        parts.append(f"couldn't assign flavors to pod set {pod_set}: {texts}")
    return ". ".join(parts)


def reason_lines(reasons: Iterable[Reason]) -> Iterator[str]:
    """The same, a reason on each line."""
    whole, of_pod_sets = _by_pod_set(reasons)
    yield from map(reason_text, whole)
    for pod_set, own in of_pod_sets.items():
        yield f"couldn't assign flavors to pod set {pod_set}:"
        for reason in own:
            yield f"- {reason_text(reason)}"


def _by_pod_set(
    reasons: Iterable[Reason],
) -> tuple[list[Reason], dict[PodSetName, list[Reason]]]:
    """Reasons that concern the workload as a whole, and those of its pod sets."""
    whole: list[Reason] = []
    of_pod_sets: dict[PodSetName, list[Reason]] = {}
    for reason in reasons:
        match reason:
            case NotCovered() | FlavorMismatch() | ExceedsCapacity() | Shortfall():
                of_pod_sets.setdefault(reason.pod_set, []).append(reason)
            case _:
                whole.append(reason)
    return whole, of_pod_sets


def reason_text(reason: Reason) -> str:
    match reason:
        case NotCovered():
            return f"resource {reason.resource} unavailable in ClusterQueue"
        case FlavorMismatch():
            return _mismatch(reason)
        case ExceedsCapacity():
            return _exceeds(reason)
        case Shortfall():
            return _shortfall(reason)
        case LostToOthers():
            return "Workload no longer fits after processing another workload"
        case VictimsTaken():
            return "Workload has overlapping preemption targets with another workload"
        case WaitingForVictims():
            count = len(reason.victims)
            return f"Pending the preemption of {count} workload(s): {names_text(reason.victims)}"
        case HeldForPreemptor():
            return f"The place is held for {reason.preemptor}, for whom others make way"
        case NamespaceNotAdmitted():
            return f"Workload namespace ({reason.namespace}) doesn't match ClusterQueue selector"
        case Defective(problem=problem) if problem == PODS_GONE:
            return f"The workload waits for pods: {problem}"
        case Defective():
            return f"The workload can't run as it is written: {reason.problem}"
        case _:
            assert_never(reason)


def _mismatch(reason: FlavorMismatch) -> str:
    match reason.kind:
        case MismatchKind.MISSING:
            return f"flavor {reason.flavor} not found"
        case MismatchKind.TAINT:
            return f"untolerated taint {reason.detail} in flavor {reason.flavor}"
        case MismatchKind.AFFINITY:
            return f"flavor {reason.flavor} doesn't match node affinity"
        case MismatchKind.EXHAUSTED:
            return f"flavor {reason.flavor} is exhausted for this workload"
        case _:
            assert_never(reason.kind)


def _exceeds(reason: ExceedsCapacity) -> str:
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


def _shortfall(reason: Shortfall) -> str:
    flavor, resource = reason.cell
    missing = format_amount(resource, reason.missing)
    text = f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"
    match reason.preemption:
        case Preemptability.POSSIBLE:
            return text
        case Preemptability.FORBIDDEN | Preemptability.NO_VICTIMS:
            return f"{text} ({reason.preemption.value})"
        case _:
            assert_never(reason.preemption)


# --- amounts, names, times ---


def amount_text(cell: FlavorResource, amount: int) -> str:
    return f"{format_amount(cell.resource, amount)} {cell.resource}"


def _names(what: str, names: tuple[str, ...]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def names_text(keys: tuple[WorkloadKey, ...], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and 7 more`."""
    names: list[str] = list(keys[:NAMES_SHOWN])
    if len(keys) > NAMES_SHOWN:
        names.append(f"{len(keys) - NAMES_SHOWN} more")
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def format_span(seconds: float) -> str:
    """`45s`, `10m`, `1h 30m`: the two largest units that are not zero."""
    left = max(0, round(seconds))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"

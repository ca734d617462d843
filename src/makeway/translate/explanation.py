"""The engine's explanation of one workload as text: why it does not run, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from makeway.api.quantity import format_amount
from makeway.engine.decisions import Reason, VictimRule
from makeway.engine.explain import (
    AllOf,
    AnyOf,
    BackingOff,
    BehindHead,
    ChecksOpen,
    EvictedByStop,
    Explanation,
    Help,
    HigherBorrowingLimit,
    Holder,
    LettingGo,
    LocalQueueStopped,
    LowerMinimum,
    MatchingLabels,
    MoreQuota,
    NoLocalQueue,
    NoQueue,
    Obstacle,
    OtherLocalQueue,
    OtherNamespace,
    OtherQueue,
    OtherResources,
    QueueInactive,
    Refusal,
    ResumedLocalQueue,
    ResumedQueue,
    SmallerRequest,
    ToleratedTaint,
    WayIn,
)
from makeway.engine.model import Phase
from makeway.translate.words import (
    amount_text,
    format_span,
    names_text,
    reason_lines,
    rule_text,
    trial_text,
)


def explanation_lines(explanation: Explanation, now: float) -> Iterator[str]:
    """One thought per line; `now` is for what is still to come."""
    yield _standing(explanation)
    reasons: list[Reason] = []
    for obstacle in explanation.obstacles:
        text = obstacle_text(obstacle, now)
        if isinstance(text, str):
            yield text
        else:
            reasons.append(text)
    yield from reason_lines(reasons)
    if explanation.would_preempt:
        yield f"It would preempt {names_text(explanation.would_preempt)}"
    if explanation.holders:
        yield "Who holds what is missing:"
        yield from map(_holder, explanation.holders)
    if explanation.helps:
        yield "What would help, any of these:"
        yield from map(_help, explanation.helps)
    yield from (trial_text(trial) for trial in explanation.history if trial.reason is not None)


def _standing(explanation: Explanation) -> str:
    where = f" in ClusterQueue {explanation.queue}" if explanation.queue is not None else ""
    match explanation.phase:
        case Phase.PENDING:
            line = f"{explanation.workload} waits{where}"
            if explanation.position is not None:
                line += f", position in queue: {explanation.position}"
            if explanation.ahead:
                line += f" (before it: {names_text(explanation.ahead)})"
            return line
        case Phase.RESERVED:
            return f"{explanation.workload} holds quota{where} and may not start yet"
        case Phase.ADMITTED:
            return f"{explanation.workload} is admitted{where}"
        case Phase.EVICTING:
            return f"{explanation.workload} is being stopped and still holds quota{where}"
        case Phase.INACTIVE:
            return f"{explanation.workload} is not active; set active: true to let it try again"
        case Phase.FINISHED:
            return f"{explanation.workload} has finished"
        case _:
            assert_never(explanation.phase)


def obstacle_text(obstacle: Obstacle, now: float) -> str | Reason:
    """A line; or the reason itself, which is told together with those of its pod set."""
    match obstacle:
        case NoLocalQueue():
            return f"LocalQueue {obstacle.local_queue} doesn't exist"
        case LocalQueueStopped():
            return f"LocalQueue {obstacle.local_queue} is stopped"
        case NoQueue():
            return f"ClusterQueue {obstacle.queue} doesn't exist"
        case QueueInactive():
            missing = f" ({', '.join(obstacle.missing)})" if obstacle.missing else ""
            return f"ClusterQueue {obstacle.queue} is inactive: {obstacle.why.value}{missing}"
        case BackingOff():
            left = format_span(obstacle.until - now)
            return f"It backs off for another {left} (requeue number {obstacle.requeues})"
        case EvictedByStop():
            return f"It waits for the return of its queue [{obstacle.reason.value}]"
        case BehindHead():
            return f"Nobody passes the head of a StrictFIFO queue: {obstacle.head}"
        case ChecksOpen():
            states = ", ".join(f"{check} is {state.value}" for check, state in obstacle.checks)
            return f"Admission checks are open: {states}"
        case LettingGo():
            return f"Its pods have not gone yet [{obstacle.reason.value}]"
        case _:
            return obstacle


def _holder(holder: Holder) -> str:
    amounts = ", ".join(
        f"{amount_text(cell, amount)} of flavor {cell.flavor}" for cell, amount in holder.amounts
    )
    match holder.verdict:
        case VictimRule():
            verdict = f"may be taken by {rule_text(holder.verdict)}"
        case Refusal.LETTING_GO:
            verdict = "is leaving already"
        case Refusal():
            verdict = f"stays: {holder.verdict.value}"
        case _:
            assert_never(holder.verdict)
    return f"- {holder.workload} (ClusterQueue {holder.queue}): {amounts}; {verdict}"


def _help(help: Help) -> str:
    match help:
        case MoreQuota():
            return (
                f"- {amount_text(help.cell, help.amount)} more quota of flavor {help.cell.flavor}"
            )
        case AnyOf():
            return f"- the end of {names_text(help.workloads, 'or')}"
        case AllOf():
            return f"- the end of {names_text(help.workloads)}, together"
        case SmallerRequest():
            flavor, resource = help.cell
            capacity = format_amount(resource, help.capacity)
            return f"- a request for at most {capacity} {resource}, to fit flavor {flavor}"
        case LowerMinimum():
            return f"- a minimum of less than {help.least} pods in pod set {help.pod_set}"
        case HigherBorrowingLimit():
            flavor, resource = help.cell
            limit = f"borrowingLimit of ClusterQueue {help.queue} for {resource}"
            return f"- a higher {limit} in flavor {flavor}"
        case MatchingLabels():
            labels = ", ".join(f"{name}={value}" for name, value in help.labels)
            return (
                f"- a node selector that goes with flavor {help.flavor} ({labels or 'no labels'})"
            )
        case ToleratedTaint():
            return f"- a toleration of {help.taint}, to use flavor {help.flavor}"
        case _:
            return f"- {_way_in(help)}"


def _way_in(help: WayIn) -> str:
    """What concerns queues: which there are, and what they take."""
    match help:
        case ResumedQueue():
            return f"`makeway resume clusterqueue {help.queue}`"
        case ResumedLocalQueue():
            namespace, _, name = help.local_queue.partition("/")
            return f"`makeway resume queue {name} -n {namespace}`"
        case OtherLocalQueue():
            return f"another LocalQueue; there are: {', '.join(help.local_queues)}"
        case OtherQueue():
            return f"another ClusterQueue; there are: {', '.join(help.queues)}"
        case OtherNamespace():
            return f"another namespace; admitted are: {', '.join(help.namespaces)}"
        case OtherResources():
            return f"other resources; the ClusterQueue covers: {', '.join(help.resources)}"
        case _:
            assert_never(help)

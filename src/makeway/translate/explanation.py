"""The engine's explanation of one workload as text: why it does not run, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from makeway.api.quantity import format_amount
from makeway.api.times import format_span
from makeway.engine import explain as exp
from makeway.engine.decisions import VictimRule
from makeway.engine.model import PastUsage, Phase, Protection
from makeway.translate.words import (
    Line,
    Ref,
    amount_text,
    due_to,
    named,
    obstacle_lines,
    rule_text,
    trial_text,
    workload,
)

Moment = Callable[[float], str]  # writes a point in time


def explanation_lines(
    explanation: exp.Explanation, now: float, moment: Moment | None = None
) -> Iterator[Line]:
    """One thought per line; `now` is for what is still to come.

    `moment` writes a point in time, where readers have a clock that it can be found on.
    """
    yield Line(workload(explanation.workload), *_standing(explanation))
    yield from obstacle_lines(explanation.obstacles, now, moment)
    if explanation.boost:
        yield Line(f"So long a wait counts as {explanation.boost} more priority in line")
    if explanation.past is not None:
        yield Line(past_text(explanation.past))
    if explanation.stake is not None:
        yield from map(Line, _at_stake(explanation.stake, now, moment))
    yield from map(_threat, explanation.threats)
    yield from map(_left, explanation.left_by_owners)
    if explanation.is_owner:
        yield Line(
            "It asks for no more than its ClusterQueue owns: "
            "until it has its place, nobody else begins to borrow that"
        )
    if explanation.would_preempt:
        yield Line("It would preempt ", *named(explanation.would_preempt))
    if explanation.holders:
        yield Line("Who holds what is missing:")
        yield from (_holder(holder, now, moment) for holder in explanation.holders)
    if explanation.helps:
        yield Line("What would help, any of these:")
        yield from (Line("- ", *_help(help)) for help in explanation.helps)
    for trial in explanation.history:
        if trial.reason is not None:
            yield Line(trial_text(trial))


def _standing(explanation: exp.Explanation) -> Line:
    """What is said of the workload, its name left out."""
    queue = explanation.queue
    where = () if queue is None else (" in ClusterQueue ", Ref("ClusterQueue", queue))
    match explanation.phase:
        case Phase.PENDING:
            position, ahead = explanation.position, explanation.ahead
            place = "" if position is None else f", position in queue: {position}"
            before = (" (before it: ", *named(ahead), ")") if ahead else ()
            return Line(" waits", *where, place, *before)
        case Phase.RESERVED:
            return Line(" holds quota", *where, " and may not start yet")
        case Phase.ADMITTED:
            return Line(" is admitted", *where)
        case Phase.EVICTING:
            return Line(" is being stopped and still holds quota", *where)
        case Phase.INACTIVE:
            cause = explanation.deactivated_for
            why = "" if cause is None else f" due to {due_to(cause)} [{cause.value}]"
            return Line(f" is not active{why}; set active: true to let it try again")
        case Phase.FINISHED:
            return Line(" has ended")
        case _:
            assert_never(explanation.phase)


def _left(left: exp.LeftByOwners) -> Line:
    flavor, resource = left.cell
    some = format_amount(resource, left.left) if left.left > 0 else "none"
    asked = format_amount(resource, left.asked)
    what = f"{some} of the {asked} {resource} of flavor {flavor} that it asks for"
    return Line(f"Those who wait for quota of their own leave it {what}")


def past_text(past: PastUsage) -> str:
    half = format_span(past.half_life_s)
    if past.of_share is None:
        return f"LocalQueue {past.local_queue} has used nothing lately (half-life {half})"
    share = f"{past.of_share:.1f} times its share"
    return f"LocalQueue {past.local_queue} has used {share} lately (half-life {half})"


def _at_stake(stake: exp.Stake, now: float, moment: Moment | None) -> Iterator[str]:
    """What somebody who runs would lose, and for how long it is safe."""
    if stake.protection is not None:
        yield f"Nobody may preempt it yet: {_protected(stake, stake.protection, now, moment)}"
    if stake.lost_s:
        saved = "" if stake.lost_s == stake.ran_s else ", all since its last checkpoint"
        yield f"To preempt it now would cost {format_span(stake.lost_s)} of work{saved}"
    if stake.cost:
        yield f"By its milestones a disruption costs {stake.cost:g} now"


def _threat(threat: exp.Threat) -> Line:
    queue = Ref("ClusterQueue", threat.queue)
    if threat.rule is VictimRule.IN_QUEUE:
        return Line("It may have to make way for who has more priority in ClusterQueue ", queue)
    what = ", which may take back what others borrow"
    return Line("It may have to make way for ClusterQueue ", queue, what)


def _protected(stake: exp.Stake, protection: Protection, now: float, moment: Moment | None) -> str:
    until, granted_s = protection.until, protection.until - protection.since
    left = format_span(max(0.0, until - now))
    when = f"for another {left}" if moment is None else f"until {moment(until)}"
    return f"protected {when} (has run {format_span(stake.ran_s)} of {format_span(granted_s)})"


def _holder(holder: exp.Holder, now: float, moment: Moment | None) -> Line:
    amounts = ", ".join(
        f"{amount_text(cell, amount)} of flavor {cell.flavor}" for cell, amount in holder.amounts
    )
    queue = Ref("ClusterQueue", holder.queue)
    borrowed = ", ".join(amount_text(cell, amount) for cell, amount in holder.borrowed)
    borrows = f", which borrows {borrowed}" if borrowed else ""
    verdict, stake = _verdict(holder.verdict), holder.stake
    if stake is not None and stake.protection is not None and not verdict:
        verdict = f"stays: {_protected(stake, stake.protection, now, moment)}"
    elif stake is not None and isinstance(holder.verdict, VictimRule) and stake.lost_s:
        verdict += f", which would cost {format_span(stake.lost_s)} of work"
    held = f"{borrows}): {amounts}; {verdict}"
    return Line("- ", workload(holder.workload), " (ClusterQueue ", queue, held)


def _verdict(verdict: VictimRule | exp.Refusal) -> str:
    match verdict:
        case VictimRule():
            return f"may be taken by {rule_text(verdict)}"
        case exp.Refusal.LETTING_GO:
            return "is leaving already"
        case exp.Refusal.POLICY:
            return "stays: the queue's preemption policy forbids it"
        case exp.Refusal.PRIORITY:
            return "stays: its priority is not low enough"
        case exp.Refusal.NOT_BORROWING:
            return "stays: its queue uses no more than its own quota"
        case exp.Refusal.QUEUE_STOPPED:
            return "stays: its queue is stopped"
        case exp.Refusal.BEYOND_QUOTA:
            return "stays: only a request within the queue's own quota could take it back"
        case exp.Refusal.NOT_ENOUGH:
            return "stays: all who could be preempted would not free enough"
        case exp.Refusal.PROTECTED:
            return ""  # what is at stake for it says the rest
        case _:
            assert_never(verdict)


def _help(help: exp.Help) -> Line:
    match help:
        case exp.MoreQuota():
            amount = amount_text(help.cell, help.amount)
            return Line(f"{amount} more quota of flavor {help.cell.flavor}")
        case exp.OwnQuota():
            amount = amount_text(help.cell, help.amount)
            queue = Ref("ClusterQueue", help.queue)
            more = f"{amount} more quota of flavor {help.cell.flavor} for ClusterQueue "
            return Line(more, queue, " itself, so that it need not borrow")
        case exp.AnyOf():
            return Line("the end of ", *named(help.workloads, "or"))
        case exp.AllOf():
            return Line("the end of ", *named(help.workloads), ", together")
        case exp.FitsNow():
            flavor, resource = help.cell
            amount = format_amount(resource, help.amount)
            return Line(f"ask for {amount} {resource}: so much is free in flavor {flavor} now")
        case exp.HigherPriority():
            taken = named(help.victims)
            return Line(f"priority {help.priority} or more: it would preempt ", *taken)
        case exp.SmallerRequest():
            flavor, resource = help.cell
            capacity = format_amount(resource, help.capacity)
            return Line(f"a request for at most {capacity} {resource}, to fit flavor {flavor}")
        case exp.LowerMinimum():
            return Line(f"a minimum of less than {help.least} pods in pod set {help.pod_set}")
        case exp.HigherBorrowingLimit():
            flavor, resource = help.cell
            queue = Ref("ClusterQueue", help.queue)
            of = f" for {resource} in flavor {flavor}"
            return Line("a higher borrowingLimit of ClusterQueue ", queue, of)
        case exp.OtherSetting():
            what = f"a {help.change} preemption.{help.field} of ClusterQueue "
            return Line(what, Ref("ClusterQueue", help.queue))
        case exp.MatchingLabels():
            labels = ", ".join(f"{name}={value}" for name, value in help.labels) or "no labels"
            return Line(f"a node selector that goes with flavor {help.flavor} ({labels})")
        case exp.ToleratedTaint():
            return Line(f"a toleration of {help.taint}, to use flavor {help.flavor}")
        case _:
            return Line(_way_in(help))


def _way_in(help: exp.WayIn) -> str:
    """What concerns queues: which there are, and what they take."""
    match help:
        case exp.ResumedQueue():
            return f"`makeway resume clusterqueue {help.queue}`"
        case exp.ResumedLocalQueue():
            namespace, _, name = help.local_queue.partition("/")
            return f"`makeway resume queue {name} -n {namespace}`"
        case exp.OtherLocalQueue():
            return f"another LocalQueue; there are: {', '.join(help.local_queues)}"
        case exp.OtherQueue():
            return f"another ClusterQueue; there are: {', '.join(help.queues)}"
        case exp.OtherNamespace():
            return f"another namespace; admitted are: {', '.join(help.namespaces)}"
        case exp.OtherResources():
            return f"other resources; the ClusterQueue covers: {', '.join(help.resources)}"
        case _:
            assert_never(help)

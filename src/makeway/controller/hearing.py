"""What a document of a Workload means to the engine: a table, without memory and without effects.

What the engine decides is counted at once and written afterwards. Until the write is confirmed, the
document still shows the old state, so a document is read in the light of three holds: what the
engine has decided, what the last document showed, and what we have sent.

  the document shows ...          it means
  what the engine has decided     confirmed; what else it says (pods, checks) counts now
  what it showed before           somebody changed something else; our write is still to come
  what we have sent               our write, overtaken by a later decision; that one is to come
  anything else                   somebody else moved the workload: pods let go, an eviction from
                                  outside, or the state that another controller gave it; what we
                                  had not written yet is forgotten

With its hold a workload has *notes* that nobody but a controller like us writes: its back-off, the
flavors it has tried, its claim, its preemptor. A note that is neither what it was, nor what we have
sent, nor what the engine has decided was made by another of us, who led before us or does not know
yet that it leads no more. Then the document counts as it stands, whatever the hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from makeway.api import queueing
from makeway.api.labels import IS_GROUP, LAST_CHECKPOINT, PREEMPTION_PRIORITY_CLASS
from makeway.api.meta import controller_of, find_condition
from makeway.client.client import Document
from makeway.controller.conditions import reason_in
from makeway.controller.statuses import PODS_READY, RESERVED
from makeway.engine import events as ev
from makeway.engine.model import (
    Amounts,
    Assignment,
    CheckName,
    CheckState,
    EvictionReason,
    FlavorName,
    Phase,
    QueueName,
    Workload,
    WorkloadKey,
    WorkloadStatus,
)
from makeway.engine.view import KnownWorkload
from makeway.translate.workloads import LACKS_PODS, TO_DEACTIVATE


class Hold(NamedTuple):
    """What matters of a workload's state to those who act upon it."""

    is_finished: bool
    queue: QueueName | None = None  # the queue whose quota it holds; None: it holds none
    flavors: tuple[object, ...] = ()  # with counts, per pod set
    is_admitted: bool = False
    evicted_for: EvictionReason | None = None  # set while it is evicted and its pods hold on


def hold_of(status: WorkloadStatus) -> Hold:
    if status.finished or status.assignment is None:
        return Hold(status.finished)
    return Hold(
        False,
        status.queue,
        _flavors_in(status.assignment),
        status.admitted_at is not None,
        None if status.eviction is None else status.eviction.reason,
    )


def _flavors_in(assignment: Assignment) -> tuple[object, ...]:
    return tuple((ps.name, ps.count, ps.flavors) for ps in assignment.pod_sets)


class Notes(NamedTuple):
    """What nobody but us writes down. Without moments: in objects they are rounded."""

    requeue_count: int
    backs_off: bool
    trials: tuple[tuple[FlavorName, bool], ...]  # and whether each is exhausted
    has_claim: bool
    claimed: tuple[object, ...]  # flavors with counts; empty: none, or it was not written down
    held_before: Amounts
    preemptor: WorkloadKey | None
    preemptions: int
    is_attempted: bool


def notes_of(status: WorkloadStatus) -> Notes:
    eviction, claim, preemptions = status.eviction, status.claim, status.preemptions
    return Notes(
        status.requeue_count,
        status.requeue_at is not None,
        tuple((trial.flavor, trial.exhausted_at is not None) for trial in status.history),
        claim is not None,
        _flavors_in(claim.assignment) if claim is not None and claim.assignment else (),
        {} if claim is None else claim.held_before,
        None if eviction is None else eviction.preemptor,
        0 if preemptions is None else preemptions.times,
        status.first_attempt_at is not None,
    )


class Account(NamedTuple):
    """What a document says of a workload, of all that the engine decides."""

    hold: Hold
    notes: Notes


def account_of(status: WorkloadStatus) -> Account:
    return Account(hold_of(status), notes_of(status))


class Sign(NamedTuple):
    """What changes whenever anything but the status of a workload does that we read."""

    uid: str
    generation: int
    preemption_class: str
    has_owner: bool  # somebody runs it, and says when its pods are gone
    given_up_for: str  # what a condition says of why it is not to be active; empty: none does
    lacks_pods: bool  # it can't run before others replace them
    checkpoint: str = ""  # when the job has last saved its work


def sign_of(document: Document, true: Set[str]) -> Sign:
    """`true` are the types of its conditions that hold."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations") or {}
    return Sign(
        metadata["uid"],
        metadata.get("generation") or 0,
        annotations.get(PREEMPTION_PRIORITY_CLASS) or "",
        controller_of(document) is not None or annotations.get(IS_GROUP) == "true",
        reason_in(document, TO_DEACTIVATE) if TO_DEACTIVATE in true else "",
        LACKS_PODS in true and RESERVED not in true,
        annotations.get(LAST_CHECKPOINT) or "",
    )


class Known(NamedTuple):
    """What we know of a workload when a document of it comes."""

    decided: KnownWorkload  # by the engine
    shown: Account  # by the document before this one
    sent: Account | None  # with the write that is on its way; None: none is
    has_unwritten: bool  # something is decided and not sent yet


class Meaning(NamedTuple):
    events: tuple[ev.Event, ...] = ()
    is_overtaken: bool = False  # what we were about to write counts no more
    is_agreed: bool = False  # what others say besides (`facts_of`) counts now


NOTHING = Meaning()


def meaning_of(workload: Workload, status: WorkloadStatus, known: Known) -> Meaning:
    """`workload` and `status` as the document has them."""
    key, shown, decided = workload.key, hold_of(status), hold_of(known.decided.status)
    if shown.is_finished:
        if known.decided.phase is Phase.FINISHED:
            return NOTHING
        return Meaning((ev.WorkloadFinished(key),), is_overtaken=True)
    seen = Meaning((ev.WorkloadSeen(workload, status),), is_overtaken=True, is_agreed=True)
    if _has_notes_of_another(status, known):
        return seen
    if shown == decided:
        return Meaning(is_agreed=True)
    if shown == known.shown.hold and (known.has_unwritten or known.sent is not None):
        return NOTHING
    eviction = status.eviction
    if decided.evicted_for is not None and shown.queue is None:
        is_ours = eviction is None or eviction.reason is decided.evicted_for
        return Meaning((ev.PodsGone(key),)) if is_ours else seen
    if known.sent is not None and shown == known.sent.hold:
        return NOTHING
    if eviction is not None and shown._replace(evicted_for=None) == decided:
        return Meaning((ev.Evicted(key, eviction.reason, eviction.at),), is_overtaken=True)
    return seen


def _has_notes_of_another(status: WorkloadStatus, known: Known) -> bool:
    noted, decided = notes_of(status), notes_of(known.decided.status)
    if noted.has_claim and not noted.claimed:  # the server keeps no more than the fact
        noted = noted._replace(claimed=decided.claimed, held_before=decided.held_before)
    sent = known.shown.notes if known.sent is None else known.sent.notes
    ours = zip(known.shown.notes, sent, decided, strict=True)
    return any(note not in candidates for note, candidates in zip(noted, ours, strict=True))


def facts_of(
    status: WorkloadStatus, view: queueing.Workload, decided: KnownWorkload
) -> Iterator[ev.Event]:
    """What others say of a workload whose hold is agreed upon, and the engine doesn't know."""
    key, known = decided.workload.key, decided.status
    if status.reclaimable != known.reclaimable:
        yield ev.PodsReclaimed(key, status.reclaimable)
    if status.assignment is None:
        return
    if status.pods_ready != known.pods_ready or not decided.pods_seen:
        condition = find_condition(view.status.conditions, PODS_READY)
        since = condition.last_transition_time if condition is not None else None
        at = (known.reserved_at or 0.0) if since is None else since
        yield ev.PodsChanged(key, status.pods_ready, at)
    for check in view.status.admission_checks:
        name, state = CheckName(check.name), CheckState(check.state)
        if state is not known.checks.get(name, CheckState.PENDING):
            yield ev.CheckAnswered(key, name, state, float(check.requeue_after_seconds or 0))

"""What the engine has made of workloads becomes writes to their statuses: one at a time for each.

What others act upon is written at once. Reasons for waiting only explain: they are written when
they have stood for a while, and only if readers don't know them yet. A workload that no queue will
look at is told so. The engine decides about heads alone, and parks those of equal shape with them:
the others in line are told once, late and in small numbers, for a line may be long.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from makeway.api.kinds import WORKLOADS
from makeway.client.client import ApiError, Conflict, Document, NotFound
from makeway.controller.check_states import checks_in
from makeway.controller.conditions import conditions_of
from makeway.controller.hearing import Account, Hold, Sign, account_of, notes_of
from makeway.controller.status_patches import status_patch
from makeway.controller.statuses import RESERVED, Condition, StatusUpdate, switched_off, waiting
from makeway.engine import events as ev
from makeway.engine.model import LocalQueueKey, Phase, WorkloadKey
from makeway.engine.view import KnownWorkload, View
from makeway.logs import Fields
from makeway.plane.outbox import Outbox
from makeway.plane.parts import Plan
from makeway.plane.picture import Picture, revision_of
from makeway.plane.writes import Key, Patch, as_seen
from makeway.translate.words import in_line_text

log = logging.getLogger("makeway.admission")

EXPLAINED_AFTER_S = 1.0  # reasons for waiting are written when they have stood that long
ON_THEIR_WAY_MAX = 500  # writes
RECHECKED_AT_ONCE_MAX = 200
EXPLAINED_AT_ONCE_MAX = 200
TOLD_AFTER_S = 5.0  # that they wait in line, to those who are no heads
TOLD_EVERY_S = 1.0
TOLD_AT_ONCE_MAX = 50
LOOKS_MAX = 10  # most of them have quota, or a reason, by the time that they are due
RETRY_S = 0.2
UNSURE_S = 60.0  # a write without an answer may have been done, and we may not have heard of it yet


class Sent(NamedTuple):
    update: StatusUpdate
    account: Account
    revision: int  # on which the patch builds
    is_void: bool = False  # overtaken: should it fail, it is not sent again


@dataclass(slots=True, eq=False)
class Record:
    """All that we remember of a workload, beside what the engine and the picture do."""

    # What its documents have shown.
    sign: Sign
    account: Account  # in the last document
    has_reason: bool = False  # its conditions say that it has quota, or why not
    pods: ev.PodsChanged | None = None  # told to the engine once that can be trusted
    # What is to be written.
    update: StatusUpdate | None = None  # decided, and nobody can see it yet
    explanation: StatusUpdate | None = None  # written when it has stood for a while
    sent: Sent | None = None  # the write on its way
    is_giving_up: bool = False  # deactivated by us, and the spec doesn't say so yet
    is_turned_away: bool = False  # it was told that no queue looks at it
    unanswered_at: float = -inf  # when a write had no answer, the fate of which is unknown


class Teller:
    def __init__(self, picture: Picture, view: View) -> None:
        self._picture, self._view = picture, view
        self.records: dict[WorkloadKey, Record] = {}
        self._writes: Outbox[WorkloadKey] = Outbox(RETRY_S)
        self._explanations: Outbox[WorkloadKey] = Outbox(RETRY_S)
        self._rechecks: Outbox[WorkloadKey] = Outbox(RETRY_S)  # pending ones may be in no queue
        self._changed_local_queues: dict[LocalQueueKey, None] = {}  # recheck what came from them
        self._overlooked: Outbox[WorkloadKey] = Outbox(RETRY_S)  # in line, and never told why
        self._overlooked_at = 0.0  # from when on some of them may be told

    # What there is to tell

    def tell(self, key: WorkloadKey, update: StatusUpdate) -> None:
        record = self.records[key]
        self._drop_explanation(key, record)
        known = record.update
        record.update = update if known is None else known.merged_with(update)
        self._writes.want(key)

    def explain(self, key: WorkloadKey, update: StatusUpdate, now: float) -> None:
        record = self.records[key]
        if record.update is not None:
            self.tell(key, update)  # it goes along
            return
        if record.explanation is None:
            self._explanations.want_at(key, now + EXPLAINED_AFTER_S)
        record.explanation = update

    def _drop_explanation(self, key: WorkloadKey, record: Record) -> None:
        if record.explanation is not None:
            record.explanation = None
            self._explanations.forget(key)

    def overtake(self, key: WorkloadKey) -> None:
        """Whatever we were about to write counts no more."""
        record = self.records[key]
        self._drop_explanation(key, record)
        self._writes.drop(key)
        self._rechecks.drop(key)
        self._overlooked.forget(key)
        record.update = record.pods = None
        record.is_giving_up = False
        if record.sent is not None:
            record.sent = record.sent._replace(is_void=True)

    def lose(self, key: WorkloadKey) -> None:
        """It is gone; what is on its way is left to its fate."""
        self.overtake(key)
        self._writes.forget(key)
        del self.records[key]

    def recheck(self, key: WorkloadKey) -> None:
        """Whether a queue will look at it may have changed."""
        self._rechecks.want(key)

    def recheck_from(self, local_queues: Iterable[LocalQueueKey]) -> None:
        self._changed_local_queues.update(dict.fromkeys(local_queues))

    # Telling

    def act(self, now: float) -> Plan:
        self._recheck_some(now)
        for key in self._explanations.take(now, EXPLAINED_AT_ONCE_MAX):
            record = self.records[key]
            update, record.explanation = record.explanation, None
            if update is not None and self._is_new_to_readers(key, update):
                self.tell(key, update)
        self._tell_overlooked(now)
        writes = [
            write
            for key in self._writes.take(now, max(0, ON_THEIR_WAY_MAX - self._writes.in_flight))
            if (write := self._write(key, now)) is not None
        ]
        return Plan(writes, self._next_at(now))

    def _recheck_some(self, now: float) -> None:
        """Tell those whom no queue will look at, and ask what is to be asked; a few at a time."""
        if self._changed_local_queues and not self._rechecks.wanted:
            local_queue, _ = self._changed_local_queues.popitem()
            for key in self._view.unfinished_from(local_queue):
                self._rechecks.want(key)
        for key in self._rechecks.take(now, RECHECKED_AT_ONCE_MAX):
            known = self._view.workload(key)
            if known is not None and known.phase in (Phase.RESERVED, Phase.ADMITTED):
                self._ask_checks(key, now)
            elif known is not None and known.phase is Phase.INACTIVE:
                self._tell_inactive(key)
            if not self._is_pending(known):
                continue
            record, obstacle = self.records[key], self._view.why_outside(key)
            if obstacle is not None:
                record.is_turned_away = True
                self.explain(key, waiting((obstacle,), False), now)
            elif record.is_turned_away:
                record.is_turned_away = False
                self.explain(key, self._why_in_line(key), now)
            elif not record.has_reason:
                self._overlooked.want_at(key, now + TOLD_AFTER_S)

    def _ask_checks(self, key: WorkloadKey, now: float) -> None:
        """Its queue may ask other checks than its status has, which nobody would answer."""
        document, record = self._picture.get(WORKLOADS, Key.parse(key)), self.records[key]
        if document is None or record.update is not None:
            return  # what is to be written has them
        if record.sent is not None:
            self._rechecks.want_at(key, now + RETRY_S)
        elif checks_in(document) != set(self._view.checks_for(key)):
            self.tell(key, StatusUpdate())

    def _tell_inactive(self, key: WorkloadKey) -> None:
        document = self._picture.get(WORKLOADS, Key.parse(key))
        update = switched_off()
        if document is not None and not _shows(document, update):
            self.tell(key, update)

    def _is_pending(self, known: KnownWorkload | None) -> bool:
        return known is not None and known.phase is Phase.PENDING

    def _tell_overlooked(self, now: float) -> None:
        """Those whose time has come, each once; a bounded number in each second."""
        if self._writes.wanted or now < self._overlooked_at:
            return
        told = 0
        for _ in range(LOOKS_MAX):
            keys = self._overlooked.take(now, TOLD_AT_ONCE_MAX - told)
            for key in filter(self._is_overlooked, keys):
                self.tell(key, self._why_in_line(key)._replace(events=()))
                told += 1
            if told == TOLD_AT_ONCE_MAX:
                self._overlooked_at = now + TOLD_EVERY_S
                return

    def _why_in_line(self, key: WorkloadKey) -> StatusUpdate:
        found = self._view.why_in_line(key)
        if found.reasons:
            return waiting(found.reasons, False)
        return waiting((), False, in_line_text(found.queue, found.behind))

    def _is_overlooked(self, key: WorkloadKey) -> bool:
        record = self.records[key]
        if not self._is_pending(self._view.workload(key)) or record.has_reason:
            return False
        is_coming = record.sent or record.update or record.explanation
        return not is_coming and self._view.why_outside(key) is None

    def _is_new_to_readers(self, key: WorkloadKey, update: StatusUpdate) -> bool:
        document = self._picture.get(WORKLOADS, Key.parse(key))
        known = self._view.workload(key)
        if document is None or known is None or known.phase is not Phase.PENDING:
            return False
        if notes_of(known.status) != self.records[key].account.notes:
            return True  # what it claims counts after a restart, whatever the reasons
        return not _shows(document, update)

    def _next_at(self, now: float) -> float | None:
        moments = [self._explanations.next_at(now), self._rechecks.next_at(now)]
        if self._changed_local_queues:
            moments.append(now)
        if not self._writes.wanted and (at := self._overlooked.next_at(now)) is not None:
            moments.append(max(at, self._overlooked_at))
        if self._writes.in_flight < ON_THEIR_WAY_MAX:  # else an answer will wake us
            moments.append(self._writes.next_at(now))
        return min((at for at in moments if at is not None), default=None)

    def _write(self, key: WorkloadKey, now: float) -> Patch | None:
        record, known = self.records.get(key), self._view.workload(key)
        document = self._picture.get(WORKLOADS, Key.parse(key))
        if record is None or record.update is None or document is None or known is None:
            return None
        update, record.update = record.update, None
        self._writes.sent(key)
        if record.is_giving_up and document["spec"].get("active", True):
            # First what counts: read back after a crash, it is told as an eviction at least.
            give_up: Document = {"metadata": as_seen(document), "spec": {"active": False}}
            record.sent = Sent(StatusUpdate(), record.account, revision_of(document))
            self.tell(key, update)
            return Patch(resource=WORKLOADS, key=Key.parse(key), patch=give_up)
        lets_go = not record.sign.has_owner
        checks = self._view.checks_for(key)
        patch = status_patch(document, known, update, now, lets_go=lets_go, checks=checks)
        account = account_of(known.status)
        if account.hold.evicted_for is not None and lets_go:
            account = account._replace(hold=Hold(False))
        record.sent = Sent(update, account, revision_of(document))
        return Patch(resource=WORKLOADS, key=Key.parse(key), patch=patch, subresource="status")

    # What became of it

    def settled(self, key: WorkloadKey) -> Sent | None:
        """A write has come to its end; None: nobody remembers it."""
        self._writes.settled(key)
        record = self.records.get(key)
        if record is None or record.sent is None:
            return None
        sent, record.sent = record.sent, None
        return sent

    def succeeded(self, key: WorkloadKey) -> None:
        self._writes.calm(key)

    def failed(self, key: WorkloadKey, sent: Sent, error: Exception, now: float) -> bool:
        """Write it again later, if it is still wanted; True: the server will never have it."""
        document = self._picture.get(WORKLOADS, Key.parse(key))
        if document is None or isinstance(error, NotFound) or sent.is_void:
            return False  # it is gone, or will be shown as gone; or nobody wants it any more
        record = self.records[key]
        later = record.update
        record.update = sent.update if later is None else sent.update.merged_with(later)
        if isinstance(error, Conflict) and revision_of(document) > sent.revision:
            self._writes.want(key)
        else:
            self._writes.drop(key)
            self._writes.failed(key, now)
        if not isinstance(error, ApiError):
            record.unanswered_at = now
        is_sure = now - record.unanswered_at > UNSURE_S
        is_refused = isinstance(error, ApiError) and not isinstance(error, Conflict) and is_sure
        if is_refused:
            log.error(Fields(workload=key, problem="refused", error=error))
        return is_refused


def _shows(document: Document, update: StatusUpdate) -> bool:
    """Whether readers know already why it has no quota."""
    conditions = conditions_of(document)
    shown = {tuple(c.get(field, "") for field in Condition._fields) for c in conditions}
    return all(told in shown for told in update.conditions if told.type == RESERVED)

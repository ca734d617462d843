"""What follows from a cycle for each of its heads: the decision is counted, and a head that has
to wait is put where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable

from makeway.engine.budgets import counts
from makeway.engine.claims import can_be_met
from makeway.engine.decisions import (
    Admit,
    Deactivate,
    DeactivationReason,
    Decision,
    HeadResult,
    HeldForPreemptor,
    OnlyTime,
    Preempt,
    PreemptionPaused,
    Reason,
    Reserve,
    Shortfall,
    StartOver,
    Victim,
    Wait,
    WaitingForVictims,
    WaitsForOwner,
)
from makeway.engine.entry import Entry, Scan
from makeway.engine.head import Head
from makeway.engine.model import (
    Claim,
    EvictionReason,
    FailurePolicy,
    FlavorResource,
    Phase,
    Strategy,
    WorkloadKey,
)
from makeway.engine.quota import exceeds_subtree
from makeway.engine.state import ClusterState, with_active, without_backoff
from makeway.engine.tree import QueueState


class Consequences:
    """Collects the decisions of one cycle in one tree while it carries them out."""

    def __init__(self, state: ClusterState, now: float, began_at: int) -> None:
        self.state = state
        self.now = now
        self.decisions: list[Decision] = []
        self.places_changed = False  # somebody was admitted, or has a claim from now on
        self.needs_cycle = False  # something has changed, so the next cycle may answer differently
        self.began_at = began_at  # the revision of the tree that the cycle has seen
        self.scan_wrapped = (
            False  # a head has tried every flavor: the next cycle repeats an old one
        )

    def carry_out(self, head: Head, taken: Iterable[WorkloadKey]) -> None:
        """`taken` are the victims of the whole cycle."""
        if head.result is not HeadResult.ADMITTED:
            self._note_attempt(head.entry, head.queue)
        match head.result:
            case HeadResult.ADMITTED:
                self._admit(head)
            case HeadResult.PREEMPTING:
                self._preempt(head)
            case HeadResult.PENDING_PREEMPTION:
                awaited = tuple(victim.entry.workload.key for victim in head.victims)
                self._await_victims(head, awaited or tuple(taken))
            case HeadResult.SKIPPED:
                head.queue.tree.was_put_off = self.state.config.gates.hold_for_preemptor
                self._remember_scan(head, self.state.config.gates.keep_scan_progress)
                self._step_back(head)
                self._free_places_behind(head)
            case HeadResult.NO_FIT | HeadResult.NO_CANDIDATES:
                self._remember_scan(head, True)
                self._give_up_hopeless_claim(head)
                self._park(head)
                self._free_places_behind(head)

    def pass_over(self, entry: Entry, queue: QueueState) -> None:
        """The head is without hope, as it was, or its equals were, when that was last told."""
        self._note_attempt(entry, queue)  # as a search does, each time, for all of its shape
        is_tried_again = False
        if entry.search.scan is not None:
            entry.search.scan = None
            queue.pending.firsts_version += 1
            is_tried_again = self._begins_again(entry, queue)
        if has_to_tell(self.state, queue) and not queue.pending.is_told(entry):
            self._wait(entry, queue, queue.pending.reasons_for(entry))
        if not is_tried_again:
            queue.pending.park_shape(entry)

    def _note_attempt(self, entry: Entry, queue: QueueState) -> None:
        if queue.spec.preemption.after_waiting_s:
            self.state.note_attempt(entry, self.now)

    def turn_away(self, entry: Entry, queue: QueueState, reason: Reason) -> None:
        """The head can't be admitted whatever the quota."""
        if entry.place is None:
            self.needs_cycle = True  # it makes room for the next in its queue
            self.state.claim(entry, None)  # and nobody keeps a place for it meanwhile
        self._wait(entry, queue, (reason,))

    def run_out_of_flavors(self, entry: Entry, queue: QueueState) -> None:
        """What was left to try is gone since: give up, or begin again after a pause."""
        self.needs_cycle = True
        history, reason = entry.status.history, DeactivationReason.FLAVORS_EXHAUSTED
        if queue.spec.fungibility.fallbacks.failure_policy is FailurePolicy.RETRY_ALL:
            status = self.state.backed_off(entry.status._replace(history=()), self.now)
            if status is not None:
                entry.search.scan = None
                self.state.move(entry, status)
                self.decisions.append(
                    StartOver(
                        workload=entry.workload.key,
                        queue=queue.spec.name,
                        requeue_at=status.requeue_at,
                        requeue_count=status.requeue_count,
                    )
                )
                return
            reason = DeactivationReason.REQUEUE_LIMIT
        given_up = with_active(entry.workload, False)
        self.state.decide(entry, without_backoff(entry.status), given_up)
        self.decisions.append(
            Deactivate(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                history=history,
            )
        )

    def _admit(self, head: Head) -> None:
        entry, queue, nomination = head.entry, head.queue, head.nomination
        assignment = nomination.assignment()
        checks = queue.checks_for(assignment)
        waited_s = self.now - entry.order_time
        self.needs_cycle = self.places_changed = True
        queue.tree.is_confirming = False  # it was not the last round
        self.state.reserve(entry, assignment, not checks, self.now)
        self._note_borrowing(head)
        is_borrowing = queue.is_borrowing(nomination.usage)
        if checks:
            self.decisions.append(
                Reserve(
                    workload=entry.workload.key,
                    queue=queue.spec.name,
                    assignment=assignment,
                    borrow_level=nomination.borrow_level,
                    is_borrowing=is_borrowing,
                    checks=checks,
                    waited_s=waited_s,
                )
            )
        else:
            self.decisions.append(
                Admit(
                    workload=entry.workload.key,
                    queue=queue.spec.name,
                    assignment=assignment,
                    borrow_level=nomination.borrow_level,
                    is_borrowing=is_borrowing,
                    waited_s=waited_s,
                )
            )

    def _note_borrowing(self, head: Head) -> None:
        """Who had no victims may have some now, where it is borrowed or a share has grown.

        But for owners: nobody was let borrow what they wait for. So unless shares count, it is
        those who may take from others while they borrow themselves.
        """
        config, tree, nomination = self.state.config, head.queue.tree, head.nomination
        if head.queue.node.parent is None:
            return
        are_taken_from = tree.has_borrowing_preemptors or not config.gates.owners_first
        if config.fair_sharing or (
            are_taken_from
            and (nomination.borrow_level or _cohorts_borrow(head.queue, nomination.usage))
        ):
            tree.was_put_off = config.gates.hold_for_preemptor

    def _preempt(self, head: Head) -> None:
        victims, contested = [], sorted(head.nomination.contested)
        preemptor = head.entry.workload.key
        if head.queue.spec.preemption.evictions_per_hour is not None:
            caused = sum(map(counts, head.victims))
            self.state.budgets.note(head.queue.spec.name, [self.now] * caused)
        for entry, queue, rule in head.victims:
            is_new = entry.phase is not Phase.EVICTING
            if is_new:
                self._evict(entry, queue, preemptor)
            cells = tuple(cell for cell in contested if cell in entry.usage)
            victims.append(Victim(entry.workload.key, queue.spec.name, rule, cells, is_new))
        self.decisions.append(
            Preempt(
                preemptor=preemptor,
                queue=head.queue.spec.name,
                victims=tuple(victims),
                reasons=head.reasons,
            )
        )
        if any(victim.is_new for victim in victims):
            head.queue.tree.is_confirming = False  # it was not the last round
            self.state.count_preemption(head.entry, self.now)
        self._await_victims(head, tuple(victim.workload for victim in victims))

    def _evict(self, entry: Entry, queue: QueueState, preemptor: WorkloadKey) -> None:
        stood_at = entry.order_time
        self.state.evict(entry, EvictionReason.PREEMPTED, self.now, preemptor)
        self.needs_cycle = True
        if entry.order_time != stood_at:  # it may have to make way for who was newer before
            queue.tree.was_put_off = self.state.config.gates.hold_for_preemptor

    def _await_victims(self, head: Head, victims: tuple[WorkloadKey, ...]) -> None:
        """The head is a preemptor now: it has first call on what its victims free."""
        entry = head.entry
        if entry.status.claim is None:
            self.needs_cycle = self.places_changed = True
        entry.search.scan = None
        self.state.claim(entry, Claim(head.nomination.assignment(), head.held_before))
        entry.search.claimed_usage = dict(head.nomination.usage)
        if self.state.config.gates.hold_for_preemptor and lets_others_pass(head.queue):
            head.queue.pending.park_alone(entry)
            self.needs_cycle = True
        reasons = (WaitingForVictims(victims), *head.reasons)
        self._wait(entry, head.queue, reasons, is_preemptor=True)

    def _give_up_claim(self, head: Head) -> None:
        """The place is not kept for it any more."""
        if head.entry.status.claim is not None and self.state.config.gates.hold_for_preemptor:
            self.needs_cycle = True
            self.state.claim(head.entry, None)

    def _give_up_hopeless_claim(self, head: Head) -> None:
        """Not even with everybody gone who makes way would it have its place, or it may not."""
        if head.entry.status.claim is None:
            return
        is_refused = any(isinstance(reason, WaitsForOwner) for reason in head.reasons)
        if is_refused or not can_be_met(self.state, head.queue, head.entry):
            self._give_up_claim(head)

    def _free_places_behind(self, head: Head) -> None:
        """Whoever stands behind a head that nobody passes can't use a place, so none is kept."""
        if not self.state.config.gates.hold_for_preemptor or lets_others_pass(head.queue):
            return
        for entry in list(head.queue.tree.preemptors.values()):
            if entry.queue == head.queue.spec.name and entry is not head.entry:
                self.needs_cycle = True
                self.state.claim(entry, None)

    def _remember_scan(self, head: Head, keeps: bool) -> None:
        entry, search = head.entry, head.entry.search
        before, search.scan = search.scan, None
        scan = Scan(
            tuple(head.nomination.tried),
            head.queue.generation,
            head.queue.tree.cycle,
            entry.shape,
            head.queue.spec.groups,
        )
        is_kept = self._keeps_position(head)
        if keeps and scan.has_more and self._is_worth_another(entry, head.queue):
            head.has_flavors_left = True
            search.scan = scan if is_kept else None
        if before is None:
            search.began_at, search.was_put_off = self.began_at, False
        if head.result is HeadResult.SKIPPED:
            search.was_put_off = True
        if head.has_flavors_left:
            self.needs_cycle = True  # the next search begins elsewhere
        elif before is not None:
            head.has_flavors_left = self._begins_again(entry, head.queue)

    def _begins_again(self, entry: Entry, queue: QueueState) -> bool:
        """Whether somebody who has tried all flavors by now, in several cycles, begins again.

        Because the first flavors were tried before a change, or because it was put off since, and
        was not told what they have to offer. Else the next search is like the first.
        """
        search = entry.search
        is_worth_it = search.began_at != queue.tree.revision or (
            search.was_put_off and self._is_worth_another(entry, queue)
        )
        if not is_worth_it:
            self.scan_wrapped = True
            return False
        self.needs_cycle = True
        return self.state.config.gates.hold_for_preemptor

    def _is_worth_another(self, entry: Entry, queue: QueueState) -> bool:
        """Positions of several pod sets may chase each other for ever: there is an end to it."""
        revision, count = entry.search.attempts
        count = count + 1 if revision == queue.tree.revision else 1
        entry.search.attempts = (queue.tree.revision, count)
        flavors = sum(len(group.flavors) for group in queue.spec.groups)
        return count <= 4 * flavors * len(entry.workload.pod_sets)

    def _keeps_position(self, head: Head) -> bool:
        """Without the gate, telling the user something new loses the position, as in Kueue."""
        if self.state.config.gates.keep_scan_progress:
            return True
        told = tuple(_as_told(reason) for reason in head.reasons)
        before, head.entry.search.told = head.entry.search.told, told
        return told == before

    def _step_back(self, head: Head) -> None:
        """It lost to others of this cycle and stays the head; or it waits for somebody."""
        reason, waiting = head.reasons[0], head.queue.tree.preemptors
        is_held = isinstance(reason, HeldForPreemptor) and reason.preemptor in waiting
        if isinstance(reason, WaitsForOwner):
            self._give_up_claim(head)
            is_held = head.shares_fate
        if is_held and lets_others_pass(head.queue):
            if head.shares_fate and not head.has_flavors_left:
                head.queue.pending.park_shape(head.entry)
            else:
                head.queue.pending.park_alone(head.entry)
            self.needs_cycle = True
        self._wait(head.entry, head.queue, head.reasons)

    def _park(self, head: Head) -> None:
        paused = None
        if head.entry.status.preemptions is not None:
            paused = next((r for r in head.reasons if isinstance(r, PreemptionPaused)), None)
        if paused is not None:
            self.state.pause_preemption(head.entry, paused.until)
        for reason in head.reasons:
            if isinstance(reason, OnlyTime):
                self.state.wake_at(head.queue, reason.until)
        if lets_others_pass(head.queue) and not head.has_flavors_left:
            if paused is None:
                head.queue.pending.park_shape(head.entry)
            else:
                head.queue.pending.park_alone(head.entry)  # others of its shape don't pause
            self.needs_cycle = True
        self._wait(head.entry, head.queue, head.reasons)

    def _wait(
        self,
        entry: Entry,
        queue: QueueState,
        reasons: tuple[Reason, ...],
        is_preemptor: bool = False,
    ) -> None:
        if not is_preemptor:
            config = self.state.config
            reasons = queue.pending.note_reasons(entry, reasons, config.is_simulated)
        self.decisions.append(
            Wait(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reasons=reasons,
                is_preemptor=is_preemptor,
            )
        )


def _as_told(reason: Reason) -> tuple[object, ...]:
    """The part of a reason that users are told in the condition of a waiting workload."""
    return reason[:-1] if isinstance(reason, Shortfall) else tuple(reason)


def _cohorts_borrow(queue: QueueState, cells: Iterable[FlavorResource]) -> bool:
    """Whether a cohort around the queue borrows, though the queue may hold but what is its own."""
    usage = queue.tree.snapshot.usage
    return any(
        exceeds_subtree(cohort, cell, 0, usage)
        for cohort in queue.node.ancestors()
        if cohort.parent is not None
        for cell in cells
    )


def has_to_tell(state: ClusterState, queue: QueueState) -> bool:
    """Whether somebody is to hear why it waits, or its wait counts from when it first did."""
    return state.config.tells_reasons or bool(queue.spec.preemption.after_waiting_s)


def lets_others_pass(queue: QueueState) -> bool:
    return queue.spec.strategy is Strategy.BEST_EFFORT_FIFO

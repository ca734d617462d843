"""One admission cycle: heads → nominate → order → decide.

Cohort trees do not concern each other, so a cycle goes tree by tree, and leaves out those in
which nothing has happened since a cycle that changed nothing. Inside a tree every head is
nominated against the picture at the start of the cycle, ignorant of the others; then the heads
are decided upon one by one, on the picture that the earlier ones have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from makeway.engine.decisions import (
    Admit,
    Change,
    Deactivate,
    DeactivationReason,
    Decision,
    Defective,
    HeadMode,
    HeadOutcome,
    HeadResult,
    HeldForPreemptor,
    LostToOthers,
    NamespaceNotAdmitted,
    Preempt,
    Reason,
    Reserve,
    Shortfall,
    StartOver,
    Victim,
    VictimsTaken,
    Wait,
    WaitingForVictims,
)
from makeway.engine.entry import Entry, Phase, Scan
from makeway.engine.fairness import FairHead, FairOrder, find_fair_victims
from makeway.engine.fallback import exhausted_for, has_eligible_flavors
from makeway.engine.flavors import FlavorQuestion, Mode, Nomination, Offer, assign_flavors
from makeway.engine.model import (
    CheckName,
    Eviction,
    EvictionReason,
    FailurePolicy,
    FlavorName,
    FlavorResource,
    Fungibility,
    PodSetName,
    Policy,
    Preference,
    ResourceName,
    Search,
    Strategy,
    WorkloadKey,
)
from makeway.engine.partial import search_counts
from makeway.engine.quota import borrow_level
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState, Tree
from makeway.engine.victims import Chosen, Claim, find_victims

QUOTA_WAKES = frozenset(
    {
        Change.QUOTA_FREED,
        Change.QUEUE_EDITED,
        Change.FLAVOR_EDITED,
        Change.CHECK_ACTIVE,
        Change.WORKLOAD_EDITED,
    }
)
NAMESPACE_WAKES = frozenset({Change.NAMESPACE_EDITED, Change.QUEUE_EDITED, Change.WORKLOAD_EDITED})
NEXT_CYCLE = frozenset({Change.NEXT_CYCLE})


class Head:
    """The first of a queue in this cycle, what was found for it, and what became of it."""

    __slots__ = (
        "entry",
        "has_flavors_left",
        "mode",
        "nomination",
        "queue",
        "rank",
        "reasons",
        "result",
        "victims",
    )

    def __init__(self, entry: Entry, queue: QueueState) -> None:
        self.entry = entry
        self.queue = queue
        self.has_flavors_left = False  # the search stopped early
        self.nomination: Nomination
        self.victims: tuple[Chosen, ...] = ()
        self.mode = HeadMode.NO_FIT
        self.result = HeadResult.NO_FIT
        self.reasons: tuple[Reason, ...] = ()
        self.rank: tuple[int, int, float, int] = (0, 0, 0.0, 0)

    def nominate(self, nomination: Nomination, victims: tuple[Chosen, ...]) -> None:
        self.nomination = nomination
        self.victims = victims
        self.reasons = tuple(nomination.reasons)


class TreeCycle:
    """One cycle in one tree."""

    def __init__(self, state: ClusterState, tree: Tree, now: float) -> None:
        self.state = state
        self.tree = tree
        self.now = now
        self.standing = tree.snapshot  # with what was booked in this cycle; victims still there
        self.cleared = tree.snapshot  # the same without the victims; one picture until there are
        self.taken: dict[WorkloadKey, Chosen] = {}  # victims of this cycle
        self.decisions: list[Decision] = []
        self.outcomes: list[HeadOutcome] = []
        self.not_nominated: list[WorkloadKey] = []
        self.has_changed = False  # anything that makes the next cycle different from this one

    def run(self) -> None:
        heads = [head for head in self.heads() if self.is_admissible(head)]
        with self.standing.trial():
            self.remember_bookings()
            for head in heads:
                head.nominate(*self.nominate(head, self.standing))
            for head in self.in_order(heads):
                self.decide(head)
        for head in heads:
            self.carry_out(head)
        self.tree.settled = None if self.has_changed else tuple(self.outcomes)

    # --- heads ---

    def heads(self) -> Iterator[Head]:
        for queue in self.tree.queues:
            if queue.inactive is None and (entry := queue.pending.head()) is not None:
                yield Head(entry, queue)

    def is_admissible(self, head: Head) -> bool:
        """Turn away who can't be admitted whatever the quota."""
        workload, pending = head.entry.workload, head.queue.pending
        selector = head.queue.spec.namespaces
        labels = self.state.namespaces.get(workload.namespace)
        if selector is None or labels is None or not selector.admits(labels):
            pending.hold(head.entry)
            reason: Reason = NamespaceNotAdmitted(workload.namespace)
        elif workload.defect is not None:
            if head.queue.spec.strategy is Strategy.BEST_EFFORT_FIFO:
                pending.park_alone(head.entry)
            reason = Defective(workload.defect)
        elif head.entry.history and not self._has_flavors_to_try(head):
            self.has_changed = True
            self._run_out_of_flavors(head)
            return False
        else:
            return True
        self.has_changed = True
        self.not_nominated.append(workload.key)
        self._wait(head, (reason,), NAMESPACE_WAKES)
        return False

    def _has_flavors_to_try(self, head: Head) -> bool:
        entry, queue = head.entry, head.queue
        return not exhausted_for(entry, queue) or has_eligible_flavors(
            entry, queue, self.state.flavors, self.state.pod_sets_of(entry)
        )

    def _run_out_of_flavors(self, head: Head) -> None:
        """What was left to try is gone since: give up, or begin again after a pause."""
        entry, queue = head.entry, head.queue
        history, reason = entry.history, DeactivationReason.FLAVORS_EXHAUSTED
        if queue.spec.fungibility.fallbacks.failure_policy is FailurePolicy.RETRY_ALL:
            if self.state.back_off(entry, self.now):
                self.state.start_over(entry)
                self.decisions.append(
                    StartOver(
                        workload=entry.workload.key,
                        queue=queue.spec.name,
                        requeue_at=entry.requeue_at,
                        requeue_count=entry.requeue_count,
                    )
                )
                return
            reason = DeactivationReason.REQUEUE_LIMIT
        self.state.deactivate(entry)
        self.decisions.append(
            Deactivate(
                workload=entry.workload.key,
                queue=queue.spec.name,
                reason=reason,
                history=history,
            )
        )

    # --- nominate ---

    def nominate(
        self,
        head: Head,
        snapshot: Snapshot,
        only: dict[PodSetName, dict[ResourceName, FlavorName]] | None = None,
        is_resumed: bool = True,
    ) -> tuple[Nomination, tuple[Chosen, ...]]:
        """Flavors for the head and the victims they need; with fewer pods if that is allowed."""
        question = self._question(head, snapshot, only, is_resumed and only is None)
        nomination = assign_flavors(question)
        if nomination.mode is Mode.FIT:
            return nomination, ()
        victims = self._victims_for(head, nomination, snapshot)
        if not victims and self.state.config.gates.partial_admission:
            found = search_counts(
                question.pod_sets, lambda counts: self._try_counts(head, question, counts)
            )
            if found is not None:
                return found
        return nomination, victims

    def _try_counts(
        self, head: Head, question: FlavorQuestion, counts: tuple[int, ...]
    ) -> tuple[Nomination, tuple[Chosen, ...]] | None:
        nomination = assign_flavors(question, counts)
        if nomination.mode is Mode.FIT:
            return nomination, ()
        victims = self._victims_for(head, nomination, question.snapshot)
        return (nomination, victims) if victims else None

    def _question(
        self,
        head: Head,
        snapshot: Snapshot,
        only: dict[PodSetName, dict[ResourceName, FlavorName]] | None,
        is_resumed: bool,
    ) -> FlavorQuestion:
        entry, queue, config = head.entry, head.queue, self.state.config
        preemption = queue.spec.preemption
        reclaims = preemption.reclaim is not Policy.NEVER

        def try_victims(cell: FlavorResource, amount: int) -> Offer:
            return self._offer_by_victims(head, snapshot, cell, amount)

        return FlavorQuestion(
            workload=entry.workload,
            pod_sets=self.state.pod_sets_of(entry),
            queue=queue,
            flavors=self.state.flavors,
            snapshot=snapshot,
            preference=preference_of(queue.spec.fungibility, config.gates.implicit_preference),
            may_preempt_and_borrow=(
                preemption.borrow_while_reclaiming or (config.fair_sharing and reclaims)
            ),
            try_victims=try_victims,
            exhausted=exhausted_for(entry, queue) if entry.history else (),
            scan=self._usable_scan(entry, queue) if is_resumed else None,
            only=only,
        )

    def _usable_scan(self, entry: Entry, queue: QueueState) -> Scan | None:
        """Where the last search stopped, unless quota has been freed in this queue since.

        Progress made in the cycle just before is kept even then, lest later flavors starve.
        """
        scan = entry.scan
        if scan is None or scan.shape != entry.shape:
            return None
        if scan.generation == queue.generation:
            return scan
        is_fresh = scan.cycle >= self.state.cycle - 1
        return scan if is_fresh and self.state.config.gates.keep_scan_progress else None

    def _offer_by_victims(
        self, head: Head, snapshot: Snapshot, cell: FlavorResource, amount: int
    ) -> Offer:
        """What preemption could do for a single cell."""
        node = head.queue.node
        victims = self._find(head, {cell: amount}, (cell,), snapshot)
        if not victims:
            return Offer(Mode.NO_VICTIMS, borrow_level(node, cell, amount, snapshot.usage)[0])
        with snapshot.trial():
            for victim in victims:
                snapshot.release(victim.queue.node, victim.entry.usage)
            level = borrow_level(node, cell, amount, snapshot.usage)[0]
        takes_own = any(victim.queue is head.queue for victim in victims)
        return Offer(Mode.PREEMPT if takes_own else Mode.RECLAIM, level)

    def _victims_for(
        self, head: Head, nomination: Nomination, snapshot: Snapshot
    ) -> tuple[Chosen, ...]:
        if nomination.mode is not Mode.PREEMPT:
            return ()
        amounts = {cell: amount for cell, amount in nomination.usage.items() if amount}
        return self._find(head, amounts, sorted(nomination.contested), snapshot)

    def _find(
        self,
        head: Head,
        amounts: dict[FlavorResource, int],
        contested: Iterable[FlavorResource],
        snapshot: Snapshot,
    ) -> tuple[Chosen, ...]:
        claim = Claim(
            preemptor=head.entry,
            queue=head.queue,
            amounts=amounts,
            contested=tuple(contested),
            gone=self.taken if snapshot is not self.standing else (),
        )
        if self.state.config.fair_sharing:
            return find_fair_victims(claim, self.tree, snapshot, self.state.config.share_rules)
        return find_victims(claim, self.tree, snapshot)

    # --- order ---

    def in_order(self, heads: list[Head]) -> Iterator[Head]:
        for head in heads:
            entry = head.entry
            head.rank = (
                head.nomination.borrow_level,
                -entry.workload.priority,
                entry.order_time,
                entry.serial,
            )
        if not self.state.config.fair_sharing:
            yield from sorted(heads, key=lambda head: head.rank)
            return
        by_key = {head.entry.workload.key: head for head in heads}
        fair = [FairHead(head.entry, head.queue, head.nomination.usage) for head in heads]
        for fair_head in FairOrder(self.tree, fair, self.standing):
            yield by_key[fair_head.entry.workload.key]

    # --- decide ---

    def decide(self, head: Head) -> None:
        """Settle a head against those before it; what it gets is booked in both pictures."""
        is_deferred = self._overlaps(head) and self._reassign(head)
        nomination = head.nomination
        if is_deferred:
            head.mode, head.result = HeadMode.DEFERRED_FIT, HeadResult.PENDING_PREEMPTION
        elif nomination.mode is Mode.NO_FIT:
            head.mode, head.result = HeadMode.NO_FIT, HeadResult.NO_FIT
        elif nomination.mode is Mode.FIT:
            head.mode, head.result = HeadMode.FIT, HeadResult.ADMITTED
        else:
            head.mode = HeadMode.PREEMPT
            head.result = HeadResult.PREEMPTING if head.victims else HeadResult.NO_CANDIDATES
        if head.result is HeadResult.NO_FIT:
            pass
        elif head.result is HeadResult.NO_CANDIDATES:
            self._reserve_what_is_left(head)
        elif self._overlaps(head):
            self._skip(head, VictimsTaken())
        elif not self._fits_beside_others(head):
            self._skip(head, LostToOthers())
        elif (holder := self.held_for(head)) is not None:
            self._skip(head, HeldForPreemptor(holder))
        else:
            self._take(head.victims)
            self._book(head.queue, nomination.usage)
        self.outcomes.append(
            HeadOutcome(
                head.entry.workload.key,
                head.queue.spec.name,
                head.mode,
                head.result,
                nomination.borrow_level,
                head.rank,
            )
        )

    def _skip(self, head: Head, reason: Reason) -> None:
        head.result = HeadResult.SKIPPED
        head.reasons = (reason, *head.reasons)

    def _overlaps(self, head: Head) -> bool:
        return any(victim.entry.workload.key in self.taken for victim in head.victims)

    def _reassign(self, head: Head) -> bool:
        """Nominate again as if the victims of earlier heads were gone, on the same flavors.

        Returns whether the head then fits without victims of its own.
        """
        if not self.state.config.gates.reassign_on_overlap:
            return False
        only = head.nomination.flavors
        head.nominate(*self.nominate(head, self.cleared, only))
        return head.nomination.mode is Mode.FIT

    def _fits_beside_others(self, head: Head) -> bool:
        """With everybody's victims gone and all that was booked charged?"""
        with self.cleared.trial():
            for victim in head.victims:
                self.cleared.release(victim.queue.node, victim.entry.usage)
            return self.cleared.fits(head.queue.node, head.nomination.usage)

    def _reserve_what_is_left(self, head: Head) -> None:
        """Nobody may sneak past a head that has to wait, unless it can reclaim from anybody."""
        queue, nomination = head.queue, head.nomination
        if queue.spec.preemption.reclaim is Policy.ANY and queue.node.parent is not None:
            return
        node, kept = queue.node, {}
        for cell, amount in nomination.usage.items():
            quota = node.quotas.get(cell)
            nominal = node.nominal(cell)
            used = self.standing.used(node, cell)
            limit = quota.borrowing_limit if quota is not None else None
            if nomination.borrow_level == 0:
                kept[cell] = max(0, min(amount, nominal - used))
            elif limit is None:
                kept[cell] = amount
            else:
                kept[cell] = min(amount, nominal + limit - used)
        self._book(queue, kept)

    def _take(self, victims: tuple[Chosen, ...]) -> None:
        if not victims:
            return
        if self.cleared is self.standing:
            self.cleared = self.standing.copy()
        for victim in victims:
            self.taken[victim.entry.workload.key] = victim
            self.cleared.release(victim.queue.node, victim.entry.usage)

    def _book(self, queue: QueueState, amounts: dict[FlavorResource, int]) -> None:
        self.standing.charge(queue.node, amounts)
        if self.cleared is not self.standing:
            self.cleared.charge(queue.node, amounts)

    # --- holding a place for preemptors ---

    def remember_bookings(self) -> None:
        """A preemptor known from before a restart: find out anew what it waits for."""
        if not self.state.config.gates.hold_for_preemptor:
            return
        for entry in self.tree.preemptors.values():
            if entry.booking is None:
                head = Head(entry, self.state.queue_of(entry))
                nomination, _ = self.nominate(head, self.standing)
                entry.booking = nomination.usage if nomination.mode is not Mode.NO_FIT else {}

    def held_for(self, head: Head) -> WorkloadKey | None:
        """The waiting preemptor that would lose its place to this head; None if nobody would."""
        if not self.state.config.gates.hold_for_preemptor:
            return None
        rivals = [
            entry
            for entry in self.tree.preemptors.values()
            if entry is not head.entry and entry.booking and _goes_before(entry, head.entry)
        ]
        if not rivals:
            return None
        picture = self.cleared
        with picture.trial():
            for order in self._evicting():
                picture.release(self.state.queue_of(order).node, order.usage)
            for victim in head.victims:
                if victim.entry.phase is not Phase.EVICTING:
                    picture.release(victim.queue.node, victim.entry.usage)
            for rival in sorted(rivals, key=_precedence):
                assert rival.booking is not None
                node = self.state.queue_of(rival).node
                if not picture.fits(node, rival.booking):
                    continue  # it needs other victims anyhow
                picture.charge(node, rival.booking)
                if not picture.fits(head.queue.node, head.nomination.usage):
                    return rival.workload.key
        return None

    def _evicting(self) -> Iterator[Entry]:
        """Who is on the way out in this tree and not yet gone from the cleared picture."""
        for queue in self.tree.queues:
            for order in queue.holders:
                if order[0]:
                    break
                if order[5].workload.key not in self.taken:
                    yield order[5]

    # --- carry out ---

    def carry_out(self, head: Head) -> None:
        """Count the decision, and put a head that has to wait where it belongs."""
        match head.result:
            case HeadResult.ADMITTED:
                self._admit(head)
            case HeadResult.PREEMPTING:
                self._preempt(head)
            case HeadResult.PENDING_PREEMPTION:
                self._defer(head)
            case HeadResult.SKIPPED:
                self._remember_scan(head, self.state.config.gates.keep_scan_progress)
                self._step_back(head)
            case HeadResult.NO_FIT | HeadResult.NO_CANDIDATES:
                self._remember_scan(head, True)
                self._lose_preemptor(head)
                self._park(head)

    def _admit(self, head: Head) -> None:
        entry, queue, nomination = head.entry, head.queue, head.nomination
        assignment = nomination.assignment()
        checks = open_checks(entry, queue, assignment.flavors())
        waited_s = self.now - entry.order_time
        self.has_changed = True
        self.state.reserve(entry, assignment, not checks, self.now)
        is_borrowing = any(
            queue.used.get(cell, 0) > queue.node.nominal(cell) for cell in nomination.usage
        )
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

    def _preempt(self, head: Head) -> None:
        victims = []
        for entry, queue, rule in head.victims:
            is_new = entry.phase is not Phase.EVICTING
            if is_new:
                self.state.evict(entry, Eviction(EvictionReason.PREEMPTED, self.now))
                self.has_changed = True
            cells = tuple(sorted(cell for cell in head.nomination.contested if cell in entry.usage))
            victims.append(Victim(entry.workload.key, queue.spec.name, rule, cells, is_new))
        self.decisions.append(
            Preempt(
                preemptor=head.entry.workload.key,
                queue=head.queue.spec.name,
                victims=tuple(victims),
                reasons=head.reasons,
            )
        )
        self._await_victims(head, tuple(victim.workload for victim in victims))

    def _defer(self, head: Head) -> None:
        self._await_victims(head, tuple(self.taken))

    def _await_victims(self, head: Head, victims: tuple[WorkloadKey, ...]) -> None:
        """The head is a preemptor now: it has first call on what its victims free."""
        if not head.entry.is_preemptor:
            self.has_changed = True
        head.entry.scan = None
        self.state.make_preemptor(head.entry, dict(head.nomination.usage))
        if self.state.config.gates.hold_for_preemptor and _lets_others_pass(head.queue):
            head.queue.pending.park_alone(head.entry)
            self.has_changed = True
        reasons = (WaitingForVictims(victims), *head.reasons)
        self._wait(head, reasons, frozenset({Change.QUOTA_FREED}), is_preemptor=True)

    def _lose_preemptor(self, head: Head) -> None:
        """Not even with its victims gone would it fit: the place is not kept for it any more."""
        if head.entry.is_preemptor and self.state.config.gates.hold_for_preemptor:
            self.has_changed = True
            self.state.drop_preemptor(head.entry)

    def _remember_scan(self, head: Head, keeps: bool) -> None:
        entry = head.entry
        before, entry.scan = entry.scan, None
        scan = Scan(
            tuple(head.nomination.tried), head.queue.generation, self.state.cycle, entry.shape
        )
        is_kept = self._keeps_position(head)
        if keeps and scan.has_more:
            head.has_flavors_left = True
            entry.scan = scan if is_kept else None
        if before is not None or head.has_flavors_left:
            self.has_changed = True  # the next search begins elsewhere

    def _keeps_position(self, head: Head) -> bool:
        """Without the gate, telling the user something new loses the position, as in Kueue."""
        if self.state.config.gates.keep_scan_progress:
            return True
        told = tuple(_as_told(reason) for reason in head.reasons)
        before, head.entry.told = head.entry.told, told
        return told == before

    def _step_back(self, head: Head) -> None:
        """It lost to others of this cycle and stays the head; or it waits for a preemptor."""
        is_held = isinstance(head.reasons[0], HeldForPreemptor)
        if is_held and _lets_others_pass(head.queue):
            head.queue.pending.park_alone(head.entry)
            self.has_changed = True
        self._wait(head, head.reasons, QUOTA_WAKES if is_held else NEXT_CYCLE)

    def _park(self, head: Head) -> None:
        if _lets_others_pass(head.queue) and not head.has_flavors_left:
            head.queue.pending.park_shape(head.entry)
            self.has_changed = True
        self._wait(head, head.reasons, QUOTA_WAKES)

    def _wait(
        self,
        head: Head,
        reasons: tuple[Reason, ...],
        wake_on: frozenset[Change],
        is_preemptor: bool = False,
    ) -> None:
        self.decisions.append(
            Wait(
                workload=head.entry.workload.key,
                queue=head.queue.spec.name,
                reasons=reasons,
                wake_on=wake_on,
                is_preemptor=is_preemptor,
            )
        )


def preference_of(fungibility: Fungibility, is_implicit: bool) -> Preference:
    if fungibility.preference is not None:
        return fungibility.preference
    if is_implicit and fungibility.when_can_borrow is Search.TRY_NEXT:
        return Preference.PREEMPTION_OVER_BORROWING
    return Preference.BORROWING_OVER_PREEMPTION


def open_checks(
    entry: Entry, queue: QueueState, flavors: Iterable[FlavorName]
) -> tuple[CheckName, ...]:
    """The admission checks that have to become ready before the workload may start."""
    held = set(flavors)
    return tuple(
        check.name for check in queue.spec.checks if not check.flavors or check.flavors & held
    )


def _as_told(reason: Reason) -> tuple[object, ...]:
    """The part of a reason that users are told in the condition of a waiting workload."""
    return reason[:-1] if isinstance(reason, Shortfall) else tuple(reason)


def _lets_others_pass(queue: QueueState) -> bool:
    return queue.spec.strategy is Strategy.BEST_EFFORT_FIFO


def _precedence(entry: Entry) -> tuple[int, float, int]:
    return -entry.workload.priority, entry.order_time, entry.serial


def _goes_before(preemptor: Entry, head: Entry) -> bool:
    """May the preemptor's place be defended against this head?"""
    if preemptor.workload.priority != head.workload.priority:
        return preemptor.workload.priority > head.workload.priority
    return not head.is_preemptor or _precedence(preemptor) < _precedence(head)

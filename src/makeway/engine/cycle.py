"""One admission cycle: heads → nominate → order → decide.

Cohort trees do not concern each other, so a cycle goes tree by tree, and leaves out those in
which nothing has happened since a cycle that changed nothing. Inside a tree every head is
nominated against the picture at the start of the cycle, ignorant of the others; then the heads
are decided upon one by one, on the picture that the earlier ones have changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from makeway.engine.claims import (
    BlockingPreemptor,
    beside_claims,
    find_blocking,
    met,
    remember_claims,
    unmet,
)
from makeway.engine.consequences import Consequences, lets_others_pass
from makeway.engine.decisions import (
    Defective,
    HeadMode,
    HeadOutcome,
    HeadResult,
    HeldForPreemptor,
    LostToOthers,
    NamespaceNotAdmitted,
    PodsNotReady,
    VictimsTaken,
    WaitsForOwner,
)
from makeway.engine.entry import NOTHING, Entry, QueueOrder
from makeway.engine.fairness import FairHead, FairOrder
from makeway.engine.fallback import exhausted_for, has_eligible_flavors
from makeway.engine.flavors import Mode
from makeway.engine.head import Head
from makeway.engine.hopeless import Glances, Lines, leaves_no_trace
from makeway.engine.model import Amounts, FlavorResource, Policy, WorkloadKey
from makeway.engine.nominate import Found, Nominator
from makeway.engine.owners import Owners, wake_refused
from makeway.engine.quota import is_within_quota
from makeway.engine.snapshot import Snapshot, Trial
from makeway.engine.state import ClusterState
from makeway.engine.tree import Leaving, QueueState, Refusal, Tree
from makeway.engine.turns import Turns
from makeway.engine.victims import Chosen, release_all


def owners_of_heads(state: ClusterState, tree: Tree) -> Owners | None:
    """Who waits in a tree where there is something to decide; None: it is at rest."""
    owners = None
    if tree.refusals and not tree.has_only_newcomers:
        owners = Owners(state, tree)
        wake_refused(state, owners)
    if not tree.has_heads() and may_rest(state, tree):
        tree.has_only_newcomers = not any(tree.leaving())  # who may come back, or not
        return None
    tree.has_only_newcomers = False
    return owners or Owners(state, tree)


def is_idle(tree: Tree) -> bool:
    """Whether a cycle would find nobody to decide about, and nothing to see to."""
    return not (
        (tree.refusals and not tree.has_only_newcomers)
        or tree.preemptors
        or tree.was_put_off
        or tree.is_confirming
        or tree.has_heads()
    )


def may_rest(state: ClusterState, tree: Tree, all_are_short: bool = False) -> bool:
    """Whether nothing is left to do in a tree; if not, it is made ready for what is.

    If somebody was put off by others of its cycle, or may have victims by what was decided after
    it was parked, all are tried once more from their first flavor. Only a round of that in which
    nothing is decided is the last; it is spared where a look at each line tells as much. And
    nobody keeps a claim when nobody is left who makes way.
    """
    if tree.was_put_off and not tree.is_confirming:
        tree.scans_valid_from = tree.cycle + 1
        if not all_are_short and not Lines(state, tree).all_are_short():
            tree.was_put_off, tree.is_confirming = False, True
            state.wake_tree(tree.queues[0])
            return False
        tree.refusals.clear()
        tree.cycle += 1
    tree.was_put_off = tree.is_confirming = False
    if not state.config.gates.hold_for_preemptor or not tree.preemptors or any(tree.leaving()):
        return True
    if state.unready:
        return True  # a preemptor whose place is free waits for the pods of others
    for entry in list(tree.preemptors.values()):
        state.claim(entry, None)
    return False


def first_order(state: ClusterState, tree: Tree) -> tuple[QueueOrder, ...]:
    """How important, and how long in line, the first of a tree's heads is."""
    orders = [state.order_of(entry) for entry, _ in tree.heads()]
    return (min(orders),) if orders else ()


class TreeCycle:
    """One cycle in one tree."""

    def __init__(self, state: ClusterState, owners: Owners, now: float) -> None:
        tree = owners.tree
        self.state = state
        self.tree = tree
        self.owners = owners
        self.turns = Turns(tree)
        self.present = tree.snapshot  # with what was charged in this cycle; victims still there
        self.cleared = tree.snapshot  # the same without the victims; one picture until there are
        self.taken: dict[WorkloadKey, Leaving] = {}  # victims of this cycle
        self.settled = owners.settled  # heads whose place is charged in both
        self.promised: list[Head] = []  # those of them who wait until victims have let go
        # Kept for heads without victims. That is no borrowing for which their queue could be made
        # to pay with victims of its own; in Kueue it is (in the recorded data).
        self.reserved: list[tuple[QueueState, dict[FlavorResource, int]]] = []
        self.is_as_nominated = True  # nothing was charged or taken since the heads were nominated
        self.not_nominated: list[WorkloadKey] = []
        self.lines = Lines(state, tree)
        self.glances = Glances(state, owners, self.lines)
        self.passed_over: set[int] = set()  # heads without hope for whom nobody searches; serials
        self.outcomes: list[HeadOutcome] = []
        self.consequences = Consequences(state, now, tree.revision)

    def run(self) -> None:
        """Heads, nominate, order, decide; then count what was decided."""
        self.tree.cycle += 1
        first = self.heads_worth_a_cycle()
        if first:
            self.decide_on(first)
        else:
            self.tree.refusals.update(self.refusals())
        self.tree.needs_cycle = self.consequences.needs_cycle
        if self.tree.preemptors and self.tree.claims_checked != self.tree.revision:
            self.retry_claims()
            self.tree.claims_checked = self.tree.revision
        is_last = self.tree.needs_cycle and self.next_would_only_park()
        if is_last:
            self.tree.needs_cycle = False
        if (
            not self.tree.needs_cycle
            and may_rest(self.state, self.tree, all_are_short=is_last)
            and not self.consequences.scan_wrapped
        ):
            self.tree.seen = self.tree.revision
        elif self.tree.needs_cycle and is_idle(self.tree):
            self.tree.needs_cycle = False  # whatever has changed, nobody is left in line

    def next_would_only_park(self) -> bool:
        """Whether nobody who is left in line has a chance in the next cycle; then all are parked.

        Asked in simulations alone: elsewhere people are told the numbers of today.
        """
        tree = self.tree
        if not self.state.config.is_simulated or tree.preemptors or is_idle(tree):
            return False
        if not Lines(self.state, tree).park_all_if_short():
            return False
        tree.refusals.clear()  # what is too little remains so until somebody ends
        tree.cycle += 1
        return True

    def decide_on(self, first: list[tuple[Entry, QueueState]]) -> None:
        with self.present.trial():
            heads = {
                entry.serial: self.nominate(entry, queue)
                for entry, queue in first
                if entry.serial not in self.passed_over
            }
            self.owners.let.clear()
            for head in self.in_order(list(heads.values())):
                self.decide(head)
                if not self.state.config.tells_decisions_only:
                    self.outcomes.append(head.outcome())
        refusals = self.refusals()
        for entry, queue in first:
            if entry.serial in heads:
                self.consequences.carry_out(heads[entry.serial], self.taken)
            else:
                self.consequences.pass_over(entry, queue)
                self.consequences.needs_cycle = True  # those behind it come up
        self.tree.refusals.update(refusals)

    def retry_claims(self) -> None:
        """A preemptor whose place is lost looks for another now, not when its victims are gone.

        It is lost to whoever was admitted or has a claim since, or to an owner who came since. And
        one whose place is free may need no victims any more, now that others leave as well.
        """
        if not self.state.config.gates.hold_for_preemptor:
            return
        tree, owners = self.tree, Owners(self.state, self.tree)
        retried = []
        if self.consequences.places_changed:
            retried = [*unmet(self.state, tree), *met(self.state, tree)]
        for entry in tree.preemptors.values():
            queue, claimed = self.state.queue_of(entry), entry.search.claimed_usage or NOTHING
            if owners.refuse(entry, queue, claimed, tree.snapshot) is not None:
                retried.append(entry)
        for entry in retried:
            if self.state.unpark(entry):
                tree.needs_cycle = True

    def refusals(self) -> dict[Refusal, int]:
        """Who was refused for the sake of owners, and how much those left when the cycle began."""
        before, refused = self.tree.refusals, self.owners.refusals()
        if not refused:
            return {}
        lefts = {refusal: self.owners.left(refusal) for refusal in refused}
        return {refusal: min(left, before.get(refusal, left)) for refusal, left in lefts.items()}

    # --- heads ---

    def heads_worth_a_cycle(self) -> list[tuple[Entry, QueueState]]:
        """The heads, of whom one at least may have a chance; it is noted who has none.

        Where nobody has, all are parked as if by a cycle, and those behind them come up.
        """
        first = self.lines.heads_with_hope(self.owners)
        while True:
            heads = [pair for pair in first if self.is_admissible(*pair)]
            if len(heads) < len(first):
                self.owners.forget_claims()
            hopeless = [pair for pair in heads if self.glances.is_without_hope(*pair)]
            if not heads or len(hopeless) < len(heads) or self.not_nominated:
                break
            for entry, queue in hopeless:
                self.consequences.pass_over(entry, queue)
            self.tree.cycle += 1
            first = self.tree.heads()
        self.passed_over = {e.serial for e, queue in hopeless if leaves_no_trace(self.state, queue)}
        return heads

    def is_admissible(self, entry: Entry, queue: QueueState) -> bool:
        """Turn away who can't be admitted whatever the quota."""
        workload = entry.workload
        if not self.state.admits_namespace_of(entry, queue):
            queue.pending.hold(entry)
            reason = NamespaceNotAdmitted(workload.namespace)
            self.consequences.turn_away(entry, queue, reason)
        elif workload.defect is not None:
            if workload.stands_aside or lets_others_pass(queue):
                queue.pending.park_alone(entry)
            self.consequences.turn_away(entry, queue, Defective(workload.defect))
        elif entry.status.history and not self._has_flavors_to_try(entry, queue):
            self.consequences.run_out_of_flavors(entry, queue)
            return False
        else:
            return True
        self.not_nominated.append(workload.key)
        return False

    def _has_flavors_to_try(self, entry: Entry, queue: QueueState) -> bool:
        history = entry.status.history
        return not exhausted_for(history, queue) or has_eligible_flavors(
            history, queue, self.state.flavors, self.state.pod_sets_of(entry)
        )

    # --- nominate ---

    def nominate(self, entry: Entry, queue: QueueState) -> Head:
        nominator = Nominator(
            self.state, entry, queue, self.present, owners=self.owners, turns=self.turns
        )
        return Head(entry, queue, nominator.nominate())

    # --- order ---

    def in_order(self, heads: list[Head]) -> Iterator[Head]:
        """By how far up they borrow, priority, time; under fair sharing by shares."""
        if not self.state.config.fair_sharing:
            yield from sorted(heads, key=lambda head: head.rank)
            return
        by_key = {head.entry.workload.key: head for head in heads}
        fair = [FairHead(head.entry, head.queue, head.nomination.usage) for head in heads]
        for fair_head in FairOrder(self.tree, fair, self.present):
            yield by_key[fair_head.entry.workload.key]

    # --- decide ---

    def decide(self, head: Head) -> None:
        """Settle a head against those before it; what it gets is charged in both pictures."""
        self._judge(head)
        match head.result:
            case HeadResult.NO_FIT:
                return
            case HeadResult.NO_CANDIDATES:
                self._reserve_what_is_left(head)
                return
        if self._overlaps(head):
            head.skip(VictimsTaken())
        elif self.is_as_nominated and head.is_free:
            self._settle_or_hold(head)
        elif not self._fits_beside_others(head) or not self._fits_already(head):
            head.skip(LostToOthers())
        elif (refused := self._refused_for(head)) is not None:
            head.skip(refused)
            head.shares_fate = not self.settled
        else:
            self._settle_or_hold(head)

    def _settle_or_hold(self, head: Head) -> None:
        """It can have its place, unless that is kept for a preemptor."""
        if (blocking := self._blocking(head)) is None or self._find_beside(head):
            self._settle_or_block(head)
        else:
            head.skip(HeldForPreemptor(blocking.preemptor))
            head.shares_fate = blocking.applies_to_shape

    def _settle_or_block(self, head: Head) -> None:
        """Who would be admitted may have to wait until the pods of others are ready.

        What it would get is kept for it as long as the cycle lasts: it comes before those behind.
        """
        unready = self._unready() if head.result is HeadResult.ADMITTED else None
        if unready is None:
            self._settle(head)
        else:
            self._charge(head.queue, head.nomination.usage)
            head.skip(PodsNotReady(unready))

    def _unready(self) -> WorkloadKey | None:
        """Who holds up all others; one who is admitted in this cycle has no pods yet."""
        policy = self.state.config.pods_ready
        if policy is None or not policy.blocks_admission:
            return None
        waiting = {head.entry.workload.key for head in self.promised}
        admitted = next((key for key in self.settled if key not in waiting), None)
        return min(self.state.unready, default=admitted)

    def _settle(self, head: Head) -> None:
        if head.result is not HeadResult.ADMITTED and head.queue.node.parent is not None:
            head.held_before = self._held_before(head)
        self._take(head.victims)
        self._charge(head.queue, head.nomination.usage)
        self.settled[head.entry.workload.key] = head.entry
        if head.result is not HeadResult.ADMITTED:
            self.promised.append(head)

    def _judge(self, head: Head) -> None:
        """How does the head stand, now that others have taken their victims?"""
        if self._overlaps(head) and self._reassign(head):
            head.mode, head.result = HeadMode.DEFERRED_FIT, HeadResult.PENDING_PREEMPTION
            return
        match head.nomination.mode:
            case Mode.NO_FIT:
                head.mode, head.result = HeadMode.NO_FIT, HeadResult.NO_FIT
            case Mode.FIT:
                head.mode, head.result = HeadMode.FIT, HeadResult.ADMITTED
            case _ if head.awaits_leaving:
                head.mode, head.result = HeadMode.DEFERRED_FIT, HeadResult.PENDING_PREEMPTION
            case _ if head.victims:
                head.mode, head.result = HeadMode.PREEMPT, HeadResult.PREEMPTING
            case _:
                head.mode, head.result = HeadMode.PREEMPT, HeadResult.NO_CANDIDATES

    def _overlaps(self, head: Head) -> bool:
        taken = self.taken
        return bool(taken) and any(v.entry.workload.key in taken for v in head.victims)

    def _reassign(self, head: Head) -> bool:
        """Nominate again as if the victims of earlier heads were gone, on the same flavors.

        Returns whether the head then fits without victims of its own.
        """
        if not self.state.config.gates.reassign_on_overlap:
            return False
        nominator = Nominator(
            *(self.state, head.entry, head.queue, self.cleared, self.taken),
            *(self.owners, self.turns),
        )
        with self._without_reserved(self.cleared):
            found = nominator.nominate(only=head.nomination.flavors)
        head.take(found)
        if not found.can_be_had:  # other flavors were not asked
            self.tree.was_put_off = self.state.config.gates.hold_for_preemptor
        return found.nomination.mode is Mode.FIT

    def _fits_beside_others(self, head: Head) -> bool:
        """With everybody's victims gone and all that was given away charged?

        Who has cleared its place does not lose it to a head that merely waits: least of all to
        one that had to make way for it.
        """
        has_claim = head.entry.status.claim is not None
        with self._without_reserved(self.cleared) if has_claim else self.cleared.trial():
            release_all(head.victims, self.cleared)
            return self.cleared.fits(head.queue.node, head.nomination.usage)

    def _refused_for(self, head: Head) -> WaitsForOwner | None:
        """For whom the head may not begin to borrow, now that others have been decided upon."""
        if not head.nomination.borrow_level:
            return None
        with self._without_reserved(self.cleared):
            release_all(head.victims, self.cleared)
            return self.owners.refuse(
                head.entry,
                head.queue,
                head.nomination.usage,
                self.cleared,
                head.victims,
                self.taken,
            )

    def _held_before(self, head: Head) -> Amounts:
        if not any(victim.queue is head.queue for victim in head.victims):
            claim = head.entry.status.claim
            return NOTHING if claim is None else claim.held_before
        with self.cleared.trial():
            release_all(head.victims, self.cleared)
            return self.owners.held_before(
                head.entry, head.queue, self.cleared, head.victims, self.taken
            )

    def _fits_already(self, head: Head) -> bool:
        """Who is admitted at once must not count on victims: they have not let go yet.

        Kueue lets it (in the recorded data), and has more in use than there is for a while.
        """
        counts_on_victims = not self.state.config.gates.hold_for_preemptor
        if head.result is not HeadResult.ADMITTED or not self.taken or counts_on_victims:
            return True
        has_claim = head.entry.status.claim is not None
        with self._without_reserved(self.present) if has_claim else self.present.trial():
            for other in self.promised:
                self.present.release(other.queue.node, other.nomination.usage)
            return self.present.fits(head.queue.node, head.nomination.usage)

    def _reserve_what_is_left(self, head: Head) -> None:
        """Nobody may sneak past a head that has to wait, unless it can reclaim from anybody."""
        queue, nomination = head.queue, head.nomination
        if queue.spec.preemption.reclaim is Policy.ANY and queue.node.parent is not None:
            return
        node, kept = queue.node, {}
        for cell, amount in nomination.usage.items():
            quota = node.quotas.get(cell)
            nominal = node.nominal(cell)
            used = self.present.used(node, cell)
            limit = quota.borrowing_limit if quota is not None else None
            if nomination.borrow_level == 0:
                kept[cell] = max(0, min(amount, nominal - used))
            elif limit is None:
                kept[cell] = amount
            else:
                kept[cell] = max(0, min(amount, nominal + limit - used))
        self._charge(queue, kept)
        if self.state.config.gates.hold_for_preemptor:
            self.reserved.append((queue, kept))

    def _take(self, victims: tuple[Chosen, ...]) -> None:
        if not victims:
            return
        self.is_as_nominated = False
        if self.cleared is self.present:
            self.cleared = self.present.copy()
        for victim in victims:
            self.taken[victim.entry.workload.key] = Leaving(victim.entry, victim.queue)
        release_all(victims, self.cleared)

    def _charge(self, queue: QueueState, amounts: dict[FlavorResource, int]) -> None:
        self.is_as_nominated = False
        self.present.charge(queue.node, amounts)
        if self.cleared is not self.present:
            self.cleared.charge(queue.node, amounts)

    def _blocking(self, head: Head) -> BlockingPreemptor | None:
        """The waiting preemptor whose place this head would take, if places are kept."""
        if not self.state.config.gates.hold_for_preemptor or not self.tree.preemptors:
            return None
        remember_claims(self.state, self.tree)
        with self._without_reserved(self.cleared):
            return find_blocking(self.state, head, self.cleared, self.settled, self.taken)

    def _find_beside(self, head: Head) -> bool:
        """Search again beside what is kept for others: victims of its own, or another flavor.

        Else several who take back what is theirs would wait for each other's victims, one by one.
        """
        with (
            self._without_reserved(self.cleared),
            beside_claims(self.state, head, self.cleared, self.settled, self.taken) as (
                gone,
                given,
            ),
            self.owners.having_settled(given),
        ):
            gone.update(self.taken)
            nominator = Nominator(
                *(self.state, head.entry, head.queue, self.cleared, gone),
                *(self.owners, self.turns),
            )
            found = nominator.nominate(is_resumed=False)
        if not found.victims or not self._all_borrow(found, head.queue):
            return False
        before = Found(head.nomination, head.victims)
        head.take(found)
        head.mode, head.result = HeadMode.PREEMPT, HeadResult.PREEMPTING
        if self._fits_beside_others(head) and self._refused_for(head) is None:
            return True
        head.take(before)
        return False

    def _all_borrow(self, found: Found, own: QueueState) -> bool:
        """Others are taken from where they borrow now, not where a preemptor of theirs will."""
        contested, usage = found.nomination.contested, self.present.usage
        others = {v.queue.node.index: v.queue for v in found.victims if v.queue is not own}
        return not any(is_within_quota(q.node, contested, usage) for q in others.values())

    def _without_reserved(self, picture: Snapshot) -> Trial:
        """What is kept for heads without victims lasts no longer than this cycle."""
        trial = picture.trial()
        for queue, kept in self.reserved:
            picture.release(queue.node, kept)
        return trial

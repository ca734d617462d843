"""What a workload could get at this moment: flavors, and the victims that they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from makeway.engine.decisions import (
    BudgetSpent,
    PreemptionPaused,
    PreemptsLater,
    Reason,
    VictimRule,
    VictimsProtected,
    WaitsForOwner,
)
from makeway.engine.entry import Entry, Scan
from makeway.engine.fairness import find_fair_victims
from makeway.engine.fallback import exhausted_for
from makeway.engine.flavors import (
    FlavorQuestion,
    Mode,
    Nomination,
    Offer,
    assign_flavors,
    why_never,
)
from makeway.engine.free_places import FreePlaces, find_free, free_places
from makeway.engine.model import (
    Amounts,
    FlavorName,
    FlavorResource,
    Fungibility,
    Phase,
    PodSet,
    PodSetName,
    Policy,
    Preference,
    ResourceName,
    Search,
    WorkloadKey,
)
from makeway.engine.owners import Owners
from makeway.engine.partial import search_counts
from makeway.engine.quota import borrow_level
from makeway.engine.sacrifice import Sacrifice, earliest, protection_of
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import Leaving, QueueState
from makeway.engine.turns import Turns
from makeway.engine.victims import (
    Chosen,
    Need,
    all_are_too_important,
    find_victims,
    has_advantage,
    may_preempt,
    own_queue_may_suffice,
    release_all,
)

Flavors = Mapping[PodSetName, Mapping[ResourceName, FlavorName]]
InTheWay = WaitsForOwner | PreemptionPaused | PreemptsLater | VictimsProtected | BudgetSpent


class Found(NamedTuple):
    nomination: Nomination
    victims: tuple[Chosen, ...]  # empty when none are needed, or none would do
    are_leaving: bool = False  # the victims, whatever rule they were taken by: none is taken now

    @property
    def can_be_had(self) -> bool:
        return self.nomination.mode is Mode.FIT or bool(self.victims)

    @property
    def is_in_vain(self) -> bool:
        """There are victims for single cells, but not for all together."""
        needs_some = self.nomination.mode is Mode.PREEMPT and not self.victims
        return needs_some and bool(self.nomination.with_victims)


class Nominator:
    """Looks for flavors and victims for one waiting workload, on a given picture of its tree."""

    def __init__(
        self,
        state: ClusterState,
        entry: Entry,
        queue: QueueState,
        snapshot: Snapshot,
        taken: Mapping[WorkloadKey, Leaving] | None = None,  # by others; not in the picture
        owners: Owners | None = None,  # None: asked for the first time
        turns: Turns | None = None,  # None: looked for the first time
    ) -> None:
        self.state = state
        self.entry = entry
        self.queue = queue
        self.snapshot = snapshot
        self.taken = {} if taken is None else taken
        self.owners = owners or Owners(state, queue.tree)
        self.turns = turns or Turns(queue.tree)
        self._tried: dict[tuple[FlavorResource, int], tuple[Chosen, ...]] = {}  # for single cells
        self._beyond: dict[FlavorResource, int] = {}  # nobody makes way for this much, or more
        self._in_vain: set[FlavorResource] = set()  # victims for these alone would not do
        self._was_refused = False  # for the sake of owners, whatever else was found
        self._in_the_way: set[InTheWay] = set()  # of victims there would be

    def nominate(self, only: Flavors | None = None, is_resumed: bool = True) -> Found:
        """Flavors and the victims they need; with fewer pods if that is allowed.

        `only` leaves no choice of flavors; `is_resumed` goes on where the last search stopped.
        """
        if only is None and self.entry.status.claim is not None:
            cleared = self._find_cleared_place()
            if cleared is not None:
                return cleared
        pod_sets = self.state.pod_sets_of(self.entry)
        scan = self._usable_scan() if is_resumed and only is None else None
        known = None
        if only is None and not self.entry.status.history:
            known = free_places(self.state, self.entry.shape, self.queue, pod_sets)
        if known is not None:
            free = self._find_free(known, scan)
            if free is not None:
                return Found(free, ())
        question = self._question(only, scan, pod_sets, has_nothing_free=known is not None)
        found = self._find_flavors(question)
        if not found.can_be_had:
            other = self._nominate_elsewhere(question, found) or self._nominate_fewer(question)
            if other is not None:
                return other
            if self._was_refused or self._in_the_way:
                found.nomination.reasons = self._told(found.nomination, question)
        return found

    def _find_free(self, known: FreePlaces, scan: Scan | None) -> Nomination | None:
        start = 0
        if scan is not None and scan.tried:
            start = scan.tried[0].get(known.resource, -1) + 1
        is_lenient = not self.state.config.gates.hold_for_preemptor
        usage = self.snapshot.usage
        return find_free(known, self.queue, usage, start, is_lenient, self._owner_before)

    def _find_flavors(self, question: FlavorQuestion, counts: Sequence[int] | None = None) -> Found:
        nomination = assign_flavors(question, counts)
        needs_victims = nomination.mode is Mode.PREEMPT
        return Found(nomination, self._victims_for(nomination) if needs_victims else ())

    def _nominate_elsewhere(
        self, question: FlavorQuestion, found: Found, counts: Sequence[int] | None = None
    ) -> Found | None:
        """The next best flavors, where victims were found in vain.

        Kueue's search ends there (in the recorded data), and the workload waits.
        """
        if not found.is_in_vain or not self.state.config.gates.hold_for_preemptor:
            return None
        while found.is_in_vain:
            self._in_vain |= found.nomination.with_victims
            found = self._find_flavors(question, counts)
        self._in_vain = set()
        return found if found.can_be_had else None

    def _told(self, nomination: Nomination, question: FlavorQuestion) -> list[Reason]:
        """Why it has to wait. Who can never fit does not wait for an owner, nor for a pause."""
        in_the_way = self._in_the_way.difference(nomination.reasons)
        first = sorted(in_the_way, key=repr) if len(in_the_way) > 1 else in_the_way
        reasons = [*first, *nomination.reasons]
        if self._was_refused and not self.owners.can_ever_fit(self.entry, self.queue):
            return why_never(question) or reasons
        return reasons

    def _nominate_fewer(self, question: FlavorQuestion) -> Found | None:
        if not self.state.config.gates.partial_admission:
            return None

        def attempt(counts: tuple[int, ...]) -> Found | None:
            found = self._find_flavors(question, counts)
            if found.can_be_had:
                return found
            elsewhere = self._nominate_elsewhere(question, found, counts)
            if elsewhere is not None:
                return elsewhere
            reasons = found.nomination.reasons
            refusals = (reason for reason in reasons if isinstance(reason, WaitsForOwner))
            self._in_the_way.update(refusals)
            return None

        return search_counts(question.pod_sets, attempt)

    def _question(
        self,
        only: Flavors | None,
        scan: Scan | None,
        pod_sets: tuple[PodSet, ...],
        has_nothing_free: bool = False,
    ) -> FlavorQuestion:
        queue, config, history = self.queue, self.state.config, self.entry.status.history
        preemption = queue.spec.preemption
        reclaims = preemption.reclaim is not Policy.NEVER
        return FlavorQuestion(
            pod_sets=pod_sets,
            queue=queue,
            flavors=self.state.flavors,
            snapshot=self.snapshot,
            preference=preference_of(queue.spec.fungibility, config.gates.implicit_preference),
            may_preempt_and_borrow=(
                preemption.borrow_while_reclaiming or (config.fair_sharing and reclaims)
            ),
            try_victims=self._try_victims,
            exhausted=exhausted_for(history, queue) if history else (),
            scan=scan,
            only=only,
            is_lenient=not config.gates.hold_for_preemptor,
            owner_before=self._owner_before,
            is_partial=config.gates.partial_admission,
            has_nothing_free=has_nothing_free,
        )

    def _owner_before(self, cell: FlavorResource, amount: int) -> WaitsForOwner | None:
        """For whom this much of a cell, which is free, is left alone."""
        if self.owners.have_let(self.queue, cell, amount):
            return None
        return self._refused_for({cell: amount}, ())

    def _refused_for(self, amounts: Amounts, victims: Collection[Chosen]) -> WaitsForOwner | None:
        refused = self.owners.refuse(
            self.entry, self.queue, amounts, self.snapshot, victims, self.taken
        )
        self._was_refused = self._was_refused or refused is not None
        return refused

    def _find_cleared_place(self) -> Found | None:
        """A preemptor takes the place that is cleared for it, and no more.

        While the victims on their way suffice it looks for no others. Another place, or more
        pods, might need victims again, or make it a victim in turn.
        """
        claim = self.entry.status.claim
        if claim is None or not self.state.config.gates.hold_for_preemptor:
            return None
        claimed = claim.assignment
        if claimed is None:
            return None
        pods = {ps.name: ps.count for ps in claimed.pod_sets}
        pod_sets = self.state.pod_sets_of(self.entry)
        if any(ps.name not in pods for ps in pod_sets):
            return None
        only = {ps.name: dict(ps.flavors) for ps in claimed.pod_sets}
        capped = tuple(replace(ps, count=min(ps.count, pods[ps.name])) for ps in pod_sets)
        question = self._question(only, None, capped)
        found = self._find_flavors(question)
        are_leaving = all(victim.entry.phase is Phase.EVICTING for victim in found.victims)
        if found.can_be_had and are_leaving:
            return found
        return self._await_leaving(question)

    def _await_leaving(self, question: FlavorQuestion) -> Found | None:
        """The same place, if those on the way out leave it, by whatever rule they had to go.

        Others of its queue may have been admitted beside it, so that it has to borrow now what
        was its queue's own when it took its victims: for that it might not take them again.
        """
        nomination = assign_flavors(
            question._replace(may_preempt_and_borrow=True, try_victims=self._try_leaving)
        )
        victims = self._leaving_for(nomination.usage) if nomination.mode is Mode.PREEMPT else ()
        return Found(nomination, victims, are_leaving=True) if victims else None

    def _leaving_for(self, amounts: Amounts) -> tuple[Chosen, ...]:
        """Those on the way out who leave room for these amounts: its own victims, then others."""
        key, victims = self.entry.workload.key, []
        with self.snapshot.trial():
            for one in sorted(self.queue.tree.leaving(), key=lambda one: one.preemptor != key):
                if one.entry.workload.key in self.taken:
                    continue
                self.snapshot.release(one.queue.node, one.entry.usage)
                victims.append(Chosen(one.entry, one.queue, self._rule_for(one.queue)))
                if self.snapshot.fits(self.queue.node, amounts):
                    return () if self._refused_for(amounts, victims) else tuple(victims)
        return ()

    def _rule_for(self, victims: QueueState) -> VictimRule:
        if victims is self.queue:
            return VictimRule.IN_QUEUE
        is_fair = self.state.config.fair_sharing
        return VictimRule.FAIR_SHARING if is_fair else VictimRule.RECLAIM

    def _usable_scan(self) -> Scan | None:
        """Where the last search stopped, unless who holds the queue's quota has changed since.

        Progress made in the cycle just before is kept even then, lest later flavors starve.
        """
        scan = self.entry.search.scan
        if scan is None or scan.shape != self.entry.shape:
            return None
        if scan.groups != self.queue.spec.groups or scan.cycle < self.queue.tree.scans_valid_from:
            return None
        if scan.generation == self.queue.generation:
            return scan
        is_fresh = scan.cycle >= self.queue.tree.cycle - 1
        return scan if is_fresh and self.state.config.gates.keep_scan_progress else None

    def _try_victims(self, cell: FlavorResource, amount: int) -> Offer | None:
        """What preemption could do for a single cell."""
        if cell in self._in_vain:
            return None
        victims = self._tried[cell, amount] = self._find({cell: amount}, (cell,))
        return self._offer_without(victims, cell, amount)

    def _try_leaving(self, cell: FlavorResource, amount: int) -> Offer | None:
        return self._offer_without(self._leaving_for({cell: amount}), cell, amount)

    def _offer_without(
        self, victims: tuple[Chosen, ...], cell: FlavorResource, amount: int
    ) -> Offer | None:
        node, snapshot = self.queue.node, self.snapshot
        if not victims:
            return None
        with snapshot.trial():
            release_all(victims, snapshot)
            level = borrow_level(node, cell, amount, snapshot.usage)[0]
        takes_own = any(victim.queue is self.queue for victim in victims)
        return Offer(Mode.PREEMPT if takes_own else Mode.RECLAIM, level)

    def _victims_for(self, nomination: Nomination) -> tuple[Chosen, ...]:
        amounts = {cell: amount for cell, amount in nomination.usage.items() if amount}
        if len(amounts) == 1 and amounts.keys() == nomination.contested:
            ((cell, amount),) = amounts.items()
            if (cell, amount) in self._tried:
                return self._tried[cell, amount]  # the same search, on the same picture
        return self._find(amounts, sorted(nomination.contested))

    def _find(
        self, amounts: dict[FlavorResource, int], contested: Iterable[FlavorResource]
    ) -> tuple[Chosen, ...]:
        """The victims that make room for these amounts; none while it may take no new ones."""
        if self._has_nobody_for(amounts):
            return ()

        def is_refused(victims: Collection[Chosen]) -> bool:
            refused = self._refused_for(amounts, victims)
            if refused is not None:
                self._in_the_way.add(refused)
            return refused is not None

        has_cohort = self.queue.node.parent is not None
        asks_owners = has_cohort and self.state.config.gates.owners_first
        need = Need(
            preemptor=self.entry,
            queue=self.queue,
            amounts=amounts,
            contested=tuple(contested),
            gone=self.taken,
            is_refused=is_refused if asks_owners else None,
            at=self.state.now if self.queue.tree.has_protected else None,
            sacrifice=sacrifice_for(self.state, self.queue),
        )
        victims = self._search(need)
        if not victims and need.at is not None:
            self._note_protection(need)
        if all(victim.entry.phase is Phase.EVICTING for victim in victims):
            return victims
        for reason in self._not_yet(victims):
            self._in_the_way.add(reason)
            victims = ()
        return victims

    def _has_nobody_for(self, amounts: Amounts) -> bool:
        """A cheap look before any search. What is too much remains so, and beside other cells."""
        beyond = self._beyond
        for cell, amount in amounts.items():
            too_much = beyond.get(cell)
            if too_much is not None and amount >= too_much:
                return True
        if not (
            all_are_too_important(self.entry.workload.priority, self.queue)
            or self._would_only_borrow(amounts)
        ):
            return False
        if len(amounts) == 1:
            beyond.update(amounts)
        return True

    def _would_only_borrow(self, amounts: Amounts) -> bool:
        """Whether its own queue can't make way, and it may preempt nobody else to borrow."""
        queue, config = self.queue, self.state.config
        policy = queue.spec.preemption
        if policy.borrow_while_reclaiming or config.fair_sharing or queue.tree.has_protected:
            return False
        priority, snapshot = self.entry.workload.priority, self.snapshot
        return not (
            has_advantage(queue.node, amounts, snapshot)
            or own_queue_may_suffice(priority, queue, amounts, snapshot)
        )

    def _search(self, need: Need) -> tuple[Chosen, ...]:
        config = self.state.config
        if config.fair_sharing:
            return find_fair_victims(need, self.queue.tree, self.snapshot, config.share_rules)
        return find_victims(need, self.snapshot, self.turns)

    def _not_yet(self, victims: tuple[Chosen, ...]) -> Iterator[InTheWay]:
        """What keeps it from taking new victims at this time."""
        if (paused := paused_preemption(self.state, self.entry)) is not None:
            yield paused
        if (later := preempts_later(self.state, self.entry, self.queue)) is not None:
            yield later
        spent = self.state.budgets.refuse(self.queue.spec, victims, self.state.now)
        if spent is not None:
            yield spent

    def _note_protection(self, need: Need) -> None:
        """Would there be victims once enough of them have run for the time that they are granted?

        Cost: a look at the holders of the tree, and where there may be room then, a few searches.
        """
        ends = dict(self._ends_of_protection(need))
        before, was_refused = set(self._in_the_way), self._was_refused

        def finds_some(at: float) -> bool:
            return bool(self._search(need._replace(at=at)))

        until = earliest(ends.values(), finds_some)
        self._in_the_way, self._was_refused = before, was_refused  # what is then is not told now
        if until is not None:
            found = self._search(need._replace(at=until, is_refused=None))
            keys = (victim.entry.workload.key for victim in found)
            awaited = sorted((ends[key], key) for key in keys if key in ends)
            self._in_the_way.add(VictimsProtected(until, tuple(key for _, key in awaited)))

    def _ends_of_protection(self, need: Need) -> list[tuple[WorkloadKey, float]]:
        """Whose protection ends when; left out are ends at which not even all would make room."""
        protected: list[tuple[float, WorkloadKey, Entry, QueueState]] = []
        snapshot, gone = self.snapshot, self.taken
        with snapshot.trial():
            for entry, queue in _whom_policy_gives(need):
                key, protection = entry.workload.key, protection_of(entry.status, queue)
                if key in gone:
                    continue
                if protection is None or protection.until <= self.state.now:
                    snapshot.release(queue.node, entry.usage)
                else:
                    protected.append((protection.until, key, entry, queue))
            protected.sort(key=itemgetter(0, 1))
            for number, (_, _, entry, queue) in enumerate(protected):
                snapshot.release(queue.node, entry.usage)
                if snapshot.fits(need.queue.node, need.amounts):
                    first = protected[number][0]
                    return [(key, max(first, until)) for until, key, _, _ in protected]
        return []


def _whom_policy_gives(need: Need) -> Iterator[tuple[Entry, QueueState]]:
    """Who holds what is contested and is not too important, protected or not."""
    preemption = need.queue.spec.preemption
    for queue in need.queue.tree.queues:
        policy = preemption.within_queue if queue is need.queue else preemption.reclaim
        if policy is Policy.NEVER:
            continue
        for order in queue.holders:
            is_contested = not order.entry.usage.keys().isdisjoint(need.contested)
            if is_contested and may_preempt(policy, need.preemptor, order.entry):
                yield order.entry, queue


def sacrifice_for(state: ClusterState, queue: QueueState) -> Sacrifice | None:
    """The order of victims for a preemptor of this queue; None: the usual one."""
    sorting, counts_history = queue.spec.preemption.sorting, state.config.history is not None
    if not (sorting or state.has_costs or counts_history):
        return None
    usage_of = state.usage_of if counts_history else None
    return Sacrifice(sorting, state.local_queues, state.now, usage_of)


def preempts_later(state: ClusterState, entry: Entry, queue: QueueState) -> PreemptsLater | None:
    """From when on it may make others give way; None: it has waited long enough."""
    wait_s = queue.spec.preemption.after_waiting_s
    if not wait_s:
        return None
    first, now = entry.status.first_attempt_at, state.now
    since = now if first is None else min(first, now)  # were the clock set back, no longer
    return PreemptsLater(since, since + wait_s) if since + wait_s > now else None


def paused_preemption(state: ClusterState, entry: Entry) -> PreemptionPaused | None:
    """Until when it may take no new victims; None: it may at once."""
    preemptions, config = entry.status.preemptions, state.config
    if preemptions is None or not config.gates.preemption_backoff:
        return None
    pause_s = config.preemption_backoff.delay_s(preemptions.times)
    until = min(preemptions.last_at, state.now) + pause_s  # were the clock set back, no longer
    return PreemptionPaused(preemptions, until) if until > state.now else None


def preference_of(fungibility: Fungibility, is_implicit: bool) -> Preference:
    if fungibility.preference is not None:
        return fungibility.preference
    if is_implicit and fungibility.when_can_borrow is Search.TRY_NEXT:
        return Preference.PREEMPTION_OVER_BORROWING
    return Preference.BORROWING_OVER_PREEMPTION

"""Owners first (gate OwnersFirst): nobody begins to borrow what a nearer one waits for.

Quota that its owner does not use is lent. The moment its owner has work for it, nobody else may
*begin* to borrow it: without this rule the owner of a cohort without preemption starves behind
borrowers that are small enough for whatever becomes free, and with preemption people take turns for
ever. Queues a and b own 8 each. An important workload of b clears the place of smaller ones of its
own queue and starts by borrowing 1, which a waits for; a takes it back; the small ones return; the
important one clears their place again.

*Owner.* A waiting workload is an owner at a node, its queue or a cohort above it, if with some
choice of flavors everything it asks for fits into the quota of that node. It is asked of all its
resources together: of two workloads that each lack one thing, each would keep the other waiting.
Who waits in back-off, in a stopped queue, or behind the head of a StrictFIFO queue is none.

*Claim.* At a node the owners claim together what they ask for, but no more than is free there.

*Refusal.* A head that would begin to borrow is charged as if it ran. There must be a subtree above
it that covers all it holds then, and still has room for what is claimed beside the way from its
queue up to there. So borrowers take what owners don't need, and borrowing inside one's own cohort
never waits for an uncle. A queue that exchanges one workload for another, and holds no more than
before, begins nothing.

*On which picture?* On the one that the act leaves behind: everybody on the way out by preemption is
gone and waits again. Judged on the present picture more circles arise than end, for an owner that
lacks nothing yet, and is merely not the head, would not be counted. For the same reason a preemptor
remembers what its queue held before: when it takes the place, it is judged as when it cleared it.

Nobody waits in a ring: an owner at its own queue needs nobody's leave, and leave is refused only
for the sake of somebody who is nearer to the quota.

Cost: nothing for whoever stays inside its queue's quota. A queue's claims are kept until its line
or its usage changes; they take a look at each shape in its line, until all that is free is claimed.
A refused shape is parked, and tried again when more is left for borrowers than when it was refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, product

from makeway.engine.decisions import WaitsForOwner
from makeway.engine.entry import NOTHING, Demand, Entry
from makeway.engine.fallback import exhausted_for
from makeway.engine.flavors import mismatch_of
from makeway.engine.model import (
    PODS,
    Amounts,
    FlavorResource,
    Phase,
    PodSet,
    QueueName,
    ResourceGroup,
    ResourceName,
    StopPolicy,
    Strategy,
    WorkloadKey,
)
from makeway.engine.quota import Node, Usage, available_in, exceeds_subtree, potential, usage_room
from makeway.engine.snapshot import Snapshot
from makeway.engine.state import ClusterState
from makeway.engine.tree import Leaving, QueueState, Refusal, Tree
from makeway.engine.victims import Chosen

CHOICES_MAX = 64  # of flavors for several pod sets; beyond that an owner may be overlooked


Claims = dict[FlavorResource, int]
Settled = Mapping[WorkloadKey, Entry]  # heads that are charged in the picture, and still in line
NOBODY: Settled = {}


class Owners:
    """The owners in one tree, as one cycle sees them.

    Cost: nothing before somebody begins to borrow; then a look at each queue, and at the shapes in
    the lines of those where something has changed since the last time.
    """

    def __init__(self, state: ClusterState, tree: Tree, is_what_if: bool = False) -> None:
        self._state = state
        self._is_what_if = is_what_if  # the picture is not as it is: nothing is kept for later
        self.tree = tree
        self.settled: dict[WorkloadKey, Entry] = {}  # of the cycle that asks
        self._leaving: list[Leaving] | None = None
        self._claims: dict[int, Claims] = {}  # by node, when the cycle began
        # By cohort, and nodes that have changed: the children where there are claims.
        self._claiming: dict[tuple[int, frozenset[int]], list[Node]] = {}
        self._claimed: dict[int, Claims] = {}  # by cohort, at its children
        self._left_in_root: Claims = {}  # beyond all that is claimed there
        self._left: dict[tuple[QueueName, FlavorResource, tuple[WorkloadKey, ...]], dict[int, int]]
        self._left = {}  # for borrowers, when the cycle began
        self._was_forgotten = False  # claims have changed since
        self._sums_tell: bool | None = None  # what is left for borrowers; None: not asked as yet
        # How much of what owners let a queue have, by its node, as far as that was asked; as long
        # as the cycle has decided nothing.
        self.let: dict[tuple[int, FlavorResource], int] = {}
        self._refused: dict[tuple[QueueName, FlavorResource, int], Refusal] = {}

    def refuse(
        self,
        entry: Entry,
        queue: QueueState,
        amounts: Amounts,
        picture: Snapshot,
        victims: Collection[Chosen] = (),
        taken: Mapping[WorkloadKey, Leaving] | None = None,
    ) -> WaitsForOwner | None:
        """The owner for whose sake this workload may not have these amounts; None: it may.

        In the picture its own victims are gone, and those that others have taken in this cycle.
        """
        if not self.are_asked_by(queue):
            return None
        if not _begun(queue.node, amounts, NOTHING, picture):
            return None  # it does not even borrow
        with picture.trial():
            returning = self._leave_behind(picture, victims, taken)
            before = _held_before(entry, queue, victims, picture)
            for cell in _begun(queue.node, amounts, before, picture):
                reason = self._refuse_cell(queue, cell, amounts[cell], picture, returning)
                if reason is not None:
                    keys = tuple(victim.entry.workload.key for victim in victims)
                    self.note_refusal(queue, cell, keys)
                    return reason
        return None

    def are_asked_by(self, queue: QueueState) -> bool:
        """Whether somebody of a queue who begins to borrow needs their leave."""
        return queue.node.parent is not None and self._state.config.gates.owners_first

    def have_let(self, queue: QueueState, cell: FlavorResource, amount: int) -> bool:
        """Whether it is known that they leave this much to whomever of a queue."""
        return amount <= self.let.get((queue.node.index, cell), 0)

    def let_have(self, queue: QueueState, cell: FlavorResource, amount: int) -> int:
        """Up to how much of a cell, if it is free, they leave to whomever of a queue; less than
        this amount, if it is refused.

        To be asked of what the queue would have to borrow, when the cycle begins. The same as
        `refuse` says of one without a claim; nobody is named, and nothing noted.
        """
        at, picture = (queue.node.index, cell), self.tree.snapshot
        if self._is_told_by_sums():
            left = self.let[at] = self._most_left(queue.node, cell, picture.usage)
            return left
        with picture.trial():
            returning = self._leave_behind(picture, (), None)
            is_refused = bool(
                _begun(queue.node, {cell: amount}, NOTHING, picture)
                and self._claiming_before(queue, cell, amount, picture, returning)
            )
        if not is_refused:
            self.let[at] = max(amount, self.let.get(at, 0))
        return 0 if is_refused else amount

    def _is_told_by_sums(self) -> bool:
        """Whether what is left for borrowers is known, as it was when the cycle began."""
        return not self._was_forgotten and self._sums_are_known()

    def _sums_are_known(self) -> bool:
        """Whether all that a queue takes shows above it, and nobody is on the way out."""
        if self._sums_tell is None:
            self._sums_tell = self.tree.keeps_nothing and not self.leaving()
        return self._sums_tell

    def held_before(
        self,
        entry: Entry,
        queue: QueueState,
        picture: Snapshot,
        victims: Collection[Chosen],
        taken: Mapping[WorkloadKey, Leaving],
    ) -> dict[FlavorResource, int]:
        """What its queue holds before it takes these victims, who are gone in the picture."""
        with picture.trial():
            self._leave_behind(picture, victims, taken)
            return _held_before(entry, queue, victims, picture)

    def _leave_behind(
        self,
        picture: Snapshot,
        victims: Collection[Chosen],
        taken: Mapping[WorkloadKey, Leaving] | None,
    ) -> list[Leaving]:
        """Let everybody be gone who is on the way out by preemption; returns who they are.

        Inside a trial. Victims, and those that others have taken, are gone in the picture already.
        """
        gone = dict(taken) if taken else {}
        for victim in victims:
            gone[victim.entry.workload.key] = Leaving(victim.entry, victim.queue)
        returning = list(gone.values())
        for one in self.leaving():
            if one.entry.workload.key not in gone:
                picture.release(one.queue.node, one.entry.usage)
                returning.append(one)
        return returning

    def note_refusal(
        self, queue: QueueState, cell: FlavorResource, victims: tuple[WorkloadKey, ...]
    ) -> None:
        """Once for each search, which takes more and more victims."""
        top = queue.node.parent
        while top is not None:
            at = (queue.spec.name, cell, top.index)
            self._refused[at] = Refusal(*at, victims)
            top = top.parent

    def _refuse_cell(
        self,
        queue: QueueState,
        cell: FlavorResource,
        amount: int,
        picture: Snapshot,
        returning: list[Leaving],
    ) -> WaitsForOwner | None:
        claiming = self._claiming_before(queue, cell, amount, picture, returning)
        if not claiming:
            return None
        owner = self._first_owner(claiming, cell, picture.usage, returning)
        assert owner.queue is not None, f"{owner.workload.key} is in no queue"
        return WaitsForOwner(cell, owner.workload.key, owner.queue)

    def _claiming_before(
        self,
        queue: QueueState,
        cell: FlavorResource,
        amount: int,
        picture: Snapshot,
        returning: list[Leaving],
    ) -> list[Node]:
        """The nodes whose claims are in the way of this much; none: there is enough for all."""
        way = self._way_up(queue.node, cell, picture, returning, self.settled)
        if not any(beside for _, beside in way):
            return []
        claiming = []
        with picture.trial():
            picture.charge(queue.node, {cell: amount})
            for top, beside in way:
                for node, claimed in beside:
                    used = picture.used(top, cell)
                    picture.charge(node, {cell: claimed})
                    if picture.used(top, cell) > used:
                        claiming.append(node)  # not one that keeps what is claimed there
                if not exceeds_subtree(top, cell, 0, picture.usage):
                    return []
        return claiming

    def _first_owner(
        self, nodes: Iterable[Node], cell: FlavorResource, usage: Usage, returning: list[Leaving]
    ) -> Entry:
        """Of those who claim a cell, who would be the first if they stood in one line.

        Or of those who ask for it, if what one of them claims is charged already in this picture.
        """
        owners, asking = [], []
        for node in nodes:
            for queue in _queues_below(node, self.tree):
                for entry, demand, _ in self._waiting_in(queue, returning, self.settled):
                    if cell in _claimed_by(demand, queue.node, node, usage):
                        owners.append(self._first_alike(entry, queue))
                    elif not owners and any(cell in c for choices in demand for c in choices):
                        asking.append(self._first_alike(entry, queue))
        return min(owners or asking, key=self._state.order_of)

    def _first_alike(self, entry: Entry, queue: QueueState) -> Entry:
        """The first of a shape who waits: others of it may have got their places in this cycle."""
        if entry.workload.key not in self.settled:
            return entry
        alike = queue.pending.alike(entry)
        waiting = [other for other in alike if other.workload.key not in self.settled]
        return min(waiting, key=self._state.order_of)

    def forget_claims(self) -> None:
        """Somebody was turned away since, and claims nothing any more."""
        self._claims.clear()
        self._claiming.clear()
        self._claimed.clear()
        self._left_in_root.clear()
        self.let.clear()
        self._was_forgotten = True

    def refusals(self) -> Collection[Refusal]:
        """Whom and where it has refused, each with the most victims that were tried."""
        return self._refused.values()

    @contextmanager
    def having_settled(self, others: Settled) -> Iterator[None]:
        """As if these were charged in the picture, too."""
        before, self.settled = self.settled, {**self.settled, **others}
        try:
            yield
        finally:
            self.settled = before

    def left(self, refusal: Refusal) -> int:
        """How much owners leave for the queue that was refused; no trial is going on."""
        name, cell, top, victims = refusal
        if not victims:
            node = self.tree.queue_named[name].node
            if node.is_flat and self._sums_are_known():
                return self._most_left(node, cell, self.tree.snapshot.usage)
        return self._lefts(name, cell, victims)[top]

    def _most_left(self, node: Node, cell: FlavorResource, usage: Usage) -> int:
        """The most that owners leave for a queue, of whichever cohort above it; by sums."""
        if not node.is_flat:
            return max(self._left_by_sums(node, cell, usage).values())
        left = self._left_in_root.get(cell)
        if left is None:
            left = self._left_in_root[cell] = self._left_for_strangers(node.bound, cell, usage)
        own = self._claims.get(node.index)
        if own is None:
            own = self._known_claims(node, usage)
        return left + own.get(cell, 0) if own else left

    def _left_for_strangers(self, root: Node, cell: FlavorResource, usage: Usage) -> int:
        """What is left of a cell when all have what they claim."""
        claimed = self._claimed.get(root.index)
        if claimed is None:
            claimed = self._claimed[root.index] = self._claimed_below(root, usage)
        return usage_room(root, cell, usage) - claimed.get(cell, 0)

    def _lefts(
        self, name: QueueName, cell: FlavorResource, victims: tuple[WorkloadKey, ...]
    ) -> dict[int, int]:
        """What owners leave for a queue, by the cohort above it of whose quota it would be."""
        at = (name, cell, victims)
        known = self._left.get(at)
        if known is None:
            if not victims and self._sums_are_known():
                node = self.tree.queue_named[name].node
                known = self._left_by_sums(node, cell, self.tree.snapshot.usage)
            else:
                known = self._left_above(*at)
            self._left[at] = known
        return known

    def _left_above(
        self, name: QueueName, cell: FlavorResource, victims: tuple[WorkloadKey, ...]
    ) -> dict[int, int]:
        """The same by charging all that is claimed, as if whoever is on the way out were gone."""
        picture, queue, left = self.tree.snapshot, self.tree.queue_named[name], {}
        entries = (self._state.entries[key] for key in victims)
        staying = [entry for entry in entries if entry.phase is not Phase.EVICTING]
        gone = self.leaving() + [Leaving(entry, self.tree.queue_of(entry)) for entry in staying]
        with picture.trial():
            for one in gone:
                picture.release(one.queue.node, one.entry.usage)
            for cohort, beside in self._way_up(queue.node, cell, picture, gone, NOBODY):
                for node, claimed in beside:
                    picture.charge(node, {cell: claimed})
                left[cohort.index] = cohort.subtree.get(cell, 0) - picture.used(cohort, cell)
        return left

    def _left_by_sums(self, node: Node, cell: FlavorResource, usage: Usage) -> dict[int, int]:
        """The same where all that anybody takes shows above it, and nobody is on the way out."""
        claimed, left = 0, {}
        while node.parent is not None:
            cohort = node.parent
            below = self._claimed.get(cohort.index)
            if below is None:
                below = self._claimed[cohort.index] = self._claimed_below(cohort, usage)
            own = self._claims.get(node.index)
            if own is None:
                own = self._known_claims(node, usage)
            claimed += below.get(cell, 0) - own.get(cell, 0)
            left[cohort.index] = usage_room(cohort, cell, usage) - claimed
            node = cohort
        return left

    def _claimed_below(self, cohort: Node, usage: Usage) -> Claims:
        """What is claimed at the children of a cohort, all together."""
        claimed: Claims = {}
        queue_at, edited = self.tree.queue_at, self._state.flavors_edited
        for child in cohort.children:
            queue = queue_at[child.index]
            if queue is None:
                claims = self._known_claims(child, usage)
            else:
                # As `is_empty` and `_known_claims` say, which would be two calls for each.
                pending, known = queue.pending, queue.claims_known
                if not (pending.classes or pending.aside):
                    continue
                if (
                    known is None
                    or known[0] != pending.version + queue.generation + edited
                    or known[1] is not queue.inactive
                    or self._is_what_if
                ):
                    claims = self._known_claims(child, usage)
                else:
                    claims = self._claims[child.index] = known[2]
            for cell, amount in claims.items():
                claimed[cell] = claimed.get(cell, 0) + amount
        return claimed

    def leaving(self) -> list[Leaving]:
        """Who is on the way out by preemption, and will wait again."""
        if self._leaving is None:
            self._leaving = [one for one in self.tree.leaving() if one.by_preemption]
        return self._leaving

    # --- what is claimed beside the way up ---

    def _way_up(
        self,
        node: Node,
        cell: FlavorResource,
        picture: Snapshot,
        returning: list[Leaving],
        settled: Settled,
    ) -> list[tuple[Node, list[tuple[Node, int]]]]:
        """The cohorts above a queue, each with what is claimed of a cell beside the way to it."""
        changed, usage, way = self._changed_nodes(returning, settled), picture.usage, []
        while node.parent is not None:
            beside = []
            for other in self._who_may_claim(node.parent, usage, changed):
                if other is node:
                    continue
                if other.index in changed:
                    if exceeds_subtree(other, cell, 1, usage):
                        continue  # nothing is free there
                    claims = self._claims_at(other, usage, returning, settled)
                else:
                    claims = self._known_claims(other, usage)
                if cell in claims:
                    beside.append((other, claims[cell]))
            way.append((node.parent, beside))
            node = node.parent
        return way

    def _changed_nodes(self, returning: list[Leaving], settled: Settled) -> set[int]:
        """Nodes where the picture is not as it is outside cycles."""
        if not returning and not settled:
            return set()
        queues = [one.queue for one in returning]
        queues += [self.tree.queue_of(entry) for entry in settled.values()]
        changed: set[int] = set()
        for queue in queues:
            node: Node | None = queue.node
            while node is not None and node.index not in changed:
                changed.add(node.index)
                node = node.parent
        return changed

    def _who_may_claim(self, cohort: Node, usage: Usage, changed: set[int]) -> list[Node]:
        """The children of a cohort at which something is claimed, and those that have changed."""
        at = (cohort.index, frozenset(changed))
        found = self._claiming.get(at)
        if found is None:
            found = self._claiming[at] = []
            queue_at = self.tree.queue_at
            for child in cohort.children:
                if child.index not in changed:
                    queue = queue_at[child.index]
                    if queue is not None and queue.pending.is_empty:
                        continue  # most lines are, most of the time
                    if not self._known_claims(child, usage):
                        continue
                found.append(child)
        return found

    def _known_claims(self, node: Node, usage: Usage) -> Claims:
        """What is claimed at a node that is in the picture as it was when the cycle began.

        At a queue it is kept from cycle to cycle while neither its line nor its usage changes.
        """
        known = self._claims.get(node.index)
        if known is not None:
            return known
        queue = self.tree.queue_at[node.index]
        if queue is None or self._is_what_if:
            known = self._claims[node.index] = self._claims_at(node, usage)
            return known
        stamp = queue.pending.version + queue.generation + self._state.flavors_edited
        before = queue.claims_known  # none of these shrinks
        if before is None or before[0] != stamp or before[1] is not queue.inactive:
            before = queue.claims_known = (stamp, queue.inactive, self._claims_at(node, usage))
        known = self._claims[node.index] = before[2]
        return known

    def _claims_at(
        self,
        node: Node,
        usage: Usage,
        returning: Collection[Leaving] = (),
        settled: Settled = NOBODY,
    ) -> Claims:
        """What the owners at a node ask for, but no more than is free there."""
        used = usage[node.index]
        free = {
            cell: room
            for cell, quota in node.subtree.items()
            if (room := quota - used.get(cell, 0)) > 0
        }
        claims: Claims = {}
        if not free:
            return claims
        unclaimed = set(free)
        for queue in _queues_below(node, self.tree):
            for _, demand, count in self._waiting_in(queue, returning, settled):
                for cell, amount in _claimed_by(demand, queue.node, node, usage).items():
                    if cell not in free:
                        continue  # it would take what a queue below keeps for itself
                    total = claims.get(cell, 0) + amount * count
                    claims[cell] = min(total, free[cell])
                    if total >= free[cell]:
                        unclaimed.discard(cell)
                if not unclaimed:
                    return claims
        return claims

    # --- who waits ---

    def _waiting_in(
        self, queue: QueueState, returning: Collection[Leaving], settled: Settled
    ) -> Iterator[tuple[Entry, Demand, int]]:
        """Who may be an owner here: one of each shape, what it asks for, and how many there are."""
        if queue.inactive is not None:
            return
        back = [one.entry for one in returning if one.queue is queue and self._comes_back(one)]
        if queue.spec.strategy is Strategy.STRICT_FIFO:
            first = self._first_in_line(queue, back, settled)
            if first is not None:
                yield first, self._demand_of(first, queue), 1
            return
        shapes = [e.shape for e in settled.values() if e.queue == queue.spec.name]
        admits_everybody = queue.spec.admits_every_namespace
        for entry, count in queue.pending.by_shape():
            count -= shapes.count(entry.shape)
            if not admits_everybody:
                count = min(count, self._admissible_like(entry, queue))
            if count > 0 and entry.workload.defect is None:
                yield entry, self._demand_of(entry, queue), count
        for entry in back:
            yield entry, self._demand_of(entry, queue), 1

    def _first_in_line(
        self, queue: QueueState, back: list[Entry], settled: Settled
    ) -> Entry | None:
        line = queue.pending.first_but(settled)
        if line is not None and line.workload.defect is not None:
            line = None
        everybody = [*back, line] if line is not None else back
        order_of, rank = self._state.order_of, queue.pending.rank
        return min(everybody, key=lambda entry: rank(order_of(entry), entry), default=None)

    def _comes_back(self, one: Leaving) -> bool:
        entry = one.entry
        local_queue = self._state.local_queues.get(entry.workload.local_queue)
        return (
            entry.workload.active
            and not entry.workload.ends_when_preempted
            and local_queue is not None
            and local_queue.stop_policy is StopPolicy.NONE
            and local_queue.queue == one.queue.spec.name
        )

    def _admissible_like(self, entry: Entry, queue: QueueState) -> int:
        alike = queue.pending.alike(entry)
        return sum(1 for other in alike if self._state.admits_namespace_of(other, queue))

    def can_ever_fit(self, entry: Entry, queue: QueueState) -> bool:
        """Whether the workload would have room if nothing were in use."""
        demand = self._demand_of(entry, queue)
        return bool(demand) and all(
            any(all(n <= potential(queue.node, cell) for cell, n in c.items()) for c in choices)
            for choices in demand
        )

    def _demand_of(self, entry: Entry, queue: QueueState) -> Demand:
        known = queue.demands.get(entry.shape)
        if known is None or known[0] != self._state.flavors_edited:
            queue.forget_shapes()
            demand = demand_of(self._state, entry, queue)
            known = queue.demands[entry.shape] = (self._state.flavors_edited, demand)
        return known[1]


def wake_refused(state: ClusterState, owners: Owners) -> None:
    """Whoever was refused is tried again when owners leave more than they did then."""
    tree = owners.tree
    grown = [refusal for refusal, left in tree.refusals.items() if owners.left(refusal) > left]
    for refusal in grown:
        del tree.refusals[refusal]
        state.wake_line(tree.queue_named[refusal.queue])


# --- what a workload asks for ---


def demand_of(state: ClusterState, entry: Entry, queue: QueueState) -> Demand:
    """Per resource group every choice of flavors with what it would take; () if one has none."""
    pod_sets = smallest_pod_sets(state, entry)
    wanted = {
        resource for ps in pod_sets for resource, amount in ps.requests if amount and ps.count
    }
    if not wanted <= queue.group_of.keys():
        return ()
    choices = []
    for group in queue.spec.groups:
        of_group = tuple(choices_of(state, entry, queue, group, pod_sets))
        if not of_group:
            return ()
        if of_group[0]:
            choices.append(of_group)
    return tuple(choices)


def smallest_pod_sets(state: ClusterState, entry: Entry) -> list[PodSet]:
    """Its pod sets, with as few pods as it would do with."""
    return [_smallest(state, pod_set) for pod_set in state.pod_sets_of(entry)]


def _smallest(state: ClusterState, pod_set: PodSet) -> PodSet:
    if pod_set.min_count is None or not state.config.gates.partial_admission:
        return pod_set
    return replace(pod_set, count=min(pod_set.count, pod_set.min_count))


def choices_of(
    state: ClusterState,
    entry: Entry,
    queue: QueueState,
    group: ResourceGroup,
    pod_sets: Iterable[PodSet],
) -> Iterator[dict[FlavorResource, int]]:
    """What its pod sets would take of a group with each choice of flavors, up to a limit."""
    history = entry.status.history
    exhausted = exhausted_for(history, queue) if history else ()
    asking = [(ps, needs) for ps in pod_sets if (needs := _needs(ps, group))]
    flavors = [
        [
            quotas.flavor
            for quotas in group.flavors
            if quotas.flavor not in exhausted
            and (known := state.flavors.get(quotas.flavor)) is not None
            and mismatch_of(known, ps) is None
        ]
        for ps, _ in asking
    ]
    for chosen in islice(product(*flavors), CHOICES_MAX):
        total: dict[FlavorResource, int] = {}
        for flavor, (_, needs) in zip(chosen, asking, strict=True):
            for resource, amount in needs.items():
                cell = FlavorResource(flavor, resource)
                total[cell] = total.get(cell, 0) + amount
        yield total


def _needs(pod_set: PodSet, group: ResourceGroup) -> dict[ResourceName, int]:
    needs = {r: amount * pod_set.count for r, amount in pod_set.requests if r in group.resources}
    if PODS in group.resources:
        needs[PODS] = pod_set.count
    return {resource: amount for resource, amount in needs.items() if amount}


def _claimed_by(demand: Demand, queue: Node, node: Node, usage: Usage) -> dict[FlavorResource, int]:
    """What a workload claims at a node where it is an owner; nothing where it is none."""
    claimed: dict[FlavorResource, int] = {}
    for choices in demand:
        fitting = [
            choice
            for choice in choices
            if all(
                amount <= available_in(node, queue, cell, usage) for cell, amount in choice.items()
            )
        ]
        if not fitting:
            return {}
        for choice in fitting:
            for cell, amount in choice.items():
                claimed[cell] = max(claimed.get(cell, 0), amount)
    return claimed


# --- small questions ---


def _held_before(
    entry: Entry, queue: QueueState, victims: Collection[Chosen], left_behind: Snapshot
) -> dict[FlavorResource, int]:
    """What its queue held before it took these victims, and those that it took before.

    In the picture they are gone, and so is everybody who is on the way out for others.
    """
    claim = entry.status.claim
    held = {} if claim is None else dict(claim.held_before)
    if not victims:
        return held
    own = [victim.entry for victim in victims if victim.queue is queue]
    new = [victim for victim in own if victim.phase is not Phase.EVICTING]
    for cell in {cell for victim in new for cell in victim.usage}:
        there = sum(victim.usage.get(cell, 0) for victim in new)
        held[cell] = max(held.get(cell, 0), left_behind.used(queue.node, cell) + there)
    return held


def _begun(
    node: Node, amounts: Amounts, before: Amounts, left_behind: Snapshot
) -> list[FlavorResource]:
    """The cells in which the queue would begin to borrow, or borrow more than before."""
    used = left_behind.usage[node.index]
    return [
        cell
        for cell, amount in amounts.items()
        if amount
        and (after := used.get(cell, 0) + amount) > node.nominal(cell)
        and after > before.get(cell, 0)
    ]


def _queues_below(node: Node, tree: Tree) -> Iterator[QueueState]:
    queue = tree.queue_at[node.index]
    if queue is not None:
        yield queue
    for child in node.children:
        yield from _queues_below(child, tree)

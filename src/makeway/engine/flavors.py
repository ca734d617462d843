"""Which flavors a workload gets.

Pod sets choose one after the other, each seeing what the former ones took. For each resource
group the flavors are tried in the order in which the queue lists them; what a flavor offers
(`Offer`) decides whether the search goes on, and the best offer of those looked at wins. A search
that stopped early leaves its position behind, from which the next attempt goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from makeway.engine.decisions import (
    ExceedsCapacity,
    FlavorMismatch,
    MismatchKind,
    NotCovered,
    Preemptability,
    Reason,
    Shortfall,
    WaitsForOwner,
)
from makeway.engine.entry import Scan
from makeway.engine.matching import UNCONSTRAINED, matches_known_keys, untolerated_taint
from makeway.engine.model import (
    PODS,
    Assignment,
    Flavor,
    FlavorName,
    FlavorResource,
    Fungibility,
    PodSet,
    PodSetAssignment,
    PodSetName,
    Preference,
    ResourceGroup,
    ResourceName,
    Search,
)
from makeway.engine.quota import borrow_level, potential
from makeway.engine.snapshot import Snapshot
from makeway.engine.tree import QueueState


class Mode(IntEnum):
    """What it takes to get a flavor, worst first."""

    NO_FIT = 0
    NO_VICTIMS = 1  # would need preemption, and nobody may be preempted
    PREEMPT = 2  # somebody of the own queue among the victims
    RECLAIM = 3  # only workloads of other queues
    FIT = 4


class Offer(NamedTuple):
    mode: Mode
    borrow_level: int


WORST = Offer(Mode.NO_FIT, 1 << 30)
BEST = Offer(Mode.FIT, 0)


def is_better(a: Offer, b: Offer, preference: Preference) -> bool:
    """Is `a` to be preferred? Without victims a flavor can't be had now, so that ranks low."""
    if a == b:
        return False
    if a.mode != b.mode and min(a.mode, b.mode) <= Mode.NO_VICTIMS:
        return a.mode > b.mode
    if a.mode is Mode.NO_FIT:
        return False
    if preference is Preference.BORROWING_OVER_PREEMPTION:
        return (a.mode, -a.borrow_level) > (b.mode, -b.borrow_level)
    return (-a.borrow_level, a.mode) > (-b.borrow_level, b.mode)


def stops_search(offer: Offer, fungibility: Fungibility) -> bool:
    if offer.mode <= Mode.NO_VICTIMS:
        return False
    if offer.mode is not Mode.FIT and fungibility.when_can_preempt is Search.TRY_NEXT:
        return False
    return offer.borrow_level == 0 or fungibility.when_can_borrow is Search.MAY_STOP


# The trial search: could victims make room for this much of one cell, and at which level would
# the queue then borrow? None: there are none.
VictimTrial = Callable[[FlavorResource, int], Offer | None]


class FlavorQuestion(NamedTuple):
    """Everything an assignment of flavors depends on, but for the pod counts."""

    pod_sets: tuple[PodSet, ...]  # with reclaimable pods taken off
    queue: QueueState
    flavors: Mapping[FlavorName, Flavor]
    snapshot: Snapshot
    preference: Preference
    may_preempt_and_borrow: bool
    try_victims: VictimTrial
    exhausted: Collection[FlavorName] = ()
    scan: Scan | None = None  # go on from here; None: from the first flavor
    only: Mapping[PodSetName, Mapping[ResourceName, FlavorName]] | None = None
    is_lenient: bool = False  # as in Kueue: free to borrow may outweigh another resource's victims
    owner_before: Callable[[FlavorResource, int], WaitsForOwner | None] | None = None
    is_partial: bool = False  # a pod set with a minimum may have fewer pods
    has_nothing_free: bool = False  # no flavor ends the search for all pods by being free


class Choice(NamedTuple):
    """One resource of one pod set: its flavor, and what it takes to get it."""

    flavor: FlavorName
    offer: Offer


class PodSetChoice(NamedTuple):
    pod_set: PodSet
    pods: int  # how many of them, which may be fewer than the pod set asks for
    requests: dict[ResourceName, int]  # of all its pods
    choices: dict[ResourceName, Choice]  # empty: some resource found no flavor

    def assigned(self) -> PodSetAssignment:
        resources = sorted(self.choices)
        return PodSetAssignment(
            name=self.pod_set.name,
            count=self.pods,
            flavors=tuple([(r, self.choices[r].flavor) for r in resources]),
            usage=tuple([(r, self.requests[r]) for r in resources]),
        )


class Nomination:
    """An assignment of flavors as found for a head, and what it would take."""

    __slots__ = (
        "_assignment",
        "borrow_level",
        "contested",
        "mode",
        "pod_sets",
        "reasons",
        "tried",
        "usage",
        "with_victims",
    )

    def __init__(self) -> None:
        self.pod_sets: list[PodSetChoice] = []
        self.mode = Mode.FIT  # of NO_VICTIMS, PREEMPT and RECLAIM only PREEMPT is used here
        self.borrow_level = 0
        self.usage: dict[FlavorResource, int] = {}
        self.contested: set[FlavorResource] = set()  # cells that need victims
        self.with_victims: set[FlavorResource] = set()  # of these, where they would do for it alone
        self.tried: list[dict[ResourceName, int]] = []
        self.reasons: list[Reason] = []
        self._assignment: Assignment | None = None  # made when it is asked for

    @property
    def flavors(self) -> dict[PodSetName, dict[ResourceName, FlavorName]]:
        return {
            ps.pod_set.name: {resource: choice.flavor for resource, choice in ps.choices.items()}
            for ps in self.pod_sets
        }

    def assignment(self) -> Assignment:
        if self._assignment is None:
            self._assignment = Assignment(tuple([ps.assigned() for ps in self.pod_sets]))
        return self._assignment


def assign_flavors(question: FlavorQuestion, counts: Sequence[int] | None = None) -> Nomination:
    """Find flavors for every pod set, in full or with the given pod counts."""
    nomination = Nomination()
    for index, pod_set in enumerate(question.pod_sets):
        count = pod_set.count if counts is None else counts[index]
        requests = requests_of(question.queue, pod_set, count)
        if not _assign_pod_set(question, nomination, index, pod_set, count, requests):
            nomination.mode = Mode.NO_FIT
            break
    return nomination


def requests_of(queue: QueueState, pod_set: PodSet, count: int) -> dict[ResourceName, int]:
    """What so many of these pods ask for together."""
    requests = {resource: amount * count for resource, amount in pod_set.requests}
    if PODS in queue.group_of:
        requests[PODS] = count
    return requests


def why_never(question: FlavorQuestion) -> list[Reason]:
    """What would be in the way if nothing were in use and nobody else waited; [] if nothing."""
    empty = Snapshot([{} for _ in question.snapshot.usage])
    nomination = assign_flavors(
        question._replace(snapshot=empty, scan=None, owner_before=None, has_nothing_free=False)
    )
    return nomination.reasons if nomination.mode is Mode.NO_FIT else []


def _assign_pod_set(
    question: FlavorQuestion,
    nomination: Nomination,
    index: int,
    pod_set: PodSet,
    count: int,
    requests: dict[ResourceName, int],
) -> bool:
    """Add the pod set's choices to the nomination; False if some resource finds no flavor."""
    choices: dict[ResourceName, Choice] = {}
    tried: dict[ResourceName, int] = {}
    is_free = True  # every group says that its flavor can be had at once
    for resource, amount in requests.items():
        if resource in choices:
            continue  # it shares the flavor of its group
        group = question.queue.group_of.get(resource)
        if group is None:
            if amount == 0:
                continue
            nomination.reasons.append(NotCovered(pod_set.name, resource))
            nomination.pod_sets.append(PodSetChoice(pod_set, count, requests, {}))
            return False
        wanted = {r: requests[r] for r in group.resources if r in requests}
        is_alone = len(question.pod_sets) == 1 and len(wanted) == len(requests)
        free = None
        if not question.has_nothing_free or count != pod_set.count:
            free = _free_in_group(
                question, index, pod_set, group, wanted, resource, nomination.usage, is_alone
            )
        found, offer, last_tried, reasons = free or _search_group(
            question, index, pod_set, group, wanted, resource, nomination.usage
        )
        is_free = is_free and offer.mode is Mode.FIT
        nomination.reasons.extend(reasons)
        if not found:
            nomination.pod_sets.append(PodSetChoice(pod_set, count, requests, {}))
            return False
        choices.update(found)
        if last_tried is not None:
            tried.update(dict.fromkeys(found, last_tried))
    nomination.pod_sets.append(PodSetChoice(pod_set, count, requests, choices))
    nomination.tried.append(tried)
    usage = nomination.usage
    for resource, (flavor, offer) in choices.items():
        cell = FlavorResource(flavor, resource)
        usage[cell] = usage.get(cell, 0) + requests[resource]
        nomination.borrow_level = max(nomination.borrow_level, offer.borrow_level)
        if offer.mode is not Mode.FIT:
            nomination.contested.add(cell)
            if offer.mode is not Mode.NO_VICTIMS:
                nomination.with_victims.add(cell)
            if not is_free:
                nomination.mode = Mode.PREEMPT
    return True


GroupChoice = tuple[dict[ResourceName, Choice], Offer, int | None, list[Reason]]


def _free_in_group(
    question: FlavorQuestion,
    index: int,
    pod_set: PodSet,
    group: ResourceGroup,
    wanted: Mapping[ResourceName, int],
    resource: ResourceName,
    taken: Mapping[FlavorResource, int],
    is_alone: bool,
) -> GroupChoice | None:
    """What `_search_group` returns if a flavor that is free ends its search; None: ask there.

    Most searches end so. Flavors before it are passed over without a look for victims, where these
    would not end the search either, and `is_alone`: no other group can fail, so nobody is told why.
    """
    fungibility, flavors = question.queue.spec.fungibility, group.flavors
    passes = is_alone and passes_what_is_taken(fungibility, question.is_lenient)
    for position in range(_start(question, index, resource), len(flavors)):
        flavor = flavors[position].flavor
        if question.only is not None and question.only[pod_set.name].get(resource) != flavor:
            continue
        if not _fits_anybody(question, pod_set, flavor) and _mismatch(question, pod_set, flavor):
            continue
        levels = _levels_if_free(question, flavor, wanted, taken)
        if levels is None:
            if not passes:
                return None
            continue
        highest = max(levels.values(), default=0)
        if highest == 0 or fungibility.when_can_borrow is Search.MAY_STOP:
            choices = {r: Choice(flavor, Offer(Mode.FIT, level)) for r, level in levels.items()}
            last_tried = position if position < len(flavors) - 1 else None
            return choices, Offer(Mode.FIT, highest), last_tried, []
    return None


def passes_what_is_taken(fungibility: Fungibility, is_lenient: bool) -> bool:
    """Whether victims that make way for a flavor would not end a search that goes beyond it.

    Leniently, who is free to borrow may end the search where another resource needs victims.
    """
    return fungibility.when_can_preempt is Search.TRY_NEXT and not is_lenient


def _levels_if_free(
    question: FlavorQuestion,
    flavor: FlavorName,
    wanted: Mapping[ResourceName, int],
    taken: Mapping[FlavorResource, int],
) -> dict[ResourceName, int] | None:
    """How far up the queue would borrow, by resource; None: not all of it can be had at once."""
    node, snapshot, levels = question.queue.node, question.snapshot, {}
    for resource, amount in wanted.items():
        cell = FlavorResource(flavor, resource)
        needed = taken.get(cell, 0) + amount
        if needed > snapshot.available(node, cell):
            return None
        level = levels[resource] = borrow_level(node, cell, needed, snapshot.usage)[0]
        if level and question.owner_before is not None and question.owner_before(cell, needed):
            return None
    return levels


def _start(question: FlavorQuestion, index: int, resource: ResourceName) -> int:
    """The first flavor to look at: the one behind the last that was tried, if the scan goes on."""
    if question.scan is None or index >= len(question.scan.tried):
        return 0
    return question.scan.tried[index].get(resource, -1) + 1


def _search_group(
    question: FlavorQuestion,
    index: int,
    pod_set: PodSet,
    group: ResourceGroup,
    wanted: Mapping[ResourceName, int],
    resource: ResourceName,
    taken: Mapping[FlavorResource, int],
) -> GroupChoice:
    """Return the best choices of this group and what they offer, the last index tried if
    flavors are left to try, and why the flavors looked at are not free."""
    fungibility = question.queue.spec.fungibility
    best: dict[ResourceName, Choice] = {}
    best_offer = WORST
    reasons: list[Reason] = []
    last = len(group.flavors) - 1
    position = last  # when the scan begins beyond the end nothing is left to try either
    for position in range(_start(question, index, resource), len(group.flavors)):
        flavor = group.flavors[position].flavor
        if question.only is not None and question.only[pod_set.name].get(resource) != flavor:
            continue
        if not _fits_anybody(question, pod_set, flavor):
            mismatch = _mismatch(question, pod_set, flavor)
            if mismatch is not None:
                reasons.append(mismatch)
                continue
        choices, offer = _offer_of(question, pod_set, flavor, wanted, taken, reasons)
        if stops_search(offer, fungibility):
            best, best_offer = choices, offer
            break
        if is_better(offer, best_offer, question.preference):
            best, best_offer = choices, offer
    if best_offer.mode is Mode.FIT:
        reasons.clear()
    return best, best_offer, (None if position >= last else position), reasons


def _fits_anybody(question: FlavorQuestion, pod_set: PodSet, name: FlavorName) -> bool:
    """A cheap look that ends most questions: nobody is choosy."""
    flavor = question.flavors.get(name)
    return (
        flavor is not None
        and not flavor.taints
        and pod_set.constraints is UNCONSTRAINED
        and not question.exhausted
    )


def _mismatch(question: FlavorQuestion, pod_set: PodSet, name: FlavorName) -> FlavorMismatch | None:
    flavor = question.flavors.get(name)
    if flavor is None:
        return FlavorMismatch(pod_set.name, name, MismatchKind.MISSING)
    if name in question.exhausted:
        return FlavorMismatch(pod_set.name, name, MismatchKind.EXHAUSTED)
    return mismatch_of(flavor, pod_set)


def mismatch_of(flavor: Flavor, pod_set: PodSet) -> FlavorMismatch | None:
    """Why pods like these can never run on this flavor; None if they can."""
    constraints = pod_set.constraints
    if flavor.taints:
        taint = untolerated_taint(flavor.taints, constraints.tolerations + flavor.tolerations)
        if taint is not None:
            detail = f"{taint.key}={taint.value}:{taint.effect}"
            return FlavorMismatch(pod_set.name, flavor.name, MismatchKind.TAINT, detail)
    is_choosy = constraints.selector or constraints.affinity
    if is_choosy and not matches_known_keys(constraints, flavor.labels):
        return FlavorMismatch(pod_set.name, flavor.name, MismatchKind.AFFINITY)
    return None


def _offer_of(
    question: FlavorQuestion,
    pod_set: PodSet,
    flavor: FlavorName,
    wanted: Mapping[ResourceName, int],
    taken: Mapping[FlavorResource, int],
    reasons: list[Reason],
) -> tuple[dict[ResourceName, Choice], Offer]:
    """What the flavor offers for all wanted resources together: as much as for the worst."""
    choices: dict[ResourceName, Choice] = {}
    overall = BEST
    for resource, amount in wanted.items():
        cell = FlavorResource(flavor, resource)
        offer = _offer_of_cell(question, pod_set, cell, taken.get(cell, 0), amount, reasons)
        if is_better(overall, offer, question.preference):
            overall = offer
        if overall.mode is Mode.NO_FIT:
            if isinstance(reasons[-1], WaitsForOwner):
                reasons[-1:] = _excess(question, pod_set, flavor, wanted, taken) or reasons[-1:]
            return {}, overall
        choices[resource] = Choice(flavor, offer)
    if overall.mode is Mode.FIT and len(choices) > 1 and not question.is_lenient:
        hardest = min(choice.offer.mode for choice in choices.values())
        overall = Offer(hardest, overall.borrow_level)
    return choices, overall


def _excess(
    question: FlavorQuestion,
    pod_set: PodSet,
    flavor: FlavorName,
    wanted: Mapping[ResourceName, int],
    taken: Mapping[FlavorResource, int],
) -> list[Reason]:
    """Where the flavor can never offer enough, for whomever one waited."""
    excess: list[Reason] = []
    for resource, amount in wanted.items():
        cell = FlavorResource(flavor, resource)
        earlier, capacity = taken.get(cell, 0), potential(question.queue.node, cell)
        if earlier + amount > capacity:
            excess.append(_exceeds(question, pod_set, cell, earlier, amount, capacity))
    return excess


def _exceeds(
    question: FlavorQuestion,
    pod_set: PodSet,
    cell: FlavorResource,
    earlier: int,
    requested: int,
    capacity: int,
) -> ExceedsCapacity:
    least = None
    if question.is_partial and any(one.min_count is not None for one in question.pod_sets):
        names = [one.name for one in question.pod_sets]
        before = question.pod_sets[: names.index(pod_set.name)]
        spared = sum(_spared(one, cell.resource) for one in before)
        least = max(0, earlier - spared) + requested - _spared(pod_set, cell.resource)
    return ExceedsCapacity(pod_set.name, cell, earlier, requested, capacity, least)


def _spared(pod_set: PodSet, resource: ResourceName) -> int:
    """How much less it asks for with as few pods as it would do with."""
    if pod_set.min_count is None or pod_set.min_count > pod_set.count:
        return 0
    return dict(pod_set.requests).get(resource, 0) * (pod_set.count - pod_set.min_count)


def _offer_of_cell(
    question: FlavorQuestion,
    pod_set: PodSet,
    cell: FlavorResource,
    earlier: int,
    requested: int,
    reasons: list[Reason],
) -> Offer:
    node = question.queue.node
    needed = earlier + requested
    capacity = potential(node, cell)
    if needed > capacity:
        reasons.append(_exceeds(question, pod_set, cell, earlier, requested, capacity))
        return Offer(Mode.NO_FIT, 0)
    level, may_reclaim = borrow_level(node, cell, needed, question.snapshot.usage)
    free = question.snapshot.available(node, cell)
    refused = None
    if needed <= free:
        if level and question.owner_before is not None:
            refused = question.owner_before(cell, needed)
        if refused is None:
            return Offer(Mode.FIT, level)
    if not (needed <= node.nominal(cell) or may_reclaim or question.may_preempt_and_borrow):
        offer, outlook = Offer(Mode.NO_FIT, level), Preemptability.FORBIDDEN
    else:
        found = question.try_victims(cell, needed)
        if found is not None:
            offer, outlook = found, Preemptability.POSSIBLE
        else:  # where it is refused nothing is kept for it in this cycle
            mode = Mode.NO_VICTIMS if refused is None else Mode.NO_FIT
            offer, outlook = Offer(mode, level), Preemptability.NO_VICTIMS
    reasons.append(refused or Shortfall(pod_set.name, cell, needed - free, outlook))
    return offer

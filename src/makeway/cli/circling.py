"""Policies by which the queues of a cohort can displace each other in a circle.

Most can't. Whoever takes only from lower priorities, or in its own queue from those who come after
it, takes from nobody who comes before it in one order of all. In a circle everybody who runs is
displaced, the first in that order too; so somebody takes against it (`reclaimWithinCohort: Any`).
And each queue of a circle is taken from by another of them: in its own queue alone the first is
safe. So circles need queues that take from each other, at least one of them from anybody.

Of these owners first leaves two sorts. Under fair sharing a place that a workload clears by its
share may be taken by another of its queue, who borrows more and is taken back. And where queues
take while they borrow (`borrowWithinCohort`), whoever is taken back from may take the place of
another who borrows, most easily in another flavor. Without owners first every sort is left, and
under fair sharing one queue that takes from another is enough, even from lower priorities alone: it
may clear more than it can keep. In thousands of small cohorts of each sort, played at random, no
others were found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from makeway.api.configuration import Configuration
from makeway.api.queueing import ClusterQueue
from makeway.cli.advice import Advice, ManifestSet, advice
from makeway.cli.prospects import engine_of
from makeway.engine.model import FlavorResource, Policy, QueueName
from makeway.engine.view import KnownQueue

FIELD = "spec.preemption.reclaimWithinCohort"
NAMES_SHOWN = 5


class _Circle(NamedTuple):
    """Queues of one tree of cohorts, and how they displace each other."""

    tree: str
    queues: Sequence[KnownQueue]
    how: str
    cure: str


def circling_cohorts(files: ManifestSet) -> Iterator[Advice]:
    """At most one for each group of queues that take from each other."""
    configuration = files.configuration or Configuration()
    places = {queue.metadata.name: index for index, queue in files.of(ClusterQueue)}
    for tree, queues in _trees(engine_of(files).view.queues()).items():
        for circle in _circles(tree, queues, configuration):
            told = _boldest(circle.queues)
            problem = f"can displace in a circle: {circle.how}; {_pace(configuration)}"
            value = told.spec.preemption.reclaim.value
            yield advice(places[told.spec.name], FIELD, value, problem, circle.cure)


def _trees(queues: Iterable[KnownQueue]) -> dict[str, list[KnownQueue]]:
    """By the topmost cohort; who has none can take from nobody else."""
    trees: dict[str, list[KnownQueue]] = {}
    for queue in queues:
        if queue.cohorts:
            trees.setdefault(queue.cohorts[-1], []).append(queue)
    return trees


def _boldest(queues: Iterable[KnownQueue]) -> KnownQueue:
    """The first that takes from anybody, or else from somebody."""
    takers = [q for q in queues if q.spec.preemption.reclaim is not Policy.NEVER]
    return next((q for q in takers if _is_bold(q)), takers[0])


def _is_bold(queue: KnownQueue) -> bool:
    return queue.spec.preemption.reclaim is Policy.ANY


# --- who can take from whom ---


def _circles(
    tree: str, queues: list[KnownQueue], configuration: Configuration
) -> Iterator[_Circle]:
    is_fair = configuration.is_sharing_fairly
    if is_fair and not configuration.gate("OwnersFirst"):
        involved = _takers_and_victims(queues)
        if involved:
            yield _without_owners_first(tree, involved, is_fair)
        return
    for group in _mutual(queues, is_fair):
        if not any(map(_is_bold, group)):
            continue
        if not configuration.gate("OwnersFirst"):
            yield _without_owners_first(tree, group, is_fair)
        elif is_fair:
            yield _by_shares(tree, group)
        elif any(map(_takes_while_borrowing, group)):
            yield _while_borrowing(tree, group)


def _takers_and_victims(queues: list[KnownQueue]) -> list[KnownQueue]:
    reaches = _reaches(queues, is_fair=True, steps=1)
    pairs = [(q, r) for q in queues for r in reaches[q.spec.name] if r is not q]
    involved = {queue.spec.name for pair in pairs for queue in pair}
    return [queue for queue in queues if queue.spec.name in involved]


def _mutual(queues: list[KnownQueue], is_fair: bool) -> Iterator[list[KnownQueue]]:
    """Groups in which everybody can take from everybody, perhaps through others."""
    reaches = _reaches(queues, is_fair, steps=len(queues))
    grouped: set[QueueName] = set()
    for queue in queues:
        if queue.spec.name not in grouped:
            group = [r for r in reaches[queue.spec.name] if queue in reaches[r.spec.name]]
            grouped.update(r.spec.name for r in group)
            if len(group) > 1:
                yield sorted(group, key=lambda r: r.spec.name)


def _reaches(
    queues: list[KnownQueue], is_fair: bool, steps: int
) -> dict[QueueName, list[KnownQueue]]:
    """Whom each queue can take from, and whom those can, and so on for so many steps."""
    borrowers: dict[FlavorResource, list[KnownQueue]] = {}
    for queue in queues:
        for cell in filter(_can_borrow(queue), queue.quotas):
            borrowers.setdefault(cell, []).append(queue)
    takes = {q.spec.name: [c for c in q.quotas if _can_take(q, c, is_fair)] for q in queues}
    return {q.spec.name: _walk(q, takes, borrowers, steps) for q in queues}


def _walk(
    start: KnownQueue,
    takes: dict[QueueName, list[FlavorResource]],
    borrowers: dict[FlavorResource, list[KnownQueue]],
    steps: int,
) -> list[KnownQueue]:
    found: dict[QueueName, KnownQueue] = {}
    seen: set[FlavorResource] = set()
    front = [start]
    while front and steps > 0:
        steps -= 1
        cells = {cell: None for queue in front for cell in takes[queue.spec.name]}
        new = [q for cell in cells if cell not in seen for q in borrowers.get(cell, ())]
        seen.update(cells)
        front = list({q.spec.name: q for q in new if q.spec.name not in found}.values())
        found.update((q.spec.name, q) for q in front)
    return list(found.values())


def _can_borrow(queue: KnownQueue) -> Callable[[FlavorResource], bool]:
    return lambda cell: queue.capacity[cell] > queue.quotas[cell].nominal


def _can_take(queue: KnownQueue, cell: FlavorResource, is_fair: bool) -> bool:
    """Whether it may want something of the cell that another queue has borrowed."""
    if queue.spec.preemption.reclaim is Policy.NEVER:
        return False
    quota = queue.quotas[cell]
    lends = quota.nominal > 0 and quota.lending_limit != 0
    reaches_out = is_fair or _takes_while_borrowing(queue) or len(queue.cohorts) > 1
    return lends or (reaches_out and _can_borrow(queue)(cell))


def _takes_while_borrowing(queue: KnownQueue) -> bool:
    return queue.spec.preemption.borrow_while_reclaiming


# --- words ---


def _without_owners_first(tree: str, queues: list[KnownQueue], is_fair: bool) -> _Circle:
    who = _who(queues, tree)
    if is_fair:
        how = f"{who} preempt by their shares, and who clears a place may not be able to keep it"
    else:
        how = (
            f"{who} take from each other; a workload that preempts in its own queue, or while it "
            "borrows, starts with what another takes back"
        )
    why = "nothing keeps it from borrowing what its owner waits for (featureGates.OwnersFirst)"
    return _Circle(tree, queues, f"{how}: {why}", f"switch OwnersFirst on, or {_cure(queues)}")


def _by_shares(tree: str, queues: list[KnownQueue]) -> _Circle:
    how = (
        f"under fair sharing {_who(queues, tree)} take from each other, and a place that one "
        "workload clears may go to another of its queue, which borrows more and is taken back"
    )
    return _Circle(tree, queues, how, _cure(queues))


def _while_borrowing(tree: str, queues: list[KnownQueue]) -> _Circle:
    borrowing = [queue for queue in queues if _takes_while_borrowing(queue)]
    how = (
        f"{_who(queues, tree)} take from each other, {_names(borrowing)} also while borrowing "
        "(borrowWithinCohort): who is taken back from takes the place of somebody else who borrows"
    )
    cure = f"write borrowWithinCohort.policy Never, or {_cure(queues)}"
    return _Circle(tree, queues, how, cure)


def _pace(configuration: Configuration) -> str:
    if configuration.gate("PreemptionBackoff"):
        return "it goes round ever more slowly, as who preempts again and again has to pause"
    return "it goes round for ever and at full speed, with featureGates.PreemptionBackoff off"


def _cure(queues: Iterable[KnownQueue]) -> str:
    bold = [queue for queue in queues if _is_bold(queue)]
    if not bold:
        return "write Never here"
    return f"write LowerPriority here{_besides(bold[1:])}"


def _besides(queues: Sequence[KnownQueue]) -> str:
    return f" and in {_names(queues)}" if queues else ""


def _who(queues: Sequence[KnownQueue], tree: str) -> str:
    return f"ClusterQueues {_names(queues)} of cohort {tree}"


def _names(queues: Sequence[KnownQueue]) -> str:
    """`a`, `a and b`, `a, b and 7 more`."""
    names = [str(queue.spec.name) for queue in queues[:NAMES_SHOWN]]
    if len(queues) > NAMES_SHOWN:
        names.append(f"{len(queues) - NAMES_SHOWN} more")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

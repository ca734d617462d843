"""Flavors that are free: what a search for them finds is known by shape.

Most searches end with a flavor that is free. What they have found then (which flavor, how much of
which cell, how far up the queue borrows) is the same for all workloads of a shape in a queue, so it
is made once. What is asked each time is whether a flavor is free, and whether owners leave it.

Known are workloads of one pod set, all of whose resources come from one group of the queue. The
others are searched for (flavors.py), and so are those for whom no flavor is free.
"""

from __future__ import annotations

from collections.abc import Callable

from makeway.engine.decisions import WaitsForOwner
from makeway.engine.entry import Cells, Shape
from makeway.engine.flavors import (
    Choice,
    Mode,
    Nomination,
    Offer,
    PodSetChoice,
    mismatch_of,
    passes_what_is_taken,
    requests_of,
)
from makeway.engine.model import FlavorResource, PodSet, ResourceName, Search
from makeway.engine.quota import Usage, available, borrow_level
from makeway.engine.state import ClusterState
from makeway.engine.tree import QueueState


class FreePlaces:
    """What workloads of one shape may find free in one queue, flavor by flavor."""

    __slots__ = ("_found", "_last", "_pod_set", "_requests", "places", "resource")

    def __init__(
        self,
        pod_set: PodSet,
        requests: dict[ResourceName, int],
        places: tuple[tuple[int, Cells], ...],
        last: int,
    ) -> None:
        self._pod_set = pod_set
        self._requests = requests
        self._last = last  # the position of the last flavor of the group, whoever it is for
        self.resource = next(iter(requests))  # whose position a search goes on from
        self.places = places  # the positions of the flavors that match, and what is taken of each
        self._found: dict[tuple[int, tuple[int, ...]], Nomination] = {}

    def found(self, position: int, cells: Cells, levels: tuple[int, ...]) -> Nomination:
        """As a search finds it; one for all, so nobody changes it."""
        known = self._found.get((position, levels))
        if known is None:
            known = self._found[position, levels] = self._make(position, cells, levels)
        return known

    def _make(self, position: int, cells: Cells, levels: tuple[int, ...]) -> Nomination:
        made = Nomination()
        choices = {
            cell.resource: Choice(cell.flavor, Offer(Mode.FIT, level))
            for (cell, _), level in zip(cells, levels, strict=True)
        }
        made.pod_sets = [PodSetChoice(self._pod_set, self._pod_set.count, self._requests, choices)]
        made.borrow_level = max(levels)
        made.usage = dict(cells)
        made.tried = [dict.fromkeys(choices, position) if position < self._last else {}]
        return made


def free_places(
    state: ClusterState, shape: Shape, queue: QueueState, pod_sets: tuple[PodSet, ...]
) -> FreePlaces | None:
    """Of a shape in its queue; None: it has to be searched for."""
    known = queue.free_places.get(shape)
    if known is None or known[0] != state.flavors_edited:
        queue.forget_shapes()
        known = queue.free_places[shape] = (state.flavors_edited, _known_of(state, queue, pod_sets))
    places: FreePlaces | None = known[1]
    return places


def _known_of(
    state: ClusterState, queue: QueueState, pod_sets: tuple[PodSet, ...]
) -> FreePlaces | None:
    if len(pod_sets) != 1:
        return None
    pod_set = pod_sets[0]
    requests = requests_of(queue, pod_set, pod_set.count)
    group = queue.group_of.get(next(iter(requests), ResourceName("")))
    if group is None or not all(requests.values()):
        return None
    wanted = [resource for resource in group.resources if resource in requests]
    if len(wanted) != len(requests):
        return None  # not all of it comes from this group
    places = tuple(
        (position, tuple((FlavorResource(quotas.flavor, r), requests[r]) for r in wanted))
        for position, quotas in enumerate(group.flavors)
        if (flavor := state.flavors.get(quotas.flavor)) is not None
        and mismatch_of(flavor, pod_set) is None
    )
    return FreePlaces(pod_set, requests, places, len(group.flavors) - 1)


def find_free(
    known: FreePlaces,
    queue: QueueState,
    usage: Usage,
    start: int,
    is_lenient: bool,
    owner_before: Callable[[FlavorResource, int], WaitsForOwner | None],
) -> Nomination | None:
    """The flavor that ends a search from `start` on because it is free; None: no flavor does."""
    node, fungibility = queue.node, queue.spec.fungibility
    own, used = node.subtree, usage[node.index]
    for position, cells in known.places:
        if position < start:
            continue
        levels: list[int] = []
        for cell, amount in cells:
            if amount > available(node, cell, usage):
                break
            level = 0
            if used.get(cell, 0) + amount > own.get(cell, 0):
                level = borrow_level(node, cell, amount, usage)[0]
                if level and owner_before(cell, amount) is not None:
                    break
            levels.append(level)
        else:
            if fungibility.when_can_borrow is Search.MAY_STOP or not any(levels):
                return known.found(position, cells, tuple(levels))
            continue
        if not passes_what_is_taken(fungibility, is_lenient):
            return None
    return None

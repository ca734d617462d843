"""All or nothing: where the members of a gang go.

Members of one shape are not tried one by one: we count how many of them each node takes, and
that one array answers whether the gang fits, and where. By default as few nodes are used as
possible; a last, partly used node is the tightest that will do.

With members of several shapes this is bin packing. Shapes are placed in turn, in a few
orders that usually find a way; for a handful of members we then try everything, within bounds. So a
large gang of mixed shapes may be told to wait although some packing exists.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from makeway.placement.model import HOSTNAME, Apart, Pod, PodShape, Spread
from makeway.placement.nodes import Flags, Ints, NodeTable, Rows

MANY = 2**31  # more members than any gang has
SEARCH_MEMBERS_MAX = 12
SEARCH_STEPS_MAX = 3_000
NodeChooser = Callable[[Ints, int], list[tuple[int, int]]]


class SameShapePods(NamedTuple):
    """Members of one shape, and the nodes of one room that suit them."""

    pod_shape: PodShape
    pods: tuple[Pod, ...]  # sorted by key
    need: Ints  # requests of one member, by column
    suits: Flags  # by room row
    capped: Capped | None  # None: members may share nodes
    spreading: Spreading | None  # None: members need not be spread

    @property
    def has_independent_nodes(self) -> bool:
        """Does the number of members that a node takes depend on no other node?"""
        is_by_node = self.capped is None or self.capped.apart.topology_key == HOSTNAME
        return is_by_node and self.spreading is None


class Capped(NamedTuple):
    """How many members a value of the topology key still takes."""

    apart: Apart
    value: Rows  # by room row; -1: the node has no such label and no limit
    left: Ints  # by value


class Spreading(NamedTuple):
    """How many members each value of the topology key has."""

    spread: Spread
    value: Rows  # by room row; -1: the node has no such label and takes no member
    present: Ints  # by value


class PodsOnNode(NamedTuple):
    """So many members of one shape on one node."""

    shape_index: int  # the place of their shape among the shapes of the gang
    room_row: int
    members: int


Packing = tuple[PodsOnNode, ...]


def shapes_of(
    members: Sequence[Pod], running: Sequence[Pod], nodes: NodeTable, rows: Rows
) -> tuple[SameShapePods, ...]:
    """Sort members by shape, the largest first; where they keep apart, `running` members count."""
    by_shape: dict[PodShape, list[Pod]] = {}
    for member in members:
        by_shape.setdefault(member.shape, []).append(member)
    shapes = [
        SameShapePods(
            pod_shape=pod_shape,
            pods=tuple(pods),
            need=nodes.columns.amounts(pod_shape),
            suits=nodes.suits(pod_shape.constraints)[rows],
            capped=pod_shape.apart and _capped(pod_shape.apart, running, nodes, rows),
            spreading=pod_shape.spread and _spreading(pod_shape.spread, running, nodes, rows),
        )
        for pod_shape, pods in by_shape.items()
    ]
    if len(shapes) > 1:
        # A member is as large as its largest share of anything that the nodes have altogether.
        total = np.maximum(nodes.capacity[rows].sum(axis=0, dtype=np.float64), 1.0)
        sizes = {shape.pod_shape: float((shape.need / total).max()) for shape in shapes}
        shapes.sort(key=lambda shape: (-sizes[shape.pod_shape], shape.pods[0].key))
    return tuple(shapes)


def _capped(apart: Apart, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> Capped:
    value, present = _present(apart.topology_key, running, nodes, rows)
    return Capped(apart, value, np.maximum(1 - present, 0))


def _spreading(spread: Spread, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> Spreading:
    return Spreading(spread, *_present(spread.topology_key, running, nodes, rows))


def _present(key: str, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> tuple[Rows, Ints]:
    """By room row the value of a topology key, and by value the members that run there."""
    values, of_row = nodes.topology(key)
    present = np.zeros(len(values), dtype=np.int64)
    for pod in running:
        row = nodes.row_of.get(pod.node) if pod.node is not None else None
        if row is not None and of_row[row] >= 0:
            present[of_row[row]] += 1
    return of_row[rows], present


def keeps_distance(
    pod_shape: PodShape, more: Sequence[Pod], running: Sequence[Pod], nodes: NodeTable, rows: Rows
) -> bool:
    """Do `more` members on some of `rows` stand as far apart, and as evenly, as a shape asks?"""
    everyone = (*running, *more)
    if pod_shape.apart is not None:
        _, present = _present(pod_shape.apart.topology_key, everyone, nodes, rows)
        if present.max(initial=0) > 1:
            return False
    if pod_shape.spread is None:
        return True
    value, present = _present(pod_shape.spread.topology_key, everyone, nodes, rows)
    _, of_row = nodes.topology(pod_shape.spread.topology_key)
    used = {int(of_row[nodes.row_of[pod.node]]) for pod in more if pod.node is not None}
    eligible = np.unique(value[(value >= 0) & nodes.suits(pod_shape.constraints)[rows]])
    is_few = len(eligible) < pod_shape.spread.min_domains
    least = 0 if is_few else int(present[eligible].min(initial=MANY))
    return all(v >= 0 and present[v] - least <= pod_shape.spread.max_skew for v in used)


def fitting(shape: SameShapePods, free: Ints, most: int = MANY) -> Ints:
    """How many members each node takes, at most `most`."""
    counts = np.full(len(free), most, dtype=np.int64)
    for column in np.flatnonzero(shape.need):
        np.minimum(counts, free[:, column] // shape.need[column], out=counts)
    counts[~shape.suits] = 0
    np.maximum(counts, 0, out=counts)
    return counts if shape.capped is None else _cap(counts, shape.capped)


def _cap(counts: Ints, capped: Capped) -> Ints:
    """Keep to the limit of each topology value, on the nodes that take most."""
    limited = np.flatnonzero(capped.value >= 0)
    if not len(limited):
        return counts
    order = limited[np.lexsort((-counts[limited], capped.value[limited]))]
    value, count = capped.value[order], counts[order]
    before = np.cumsum(count) - count
    is_first = np.r_[True, value[1:] != value[:-1]]
    before -= np.maximum.accumulate(np.where(is_first, before, 0))  # within the value
    capped_counts = counts.copy()
    capped_counts[order] = np.clip(capped.left[value] - before, 0, count)
    return capped_counts


def _evenly(counts: Ints, suits: Flags, spreading: Spreading, wanted: int) -> Ints:
    """Keep of `counts` what spreads `wanted` members evenly, or as many as that allows."""
    spread, value, present = spreading
    inside = value >= 0
    counts = np.where(inside, counts, 0)
    room = np.zeros(len(present), dtype=np.int64)
    np.add.at(room, value[inside], counts[inside])
    eligible = np.unique(value[inside & suits]).tolist()
    given = np.zeros(len(present), dtype=np.int64)
    heap = [(int(present[v]), v) for v in eligible]
    heapq.heapify(heap)
    # Members of a value that takes no more: the others wait for it. Too few values are like one
    # more that takes none.
    least: int | None = None if len(eligible) >= spread.min_domains else 0
    while wanted > 0 and heap:
        number, v = heapq.heappop(heap)
        if given[v] == room[v]:
            least = number if least is None else least
        elif least is not None and number + 1 - least > spread.max_skew:
            break
        else:
            given[v] += 1
            wanted -= 1
            heapq.heappush(heap, (number + 1, v))
    return _cap(counts, Capped(Apart(spread.topology_key), value, given))


def fewest_nodes(counts: Ints, wanted: int) -> list[tuple[int, int]]:
    """Put `wanted` members (or as many as fit) on as few nodes as possible."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    upto = np.cumsum(counts[order])
    if not len(order) or upto[-1] <= wanted:
        return [(int(room_row), int(counts[room_row])) for room_row in order]
    full = int(np.searchsorted(upto, wanted, side="left"))  # nodes before this are used up
    rest = wanted - (int(upto[full - 1]) if full else 0)
    chosen = [(int(room_row), int(counts[room_row])) for room_row in order[:full]]
    later = order[full:]
    tight = later[counts[later] >= rest]
    least = tight[np.argmin(counts[tight])]
    chosen.append((int(least), rest))
    return chosen


def tightest_nodes(counts: Ints, wanted: int) -> list[tuple[int, int]]:
    """Put `wanted` members (or as many as fit) where least room is left for others."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    upto = np.minimum(np.cumsum(counts[order]), wanted)
    numbers = np.diff(upto, prepend=0)
    used = numbers > 0
    return list(zip(order[used].tolist(), numbers[used].tolist(), strict=True))


def pack(
    shapes: Sequence[SameShapePods],
    free: Ints,
    wanted: int,
    choose_nodes: NodeChooser = fewest_nodes,
) -> Packing:
    """Place `wanted` members, or as many as we can. `free` is changed: it is what is left over."""
    packing: list[PodsOnNode] = []
    for index in range(len(shapes)):
        if wanted <= 0:
            break
        shape = left_over(shapes, packing)[index] if _is_limited(shapes) else shapes[index]
        count = min(wanted, len(shape.pods))
        if count == 0:
            continue
        counts = fitting(shape, free)
        if shape.spreading is not None:
            counts = _evenly(counts, shape.suits, shape.spreading, count)
        for room_row, number in choose_nodes(counts, count):
            packing.append(PodsOnNode(index, room_row, number))
            free[room_row] -= number * shape.need
            wanted -= number
    return tuple(packing)


def _is_limited(shapes: Sequence[SameShapePods]) -> bool:
    return any(shape.capped is not None or shape.spreading is not None for shape in shapes)


def placed(packing: Packing) -> int:
    return sum(part.members for part in packing)


def find_place(shapes: Sequence[SameShapePods], free: Ints, needed: int) -> Packing | None:
    """Place exactly `needed` members; None if we find no way. `free` is left as it is."""
    if len(shapes) == 1:
        packing = pack(shapes, free.copy(), needed)
        return packing if placed(packing) >= needed else None
    total = sum(len(shape.pods) for shape in shapes)
    fits_alone = [min(len(shape.pods), int(fitting(shape, free).sum())) for shape in shapes]
    if sum(fits_alone) < needed:
        return None
    large_first = list(range(len(shapes)))
    small_first = large_first[::-1]
    # With members to spare, small members leave more room for the others.
    orders = [small_first, large_first] if needed < total else [large_first, small_first]
    orders.append(sorted(large_first, key=lambda i: int(shapes[i].suits.sum())))
    for choose_nodes in (fewest_nodes, tightest_nodes):
        for order in orders:
            packing = pack([shapes[i] for i in order], free.copy(), needed, choose_nodes)
            if placed(packing) >= needed:
                return tuple(part._replace(shape_index=order[part.shape_index]) for part in packing)
    if total > SEARCH_MEMBERS_MAX or _is_limited(shapes):
        return None
    return _search(shapes, free, needed)


def _search(shapes: Sequence[SameShapePods], free: Ints, needed: int) -> Packing | None:
    """Try every way to place `needed` members, the largest first, within a bound of steps."""
    members = [index for index, shape in enumerate(shapes) for _ in shape.pods]
    takes = [np.flatnonzero(fitting(shape, free)).tolist() for shape in shapes]
    left = free.copy()
    steps = 0

    def place_from(at: int, to_skip: int, chosen: list[tuple[int, int]]) -> bool:
        """Place members from `at` on, leaving out at most `to_skip` of them."""
        nonlocal steps
        if len(chosen) == needed:
            return True
        if at == len(members):
            return False
        shape = members[at]
        need = shapes[shape].need
        asked = need > 0
        # Of members of one shape, a later member goes no further to the left: order is no matter.
        least = chosen[-1][1] if chosen and chosen[-1][0] == shape else -1
        seen: set[bytes] = set()
        for room_row in takes[shape]:
            steps += 1
            if steps > SEARCH_STEPS_MAX:
                return False
            looks = left[room_row].tobytes() + bytes(bool(k.suits[room_row]) for k in shapes)
            if room_row < least or looks in seen or (left[room_row] < need)[asked].any():
                continue
            seen.add(looks)
            left[room_row] -= need
            chosen.append((shape, room_row))
            if place_from(at + 1, to_skip, chosen):
                return True
            chosen.pop()
            left[room_row] += need
        return to_skip > 0 and place_from(at + 1, to_skip - 1, chosen)

    chosen: list[tuple[int, int]] = []
    if not place_from(0, len(members) - needed, chosen):
        return None
    return tuple(
        PodsOnNode(shape, room_row, number) for (shape, room_row), number in Counter(chosen).items()
    )


def left_over(
    shapes: Sequence[SameShapePods], packing: Sequence[PodsOnNode]
) -> list[SameShapePods]:
    """The members that have no place yet, by shape; shapes without any keep their index."""
    used = [0] * len(shapes)
    for part in packing:
        used[part.shape_index] += part.members
    rest = [
        shape._replace(pods=shape.pods[number:]) for shape, number in zip(shapes, used, strict=True)
    ]
    return [_beside(shape, packing) for shape in rest] if _is_limited(shapes) else rest


def _beside(shape: SameShapePods, packing: Sequence[PodsOnNode]) -> SameShapePods:
    """Count the members placed so far, of whatever shape, where this shape keeps its distance."""
    capped, spreading = shape.capped, shape.spreading
    if capped is not None:
        left = capped.left - _by_value(capped.value, len(capped.left), packing)
        capped = capped._replace(left=np.maximum(left, 0))
    if spreading is not None:
        more = _by_value(spreading.value, len(spreading.present), packing)
        spreading = spreading._replace(present=spreading.present + more)
    return shape._replace(capped=capped, spreading=spreading)


def _by_value(value: Rows, values: int, packing: Sequence[PodsOnNode]) -> Ints:
    members = np.zeros(values, dtype=np.int64)
    for part in packing:
        if value[part.room_row] >= 0:
            members[value[part.room_row]] += part.members
    return members


def place_gang(shapes: Sequence[SameShapePods], free: Ints, needed: int) -> Packing | None:
    """Place all members, or those that have to run together and as many more as fit."""
    total = sum(len(shape.pods) for shape in shapes)
    if needed < total and len(shapes) == 1:
        packing = pack(shapes, free.copy(), total)
        return packing if placed(packing) >= needed else None
    everyone = find_place(shapes, free, total)
    if everyone is not None or needed == total:
        return everyone
    core = find_place(shapes, free, needed)
    return None if core is None else core + place_more(shapes, free, core)


def place_more(shapes: Sequence[SameShapePods], free: Ints, packing: Packing) -> Packing:
    """Place members beyond those of `packing`, as far as they fit."""
    left = free.copy()
    for part in packing:
        left[part.room_row] -= part.members * shapes[part.shape_index].need
    rest = left_over(shapes, packing)
    return pack(rest, left, sum(len(shape.pods) for shape in rest))

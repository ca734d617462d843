"""All or nothing: where the members of a gang go.

Members that are alike are not tried one by one: we count how many of them each node takes, and
that one array answers whether the gang fits, and where. By default as few nodes are used as
possible; a last, partly used node is the tightest that will do.

With members of several kinds this is bin packing. Kinds are placed one after the other, in a few
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
LineChoice = Callable[[Ints, int], list[tuple[int, int]]]


class Alike(NamedTuple):
    """Members of one shape, in the lines of one room."""

    shape: PodShape
    pods: tuple[Pod, ...]  # sorted by key
    need: Ints  # of one member, by column
    suits: Flags  # by line
    capped: Capped | None  # None: members may share nodes
    spreading: Spreading | None  # None: members need not be spread

    @property
    def has_free_lines(self) -> bool:
        """Does the number that a line takes depend on no other line?"""
        is_by_node = self.capped is None or self.capped.apart.topology_key == HOSTNAME
        return is_by_node and self.spreading is None


class Capped(NamedTuple):
    """How many members a value of the topology key still takes."""

    apart: Apart
    value: Rows  # by line; -1: the node has no such label and no limit
    left: Ints  # by value


class Spreading(NamedTuple):
    """How many members each value of the topology key has."""

    spread: Spread
    value: Rows  # by line; -1: the node has no such label and takes no member
    present: Ints  # by value


class Share(NamedTuple):
    """So many members of one kind on one node."""

    kind: int  # index among the kinds of members
    line: int
    members: int


Shares = tuple[Share, ...]


def kinds_of(
    members: Sequence[Pod], running: Sequence[Pod], nodes: NodeTable, rows: Rows
) -> tuple[Alike, ...]:
    """Sort members by shape, the largest first; `running` ones count where members keep apart."""
    by_shape: dict[PodShape, list[Pod]] = {}
    for member in members:
        by_shape.setdefault(member.shape, []).append(member)
    kinds = [
        Alike(
            shape=shape,
            pods=tuple(pods),
            need=nodes.columns.amounts(shape),
            suits=nodes.suits(shape.constraints)[rows],
            capped=None if shape.apart is None else _capped(shape.apart, running, nodes, rows),
            spreading=None
            if shape.spread is None
            else _spreading(shape.spread, running, nodes, rows),
        )
        for shape, pods in by_shape.items()
    ]
    if len(kinds) > 1:
        # A member is as large as its largest share of anything that the nodes have altogether.
        total = np.maximum(nodes.capacity[rows].sum(axis=0, dtype=np.float64), 1.0)
        sizes = {kind.shape: float((kind.need / total).max()) for kind in kinds}
        kinds.sort(key=lambda kind: (-sizes[kind.shape], kind.pods[0].key))
    return tuple(kinds)


def _capped(apart: Apart, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> Capped:
    value, present = _present(apart.topology_key, running, nodes, rows)
    return Capped(apart, value, np.maximum(1 - present, 0))


def _spreading(spread: Spread, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> Spreading:
    return Spreading(spread, *_present(spread.topology_key, running, nodes, rows))


def _present(key: str, running: Sequence[Pod], nodes: NodeTable, rows: Rows) -> tuple[Rows, Ints]:
    """By line the value of a topology key, and by value the members that run there."""
    values, of_row = nodes.topology(key)
    present = np.zeros(len(values), dtype=np.int64)
    for pod in running:
        row = nodes.row_of.get(pod.node) if pod.node is not None else None
        if row is not None and of_row[row] >= 0:
            present[of_row[row]] += 1
    return of_row[rows], present


def keeps_distance(
    shape: PodShape, more: Sequence[Pod], running: Sequence[Pod], nodes: NodeTable, rows: Rows
) -> bool:
    """Do `more` members on some of `rows` stand as far apart, and as evenly, as a shape asks?"""
    everyone = (*running, *more)
    if shape.apart is not None:
        _, present = _present(shape.apart.topology_key, everyone, nodes, rows)
        if present.max(initial=0) > 1:
            return False
    if shape.spread is None:
        return True
    value, present = _present(shape.spread.topology_key, everyone, nodes, rows)
    _, of_row = nodes.topology(shape.spread.topology_key)
    used = {int(of_row[nodes.row_of[pod.node]]) for pod in more if pod.node is not None}
    eligible = np.unique(value[(value >= 0) & nodes.suits(shape.constraints)[rows]])
    is_few = len(eligible) < shape.spread.min_domains
    least = 0 if is_few else int(present[eligible].min(initial=MANY))
    return all(v >= 0 and present[v] - least <= shape.spread.max_skew for v in used)


def fitting(kind: Alike, free: Ints, most: int = MANY) -> Ints:
    """How many members each line takes, at most `most`."""
    counts = np.full(len(free), most, dtype=np.int64)
    for column in np.flatnonzero(kind.need):
        np.minimum(counts, free[:, column] // kind.need[column], out=counts)
    counts[~kind.suits] = 0
    np.maximum(counts, 0, out=counts)
    return counts if kind.capped is None else _cap(counts, kind.capped)


def _cap(counts: Ints, capped: Capped) -> Ints:
    """Keep to the limit of each topology value, on the lines that take most."""
    limited = np.flatnonzero(capped.value >= 0)
    if not len(limited):
        return counts
    order = limited[np.lexsort((-counts[limited], capped.value[limited]))]
    value, count = capped.value[order], counts[order]
    before = np.cumsum(count) - count
    is_first = np.r_[True, value[1:] != value[:-1]]
    before -= np.maximum.accumulate(np.where(is_first, before, 0))  # within its value
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
    share = np.zeros(len(present), dtype=np.int64)
    heap = [(int(present[v]), v) for v in eligible]
    heapq.heapify(heap)
    # Members of a value that takes no more: the others wait for it. Too few values are like one
    # more that takes none.
    least: int | None = None if len(eligible) >= spread.min_domains else 0
    while wanted > 0 and heap:
        number, v = heapq.heappop(heap)
        if share[v] == room[v]:
            least = number if least is None else least
        elif least is not None and number + 1 - least > spread.max_skew:
            break
        else:
            share[v] += 1
            wanted -= 1
            heapq.heappush(heap, (number + 1, v))
    return _cap(counts, Capped(Apart(spread.topology_key), value, share))


def fewest_lines(counts: Ints, wanted: int) -> list[tuple[int, int]]:
    """Put `wanted` members (or as many as fit) on as few lines as possible."""
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    upto = np.cumsum(counts[order])
    if not len(order) or upto[-1] <= wanted:
        return [(int(line), int(counts[line])) for line in order]
    full = int(np.searchsorted(upto, wanted, side="left"))  # lines before it are used up
    rest = wanted - (int(upto[full - 1]) if full else 0)
    chosen = [(int(line), int(counts[line])) for line in order[:full]]
    later = order[full:]
    tight = later[counts[later] >= rest]
    least = tight[np.argmin(counts[tight])]
    chosen.append((int(least), rest))
    return chosen


def tightest_lines(counts: Ints, wanted: int) -> list[tuple[int, int]]:
    """Put `wanted` members (or as many as fit) where least room is left for others."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    upto = np.minimum(np.cumsum(counts[order]), wanted)
    numbers = np.diff(upto, prepend=0)
    used = numbers > 0
    return list(zip(order[used].tolist(), numbers[used].tolist(), strict=True))


def pack(
    kinds: Sequence[Alike], free: Ints, wanted: int, choose_lines: LineChoice = fewest_lines
) -> Shares:
    """Place `wanted` members, or as many as we can. `free` is changed: it is what is left over."""
    shares: list[Share] = []
    for index in range(len(kinds)):
        if wanted <= 0:
            break
        kind = left_over(kinds, shares)[index] if _is_limited(kinds) else kinds[index]
        count = min(wanted, len(kind.pods))
        if count == 0:
            continue
        counts = fitting(kind, free)
        if kind.spreading is not None:
            counts = _evenly(counts, kind.suits, kind.spreading, count)
        for line, number in choose_lines(counts, count):
            shares.append(Share(index, line, number))
            free[line] -= number * kind.need
            wanted -= number
    return tuple(shares)


def _is_limited(kinds: Sequence[Alike]) -> bool:
    return any(kind.capped is not None or kind.spreading is not None for kind in kinds)


def placed(shares: Shares) -> int:
    return sum(share.members for share in shares)


def find_place(kinds: Sequence[Alike], free: Ints, needed: int) -> Shares | None:
    """Place exactly `needed` members; None if we find no way. `free` is left as it is."""
    if len(kinds) == 1:
        shares = pack(kinds, free.copy(), needed)
        return shares if placed(shares) >= needed else None
    total = sum(len(kind.pods) for kind in kinds)
    fits_alone = [min(len(kind.pods), int(fitting(kind, free).sum())) for kind in kinds]
    if sum(fits_alone) < needed:
        return None
    large_first = list(range(len(kinds)))
    small_first = large_first[::-1]
    # With members to spare, small ones leave more room for the others.
    orders = [small_first, large_first] if needed < total else [large_first, small_first]
    orders.append(sorted(large_first, key=lambda i: int(kinds[i].suits.sum())))
    for choose_lines in (fewest_lines, tightest_lines):
        for order in orders:
            shares = pack([kinds[i] for i in order], free.copy(), needed, choose_lines)
            if placed(shares) >= needed:
                return tuple(share._replace(kind=order[share.kind]) for share in shares)
    if total > SEARCH_MEMBERS_MAX or _is_limited(kinds):
        return None
    return _search(kinds, free, needed)


def _search(kinds: Sequence[Alike], free: Ints, needed: int) -> Shares | None:
    """Try every way to place `needed` members, the largest first, within a bound of steps."""
    members = [index for index, kind in enumerate(kinds) for _ in kind.pods]
    takes = [np.flatnonzero(fitting(kind, free)).tolist() for kind in kinds]
    left = free.copy()
    steps = 0

    def place_from(at: int, to_skip: int, chosen: list[tuple[int, int]]) -> bool:
        """Place members from `at` on, leaving out at most `to_skip` of them."""
        nonlocal steps
        if len(chosen) == needed:
            return True
        if at == len(members):
            return False
        kind = members[at]
        need = kinds[kind].need
        asked = need > 0
        # Of members alike, the later one goes no further to the left: the order is no matter.
        least = chosen[-1][1] if chosen and chosen[-1][0] == kind else -1
        seen: set[bytes] = set()
        for line in takes[kind]:
            steps += 1
            if steps > SEARCH_STEPS_MAX:
                return False
            looks = left[line].tobytes() + bytes(bool(k.suits[line]) for k in kinds)
            if line < least or looks in seen or (left[line] < need)[asked].any():
                continue
            seen.add(looks)
            left[line] -= need
            chosen.append((kind, line))
            if place_from(at + 1, to_skip, chosen):
                return True
            chosen.pop()
            left[line] += need
        return to_skip > 0 and place_from(at + 1, to_skip - 1, chosen)

    chosen: list[tuple[int, int]] = []
    if not place_from(0, len(members) - needed, chosen):
        return None
    return tuple(Share(kind, line, number) for (kind, line), number in Counter(chosen).items())


def left_over(kinds: Sequence[Alike], shares: Sequence[Share]) -> list[Alike]:
    """The members that have no place yet, by kind; kinds without any keep their index."""
    used = [0] * len(kinds)
    for share in shares:
        used[share.kind] += share.members
    rest = [
        kind._replace(pods=kind.pods[number:]) for kind, number in zip(kinds, used, strict=True)
    ]
    return [_beside(kind, shares) for kind in rest] if _is_limited(kinds) else rest


def _beside(kind: Alike, shares: Sequence[Share]) -> Alike:
    """Count the members placed so far, of whatever kind, where this kind keeps its distance."""
    capped, spreading = kind.capped, kind.spreading
    if capped is not None:
        left = capped.left - _by_value(capped.value, len(capped.left), shares)
        capped = capped._replace(left=np.maximum(left, 0))
    if spreading is not None:
        more = _by_value(spreading.value, len(spreading.present), shares)
        spreading = spreading._replace(present=spreading.present + more)
    return kind._replace(capped=capped, spreading=spreading)


def _by_value(value: Rows, values: int, shares: Sequence[Share]) -> Ints:
    members = np.zeros(values, dtype=np.int64)
    for share in shares:
        if value[share.line] >= 0:
            members[value[share.line]] += share.members
    return members


def place_gang(kinds: Sequence[Alike], free: Ints, needed: int) -> Shares | None:
    """Place all members, or those that have to run together and as many more as fit."""
    total = sum(len(kind.pods) for kind in kinds)
    if needed < total and len(kinds) == 1:
        shares = pack(kinds, free.copy(), total)
        return shares if placed(shares) >= needed else None
    everyone = find_place(kinds, free, total)
    if everyone is not None or needed == total:
        return everyone
    core = find_place(kinds, free, needed)
    return None if core is None else core + place_more(kinds, free, core)


def place_more(kinds: Sequence[Alike], free: Ints, shares: Shares) -> Shares:
    """Place members beyond those of `shares`, as far as they fit."""
    left = free.copy()
    for share in shares:
        left[share.line] -= share.members * kinds[share.kind].need
    rest = left_over(kinds, shares)
    return pack(rest, left, sum(len(kind.pods) for kind in rest))

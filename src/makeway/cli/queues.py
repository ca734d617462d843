"""draw cohorts and queues: quota, use, borrowed, and who waits

Draw the trees of cohorts with their queues. A bar is a queue's own quota of a
resource in a flavor: full is used, empty is free, and what goes beyond it is
borrowed. The line of a cohort has the sums below it. -o wide adds limits and
policies.

examples:
  makeway queues
  makeway queues vision -o wide
  makeway queues -o json | jq '.items[] | select(.kind == "ClusterQueue").status'

exit codes:
  0  printed     1  there is no such ClusterQueue     2  no server
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from makeway.api.kinds import COHORTS, LOCAL_QUEUES, QUEUES
from makeway.api.quantity import format_amount
from makeway.api.queueing import (
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    LocalQueue,
    LocalQueueStatus,
    ResourceQuota,
)
from makeway.cli import connect
from makeway.cli.plain import list_seen
from makeway.cli.tables import (
    add_output,
    pen_of_output,
    print_document,
    print_safely,
    terminal_width,
    width_of,
)
from makeway.cli.terminal import Pen
from makeway.cli.views import readable
from makeway.client import Client
from makeway.client.client import Document
from makeway.translate.job_state import condition

BAR_WIDTH = 20  # characters for the quota of a queue; what is borrowed comes on top of it
NARROW_BAR_WIDTH = 10  # in a terminal of less than a hundred columns
HELD = {"None": "", "Hold": "  held", "HoldAndDrain": "  held and drained"}


class TreeLines(NamedTuple):
    """The lines that draw it: before a child, before the last child, and below each."""

    child: str
    last: str
    below: str
    below_last: str = "   "


LINES, ASCII_LINES = TreeLines("├─ ", "└─ ", "│  "), TreeLines("|- ", "`- ", "|  ")


@dataclass(slots=True)
class Branch:
    """A cohort, with what is below it. The branch without a name holds queues of no cohort."""

    name: str
    cohort: Cohort | None = None  # None: queues name the cohort, and there is no object
    branches: list[Branch] = field(default_factory=list)
    queues: list[ClusterQueue] = field(default_factory=list)

    @property
    def parent(self) -> str:
        return "" if self.cohort is None else self.cohort.spec.parent_name

    def with_all_below(self) -> Iterator[Branch]:
        yield self
        for branch in self.branches:
            yield from branch.with_all_below()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="CLUSTERQUEUE", nargs="*", help="only these")
    add_output(parser)
    connect.add_arguments(parser, has_namespace=False)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        queues = [
            queue
            for queue in (await client.list(QUEUES)).items
            if not arguments.names or _name_of(queue) in arguments.names
        ]
        cohorts = (await client.list(COHORTS)).items
        local_queues = await list_seen(client, LOCAL_QUEUES, namespace)
        missing = set(arguments.names) - set(map(_name_of, queues))
        for name in sorted(missing):
            print(f"makeway: there is no ClusterQueue {name}", file=sys.stderr)
        if queues or not missing:
            _print(arguments, queues, cohorts, local_queues)
        return connect.EXIT_REFUSED if missing else 0

    return connect.converse(arguments, story)


def _print(
    arguments: argparse.Namespace,
    queues: list[Document],
    cohorts: list[Document],
    local_queues: list[Document],
) -> None:
    if arguments.output in ("json", "yaml"):
        shown = [*cohorts, *queues, *local_queues] if not arguments.names else queues
        for item in shown:
            item["metadata"].pop("managedFields", None)
        print_document(arguments.output, {"apiVersion": "v1", "kind": "List", "items": shown})
    elif arguments.output == "name":
        for queue in queues:
            print(f"clusterqueue.kueue.x-k8s.io/{_name_of(queue)}")
    elif queues or cohorts:
        forest = forest_of(
            readable(ClusterQueue, queues), [] if arguments.names else readable(Cohort, cohorts)
        )
        local = readable(LocalQueue, local_queues)
        width = NARROW_BAR_WIDTH if (terminal_width() or 100) < 100 else BAR_WIDTH
        is_wide = arguments.output == "wide"
        drawing = Drawing(local, pen_of_output(), is_wide=is_wide, bar_width=width)
        for line in drawing.lines(forest):
            print_safely(line)
    else:
        hint = "`makeway apply -f FILE` makes some, `makeway simulate init` proposes some"
        print(f"there are no queues; {hint}", file=sys.stderr)


def _name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


def forest_of(queues: Sequence[ClusterQueue], cohorts: Sequence[Cohort]) -> list[Branch]:
    """Trees of cohorts in order of name, and last the queues that belong to none."""
    branches = {cohort.metadata.name: Branch(cohort.metadata.name, cohort) for cohort in cohorts}
    unrelated = Branch("")
    for queue in sorted(queues, key=lambda queue: queue.metadata.name):
        name = queue.spec.cohort_name
        branch = branches.setdefault(name, Branch(name)) if name else unrelated
        branch.queues.append(queue)
    roots = []
    for name in sorted(branches):
        parent = branches[name].parent
        if not parent or _is_own_ancestor(name, branches):
            roots.append(branches[name])
        else:
            above = branches.get(parent)
            if above is None:
                # There is no object of the parent; it is shown all the same.
                above = branches[parent] = Branch(parent)
                roots.append(above)
            above.branches.append(branches[name])
    return [*roots, *([unrelated] if unrelated.queues else [])]


def _is_own_ancestor(name: str, branches: dict[str, Branch]) -> bool:
    """A server may hold a cycle that was written in two steps."""
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        name = branches[name].parent if name in branches else ""
    return bool(name)


# --- amounts ---


class Row(NamedTuple):
    """One resource of one flavor in a queue or cohort, in its smallest unit."""

    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    limits: str = ""  # of borrowing and lending, where there are any

    @property
    def title(self) -> str:
        return f"{self.flavor} {self.resource}"

    @property
    def text(self) -> str:
        own, used = (format_amount(self.resource, n) for n in (self.nominal, self.used))
        borrowed = format_amount(self.resource, self.borrowed)
        return f"{used} of {own}" + (f", {borrowed} borrowed" if self.borrowed else "")


def rows_of(owner: ClusterQueue | Cohort) -> list[Row]:
    """What a queue or cohort owns; and, of a queue, what is reserved of it."""
    usages = owner.status.flavors_reservation if isinstance(owner, ClusterQueue) else ()
    used = {
        (usage.name, entry.name): (entry.total, entry.borrowed)
        for usage in usages
        for entry in usage.resources
    }
    rows = []
    for flavor in (flavor for group in owner.spec.resource_groups for flavor in group.flavors):
        for quota in flavor.resources:
            cell = (flavor.name, quota.name)
            rows.append(Row(*cell, quota.nominal_quota, *used.get(cell, (0, 0)), _limits(quota)))
    return rows


def _limits(quota: ResourceQuota) -> str:
    limits = (("borrows", quota.borrowing_limit), ("lends", quota.lending_limit))
    return ", ".join(
        f"{word} at most {format_amount(quota.name, limit)}"
        for word, limit in limits
        if limit is not None
    )


def totals_of(branch: Branch) -> list[Row]:
    """Of a cohort: all quota below and at it, all use, and what of that use is borrowed."""
    totals: dict[tuple[str, str], Row] = {}
    below = list(branch.with_all_below())
    owners: list[ClusterQueue | Cohort] = [queue for part in below for queue in part.queues]
    owners += [part.cohort for part in below if part.cohort is not None]
    for row in (row for owner in owners for row in rows_of(owner)):
        cell = (row.flavor, row.resource)
        so_far = totals.get(cell, Row(*cell, 0, 0, 0))
        totals[cell] = so_far._replace(
            nominal=so_far.nominal + row.nominal,
            used=so_far.used + row.used,
            borrowed=so_far.borrowed + row.borrowed,
        )
    return list(totals.values())


# --- the picture ---


class Drawing:
    def __init__(
        self,
        local_queues: Sequence[LocalQueue],
        pen: Pen,
        *,
        is_wide: bool,
        bar_width: int = BAR_WIDTH,
    ) -> None:
        self._pen, self._is_wide, self._bar_width = pen, is_wide, bar_width
        self._tree = LINES if pen.has_blocks else ASCII_LINES
        self._local: dict[str, list[LocalQueue]] = {}
        for queue in local_queues:
            self._local.setdefault(queue.spec.cluster_queue, []).append(queue)

    def lines(self, forest: Sequence[Branch]) -> Iterator[str]:
        for index, branch in enumerate(forest):
            if index:
                yield ""
            if branch.name:
                yield from self._cohort(branch, "", "")
            else:
                for queue in branch.queues:
                    yield from self._queue(queue, "", "")

    def _cohort(self, branch: Branch, before: str, below: str) -> Iterator[str]:
        yield f"{before}cohort {self._pen.paint(branch.name, 'bold')}"
        children: list[ClusterQueue | Branch] = [*branch.queues, *branch.branches]
        inner = below + (self._tree.below if children else "   ")
        for row in totals_of(branch):
            text = f"{row._replace(borrowed=0).text} used"
            if row.borrowed:
                text += f", {format_amount(row.resource, row.borrowed)} of it lent"
            yield f"{inner}{row.title}: {text}"
        for index, child in enumerate(children):
            is_last = index == len(children) - 1
            start = below + (self._tree.last if is_last else self._tree.child)
            rest = below + (self._tree.below_last if is_last else self._tree.below)
            if isinstance(child, Branch):
                yield from self._cohort(child, start, rest)
            else:
                yield from self._queue(child, start, rest)

    def _queue(self, queue: ClusterQueue, before: str, below: str) -> Iterator[str]:
        name, status = queue.metadata.name, queue.status
        counts = _counts(status)
        if status.reserving_workloads > status.admitted_workloads:
            counts += f", {status.reserving_workloads - status.admitted_workloads} reserved"
        yield f"{before}{self._pen.paint(name, 'bold')}  {counts}{self._state(queue)}"
        rows = rows_of(queue)
        width = max((width_of(row.title) for row in rows), default=0)
        bars = [self._bar(row) for row in rows]
        longest = max((length for _, length in bars), default=0)
        for row, (bar, length) in zip(rows, bars, strict=True):
            title = row.title + " " * (width - width_of(row.title))
            limits = f" ({row.limits})" if self._is_wide and row.limits else ""
            yield f"{below}   {title}  {bar}{' ' * (longest - length)}  {row.text}{limits}"
        if self._is_wide:
            yield f"{below}   {_policy(queue)}"
        for local in self._local.get(name, ()):
            title = f"queue {local.metadata.namespace}/{local.metadata.name}"
            yield f"{below}   {title}  {_counts(local.status)}{HELD[local.spec.stop_policy]}"
            if _consumed(local):
                past = lately(local, self._local[name])
                yield f"{below}   {' ' * width_of(title)}  lately used {past}"

    def _state(self, queue: ClusterQueue) -> str:
        held, active = HELD[queue.spec.stop_policy], condition(queue, "Active")
        if active is None or active.status == "True":
            return held
        return held + self._pen.paint(f"  inactive: {active.message or active.reason}", "red")

    def _bar(self, row: Row) -> tuple[str, int]:
        """The bar and how many characters it takes; colours count for none."""
        width = self._bar_width
        if row.nominal <= 0:
            borrowed = width if row.used else 0
            return self._pen.bar(0, borrowed, 0), borrowed
        own_used = max(0, row.used - row.borrowed)
        own = min(width, -(-own_used * width // row.nominal))
        borrowed = min(width, -(-row.borrowed * width // row.nominal))
        return self._pen.bar(own, borrowed, width - own), width + borrowed


def _counts(status: ClusterQueueStatus | LocalQueueStatus) -> str:
    return f"{status.pending_workloads} pending, {status.admitted_workloads} admitted"


def _consumed(local: LocalQueue) -> Mapping[str, Fraction]:
    sharing = local.status.fair_sharing
    past = None if sharing is None else sharing.admission_fair_sharing_status
    return {} if past is None else past.consumed_resources


def _weight(local: LocalQueue) -> Fraction:
    sharing = local.spec.fair_sharing
    return Fraction(1) if sharing is None else sharing.weight


def lately(local: LocalQueue, siblings: Sequence[LocalQueue]) -> str:
    """What it has used, and how much that is of what its weight entitles it to."""
    part, texts = _weight(local) / (sum(map(_weight, siblings)) or 1), []
    for resource, amount in _consumed(local).items():
        total = sum(_consumed(other).get(resource, Fraction(0)) for other in siblings)
        times = f" ({float(amount / (total * part)):.1f} times its share)" if total * part else ""
        texts.append(f"{float(amount):.4g} {resource}{times}")
    return ", ".join(texts)


def _policy(queue: ClusterQueue) -> str:
    preemption = queue.spec.preemption
    parts = [
        f"{queue.spec.queueing_strategy}; preempts within: {preemption.within_cluster_queue}",
        f"reclaims: {preemption.reclaim_within_cohort}",
        f"to borrow: {preemption.borrow_within_cohort.policy}",
    ]
    if preemption.trigger_after_workload_waiting_seconds:
        parts.append(f"after {preemption.trigger_after_workload_waiting_seconds} s of waiting")
    if preemption.min_runtime_seconds:
        parts.append(f"its own are safe for {preemption.min_runtime_seconds} s")
    if preemption.workload_sorting:
        parts.append(f"sorts {' '.join(preemption.workload_sorting)}")
    if preemption.budget is not None:
        parts.append(f"at most {preemption.budget.evictions_per_hour} evictions in an hour")
    return ", ".join(parts)

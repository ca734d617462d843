"""`makeway queues`: who owns how much, who uses it, and who waits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from makeway.api.quantity import QuantityError, amount, format_amount
from makeway.cli import connect
from makeway.cli.command import Command
from makeway.cli.reading import (
    Document,
    at,
    condition,
    count_at,
    is_so,
    items_at,
    name_of,
    namespace_of,
    text_at,
)
from makeway.cli.tables import add_output, pen_of_output, print_document, print_safely, width_of
from makeway.cli.terminal import Pen
from makeway.client import Client
from makeway.client.resources import COHORTS, LOCAL_QUEUES, QUEUES

BAR_WIDTH = 20  # characters for the quota of a queue; what is borrowed comes on top
BORROWED_MAX = 20


class TreeLines(NamedTuple):
    """The lines that draw it: before a child, before the last child, and below each."""

    child: str
    last: str
    below: str
    below_last: str = "   "


LINES, ASCII_LINES = TreeLines("├─ ", "└─ ", "│  "), TreeLines("|- ", "`- ", "|  ")


@dataclass(slots=True)
class Branch:
    """A cohort, with what is below it. The one without a name holds queues of no cohort."""

    name: str
    document: Document | None = None  # None: queues name it, and there is no object
    cohorts: list[Branch] = field(default_factory=list)
    queues: list[Document] = field(default_factory=list)

    def all_queues(self) -> Iterator[Document]:
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.all_queues()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="CLUSTERQUEUE", nargs="*", help="only these")
    add_output(parser)
    connect.add_arguments(parser, has_namespace=False)


def run(arguments: argparse.Namespace) -> int:
    async def story(client: Client, namespace: str) -> int:
        queues = [
            queue
            for queue in (await client.list(QUEUES)).items
            if not arguments.names or name_of(queue) in arguments.names
        ]
        cohorts = (await client.list(COHORTS)).items
        local_queues = (await client.list(LOCAL_QUEUES)).items
        missing = set(arguments.names) - set(map(name_of, queues))
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
            print(f"clusterqueue.kueue.x-k8s.io/{name_of(queue)}")
    elif queues or cohorts:
        drawing = Drawing(local_queues, pen_of_output(), is_wide=arguments.output == "wide")
        for line in drawing.lines(forest_of(queues, [] if arguments.names else cohorts)):
            print_safely(line)
    else:
        hint = "`makeway apply -f FILE` makes some, `makeway simulate init` proposes some"
        print(f"there are no queues; {hint}", file=sys.stderr)


def forest_of(queues: Sequence[Document], cohorts: Sequence[Document]) -> list[Branch]:
    """Trees of cohorts in order of name, and last the queues that belong to none."""
    branches = {name_of(cohort): Branch(name_of(cohort), cohort) for cohort in cohorts}
    loose = Branch("")
    for queue in sorted(queues, key=name_of):
        name = text_at(queue, "spec", "cohortName")
        branch = branches.setdefault(name, Branch(name)) if name else loose
        branch.queues.append(queue)
    roots = []
    for name in sorted(branches):
        parent = text_at(branches[name].document, "spec", "parentName")
        if not parent or _is_own_ancestor(name, branches):
            roots.append(branches[name])
        else:
            above = branches.get(parent)
            if above is None:
                # Nobody has written the parent; it is shown all the same.
                above = branches[parent] = Branch(parent)
                roots.append(above)
            above.cohorts.append(branches[name])
    return [*roots, *([loose] if loose.queues else [])]


def _is_own_ancestor(name: str, branches: dict[str, Branch]) -> bool:
    """A server may hold a cycle that was written in two steps."""
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        branch = branches.get(name)
        name = text_at(branch.document, "spec", "parentName") if branch is not None else ""
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


def rows_of(document: Document | None) -> list[Row]:
    """What a queue or cohort owns; and, of a queue, what is reserved of it."""
    used: dict[tuple[str, str], tuple[int, int]] = {}
    for flavor in items_at(document, "status", "flavorsReservation"):
        for entry in items_at(flavor, "resources"):
            resource = text_at(entry, "name")
            totals = (_amount(resource, entry.get(part)) for part in ("total", "borrowed"))
            used[(text_at(flavor, "name"), resource)] = (next(totals), next(totals))
    rows = []
    for group in items_at(document, "spec", "resourceGroups"):
        for flavor in items_at(group, "flavors"):
            for quota in items_at(flavor, "resources"):
                cell = (text_at(flavor, "name"), text_at(quota, "name"))
                nominal = _amount(cell[1], quota.get("nominalQuota"))
                rows.append(Row(*cell, nominal, *used.get(cell, (0, 0)), _limits(quota)))
    return rows


def _limits(quota: Document) -> str:
    limits = (("borrows at most", "borrowingLimit"), ("lends at most", "lendingLimit"))
    return ", ".join(f"{word} {quota[key]}" for word, key in limits if quota.get(key) is not None)


def _amount(resource: str, value: object) -> int:
    try:
        return amount(resource, value)
    except QuantityError:
        return 0


def totals_of(branch: Branch) -> list[Row]:
    """Of a cohort: all quota below and at it, all use, and what of that use is borrowed."""
    totals: dict[tuple[str, str], Row] = {}
    documents = [*branch.all_queues(), *_cohort_documents(branch)]
    for row in (row for document in documents for row in rows_of(document)):
        cell = (row.flavor, row.resource)
        so_far = totals.get(cell, Row(*cell, 0, 0, 0))
        totals[cell] = so_far._replace(
            nominal=so_far.nominal + row.nominal,
            used=so_far.used + row.used,
            borrowed=so_far.borrowed + row.borrowed,
        )
    return list(totals.values())


def _cohort_documents(branch: Branch) -> Iterator[Document]:
    if branch.document is not None:
        yield branch.document
    for cohort in branch.cohorts:
        yield from _cohort_documents(cohort)


# --- the picture ---


class Drawing:
    def __init__(self, local_queues: Sequence[Document], pen: Pen, *, is_wide: bool) -> None:
        self._pen, self._is_wide = pen, is_wide
        self._tree = LINES if pen.has_blocks else ASCII_LINES
        self._local: dict[str, list[Document]] = {}
        for queue in local_queues:
            self._local.setdefault(text_at(queue, "spec", "clusterQueue"), []).append(queue)

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
        children: list[Document | Branch] = [*branch.queues, *branch.cohorts]
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

    def _queue(self, queue: Document, before: str, below: str) -> Iterator[str]:
        counts = [
            f"{count_at(queue, 'status', 'pendingWorkloads')} pending",
            f"{count_at(queue, 'status', 'admittedWorkloads')} admitted",
        ]
        waiting = count_at(queue, "status", "reservingWorkloads") - count_at(
            queue, "status", "admittedWorkloads"
        )
        if waiting > 0:
            counts.append(f"{waiting} reserved")
        yield f"{before}{self._pen.paint(name_of(queue), 'bold')}  {', '.join(counts)}" + (
            self._state(queue)
        )
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
        for local in self._local.get(name_of(queue), ()):
            pending = count_at(local, "status", "pendingWorkloads")
            admitted = count_at(local, "status", "admittedWorkloads")
            held = _held(local)
            yield (
                f"{below}   queue {namespace_of(local)}/{name_of(local)}"
                f"  {pending} pending, {admitted} admitted{held}"
            )

    def _state(self, queue: Document) -> str:
        held = _held(queue)
        active = condition(queue, "Active")
        if active is not None and not is_so(queue, "Active"):
            why = text_at(active, "message") or text_at(active, "reason")
            return held + self._pen.paint(f"  inactive: {why}", "red")
        return held

    def _bar(self, row: Row) -> tuple[str, int]:
        """The bar and how many characters it takes; colours count for none."""
        if row.nominal <= 0:
            borrowed = min(BORROWED_MAX, BAR_WIDTH if row.used else 0)
            return self._pen.bar(0, borrowed, 0), borrowed
        own_used = max(0, row.used - row.borrowed)
        own = min(BAR_WIDTH, -(-own_used * BAR_WIDTH // row.nominal))
        borrowed = min(BORROWED_MAX, -(-row.borrowed * BAR_WIDTH // row.nominal))
        return self._pen.bar(own, borrowed, BAR_WIDTH - own), BAR_WIDTH + borrowed


def _held(queue: Document) -> str:
    policy = text_at(queue, "spec", "stopPolicy")
    return {"Hold": "  held", "HoldAndDrain": "  held and drained"}.get(policy, "")


def _policy(queue: Document) -> str:
    strategy = text_at(queue, "spec", "queueingStrategy") or "BestEffortFIFO"
    within = at(queue, "spec", "preemption", "withinClusterQueue") or "Never"
    reclaim = at(queue, "spec", "preemption", "reclaimWithinCohort") or "Never"
    borrow = at(queue, "spec", "preemption", "borrowWithinCohort", "policy") or "Never"
    return f"{strategy}; preempts within: {within}, reclaims: {reclaim}, to borrow: {borrow}"


COMMAND = Command(
    name="queues",
    summary="draw cohorts and queues: quota, use, borrowed, and who waits",
    description="""\
Draw the trees of cohorts with their queues. A bar is a queue's own quota of a
resource in a flavor: full is used, empty is free, and what goes beyond it is
borrowed. The line of a cohort has the sums below it. -o wide adds limits and
policies.
""",
    examples="""\
examples:
  makeway queues
  makeway queues vision -o wide
  makeway queues -o json | jq '.items[] | select(.kind == "ClusterQueue").status'

exit codes:
  0  printed     1  there is no such ClusterQueue     2  no server
""",
    add_arguments=add_arguments,
    run=run,
)

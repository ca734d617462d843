"""A result as tables, for whoever prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from makeway.api.quantity import format_amount, in_units
from makeway.sim.money import Money
from makeway.sim.paired import size_text
from makeway.sim.report import queue_rows
from makeway.sim.result import Result
from makeway.sim.spans import short_span
from makeway.sim.statistics import Waits

WAIT_COLUMNS = (
    *("jobs", "mean", "median", "p95", "p99", "longest", "turnaround", "slowdown"),
    "never ran",
)
PAIRS_SHOWN = 15
COST_COLUMNS = ("paid", "useful", "lost", "no pods", "unused")


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the first column is text, the others are numbers
    # Where it is too wide it is folded: so many columns stand beside each part, and so many of the
    # others are not torn apart.
    beside: int = 1
    together: int = 1


def tables(result: Result) -> tuple[Table, ...]:
    everybody = {"all": result.wait()}
    by_queue: Mapping[str, Waits] = result.waits_by_queue()
    by_priority = {str(p): w for p, w in result.waits_by_priority().items()}
    by_size = {size_text(group): w for group, w in result.waits_by_size().items()}
    found = [_wait_table("waiting by queue", "queue", {**by_queue, **everybody})]
    if len(by_priority) > 1:
        found.append(_wait_table("waiting by priority", "priority", by_priority))
    if len(by_size) > 1:
        title = f"waiting by size ({result.main_resource})"
        found.append(_wait_table(title, "size", by_size))
    by_user = result.waits_by_user()
    if len(by_user) > 1:
        found.append(_wait_table("waiting by user (those with most jobs)", "user", by_user))
    found.append(_flavor_table(result))
    found.append(_queue_table(result))
    if result.money is not None:
        found += _money_tables(result, result.money)
    if result.preemptions_by_queues:
        found.append(_preemption_table(result))
    causes = tuple((cause, str(n)) for cause, n in result.evictions.items())
    if causes:
        found.append(Table("evictions by cause", ("cause", "count"), causes))
    counts = tuple((what, str(n)) for what, n in sorted(result.record.counts.items()))
    if counts:
        found.append(Table("what else happened", ("what", "count"), counts))
    return tuple(found)


def _wait_table(title: str, what: str, groups: Mapping[str, Waits]) -> Table:
    rows = tuple((name, *wait_cells(waits)) for name, waits in groups.items() if waits.jobs)
    return Table(title, (what, *WAIT_COLUMNS), rows)


def wait_cells(waits: Waits) -> tuple[str, ...]:
    spans = (waits.mean, waits.median, waits.p95, waits.p99, waits.longest)
    return (
        str(waits.jobs),
        *map(short_span, spans),
        short_span(waits.turnaround_mean) if waits.has_finished else "-",
        f"{waits.slowdown_mean:.1f}" if waits.has_finished else "-",
        str(waits.never_ran),
    )


def _flavor_table(result: Result) -> Table:
    rows = tuple(
        (
            f"{use.cell.flavor} {use.cell.resource}",
            format_amount(use.cell.resource, use.quota),
            f"{100 * use.share:.1f} %",
            _share_text(use.used_while_jobs_came, use.quota),
            _share_text(use.busy, use.quota),
            format_amount(use.cell.resource, use.peak),
            _share_text(use.borrowed, use.quota),
        )
        for use in result.uses
    )
    columns = ("flavor", "quota", "held", "while jobs came", "running", "peak", "borrowed")
    return Table("use of quota", columns, rows)


def _share_text(amount: float | None, quota: int) -> str:
    return f"{100 * amount / quota:.1f} %" if quota and amount is not None else "-"


def _queue_table(result: Result) -> Table:
    rows = []
    for row in queue_rows(result):
        main = [q for q in row["quotas"] if q["resource"] == result.main_resource]
        share = row["shareOverEntitlement"]
        rows.append(
            (
                row["queue"],
                *(
                    _units(result, sum(q[what] for q in main))
                    for what in ("nominal", "used", "borrowed", "lent")
                ),
                "-" if share is None else f"{share:.2f}",
                str(row["preempting"]),
                str(row["preempted"]),
                str(row["evicted"]),
            )
        )
    columns = ("queue", "owns", "used", "borrowed", "lent", "share", "preempts", "preempted")
    return Table(f"queues ({result.main_resource})", (*columns, "evicted"), tuple(rows))


def _money_tables(result: Result, money: Money) -> Iterator[Table]:
    currency = f" ({result.cluster.settings.currency})" if result.cluster.settings.currency else ""
    rows = [
        (
            f"{one.cell.flavor} {one.cell.resource}",
            f"{float(one.price.per_hour):g}{' reserved' if one.price.reserved else ''}",
            *(f"{amount:.2f}" for amount in one.cost),
        )
        for one in money.flavors
    ]
    rows.append(("all", "", *(f"{amount:.2f}" for amount in money.total)))
    if money.per_useful_hour is not None:
        rows.append(("per useful hour", "", f"{money.per_useful_hour:.2f}", "", "", "", ""))
    yield Table(f"money{currency}", ("flavor", "per hour", *COST_COLUMNS), tuple(rows))
    by_queue = tuple((name, f"{cost:.2f}") for name, cost in money.queues.items())
    yield Table(f"money by what queues held{currency}", ("queue", "cost"), by_queue)


def _preemption_table(result: Result) -> Table:
    pairs = [*result.preemptions_by_queues.items()]
    rows = [
        (f"{preemptor} from {victim}", str(one.jobs), f"{result.in_hours(one.lost):.1f}")
        for (preemptor, victim), one in pairs[:PAIRS_SHOWN]
    ]
    if rest := [one for _, one in pairs[PAIRS_SHOWN:]]:
        lost = result.in_hours(sum(one.lost for one in rest))
        rows.append((f"{len(rest)} other pairs", str(sum(o.jobs for o in rest)), f"{lost:.1f}"))
    columns = ("preemptor's queue", "jobs", f"{result.main_resource}-hours lost")
    return Table("who preempted whom", columns, tuple(rows))


def _units(result: Result, amount: float) -> str:
    value = in_units(result.main_resource, amount)
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"

"""A result as JSON; docs/reference/simulation-report.md documents the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from makeway.api.times import format_time
from makeway.engine.explain import Explanation
from makeway.engine.model import FlavorResource, QueueName
from makeway.sim.circles import Circle
from makeway.sim.cluster import nominal_of
from makeway.sim.money import Cost
from makeway.sim.paired import size_text
from makeway.sim.record import Incident, JobOutcome, JobRun, Moment, Steps
from makeway.sim.result import Result
from makeway.sim.statistics import Waits, bin_means
from makeway.sim.straggling import end_text, warnings
from makeway.translate.data import obstacle_data
from makeway.translate.explanation import explanation_lines
from makeway.translate.words import decision_text

SCHEMA = "makeway.dev/simulation-report/v1"
BINS = 400
LONGEST_SHOWN = 20


def as_json(result: Result) -> str:
    """The report as one JSON document; the same result gives the same bytes."""
    return json.dumps(as_data(result), indent=2, ensure_ascii=False) + "\n"


def as_data(result: Result, axis_s: float | None = None) -> dict[str, Any]:
    """Everything there is to say; with an axis, the series go that far."""
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "trace": _trace(result),
        "configuration": {
            "source": result.cluster.source,
            "notes": result.cluster.notes,
            "gates": result.cluster.gates,
        },
        "seed": result.seed,
        "isComplete": result.is_complete,
        "stopped": end_text(result),
        "endSeconds": _round(result.end),
        "warnings": warnings(result),
        "measured": {
            "fromSeconds": _round(result.window.since),
            "toSeconds": _round(result.window.until),
            "isWhole": result.window.is_whole,
            "jobs": len(result.counted),
        },
        "lastSubmitSeconds": _round(result.last_submit),
        "events": result.record.steps,
        "cycles": result.record.cycles,
        "jobs": {_camel(outcome.value): count for outcome, count in result.outcomes.items()},
        "requestedShare": _round(result.requested_share),
        "makespan": {
            "seconds": _round(result.makespan.seconds),
            "workSeconds": _round(result.makespan.work_s),
            "lostSeconds": _round(result.makespan.lost_s),
            "unusedSeconds": _round(result.makespan.unused_s),
        },
        "mainResource": result.main_resource,
        "waits": {
            "all": _waits(result.wait()),
            "byQueue": {name: _waits(w) for name, w in result.waits_by_queue().items()},
            "byPriority": {str(p): _waits(w) for p, w in result.waits_by_priority().items()},
            "bySize": {size_text(group): _waits(w) for group, w in result.waits_by_size().items()},
            "byUser": {name: _waits(w) for name, w in result.waits_by_user().items()},
        },
        "flavors": [
            {
                "flavor": use.cell.flavor,
                "resource": use.cell.resource,
                "quota": use.quota,
                "used": _round(use.used),
                "usedWhileJobsCame": _round(use.used_while_jobs_came),
                "busy": _round(use.busy),
                "peak": use.peak,
                "borrowed": _round(use.borrowed),
                "utilisation": _round(use.share),
            }
            for use in result.uses
        ],
        "queues": queue_rows(result),
        "fairness": _round(result.fairness),
        "evictions": result.evictions,
        "preemptions": result.preemptions,
        "preemptionsByQueues": [
            {
                "preemptor": preemptor,
                "victim": victim,
                "jobs": preempted.jobs,
                "lostSeconds": _round(preempted.lost),
            }
            for (preemptor, victim), preempted in result.preemptions_by_queues.items()
        ],
        "counts": dict(sorted(result.record.counts.items())),
        "work": {
            "resource": result.main_resource,
            "usefulSeconds": _round(result.work.useful),
            "lostSeconds": _round(result.work.lost),
            "unfinishedSeconds": _round(result.work.kept),
            "heldIdleSeconds": _round(result.work.idle),
        },
        "money": _money(result),
        "longestWaits": [_long_wait(result, run) for run in result.longest_waits()],
        "neverFits": _never_fits(result),
        "circles": [_circle(circle) for circle in islice(result.record.circles, LONGEST_SHOWN)],
        "stockouts": [
            {
                "flavor": flavor,
                "fromSeconds": _round(start),
                "toSeconds": _round(end),
                "share": share,
            }
            for start, end, flavor, share in result.record.stockouts
        ],
        "series": series(result, result.end if axis_s is None else axis_s),
    }
    stories = {run.key: [*map(_moment, run.story)] for run in result.runs if run.story}
    if stories:
        data["stories"] = stories
    return data


def queue_rows(result: Result) -> list[dict[str, Any]]:
    preempted = dict.fromkeys(result.cluster.queues, 0)
    evicted = dict.fromkeys(result.cluster.queues, 0)
    preempting = dict.fromkeys(result.cluster.queues, 0)
    for eviction in result.evictions_counted:
        evicted[eviction.queue] += 1
        if eviction.by >= 0:
            preempted[eviction.queue] += 1
            preempting[result.demand.all_runs[eviction.by].queue] += 1
    rows = []
    quotas = _quotas_by_queue(result)
    for name, queue in result.cluster.queues.items():
        share = result.shares[name]
        rows.append(
            {
                "queue": name,
                "cohort": queue.cohort,
                "quotas": quotas[name],
                "shareOverEntitlement": None if share is None else _round(share),
                "evicted": evicted[name],
                "preempted": preempted[name],
                "preempting": preempting[name],
            }
        )
    return rows


def _quotas_by_queue(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Own, used, borrowed and lent per queue and flavor, on average over time.

    What is borrowed in a tree at a time is lent by those who leave theirs unused, each in
    proportion to what it leaves; this is reckoned on the bins of the series.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in result.cluster.queues}
    for cell in result.cluster.cells():
        used, borrowed, lent = _cell_bins(result, cell)
        for name, queue in result.cluster.queues.items():
            nominal = nominal_of(queue)
            if cell in nominal or any(used[name]):
                rows[name].append(
                    {
                        "flavor": cell.flavor,
                        "resource": cell.resource,
                        "nominal": nominal.get(cell, 0),
                        "used": _round(_mean(used[name])),
                        "borrowed": _round(_mean(borrowed[name])),
                        "lent": _round(_mean(lent[name])),
                    }
                )
    return rows


Bins = dict[str, list[float]]
Held = tuple[QueueName, FlavorResource]  # what a queue uses of a cell


def _cell_bins(result: Result, cell: FlavorResource) -> tuple[Bins, Bins, Bins]:
    used: Bins = {}
    borrowed: Bins = {}
    idle: Bins = {}
    roots: dict[str, list[str]] = {}
    for name, queue in result.cluster.queues.items():
        nominal = nominal_of(queue).get(cell, 0)
        steps = result.record.used[name, cell]
        since, until, _ = result.window
        used[name] = bin_means(steps, until, BINS, since=since)
        borrowed[name] = bin_means(steps, until, BINS, _above(nominal), since)
        idle[name] = [
            nominal - own + over for own, over in zip(used[name], borrowed[name], strict=True)
        ]
        roots.setdefault(result.cluster.root_of(name), []).append(name)
    lent: Bins = {}
    for members in roots.values():
        total_borrowed = _column_sums([borrowed[member] for member in members])
        total_idle = _column_sums([idle[member] for member in members])
        for member in members:
            lent[member] = [
                min(own, total * own / all_idle) if all_idle > 0 else 0.0
                for own, total, all_idle in zip(
                    idle[member], total_borrowed, total_idle, strict=True
                )
            ]
    return used, borrowed, lent


def _above(nominal: int) -> Callable[[int], int]:
    return lambda value: max(0, value - nominal)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def series(result: Result, end: float) -> dict[str, Any]:
    """Means over equal spans of the whole time up to an end, for pictures."""
    record, cells = result.record, result.cluster.cells()
    main = [cell for cell in cells if cell.resource == result.main_resource]
    queues = list(result.cluster.queues)
    by_queue = {str(name): [(name, cell) for cell in main] for name in queues}
    titles = {cell: f"{cell.flavor}/{cell.resource}" for cell in cells}
    by_flavor = {title: [(name, cell) for name in queues] for cell, title in titles.items()}

    def used(groups: Mapping[str, Sequence[Held]], *, is_borrowed: bool = False) -> Bins:
        return {
            name: _used_bins(result, held, end, is_borrowed=is_borrowed)
            for name, held in groups.items()
        }

    def means(steps: Mapping[QueueName, Steps]) -> Bins:
        return {str(name): _rounded(bin_means(s, end, BINS)) for name, s in steps.items()}

    return {
        "binSeconds": _round(end / BINS),
        "waiting": means(record.waiting),
        "wanted": means(record.wanted),
        "running": means(record.running),
        "usedByQueue": used(by_queue),
        "borrowedByQueue": used(by_queue, is_borrowed=True),
        "usedByFlavor": used(by_flavor),
        "borrowedByFlavor": used(by_flavor, is_borrowed=True),
        "busyByFlavor": {
            title: _rounded(bin_means(record.busy[cell], end, BINS))
            for cell, title in titles.items()
        },
    }


def _used_bins(
    result: Result, held: Sequence[Held], end: float, *, is_borrowed: bool
) -> list[float]:
    """What queues use of cells altogether, or what of it is beyond their own quota."""
    parts = []
    for name, cell in held:
        own = nominal_of(result.cluster.queues[name]).get(cell, 0) if is_borrowed else 0
        parts.append(bin_means(result.record.used[name, cell], end, BINS, _above(own)))
    return _rounded(_column_sums(parts) if parts else [0.0] * BINS)


def _column_sums(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _trace(result: Result) -> dict[str, Any]:
    trace = result.trace
    return {
        "source": trace.source,
        "layout": trace.layout,
        "rows": trace.rows,
        "jobs": len(trace.jobs),
        "simulated": len(result.demand.all_runs),
        "drawnFrom": trace.drawn_from,
        "origin": None if trace.origin is None else format_time(trace.origin),
        "warnings": list(trace.warnings),
        "oddities": [
            {
                "what": oddity.what,
                "count": oddity.count,
                "isLeftOut": oddity.is_left_out,
                "examples": oddity.examples,
            }
            for oddity in result.oddities
        ],
    }


def _waits(waits: Waits) -> dict[str, Any]:
    return {_camel(name): _round(value) for name, value in waits.figures().items()}


def _money(result: Result) -> dict[str, Any] | None:
    money = result.money
    if money is None:
        return None
    return {
        "currency": result.cluster.settings.currency,
        "total": _rounded_costs(money.total),
        "perUsefulHour": _round(money.per_useful_hour),
        "byFlavor": [
            {
                "flavor": one.cell.flavor,
                "resource": one.cell.resource,
                "perHour": float(one.price.per_hour),
                "isReserved": one.price.reserved,
                **_rounded_costs(one.cost),
            }
            for one in money.flavors
        ],
        "byQueueHeld": {name: _round(cost) for name, cost in money.queues.items()},
    }


def _rounded_costs(cost: Cost) -> dict[str, Any]:
    return {name: _round(value) for name, value in cost._asdict().items()}


def _long_wait(result: Result, run: JobRun) -> dict[str, Any]:
    return {
        "job": run.key,
        "queue": run.queue,
        "priority": run.priority,
        "size": run.size,
        "submitSeconds": _round(run.submitted_at),
        "waitSeconds": _round(result.wait_of(run)),
        "runSeconds": _round(run.job.run_s),
        "evictions": result.evictions_of(run),
        "fate": run.outcome.value,
        "reasons": [obstacle_data(reason) for reason in run.reasons],
    }


def _never_fits(result: Result) -> list[dict[str, Any]]:
    found = [run for run in result.runs if run.outcome is JobOutcome.NEVER_FITS]
    return [
        {
            "job": run.key,
            "queue": run.queue,
            "reasons": [obstacle_data(reason) for reason in run.reasons],
        }
        for run in found[:LONGEST_SHOWN]
    ]


def _circle(circle: Circle) -> dict[str, Any]:
    return {
        "tree": circle.tree,
        "sinceSeconds": _round(circle.since),
        "lastSeconds": _round(circle.last_at),
        "times": circle.times,
        "keptFromPreempting": list(circle.kept),
        "displacements": [
            {
                "preemptor": displaced.preemptor,
                "queue": displaced.queue,
                "victim": displaced.victim,
                "victimQueue": displaced.victim_queue,
                "rule": displaced.rule.value,
            }
            for displaced in circle.displacements
        ],
    }


def _moment(moment: Moment) -> dict[str, Any]:
    what = moment.what
    match what:
        case Incident():
            name, text = what.what, what.detail
        case Explanation():
            lines = map(str, explanation_lines(what, moment.at))
            name, text = type(what).__name__, "; ".join(lines)
        case _:
            name, text = type(what).__name__, "; ".join(decision_text(what).details)
    return {"atSeconds": _round(moment.at), "what": name, "text": text}


def _round(value: float | None) -> float | None:
    """Six digits behind the point, so that the last bits of sums don't show."""
    if value is None or isinstance(value, int):
        return value
    return round(value, 6)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def _camel(text: str) -> str:
    first, *rest = text.replace("_", " ").split()
    return first + "".join(word.capitalize() for word in rest)

"""Jobs as lines of a table, from the rows that a server or the objects give."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from makeway.cli.spans import span_text
from makeway.cli.tables import Cell, Column, print_document, print_fitted, print_table

Row = Mapping[str, Any]
CellOf = Callable[[Row], Cell | str]
STYLES: Mapping[str, str] = {
    "held": "dim",
    "pending": "yellow",
    "reserved": "blue",
    "admitted": "blue",
    "running": "green",
    "evicting": "red",
    "succeeded": "dim",
    "failed": "red",
    "cancelled": "dim",
    "deleted": "dim",
}
ENDED = frozenset(("succeeded", "failed", "cancelled", "deleted"))
REASON = "UNTIL / REASON"
HEAD = ("ID", "NAME", "USER", "QUEUE", "PRIO", "GPUS", "STATUS", "SINCE", REASON)
_KINDS = {"Job": "job.batch", "Pod": "pod"}


def print_jobs(rows: Sequence[Row], columns: Sequence[str], arguments: argparse.Namespace) -> bool:
    """Print jobs in the form asked for; False where a table would be empty."""
    if arguments.output in ("json", "yaml"):
        print_document(arguments.output, {"kind": "JobList", "items": list(rows)})
        return True
    if arguments.output == "name":
        for row in rows:
            print(reference_of(row))
        return True
    if arguments.all_namespaces:
        columns = ("NAMESPACE", *columns)
    if rows:
        cells = [[COLUMNS[title][1](row) for title in columns] for row in rows]
        if arguments.output == "wide":
            print_table([COLUMNS[title][0].title for title in columns], cells)
        else:
            print_fitted([COLUMNS[title][0] for title in columns], cells)
    return bool(rows)


def reference_of(row: Row) -> str:
    """As kubectl takes it."""
    return f"{_KINDS.get(row['kind'], 'workload.kueue.x-k8s.io')}/{row['name']}"


# --- cells ---


def gpus_text(row: Row) -> str:
    """`2: 0,3` of who holds GPUs, `2` of who asks for them."""
    if not row["gpus"]:
        return "-"
    indexes = indexes_text(row["gpuIndexes"])
    return f"{row['gpus']}: {indexes}" if indexes else str(row["gpus"])


def indexes_text(devices: Sequence[int | str]) -> str:
    from makeway.api.devices import format_indexes

    return format_indexes(devices)


def since_text(row: Row) -> str:
    """For how long it has run, or waited."""
    run_s = row["runSeconds"]
    return or_dash(span_text(row["waitSeconds"] if run_s is None else run_s))


def reason_text(row: Row) -> str:
    """Until when it runs at most, or why it does not."""
    if row["until"]:
        return f"until {moment_text(row['until'])} at most"
    if row["heldBy"] and row["reason"] == f"held by {row['heldBy']}":
        from makeway.cli.user import user_name

        return "held by you" if row["heldBy"] == user_name() else str(row["reason"])
    return row["reason"] or ""


def moment_text(written: str, now: float | None = None) -> str:
    """`18:02` of today, `Tue 18:02` within a week, else the date; in the reader's own time."""
    from makeway.api.times import parse_time

    at, today = parse_time(written), time.time() if now is None else now
    then, here = time.localtime(at), time.localtime(today)
    if then[:3] == here[:3]:
        return time.strftime("%H:%M", then)
    if abs(at - today) < 6 * 86400:
        return time.strftime("%a %H:%M", then)
    return time.strftime("%Y-%m-%d", then)


def age_text(row: Row, now: float) -> str:
    from makeway.api.times import parse_time

    return span_text(now - parse_time(row["createdAt"]))


def ended_text(row: Row, now: float) -> str:
    from makeway.api.times import parse_time

    return f"{span_text(now - parse_time(row['endedAt']))} ago" if row["endedAt"] else "-"


def start_text(row: Row, *, is_span: bool) -> str:
    """When it will start; a dash of who runs already, or of whom nobody knows."""
    return "-" if row["startedAt"] else end_text(row, is_span=is_span, which="start")


def end_text(row: Row, *, is_span: bool, which: str = "end") -> str:
    from makeway.cli.expectations import brief, span

    return or_dash((span if is_span else brief)(row["forecast"], which))


def basis_text(row: Row) -> str:
    """From whom the run time is taken that a forecast reckons with."""
    return or_dash((row["forecast"] or {}).get("basis"))


def _code(row: Row) -> Cell:
    code = row["exitCode"]
    return Cell(or_dash(code), "red" if code else "")


def or_dash(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


COLUMNS: Mapping[str, tuple[Column, CellOf]] = {
    "NAMESPACE": (Column("NAMESPACE", least=8), lambda row: row["namespace"]),
    "ID": (Column("ID"), lambda row: or_dash(row.get("number") or row["id"])),
    "NAME": (Column("NAME", least=12), lambda row: or_dash(row["name"])),
    "USER": (Column("USER", least=6, goes=4, is_dull=True), lambda r: or_dash(r["submittedBy"])),
    "QUEUE": (Column("QUEUE", least=6, goes=3, is_dull=True), lambda row: or_dash(row["queue"])),
    "STATUS": (
        Column("STATUS"),
        lambda row: Cell(row["status"], STYLES.get(row["status"], "")),
    ),
    "PRIO": (Column("PRIO", goes=1, is_dull=True), lambda row: or_dash(row["priority"])),
    "GPUS": (Column("GPUS", goes=5, is_dull=True), gpus_text),
    "SINCE": (Column("SINCE"), since_text),
    "AGE": (Column("AGE", goes=1), lambda row: age_text(row, time.time())),
    "WAIT": (Column("WAIT", goes=1), lambda row: or_dash(span_text(row["waitSeconds"]))),
    "RUN": (Column("RUN", goes=2), lambda row: or_dash(span_text(row["runSeconds"]))),
    "EVICTIONS": (Column("EVICTIONS", goes=1, is_dull=True), lambda r: or_dash(r["evictions"])),
    "EXIT": (Column("EXIT"), _code),
    "ENDED": (Column("ENDED"), lambda row: ended_text(row, time.time())),
    "NODE": (Column("NODE", goes=1, is_dull=True), lambda row: or_dash(",".join(row["nodes"]))),
    "START": (Column("START"), lambda row: start_text(row, is_span=False)),
    "START WITHIN": (Column("8 OF 10"), lambda row: start_text(row, is_span=True)),
    "END": (Column("END"), lambda row: end_text(row, is_span=False)),
    "END WITHIN": (Column("8 OF 10"), lambda row: end_text(row, is_span=True)),
    "RUN TIME FROM": (Column("RUN TIME FROM", least=16, goes=1), basis_text),
    "WORKLOAD": (Column("WORKLOAD", goes=1), lambda row: or_dash(row["workload"])),
    "COMMAND": (Column("COMMAND", least=16, goes=1), lambda row: or_dash(" ".join(row["command"]))),
    "MESSAGE": (Column("MESSAGE"), lambda row: row["message"] or ""),
    REASON: (Column(REASON, least=24), reason_text),
    "REASON": (Column("REASON", least=14), lambda row: row["reason"] or ""),
}

"""What the journal tells whoever may read it: why a job waited, who had how much."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from makeway.api.times import format_time, moment_text
from makeway.journal.file import Journal
from makeway.journal.ledger import Account, Sums, ledger_of
from makeway.journal.past import (
    Happened,
    Moment,
    Name,
    NothingKnown,
    find_latest,
    find_workload,
    life_of,
    moment,
)
from makeway.translate.data import as_data, pieces_data
from makeway.translate.explanation import explanation_lines
from makeway.translate.happenings import happened_line
from makeway.translate.words import Line, workload

Document = dict[str, Any]
BEFORE_SHOWN, AFTER_SHOWN = 8, 4
LOOKED_BACK_S = 30 * 86_400.0


def why(journal: Journal, name: Name, at: float, since: float = 0.0) -> Document:
    """Why a workload did not run at a time, and what happened to it before and after."""
    _check(journal, at)
    then = moment(journal, at)
    try:
        key = find_workload(journal, then, name, since)
    except NothingKnown as error:
        raise NothingKnown(f"{error}{_came_later(journal, name, since)}") from None
    is_there = then.engine.view.workload(key) is not None
    second = float(int(then.at))  # as the heading has it
    explanation = then.engine.explain(key, second) if is_there else None
    lines = [Line(workload(key), " was gone")]
    if explanation is not None:
        lines = list(explanation_lines(explanation, then.at, moment_text))
    first = max(since, then.at - LOOKED_BACK_S)
    life = list(life_of(journal, key, first, time.time()))
    before = [happened for happened in life if happened.at <= then.at][-BEFORE_SHOWN:]
    after = [happened for happened in life if happened.at > then.at][:AFTER_SHOWN]

    def told(happened: Happened) -> Line:
        return Line(f"- {moment_text(happened.at)}  ", *happened_line(happened.what, key))

    lines = [_heading(then), *lines]
    lines += [Line("What had happened to it:"), *map(told, before)] if before else []
    lines += [Line("What happened to it then:"), *map(told, after)] if after else []
    return {
        "apiVersion": "makeway.dev/v1",
        "kind": "Explanation",
        "metadata": dict(zip(("namespace", "name"), key.split("/", 1), strict=True)),
        "at": format_time(then.at),
        **({} if explanation is None else as_data(explanation)),
        "happened": [
            {"at": format_time(happened.at), "text": str(happened_line(happened.what, key))}
            for happened in (*before, *after)
        ],
        "pieces": [pieces_data(line) for line in lines],
        "lines": [*map(str, lines)],
    }


def _check(journal: Journal, at: float) -> None:
    """What was written down is between the beginning of the journal and the present."""
    if at > time.time():
        text = f"{moment_text(at)} is still to come; `makeway forecast` tells what is expected"
        raise NothingKnown(text)
    first_at = min((segment.header.began_at for segment in journal.segments()), default=at)
    if at < first_at:
        raise NothingKnown(f"the journal begins at {moment_text(first_at)}, after that")


def _came_later(journal: Journal, name: Name, since: float) -> str:
    later = find_latest(journal, name)
    if later is None or later.created_at < since:
        return ""
    return f"; it came at {moment_text(later.created_at)}"


def _heading(then: Moment) -> Line:
    return Line(f"At {moment_text(then.at)}, as of {moment_text(then.heard_last_at)}:")


def usage(journal: Journal, since: float, until: float) -> Document:
    """What was booked to whom: times in seconds, amounts times seconds."""
    booked = ledger_of(journal, since, until).sums
    items = [{**account._asdict(), **asdict(sums)} for account, sums in sorted(booked.items())]
    return {"apiVersion": "makeway.dev/v1", "kind": "UsageList", "items": items}


def sums_in(document: Mapping[str, Any]) -> dict[Account, Sums]:
    """What `usage` told."""
    found = {}
    for item in document["items"]:
        account = Account(*(item[name] for name in Account._fields))
        found[account] = Sums(**{k: v for k, v in item.items() if k not in Account._fields})
    return found

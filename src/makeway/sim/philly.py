"""The Philly trace as it was published: one JSON list of jobs with their attempts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from makeway.sim.layouts import Layout, parse_mapping
from makeway.sim.rows import Rows
from makeway.sim.trace_jobs import SimulationError, Trace
from makeway.sim.values import Unreadable, moment

COLUMNS = ("jobid", "vc", "user", "status", "submitted_time", "run", "gpus")
FIELDS = "name=jobid,queue=vc,user=user,state=status,submit=submitted_time,run=run,gpus=gpus"


def read_philly_json(text: str, source: str) -> Trace:
    try:
        jobs = json.loads(text)
    except ValueError as error:
        raise SimulationError(f"{source}: is no JSON ({error})") from None
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise SimulationError(f"{source}: is no list of jobs")
    rows = Rows(source, COLUMNS, Layout(name="Philly JSON", columns=parse_mapping(FIELDS)))
    for number, job in enumerate(jobs, start=1):
        attempts = [one for one in job.get("attempts") or () if isinstance(one, Mapping)]
        plain = [str(job.get(name) or "") for name in COLUMNS[:5]]
        rows.take(number, [*plain, _run_s(attempts), _gpus(attempts)], ",")
    return rows.trace(None)


def _run_s(attempts: Sequence[Mapping[str, Any]]) -> str:
    """All attempts together; empty where none has a beginning and an end."""
    spans = []
    for attempt in attempts:
        try:
            start, end = (moment(str(attempt[name]))[0] for name in ("start_time", "end_time"))
        except (KeyError, Unreadable):
            continue
        spans.append(end - start)
    return str(sum(spans)) if spans else ""


def _gpus(attempts: Sequence[Mapping[str, Any]]) -> str:
    """The most that an attempt had."""
    counts = [
        sum(len(place.get("gpus") or ()) for place in attempt.get("detail") or ())
        for attempt in attempts
    ]
    return str(max(counts, default=0))

"""Rows of a trace become jobs, and what is odd about them is counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from makeway.sim import values
from makeway.sim.layouts import (
    AFTER,
    CANCEL,
    CHECKPOINT,
    END,
    FLAVORS,
    NAME,
    PLAIN,
    PODS,
    PODS_MIN,
    PRIORITY,
    PROGRAM,
    QUEUE,
    REQUESTED,
    RUN,
    RUN_ON,
    START,
    STATE,
    SUBMIT,
    THINK,
    TRES,
    USER,
    Layout,
)
from makeway.sim.plausibility import implausible
from makeway.sim.trace_jobs import (
    CPUS,
    GPUS,
    MEMORY,
    FilePosition,
    Oddities,
    SimulationError,
    Trace,
    TraceJob,
    in_order,
)
from makeway.sim.values import LAST_S, Unreadable, is_absent

T = TypeVar("T")
CANCELLED = re.compile(r"cancel", re.IGNORECASE)
NOT_READ_SHOWN = 5  # columns
DATED_FROM_S = 1e8  # later than 1973: no trace that counts from its start is this long
DIFFERENCE_S = 1.5  # a duration may be rounded


class UnreadableField(Exception):
    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index, self.problem = index, problem


class Rows:
    """Takes rows one after the other; `trace()` is what came of them."""

    def __init__(self, source: str, header: Sequence[str], layout: Layout) -> None:
        self.source, self.layout, self.header = source, layout, header
        self.index = {field: header.index(c.name) for field, c in layout.columns.items()}
        self.run_fields = [f for f in layout.columns if f.startswith(RUN_ON)]
        rare = (USER, PROGRAM, FLAVORS, REQUESTED, AFTER, THINK, *self.run_fields)
        self.says_more = any(field in layout.columns for field in rare)
        self.resources = [f for f in layout.columns if f in (GPUS, CPUS, MEMORY) or "/" in f]
        self.jobs: list[TraceJob] = []
        self.oddities = Oddities()
        self.rows = 0
        self.first_unparsed = ""
        self.unparsed = 0
        self.is_dated = False
        self.last_submit = float("-inf")
        self._shared: dict[object, object] = {}  # equal values once: traces repeat themselves

    def take(
        self, line: int, row: Sequence[str], delimiter: str, *, is_cancelled: bool = False
    ) -> None:
        self.rows += 1
        if len(row) != len(self.header):
            problem = f"has {len(row)} fields, not {len(self.header)}"
            self._leave_out_unparsed(f"{FilePosition(self.source, line, 1)}: {problem}")
            return
        try:
            job = self._job(line, row, is_cancelled)
            if job is not None and self.says_more:
                job = self._told_more(job, row)
        except UnreadableField as error:
            column = len(delimiter.join(row[: error.index])) + (2 if error.index else 1)
            place = FilePosition(self.source, line, column)
            value = row[error.index][:40]
            text = f'{place}: {self.header[error.index]} "{value}" {error.problem}'
            self._leave_out_unparsed(text)
            return
        if job is not None:
            self.jobs.append(job)

    def trace(self, origin: float | None, queue_names: dict[str, str] | None = None) -> Trace:
        """Count time from the first submission on."""
        if self.unparsed * 2 > self.rows:
            raise SimulationError(
                f"{self.first_unparsed} ({self.unparsed} of {self.rows} rows don't parse)"
            )
        if not self.jobs:
            reasons = "; ".join(f"{o.count} {o.what}" for o in self.oddities.all())
            raise SimulationError(f"{self.source}: no job to simulate ({reasons or 'no rows'})")
        start = min(job.submit_s for job in self.jobs)
        names = queue_names or {}
        jobs = in_order(
            job._replace(
                submit_s=job.submit_s - start,
                cancel_s=None if job.cancel_s is None else job.cancel_s - start,
                queue=names.get(job.queue, job.queue),
            )
            for job in self.jobs
        )
        if origin is not None:
            start += origin
        return Trace(
            source=self.source,
            layout=self._layout_text(),
            jobs=jobs,
            rows=self.rows,
            origin=start if self.is_dated or origin is not None else None,
            oddities=self.oddities.all(),
            warnings=tuple(implausible(jobs, self.layout.columns)),
        )

    def _layout_text(self) -> str:
        read = ", ".join(f"{field}={c.name}" for field, c in self.layout.columns.items())
        return f"{self.layout.name} ({read})" + self._not_read()

    def _not_read(self) -> str:
        """Of a table that nobody knows, what may have been meant to count."""
        if self.layout.name != PLAIN:
            return ""
        taken = {column.name for column in self.layout.columns.values()}
        rest = [name for name in self.header if name and name not in taken]
        more = f" and {len(rest) - NOT_READ_SHOWN} more" if len(rest) > NOT_READ_SHOWN else ""
        return f"; not read: {', '.join(rest[:NOT_READ_SHOWN])}{more}" if rest else ""

    def _leave_out_unparsed(self, example: str) -> None:
        self.unparsed += 1
        self.first_unparsed = self.first_unparsed or example
        self.oddities.note("rows that don't parse", example, is_left_out=True)

    def _note(self, line: int, name: str, what: str, *, is_left_out: bool = False) -> None:
        self.oddities.note(
            what, f"{FilePosition(self.source, line)}: {name}", is_left_out=is_left_out
        )

    def _job(self, line: int, row: Sequence[str], is_cancelled: bool) -> TraceJob | None:
        name = self._text(row, NAME) or f"job-{self.rows}"
        if self.layout.name == "sacct" and "." in name:
            self.oddities.note("steps of jobs, which are no jobs", is_left_out=True)
            return None
        submit = self._moment(row, SUBMIT)
        if submit is None:
            raise UnreadableField(self.index[SUBMIT], "is no time of submission")
        run = self._run_s(line, row, name, submit)
        why_not = self._why_left_out(row, run, is_cancelled)
        amounts = self._amounts(row)
        if why_not is None and not amounts and PODS not in self.index:
            why_not = "jobs that ask for nothing"
        if why_not is not None:
            self._note(line, name, why_not, is_left_out=True)
            return None
        assert run is not None
        if submit < self.last_submit:
            self._note(line, name, "rows out of order in time (sorted)")
        self.last_submit = max(self.last_submit, submit)
        if run == 0:
            self._note(line, name, "jobs with a run time of zero")
        return TraceJob(
            name=name,
            queue=self._share(self._text(row, QUEUE)),
            submit_s=submit,
            run_s=run,
            amounts=self._share(amounts),
            pods=max(1, self._count(row, PODS) or 1),
            pods_min=self._count(row, PODS_MIN),
            priority=self._share(self._text(row, PRIORITY)),
            cancel_s=self._moment(row, CANCEL),
            checkpoint_s=self._span(row, CHECKPOINT),
        )

    def _told_more(self, job: TraceJob, row: Sequence[str]) -> TraceJob:
        """With what few traces say."""
        return job._replace(
            user=self._share(self._text(row, USER)),
            program=self._share(self._text(row, PROGRAM)),
            flavors=self._share(self._read(row, FLAVORS, values.flavor_names) or ()),
            run_on=self._run_on(row),
            requested_s=self._span(row, REQUESTED),
            after=self._read(row, AFTER, values.names) or (),
            think_s=self._span(row, THINK),
        )

    def _run_on(self, row: Sequence[str]) -> tuple[tuple[str, float], ...]:
        found = ((field.removeprefix(RUN_ON), self._span(row, field)) for field in self.run_fields)
        return tuple((flavor, run_s) for flavor, run_s in found if run_s is not None and run_s > 0)

    def _why_left_out(
        self, row: Sequence[str], run: float | None, is_cancelled: bool
    ) -> str | None:
        if not run and (is_cancelled or CANCELLED.search(self._text(row, STATE)) is not None):
            return "jobs cancelled before they ran"
        if run is None:
            return "jobs without a run time (waiting or running when the log ended)"
        return "jobs with a negative run time" if run < 0 else None

    def _run_s(self, line: int, row: Sequence[str], name: str, submit: float) -> float | None:
        """As the trace says, else from start to end; contradictions are noted."""
        run = self._span(row, RUN)
        start, end = self._moment(row, START), self._moment(row, END)
        if start is not None and start < submit:
            self._note(line, name, "jobs that started before they were submitted")
        if start is None or end is None:
            return run
        if end < start:
            self._note(line, name, "jobs that ended before they started")
        elif run is not None and abs(end - start - run) > DIFFERENCE_S:
            self._note(line, name, "jobs whose run time is not end minus start (run time counts)")
        return end - start if run is None else run

    def _amounts(self, row: Sequence[str]) -> tuple[tuple[str, int], ...]:
        amounts: dict[str, int] = {}
        for field in self.resources:
            factor = self.layout.columns[field].factor
            amount = self._read(row, field, partial(values.amount, field, factor=factor))
            if amount is not None and amount < 0:
                raise UnreadableField(self.index[field], "is less than nothing")
            if amount is not None:
                amounts[field] = amount
        if GPUS not in amounts:
            amounts[GPUS] = self._read(row, TRES, values.gpus_in_tres) or 0
        return tuple(sorted((word, amount) for word, amount in amounts.items() if amount))

    # --- one field ---

    def _text(self, row: Sequence[str], field: str) -> str:
        index = self.index.get(field)
        if index is None:
            return ""
        text = row[index].strip()
        return "" if text == "-1" and self.layout.name == "SWF" else text

    def _read(self, row: Sequence[str], field: str, parse: Callable[[str], T]) -> T | None:
        text = self._text(row, field)
        if not text or is_absent(text):
            return None
        try:
            return parse(text)
        except Unreadable as error:
            raise UnreadableField(self.index[field], str(error)) from None

    def _moment(self, row: Sequence[str], field: str) -> float | None:
        found = self._read(row, field, values.moment)
        if found is None:
            return None
        seconds = found[0] * self.layout.columns[field].factor
        if abs(seconds) > LAST_S:
            column = self.layout.columns[field].name
            problem = f"is no time in seconds; perhaps --map {field}={column}*0.001"
            raise UnreadableField(self.index[field], problem)
        self.is_dated = self.is_dated or found[1] or seconds >= DATED_FROM_S
        return seconds

    def _span(self, row: Sequence[str], field: str) -> float | None:
        found = self._read(row, field, values.span_s)
        return None if found is None else found * self.layout.columns[field].factor

    def _count(self, row: Sequence[str], field: str) -> int | None:
        found = self._read(row, field, values.number)
        return None if found is None else int(found)

    def _share(self, value: T) -> T:
        return self._shared.setdefault(value, value)  # type: ignore[return-value]

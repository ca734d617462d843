"""Traces of jobs: SWF logs, tables (CSV, `sacct`), and generator files, plain or gzipped.

A file that can't be understood as a whole is one error with its place. A row that can't be
understood is left out, counted, and named with its place; if most rows are like that, the file is
not what it was taken for, and that is the error.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from makeway.api.errors import in_words
from makeway.sim.generator import read_generator
from makeway.sim.layouts import (
    END,
    PODS,
    QUEUE,
    RUN,
    START,
    SUBMIT,
    TRES,
    Layout,
    TraceColumn,
    parse_mapping,
    read_columns,
    recognise,
)
from makeway.sim.philly import read_philly_json
from makeway.sim.rows import Rows
from makeway.sim.trace_jobs import CPUS, GPUS, MEMORY, FilePosition, SimulationError, Trace

DELIMITERS = ("|", "\t", ";", ",")
SWF_COLUMNS = (
    *("job", "submit", "wait", "run", "procs_allocated", "cpu_time", "memory_used"),
    *("procs_requested", "time_requested", "memory_requested", "status", "user", "group"),
    *("executable", "queue", "partition", "preceding", "think_time"),
)
SWF_FIELDS = parse_mapping(
    "name=job,submit=submit,run=run,cpus=procs_requested,queue=queue,user=user,"
    "program=executable,requested=time_requested,after=preceding,think=think_time"
)
SWF_CANCELLED = "5"
STDIN = "-"
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?", re.ASCII)


def read_trace(path: str | Path, mapping: Mapping[str, TraceColumn] | None = None) -> Trace:
    """Read a file of any known form, gzipped or not."""
    path = Path(path)
    text = read_text(path)
    if path.suffix in (".yaml", ".yml"):
        return read_generator(text, str(path))
    return parse_trace(text, source_name(path), mapping)


def parse_trace(text: str, source: str, mapping: Mapping[str, TraceColumn] | None = None) -> Trace:
    lines = text.splitlines()
    if text.lstrip().startswith("["):
        return read_philly_json(text, source)
    if _is_swf(lines):
        return _read_swf(lines, source, mapping or {})
    return _read_table(lines, source, mapping or {})


def source_name(path: str | Path) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def read_text(path: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SimulationError(f"{path}: not text in UTF-8 (byte {error.start})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SimulationError(f"{path}: the gzip file is damaged ({str(error).lower()})") from None
    except OSError as error:
        raise SimulationError(f"{path}: {in_words(error)}") from None


# --- Standard Workload Format ---


def _is_swf(lines: Sequence[str]) -> bool:
    for line in lines:
        if line.strip() and not line.lstrip().startswith(";"):
            fields = line.split()[: len(SWF_COLUMNS)]
            return len(fields) == len(SWF_COLUMNS) and all(map(_NUMBER.fullmatch, fields))
    return False


def _swf_columns(lines: Sequence[str]) -> tuple[str, ...]:
    """The 18 of the format; what some archives add is `field19` and so on."""
    first = next(line for line in lines if line.strip() and not line.lstrip().startswith(";"))
    return (*SWF_COLUMNS, *(f"field{i + 1}" for i in range(18, len(first.split()))))


def _read_swf(lines: Sequence[str], source: str, mapping: Mapping[str, TraceColumn]) -> Trace:
    columns, there = read_columns({**SWF_FIELDS, **mapping}), _swf_columns(lines)
    for field, column in columns.items():
        if column.name not in there:
            known = ", ".join(there)
            raise SimulationError(
                f"{source}: SWF has no column {column.name} for {field}; it has {known}"
            )
    rows = Rows(source, there, Layout(name="SWF", columns=columns))
    origin, queues = _swf_header(lines)
    requested, allocated = map(SWF_COLUMNS.index, ("procs_requested", "procs_allocated"))
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        row = line.split()
        if len(row) == len(there) and row[requested] == "-1":
            row[requested] = row[allocated]
        rows.take(number, row, " ", is_cancelled=row[10:11] == [SWF_CANCELLED])
    by_number = QUEUE in columns and columns[QUEUE].name == "queue"
    return rows.trace(origin, queues if by_number else None)


def _swf_header(lines: Sequence[str]) -> tuple[float | None, dict[str, str]]:
    """When time zero was, and the names of queues."""
    origin: float | None = None
    queues: dict[str, str] = {}
    for line in lines:
        if not line.startswith(";"):
            continue
        word, _, rest = line[1:].strip().partition(":")
        if word == "UnixStartTime" and _NUMBER.fullmatch(rest.strip()):
            origin = float(rest)
        if word == "Queue" and len(rest.split()) > 1:
            number, name, *_ = rest.split()
            queues[number] = name
    return origin, queues


# --- tables ---


def _read_table(lines: Sequence[str], source: str, mapping: Mapping[str, TraceColumn]) -> Trace:
    start = next((i for i, line in enumerate(lines) if line.strip()), None)
    if start is None:
        raise SimulationError(f"{source}: the file is empty")
    delimiter = max(DELIMITERS, key=lambda d: lines[start].count(d))
    header = [name.strip() for name in next(csv.reader([lines[start]], delimiter=delimiter))]
    if any(_NUMBER.fullmatch(name) for name in header):
        raise SimulationError(
            f"{FilePosition(source, start + 1, 1)}: this is no header but a row of numbers;"
            " write the names of the columns in the first line"
        )
    layout = recognise(header, mapping)
    _check_columns(FilePosition(source, start + 1, 1), header, layout)
    rows = Rows(source, header, layout)
    reader = csv.reader(lines[start + 1 :], delimiter=delimiter)
    try:
        for row in reader:
            if row and any(row):
                rows.take(start + 1 + reader.line_num, row, delimiter)
    except csv.Error as error:
        place = FilePosition(source, start + 1 + reader.line_num, 1)
        raise SimulationError(f"{place}: is no CSV ({error})") from None
    return rows.trace(None)


def _check_columns(place: FilePosition, header: Sequence[str], layout: Layout) -> None:
    columns = layout.columns
    present = ", ".join(header)
    for field, column in columns.items():
        if column.name not in header:
            hint = f"the file has {present}"
            raise SimulationError(f"{place}: no column {column.name} for {field}; {hint}")
    problem = None
    if SUBMIT not in columns:
        problem = "no column says when a job was submitted; add --map submit=COLUMN"
    elif RUN not in columns and not {START, END} <= set(columns):
        problem = "no column says how long a job ran; add --map run=COLUMN, or start= and end="
    elif not any(f in (GPUS, CPUS, MEMORY, PODS, TRES) or "/" in f for f in columns):
        problem = "no column says what a job asked for; add --map gpus=COLUMN or cpus=COLUMN"
    if problem is not None:
        raise SimulationError(f"{place}: {problem}; the file has {present}")

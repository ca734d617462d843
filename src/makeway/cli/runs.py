"""The runs of a job, there or gone, and what they have printed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from makeway.cli.command import RequestRefused, UsageError
from makeway.cli.spans import span_of
from makeway.client import ApiError, Client
from makeway.client.client import Document

Out = Callable[[bytes], object]  # where output goes


class Run(NamedTuple):
    """A pod that has run for a job."""

    attempt: int
    pod: str
    pod_uid: str
    containers: Sequence[str]
    ended_at: str  # empty: it runs
    exit_code: int | None  # None: it runs, or nobody knows
    reason: str

    @property
    def text(self) -> str:
        if not self.ended_at:
            return f"attempt {self.attempt} runs"
        code = "" if self.exit_code is None else f", exit code {self.exit_code}"
        why = f" ({self.reason})" if self.reason else ""
        return f"attempt {self.attempt} ended at {self.ended_at}{code}{why}"


class Whose(Protocol):
    """What of a job's metadata says which it is."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...


async def runs_of(client: Client, job: Whose) -> list[Run] | None:
    """The first first; None: this server doesn't keep that."""
    try:
        found = await client.attempts(job.name, job.namespace, job.uid)
    except ApiError as error:
        if not error.may_lack_path:
            raise
        return None
    return [_run(item) for item in found]


def _run(item: Document) -> Run:
    return Run(
        attempt=item["attempt"],
        pod=item["pod"],
        pod_uid=item["podUid"],
        containers=item["containers"],
        ended_at=item["endedAt"] or "",
        exit_code=item["exitCode"],
        reason=item["reason"],
    )


def to_stdout(piece: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


class Printer:
    """Writes the output of several streams to one place, in whole lines if streams are named."""

    def __init__(self, *, names_streams: bool, out: Out = to_stdout) -> None:
        self._names_streams, self._put = names_streams, out
        self._rests: dict[str, bytes] = {}  # the unfinished line of each stream

    def write(self, stream: str, piece: bytes) -> None:
        if not self._names_streams:
            self._out(piece)
            return
        *lines, rest = (self._rests.get(stream, b"") + piece).split(b"\n")
        self._rests[stream] = rest
        self._out(b"".join(b"[%s] %s\n" % (stream.encode(), line) for line in lines))

    def finish(self, stream: str) -> None:
        if self._rests.get(stream):
            self.write(stream, b"\n")

    def _out(self, piece: bytes) -> None:
        if piece:
            self._put(piece)


def is_past(arguments: argparse.Namespace) -> bool:
    return arguments.attempt is not None or bool(arguments.all_attempts)


def query_of(arguments: argparse.Namespace) -> dict[str, str]:
    """What is asked of the server's log."""
    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail {arguments.tail}: write 0 or more")
    asked = {
        "container": arguments.container or None,
        "tailLines": arguments.tail,
        "previous": "true" if arguments.previous else None,
        "timestamps": "true" if arguments.timestamps else None,
        "sinceSeconds": int(span_of("--since", arguments.since)) if arguments.since else None,
    }
    return {name: str(value) for name, value in asked.items() if value is not None}


def chosen_runs(job: str, runs: Sequence[Run], arguments: argparse.Namespace) -> list[Run]:
    """The runs that are asked for: of the last attempt, unless others are; at least one."""
    wanted = runs[-1].attempt if arguments.attempt is None else arguments.attempt
    chosen = [run for run in runs if arguments.all_attempts or run.attempt == wanted]
    if not chosen:
        raise RequestRefused(f"{job} has begun {runs[-1].attempt} times, not {wanted}")
    named = [run for run in chosen if arguments.pod in ("", run.pod)]
    if not named:
        names = ", ".join(run.pod for run in chosen)
        raise RequestRefused(f"{job} has no pod {arguments.pod}; it has {names}")
    return named


async def print_runs(
    client: Client,
    job: Whose,
    runs: Sequence[Run],
    arguments: argparse.Namespace,
    out: Out,
    *,
    called: str = "",
) -> None:
    """`called`: whose lines these are, where others are printed as well."""
    query, asked = query_of(arguments), arguments.container
    attempts = [run.attempt for run in runs]
    several = len(set(attempts)) < len(attempts) or any(len(run.containers) > 1 for run in runs)
    printer, told = Printer(names_streams=several or bool(called), out=out), 0
    for run in runs:
        if len(set(attempts)) > 1 and run.attempt != told:
            print(f"makeway: {run.text}", file=sys.stderr, flush=True)
        told = run.attempt
        for container in [asked] if asked else run.containers:
            whose = run.pod if several or not called else called
            stream = f"{whose}/{container}" if len(run.containers) > 1 else whose
            about = {"uid": job.uid, "pod": run.pod_uid, "container": container}
            async for piece in client.job_logs(job.name, job.namespace, {**query, **about}):
                printer.write(stream, piece)
            printer.finish(stream)

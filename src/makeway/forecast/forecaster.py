"""Forecasts beside a server, in a process of its own that can do nothing but reckon.

The server hands over its objects as they are stored, and gets back what to expect. The other
process is started for each forecast: it has the lowest priority, no rights, no file, no connection
and no token, and is not a copy of the server. Whoever asks gets the last forecast at once, with its
age; a new one is begun when something has changed since, and no more often than the machine's
spare time allows. Scheduling never waits for any of this.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from makeway.api.codec import decode_as, encode
from makeway.api.configuration import Configuration
from makeway.api.times import format_time
from makeway.beside import Beside
from makeway.engine.model import WorkloadKey
from makeway.forecast.forecasting import JobForecast, Question, Range, Verdict, forecast
from makeway.forecast.live import LiveState, live_state
from makeway.forecast.recorded_past import ended_jobs, newest_segments
from makeway.journal.coding import Unreadable
from makeway.journal.file import JournalError
from makeway.journal.records import WrittenSegment
from makeway.logs import Fields
from makeway.sim.trace_jobs import SimulationError
from makeway.translate.words import waiting_message

log = logging.getLogger("makeway.forecast.forecaster")

Document = dict[str, Any]
NICE = 19
TIME_MAX_S = 600.0  # for one forecast, by the clock: others go first
CPU_MAX_S, RUNS_LEAST = 40.0, 5  # after so much time so many runs are enough
WAITING_MAX = 1000  # whom a forecast is made for, of those who wait
TOO_FAR = f"more than {WAITING_MAX} came before it and wait"
MEMORY_MAX_BYTES = 4 << 30
MEMORY_MAX = "MAKEWAY_MEMORY_MAX"  # bytes, of the other process
REST_FACTOR = 4.0  # so many times as long as a forecast took there is no other
REST_LEAST_S = 2.0
STALE_S = 60.0  # after that time has made it another, though nothing has changed
NOBODY = 65534
API_VERSION = "makeway.dev/v1"
COMING = "Coming"  # in place of a verdict: there is none yet


# --- the server's side ---


class Made(NamedTuple):
    """A forecast, and of which state."""

    answer: Document
    state: object
    at: float  # by the server's clock


class Forecaster:
    def __init__(
        self,
        objects: Callable[[], Iterable[bytes]],
        clock: Callable[[], float],
        configuration: Configuration,
        state: Callable[[], object],
        spare: Callable[[int], None] | None = None,
        journal: Path | None = None,
        waits_for: Callable[[Iterable[str]], Mapping[str, str]] = lambda keys: {},
    ) -> None:
        """`objects` are all of the kinds in `live.READ`, as they are when it is called; what it
        gives is gone through in a thread.

        `state` answers the same as long as who waits and who runs is the same.
        `spare` is told of each process that is started, so that nobody ends it as a stray.
        `journal` tells of jobs that are deleted; None: there is none.
        `waits_for` tells of workloads that can't run what somebody may do about it.
        """
        self._journal, self._waits_for = journal, waits_for
        self._objects, self._clock, self._state = objects, clock, state
        self._configuration = json.dumps(encode(configuration)).encode()
        self._made: Made | None = None
        self._making: asyncio.Task[None] | None = None
        self._beside = Beside(__name__, nice=NICE, time_max_s=TIME_MAX_S, spare=spare)
        self._rests_until = 0.0
        self._failure = ""  # why the last one was not made; empty: it was

    def _latest(self) -> Made | None:
        """The last forecast. If the state is another by now, the next one is begun."""
        made, now = self._made, self._clock()
        is_due = made is None or made.state != self._state() or now - made.at > STALE_S
        if is_due and self._making is None and time.monotonic() >= self._rests_until:
            self._making = asyncio.get_running_loop().create_task(self._make())
        return made

    def one(self, namespace: str, name: str) -> Document:
        """What to expect of one workload, as far as the last forecast tells."""
        key, made = f"{namespace}/{name}", self._latest()
        return self._document(key, made, self._excuses([key], made))

    def all(self, namespace: str) -> Document:
        """What to expect of everybody in a namespace; of all of them, if it is empty."""
        made = self._latest()
        known = [] if made is None else made.answer["items"]
        keys = [key for key in known if namespace in ("", key.partition("/")[0])]
        excuses = self._excuses(keys, made)
        return {
            "apiVersion": API_VERSION,
            "kind": "ForecastList",
            **self._heading(made),
            "items": [self._document(key, made, excuses) for key in keys],
        }

    def _excuses(self, keys: Iterable[str], made: Made | None) -> Mapping[str, str]:
        """Why they can't run now, of those that only seem never to run."""
        items = {} if made is None else made.answer["items"]
        never = [k for k in keys if items.get(k, {}).get("verdict") == Verdict.NEVER.value]
        return self._waits_for(never) if never else {}

    def _document(self, key: str, made: Made | None, excuses: Mapping[str, str]) -> Document:
        namespace, _, name = key.partition("/")
        item = {} if made is None else made.answer["items"].get(key, {})
        if key in excuses:
            item = {"verdict": Verdict.UNKNOWN.value, "message": excuses[key]}
        return {
            "apiVersion": API_VERSION,
            "kind": "Forecast",
            "metadata": {"name": name, "namespace": namespace},
            **self._heading(made),
            **(item or self._no_verdict()),
        }

    def _no_verdict(self) -> Document:
        if not self._failure:
            return {"verdict": COMING}
        return {"verdict": Verdict.UNKNOWN.value, "failure": self._failure}

    def _heading(self, made: Made | None) -> Document:
        if made is None:
            return {}
        return {
            "madeAt": format_time(made.at),
            "ageSeconds": round(max(0.0, self._clock() - made.at), 3),
            "isCurrent": made.state == self._state(),
            "runs": made.answer["runs"],
            **{name: made.answer[name] for name in ("past",) if name in made.answer},
            "assumptions": made.answer["assumptions"],
        }

    async def stop(self) -> None:
        self._beside.stop()
        if self._making is not None:
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(self) -> None:
        at, began, state = self._clock(), time.monotonic(), self._state()
        try:
            answer = await asyncio.to_thread(self._ask, at, self._objects())
            self._made, self._failure = Made(answer, state, at), ""
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            log.warning(Fields(forecast="failed", error=error))
            self._fail(error)
        finally:
            took_s = time.monotonic() - began
            self._rests_until = time.monotonic() + max(REST_LEAST_S, REST_FACTOR * took_s)
            self._making = None

    def _fail(self, error: Exception) -> None:
        """What is known gets old, and then nothing is; error texts may name anybody's jobs."""
        if str(error) == "MemoryError":
            self._failure = "too little memory is left to reckon it"
        elif isinstance(error, subprocess.TimeoutExpired):
            self._failure = f"to reckon it takes more than {TIME_MAX_S:g} s"
        else:
            self._failure = "it can't be reckoned; the server's log says why"
        if self._made is not None and self._clock() - self._made.at > STALE_S:
            self._made = None

    def _ask(self, at: float, bodies: Iterable[bytes]) -> Document:
        """In a thread: hand all objects over as they are; nothing is decoded here."""
        head = b'{"now":%r,"configuration":%s,"documents":[' % (at, self._configuration)
        past = json.dumps(_written(self._journal)).encode()
        question = b"".join((head, b",".join(bodies), b'],"journal":', past, b"}"))
        return self._beside.ask(question, {MEMORY_MAX: str(memory_max())})


def memory_max(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """How much the other process may take: in a container it must not get all of us killed.

    Pages of files that nobody used lately count as used, but the kernel gives them up.
    """
    try:
        most = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        used -= int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):  # there is no limit, or not here
        return MEMORY_MAX_BYTES
    return min(MEMORY_MAX_BYTES, max(0, most - used) * 3 // 4)


def _written(journal: Path | None) -> list[list[str]]:
    """The newest segments of a journal, as they are written; none where there is no journal."""
    if journal is None:
        return []
    try:
        newest = newest_segments(journal)
    except JournalError:
        return []  # whoever writes it has said so
    except (sqlite3.Error, Unreadable) as error:
        log.warning(Fields(forecast="without the journal", error=error))
        return []
    return [
        [base64.b64encode(part).decode() for part in (segment.header, *segment.chunks)]
        for segment in newest
    ]


# --- the other process ---


def _segments(question: Mapping[str, Any]) -> Iterator[WrittenSegment]:
    for written in question.get("journal", ()):
        header, *chunks = map(base64.b64decode, written)
        yield WrittenSegment(header, chunks)


def answer(question: Mapping[str, Any]) -> Document:
    """What to expect of everybody who waits or runs."""
    configuration = decode_as(Configuration, question["configuration"]).object
    assert configuration is not None
    now, began_s = float(question["now"]), time.process_time()

    def is_enough(runs: int) -> bool:
        """On a state so large that it takes long, few runs are better than none."""
        return runs >= RUNS_LEAST and time.process_time() - began_s > CPU_MAX_S

    recorded = ended_jobs(_segments(question))
    live = live_state(question["documents"], now, configuration, recorded)
    asked, too_far = _asked(live)
    try:
        situation = live.situation(live.cluster())
    except SimulationError as error:
        return {"runs": 0, "assumptions": [str(error)], "items": {}}
    found = forecast(situation, Question(asked=asked, is_enough=is_enough))
    return {
        "runs": found.runs,
        "until": format_time(now + found.until),
        "assumptions": list(found.assumptions),
        "past": _past(live),
        "items": {
            **{key: _item(job, now) for key, job in found.jobs.items()},
            **{key: {"verdict": Verdict.UNKNOWN.value, "message": TOO_FAR} for key in too_far},
        },
        "cpuSeconds": time.process_time() - began_s,
    }


def _past(live: LiveState) -> Document:
    """From whom run times are taken, and the days of who else comes."""
    since = min((one.job.job.submit_s for one in live.ended), default=0.0)
    return {
        "jobs": len(live.ended),
        "deletedJobs": sum(one.is_gone for one in live.ended),
        "since": format_time(live.now + since),
    }


def _asked(live: LiveState) -> tuple[list[WorkloadKey], list[WorkloadKey]]:
    """Whom a forecast is made for, and who waits too far behind."""
    jobs = live.beginning.jobs
    waiting = [job.workload.key for job in jobs if job.status.assignment is None]
    holding = [job.workload.key for job in jobs if job.status.assignment is not None]
    return [*holding, *waiting[:WAITING_MAX]], waiting[WAITING_MAX:]


def _item(job: JobForecast, now: float) -> Document:
    item: Document = {"verdict": job.verdict.value}
    if job.start is not None:
        item["start"] = _times(job.start, now)
    if job.end is not None:
        item["end"] = _times(job.end, now)
    if job.basis:
        item["basis"] = job.basis
    if job.obstacles:
        item["message"] = waiting_message(job.obstacles)
    elif job.hidden:
        # By number: whose they are is not for everybody.
        item["message"] = f"nothing is known of how long {len(job.hidden)} of the jobs there run"
    elif job.verdict is Verdict.UNKNOWN:
        item["message"] = "it is held, or was given up: it waits for somebody to let it go on"
    return item


def _times(span: Range, now: float) -> dict[str, str | None]:
    """Null is beyond the horizon."""
    return {
        name: None if at == inf else format_time(now + at)
        for name, at in zip(span._fields, span, strict=True)
    }


def give_up_rights() -> None:
    """From here on this process can reckon, and little else."""
    most = int(os.environ.get(MEMORY_MAX, MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with contextlib.suppress(ValueError):  # fewer are allowed than are open
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    give_up_rights()
    question = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(answer(question)))

"""How long jobs run, as far as the past tells: a small model that can be explained in a sentence.

Of a job we know who sent it, its name, what it asks for, its queue and its limit. We look at those
before it that were like it in all of that, then in less and less (`LEVELS`): of those who have run
as long as it has, which part ended in the next stretch of time (`life_tables`). Who still runs
counts as well: of many jobs that came together the short ones end first, and of those who run for
days most have not ended yet. Nobody runs beyond its limit.

Jobs of one kind that are there at the same time are often parts of one piece of work, and short or
long together: within one run of a forecast their luck has a part in common (`correlation`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from math import inf
from re import compile as compile_pattern
from statistics import NormalDist
from typing import NamedTuple, Protocol

from makeway.engine.model import Workload, WorkloadKey
from makeway.forecast.life_tables import LEAST_S, LifeTable, Lives, life_table
from makeway.sim.seeded_random import SeededRandom
from makeway.sim.trace_jobs import TraceJob

# What jobs have in common with one another: the user, the name, the shape, the limit, the queue. Of
# deleted jobs neither user nor limit is known; they count where these are not asked for.
_LEVELS: tuple[tuple[str, str], ...] = (
    ("UNSLQ", "jobs of the same user, name, shape and limit"),
    ("UNLQ", "jobs of the same user, name and limit"),
    ("USLQ", "jobs of the same user, shape and limit"),
    ("ULQ", "jobs of the same user and limit"),
    ("NSLQ", "jobs of the same queue, name, shape and limit"),
    ("SLQ", "jobs of the same queue, shape and limit"),
    ("LQ", "jobs of the same queue and limit"),
    ("L", "jobs of the same limit"),
    ("UNSQ", "jobs of the same user, name and shape"),
    ("UNQ", "jobs of the same user and name"),
    ("NSQ", "jobs of the same queue, name and shape"),
    ("USQ", "jobs of the same user and shape"),
    ("UQ", "jobs of the same user"),
    ("SQ", "jobs of the same queue and shape"),
    ("Q", "jobs of the same queue"),
    ("", "all jobs"),
)
LEVELS = tuple(words for _, words in _LEVELS)
BY_LIMIT = "its limit alone"
BY_ITSELF = "what it has run by now, longer than any before it: as often as not as long again"
NOT_KNOWN = "nothing"
OVERDUE_S = 60.0  # a job beyond its limit is about to be ended
_NORMAL = NormalDist()
_MADE_UP = compile_pattern(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_Key = tuple[object, ...]  # a kind of jobs


class PastJob(NamedTuple):
    """A job that has come; its run time is infinite as long as it is not known."""

    job: TraceJob
    workload: Workload


class ModelSettings(NamedTuple):
    """Chosen on the first halves of recorded traces; docs/forecast.md has the figures."""

    recent: int = 50  # so many of a kind that have ended count, the latest
    few: float = 3.0  # jobs of a kind tell as much as all of the next coarser kind
    correlation: float = 0.7  # of the luck of jobs of one kind


class Luck:
    """The draws of one run of a forecast; the same seed and names give the same."""

    def __init__(self, seed: int, correlation: float) -> None:
        self._random = SeededRandom(seed)
        self._shared, self._own = correlation**0.5, (1.0 - correlation) ** 0.5
        self._of_kind: dict[object, float] = {}

    def draw(self, kind: tuple[object, ...], key: WorkloadKey) -> float:
        """A number between 0 and 1: how long a job runs among its like."""
        if kind not in self._of_kind:
            self._of_kind[kind] = self._random.named("kind", *kind).gauss(0.0, 1.0)
        own = self._random.named("job", key).gauss(0.0, 1.0)
        return _NORMAL.cdf(self._shared * self._of_kind[kind] + self._own * own)


class RunTimeRule(Protocol):
    """A way to say how long a job will have run in the end."""

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float: ...


class RunTimes:
    def __init__(self, settings: ModelSettings | None = None) -> None:
        self.settings = settings or ModelSettings()
        self._ended: dict[_Key, deque[float]] = {}  # by kind: how long the latest ran
        self._running: dict[_Key, list[float]] = {}  # by kind: how long they have run by now
        # What was asked for since something was learnt.
        self._tables: dict[_Key, LifeTable] = {}
        self._lives: dict[tuple[_Key, ...], Lives] = {}
        self.count = 0

    def learn(self, past: PastJob) -> None:
        """A job has ended; to be told in the order in which they do."""
        self.count += 1
        self._lives.clear()
        for key in _keys(past).values():
            latest = self._ended.get(key)
            if latest is None:
                latest = self._ended[key] = deque(maxlen=self.settings.recent)
            latest.append(max(LEAST_S, past.job.run_s))
            self._tables.pop(key, None)

    def see_running(self, running: Iterable[tuple[PastJob, float]]) -> None:
        """Who runs now, and for how long by now; in place of those who were seen before."""
        self._running, self._tables, self._lives = {}, {}, {}
        for past, ran_s in running:
            for key in _keys(past).values():
                self._running.setdefault(key, []).append(ran_s)

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float:
        place = luck.draw(_kind(job), job.workload.key)
        limit_s = job.job.requested_s or inf
        if ran_s >= limit_s:
            return ran_s + OVERDUE_S
        lives = self._lives_of(job)
        if lives.shortest_s > limit_s or not self.count:
            return _between(max(ran_s, limit_s / 20.0), limit_s, place)
        return lives.run_s(place, ran_s, limit_s)

    def basis(self, job: PastJob, ran_s: float = 0.0) -> str:
        """Who tells most about a job."""
        limit_s, found = job.job.requested_s or inf, ""
        for level, key in _keys(job).items() if self.count else ():
            like = chain(self._ended.get(key, ()), self._running.get(key, ()))
            number = sum(ran_s < like_s <= limit_s for like_s in like)
            found = f"{level} ({number})" if number else found
            if number >= self.settings.few:
                break
        if found:
            return found
        if limit_s < inf:
            return BY_LIMIT
        return BY_ITSELF if self.count and ran_s else NOT_KNOWN

    def _lives_of(self, job: PastJob) -> Lives:
        keys = tuple(_keys(job).values())
        found = self._lives.get(keys)
        if found is None:
            found = self._lives[keys] = Lives([*self._tables_of(keys)], self.settings.few)
        return found

    def _tables_of(self, keys: Iterable[_Key]) -> Iterator[LifeTable]:
        """A coarser kind that has nobody new tells nothing new."""
        last = None
        for key in keys:
            if key in self._ended or key in self._running:
                table = self._table(key)
                if table != last:
                    yield table
                last = table

    def _table(self, key: _Key) -> LifeTable:
        found = self._tables.get(key)
        if found is None:
            ended, running = self._ended.get(key, ()), self._running.get(key, ())
            found = self._tables[key] = life_table(ended, running)
        return found


def _kind(past: PastJob) -> tuple[object, ...]:
    job, workload = past
    return (job.user, _work(job), workload.local_queue, _shape(workload))


def _keys(past: PastJob) -> dict[str, _Key]:
    """What stands for each of LEVELS; without a user or a limit some are missing."""
    job, workload = past
    told: dict[str, object] = {
        "U": job.user or None,
        "N": _work(job),
        "S": _shape(workload),
        "L": job.requested_s,
        "Q": workload.local_queue,
    }
    keys = ((words, (level, *map(told.get, level))) for level, words in _LEVELS)
    return {words: key for words, key in keys if None not in key}


def _shape(workload: Workload) -> tuple[object, ...]:
    return tuple((pod_set.count, pod_set.requests) for pod_set in workload.pod_sets)


def _work(job: TraceJob) -> str:
    """What it does, as far as that is told: which program it runs, or what it is called."""
    return stem(job.program) or job.program or stem(job.name)


@lru_cache(maxsize=10_000)  # each run of a forecast asks for the same
def stem(name: str) -> str:
    """A name without what only tells it apart: `train-17`, `train-18`, `train-x7k2p` are one work.

    Letters like these last are added where a name is taken, or has none but its beginning.
    """
    name = _MADE_UP.sub("", name)
    return "".join(letter for letter in name if not letter.isdigit()).strip("-._~")


def _between(a: float, b: float, share: float) -> float:
    return b if b == inf else a * (b / a) ** share

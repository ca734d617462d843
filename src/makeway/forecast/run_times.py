"""How long jobs run, as far as the past tells: a small model that can be explained in a sentence.

Of a job we know who sent it, its name, what it asks for, its queue and its limit. We look at the
run times of those before it that were like it in all of that, then in less and less (`LEVELS`), and
draw from them. Whoever has run for a while is compared only with those that ran longer; if nobody
did, it runs as long again as often as not. Nobody runs beyond its limit. Few of a kind tell little:
with `n` of them, a draw goes to the next, coarser level with probability `k / (n + k)`.

Of many jobs that came together the short ones end first. Everybody is therefore compared with the
latest of its kind that have begun, not only with those that have ended: the ones that still run
count with how long they might run in the end, by the same rule. Who has run longer than any of its
kind that has ended is compared with coarser kinds: those who share its fate know no more.

Jobs of one kind that are there at the same time are often parts of one piece of work, and short or
long together: within one run of a forecast their luck has a part in common (`correlation`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import exp, inf, log
from re import compile as compile_pattern
from statistics import NormalDist
from typing import NamedTuple, Protocol

from makeway.engine.model import LocalQueueKey, Workload, WorkloadKey
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
    ("UNSQ", "jobs of the same user, name and shape"),
    ("UNQ", "jobs of the same user and name"),
    ("L", "jobs of the same limit"),
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
LEAST_S = 1.0
GOLDEN = (5**0.5 - 1) / 2  # its multiples are spread evenly between whole numbers
_NORMAL = NormalDist()
_MADE_UP = compile_pattern(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")


class PastJob(NamedTuple):
    """A job that has come; its run time is infinite as long as it is not known."""

    job: TraceJob
    workload: Workload


class ModelSettings(NamedTuple):
    """Chosen on the first halves of recorded traces; docs/forecast.md has the figures."""

    recent: int = 100  # so many of a kind count, the latest
    few: float = 10.0  # `k` above
    correlation: float = 0.7  # of the luck of jobs of one kind


class _Begun(NamedTuple):
    submit_s: float
    run_s: float  # in the end, or by now
    limit_s: float = inf


class _Like(NamedTuple):
    """Run times of those like a job on one level, of which samples[first:last] are possible."""

    level: str
    samples: Sequence[float]
    first: int
    last: int

    @property
    def number(self) -> int:
        return self.last - self.first


class Luck:
    """The draws of one run of a forecast; the same seed and names give the same."""

    def __init__(self, seed: int, correlation: float) -> None:
        self._random = SeededRandom(seed)
        self._shared, self._own = correlation**0.5, (1.0 - correlation) ** 0.5
        self._of_kind: dict[object, float] = {}

    def draw(self, kind: tuple[object, ...], key: WorkloadKey) -> tuple[float, float]:
        """Two numbers between 0 and 1: how long it runs among its like, and who these are."""
        if kind not in self._of_kind:
            self._of_kind[kind] = self._random.named("kind", *kind).gauss(0.0, 1.0)
        source = self._random.named("job", key)
        common, own = self._of_kind[kind], source.gauss(0.0, 1.0)
        return _NORMAL.cdf(self._shared * common + self._own * own), source.random()


class RunTimeRule(Protocol):
    """A way to say how long a job will have run in the end."""

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float: ...


class RunTimes:
    def __init__(self, settings: ModelSettings | None = None) -> None:
        self.settings = settings or ModelSettings()
        self._latest: dict[object, deque[_Begun]] = {}  # who has ended
        self._running: dict[object, list[_Begun]] = {}
        # What was asked for since it was learnt: of all who have begun, and of who has ended.
        self._begun: dict[object, list[float]] = {}
        self._ended: dict[object, list[float]] = {}
        self._like_known: dict[tuple[WorkloadKey, float, float], tuple[_Like, ...]] = {}
        self.count = 0

    def learn(self, past: PastJob) -> None:
        """A job has ended; to be told in the order in which they do."""
        self.count += 1
        self._like_known.clear()
        run_s = max(LEAST_S, past.job.run_s)
        for key in filter(None, _keys(past)):
            latest = self._latest.get(key)
            if latest is None:
                latest = self._latest[key] = deque(maxlen=self.settings.recent)
            latest.append(_Begun(past.job.submit_s, run_s))
            self._ended.pop(key, None)
            self._begun.pop(key, None)

    def see_running(self, running: Iterable[tuple[PastJob, float]]) -> None:
        """Who runs now, and for how long by now; in place of those who were seen before."""
        self._running, self._begun, self._like_known = {}, {}, {}
        for past, ran_s in running:
            for key in filter(None, _keys(past)):
                one = _Begun(past.job.submit_s, ran_s, past.job.requested_s or inf)
                self._running.setdefault(key, []).append(one)

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float:
        place, level = luck.draw(_kind(job), job.workload.key)
        limit_s = job.job.requested_s or inf
        if ran_s >= limit_s:
            return ran_s + OVERDUE_S
        found: _Like | None = None
        for found in self._like(job, ran_s, limit_s):
            share = found.number / (found.number + self.settings.few)
            if level < share:
                break
            level = (level - share) / (1.0 - share)
        if found is not None:
            run_s = _quantile(found.samples, found.first, found.last, place)
            return max(ran_s + LEAST_S, run_s)
        if limit_s < inf:
            return _between(max(ran_s, limit_s / 20.0), limit_s, place)
        return _in_the_end(ran_s, (), place) if self.count and ran_s else inf

    def basis(self, job: PastJob, ran_s: float = 0.0) -> str:
        """By whom most draws for a job are made."""
        limit_s, found = job.job.requested_s or inf, ""
        for like in self._like(job, ran_s, limit_s):
            found = f"{like.level} ({like.number})"
            if like.number >= self.settings.few:
                break
        if found or limit_s < inf:
            return found or BY_LIMIT
        return BY_ITSELF if self.count and ran_s else NOT_KNOWN

    def _like(self, job: PastJob, ran_s: float, limit_s: float) -> tuple[_Like, ...]:
        """Level by level; found once for all runs of a forecast."""
        question = (job.workload.key, ran_s, limit_s)
        found = self._like_known.get(question)
        if found is None:
            found = self._like_known[question] = tuple(self._find_like(job, ran_s, limit_s))
        return found

    def _find_like(self, job: PastJob, ran_s: float, limit_s: float) -> Iterator[_Like]:
        """A level that has nobody new tells nothing new."""
        known: Sequence[float] = ()
        for level, key in zip(LEVELS, _keys(job), strict=True):
            if key is None:
                continue
            samples = self._samples(key, ran_s)
            first, last = bisect_right(samples, ran_s), bisect_right(samples, limit_s)
            if last > first and samples[first:last] != known:
                known = samples[first:last]
                yield _Like(level, samples, first, last)

    def _samples(self, key: object, ran_s: float) -> list[float]:
        """Of those who have begun; of who has ended, where nobody of those has run so long."""
        ended = self._of_ended(key)
        return self._of_begun(key) if ended and ended[-1] > ran_s else ended

    def _of_ended(self, key: object) -> list[float]:
        found = self._ended.get(key)
        if found is None:
            latest = self._latest.get(key, ())
            found = self._ended[key] = sorted(one.run_s for one in latest)
        return found

    def _of_begun(self, key: object) -> list[float]:
        found = self._begun.get(key)
        if found is None:
            found = self._begun[key] = sorted(self._completed(key))
        return found

    def _completed(self, key: object) -> Iterator[float]:
        """Run times of the latest of a kind; of those who still run, as long as they might run."""
        ended, running = self._of_ended(key), self._running.get(key, ())
        if not ended or not running:
            yield from ended
            return
        both = [*((one, True) for one in self._latest[key]), *((one, False) for one in running)]
        both.sort(key=lambda each: each[0].submit_s)
        for number, (one, has_ended) in enumerate(both[-self.settings.recent :]):
            if has_ended:
                yield one.run_s
            else:
                yield min(_in_the_end(one.run_s, ended, number * GOLDEN % 1.0), one.limit_s)


def _kind(past: PastJob) -> tuple[str, str, LocalQueueKey, tuple[object, ...]]:
    job, workload = past
    return (job.user, _work(job), workload.local_queue, _shape(workload))


def _keys(past: PastJob) -> tuple[tuple[object, ...] | None, ...]:
    """What stands for each of LEVELS; None: without a user or a limit there is no such."""
    return _keys_of(*_kind(past), past.job.requested_s)


@lru_cache(maxsize=10_000)  # each run of a forecast asks for the same
def _keys_of(
    user: str,
    work: str,
    local_queue: LocalQueueKey,
    shape: tuple[object, ...],
    requested_s: float | None,
) -> tuple[tuple[object, ...] | None, ...]:
    told: dict[str, object] = {
        "U": user or None,
        "N": work,
        "S": shape,
        "L": requested_s,
        "Q": local_queue,
    }
    keys = ((level, *map(told.get, level)) for level, _ in _LEVELS)
    return tuple(None if None in key else key for key in keys)


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


def _in_the_end(ran_s: float, ended: Sequence[float], place: float) -> float:
    """How long one will have run that has run so long, among those that ran longer."""
    first = bisect_right(ended, ran_s)
    if first < len(ended):
        return _quantile(ended, first, len(ended), place)
    return max(ran_s, LEAST_S) / (1.0 - place)


def _quantile(samples: Sequence[float], first: int, last: int, place: float) -> float:
    """Of samples[first:last]; between two of them by their logarithm."""
    at = min(max(place * (last - first + 1) - 1.0, 0.0), last - first - 1.0)
    low = int(at)
    a = samples[first + low]
    b = samples[min(first + low + 1, last - 1)]
    return _between(a, b, at - low)


def _between(a: float, b: float, share: float) -> float:
    if a == b or b == inf:
        return b
    a = max(a, LEAST_S)
    return exp(log(a) + share * (log(max(b, LEAST_S)) - log(a)))

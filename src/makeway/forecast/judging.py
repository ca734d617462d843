"""How good forecasts are: a trace is played, and at random moments they are asked for.

Whoever is asked knows what had happened by then and nothing else: who had come, how long those ran
that had ended, how long the others had run. Later the jobs start, and each forecast is compared
with that. The same questions are put to rules that others go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from statistics import median
from typing import NamedTuple

from makeway.engine.model import WorkloadKey
from makeway.forecast.arrivals import Arrivals, ArrivalSettings
from makeway.forecast.forecasting import (
    HORIZON_S,
    Question,
    Range,
    Situation,
    Verdict,
    forecast,
    running_in,
)
from makeway.forecast.reference_rules import LastTwoRule, LimitRule
from makeway.forecast.run_times import Luck, ModelSettings, PastJob, RunTimeRule, RunTimes
from makeway.sim.beginning import beginning_of
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Arrival
from makeway.sim.record import JobOutcome, JobRun
from makeway.sim.seeded_random import SeededRandom
from makeway.sim.trace_jobs import Trace, TraceJob
from makeway.sim.world import World

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
AT_ONCE_S = MINUTE_S  # who starts within so much time is not judged
DISTANCES = {"< 10 min": 10 * MINUTE_S, "< 1 h": HOUR_S, "< 1 day": DAY_S, "longer": inf}
LIMITS_S = (
    *(MINUTE_S * minutes for minutes in (5, 10, 15, 30)),
    *(HOUR_S * hours for hours in (1, 2, 4, 6, 8, 12)),
    *(DAY_S * days for days in (1, 2, 3, 5, 7, 14, 30, 60, 90, 180, 365)),
)
LIMIT_FACTOR_MAX = 20.0
MODEL_DEFAULTS, ARRIVAL_DEFAULTS = ModelSettings(), ArrivalSettings()
MODEL, LIMIT, LAST_TWO, ALONE = "forecast", "limit", "last two jobs", "nobody else comes"
REFERENCES = (LIMIT, LAST_TWO)  # what schedulers go by: a point each, and nobody else comes
# Who knows what nobody can know: how much better a forecast could be at most.
ARRIVALS_KNOWN, RUN_TIMES_KNOWN = "who comes is known", "run times are known"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    moments: int = 40
    jobs: int = 25  # asked about at each moment, at most
    runs: int = 20
    seed: int = 0
    since: float = 0.5  # the share of the time of the trace from which on moments are drawn ...
    until: float = 1.0  # ... and to which
    horizon_s: float = HORIZON_S
    has_bounds: bool = False  # also of forecasts that know the future
    model: ModelSettings = MODEL_DEFAULTS
    arrivals: ArrivalSettings = ARRIVAL_DEFAULTS


class Judged(NamedTuple):
    """One forecast, and what came."""

    rule: str
    key: WorkloadKey
    asked_at: float
    expected: Range  # of the start
    started_at: float
    until: float = inf  # the horizon: whoever starts later was rightly said to start "later"

    @property
    def is_covered(self) -> bool:
        return min(self.expected.p10, self.until) <= self.started_at <= self.expected.p90

    @property
    def error_s(self) -> float:
        if self.expected.p50 == inf:
            return max(0.0, self.until - self.started_at)
        return abs(self.expected.p50 - self.started_at)

    @property
    def width_s(self) -> float:
        return 0.0 if self.expected.p10 == inf else self.expected.p90 - self.expected.p10


def with_limits(trace: Trace, seed: int) -> tuple[Trace, int]:
    """Jobs without a limit get one; also how many did.

    It is 1 to 20 times the run time, small factors being as likely as large ones on a logarithmic
    scale, rounded up to a value that people write.
    """
    made = 0
    jobs = []
    random = SeededRandom(seed)
    for job in trace.jobs:
        if job.requested_s is None:
            made += 1
            job = job._replace(requested_s=_made_limit_s(job, random))
        jobs.append(job)
    return replace(trace, jobs=tuple(jobs)), made


def _made_limit_s(job: TraceJob, random: SeededRandom) -> float:
    factor = exp(random.named("limit", job.name).uniform(0.0, log(LIMIT_FACTOR_MAX)))
    wanted = factor * job.run_s
    round_values = (limit for limit in LIMITS_S if limit >= wanted)
    return next(round_values, max(job.run_s, LIMITS_S[-1]))


class ArrivalsKnown(Arrivals):
    """Those come who will."""

    def __init__(self, world: World) -> None:
        super().__init__((), world.now)
        self._coming = [run for run in world.demand.runs if run.job.submit_s > world.now]
        self._demand = world.demand

    def drawn(
        self, since: float, until: float, rule: RunTimeRule, luck: Luck, seed: int
    ) -> list[Arrival]:
        return [
            Arrival(run.job, self._demand.workload(run))
            for run in self._coming
            if since <= run.job.submit_s < until
        ]


class RunTimesKnown:
    """Those who are there run as long as they will."""

    def __init__(self, world: World) -> None:
        self._run_s = {run.job.name: run.job.run_s for run in world.demand.runs}

    def run_s(self, job: PastJob, ran_s: float, luck: Luck) -> float:
        return self._run_s[job.job.name]


class Learner:
    """What is known of a simulation in progress, moment by moment."""

    def __init__(self, world: World, settings: JudgeSettings) -> None:
        self._world, self._settings = world, settings
        self.run_times = RunTimes(settings.model)
        self.last_two = LastTwoRule()
        self.run_times_known = RunTimesKnown(world)
        self._learnt: set[int] = set()

    def situation(self) -> Situation:
        world = self._world
        ended = [run for run in world.record.runs if self._is_news(run)]
        for run in sorted(ended, key=lambda run: (run.ended_at or 0.0, run.index)):
            self._learnt.add(run.index)
            self.run_times.learn(self._past_job(run))
            self.last_two.learn(self._past_job(run))
        past = [self._past_job(run) for run in world.record.runs]
        beginning = beginning_of(world)
        self.run_times.see_running(running_in(beginning))
        return Situation(
            cluster=world.cluster,
            beginning=beginning,
            run_times=self.run_times,
            arrivals=Arrivals(past, world.now, self._settings.arrivals),
        )

    def arrivals_known(self) -> ArrivalsKnown:
        return ArrivalsKnown(self._world)

    def _is_news(self, run: JobRun) -> bool:
        return run.outcome is JobOutcome.FINISHED and run.index not in self._learnt

    def _past_job(self, run: JobRun) -> PastJob:
        is_known = run.outcome is JobOutcome.FINISHED
        job = run.job._replace(run_s=run.job.run_s if is_known else inf, cancel_s=None, run_on=())
        return PastJob(job, self._world.demand.workload(run))


Tell = Callable[[int, int], bool]  # how many moments are done, of how many; whether to go on


def judge(
    cluster: SimulatedCluster,
    trace: Trace,
    settings: JudgeSettings,
    queue: str | None = None,
    tell: Tell | None = None,
) -> list[Judged]:
    """Forecasts at random moments of a trace, and what became of them."""
    world = World(cluster, trace, settings.seed, queue=queue)
    learner = Learner(world, settings)
    expected: list[tuple[str, float, WorkloadKey, Range]] = []
    moments = _moments(trace, settings)
    for done, at in enumerate(moments):
        world.run(at)
        asked = _asked(world, settings)
        if asked:
            expected += _forecasts(learner, asked, settings)
        if tell is not None and not tell(done + 1, len(moments)):
            break
    wanted = {key for _, _, key, _ in expected}
    runs = [run for run in world.record.runs if run.key in wanted]
    world.run(watch=lambda _: any(run.first_run_at is None and not run.ended_at for run in runs))
    started = {run.key: run.first_run_at for run in runs}
    return [
        Judged(rule, key, at, span, began, at + settings.horizon_s)
        for rule, at, key, span in expected
        if (began := started[key]) is not None and began - at > AT_ONCE_S
    ]


def _moments(trace: Trace, settings: JudgeSettings) -> list[float]:
    draws = SeededRandom(settings.seed).named("moments")
    last = trace.jobs[-1].submit_s
    return sorted(
        draws.uniform(settings.since * last, settings.until * last) for _ in range(settings.moments)
    )


def _asked(world: World, settings: JudgeSettings) -> list[WorkloadKey]:
    """Some of those who wait and have never run."""
    waiting = [run.key for run in world.runs.values() if run.first_run_at is None]
    draws = SeededRandom(settings.seed).named("asked", world.now)
    return draws.sample(waiting, min(settings.jobs, len(waiting)))


def _forecasts(
    learner: Learner, asked: Sequence[WorkloadKey], settings: JudgeSettings
) -> Iterator[tuple[str, float, WorkloadKey, Range]]:
    situation = learner.situation()
    informed = replace(situation, arrivals=learner.arrivals_known())
    question = Question(
        asked=asked, runs=settings.runs, seed=settings.seed, horizon_s=settings.horizon_s
    )
    alone = replace(question, others_come=False)
    rules: dict[str, tuple[Situation, Question]] = {
        MODEL: (situation, question),
        LIMIT: (situation, replace(alone, runs=1, rule=LimitRule())),
        LAST_TWO: (situation, replace(alone, runs=1, rule=learner.last_two)),
        ALONE: (situation, alone),
    }
    if settings.has_bounds:
        rules[ARRIVALS_KNOWN] = (informed, question)
        rules[RUN_TIMES_KNOWN] = (situation, replace(question, rule=learner.run_times_known))
    for name, (known, one) in rules.items():
        for key, answer in forecast(known, one).jobs.items():
            if answer.verdict is Verdict.EXPECTED and answer.start is not None:
                yield name, situation.beginning.at, key, answer.start


class Score(NamedTuple):
    """How good the forecasts of one rule were, of those whose median lay in one distance."""

    rule: str
    distance: str
    number: int
    coverage: float  # the share of the starts within the 80 % interval
    width_s: float  # the median of these intervals
    error_s: float  # the median distance of p50 from the start


def scores(judged: Iterable[Judged]) -> list[Score]:
    """Per rule, for all and by distance as the rule itself saw it."""
    judged = list(judged)
    found = []
    for rule in dict.fromkeys(one.rule for one in judged):
        own = [one for one in judged if one.rule == rule]
        found.append(_score(rule, "all", own))
        for distance in DISTANCES:
            if near := [one for one in own if _distance(one) == distance]:
                found.append(_score(rule, distance, near))
    return found


def _distance(one: Judged) -> str:
    ahead_s = one.expected.p50 - one.asked_at
    return next((name for name, most in DISTANCES.items() if ahead_s < most), "longer")


def _score(rule: str, distance: str, judged: Sequence[Judged]) -> Score:
    return Score(
        rule,
        distance,
        len(judged),
        sum(one.is_covered for one in judged) / len(judged),
        median(one.width_s for one in judged),
        median(one.error_s for one in judged),
    )

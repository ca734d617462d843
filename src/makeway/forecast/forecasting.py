"""When a job will start and end: the simulator runs forward from the present, many times.

Each run draws how long everybody runs and who else comes, and is played by the engine that decides
in production. What comes out is counted: of a hundred runs, in how many did the job start by then.
A run is over when all jobs that were asked about have started; how they end follows from there. Of
a long line the last few take as long as all the others, so only the first runs wait for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple

from makeway.engine.explain import Obstacle
from makeway.engine.model import Phase, WorkloadKey
from makeway.forecast.arrivals import DAY_S, Arrivals
from makeway.forecast.run_times import NOT_KNOWN, Luck, PastJob, RunTimeRule, RunTimes
from makeway.sim.beginning import Beginning, OpenJob
from makeway.sim.cluster import SimulatedCluster
from makeway.sim.continuation import Continuation
from makeway.sim.fitting import EmptyCluster
from makeway.sim.garbage import seldom_collected
from makeway.sim.record import JobRun
from makeway.sim.world import World

RUNS = 20
HORIZON_S = 3 * 86_400.0  # what is later than that is "later"
LINE_MIN = 100  # so many wait that the last of them are not waited for in every run
WHOLE_RUNS = 9  # in which they are; of nine draws, the next is between them in 80 of 100 cases
LAST_OF = 10  # one of so many in line is among the last
MOMENTS_BETWEEN_COUNTS = 32
ALONE = "assuming nobody else comes: less than a day of the past is known"


Times = tuple[float, float]  # of a job's next start and of its end; infinite: not by the horizon


class Verdict(Enum):
    EXPECTED = "Expected"  # there are times
    NEVER = "Never"  # it would wait even if nobody else were there
    UNKNOWN = "Unknown"  # it depends on somebody's doing, or on what nobody has seen


class Range(NamedTuple):
    """One in ten is before p10, nine of ten are before p90; infinite: beyond the horizon."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForecast:
    key: WorkloadKey
    verdict: Verdict
    start: Range | None = None  # of its first run; None where nothing is expected
    end: Range | None = None
    basis: str = ""  # by whom its own run time is drawn
    obstacles: tuple[Obstacle, ...] = ()  # why never, or what has to be done first
    hidden: tuple[WorkloadKey, ...] = ()  # it depends on these, and nobody knows how long they run


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    at: float
    until: float  # the horizon
    runs: int
    assumptions: tuple[str, ...]
    jobs: dict[WorkloadKey, JobForecast]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known at a moment."""

    cluster: SimulatedCluster
    beginning: Beginning
    run_times: RunTimes
    arrivals: Arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    asked: Sequence[WorkloadKey]
    runs: int = RUNS
    seed: int = 0
    horizon_s: float = HORIZON_S
    others_come: bool = True
    rule: RunTimeRule | None = None  # None: the model of the situation
    # Whether so many runs have to do, though more were asked for.
    is_enough: Callable[[int], bool] = lambda done: False


def running_in(beginning: Beginning) -> Iterator[tuple[PastJob, float]]:
    """Who runs at a beginning, and for how long by then."""
    for job in beginning.jobs:
        if job.run_from is not None:
            yield PastJob(job.job, job.workload), job.ran_s(beginning.at)


def forecast(situation: Situation, question: Question) -> Forecast:
    """What to expect of the jobs asked about. The same state and seed give the same answer."""
    beginning = situation.beginning
    until = beginning.at + question.horizon_s
    answers = _answers_at_once(situation, question.asked)
    in_question = [key for key in question.asked if key not in answers]
    courses: list[dict[WorkloadKey, Times]] = []
    with seldom_collected():
        while len(courses) < question.runs and not question.is_enough(len(courses)):
            courses.append(_course(situation, question, in_question, until, len(courses)))
    bases = {job.workload.key: _basis(situation, job) for job in beginning.jobs}
    hidden = tuple(key for key, basis in bases.items() if basis == NOT_KNOWN)
    for key in in_question:
        answers[key] = _answer(key, _draws(key, courses), bases[key], hidden)
    return Forecast(
        at=beginning.at,
        until=until,
        runs=len(courses),
        assumptions=(ALONE,) if question.others_come and not situation.arrivals.days else (),
        jobs={key: answers[key] for key in question.asked},
    )


def _draws(key: WorkloadKey, courses: Sequence[dict[WorkloadKey, Times]]) -> list[Times]:
    """When it starts and ends in each run; if some were over before, in those that were not cut."""
    if any(key not in course for course in courses):
        courses = courses[:WHOLE_RUNS]
    return [course[key] for course in courses]


def _answer(
    key: WorkloadKey, times: Sequence[Times], basis: str, hidden: tuple[WorkloadKey, ...]
) -> JobForecast:
    start, end = quantiles([time[0] for time in times]), quantiles([time[1] for time in times])
    if start.p50 == inf and hidden:
        return JobForecast(key=key, verdict=Verdict.UNKNOWN, basis=basis, hidden=hidden)
    return JobForecast(
        key=key,
        verdict=Verdict.EXPECTED,
        start=start,
        end=end if end.p10 < inf else None,
        basis=basis,
    )


def _basis(situation: Situation, job: OpenJob) -> str:
    past = PastJob(job.job, job.workload)
    return situation.run_times.basis(past, job.ran_s(situation.beginning.at))


def _answers_at_once(
    situation: Situation, asked: Sequence[WorkloadKey]
) -> dict[WorkloadKey, JobForecast]:
    """For jobs that no run of the simulator would tell more about."""
    cluster, beginning = situation.cluster, situation.beginning
    jobs = {job.workload.key: job for job in beginning.jobs}
    present = {key: job.job for key, job in jobs.items()}
    world = World(cluster, Continuation(cluster, beginning, present))
    world.run(beginning.at)
    view = world.engine.view
    empty = EmptyCluster(cluster)
    found = {}
    for key in asked:
        workload = jobs[key].workload
        if view[key].phase is Phase.INACTIVE:
            found[key] = JobForecast(key=key, verdict=Verdict.UNKNOWN)
        if view[key].phase is not Phase.PENDING:
            continue
        never = empty.why_never(workload, (workload.local_queue, workload.pod_sets))
        if never is not None:
            found[key] = JobForecast(key=key, verdict=Verdict.NEVER, obstacles=never.obstacles)
        elif (why := view.why_outside(key)) is not None:
            found[key] = JobForecast(key=key, verdict=Verdict.UNKNOWN, obstacles=(why,))
    return found


def _course(
    situation: Situation,
    question: Question,
    asked: Sequence[WorkloadKey],
    until: float,
    number: int,
) -> dict[WorkloadKey, Times]:
    """One run: when the jobs asked about start and end in it, but for those it did not wait for."""
    cluster, beginning = situation.cluster, situation.beginning
    seed = question.seed * 1_000_003 + number
    rule = question.rule or situation.run_times
    luck = Luck(seed, situation.run_times.settings.correlation)
    jobs = {
        job.workload.key: job.job._replace(
            run_s=rule.run_s(PastJob(job.job, job.workload), job.ran_s(beginning.at), luck)
        )
        for job in beginning.jobs
    }
    continuation = Continuation(cluster, beginning, jobs)
    world = World(cluster, continuation, seed, is_recorded=False)
    runs = [world.runs[key] for key in asked]
    for run in runs:
        if run.run_from is None:
            run.first_run_at = None  # of whoever ran before, the next start counts
    waiting = [run for run in runs if run.first_run_at is None]
    waits_for_all = number < WHOLE_RUNS or len(waiting) < LINE_MIN
    left = 0 if waits_for_all else len(waiting) // LAST_OF
    is_over, was_cut, since = _have_started(waiting, left), False, beginning.at
    while waiting and since < until:
        end = min(since + DAY_S, until)  # who comes is drawn no further than the run goes
        if question.others_come:
            coming = situation.arrivals.drawn(since, end, rule, luck, seed)
            world.expect(continuation.extend(coming))
        came_to_rest = world.run(end, is_over=is_over)
        if came_to_rest or world.now < end:
            was_cut = bool(left) and not came_to_rest
            break
        since = end
    return {run.key: _times(run) for run in runs if not was_cut or _has_started(run)}


def _have_started(waiting: list[JobRun], left: int) -> Callable[[], bool]:
    """Whether all of them have, but for so many; who has is dropped from the list."""
    moments = 0

    def is_over() -> bool:
        nonlocal moments
        moments += 1
        while waiting and _has_started(waiting[-1]):
            waiting.pop()
        if left and moments % MOMENTS_BETWEEN_COUNTS == 0:
            waiting[:] = [run for run in waiting if not _has_started(run)]
        return len(waiting) <= left

    return is_over


def _has_started(run: JobRun) -> bool:
    return run.first_run_at is not None or run.ended_at is not None


def _times(run: JobRun) -> Times:
    start = inf if run.first_run_at is None else run.first_run_at
    if run.ended_at is not None:
        return start, run.ended_at
    if run.run_from is None:
        return start, inf
    return start, run.run_from + (run.job.run_s - run.done_s) / run.speed


def quantiles(values: Sequence[float]) -> Range:
    """Of a few draws, so that the next one is within p10 and p90 in 80 of 100 cases."""
    ordered = sorted(values)
    return Range(*(_at(ordered, share) for share in (0.1, 0.5, 0.9)))


def _at(ordered: Sequence[float], share: float) -> float:
    place = min(max(share * (len(ordered) + 1) - 1.0, 0.0), len(ordered) - 1.0)
    low = int(place)
    a, b = ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    return a if a == b or place == low else a + (place - low) * (b - a)

"""CPU seconds of one forecast: so many wait, two weeks of the past are known, 20 runs.

Ten queues in a cohort share 400 GPUs, of which four fifths are in use on average; then a thousand
jobs come at once, and others keep coming as before. `--quick` has a tenth of everything.
"""

from __future__ import annotations

import sys
import time
from random import Random

from benchmarks.bench_sim import cluster_of
from makeway.forecast.arrivals import DAY_S, Arrivals
from makeway.forecast.forecasting import RUNS, Question, Situation, forecast
from makeway.forecast.judging import JudgeSettings, Learner
from makeway.sim.trace_jobs import GPUS, Trace, TraceJob
from makeway.sim.world import World

GPU = "nvidia.com/gpu"
QUEUES = [f"q{n}" for n in range(10)]
DAYS = 14
MEAN_RUN_S = 4 * 3600.0
MEAN_GPUS = 2
LOAD = 0.8  # of the GPUs, on average


def jobs(gpus: int, waiting: int) -> list[TraceJob]:
    """Two weeks as usual, and then more at once than the GPUs can take."""
    draws = Random(1)
    per_day = LOAD * gpus * DAY_S / MEAN_RUN_S / MEAN_GPUS
    times = [draws.uniform(0, DAYS * DAY_S) for _ in range(int(DAYS * per_day))]
    times += [DAYS * DAY_S - draws.uniform(0, 60) for _ in range(waiting + gpus // 20)]
    return [
        TraceJob(
            name=f"{draws.choice(('train', 'eval', 'sweep'))}-{n}",
            queue=draws.choice(QUEUES),
            submit_s=at,
            run_s=draws.gammavariate(0.7, MEAN_RUN_S / 0.7),
            amounts=((GPUS, draws.choice((1, 1, 2, 4))),),
            user=f"user-{draws.randrange(30)}",
        )
        for n, at in enumerate(sorted(times))
    ]


def situation(gpus: int, waiting: int) -> Situation:
    share = gpus // len(QUEUES)
    cluster = cluster_of(GPU, {name: {"a100": share} for name in QUEUES})
    trace = Trace(source="benchmark", layout="", jobs=tuple(jobs(gpus, waiting)), rows=0)
    world = World(cluster, trace)
    world.run(DAYS * DAY_S)
    return Learner(world, JudgeSettings()).situation()


def main(arguments: list[str]) -> None:
    part = 10 if "--quick" in arguments else 1
    print(f"{'waiting':>8} {'running':>8} {'arrivals/day':>13} {'runs':>5} {'CPU s':>7}")
    for waiting in (100 // part, 1000 // part):
        found = situation(400 // part, waiting)
        keys = [job.workload.key for job in found.beginning.jobs]
        in_line = [j for j in found.beginning.jobs if j.status.assignment is None]
        arrivals: Arrivals = found.arrivals
        began = time.process_time()
        forecast(found, Question(asked=keys))
        took_s = time.process_time() - began
        per_day = sum(map(len, arrivals.by_queue.values())) / DAYS
        running = len(keys) - len(in_line)
        print(f"{len(in_line):>8} {running:>8} {per_day:>13.0f} {RUNS:>5} {took_s:>7.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])

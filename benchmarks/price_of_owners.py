"""What the gate OwnersFirst costs and gains on the Philly trace, with and without reclamation.

`python -m benchmarks.price_of_owners TRACE [JOBS]` plays the first jobs (8 000 unless told) on the
cluster of `bench_sim.py`, four times, and prints the table of docs/laws.md. The figures are of the
simulated world, so they are the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.bench_sim import philly_cluster
from makeway.sim.result import Result
from makeway.sim.simulate import simulate
from makeway.sim.statistics import wait_of
from makeway.sim.trace_jobs import GPUS, Trace
from makeway.sim.traces import read_trace

JOBS = 8_000
LARGE = 8  # GPUs; who asks for more is one of few, and most often inside its own quota
COLUMNS = (
    *("wait", "p95", "wait and lost work", "1 GPU waits", f"> {LARGE} GPUs wait"),
    *("preemptions", "GPUs busy", "makespan"),
)


def figures(result: Result) -> tuple[str, ...]:
    wait = result.wait()
    return (
        f"{wait.mean:.0f} s",
        f"{wait.p95:.0f} s",
        f"{fmean(delays(result)):.0f} s",
        f"{_mean_wait(result, 1, 1):.0f} s",
        f"{_mean_wait(result, LARGE + 1, 1 << 30):.0f} s",
        str(result.preemptions),
        f"{_busy(result):.0f}",
        f"{result.makespan.seconds / 86400:.2f} d",
    )


def delays(result: Result) -> list[float]:
    """What each job took beyond its run time: waiting, and work that it had to do again."""
    return [
        run.ended_at - run.job.submit_s - run.job.run_s
        for run in result.runs
        if run.ended_at is not None
    ]


def _mean_wait(result: Result, least: int, most: int) -> float:
    return fmean(
        wait_of(run, result.end)
        for run in result.runs
        if least <= dict(run.job.amounts)[GPUS] <= most
    )


def _busy(result: Result) -> float:
    """On average until the last job is submitted; what comes then is the end of a few long ones."""
    submitted = [run.job.submit_s for run in result.runs]
    first, last = min(submitted), max(submitted)
    used = sum(
        max(0.0, min(end, last) - start) * value
        for steps in result.record.busy.values()
        for start, end, value in steps.pieces(last)
    )
    return used / (last - first)


def play(trace: Trace, reclaim: str, is_on: bool, jobs: int) -> Result:
    cluster = philly_cluster(trace, reclaim)  # quotas of the whole log, whatever is played
    return simulate(cluster, trace, jobs=jobs, gates={"OwnersFirst": is_on})


def main(arguments: Sequence[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        print("usage: python -m benchmarks.price_of_owners TRACE [JOBS]", file=sys.stderr)
        return 2
    trace = read_trace(Path(arguments[0]))
    jobs = int(arguments[1]) if len(arguments) > 1 else JOBS
    print(f"| reclaim | owners first | {' | '.join(COLUMNS)} |")
    print("|---|---|" + "---:|" * len(COLUMNS))
    for reclaim in ("Any", "Never"):
        for is_on in (False, True):
            row = " | ".join(figures(play(trace, reclaim, is_on, jobs)))
            print(f"| {reclaim} | {'on' if is_on else 'off'} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

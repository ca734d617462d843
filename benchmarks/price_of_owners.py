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
from makeway.sim.trace_jobs import Trace
from makeway.sim.traces import read_trace

JOBS = 8_000
COLUMNS = ("wait", "p95", "wait and lost", "p95", "preemptions", "lost GPU h", "makespan")


def delays(result: Result) -> list[float]:
    """What each job took beyond its run time: waiting, and work that it had to do again."""
    return sorted(
        run.ended_at - run.job.submit_s - run.job.run_s
        for run in result.runs
        if run.ended_at is not None
    )


def figures(result: Result) -> tuple[str, ...]:
    wait, beyond = result.wait(), delays(result)
    return (
        f"{wait.mean:.0f} s",
        f"{wait.p95:.0f} s",
        f"{fmean(beyond):.0f} s",
        f"{beyond[len(beyond) * 95 // 100]:.0f} s",
        str(result.preemptions),
        f"{result.work.lost / 3600:.0f}",
        f"{result.makespan.seconds / 86400:.2f} d",
    )


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

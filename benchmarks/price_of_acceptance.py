"""What a minimum run time and an order by work lost cost and gain.

`python -m benchmarks.price_of_acceptance` plays the example `thrash`; with a file, the first jobs
of the Philly trace (15 000 unless told) on the cluster of `bench_sim.py`. Both three times: with
today's defaults, with a minimum run time, and with the order by least work lost. It prints the
tables of docs/accepted-preemption.md. The figures are of the simulated world, so they are the same
on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.bench_sim import philly_cluster
from benchmarks.price_of_owners import delays
from makeway.sim.examples import load_example, load_variant
from makeway.sim.result import Result
from makeway.sim.simulate import simulate
from makeway.sim.traces import read_trace

JOBS = 15_000
SCENARIOS = {
    "today's defaults": "",
    "an hour of run time granted": ", minRuntimeSeconds: 3600",
    "least work lost first": ", workloadSorting: [ByLeastWorkLost]",
}
VARIANTS = ("", "thrash-min-runtime", "thrash-least-lost")
COLUMNS = ("work lost", "preemptions", "mean wait", "p95 wait", "wait and lost work")


def figures(result: Result) -> tuple[str, ...]:
    wait = result.wait()
    return (
        f"{result.work.lost / 3600:.0f} GPU h",
        str(result.preemptions),
        f"{wait.mean / 60:.1f} min",
        f"{wait.p95 / 60:.1f} min",
        f"{fmean(delays(result)) / 60:.1f} min",
    )


def thrash() -> Iterator[tuple[str, Result]]:
    cluster, trace = load_example("thrash")
    for scenario, variant in zip(SCENARIOS, VARIANTS, strict=True):
        yield scenario, simulate(load_variant(variant) if variant else cluster, trace)


def philly(file: str, jobs: int) -> Iterator[tuple[str, Result]]:
    trace = read_trace(Path(file))
    for scenario, fields in SCENARIOS.items():
        yield scenario, simulate(philly_cluster(trace, f"Any{fields}"), trace, jobs=jobs)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) > 2:
        print("usage: python -m benchmarks.price_of_acceptance [TRACE [JOBS]]", file=sys.stderr)
        return 2
    jobs = int(arguments[1]) if len(arguments) > 1 else JOBS
    played = philly(arguments[0], jobs) if arguments else thrash()
    print(f"| | {' | '.join(COLUMNS)} |")
    print("|---|" + "---:|" * len(COLUMNS))
    for scenario, result in played:
        print(f"| {scenario} | {' | '.join(figures(result))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

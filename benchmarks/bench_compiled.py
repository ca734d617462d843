"""What a compiled engine saves: the same work by both engines, in turns, in CPU seconds.

Every run is a process of its own, and the best of three counts. Both have to come to the same: the
same starts, ends, flavors, attempts and victims of each job, and the same forecast. If they don't,
this fails. `--quick` runs a part of the work, once. `make bench-compiled` builds what it needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench_forecast import situation
from benchmarks.bench_sim import PHILLY, philly_cluster
from makeway.cli.version import is_engine_compiled
from makeway.forecast.forecasting import Question, forecast
from makeway.sim.listing import job_lines
from makeway.sim.simulate import simulate
from makeway.sim.traces import read_trace

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = {False: ROOT / ".venv/bin/python", True: ROOT / "build/compiled/bin/python"}
RUNS = 3


class Run(NamedTuple):
    is_compiled: bool
    cpu_s: float
    came_to: str  # a digest


def philly(is_quick: bool) -> tuple[float, str]:
    trace = read_trace(PHILLY)
    cluster = philly_cluster(trace)
    began = time.process_time()
    result = simulate(cluster, trace, jobs=2_000 if is_quick else 8_000)
    return time.process_time() - began, "".join(job_lines(result))


def ahead(is_quick: bool) -> tuple[float, str]:
    found = situation(*((40, 100) if is_quick else (400, 1_000)))
    asked = Question(asked=[job.workload.key for job in found.beginning.jobs])
    began = time.process_time()
    answer = forecast(found, asked)
    return time.process_time() - began, repr(answer)


CASES: dict[str, Callable[[bool], tuple[float, str]]] = {
    "simulation of Philly's log": philly,
    "forecast of 20 runs": ahead,
}


def run(case: str, is_quick: bool) -> Run:
    cpu_s, came_to = CASES[case](is_quick)
    return Run(is_engine_compiled(), cpu_s, sha256(came_to.encode()).hexdigest())


def run_by(is_compiled: bool, case: str, is_quick: bool) -> Run:
    words = [str(PYTHONS[is_compiled]), "-m", "benchmarks.bench_compiled", f"--case={case}"]
    words += ["--quick"] if is_quick else []
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found = Run(*json.loads(done.stdout))
    assert found.is_compiled == is_compiled, f"{words[0]} has the other engine"
    return found


def compare(case: str, is_quick: bool) -> None:
    turns = 1 if is_quick else RUNS
    runs = [run_by(is_compiled, case, is_quick) for _ in range(turns) for is_compiled in PYTHONS]
    assert len({found.came_to for found in runs}) == 1, f"{case}: the engines decide differently"
    pure, compiled = (
        min(found.cpu_s for found in runs if found.is_compiled == which) for which in PYTHONS
    )
    print(f"  {case:<30}{pure:>10.2f}{compiled:>10.2f}{pure / compiled:>10.2f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    is_quick = "--quick" in arguments
    for argument in arguments:
        if argument.startswith("--case="):
            print(json.dumps(run(argument.removeprefix("--case="), is_quick)))
            return
    print("CPU seconds; the same came of both")
    print(f"  {'case':<30}{'pure':>10}{'compiled':>10}{'times':>10}")
    for case in CASES:
        compare(case, is_quick)


if __name__ == "__main__":
    main(sys.argv[1:])

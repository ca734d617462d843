"""`python -m benchmarks [--quick]`: one table per room that has something to measure."""

from __future__ import annotations

import sys
from importlib import import_module

ROOMS = (
    *("bench_engine", "bench_placement", "bench_store", "bench_journal", "bench_sim"),
    "bench_forecast",
)


def main(arguments: list[str]) -> None:
    if "--quick" in arguments:
        arguments = [*arguments, "--small"]  # what bench_placement calls it
    for room in ROOMS:
        import_module(f"benchmarks.{room}").main(arguments)
        print()


if __name__ == "__main__":
    main(sys.argv[1:])

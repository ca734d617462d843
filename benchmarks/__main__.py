"""`python -m benchmarks [--quick]`: one table per room that has something to measure."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

ROOMS = ("bench_engine", "bench_placement", "bench_store")


def main(arguments: list[str]) -> None:
    if "--quick" in arguments:
        arguments = [*arguments, "--small"]  # what bench_placement calls it
    for room in ROOMS:
        name = f"benchmarks.{room}"
        if find_spec(name) is not None:
            import_module(name).main(arguments)
            print()


if __name__ == "__main__":
    main(sys.argv[1:])

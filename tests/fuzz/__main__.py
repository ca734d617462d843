"""A search for texts that break a parser, guided by which lines they reach (atheris).

python -m tests.fuzz PARSER RUNS
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # `make fuzz` brings it

with atheris.instrument_imports(include=["makeway"]):
    from tests.fuzz.parsers import PARSERS, read


def main() -> None:
    name, runs = sys.argv[1:3]

    def one(data: bytes) -> None:
        read(name, data)

    with tempfile.TemporaryDirectory() as folder:
        for number, example in enumerate(PARSERS[name].examples):
            (Path(folder) / str(number)).write_bytes(example)
        options = [f"-runs={runs}", "-max_len=2048", "-timeout=20", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *options, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()

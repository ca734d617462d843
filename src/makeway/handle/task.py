"""What the job of a function runs: `python -m makeway.handle.task PATH`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from makeway.handle.calls import run_call

INDEX_VARIABLE = "MAKEWAY_ARRAY_INDEX"


def main() -> int:
    path = Path(sys.argv[1])
    index = os.environ.get(INDEX_VARIABLE)
    return 0 if run_call(path if index is None else path.with_name(f"{path.name}-{index}")) else 1


if __name__ == "__main__":
    sys.exit(main())

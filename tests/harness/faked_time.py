"""`makeway up` and its supervisors on a wall clock of the test's, which is set while they run.

By libfaketime. The clock that nobody sets goes on as it is, and jobs see the machine's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.process import Up
from tests.prerequisites import missing

_PLACES = ("faketime/libfaketime.so.1", "*/faketime/libfaketime.so.1")
# Supervisors begin with an empty environment: what makes their clock ours is handed to them.
_PROGRAM = """
import os, sys
from makeway.runner import local
names = ("LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE", "FAKETIME_CACHE_DURATION")
names += ("FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT")
local.SURROUNDINGS |= {name: os.environ[name] for name in names}
from makeway.cli.main import main
sys.exit(main())
"""


def library() -> Path | None:
    return next((found for place in _PLACES for found in Path("/usr/lib").glob(place)), None)


class FakedUp(Up):
    def __init__(self, folder: Path, *options: str) -> None:
        self._setting = folder.with_suffix(".time")
        surroundings = {
            "LD_PRELOAD": str(library() or missing("libfaketime is not installed")),
            "FAKETIME_TIMESTAMP_FILE": str(self._setting),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        super().__init__(folder, *options, program=("-c", _PROGRAM), surroundings=surroundings)
        self.set_clock(0)

    def set_clock(self, step_s: int) -> None:
        """So many seconds ahead of the true time, or behind it; seen within a second."""
        new = self._setting.with_suffix(".new")
        new.write_text(f"{step_s:+d}\n")
        os.replace(new, self._setting)

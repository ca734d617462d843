"""stop the Makeway that runs on this machine; its jobs go on

Stop the Makeway that serves a data folder, wherever it was started. Jobs that run
go on, and are found again by the next `makeway up`. To end jobs, cancel them first.

examples:
  makeway down
  makeway cancel --all && makeway down
  sudo makeway down --system             # the one for every account

exit codes:
  0  stopped     1  none was running     2  it would not stop
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from makeway.cli.command import RequestRefused, UsageError
from makeway.client.folder import default_folder
from makeway.system.paths import Paths

END_MAX_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")
    parser.add_argument("--system", action="store_true", help="that of `makeway up --system`")
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        default=Path("/"),
        help="with --system: the folder where etc, var and run are (default: /)",
    )


def run(arguments: argparse.Namespace) -> int:
    folders = [arguments.data_dir or default_folder()]
    if arguments.system:
        paths = Paths(arguments.root.resolve())
        folders = [paths.data, paths.starter_run]
        if os.geteuid() != 0:
            raise UsageError("the Makeway of every account is root's: `sudo makeway down --system`")
    found = [(folder, pid) for folder in folders if (pid := holder_of(folder)) is not None]
    if not found:
        raise RequestRefused(f"no makeway runs on {folders[0]}")
    for folder, pid in found:
        _end(folder, pid)
    print("makeway has stopped; jobs that run go on")
    return 0


def _end(folder: Path, pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it ended with the other one
    except PermissionError:
        raise UsageError(f"process {pid} on {folder} belongs to somebody else") from None
    deadline = time.monotonic() + END_MAX_S
    while holder_of(folder) == pid:
        if time.monotonic() > deadline:
            raise UsageError(f"process {pid} has not stopped within {END_MAX_S:.0f} s")
        time.sleep(0.05)


def holder_of(folder: Path) -> int | None:
    """The process that serves a folder; None: there is none."""
    import fcntl

    try:
        descriptor = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else None
    finally:
        os.close(descriptor)
    return None

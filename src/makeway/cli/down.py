"""`makeway down`: end the Makeway that serves a folder."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from makeway.cli.command import Command, RequestRefused, UsageError
from makeway.client.kubeconfig import default_folder

END_MAX_S = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data folder of `makeway up`")


def run(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.data_dir or default_folder()
    pid = holder_of(folder)
    if pid is None:
        raise RequestRefused(f"no makeway runs on {folder}")
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise UsageError(f"process {pid} on {folder} belongs to somebody else") from None
    deadline = time.monotonic() + END_MAX_S
    while holder_of(folder) is not None:
        if time.monotonic() > deadline:
            raise UsageError(f"process {pid} has not stopped within {END_MAX_S:.0f} s")
        time.sleep(0.05)
    print("makeway has stopped; jobs that run go on")
    return 0


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


COMMAND = Command(
    name="down",
    summary="stop the Makeway that runs on this machine; its jobs go on",
    description="""\
Stop the Makeway that serves a data folder, wherever it was started. Jobs that run
go on, and are found again by the next `makeway up`. To end jobs, cancel them first.
""",
    examples="""\
examples:
  makeway down
  makeway cancel --all && makeway down

exit codes:
  0  stopped     1  none was running     2  it would not stop
""",
    add_arguments=add_arguments,
    run=run,
)
